//! A stead's tools, and the Filesystem Map that describes its Workspaces to the agent.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use stead_core::store::Fork;
use stead_core::tools::{
    ApprovalAnswer, ApprovalQuestion, CreatedSnapshot, Failure, ForkOperations, Reply, Snapshots, Tool,
    Toolbox,
};
use stead_core::vfs::{DiffOptions, Difference, MergeOptions, MergeResult, PointInTime};
use stead_core::{Vfs, VfsPath};

use crate::error::Error;
use crate::stead::Stead;

impl Stead {
    /// The agent's tools, over the Workspaces that the stead has now.
    pub fn toolbox(&self) -> Toolbox {
        let snapshots = Arc::new(SteadSnapshots(self.clone()));
        let toolbox = Toolbox::new(self.vfs().clone()).with_choice(self.tool_choice.clone());
        let toolbox = toolbox.with_snapshots(snapshots).with_forks(Arc::new(SteadForks(self.clone())));
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

/// Forks for a stead's tools.
struct SteadForks(Stead);

impl fmt::Debug for SteadForks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SteadForks").finish_non_exhaustive()
    }
}

impl ForkOperations for SteadForks {
    fn fork(&self, vfs: &Vfs, prefix: &str, name: &str) -> Result<Fork, Failure> {
        Ok(self.0.with_vfs(vfs).fork(prefix, name)?.find_fork(name)?.clone())
    }

    fn diff(&self, vfs: &Vfs, fork: &str, options: DiffOptions) -> Result<Vec<Difference>, Failure> {
        Ok(self.0.with_vfs(vfs).diff_fork(fork, options)?)
    }

    fn update(&self, vfs: &Vfs, fork: &str, options: &MergeOptions) -> Result<MergeResult, Failure> {
        Ok(self.0.with_vfs(vfs).update_fork(fork, options)?)
    }

    fn merge(&self, vfs: &Vfs, fork: &str, options: &MergeOptions) -> Result<MergeResult, Failure> {
        Ok(self.0.with_vfs(vfs).merge_fork(fork, options)?)
    }

    fn discard(&self, vfs: &Vfs, fork: &str) -> Result<(), Failure> {
        self.0.with_vfs(vfs).discard(fork)?;
        Ok(())
    }

    fn prefixes(&self, fork: &str) -> Vec<VfsPath> {
        let own = self.0.find_fork(fork).ok();
        let base = own.map(|fork| fork.base_prefix.clone());
        base.into_iter().chain(VfsPath::parse(&format!("/forks/{fork}")).ok()).collect()
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
