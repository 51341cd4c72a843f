//! Approvals: a person's yes to one call, where a Workspace or a tool asks first.
//!
//! A person approves what they were shown and nothing else: between the question and the answer a symlink may change
//! its target. So an approval is a list of paths, each with its access, and a call that needs any other path has to ask
//! again.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::vfs::Vfs;
use crate::workspace::Workspace;

/// A path that a call accesses, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ApprovalItem {
    /// The path, as far as symlinks have been resolved.
    pub path: VfsPath,
    /// What is done there.
    pub access: Access,
}

/// What calls through a `Vfs` may do where a person has to approve.
#[derive(Debug, Clone, Default)]
pub(super) enum Approval {
    /// Nothing: nobody is asked.
    #[default]
    None,
    /// Everything.
    All,
    /// What a person was shown and has approved, or will be shown.
    Requested(Arc<ApprovalRequest>),
}

/// Whether a refusal for lack of approval ends the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalRefusal {
    /// It does, and is recorded.
    Final,
    /// It doesn't: a person is about to be asked. The call is recorded when it is made again with the answer.
    WillAsk,
}

/// The approval of one call: what it asks for, and what a person has approved.
#[derive(Debug)]
pub(crate) struct ApprovalRequest {
    approved: BTreeSet<ApprovalItem>,
    /// Whether every path needs approval, because the tool itself asks.
    all_paths: bool,
    refusal: ApprovalRefusal,
    requested: Mutex<Vec<ApprovalItem>>,
}

impl ApprovalRequest {
    /// Starts a request with nothing approved.
    pub(crate) fn new(all_paths: bool, refusal: ApprovalRefusal) -> Self {
        ApprovalRequest { approved: BTreeSet::new(), all_paths, refusal, requested: Mutex::default() }
    }

    /// Returns the request after a person was shown these items and approved them.
    pub(crate) fn with_approved(self, items: &[ApprovalItem]) -> Self {
        ApprovalRequest { approved: items.iter().cloned().collect(), ..self }
    }

    /// Everything that the call has asked for so far, in order and without duplicates.
    pub(crate) fn requested_items(&self) -> Vec<ApprovalItem> {
        let mut seen = BTreeSet::new();
        self.requested.lock().iter().filter(|item| seen.insert(*item)).cloned().collect()
    }

    /// Whether a person has approved this access. A restore is also approved by the approval of a directory above the
    /// path.
    fn is_approved(&self, path: &VfsPath, access: Access) -> bool {
        let contains = |path: &VfsPath| self.approved.contains(&ApprovalItem { path: path.clone(), access });
        let parent = |path: &VfsPath| path.parent();
        match access {
            Access::Restore => std::iter::successors(Some(path.clone()), parent).any(|path| contains(&path)),
            Access::Read | Access::Write | Access::MoveOut | Access::History => contains(path),
        }
    }

    /// Whether only approved items may be accessed, even in a Workspace that doesn't ask.
    fn is_strict(&self) -> bool {
        self.all_paths || !self.approved.is_empty()
    }
}

impl Approval {
    /// Whether a person has to approve this access first. Adds it to the items that the request has asked for.
    pub(super) fn needs_approval(
        &self,
        path: &VfsPath,
        access: Access,
        workspace: Option<&Workspace>,
    ) -> bool {
        let policy_requires =
            || workspace.is_some_and(|workspace| workspace.approval_policy().requires_approval(access));
        match self {
            Approval::None => policy_requires(),
            Approval::All => false,
            Approval::Requested(request) => {
                request.requested.lock().push(ApprovalItem { path: path.clone(), access });
                if request.is_strict() { !request.is_approved(path, access) } else { policy_requires() }
            }
        }
    }

    /// Whether a walk or search from above has to leave this Workspace out, because reading it needs approval.
    pub(super) fn must_skip(&self, workspace: &Workspace) -> bool {
        let approves_all = matches!(self, Approval::All);
        workspace.approval_policy().requires_approval(Access::Read) && !approves_all
    }

    /// Whether only approved items may be accessed.
    pub(super) fn is_strict(&self) -> bool {
        matches!(self, Approval::Requested(request) if request.is_strict())
    }

    /// Whether a person is about to be asked.
    pub(super) fn will_ask(&self) -> bool {
        matches!(self, Approval::Requested(request) if request.refusal == ApprovalRefusal::WillAsk)
    }
}

impl Vfs {
    /// Returns this `Vfs` with everything approved: Workspaces that ask first no longer ask.
    pub fn with_approval(&self) -> Vfs {
        Vfs { approval: Approval::All, ..self.clone() }
    }

    /// Returns this `Vfs` for a call that asks a person first. If everything is approved already, it stays so.
    pub(crate) fn with_approval_request(&self, request: &Arc<ApprovalRequest>) -> Vfs {
        match self.approval {
            Approval::All => self.clone(),
            Approval::None | Approval::Requested(_) => {
                Vfs { approval: Approval::Requested(Arc::clone(request)), ..self.clone() }
            }
        }
    }

    /// Asks for approval of all these paths at once, where some of them need it. Ignores every other refusal: that
    /// shows when the path is used.
    pub(crate) fn request_approval(&self, paths: &[VfsPath], access: Access) -> Result<()> {
        let result = self.subcall("authorize", [], |call, []| {
            call.set_paths(paths.to_vec());
            let refusals = paths.iter().filter_map(|path| call.route_and_authorize(path, access).err());
            // Authorizes all of them before it fails, so that a person is shown all of them.
            let approval_errors =
                refusals.filter(|error| matches!(error, Error::ApprovalRequired { .. })).collect::<Vec<_>>();
            approval_errors.into_iter().next().map_or(Ok(()), Err)
        });
        result.map(drop)
    }

    /// Authorizes an access at a path, or in every Workspace whose scope allows it. Nothing in a Store changes.
    pub fn authorize(&self, path: Option<&VfsPath>, access: Access) -> Result<()> {
        let paths: Vec<VfsPath> = match path {
            Some(path) => vec![path.clone()],
            None => {
                let allowing = self.workspaces().filter(|workspace| self.shared.allows(workspace, access));
                allowing.map(|workspace| workspace.prefix().clone()).collect()
            }
        };
        self.authorize_all(&paths, access)
    }

    /// Authorizes an access at these paths. A person is asked about all of them at once, and only if none is refused.
    pub fn authorize_all(&self, paths: &[VfsPath], access: Access) -> Result<()> {
        let result = self.subcall("authorize", [], |call, []| {
            call.set_paths(paths.to_vec());
            let refusals = paths
                .iter()
                .filter_map(|path| call.route_and_authorize(path, access).err())
                .collect::<Vec<_>>();
            let (approval_errors, others): (Vec<_>, Vec<_>) =
                refusals.into_iter().partition(|error| matches!(error, Error::ApprovalRequired { .. }));
            others.into_iter().chain(approval_errors).next().map_or(Ok(()), Err)
        });
        result.map(drop)
    }

    /// Whether a refusal for lack of approval leads to a question to a person.
    pub(crate) fn will_ask_approval(&self) -> bool {
        self.approval.will_ask()
    }
}
