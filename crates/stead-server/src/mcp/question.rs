//! Asking the person behind a client, in the way that its protocol has for it.
//!
//! Up to 2025-11-25 the server sends a request of its own and waits. From 2026-07-28 on the call ends with a question,
//! and the client makes it again with the answer.

use std::collections::BTreeMap;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequiredResult, ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use stead::Identity;
use stead_core::tools::Question;

use crate::served::Served;

/// What came of asking.
pub(super) enum Asked {
    /// The person agrees.
    Agreed,
    /// The person does not.
    Refused,
    /// The client has no way to ask.
    Nobody,
    /// The client is to ask, and to call again.
    Later(InputRequiredResult),
}

/// Names a question about one call of one identity, so that the answer to another can't be taken for it.
///
/// The key is this process's own: nobody can make up a name.
pub(super) struct Name(String);

impl Name {
    pub(super) fn of(key: &[u8; 32], identity: &Identity, request: &CallToolRequestParams) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(key);
        serde_json::to_writer(&mut hasher, &(identity, &request.name, &request.arguments))
            .expect("what was read as JSON can be written as JSON");
        Name(format!("agree-{}", &hasher.finalize().to_hex()[..32]))
    }

    /// What the client says that the person answered, if this is the second time that it calls.
    pub(super) fn answered(&self, request: &CallToolRequestParams) -> Option<Asked> {
        let answer = request.input_responses.as_ref()?.get(&self.0)?;
        Some(match answer.get("action").and_then(|action| action.as_str()) {
            Some("accept") => Asked::Agreed,
            _ => Asked::Refused,
        })
    }
}

/// Asks the person.
pub(super) async fn ask(
    question: &Question,
    name: Name,
    served: &Served,
    context: &RequestContext<RoleServer>,
) -> Asked {
    let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
    // A client that says nothing of forms has them; one that has only URLs says so.
    if !elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none()) {
        return Asked::Nobody;
    }
    let form = ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question.text.clone(),
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    });
    if context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
        let requests = BTreeMap::from([(name.0, InputRequest::Elicitation(form))]);
        return Asked::Later(InputRequiredResult::from_input_requests(requests));
    }
    let options = PeerRequestOptions::with_timeout(served.limits().answer);
    let asked = context.peer.send_request_with_option(ServerRequest::ElicitRequest(form), options).await;
    let answer = match asked {
        Ok(asked) => asked.await_response().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(ClientResult::ElicitResult(answer)) if answer.action == ElicitationAction::Accept => Asked::Agreed,
        // No answer is no agreement.
        _ => Asked::Refused,
    }
}
