//! Whether all that a file holds was written by the caller.
//!
//! A WRITE_ONLY caller may edit and move what it wrote itself: that tells nothing which it did not know. It may add to a
//! file of another, and write into a part of it; the newest version is its own then, and the content is not. So the
//! versions are gone through from the newest on, until one is found that left nothing of what was there before it.

use crate::error::{Error, Result, Visibility};
use crate::identity::Identity;
use crate::path::VfsPath;
use crate::store::{
    ContentRef, DisplacedContent, NodeChange, NodeId, NodeKind, NodeState, Precondition, Revision,
    RevisionNumber, RevisionQuery, VersionTag,
};
use crate::vfs::call::Call;
use crate::vfs::resolve::{ResolvedCallError, ResolvedPath};

/// What changes are called that may leave something of what was there before.
const APPENDING_TOOLS: [&str; 3] = ["append", "append_file", "open"];
/// What changes are called that leave the content as it is.
const ATTRIBUTES: &str = "set_attributes";
/// How many versions of a file are read at once.
const REVISIONS_PER_QUERY: usize = 16;
/// How many versions of a file are gone through at the most.
const MAX_REVISIONS: usize = 1_024;

/// What a change does to the content of a file that the caller may not look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PriorContent {
    /// Nothing of what was there.
    Replaced,
    /// Perhaps something.
    MayRemain,
}

/// What one version says of who wrote the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Authorship {
    /// All of it is the caller's.
    Own,
    /// It is, if what was there before is.
    Inherited,
    /// Some of it is not.
    Foreign,
}

impl Call<'_> {
    /// The state of a file that the caller has written all of; everything else is denied in one and the same way.
    pub(super) fn check_own_file(&self, spot: &ResolvedPath<'_>) -> Result<VersionTag> {
        self.own_file_tag(spot).ok_or_else(|| not_own_file(spot))
    }

    /// Compares the version tag that a change expects, where the caller may not look. An answer to it tells something about
    /// the file, so there it is given for a file of the caller's own only; every other file is denied as an edit is.
    pub(super) fn check_own_precondition(
        &self,
        spot: &ResolvedPath<'_>,
        expect: Precondition,
    ) -> Result<(), ResolvedCallError> {
        match expect {
            Precondition::Tag(_) | Precondition::ShortTag(_) if spot.visibility() == Visibility::Hidden => {
                let own = self.check_own_file(spot)?;
                Ok(expect.check(Some(own))?)
            }
            _ => Ok(()),
        }
    }

    fn own_file_tag(&self, spot: &ResolvedPath<'_>) -> Option<VersionTag> {
        let store = spot.store();
        if spot.via_hidden_symlink
            || spot.displaced_content() == DisplacedContent::Discard
            || !store.info().history
        {
            return None;
        }
        let attr = store.stat(&spot.node_path).ok().filter(|attr| attr.kind == NodeKind::File)?;
        // What the version after the one that is looked at found there.
        let mut found: Option<ContentRef> = None;
        let (mut upto, mut left) = (RevisionNumber::NOW, MAX_REVISIONS);
        loop {
            let query = RevisionQuery {
                up_to: upto,
                limit: REVISIONS_PER_QUERY,
                at: Some(spot.node_path.clone()),
                ..RevisionQuery::all()
            };
            let deeds = store.revisions(&query).ok()?;
            if upto == RevisionNumber::NOW {
                let now = deeds.current.get(&attr.node).filter(|now| now.tag == attr.tag)?;
                found = Some(now.state.as_ref()?.content.clone()?);
            }
            let last = deeds.revisions.last()?.number;
            for deed in &deeds.revisions {
                let line = change_of(deed, attr.node)?;
                // Where a program of the host has changed it in between, nothing records who did.
                if line.after.as_ref()?.content != found {
                    return None;
                }
                match authorship(deed, line, self.vfs.identity()) {
                    Authorship::Own => return Some(attr.tag),
                    Authorship::Foreign => return None,
                    Authorship::Inherited => found = Some(line.before.as_ref()?.content.clone()?),
                }
            }
            left = left.checked_sub(deeds.revisions.len())?;
            upto = RevisionNumber(last.0 - 1);
        }
    }

    /// Says what a change does to content, where the caller may not look: who wrote a file is found by it later.
    pub(super) fn note_prior_content(&self, spot: &ResolvedPath<'_>, leaves: PriorContent) {
        if spot.visibility() == Visibility::Hidden {
            self.name_by_prior_content(leaves);
        }
    }

    /// Calls a change of attributes by its name, where the caller may not look.
    pub(super) fn sets_attributes(&self, spot: &ResolvedPath<'_>) {
        if spot.visibility() == Visibility::Hidden {
            self.operation_name.set(Some(ATTRIBUTES));
        }
    }

    /// Calls a change by a name that tells what it leaves, unless the name that it has does.
    pub(super) fn name_by_prior_content(&self, leaves: PriorContent) {
        let adds = APPENDING_TOOLS.contains(&&*self.tool());
        match (leaves, adds) {
            (PriorContent::MayRemain, false) => self.operation_name.set(Some("append")),
            (PriorContent::Replaced, true) => self.operation_name.set(Some("write")),
            (PriorContent::MayRemain, true) | (PriorContent::Replaced, false) => {}
        }
    }
}

/// The one denial, whatever is there or not.
pub(super) fn not_own_file(spot: &ResolvedPath<'_>) -> Error {
    let workspace: VfsPath = spot.workspace.prefix().clone();
    Error::NotOwnFile { path: spot.reported_path.clone(), workspace }
}

fn change_of(deed: &Revision, node: NodeId) -> Option<&NodeChange> {
    deed.changes.iter().find(|line| line.node == node)
}

fn authorship(deed: &Revision, line: &NodeChange, caller: &Identity) -> Authorship {
    let Identity { agent, thread, organization, .. } = &*deed.operation.identity;
    if (agent, thread, organization) != (&caller.agent, &caller.thread, &caller.organization) {
        return Authorship::Foreign;
    }
    let place = |state: &NodeState| (state.parent, state.name.clone());
    let tool = &*deed.operation.tool;
    match (&line.before, &line.after) {
        // Whether it was there before must not be told by what may be done with it afterwards.
        (None, Some(_)) if APPENDING_TOOLS.contains(&tool) => Authorship::Foreign,
        (None, Some(_)) => Authorship::Own,
        // Only what is one's own, or may be read, can be moved.
        (Some(before), Some(after)) if place(before) != place(after) => Authorship::Own,
        (Some(_), Some(_)) if APPENDING_TOOLS.contains(&tool) || tool == ATTRIBUTES => Authorship::Inherited,
        // Also where it wrote what was there already: it must not learn that its guess was right.
        (Some(_), Some(_)) => Authorship::Own,
        (_, None) => Authorship::Foreign,
    }
}
