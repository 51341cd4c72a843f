//! The tools that an agent is offered, and how a call to one runs.
//!
//! One table holds all tools; the code that lists, offers, checks or documents tools reads it. A tool is a thin
//! translation: it reads its arguments, calls the Vfs, and returns a text and a few facts. Nothing here depends on how
//! calls are transported.
//!
//! ```
//! use stead_core::tools::{ApprovalAnswer, Toolbox};
//! # use stead_core::{AccessScope, Identity, Mount, Vfs, VfsPath, Workspace};
//! # use std::sync::Arc;
//! # use stead_core::testkit::ModelStore;
//! # let store = Arc::new(ModelStore::default());
//! # let docs = Workspace::new(VfsPath::parse("/docs")?, AccessScope::ReadOnly, Mount::new(store));
//! # let vfs = Vfs::builder(Identity::agent("coder")).workspace(docs).build()?;
//!
//! let tools = Toolbox::new(vfs);
//! assert!(tools.offered().any(|tool| tool.name == "read_file"));
//! assert!(tools.offered().all(|tool| tool.name != "write_file"), "every Workspace is read-only");
//! let arguments = serde_json::json!({ "path": "/docs/a" }).as_object().cloned().unwrap_or_default();
//! let reply = tools.call("read_file", arguments, ApprovalAnswer::NobodyToAsk).expect("no question is asked");
//! assert!(reply.is_failure() && reply.joined_text().contains("/docs/a"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod approval_question;
mod arguments;
mod files;
mod folders;
mod forks;
mod history;
mod managed;
mod page;
mod reply;
mod schema;
mod state;
#[cfg(test)]
mod tests;
mod toolbox;

pub use approval_question::ApprovalQuestion;
pub use arguments::Arguments;
pub use forks::ForkOperations;
pub use history::{CreatedSnapshot, Snapshots};
pub use reply::{Block, Failure, Note, Reply, ResultFormat, file_uri};
pub use schema::{Field, FieldType};
pub use toolbox::{ApprovalAnswer, ApprovalGrant, ToolChoice, Toolbox};

use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::store::VersionTag;
use crate::tools::folders::FolderCall;
use crate::vfs::{ForkState, Vfs};

/// One tool, as agents and their hosts see it.
#[derive(Debug)]
pub struct Tool {
    /// The tool's name.
    pub name: &'static str,
    /// The title that hosts show to people.
    pub title: &'static str,
    /// What the tool does, when to use it and what it returns; written for models. The first sentence is complete
    /// alone, because some hosts show only 150 characters. Agents get [`Toolbox::description`].
    pub description: &'static str,
    /// The accesses that the tool needs. It is useful only if for each of them some Workspace allows it.
    pub required_access: &'static [Access],
    /// When the tool is offered.
    pub offered: OfferedWhen,
    /// The tool's capabilities.
    pub capabilities: &'static [Capability],
    /// What a host may tell a person before the tool is used.
    pub hints: Hints,
    /// The parameters.
    pub input: &'static [Field],
    /// The facts in the reply, besides the text.
    pub output: &'static [Field],
    /// The longest reply in characters, if the caller can ask for more than one page.
    pub max_characters: Option<usize>,
    run: fn(&ToolContext<'_>, &mut Arguments) -> Result<Reply, Failure>,
}

/// When a tool is offered, if the scopes of the Workspaces make it useful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferedWhen {
    /// By default.
    Always,
    /// If the configuration enables history or names the tool.
    WithHistory,
    /// If the configuration enables forks or names the tool.
    WithForks,
    /// If the stead has a State.
    WithState,
    /// If the caller may read a managed Workspace.
    WithManaged,
    /// If the agent belongs to an organization whose records give it the tool.
    InOrganization,
}

/// What a tool can reach, for organizations that grant tools by capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// The tool is part of Stead.
    BuiltIn,
    /// The tool reaches other machines.
    NetworkOutbound,
    /// The tool reaches other agents.
    SubagentAccess,
}

impl Capability {
    /// The stable name, such as `built_in`.
    pub fn name(self) -> &'static str {
        match self {
            Capability::BuiltIn => "built_in",
            Capability::NetworkOutbound => "network_outbound",
            Capability::SubagentAccess => "subagent_access",
        }
    }
}

