//! An agent's tools: which it is offered, and how one is used.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};
use crate::scope::AccessScope;
use crate::tools::{Arguments, Desk, Failure, Moments, Offered, Reply, TOOLS, Tool, tool};
use crate::vfs::Vfs;
use crate::watch::Watch;
use crate::workspace::Ask;

/// What the configuration says about an agent's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Only these; all that the scopes allow where it is `None`.
    pub only: Option<BTreeSet<String>>,
    /// The tools that look into history and take things back are offered, too.
    pub history: bool,
    /// A person is asked before one of these is used.
    pub ask: BTreeSet<String>,
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
    moments: Option<Arc<dyn Moments>>,
}

/// Whether a person has been asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// Not yet.
    #[default]
    NotAsked,
    /// Yes, and they agree.
    Agreed,
}

/// What a person has to be asked before the call can go on. Nothing has happened yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The question, in a sentence.
    pub text: String,
}

impl Question {
    /// The answer where nobody can be asked.
    pub fn nobody_to_ask(&self) -> Reply {
        Failure::new(
            ErrorKind::Denied,
            format!(
                "{} A person has to agree to it first, and your host has no way to ask one, so it is denied.",
                self.text
            ),
        )
        .into()
    }

    /// The answer where the person says no.
    pub fn refused(&self) -> Reply {
        Failure::new(ErrorKind::Denied, format!("{} The person who was asked did not agree.", self.text))
            .into()
    }
}

impl Toolbox {
    /// The tools for these Workspaces.
    pub fn new(vfs: Vfs) -> Self {
        let has = |scope: &AccessScope| vfs.workspaces().any(|workspace| workspace.scope() == *scope);
        let scopes = AccessScope::ALL.into_iter().filter(has).collect();
        Toolbox { vfs, scopes, choice: Arc::default(), moments: None }
    }

    /// The same with another choice of tools.
    pub fn with_choice(self, choice: ToolChoice) -> Self {
        Toolbox { choice: Arc::new(choice), ..self }
    }

    /// The same over a past with names.
    pub fn with_moments(self, moments: Arc<dyn Moments>) -> Self {
        Toolbox { moments: Some(moments), ..self }
    }

    /// The same for a call that someone waits for.
    pub fn watched(&self, watch: Arc<dyn Watch>) -> Self {
        Toolbox { vfs: self.vfs.watched(watch), ..self.clone() }
    }

    /// The tools that are offered, sorted by name. It follows from the Workspaces and the choice alone.
    pub fn offered(&self) -> impl Iterator<Item = &'static Tool> {
        TOOLS.into_iter().filter(|tool| self.offers(tool))
    }

    /// Whether a tool is offered.
    pub fn offers(&self, tool: &Tool) -> bool {
        let named = self.choice.only.as_ref().map(|only| only.contains(tool.name));
        let chosen = match tool.offered {
            Offered::Always => named.unwrap_or(true),
            Offered::WithHistory => named.unwrap_or(false) || (self.choice.history && named.is_none()),
        };
        chosen && tool.fits(&self.scopes)
    }

    /// Whether there is anything that a person is asked about.
    pub fn may_ask(&self) -> bool {
        !self.choice.ask.is_empty() || self.vfs.workspaces().any(|workspace| workspace.ask() != Ask::Never)
    }

    /// The door that the tools go through.
    pub fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// Uses a tool. Whatever goes wrong is an answer; only a question to a person comes back instead of one.
    pub fn call(&self, name: &str, arguments: Map<String, Value>, answer: Answer) -> Result<Reply, Question> {
        let known = tool(name).filter(|tool| self.offers(tool));
        let prepared = match known {
            None => Err(self.not_offered(name)),
            Some(tool) => Arguments::check(tool, arguments).map(|arguments| (tool, arguments)),
        };
        let (tool, mut arguments) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return Ok(self.refuse(known, failure)),
        };
        if answer == Answer::NotAsked && self.choice.ask.contains(tool.name) {
            let question = Question { text: format!("May the agent use `{}`?", tool.name) };
            // That it was held up is on record, as where a Workspace asks, whatever the answer will be.
            let held_up = self.refuse(Some(tool), Failure::new(ErrorKind::Denied, question.text.clone()));
            return match held_up.failure {
                Some(Failure { kind: ErrorKind::Denied, .. }) | None => Err(question),
                Some(_) => Ok(held_up),
            };
        }
        let vfs = self.vfs.operation(tool.name);
        let vfs = if answer == Answer::Agreed { vfs.agreed() } else { vfs };
        let desk = Desk { vfs: &vfs, moments: self.moments.as_deref() };
        match (tool.run)(&desk, &mut arguments) {
            Err(Failure { asks: Some(path), .. }) if answer == Answer::NotAsked => {
                Err(Question { text: format!("May the agent use `{}` on `{path}`?", tool.name) })
            }
            Err(failure) if failure.unheard => Ok(self.refuse(Some(tool), failure)),
            result => Ok(result.into()),
        }
    }

    fn not_offered(&self, name: &str) -> Failure {
        let offered: Vec<_> = self.offered().map(|tool| format!("`{}`", tool.name)).collect();
        let instead = match offered.as_slice() {
            [] => "you have no tools".to_owned(),
            offered => format!("you have {}", offered.join(", ")),
        };
        let short: String = name.chars().take(64).collect();
        Failure::new(
            ErrorKind::Denied,
            format!("there is no tool `{}` for you; {instead}", short.escape_debug()),
        )
    }

    /// Writes a call down that never came to the door.
    fn refuse(&self, tool: Option<&'static Tool>, failure: Failure) -> Reply {
        let vfs = self.vfs.operation(tool.map_or("tool", |tool| tool.name));
        let refused = vfs.on_record("tool", None, || -> Result<(), Error> {
            Err(match failure.kind {
                ErrorKind::Denied => Error::NotOffered(failure.message.clone()),
                _ => Error::Invalid(failure.message.clone()),
            })
        });
        match refused {
            Err(error) => Failure::from(error).into(),
            Ok(()) => failure.into(),
        }
    }
}
