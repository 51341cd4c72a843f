//! Answers the MCP requests of one identity's clients.

use std::sync::Arc;
use std::time::Instant;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorData,
    Extensions, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
    InitializeRequestParams, InitializeResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt, PromptMessage,
    ReadResourceRequestParams, ReadResourceResponse, Role, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use stead::Identity;
use stead_core::tools::{ApprovalAnswer, ApprovalQuestion, OfferedWhen, Reply, ResultFormat};
use tracing::{Instrument, field};

use super::call::{McpCallError, run_call};
use super::client_subscriptions::ClientSubscriptions;
use super::elicitation::ApprovalOutcome;
use super::{convert, elicitation, methods, resources};
use crate::in_place::in_place;
use crate::live_stead::LiveStead;

/// The name of the prompt that returns the Filesystem Map.
const MAP_PROMPT: &str = "filesystem_map";
/// How long clients may cache a list, in milliseconds. Clients that listen are notified of a change at once.
pub(super) const CACHE_TTL_MS: u64 = 5_000;

/// How many times a person is asked about one call.
const MAX_APPROVAL_ROUNDS: usize = 4;

/// Answers one connection or, where there are no connections, one request of one identity.
#[derive(Debug, Clone)]
pub(crate) struct McpHandler {
    live_stead: Arc<LiveStead>,
    subscriptions: Arc<ClientSubscriptions>,
}

impl McpHandler {
    /// A handler for this identity.
    pub(crate) fn new(live_stead: Arc<LiveStead>) -> Self {
        McpHandler { subscriptions: Arc::new(ClientSubscriptions::new(Arc::clone(&live_stead))), live_stead }
    }

    /// The result format: structured if the server, the agent or the token of this request asks for it.
    fn results(&self, extensions: &Extensions) -> ResultFormat {
        let request = extensions.get::<http::request::Parts>();
        let token_format = request.and_then(|parts| parts.extensions.get::<ResultFormat>()).copied();
        self.live_stead.results().or(token_format.unwrap_or_default())
    }

    async fn call_with_approval(
        &self,
        mut request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !self.live_stead.current().toolbox.may_need_approval() || !elicitation::can_ask(context) {
            let arguments = request.arguments.take().unwrap_or_default();
            return self
                .call_without_asking(&request.name, arguments, context, ApprovalAnswer::NobodyToAsk)
                .await;
        }
        let mut answer = elicitation::answer_from_client(&request, &self.live_stead);
        // While the person decides, a path may come to lead elsewhere. Then the person is asked about the new target.
        for _ in 0..MAX_APPROVAL_ROUNDS {
            let arguments = request.arguments.clone().unwrap_or_default();
            let question = match self.call_once(&request.name, arguments, context, answer).await? {
                Ok(reply) => return Ok(convert::result(reply, self.results(&context.extensions)).into()),
                Err(question) => question,
            };
            answer = match elicitation::ask_person(question, &request, &self.live_stead, context).await {
                ApprovalOutcome::Answered(answer) => answer,
                ApprovalOutcome::AskClient(input_required) => return Ok(input_required.into()),
                ApprovalOutcome::TooManyOpen(failure) => {
                    return Ok(convert::result(failure.into(), self.results(&context.extensions)).into());
                }
            };
        }
        self.call_without_asking(
            &request.name,
            request.arguments.unwrap_or_default(),
            context,
            ApprovalAnswer::Refused,
        )
        .await
    }

    /// Calls a tool with an answer after which the toolbox asks no further question.
    async fn call_without_asking(
        &self,
        name: &str,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
        answer: ApprovalAnswer,
    ) -> Result<CallToolResponse, ErrorData> {
        let reply = self.call_once(name, arguments, context, answer).await?;
        Ok(convert::result(reply.expect("no question is asked"), self.results(&context.extensions)).into())
    }

    /// Refuses a call whose arguments aren't an object. The model reads this as a tool's failure, like any other
    /// mistake in the arguments.
    async fn refuse_arguments(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let reply =
            run_call(&self.live_stead, context, |view, _| view.toolbox.refuse_arguments(name)).await?;
        Ok(convert::result(reply, self.results(&context.extensions)))
    }

