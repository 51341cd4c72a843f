//! Reads whose files an agent's Workspaces show: `scope`, `idle_timeout` and `thread` of an agent, and `per` of a Workspace.

use std::time::Duration;

use stead_core::{Access, AccessScope, VfsPath, parse_thread_name};

use super::section::{Section, WithSpan};
use super::{WorkspaceConfig, amount};

/// How long a thread may be unused before it is destroyed, unless the configuration says otherwise.
pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The Workspace that is the thread's in an agent of scope `hybrid`.
const HYBRID_THREAD_PREFIX: &str = "/project";

/// Whose files an agent's Workspaces show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SteadScope {
    /// The agent's: all of its threads share them.
    #[default]
    Agent,
    /// Each thread has its own, except in READ_ONLY Workspaces.
    Thread,
    /// Each thread has its own at `/project` and below; elsewhere they are the agent's.
    Hybrid,
}

impl SteadScope {
    /// The scope as it is written in the configuration: `agent`, `thread` or `hybrid`.
    pub fn as_str(self) -> &'static str {
        match self {
            SteadScope::Agent => "agent",
            SteadScope::Thread => "thread",
            SteadScope::Hybrid => "hybrid",
        }
    }

    /// Whether the agent works in threads that are created and destroyed. Without one, its stead can't be opened.
    pub fn has_threads(self) -> bool {
        self != SteadScope::Agent
    }

    /// Whose files a Workspace shows that has no `per` of its own.
    fn files_per(self, prefix: &VfsPath, scope: AccessScope) -> FilesPer {
        let is_thread_s = match self {
            SteadScope::Agent => false,
            // A READ_ONLY Workspace of a thread's own would always be empty.
            SteadScope::Thread => scope.allows(Access::Write),
            SteadScope::Hybrid => prefix
                .strip_prefix(&VfsPath::parse(HYBRID_THREAD_PREFIX).expect("it is a valid path"))
                .is_some(),
        };
        if is_thread_s { FilesPer::Thread } else { FilesPer::Agent }
    }
}

/// Whose files a Workspace shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FilesPer {
    /// The agent's, in all of its threads.
    #[default]
    Agent,
    /// Those of the thread that the agent works in.
    Thread,
}

/// Who names the threads of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ThreadSource {
    /// The caller.
    #[default]
    Caller,
    /// The server: each MCP session over HTTP is a new thread.
    Session,
}

/// What an agent's table says about threads.
pub(super) struct AgentThreads<'d> {
    pub(super) scope: SteadScope,
    /// The text of `scope`, for messages about it.
    scope_text: Option<WithSpan<&'d str>>,
    pub(super) idle_timeout: Duration,
    pub(super) source: ThreadSource,
}

impl<'d> AgentThreads<'d> {
    /// Reads the keys of an agent. `all_names` are the names of all agents.
    pub(super) fn read(section: &Section<'d>, name: &str, all_names: &[String]) -> Self {
        let scope_text = section.one_of("scope");
        let scope = match scope_text.as_ref().map(|text| text.value) {
            Some("thread") => SteadScope::Thread,
            Some("hybrid") => SteadScope::Hybrid,
            _ => SteadScope::Agent,
        };
        let source = match section.one_of("thread") {
            Some(_) => ThreadSource::Session,
            None => ThreadSource::Caller,
        };
        let threads = AgentThreads { scope, scope_text, idle_timeout: idle_timeout(section, scope), source };
        threads.check_name(section, name, all_names);
        threads
    }

    /// The agent's name is part of the names of directories and of the ids of its steads, `AGENT/THREAD`.
    fn check_name(&self, section: &Section<'_>, name: &str, all_names: &[String]) {
        if !self.scope.has_threads() {
            return;
        }
        let escaped = name.escape_debug();
        if parse_thread_name(name).is_err() {
            section.add_problem(format!(
                "the agent `{escaped}` has threads, so its name has to be 1 to 128 bytes without `/`, `\\` or invisible \
                 characters; choose another name"
            ));
        } else if let Some(other) =
            all_names.iter().find(|other| other.split_once('/').is_some_and(|(first, _)| first == name))
        {
            section.add_problem(format!(
                "the agent `{escaped}` has threads, and the name of the agent `{}` is like that of one of them; choose \
                 another name for one of the two agents",
                other.escape_debug()
            ));
        }
    }

