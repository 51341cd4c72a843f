//! An agent's tools: which ones are offered, and how a call runs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::audit::AuditOutcome;
use crate::error::{Error, ErrorKind};
use crate::monitor::CallMonitor;
use crate::organization::Folders;
use crate::scope::AccessScope;
use crate::tools::approval_question::{MergePreview, describe_change};
use crate::tools::folders::{FolderCall, claimed_agent_fact};
use crate::tools::managed::workspace;
use crate::tools::{
    ApprovalQuestion, Arguments, Failure, FieldType, ForkOperations, OfferedWhen, Reply, ResultFormat,
    Snapshots, TOOLS, Tool, ToolContext, tool,
};
use crate::vfs::{ApprovalItem, ApprovalRefusal, ApprovalRequest, CallEnd, ForkState, SymlinkRule, Vfs};

/// The configuration of an agent's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Offers only these tools; if `None`, all that the scopes make useful.
    pub only: Option<BTreeSet<String>>,
    /// Whether the history tools (such as `undo` and `restore`) are offered too.
    pub history: bool,
    /// Whether the tools for forks (such as `fork_workspace` and `merge_fork`) are offered too.
    pub forks: bool,
    /// The tools that need a person's approval before each call.
    pub ask: BTreeSet<String>,
    /// The format of results.
    pub results: ResultFormat,
}

/// The tools of one identity over its Workspaces.
///
/// Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Toolbox {
    vfs: Vfs,
    /// Whether some Workspace has calls that need a person's approval.
    workspace_asks: bool,
    /// The different scopes of the Workspaces.
    scopes: Vec<AccessScope>,
    choice: Arc<ToolChoice>,
    snapshots: Option<Arc<dyn Snapshots>>,
    forks: Option<Arc<dyn ForkOperations>>,
    folders: Option<Arc<Folders>>,
}

/// A person's answer to an approval question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ApprovalAnswer {
    /// Nobody has been asked yet.
    #[default]
    NotAsked,
    /// The person approves the items shown.
    Approved(ApprovalGrant),
    /// The person refuses.
    Refused,
    /// The host has no way to ask a person.
    NobodyToAsk,
}

/// What a person has approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalGrant {
    items: GrantedItems,
    /// For a merge: what the fork had changed when the person was shown it.
    fork_state: Option<ForkState>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum GrantedItems {
    Everything,
    /// These paths, with the access to each.
    Items(Vec<ApprovalItem>),
}

impl ApprovalGrant {
    /// Approves everything the call needs, from a person who knows what that is.
    pub fn everything() -> Self {
        ApprovalGrant { items: GrantedItems::Everything, fork_state: None }
    }

    /// Approves these paths, with the access to each. For a merge, `fork_state` is what the fork had changed when that was shown.
    pub(super) fn items(items: Vec<ApprovalItem>, fork_state: Option<ForkState>) -> Self {
        ApprovalGrant { items: GrantedItems::Items(items), fork_state }
    }
}

/// The tool whose description names the Workspaces; if it isn't offered, the first offered tool does. A caller that can
/// use it freely is also told which path it perhaps meant.
const LISTING_TOOL: &str = "list_directory";

impl Toolbox {
    /// The tools for these Workspaces.
    pub fn new(vfs: Vfs) -> Self {
        let is_present = |scope: &AccessScope| vfs.router().has_scope(*scope);
        let scopes = AccessScope::ALL.into_iter().filter(is_present).collect();
        let workspace_asks = vfs.router().asks();
        Toolbox {
            vfs,
            scopes,
            workspace_asks,
            choice: Arc::default(),
            snapshots: None,
            forks: None,
            folders: None,
        }
    }

    /// The same tools with this configuration.
    pub fn with_choice(self, choice: ToolChoice) -> Self {
        Toolbox { choice: Arc::new(choice), ..self }
    }

    /// The same tools with these snapshots.
    pub fn with_snapshots(self, snapshots: Arc<dyn Snapshots>) -> Self {
        Toolbox { snapshots: Some(snapshots), ..self }
    }

    /// The same tools with these forks.
    pub fn with_forks(self, forks: Arc<dyn ForkOperations>) -> Self {
        Toolbox { forks: Some(forks), ..self }
    }

    /// The same tools for an agent of an organization, with the folders that it discovers.
    pub fn with_folders(self, folders: Arc<Folders>) -> Self {
        Toolbox { folders: Some(folders), ..self }
    }

