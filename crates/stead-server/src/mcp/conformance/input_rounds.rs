//! Tools and a prompt that need input, in rounds: each call ends with questions until all of them are answered.

use std::sync::LazyLock;

use rmcp::model::{
    ClientCapabilities, ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses,
};
use serde_json::{Value, json};

use super::from_json;

/// The key that authenticates `requestState`, so that a client can't invent one.
static STATE_KEY: LazyLock<[u8; 32]> = LazyLock::new(|| {
    let mut key = [0; 32];
    getrandom::fill(&mut key).expect("the system's random number generator works");
    key
});

/// The questions of one tool or prompt, round by round.
pub(super) struct InputRounds {
    name: String,
    rounds: Vec<InputRequests>,
    /// Whether the client gets a `requestState` to send back.
    has_state: bool,
}

/// The rounds of a tool or prompt; `None` if it needs no input.
pub(super) fn rounds_of(name: &str) -> Option<InputRounds> {
    let user_name = json!({ "user_name": elicitation("What is your name?", "name", "string") });
    let confirm = json!({ "confirm": elicitation("Please confirm", "ok", "boolean") });
    let roots = json!({ "method": "roots/list", "params": {} });
    let (has_state, rounds) = match name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => (false, vec![user_name]),
        "test_input_required_result_sampling" => {
            (false, vec![json!({ "capital_question": sampling("What is the capital of France?") })])
        }
        "test_input_required_result_list_roots" => (false, vec![json!({ "client_roots": roots })]),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            (true, vec![confirm])
        }
        "test_input_required_result_multiple_inputs" => {
            let mut all = user_name;
            all["greeting"] = sampling("Generate a greeting");
            all["client_roots"] = roots;
            (true, vec![all])
        }
        "test_input_required_result_multi_round" => (
            true,
            vec![
                json!({ "step1": elicitation("Step 1: What is your name?", "name", "string") }),
                json!({ "step2": elicitation("Step 2: What is your favorite color?", "color", "string") }),
            ],
        ),
        "test_input_required_result_capabilities" => {
            let mut both = user_name;
            both["greeting"] = sampling("Generate a greeting");
            (false, vec![both])
        }
        "test_input_required_result_prompt" => (
            false,
            vec![
                json!({ "user_context": elicitation("What context should the prompt use?", "context", "string") }),
            ],
        ),
        _ => return None,
    };
    Some(InputRounds {
        name: name.to_owned(),
        rounds: rounds.into_iter().map(from_json).collect(),
        has_state,
    })
}

fn elicitation(message: &str, field: &str, kind: &str) -> Value {
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": {
        "type": "object", "properties": { field: { "type": kind } }, "required": [field],
    }}})
}

fn sampling(prompt: &str) -> Value {
    json!({ "method": "sampling/createMessage", "params": {
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": 100,
    }})
}

impl InputRounds {
    /// The next questions, or `None` if all are answered.
    pub(super) fn next_request(
        &self,
        answers: Option<&InputResponses>,
        state: Option<&str>,
        client: &ClientCapabilities,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        let round = match state {
            None => 0,
            Some(state) => (0..self.rounds.len())
                .find(|round| self.state_token(*round) == state)
                .ok_or_else(|| ErrorData::invalid_params("`requestState` isn't from this server", None))?,
        };
        let is_answered =
            |name: &String| answers.is_some_and(|answers| answers.get(name).is_some_and(Value::is_object));
        let round =
            if self.supported_requests(round, client).keys().all(is_answered) { round + 1 } else { round };
        if round == self.rounds.len() {
            return Ok(None);
        }
        let mut result = InputRequiredResult::from_input_requests(self.supported_requests(round, client));
        result.request_state = self.has_state.then(|| self.state_token(round));
        Ok(Some(result))
    }

    /// The questions of a round that the client is able to answer.
    fn supported_requests(&self, round: usize, client: &ClientCapabilities) -> InputRequests {
        let is_supported = |request: &InputRequest| match request {
            InputRequest::CreateMessage(_) => client.sampling.is_some(),
            InputRequest::Elicitation(_) => client.elicitation.is_some(),
            InputRequest::ListRoots(_) => client.roots.is_some(),
            _ => false,
        };
        self.rounds[round].clone().into_iter().filter(|(_, request)| is_supported(request)).collect()
    }

    fn state_token(&self, round: usize) -> String {
        let hash = blake3::keyed_hash(&STATE_KEY, format!("{} {round}", self.name).as_bytes());
        format!("{round}-{}", hash.to_hex())
    }
}
