//! An agent's tools: which it is offered, and how one is used.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::audit::AuditOutcome;
use crate::error::{Error, ErrorKind};
use crate::monitor::CallMonitor;
use crate::name::escape_text;
use crate::path::VfsPath;
use crate::scope::AccessScope;
use crate::tools::{
    Arguments, Failure, FieldType, OfferedWhen, Reply, ResultFormat, Snapshots, TOOLS, Tool, ToolContext,
    tool,
};
use crate::vfs::{ApprovalItem, ApprovalRefusal, ApprovalRequest, CallEnd, Vfs};
use crate::workspace::ApprovalPolicy;

/// What the configuration says about an agent's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Only these; all that the scopes allow where it is `None`.
    pub only: Option<BTreeSet<String>>,
    /// The tools that look into history and take things back are offered, too.
    pub history: bool,
    /// A person is asked before one of these is used.
    pub ask: BTreeSet<String>,
    /// What results are made of.
    pub results: ResultFormat,
}

/// The tools of one identity over its Workspaces.
///
/// Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Toolbox {
    vfs: Vfs,
    /// The scopes that some Workspace has.
    scopes: Vec<AccessScope>,
    choice: Arc<ToolChoice>,
    snapshots: Option<Arc<dyn Snapshots>>,
}

/// What came of asking a person.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ApprovalAnswer {
    /// Nobody was asked yet.
    #[default]
    NotAsked,
    /// They agree to what they were shown.
    Approved(ApprovalGrant),
    /// They do not.
    Refused,
    /// There is no way to ask anybody.
    NobodyToAsk,
}

/// What a person has agreed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalGrant(GrantedItems);

#[derive(Debug, Clone, PartialEq, Eq)]
enum GrantedItems {
    Everything,
    /// These places, and what is done there.
    Items(Vec<ApprovalItem>),
}

impl ApprovalGrant {
    /// An agreement to whatever is asked for, by someone who knows what that is.
    pub fn everything() -> Self {
        ApprovalGrant(GrantedItems::Everything)
    }
}

/// What a person has to be asked before the call can go on. Nothing has happened yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalQuestion {
    /// The question, in a sentence that names everything the call is about.
    pub text: String,
    items: Vec<ApprovalItem>,
}

/// The tool that names the Workspaces; where it is not offered, the first one does.
const WORKSPACE_NAMING_TOOL: &str = "list_directory";

/// How many paths a question names one by one.
const MAX_NAMED_PATHS: usize = 100;

impl ApprovalQuestion {
    fn new(tool: &Tool, items: Vec<ApprovalItem>) -> Self {
        let mut known = BTreeSet::new();
        let paths = items.iter().map(|entry| &entry.path).filter(|path| known.insert(*path));
        let paths: Vec<&VfsPath> = paths.collect();
        // A name must not read as the end of the name: nothing in it can stand for what is around it.
        let quoted =
            |path: &VfsPath| format!("`{}`", escape_text(path.as_str()).to_string().replace('`', "\\u{60}"));
        let named =
            paths.iter().take(MAX_NAMED_PATHS).map(|path| quoted(path)).collect::<Vec<_>>().join(", ");
        let more = match paths.len().saturating_sub(MAX_NAMED_PATHS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!("May the agent use `{}` on {named}{more}?", tool.name);
        ApprovalQuestion { text, items }
    }

    /// The person says yes to it.
    pub fn approve(self) -> ApprovalAnswer {
        ApprovalAnswer::Approved(ApprovalGrant(GrantedItems::Items(self.items)))
    }
}

impl Toolbox {
    /// The tools for these Workspaces.
    pub fn new(vfs: Vfs) -> Self {
        let has = |scope: &AccessScope| vfs.workspaces().any(|workspace| workspace.scope() == *scope);
        let scopes = AccessScope::ALL.into_iter().filter(has).collect();
        Toolbox { vfs, scopes, choice: Arc::default(), snapshots: None }
    }

