//! Asking the person behind a client, in the way that its protocol has for it.
//!
//! Up to 2025-11-25 the server sends a request of its own and waits. From 2026-07-28 on the call ends with a question,
//! and the client makes it again with the answer.

use std::collections::BTreeMap;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams,
    ElicitationAction, ElicitationSchema, InputRequest, InputRequiredResult, ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use stead_core::ErrorKind;
use stead_core::tools::{ApprovalAnswer, ApprovalQuestion, Failure};

use crate::live_stead::LiveStead;

/// What came of asking.
pub(super) enum ApprovalOutcome {
    /// The person has answered.
    Answered(ApprovalAnswer),
    /// The client is to ask, and to call again.
    AskClient(InputRequiredResult),
    /// So many questions are open that there is no use in another one.
    TooManyOpen(Failure),
}

/// Whether there is anybody to ask.
pub(super) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
    // A client that says nothing of forms has them; one that has only URLs says so.
    elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// Tells one call from all others, by its tool and its arguments.
pub(super) fn call_hash(request: &CallToolRequestParams) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    serde_json::to_writer(&mut hasher, &(&request.name, &request.arguments))
        .expect("what was read as JSON can be written as JSON");
    hasher.finalize()
}

/// What the client says that the person answered, if this is the second time that it calls.
pub(super) fn answer_from_client(request: &CallToolRequestParams, served: &LiveStead) -> ApprovalAnswer {
    let Some(answers) = &request.input_responses else { return ApprovalAnswer::NotAsked };
    let call = call_hash(request);
    for (name, answer) in answers {
        // A question that is not open any more is asked again.
        if let Some(question) = served.pending_approvals().take(name, call) {
            return match answer.get("action").and_then(|action| action.as_str()) {
                Some("accept") => question.approve(),
                _ => ApprovalAnswer::Refused,
            };
        }
    }
    ApprovalAnswer::NotAsked
}

/// Asks the person.
pub(super) async fn ask_person(
    question: ApprovalQuestion,
    request: &CallToolRequestParams,
    served: &LiveStead,
    context: &RequestContext<RoleServer>,
) -> ApprovalOutcome {
    let form = ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question.text.clone(),
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    });
    let time = served.limits().answer_timeout;
    if context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
        let name = served.pending_approvals().defer(question, call_hash(request), time);
        let requests = BTreeMap::from([(name, InputRequest::Elicitation(form))]);
        return ApprovalOutcome::AskClient(InputRequiredResult::from_input_requests(requests));
    }
    let Some(_open) = served.pending_approvals().begin_waiting() else {
        return ApprovalOutcome::TooManyOpen(Failure::new(
            ErrorKind::Unavailable,
            "too many questions are open already: let the person answer some of them, then call again",
        ));
    };
    let options = PeerRequestOptions::with_timeout(time);
    let asked = context.peer.send_request_with_option(ServerRequest::ElicitRequest(form), options).await;
    // No answer is no agreement.
    let Ok(asked) = asked else { return ApprovalOutcome::Answered(ApprovalAnswer::Refused) };
    let id = asked.id.clone();
    let answer = tokio::select! {
        answer = asked.await_response() => answer,
        () = context.ct.cancelled() => {
            // Nobody waits for the answer any more, so nobody has to give one.
            let why = Some("the call was cancelled".to_owned());
            let withdrawn = CancelledNotificationParam::new(Some(id), why);
            let _ = context.peer.notify_cancelled(withdrawn).await;
            return ApprovalOutcome::Answered(ApprovalAnswer::Refused);
        }
    };
    ApprovalOutcome::Answered(match answer {
        Ok(ClientResult::ElicitResult(answer)) if answer.action == ElicitationAction::Accept => {
            question.approve()
        }
        _ => ApprovalAnswer::Refused,
    })
}
