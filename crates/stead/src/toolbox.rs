//! A stead's tools, and the Filesystem Map that describes its Workspaces to the agent.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use stead_core::Vfs;
use stead_core::tools::{
    ApprovalAnswer, ApprovalQuestion, CreatedSnapshot, Failure, Reply, Snapshots, Tool, Toolbox,
};
use stead_core::vfs::PointInTime;

use crate::error::Error;
use crate::stead::Stead;

impl Stead {
    /// The agent's tools, over the Workspaces that the stead has now.
    pub fn toolbox(&self) -> Toolbox {
        let snapshots = Arc::new(SteadSnapshots(self.clone()));
        let toolbox = Toolbox::new(self.vfs().clone()).with_choice(self.tool_choice.clone());
        let toolbox = toolbox.with_snapshots(snapshots);
        match &self.folders {
            Some(folders) => toolbox.with_folders(Arc::clone(folders)),
            None => toolbox,
        }
    }

    /// The tools that are offered, sorted by name.
    pub fn tools(&self) -> Vec<&'static Tool> {
        self.toolbox().offered().collect()
    }

    /// The Filesystem Map: the description of the agent's Workspaces for its system prompt, to be sent with every turn.
    pub fn map(&self) -> String {
        stead_core::filesystem_map::filesystem_map(&self.toolbox())
    }

    /// Calls a tool. A denial or a failure is a reply, too. A call that needs a person's approval is denied.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use serde_json::json;
    /// use stead::{AccessScope, MemoryStore, Stead};
    ///
    /// let notes = Arc::new(MemoryStore::new());
    /// let stead = Stead::builder("coder").workspace("/notes", AccessScope::ReadWrite, &notes).build()?;
    /// stead.call("write_file", json!({ "path": "/notes/plan.md", "content": "1. read" }));
    /// let reply = stead.call("read_file", json!({ "path": "/notes/plan.md" }));
    /// assert_eq!(reply.joined_text(), "1. read");
    /// # Ok::<(), stead::Error>(())
    /// ```
    pub fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.call_with_approval(tool, arguments, ApprovalAnswer::NobodyToAsk).expect("no question is asked")
    }

    /// Calls a tool with a person's answer. Returns the question if the call needs an approval and nobody was asked
    /// yet.
    pub fn call_with_approval(
        &self,
        tool: &str,
        arguments: Value,
        answer: ApprovalAnswer,
    ) -> Result<Reply, ApprovalQuestion> {
        match arguments {
            Value::Object(arguments) => self.toolbox().call(tool, arguments, answer),
            Value::Null => self.toolbox().call(tool, serde_json::Map::new(), answer),
            _ => Ok(self.toolbox().refuse_arguments(tool)),
        }
    }
}

/// Snapshots and versions for a stead's tools.
struct SteadSnapshots(Stead);

impl fmt::Debug for SteadSnapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SteadSnapshots").finish_non_exhaustive()
    }
}

impl Snapshots for SteadSnapshots {
    fn resolve_point(&self, vfs: &Vfs, path: &str, text: &str) -> Result<PointInTime, Failure> {
        Ok(self.0.with_vfs(vfs).resolve_point(path, text)?)
    }

    fn create_snapshot(
        &self,
        vfs: &Vfs,
        path: Option<&str>,
        label: Option<&str>,
    ) -> Result<CreatedSnapshot, Failure> {
        let stead = self.0.with_vfs(vfs);
        let snapshot = stead.snapshot(path, label)?;
        let name = snapshot.label.unwrap_or_else(|| format!("#{}", snapshot.id));
        let left_out = stead.left_out_of_snapshot(path)?;
        Ok(CreatedSnapshot { name, revision: snapshot.revision, at: snapshot.at, left_out })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Vfs(error) => error.into(),
            other => Failure::new(other.kind(), other.to_string()),
        }
    }
}
