//! Asks the person behind a client to approve a call, in the way that the client's protocol version has.
//!
//! Up to 2025-11-25 the server sends a request of its own and waits. From 2026-07-28 on the call ends with a question,
//! and the client repeats the call with the answer.

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

/// The outcome of asking.
pub(super) enum ApprovalOutcome {
    /// The person has answered.
    Answered(ApprovalAnswer),
    /// The client has to ask the person and repeat the call.
    AskClient(InputRequiredResult),
    /// Too many questions are open already.
    TooManyOpen(Failure),
}

/// Whether the client can show a form to a person.
pub(super) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
    // A client that doesn't mention forms supports them. One that supports only URLs says so.
    elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// A hash of the tool and the arguments of a call.
pub(super) fn call_hash(request: &CallToolRequestParams) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    serde_json::to_writer(&mut hasher, &(&request.name, &request.arguments))
        .expect("a value from JSON can be written as JSON");
    hasher.finalize()
}

/// The person's answer that a repeated call carries; `NotAsked` if it carries none to an open question.
pub(super) fn answer_from_client(request: &CallToolRequestParams, live_stead: &LiveStead) -> ApprovalAnswer {
    let Some(responses) = &request.input_responses else { return ApprovalAnswer::NotAsked };
    let hash = call_hash(request);
    for (name, response) in responses {
        // If the question has expired, the person is asked again.
        if let Some(question) = live_stead.pending_approvals().take(name, hash) {
            return match response.get("action").and_then(|action| action.as_str()) {
                Some("accept") => question.approve(),
                _ => ApprovalAnswer::Refused,
            };
        }
    }
    ApprovalAnswer::NotAsked
}

/// Asks the person, or returns the question for the client to ask.
pub(super) async fn ask_person(
    question: ApprovalQuestion,
    request: &CallToolRequestParams,
    live_stead: &LiveStead,
    context: &RequestContext<RoleServer>,
) -> ApprovalOutcome {
    let form = ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question.text.clone(),
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    });
    let timeout = live_stead.limits().answer_timeout;
    if context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
        let name = live_stead.pending_approvals().defer(question, call_hash(request), timeout);
        let requests = BTreeMap::from([(name, InputRequest::Elicitation(form))]);
        return ApprovalOutcome::AskClient(InputRequiredResult::from_input_requests(requests));
    }
    let Some(_waiting) = live_stead.pending_approvals().acquire_waiting() else {
        return ApprovalOutcome::TooManyOpen(Failure::new(
            ErrorKind::Unavailable,
            "too many questions are open; call again after the person has answered some",
        ));
    };
    let options = PeerRequestOptions::with_timeout(timeout);
    let pending = context.peer.send_request_with_option(ServerRequest::ElicitRequest(form), options).await;
    // A question that can't be sent counts as refused, and so does one without an answer.
    let Ok(pending) = pending else { return ApprovalOutcome::Answered(ApprovalAnswer::Refused) };
    let id = pending.id.clone();
    let answer = tokio::select! {
        answer = pending.await_response() => answer,
        () = context.ct.cancelled() => {
            // The call is cancelled, so the question is withdrawn.
            let reason = Some("the call was cancelled".to_owned());
            let cancellation = CancelledNotificationParam::new(Some(id), reason);
            let _ = context.peer.notify_cancelled(cancellation).await;
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
