//! The tools, prompts and resources that the official MCP conformance suite expects of a server.
//!
//! They are checked before the handler that every build has; everything else goes to that handler. So the suite tests
//! the real server, its transports and its dispatcher. Only builds with the feature `conformance` contain this.

// The suite still tests what newer protocol versions have deprecated.
#![allow(deprecated)]

mod input_rounds;
mod interactive_tools;
mod prompts_and_resources;
mod static_tools;

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CompleteRequestParams,
    CompleteResult, CompletionInfo, CustomRequest, CustomResult, DiscoverResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
    Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::handler::McpHandler;
use crate::live_stead::LiveStead;
use interactive_tools::LogThreshold;

/// The handler that every build has, with the suite's fixtures in front of it.
#[derive(Debug, Clone)]
pub(crate) struct ConformanceHandler {
    live_stead: Arc<LiveStead>,
    handler: McpHandler,
    /// The log level that a client up to 2025-11-25 has set.
    log_threshold: Arc<Mutex<LogThreshold>>,
}

impl ConformanceHandler {
    /// A handler for this identity.
    pub(crate) fn new(live_stead: Arc<LiveStead>) -> Self {
        ConformanceHandler {
            handler: McpHandler::new(Arc::clone(&live_stead)),
            live_stead,
            log_threshold: Arc::default(),
        }
    }

    async fn call_fixture(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = static_tools::static_result(&request.name) {
            return Ok(complete_result::<CallToolResult>(result).into());
        }
        if let Some(rounds) = input_rounds::rounds_of(&request.name) {
            let capabilities = context.client_capabilities().unwrap_or_default();
            let answers = request.input_responses.as_ref();
            return Ok(
                match rounds.next_request(answers, request.request_state.as_deref(), &capabilities)? {
                    Some(input_required) => input_required.into(),
                    None => complete_result::<CallToolResult>(static_tools::text_result(
                        "All questions are answered: state-ok.",
                    ))
                    .into(),
                },
            );
        }
        match &*request.name {
            "test_trigger_tool_change" => self.live_stead.announce_change(),
            "test_missing_capability" => {
                let declared = context.client_capabilities().unwrap_or_default();
                if declared.sampling.is_none() {
                    let required: ClientCapabilities = from_json(json!({ "sampling": {} }));
                    return Err(ErrorData::missing_required_client_capability(required));
                }
            }
            _ => return interactive_tools::call(request, context, &self.log_threshold).await.map(Into::into),
        }
        Ok(complete_result::<CallToolResult>(static_tools::text_result("Done.")).into())
    }
}

/// Parses a fixture, written as the JSON that the suite's documentation shows.
fn from_json<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("a fixture has the form of the protocol")
}

/// Parses a fixture that is a final result: no input is required after it.
fn complete_result<T: DeserializeOwned>(mut json: Value) -> T {
    json["resultType"] = "complete".into();
    from_json(json)
}

impl ServerHandler for ConformanceHandler {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.handler.get_info();
        info.capabilities.logging = Some(Default::default());
        info.capabilities.completions = Some(Default::default());
        info
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let mut result = self.handler.discover(context).await?;
        result.capabilities = self.get_info().capabilities;
        Ok(result)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.handler.on_initialized(context).await;
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut result = self.handler.list_tools(request, context).await?;
        result.tools.extend(static_tools::tools());
        result.tools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        static_tools::tools().find(|tool| tool.name == name).or_else(|| self.handler.get_tool(name))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if static_tools::tools().any(|tool| tool.name == request.name) {
            return self.call_fixture(&request, &context).await;
        }
        self.handler.call_tool(request, context).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut result = self.handler.list_prompts(request, context).await?;
        result.prompts.extend(prompts_and_resources::prompts());
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if let Some(rounds) = input_rounds::rounds_of(&request.name) {
            let capabilities = context.client_capabilities().unwrap_or_default();
            let (answers, state) = (request.input_responses.as_ref(), request.request_state.as_deref());
            if let Some(input_required) = rounds.next_request(answers, state, &capabilities)? {
                return Ok(input_required.into());
            }
        }
        match prompts_and_resources::prompt(&request.name, &request.arguments.clone().unwrap_or_default()) {
            Some(prompt) => Ok(prompt.into()),
            None => self.handler.get_prompt(request, context).await,
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut result = self.handler.list_resources(request, context).await?;
        result.resources.extend(prompts_and_resources::resources());
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut result = self.handler.list_resource_templates(request, context).await?;
        result.resource_templates.push(prompts_and_resources::resource_template());
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match prompts_and_resources::read_resource(&request.uri) {
            Some(resource) => Ok(resource.into()),
            None => self.handler.read_resource(request, context).await,
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // The fixture never changes, so no subscription is stored.
        if prompts_and_resources::read_resource(&request.uri).is_some() {
            return Ok(());
        }
        self.handler.subscribe(request, context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.handler.unsubscribe(request, context).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.handler.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.handler.listen(context).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let words = ["paris", "park", "party"].into_iter();
        let matching = words.filter(|word| word.starts_with(&request.argument.value));
        let completion = CompletionInfo::with_all_values(matching.map(str::to_owned).collect());
        Ok(CompleteResult::new(completion.expect("three values are within the limit")))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.log_threshold.lock() = LogThreshold::from(request.level);
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.handler.on_custom_request(request, context).await
    }
}