    /// The same with another choice of tools.
    pub fn with_choice(self, choice: ToolChoice) -> Self {
        Toolbox { choice: Arc::new(choice), ..self }
    }

    /// The same over a past with names.
    pub fn with_snapshots(self, moments: Arc<dyn Snapshots>) -> Self {
        Toolbox { snapshots: Some(moments), ..self }
    }

    /// The same for a call that someone waits for.
    pub fn with_monitor(&self, watch: Arc<dyn CallMonitor>) -> Self {
        Toolbox { vfs: self.vfs.with_monitor(watch), ..self.clone() }
    }

    /// The tools that are offered, sorted by name. It follows from the Workspaces and the choice alone.
    pub fn offered(&self) -> impl Iterator<Item = &'static Tool> {
        TOOLS.into_iter().filter(|tool| self.offers(tool))
    }

    /// Whether a tool is offered.
    pub fn offers(&self, tool: &Tool) -> bool {
        let named = self.choice.only.as_ref().map(|only| only.contains(tool.name));
        let chosen = match tool.offered {
            OfferedWhen::Always => named.unwrap_or(true),
            OfferedWhen::WithHistory => named.unwrap_or(false) || (self.choice.history && named.is_none()),
        };
        chosen && tool.is_useful_with(&self.scopes)
    }

    /// What results are made of.
    pub fn results(&self) -> ResultFormat {
        self.choice.results
    }

