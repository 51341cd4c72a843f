//! The tools: what an agent is offered, and what happens when it uses one.
//!
//! One table holds them all, and whatever lists, offers, checks or documents tools reads it. A tool is a thin
//! translation: it reads its arguments, goes through the one door, and says in words and in a few facts what came of it.
//! Nothing here knows who transports a call.

mod arguments;
mod files;
mod history;
mod page;
mod reply;
mod schema;
#[cfg(test)]
mod tests;
mod toolbox;

pub use arguments::Arguments;
pub use history::{CreatedSnapshot, Snapshots};
pub use reply::{Block, Failure, Note, Reply, ResultFormat, file_uri};
pub use schema::{Field, FieldType};
pub use toolbox::{ApprovalAnswer, ApprovalGrant, ApprovalQuestion, ToolChoice, Toolbox};

use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::store::VersionTag;
use crate::vfs::Vfs;

/// One tool, as agents and their hosts see it.
#[derive(Debug)]
pub struct Tool {
    /// What it is called.
    pub name: &'static str,
    /// The same for people.
    pub title: &'static str,
    /// What it does, when to use it and what comes back; written for models. Its first sentence stands on its own: some
    /// hosts show no more than 150 characters. [`Toolbox::description`] is what an agent is told.
    pub description: &'static str,
    /// What some Workspace has to allow, each of them, for the tool to be of use.
    pub required_access: &'static [Access],
    /// When it is offered.
    pub offered: OfferedWhen,
    /// What it can do besides.
    pub capabilities: &'static [Capability],
    /// What a host may tell a person before it is used.
    pub hints: Hints,
    /// What it takes.
    pub input: &'static [Field],
    /// The facts that it answers with, besides the text.
    pub output: &'static [Field],
    /// The longest answer in characters, where a larger limit than the usual one can be asked for.
    pub max_characters: Option<usize>,
    run: fn(&ToolContext<'_>, &mut Arguments) -> Result<Reply, Failure>,
}

/// When a tool is offered, provided that the Workspaces' scopes give it something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferedWhen {
    /// To everyone.
    Always,
    /// To whom the configuration gives history, or names it.
    WithHistory,
}

/// What a tool can do, as organizations grant it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// It is Stead's own.
    BuiltIn,
    /// It reaches other machines.
    NetworkOutbound,
    /// It reaches other agents.
    SubagentAccess,
}

impl Capability {
    /// The stable name: `built_in`.
    pub fn name(self) -> &'static str {
        match self {
            Capability::BuiltIn => "built_in",
            Capability::NetworkOutbound => "network_outbound",
            Capability::SubagentAccess => "subagent_access",
        }
    }
}

/// What a tool does to the world, in the words of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may change or remove what is there.
    pub destructive: bool,
    /// The same call once more changes nothing further.
    pub idempotent: bool,
    /// It reaches beyond the Workspaces.
    pub open_world: bool,
}

impl Hints {
    const READ_ONLY: Hints =
        Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
    const ADDITIVE: Hints =
        Hints { read_only: false, destructive: false, idempotent: false, open_world: false };
    const DESTRUCTIVE: Hints = Hints { destructive: true, ..Hints::ADDITIVE };

    const fn idempotent(self) -> Hints {
        Hints { idempotent: true, ..self }
    }
}

/// What a tool works with.
struct ToolContext<'a> {
    vfs: &'a Vfs,
    snapshots: Option<&'a dyn Snapshots>,
    /// Whether some tool takes version tags.
    takes_tags: bool,
}

impl ToolContext<'_> {
    /// A file's state, where the model can use it: some tool takes it, and the file may be changed.
    fn tag_note(&self, path: &VfsPath, tag: VersionTag) -> Option<Note> {
        let may_change = || {
            let route = self.vfs.router().route(path);
            route.is_some_and(|route| route.workspace.scope().allows(Access::Write))
        };
        (self.takes_tags && may_change()).then(|| Note::Tag(tag.short()))
    }
}

/// Every tool there is, in the order in which they are offered: by name.
pub static TOOLS: [&Tool; 19] = [
    &files::append_file::TOOL,
    &files::copy_file::TOOL,
    &files::create_directory::TOOL,
    &files::delete_directory::TOOL,
    &files::delete_file::TOOL,
    &files::edit_file::TOOL,
    &files::glob::TOOL,
    &files::grep::TOOL,
    &files::list_directory::TOOL,
    &history::list_versions::TOOL,
    &files::move_file::TOOL,
    &files::read_file::TOOL,
    &files::read_many::TOOL,
    &history::read_version::TOOL,
    &history::restore::TOOL,
    &history::snapshot::TOOL,
    &files::stat::TOOL,
    &history::undo::TOOL,
    &files::write_file::TOOL,
];

/// The tool of that name.
pub fn tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().copied().find(|tool| tool.name == name)
}

impl Tool {
    /// Whether Workspaces of these scopes give the tool something to do.
    pub fn is_useful_with(&self, scopes: &[AccessScope]) -> bool {
        self.required_access.iter().all(|access| scopes.iter().any(|scope| scope.allows(*access)))
    }

    /// Whether the tool can do something in a Workspace of this scope.
    pub fn works_in(&self, scope: AccessScope) -> bool {
        self.required_access.iter().any(|access| scope.allows(*access))
    }

    /// Whether it changes anything.
    pub fn is_mutating(&self) -> bool {
        !self.hints.read_only
    }

    /// What it takes, as a JSON Schema.
    pub fn input_schema(&self) -> serde_json::Map<String, serde_json::Value> {
        schema::object_schema(self.input)
    }

    /// What it answers with, as a JSON Schema.
    pub fn output_schema(&self) -> serde_json::Map<String, serde_json::Value> {
        schema::object_schema(self.output)
    }
}
