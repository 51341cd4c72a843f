//! Whether the caller itself wrote all of a file's content.
//!
//! A WRITE_ONLY caller may edit and move a file that it wrote itself: that discloses nothing new to it. But it may also
//! append to another identity's file or write into a part of it, and then the newest revision is its own while the
//! content is not. So the revisions are checked from the newest on, until one is found that left nothing of the earlier
//! content.

use crate::error::{Error, Result, Visibility};
use crate::identity::Identity;
use crate::store::{
    ContentRef, DisplacedContent, NodeChange, NodeId, NodeKind, NodeState, Precondition, Revision,
    RevisionNumber, RevisionQuery, VersionTag,
};
use crate::vfs::call::Call;
use crate::vfs::resolve::{ResolvedCallError, ResolvedPath};

/// The tool names of changes that may leave some of the earlier content.
const APPENDING_TOOLS: [&str; 4] = ["append", "append_file", "append_to_file_by_id", "open"];
/// The tool name of changes that leave the content as it is.
const ATTRIBUTE_TOOL: &str = "set_attributes";
/// How many revisions of a file are read at once.
const REVISIONS_PER_QUERY: usize = 16;
/// How many revisions of a file are checked at most.
const MAX_REVISIONS: usize = 1_024;

/// What a change leaves of the earlier content of a file that the caller may not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PriorContent {
    /// Nothing.
    Replaced,
    /// Perhaps some of it.
    MayRemain,
}

/// What one revision says about who wrote the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Authorship {
    /// The caller wrote all of it.
    Own,
    /// The caller wrote all of it if it wrote all of the content before this revision.
    Inherited,
    /// The caller did not write all of it.
    Foreign,
}

impl Call<'_> {
    /// The version tag of a file that the caller has written all of. For everything else the same denial, whatever is
    /// there.
    pub(super) fn check_own_file(&self, resolved: &ResolvedPath<'_>) -> Result<VersionTag> {
        self.own_file_tag(resolved).ok_or_else(|| not_own_file(resolved))
    }

    /// Checks a version tag precondition where the caller may not read. The answer discloses something about the file,
    /// so it is given only for the caller's own file; for every other file it is denied like an edit.
    pub(super) fn check_own_precondition(
        &self,
        resolved: &ResolvedPath<'_>,
        expect: Precondition,
    ) -> Result<(), ResolvedCallError> {
        match expect {
            Precondition::Tag(_) | Precondition::ShortTag(_)
                if resolved.visibility() == Visibility::Hidden =>
            {
                let own_tag = self.check_own_file(resolved)?;
                Ok(expect.check(Some(own_tag))?)
            }
            _ => Ok(()),
        }
    }

    fn own_file_tag(&self, resolved: &ResolvedPath<'_>) -> Option<VersionTag> {
        let store = resolved.store();
        if resolved.hidden.is_some()
            || resolved.displaced_content() == DisplacedContent::Discard
            || store.history().is_none()
        {
            return None;
        }
        let attr = store.stat(&resolved.node_path).ok().filter(|attr| attr.kind == NodeKind::File)?;
        // The content that the next newer revision found.
        let mut expected_content: Option<ContentRef> = None;
        let (mut up_to, mut remaining) = (RevisionNumber::NOW, MAX_REVISIONS);
        loop {
            let query = RevisionQuery {
                up_to,
                limit: REVISIONS_PER_QUERY,
                at: Some(resolved.node_path.clone()),
                ..RevisionQuery::all()
            };
            let revisions = store.history()?.revisions(&query).ok()?;
            if up_to == RevisionNumber::NOW {
                let current = revisions.current.get(&attr.node).filter(|current| current.tag == attr.tag)?;
                expected_content = Some(current.state.as_ref()?.content.clone()?);
            }
            let last = revisions.revisions.last()?.number;
            for revision in &revisions.revisions {
                let change = change_of(revision, attr.node)?;
                // If a host program has changed the file in between, nothing records who did.
                if change.after.as_ref()?.content != expected_content {
                    return None;
                }
                match authorship(revision, change, self.vfs.identity()) {
                    Authorship::Own => return Some(attr.tag),
                    Authorship::Foreign => return None,
                    Authorship::Inherited => {
                        expected_content = Some(change.before.as_ref()?.content.clone()?)
                    }
                }
            }
            remaining = remaining.checked_sub(revisions.revisions.len())?;
            up_to = RevisionNumber(last.0 - 1);
        }
    }

    /// Notes, where the caller may not read, what a change leaves of the earlier content. `check_own_file` uses that
    /// later.
    pub(super) fn note_prior_content(&self, resolved: &ResolvedPath<'_>, prior_content: PriorContent) {
        if resolved.visibility() == Visibility::Hidden {
            self.name_by_prior_content(prior_content);
        }
    }

    /// Names a change of attributes as such, where the caller may not read.
    pub(super) fn name_as_set_attributes(&self, resolved: &ResolvedPath<'_>) {
        if resolved.visibility() == Visibility::Hidden {
            self.operation_name.set(Some(ATTRIBUTE_TOOL));
        }
    }

    /// Gives a change a tool name that says what it leaves, unless its own name does.
    pub(super) fn name_by_prior_content(&self, prior_content: PriorContent) {
        let is_appending = APPENDING_TOOLS.contains(&&*self.tool());
        match (prior_content, is_appending) {
            (PriorContent::MayRemain, false) => self.operation_name.set(Some("append")),
            (PriorContent::Replaced, true) => self.operation_name.set(Some("write")),
            (PriorContent::MayRemain, true) | (PriorContent::Replaced, false) => {}
        }
    }
}

/// The denial for everything that isn't the caller's own file, whether something is there or not.
pub(super) fn not_own_file(resolved: &ResolvedPath<'_>) -> Error {
    Error::NotOwnFile {
        path: resolved.reported_path().clone(),
        workspace: resolved.reported_workspace().clone(),
    }
}

fn change_of(revision: &Revision, node: NodeId) -> Option<&NodeChange> {
    revision.changes.iter().find(|change| change.node == node)
}

fn authorship(revision: &Revision, change: &NodeChange, caller: &Identity) -> Authorship {
    let Identity { agent, thread, organization, .. } = &*revision.operation.identity;
    if (agent, thread, organization) != (&caller.agent, &caller.thread, &caller.organization) {
        return Authorship::Foreign;
    }
    let directory_and_name = |state: &NodeState| (state.parent, state.name.clone());
    let tool = &*revision.operation.tool;
    match (&change.before, &change.after) {
        // What the caller may do with the file afterwards must not disclose whether it existed before.
        (None, Some(_)) if APPENDING_TOOLS.contains(&tool) => Authorship::Foreign,
        (None, Some(_)) => Authorship::Own,
        // Only the caller's own file, or one that it may read, can be moved.
        (Some(before), Some(after)) if directory_and_name(before) != directory_and_name(after) => {
            Authorship::Own
        }
        (Some(_), Some(_)) if APPENDING_TOOLS.contains(&tool) || tool == ATTRIBUTE_TOOL => {
            Authorship::Inherited
        }
        // This includes a write of the content that was there already: the caller must not learn that its guess was
        // right.
        (Some(_), Some(_)) => Authorship::Own,
        (_, None) => Authorship::Foreign,
    }
}