    /// Calls a tool. Returns the question if a person has to approve it first.
    async fn call_once(
        &self,
        name: &str,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
        answer: ApprovalAnswer,
    ) -> Result<Result<Reply, ApprovalQuestion>, ErrorData> {
        let started = Instant::now();
        // A name that a client invented must not become a label of the metrics.
        let tool = stead_core::tools::tool(name);
        let label = tool.map_or("unknown", |tool| tool.name);
        let Identity { agent, thread, .. } = self.live_stead.identity();
        let span = tracing::info_span!("tool call", tool = label, agent, thread, outcome = field::Empty);
        let result = run_call(&self.live_stead, context, |view, monitor| {
            let reply = view.toolbox.with_monitor(Arc::clone(monitor)).call(name, arguments, answer);
            if tool.is_some_and(|tool| tool.offered == OfferedWhen::WithForks && tool.is_mutating()) {
                // The answer says where the new fork is, and the next call uses it.
                self.live_stead.refresh_forks();
            }
            reply
        });
        let result = match result.instrument(span.clone()).await {
            Err(McpCallError::Refused(failure)) => Ok(Ok(failure.into())),
            result => result,
        };
        let outcome = match &result {
            Ok(Ok(Reply { failure: Some(failure), .. })) => failure.kind.code(),
            Ok(Ok(_)) => "ok",
            Ok(Err(_)) => "asked",
            Err(McpCallError::Cancelled) => "cancelled",
            Err(_) => "broken",
        };
        span.record("outcome", outcome);
        let duration = started.elapsed();
        tracing::info!(parent: &span, micros = duration.as_micros() as u64, "ended");
        self.live_stead.metrics().count_call(label, outcome, duration);
        let result = result?;
        if let Ok(Reply { failure: Some(failure), .. }) = &result
            && tool.is_none()
        {
            // An unknown tool is a protocol error of the client, not a failed result of a tool.
            return Err(convert::error(failure));
        }
        Ok(result)
    }
}

/// The tool's name, if this is a call of a known tool whose arguments aren't an object.
fn malformed_call(request: &CustomRequest) -> Option<&str> {
    let params = request.params.as_ref().filter(|_| request.method == "tools/call")?;
    let name = params.get("name")?.as_str()?;
    stead_core::tools::tool(name)?;
    params.get("arguments").filter(|arguments| !arguments.is_object()).map(|_| name)
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .build();
        let implementation = Implementation::new("stead", env!("CARGO_PKG_VERSION")).with_title("Stead");
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(self.live_stead.current().map())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        in_place(|| self.live_stead.renewed()).await;
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        in_place(|| self.live_stead.renewed()).await;
        let versions = self.supported_protocol_versions().into_owned();
        let result = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(result.with_ttl_ms(CACHE_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.subscriptions.notify_list_changes(&context.peer);
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let view = in_place(|| self.live_stead.renewed()).await;
        let results = self.results(&context.extensions);
        let tools = view.toolbox.offered().map(|tool| convert::tool(&view.toolbox, tool, results)).collect();
        Ok(ListToolsResult::with_all_items(tools)
            .with_ttl_ms(CACHE_TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let view = self.live_stead.current();
        let tool = view.toolbox.offered().find(|tool| tool.name == name)?;
        Some(convert::tool(&view.toolbox, tool, self.live_stead.results()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call_with_approval(request, &context).await
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let map = Prompt::new(MAP_PROMPT, Some("What you have access to, and with which tools."), None)
            .with_title("Filesystem Map");
        Ok(ListPromptsResult::with_all_items(vec![map])
            .with_ttl_ms(CACHE_TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != MAP_PROMPT {
            return Err(ErrorData::invalid_params(format!("the only prompt is `{MAP_PROMPT}`"), None));
        }
        let view = in_place(|| self.live_stead.renewed()).await;
        let message = PromptMessage::new_text(Role::User, view.map());
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        run_call(&self.live_stead, &context, |view, _| resources::list(view, cursor.as_deref())).await?
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let resource =
            run_call(&self.live_stead, &context, |view, _| resources::read(view, &request.uri)).await??;
        Ok(resource.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let subscribed =
            run_call(&self.live_stead, &context, |view, _| self.subscriptions.subscribe(view, request.uri))
                .await?;
        subscribed.map(|()| self.subscriptions.notify_file_changes(&context.peer))
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(self.subscriptions.accepted_filter(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.subscriptions.listen(context).await
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // The library also hands over requests of known methods here, if their parameters don't fit the method.
        if let Some(name) = malformed_call(&request) {
            let result = self.refuse_arguments(name, &context).await?;
            return Ok(CustomResult::new(serde_json::to_value(result).map_err(|error| {
                ErrorData::internal_error(format!("the answer can't be written: {error}"), None)
            })?));
        }
        Err(methods::rejected_method_error(&request.method, context.protocol_version().as_ref()))
    }
}