    /// The same tools for calls that this monitor follows.
    pub fn with_monitor(&self, monitor: Arc<dyn CallMonitor>) -> Self {
        Toolbox { vfs: self.vfs.with_monitor(monitor), ..self.clone() }
    }

    /// Whether the agent discovers folders: it belongs to an organization and has the tool for it.
    pub(crate) fn discovers_folders(&self) -> bool {
        self.folders.is_some() && tool("list_folders").is_some_and(|tool| self.offers(tool))
    }

    /// The offered tools, sorted by name. They depend only on the Workspaces and the configuration.
    pub fn offered(&self) -> impl Iterator<Item = &'static Tool> {
        TOOLS.into_iter().filter(|tool| self.offers(tool)).map(|tool| self.form_of(tool))
    }

    /// Whether a tool is offered.
    pub fn offers(&self, tool: &Tool) -> bool {
        let listed = self.choice.only.as_ref().map(|only| only.contains(tool.name));
        let chosen = match tool.offered {
            OfferedWhen::Always => listed.unwrap_or(true),
            OfferedWhen::WithHistory => listed.unwrap_or(false) || (self.choice.history && listed.is_none()),
            OfferedWhen::WithForks => listed.unwrap_or(false) || (self.choice.forks && listed.is_none()),
            OfferedWhen::WithState | OfferedWhen::WithManaged => listed.unwrap_or(true),
            OfferedWhen::InOrganization => listed.unwrap_or(false) && self.folders.is_some(),
        };
        let is_useful = match tool.offered {
            OfferedWhen::WithState => false,
            OfferedWhen::WithManaged => self.vfs.managed_workspaces().next().is_some(),
            _ => tool.is_useful_with(&self.scopes),
        };
        chosen && (is_useful || tool.works_on_state() && self.vfs.router().state().is_some())
    }

    /// The form of a tool for this caller: one that may write in no managed Workspace has the read-only form of `workspace`.
    fn form_of(&self, tool: &'static Tool) -> &'static Tool {
        let may_write =
            || self.vfs.managed_workspaces().any(|workspace| workspace.scope() == AccessScope::ReadWrite);
        match tool.offered {
            OfferedWhen::WithManaged if !may_write() => &workspace::READ_ONLY_TOOL,
            _ => tool,
        }
    }

    /// Whether files may be read as resources: an organization's agent needs `read_file` for that.
    pub fn offers_reading(&self) -> bool {
        let has_tool = || tool("read_file").is_some_and(|tool| self.offers(tool));
        self.folders.is_none() || (has_tool() && self.vfs.allows_tool("read_file"))
    }

    /// The format of results.
    pub fn results(&self) -> ResultFormat {
        self.choice.results
    }

    /// The description of a tool for this agent. One tool's description names the Workspaces: many hosts show a model
    /// nothing else of a server.
    pub fn description(&self, tool: &Tool) -> Cow<'static, str> {
        // Folders are discovered, and keys have no paths.
        let takes_no_path =
            |tool: &Tool| matches!(tool.offered, OfferedWhen::InOrganization | OfferedWhen::WithState);
        let mut with_paths = self.offered().filter(|tool| !takes_no_path(tool));
        let naming_tool = self.offered().find(|tool| tool.name == LISTING_TOOL).or_else(|| with_paths.next());
        if naming_tool.is_none_or(|naming_tool| naming_tool.name != tool.name) {
            return Cow::Borrowed(tool.description);
        }
        let workspaces = crate::filesystem_map::workspaces_sentence(&self.vfs);
        // The Workspaces go after the first sentence, which has to be complete alone, and before the text that some
        // hosts cut.
        match tool.description.split_once(". ") {
            Some((first, rest)) => Cow::Owned(format!("{first}. {workspaces} {rest}")),
            None => Cow::Owned(format!("{} {workspaces}", tool.description)),
        }
    }

    /// Whether some offered tool takes version tags.
    fn takes_tags(&self) -> bool {
        self.offered().any(|tool| tool.input.iter().any(|field| matches!(field.field_type, FieldType::Tag)))
    }

    /// Whether some call may need a person's approval.
    pub fn may_need_approval(&self) -> bool {
        !self.choice.ask.is_empty() || self.workspace_asks
    }

    /// The Vfs that the tools call.
    pub fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// Calls a tool. Every failure is a reply. Returns an [`ApprovalQuestion`] instead if a person has to be asked
    /// first and can be; call again with the answer.
    ///
    /// Until the question is answered nothing is in the audit log, so that one call has one record.
    pub fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        answer: ApprovalAnswer,
    ) -> Result<Reply, ApprovalQuestion> {
        if let Some(folders) = &self.folders {
            folders.prepare();
        }
        let Some(tool) = tool(name).filter(|tool| self.offers(tool) && self.vfs.allows_tool(tool.name))
        else {
            return Ok(self.audit_refusal(&self.vfs, name, self.not_offered(name)));
        };
        let tool = self.form_of(tool);
        let folders = self.folders.as_deref().filter(|_| tool.offered == OfferedWhen::InOrganization);
        let claimed_agent = folders.and_then(|folders| claimed_agent_fact(folders, &arguments));
        let mut arguments = match (Arguments::check(tool, arguments), claimed_agent) {
            (Ok(arguments), _) => arguments,
            (Err(failure), None) => return Ok(self.audit_refusal(&self.vfs, name, failure)),
            (Err(failure), Some((fact, agent))) => {
                let facts = self.vfs.facts().clone().with(fact, agent);
                let vfs = facts.map_or_else(|_| self.vfs.clone(), |facts| self.vfs.with_facts(facts));
                return Ok(self.audit_refusal(&vfs, name, failure));
            }
        };
        let request = self.approval_request(tool, &answer);
        let vfs = self.vfs.operation(tool.name);
        let vfs = match (&answer, &request) {
            (ApprovalAnswer::Approved(ApprovalGrant { items: GrantedItems::Everything, .. }), _) => {
                vfs.with_approval()
            }
            (_, Some(request)) => vfs.with_approval_request(request),
            (_, None) => vfs,
        };
        // A tool may move its large arguments.
        let change = request.as_ref().map(|_| describe_change(tool, &arguments)).unwrap_or_default();
        let (snapshots, takes_tags) = (self.snapshots.as_deref(), self.takes_tags());
        let forks = self.forks.as_deref();
        let folder_call = folders.map(|folders| FolderCall::new(folders, &arguments));
        let folders = folder_call.as_ref();
        let vfs = match folders {
            Some(call) => vfs.with_facts(call.audit_facts(vfs.facts())).with_symlinks(SymlinkRule::Refuse),
            None => vfs,
        };
        let approved_fork = match &answer {
            ApprovalAnswer::Approved(grant) => grant.fork_state,
            _ => None,
        };
        let lists_keys = crate::tools::tool("state_list").is_some_and(|tool| self.offers(tool));
        let context =
            ToolContext { vfs: &vfs, snapshots, forks, approved_fork, folders, takes_tags, lists_keys };
        let result = match tool.offered {
            OfferedWhen::Always | OfferedWhen::WithState => (tool.run)(&context, &mut arguments),
            // These tools look up a revision or a folder before they call the Vfs, or call it twice, and still get one
            // audit record.
            OfferedWhen::WithHistory
            | OfferedWhen::WithForks
            | OfferedWhen::InOrganization
            | OfferedWhen::WithManaged => {
                let path = match folders {
                    Some(call) => call.path().map(String::from),
                    None => arguments.optional_text("path").map(str::to_owned),
                };
                let end = |failure: &Failure| match failure.needs_approval && vfs.will_ask_approval() {
                    true => CallEnd::Pending,
                    false => CallEnd::Outcome(AuditOutcome::from_error_kind(failure.kind)),
                };
                vfs.single_record(tool.name, path.as_deref(), end, |vfs| {
                    (tool.run)(&ToolContext { vfs, ..context }, &mut arguments).map_err(Failure::mark_audited)
                })
            }
        };
        let failure = match (result, request) {
            (Err(failure), Some(request)) if failure.needs_approval => {
                let items = request.requested_items();
                let merge = MergePreview::of(tool, &context, &arguments);
                let question = ApprovalQuestion::new(tool, vfs.identity(), items, &change, merge);
                let reason = match answer {
                    ApprovalAnswer::NotAsked | ApprovalAnswer::Approved(_) => return Err(question),
                    ApprovalAnswer::Refused => "The person who was asked did not approve.",
                    ApprovalAnswer::NobodyToAsk => {
                        "Denied: this needs a person's approval, and your host can't ask one."
                    }
                };
                Failure::new(failure.kind, format!("{} {reason}", question.sentence))
            }
            (Err(failure), _) => self.with_suggestion(failure, &vfs, tool),
            (Ok(reply), _) => return Ok(reply),
        };
        Ok(if failure.unaudited { self.audit_refusal(&self.vfs, tool.name, failure) } else { failure.into() })
    }

    /// The same failure. If a path doesn't exist, it names the one that the caller perhaps meant, as far as the caller
    /// could find that with the listing tool.
    fn with_suggestion(&self, failure: Failure, vfs: &Vfs, called: &Tool) -> Failure {
        let may_list = tool(LISTING_TOOL).is_some_and(|tool| self.offers(tool))
            && !self.choice.ask.contains(LISTING_TOOL);
        // The history tools look at another time than the listing tool.
        let message = match &failure.missing_path {
            Some(path) if may_list && called.offered == OfferedWhen::Always => vfs.suggestion_message(path),
            _ => None,
        };
        match message {
            Some(message) => Failure { message, ..failure },
            None => failure,
        }
    }

    /// Refuses a call whose arguments aren't an object.
    pub fn refuse_arguments(&self, name: &str) -> Reply {
        let failure = match tool(name).filter(|tool| self.offers(tool)) {
            Some(_) => Failure::invalid("a tool's arguments have to be an object, such as {\"path\": \"/\"}"),
            None => self.not_offered(name),
        };
        self.audit_refusal(&self.vfs, name, failure)
    }

    /// The approval request of a call; `None` if nothing can need approval.
    fn approval_request(&self, tool: &Tool, answer: &ApprovalAnswer) -> Option<Arc<ApprovalRequest>> {
        let tool_needs_approval = self.choice.ask.contains(tool.name);
        if !tool_needs_approval && !self.may_need_approval() {
            return None;
        }
        let request = match answer {
            ApprovalAnswer::NotAsked | ApprovalAnswer::Approved(_) => {
                ApprovalRequest::new(tool_needs_approval, ApprovalRefusal::WillAsk)
            }
            ApprovalAnswer::Refused | ApprovalAnswer::NobodyToAsk => {
                ApprovalRequest::new(tool_needs_approval, ApprovalRefusal::Final)
            }
        };
        Some(Arc::new(match answer {
            ApprovalAnswer::Approved(ApprovalGrant { items: GrantedItems::Items(items), .. }) => {
                request.with_approved(items)
            }
            _ => request,
        }))
    }

    fn not_offered(&self, name: &str) -> Failure {
        let offered = self.offered().filter(|tool| self.vfs.allows_tool(tool.name));
        let offered: Vec<_> = offered.map(|tool| format!("`{}`", tool.name)).collect();
        let alternative = match offered.as_slice() {
            [] => "no tools are offered to you".to_owned(),
            offered => format!("your tools are {}", offered.join(", ")),
        };
        // An agent may know that a tool exists which isn't on its list: it can ask the person who edits the list.
        let is_listed = |name: &str| {
            self.choice.only.as_ref().is_none_or(|only| only.contains(name)) && self.vfs.allows_tool(name)
        };
        let message = match self.folders.is_some() && tool(name).is_some() && !is_listed(name) {
            true => format!("`{name}` is not enabled for your organization, team or role; {alternative}"),
            false => format!("you have no tool `{}`; {alternative}", short_name(name)),
        };
        Failure::new(ErrorKind::Denied, message)
    }

    /// Writes the audit record of a call that failed before it reached the Vfs, under the tool's name, whether or not
    /// that tool exists.
    fn audit_refusal(&self, vfs: &Vfs, name: &str, failure: Failure) -> Reply {
        let vfs = vfs.operation(short_name(name));
        let audited = vfs.audited("tool", None, || -> Result<(), Error> {
            Err(match failure.kind {
                ErrorKind::Denied => Error::ToolNotOffered(failure.message.clone()),
                _ => Error::Invalid(failure.message.clone()),
            })
        });
        match audited {
            Err(error) => Failure::from(error).into(),
            Ok(()) => failure.into(),
        }
    }
}

/// A name that a client may have made up, shortened and escaped for display and the audit log.
fn short_name(name: &str) -> String {
    name.chars().take(64).collect::<String>().escape_debug().to_string()
}