    /// Reads whose files a Workspace shows.
    pub(super) fn per_of_workspace(
        &self,
        section: &Section<'_>,
        prefix: Option<&VfsPath>,
        scope: Option<AccessScope>,
    ) -> FilesPer {
        let Some(per) = section.one_of("per") else {
            // What is reviewed is what others have as well.
            if section.has("fork") {
                return FilesPer::Agent;
            }
            let by_scope = prefix.zip(scope).map(|(prefix, scope)| self.scope.files_per(prefix, scope));
            return by_scope.unwrap_or_default();
        };
        if per.value == "agent" {
            return FilesPer::Agent;
        }
        if !self.scope.has_threads() {
            section.reject_value(
                &per,
                "`per = \"thread\"` needs an agent that has threads; set `scope = \"thread\"` or `scope = \"hybrid\"` \
                 for the agent",
            );
        } else if scope == Some(AccessScope::ReadOnly) {
            section.warn_value(
                &per,
                "a READ_ONLY Workspace with `per = \"thread\"` is always empty, because nothing can be written to it",
            );
        }
        FilesPer::Thread
    }

    /// Reads whose fork takes the changes of a Workspace.
    pub(super) fn fork_of_workspace(
        &self,
        section: &Section<'_>,
        per: FilesPer,
        scope: Option<AccessScope>,
        is_in_memory: bool,
    ) -> Option<FilesPer> {
        let fork = section.one_of("fork")?;
        if scope.is_some_and(|scope| scope != AccessScope::ReadWrite) {
            section.reject_value(
                &fork,
                "`fork` needs a Workspace with `scope = \"rw\"`: others have nothing to review",
            );
        } else if is_in_memory {
            section.reject_value(
                &fork,
                "`fork` needs a Store that stays until the review: a Memory Store doesn't",
            );
        } else if per == FilesPer::Thread {
            section.reject_value(
                &fork,
                "a thread's own files need no review: set `fork` for a Workspace with `per = \"agent\"`",
            );
        } else if fork.value == "thread" && !self.scope.has_threads() {
            section.reject_value(
                &fork,
                "`fork = \"thread\"` needs an agent that has threads; set `scope = \"thread\"` or `scope = \"hybrid\"` \
                 for the agent, or use `fork = \"agent\"`",
            );
        }
        Some(if fork.value == "thread" { FilesPer::Thread } else { FilesPer::Agent })
    }

    /// Checks that an agent of scope `hybrid` has a Workspace for its threads. `workspaces` are the valid ones.
    pub(super) fn check_workspaces(&self, section: &Section<'_>, name: &str, workspaces: &[WorkspaceConfig]) {
        let has_own = workspaces.iter().any(|workspace| workspace.per == FilesPer::Thread);
        if let (SteadScope::Hybrid, Some(text), false) = (self.scope, &self.scope_text, has_own)
            && !workspaces.is_empty()
        {
            let message = format!(
                "the agent `{}` has `scope = \"hybrid\"`, but none of its Workspaces is a thread's own; add one with the \
                 prefix `{HYBRID_THREAD_PREFIX}`, or set `per = \"thread\"` for one",
                name.escape_debug()
            );
            section.reject_value(text, message);
        }
    }
}

fn idle_timeout(section: &Section<'_>, scope: SteadScope) -> Duration {
    let Some(text) = section.text("idle_timeout") else { return DEFAULT_IDLE_TIMEOUT };
    match amount::parse_duration(text.value) {
        Ok(Duration::ZERO) => {
            section.reject_value(&text, "`idle_timeout` has to be at least \"1s\"");
            DEFAULT_IDLE_TIMEOUT
        }
        Ok(timeout) => {
            if !scope.has_threads() {
                section.warn_value(
                    &text,
                    "`idle_timeout` has no effect, because the agent has no threads of its own; set `scope`",
                );
            }
            timeout
        }
        Err(message) => {
            section.reject_value(&text, message);
            DEFAULT_IDLE_TIMEOUT
        }
    }
}