    /// The description of a tool, for one agent. One of the tools names the Workspaces: many hosts show nothing else of a server.
    pub fn description(&self, tool: &Tool) -> Cow<'static, str> {
        let naming =
            self.offered().find(|tool| tool.name == WORKSPACE_NAMING_TOOL).or_else(|| self.offered().next());
        if naming.is_none_or(|naming| naming.name != tool.name) {
            return Cow::Borrowed(tool.description);
        }
        let workspaces = crate::filesystem_map::workspaces_sentence(&self.vfs);
        // After the first sentence, which has to stand on its own, and before what some hosts cut off.
        match tool.description.split_once(". ") {
            Some((first, rest)) => Cow::Owned(format!("{first}. {workspaces} {rest}")),
            None => Cow::Owned(format!("{} {workspaces}", tool.description)),
        }
    }

    /// Whether some tool takes version tags.
    fn takes_tags(&self) -> bool {
        self.offered().any(|tool| tool.input.iter().any(|field| matches!(field.field_type, FieldType::Tag)))
    }

    /// Whether there is anything that a person is asked about.
    pub fn may_ask(&self) -> bool {
        !self.choice.ask.is_empty()
            || self.vfs.workspaces().any(|workspace| workspace.approval_policy() != ApprovalPolicy::Never)
    }

    /// The door that the tools go through.
    pub fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// Uses a tool. Whatever goes wrong is an answer; only a question to a person comes back instead of one, and only
    /// where it could be asked.
    ///
    /// Until the question is answered nothing is on record, so that one call has one record.
    pub fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        answer: ApprovalAnswer,
    ) -> Result<Reply, ApprovalQuestion> {
        let known = tool(name).filter(|tool| self.offers(tool));
        let prepared = match known {
            None => Err(self.not_offered(name)),
            Some(tool) => Arguments::check(tool, arguments).map(|arguments| (tool, arguments)),
        };
        let (tool, mut arguments) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return Ok(self.audit_refusal(name, failure)),
        };
        let asking = self.approval_request(tool, &answer);
        let vfs = self.vfs.operation(tool.name);
        let vfs = match (&answer, &asking) {
            (ApprovalAnswer::Approved(ApprovalGrant(GrantedItems::Everything)), _) => vfs.with_approval(),
            (_, Some(asking)) => vfs.with_approval_request(asking),
            (_, None) => vfs,
        };
        let (moments, takes_tags) = (self.snapshots.as_deref(), self.takes_tags());
        let ran = match tool.offered {
            OfferedWhen::Always => {
                (tool.run)(&ToolContext { vfs: &vfs, snapshots: moments, takes_tags }, &mut arguments)
            }
            // These look moments up before they come to the door, or come there twice.
            OfferedWhen::WithHistory => {
                let path = arguments.optional_text("path").map(str::to_owned);
                let end = |failure: &Failure| match failure.needs_approval && vfs.will_ask_approval() {
                    true => CallEnd::Pending,
                    false => CallEnd::Outcome(AuditOutcome::from_error_kind(failure.kind)),
                };
                vfs.single_record(tool.name, path.as_deref(), end, |vfs| {
                    (tool.run)(&ToolContext { vfs, snapshots: moments, takes_tags }, &mut arguments)
                        .map_err(Failure::mark_audited)
                })
            }
        };
        let failure = match (ran, asking) {
            (Err(failure), Some(asking)) if failure.needs_approval => {
                let question = ApprovalQuestion::new(tool, asking.requested_items());
                let why = match answer {
                    ApprovalAnswer::NotAsked | ApprovalAnswer::Approved(_) => return Err(question),
                    ApprovalAnswer::Refused => "The person who was asked did not agree.",
                    ApprovalAnswer::NobodyToAsk => {
                        "A person has to agree to it first, and your host has no way to ask one, so it is denied."
                    }
                };
                Failure::new(failure.kind, format!("{} {why}", question.text))
            }
            (Err(failure), _) => failure,
            (Ok(reply), _) => return Ok(reply),
        };
        Ok(if failure.unaudited { self.audit_refusal(tool.name, failure) } else { failure.into() })
    }

    /// Refuses a call whose arguments aren't an object.
    pub fn refuse_arguments(&self, name: &str) -> Reply {
        let failure = match tool(name).filter(|tool| self.offers(tool)) {
            Some(_) => Failure::invalid("a tool's arguments are an object, such as {\"path\": \"/\"}"),
            None => self.not_offered(name),
        };
        self.audit_refusal(name, failure)
    }

    /// How a call asks, if there is anything to ask about.
    fn approval_request(&self, tool: &Tool, answer: &ApprovalAnswer) -> Option<Arc<ApprovalRequest>> {
        let everywhere = self.choice.ask.contains(tool.name);
        if !everywhere && !self.may_ask() {
            return None;
        }
        let asking = match answer {
            ApprovalAnswer::NotAsked | ApprovalAnswer::Approved(_) => {
                ApprovalRequest::new(everywhere, ApprovalRefusal::WillAsk)
            }
            ApprovalAnswer::Refused | ApprovalAnswer::NobodyToAsk => {
                ApprovalRequest::new(everywhere, ApprovalRefusal::Final)
            }
        };
        Some(Arc::new(match answer {
            ApprovalAnswer::Approved(ApprovalGrant(GrantedItems::Items(shown))) => {
                asking.with_approved(shown)
            }
            _ => asking,
        }))
    }

    fn not_offered(&self, name: &str) -> Failure {
        let offered: Vec<_> = self.offered().map(|tool| format!("`{}`", tool.name)).collect();
        let instead = match offered.as_slice() {
            [] => "you have no tools".to_owned(),
            offered => format!("you have {}", offered.join(", ")),
        };
        Failure::new(ErrorKind::Denied, format!("there is no tool `{}` for you; {instead}", short_name(name)))
    }

    /// Writes a call down that never came to the door, by the tool's name, whether or not there is one.
    fn audit_refusal(&self, name: &str, failure: Failure) -> Reply {
        let vfs = self.vfs.operation(short_name(name));
        let refused = vfs.audited("tool", None, || -> Result<(), Error> {
            Err(match failure.kind {
                ErrorKind::Denied => Error::ToolNotOffered(failure.message.clone()),
                _ => Error::Invalid(failure.message.clone()),
            })
        });
        match refused {
            Err(error) => Failure::from(error).into(),
            Ok(()) => failure.into(),
        }
    }
}

/// A name that a client may have made up, as it can be shown and kept.
fn short_name(name: &str) -> String {
    name.chars().take(64).collect::<String>().escape_debug().to_string()
}
