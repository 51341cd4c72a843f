//! What a person has agreed to, where a Workspace or a tool asks first.
//!
//! A person agrees to what they were shown, and to nothing else: between the question and the answer a symlink may come
//! to lead elsewhere. So an agreement is a list of paths, each with what is done there, and a call that enters any other
//! place has to ask again.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::vfs::Vfs;
use crate::workspace::Workspace;

/// A path that a call enters, and what for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApprovalItem {
    /// The path, as far as symlinks have been resolved.
    pub path: VfsPath,
    /// What is done there.
    pub access: Access,
}

/// What a door may do where a person has to agree.
#[derive(Debug, Clone, Default)]
pub(super) enum Approval {
    /// Nothing: nobody is asked.
    #[default]
    None,
    /// Whatever is asked for.
    All,
    /// What was shown to a person, or is to be.
    Requested(Arc<ApprovalRequest>),
}

/// Whether a refusal for want of an agreement is the end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalRefusal {
    /// It is, and goes on record.
    Final,
    /// A person is about to be asked. What comes of that goes on record.
    WillAsk,
}

/// One call that asks, or has asked.
#[derive(Debug)]
pub(crate) struct ApprovalRequest {
    approved: BTreeSet<ApprovalItem>,
    /// Whether the person is asked about every path, since it is the tool that asks.
    all_paths: bool,
    refusal: ApprovalRefusal,
    requested: Mutex<Vec<ApprovalItem>>,
}

impl ApprovalRequest {
    /// A call that nobody has agreed to.
    pub(crate) fn new(all_paths: bool, refusal: ApprovalRefusal) -> Self {
        ApprovalRequest { approved: BTreeSet::new(), all_paths, refusal, requested: Mutex::default() }
    }

    /// The same after a person was shown these, and agreed.
    pub(crate) fn with_approved(self, shown: &[ApprovalItem]) -> Self {
        ApprovalRequest { approved: shown.iter().cloned().collect(), ..self }
    }

    /// All that the call has entered so far, or would have, in order and once.
    pub(crate) fn requested_items(&self) -> Vec<ApprovalItem> {
        let mut known = BTreeSet::new();
        self.requested.lock().iter().filter(|entry| known.insert(*entry)).cloned().collect()
    }

    /// Whether it is what the person has agreed to, or, where a whole directory is restored, a part of it.
    fn is_approved(&self, path: &VfsPath, access: Access) -> bool {
        let agreed = |path: &VfsPath| self.approved.contains(&ApprovalItem { path: path.clone(), access });
        let above = |path: &VfsPath| path.parent();
        match access {
            Access::Restore => std::iter::successors(Some(path.clone()), above).any(|path| agreed(&path)),
            Access::Read | Access::Write | Access::MoveOut | Access::History => agreed(path),
        }
    }

    /// Whether only what was shown may be entered, also in a Workspace that does not ask.
    fn is_strict(&self) -> bool {
        self.all_paths || !self.approved.is_empty()
    }
}

impl Approval {
    /// Whether a person has to be asked before this is entered. That it is wanted is noted.
    pub(super) fn needs_approval(
        &self,
        path: &VfsPath,
        access: Access,
        workspace: Option<&Workspace>,
    ) -> bool {
        let covered =
            || workspace.is_some_and(|workspace| workspace.approval_policy().requires_approval(access));
        match self {
            Approval::None => covered(),
            Approval::All => false,
            Approval::Requested(asking) => {
                asking.requested.lock().push(ApprovalItem { path: path.clone(), access });
                if asking.is_strict() { !asking.is_approved(path, access) } else { covered() }
            }
        }
    }

    /// Whether a Workspace is passed by that lies below what is looked through.
    pub(super) fn skips(&self, workspace: &Workspace) -> bool {
        let all = matches!(self, Approval::All);
        workspace.approval_policy().requires_approval(Access::Read) && !all
    }

    /// Whether only what was shown may be entered.
    pub(super) fn is_strict(&self) -> bool {
        matches!(self, Approval::Requested(asking) if asking.is_strict())
    }

    /// Whether a person is about to be asked.
    pub(super) fn will_ask(&self) -> bool {
        matches!(self, Approval::Requested(asking) if asking.refusal == ApprovalRefusal::WillAsk)
    }
}

impl Vfs {
    /// The same door after a person has agreed to whatever is to be done: Workspaces that ask first ask no more.
    pub fn with_approval(&self) -> Vfs {
        Vfs { approval: Approval::All, ..self.clone() }
    }

    /// The same door for a call that asks a person first, unless one has agreed to everything already.
    pub(crate) fn with_approval_request(&self, asking: &Arc<ApprovalRequest>) -> Vfs {
        match self.approval {
            Approval::All => self.clone(),
            Approval::None | Approval::Requested(_) => {
                Vfs { approval: Approval::Requested(Arc::clone(asking)), ..self.clone() }
            }
        }
    }

    /// Asks about these paths at once, where a person has to be asked about some of them. What else may be wrong with
    /// them shows when they are used.
    pub(crate) fn request_approval(&self, paths: &[VfsPath], access: Access) -> Result<()> {
        let asked = self.subcall("judge", [], |call, []| {
            call.set_paths(paths.to_vec());
            let refusals = paths.iter().filter_map(|path| call.route_and_authorize(path, access).err());
            // All of them are judged, so that all of them are shown.
            let asks =
                refusals.filter(|error| matches!(error, Error::ApprovalRequired { .. })).collect::<Vec<_>>();
            asks.into_iter().next().map_or(Ok(()), Err)
        });
        asked.map(drop)
    }

    /// Judges what is about to be done: at a path, or in every Workspace that allows it. No Store is touched.
    pub fn authorize(&self, path: Option<&VfsPath>, access: Access) -> Result<()> {
        let paths: Vec<VfsPath> = match path {
            Some(path) => vec![path.clone()],
            None => {
                let allowing = self.workspaces().filter(|workspace| workspace.scope().allows(access));
                allowing.map(|workspace| workspace.prefix().clone()).collect()
            }
        };
        self.authorize_all(&paths, access)
    }

    /// Judges what is about to be done at these paths. A person is asked about all of them at once.
    pub(crate) fn authorize_all(&self, paths: &[VfsPath], access: Access) -> Result<()> {
        let judged = self.subcall("judge", [], |call, []| {
            call.set_paths(paths.to_vec());
            let refusals = paths
                .iter()
                .filter_map(|path| call.route_and_authorize(path, access).err())
                .collect::<Vec<_>>();
            let (asks, others): (Vec<_>, Vec<_>) =
                refusals.into_iter().partition(|error| matches!(error, Error::ApprovalRequired { .. }));
            others.into_iter().chain(asks).next().map_or(Ok(()), Err)
        });
        judged.map(drop)
    }

    /// Whether a refusal for want of an agreement makes a question.
    pub(crate) fn will_ask_approval(&self) -> bool {
        self.approval.will_ask()
    }
}