/// The tool annotations of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// The tool changes nothing.
    pub read_only: bool,
    /// The tool may change or remove existing files.
    pub destructive: bool,
    /// Repeating the same call changes nothing further.
    pub idempotent: bool,
    /// The tool reaches beyond the Workspaces.
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

/// What a running tool works with.
#[derive(Clone, Copy)]
struct ToolContext<'a> {
    vfs: &'a Vfs,
    snapshots: Option<&'a dyn Snapshots>,
    forks: Option<&'a dyn ForkOperations>,
    /// What the fork had changed when a person was shown it and approved the merge.
    approved_fork: Option<ForkState>,
    /// The folders that the call names, for a tool that is offered in an organization.
    folders: Option<&'a FolderCall<'a>>,
    /// Whether some offered tool takes version tags.
    takes_tags: bool,
    /// Whether a tool that lists the keys of the State is offered.
    lists_keys: bool,
}

impl ToolContext<'_> {
    /// The file's version tag as a note, if the model can use it: some tool takes tags, and the scope allows changing
    /// the file.
    fn tag_note(&self, path: &VfsPath, tag: VersionTag) -> Option<Note> {
        let may_change = || {
            let route = self.vfs.router().route(path);
            route.is_some_and(|route| route.workspace.scope().allows(Access::Write))
        };
        (self.takes_tags && may_change()).then(|| Note::Tag(tag.short()))
    }
}

/// All tools, sorted by name; they are offered in this order.
pub static TOOLS: [&Tool; 42] = [
    &files::append_file::TOOL,
    &folders::append_to_file_by_id::TOOL,
    &files::copy_file::TOOL,
    &folders::copy_file_by_id::TOOL,
    &files::create_directory::TOOL,
    &folders::create_folder::TOOL,
    &files::delete_directory::TOOL,
    &files::delete_file::TOOL,
    &folders::delete_file_by_id::TOOL,
    &folders::delete_folder_by_id::TOOL,
    &forks::diff_fork::TOOL,
    &forks::discard_fork::TOOL,
    &files::edit_file::TOOL,
    &forks::fork_workspace::TOOL,
    &folders::get_file_info_by_id::TOOL,
    &files::glob::TOOL,
    &files::grep::TOOL,
    &files::list_directory::TOOL,
    &folders::list_folders::TOOL,
    &history::list_versions::TOOL,
    &forks::merge_fork::TOOL,
    &files::move_file::TOOL,
    &folders::move_file_by_id::TOOL,
    &files::read_file::TOOL,
    &folders::read_file_by_id::TOOL,
    &files::read_many::TOOL,
    &folders::read_multiple_files_by_id::TOOL,
    &history::read_version::TOOL,
    &folders::rename_folder_by_id::TOOL,
    &history::restore::TOOL,
    &history::snapshot::TOOL,
    &files::stat::TOOL,
    &state::state_delete::TOOL,
    &state::state_get::TOOL,
    &state::state_list::TOOL,
    &state::state_set::TOOL,
    &history::undo::TOOL,
    &forks::update_fork::TOOL,
    &managed::workspace::TOOL,
    &files::write_file::TOOL,
    &folders::write_file_by_id::TOOL,
    &folders::write_multiple_files_by_id::TOOL,
];

/// The tool with this name.
pub fn tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().copied().find(|tool| tool.name == name)
}

impl Tool {
    /// Whether Workspaces with these scopes make the tool useful.
    pub fn is_useful_with(&self, scopes: &[AccessScope]) -> bool {
        self.required_access.iter().all(|access| scopes.iter().any(|scope| scope.allows(*access)))
    }

    /// Whether the tool can do something in a Workspace with this scope.
    pub fn works_in(&self, scope: AccessScope) -> bool {
        self.required_access.iter().any(|access| scope.allows(*access))
    }

    /// Whether the tool is useful because of the State, whatever the Workspaces are.
    fn works_on_state(&self) -> bool {
        self.offered == OfferedWhen::WithState || matches!(self.name, "undo" | "restore" | "snapshot")
    }

    /// Whether the tool changes anything.
    pub fn is_mutating(&self) -> bool {
        !self.hints.read_only
    }

    /// The parameters as a JSON Schema.
    pub fn input_schema(&self) -> serde_json::Map<String, serde_json::Value> {
        schema::object_schema(self.input)
    }

    /// The facts of the reply as a JSON Schema.
    pub fn output_schema(&self) -> serde_json::Map<String, serde_json::Value> {
        schema::object_schema(self.output)
    }
}
