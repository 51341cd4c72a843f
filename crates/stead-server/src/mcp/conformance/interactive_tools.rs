//! Tools of the suite that talk to the client while they run: they log, report progress, and ask in the way of the
//! protocol versions up to 2025-11-25.

use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientResult, CreateMessageRequestParams, ElicitRequest,
    ErrorData, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
    ServerRequest,
};
use rmcp::service::{RequestContext, ServiceError};
use serde_json::{Value, json};

use super::{complete_result, from_json, static_tools};

/// The pause between two messages, so that they arrive one by one.
const MESSAGE_PAUSE: Duration = Duration::from_millis(50);

/// The lowest log level that a client receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub(super) struct LogThreshold(u8);

impl From<LoggingLevel> for LogThreshold {
    fn from(level: LoggingLevel) -> Self {
        LogThreshold(level as u8)
    }
}

/// Calls one of these tools.
pub(super) async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    level: &Mutex<LogThreshold>,
) -> Result<CallToolResult, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref()?;
        Some(arguments.get(name)?.as_str()?.to_owned())
    };
    let output = match &*request.name {
        "test_tool_with_logging" | "test_logging_tool" => log(context, level).await,
        "test_tool_with_progress" => progress(context).await,
        "test_sampling" => sample(context, argument("prompt").unwrap_or_default()).await,
        "test_elicitation" => {
            let schema = json!({ "type": "object", "required": ["username", "email"], "properties": {
                "username": { "type": "string", "description": "User's response" },
                "email": { "type": "string", "description": "User's email address" },
            }});
            elicit(context, &argument("message").unwrap_or_default(), schema).await
        }
        "test_elicitation_sep1034_defaults" => elicit(context, "Check these", defaults_schema()).await,
        "test_elicitation_sep1330_enums" => elicit(context, "Choose", choices_schema()).await,
        name => return Err(ErrorData::invalid_params(format!("there is no fixture `{name}`"), None)),
    };
    let output = output.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(complete_result(static_tools::text_result(&output)))
}

async fn log(
    context: &RequestContext<RoleServer>,
    level: &Mutex<LogThreshold>,
) -> Result<String, ServiceError> {
    let is_modern =
        context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    // From 2026-07-28 on each request names the level that it wants. Without a level it gets no log messages.
    let threshold =
        if is_modern { context.meta.log_level().map(LogThreshold::from) } else { Some(*level.lock()) };
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if threshold.is_some_and(|threshold| LogThreshold::from(LoggingLevel::Info) >= threshold) {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, line.into());
            context.peer.notify_logging_message(message).await?;
        }
        tokio::time::sleep(MESSAGE_PAUSE).await;
    }
    Ok("It is logged.".to_owned())
}

async fn progress(context: &RequestContext<RoleServer>) -> Result<String, ServiceError> {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let param = ProgressNotificationParam::new(token, done).with_total(100.0);
            context.peer.notify_progress(param).await?;
        }
        tokio::time::sleep(MESSAGE_PAUSE).await;
    }
    Ok("It is done.".to_owned())
}

async fn sample(context: &RequestContext<RoleServer>, prompt: String) -> Result<String, ServiceError> {
    let params: CreateMessageRequestParams = from_json(json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": 100,
    }));
    let answer = context.peer.create_message(params).await?;
    Ok(format!("LLM response: {}", json!(answer.message.content)))
}

async fn elicit(
    context: &RequestContext<RoleServer>,
    message: &str,
    schema: Value,
) -> Result<String, ServiceError> {
    let form = from_json(json!({ "message": message, "requestedSchema": schema }));
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    Ok(match context.peer.send_request(request).await? {
        ClientResult::ElicitResult(answer) => format!(
            "Elicitation completed: action={}, content={}",
            json!(answer.action).as_str().unwrap_or_default(),
            json!(answer.content)
        ),
        _ => "The client answered something else.".to_owned(),
    })
}

fn defaults_schema() -> Value {
    json!({ "type": "object", "required": [], "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    }})
}

fn choices_schema() -> Value {
    let titled = |noun: &str| {
        json!([
            { "const": "value1", "title": format!("First {noun}") },
            { "const": "value2", "title": format!("Second {noun}") },
            { "const": "value3", "title": format!("Third {noun}") },
        ])
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({ "type": "object", "required": [], "properties": {
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    }})
}
