//! Diff between two revisions, and blame of a file, in logical paths.

use std::collections::HashMap;

use crate::error::{Error, Result, Visibility};
use crate::history::blame::{self, BlamedLine};
use crate::history::diff::{ContentDiff, MAX_DIFF_SIZE, diff_content};
use crate::identity::Operation;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    ContentRef, NodeChange, NodeId, NodeKind, NodeState, Revision, RevisionId, RevisionNumber, RevisionQuery,
    Store, StoreError, StorePath, StoreResult,
};
use crate::text_encoding::TextEncoding;
use crate::vfs::call::Call;
use crate::vfs::history::merge::stored_line_authors;
use crate::vfs::history::restore::check_retained;
use crate::vfs::history::{StoreGroup, read_content};
use crate::vfs::state::state_value;
use crate::vfs::{IntoPath, PointInTime, Vfs};
use crate::workspace::Workspace;

/// How two revisions are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffOptions {
    /// Whether contents are compared by line.
    pub text: bool,
    /// How many lines are shown around a difference.
    pub context: usize,
}

impl Default for DiffOptions {
    fn default() -> Self {
        DiffOptions { text: true, context: 3 }
    }
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The path in the revision compared to; in the revision compared from, if the node was removed.
    pub path: VfsPath,
    /// The path in the revision compared from, if the node was moved.
    pub from: Option<VfsPath>,
    /// How it differs.
    pub difference: DifferenceKind,
    /// The node's kind.
    pub kind: NodeKind,
    /// The modes before and after, if they differ.
    pub modes: Option<(u32, u32)>,
    /// The sizes in bytes before and after; 0 where the node doesn't exist.
    pub sizes: (u64, u64),
    /// The difference of the contents, if it was asked for and there is one.
    pub content: Option<ContentDiff>,
}

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceKind {
    /// It is new.
    Added,
    /// Its content or its mode differs.
    Changed,
    /// It has another path, and perhaps other content.
    Moved,
    /// It was removed.
    Removed,
}

impl DifferenceKind {
    /// The kind as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            DifferenceKind::Added => "added",
            DifferenceKind::Changed => "changed",
            DifferenceKind::Moved => "moved",
            DifferenceKind::Removed => "removed",
        }
    }
}

/// A line of a file, and the operation that wrote it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BlameLine {
    /// The line in UTF-8, with its ending.
    pub line: Vec<u8>,
    /// The revision that wrote the line. `None` if it is unknown, older than the history, or outside what the caller
    /// may see.
    pub revision: Option<RevisionId>,
    /// The operation that wrote the line; `None` as for `revision`.
    pub operation: Option<Operation>,
    /// Whether another program wrote the line into a host file, after the first revision of the file.
    pub by_another_program: bool,
}

/// Who wrote a state of a file.
enum Writer {
    /// It is older than the history, or outside what the caller may see.
    Unknown,
    /// It isn't what the revision before it left there: another program has changed the host file since.
    AnotherProgram,
    /// An operation, with its revision.
    Revision(RevisionId, Operation),
}

impl Vfs {
    /// What differs below a path between two points in time, in the Workspace that the path lies in and in those nested
    /// below it. Nested Workspaces are left out if the caller may not read their history, or if their Store doesn't have
    /// these points in time.
    pub fn diff(
        &self,
        prefix: impl IntoPath,
        from: impl Into<PointInTime>,
        to: impl Into<PointInTime>,
        options: DiffOptions,
    ) -> Result<Vec<Difference>> {
        let (from, to) = (from.into(), to.into());
        self.call("diff", [prefix.into_path()], |call, [prefix]| call.diff(prefix, from, to, options))
    }

    /// The lines of a text file, each with the operation that wrote it.
    pub fn blame(&self, path: impl IntoPath) -> Result<Vec<BlameLine>> {
        self.call("blame", [path.into_path()], |call, [path]| call.blame(path))
    }
}

impl Call<'_> {
    fn diff(
        &self,
        prefix: &VfsPath,
        from: PointInTime,
        to: PointInTime,
        options: DiffOptions,
    ) -> Result<Vec<Difference>> {
        // The State has no path, so only a comparison of everything includes it.
        let state = self.state_with_history(Access::History).filter(|_| prefix.is_root());
        let mut targets = self.history_targets_and_state(prefix, Access::History, state)?;
        let (from, to) = (self.resolve_point(from)?, self.resolve_point(to)?);
        let mut differences = Vec::new();
        for (workspace, store_path, [from, to]) in targets.take_at([&from, &to])? {
            let failed =
                |cause| Error::Store { path: prefix.clone(), visibility: Visibility::Visible, cause };
            differences
                .extend(self.diff_workspace(workspace, &store_path, (from, to), options).map_err(failed)?);
        }
        differences.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(differences)
    }

    /// Compares what one Workspace shows at and below a path in its Store, without the Workspaces nested in it.
    fn diff_workspace(
        &self,
        workspace: &Workspace,
        top: &StorePath,
        (from, to): (RevisionNumber, RevisionNumber),
        options: DiffOptions,
    ) -> StoreResult<Vec<Difference>> {
        let store = workspace.mount().store();
        let (older, newer) = (from.min(to), from.max(to));
        check_retained(&**store, older)?;
        if newer != RevisionNumber::NOW {
            check_retained(&**store, newer)?;
        }
        let mut paths = vec![top.clone()];
        paths.extend(self.hidden_paths(workspace).into_iter().filter(|path| path.is_at_or_below(top)));
        let mut revisions = store.require_history()?.changes_between(older, newer, &paths)?;
        let group = StoreGroup { store, workspaces: vec![workspace] };
        group.remove_before_own(&mut revisions);
        let mut nodes: HashMap<NodeId, (Option<NodeState>, Option<NodeState>)> = HashMap::new();
        for (node, state) in
            end_states(revisions.revisions.iter().rev(), |change| (&change.before, &change.after))
        {
            nodes.entry(node).or_default().1 = state;
        }
        for (node, state) in end_states(revisions.revisions.iter(), |change| (&change.after, &change.before))
        {
            nodes.entry(node).or_default().0 = state;
        }
        let mut differences = Vec::new();
        for (old, new) in nodes.into_values() {
            let (old, new) = if from <= to { (&old, &new) } else { (&new, &old) };
            // A state that lay in a nested Workspace isn't part of this one.
            let is_inside = |state: &&NodeState| {
                state.path.is_at_or_below(top) && self.logical_path(&group, &state.path).is_some()
            };
            let (old, new) = (old.as_ref().filter(is_inside), new.as_ref().filter(is_inside));
            differences.extend(self.difference(&group, old, new, options)?);
        }
        Ok(differences)
    }

    /// How two states of a node differ; `None` if they don't, or if the caller may not see where it is.
    pub(super) fn difference(
        &self,
        group: &StoreGroup<'_>,
        old: Option<&NodeState>,
        new: Option<&NodeState>,
        options: DiffOptions,
    ) -> Result<Option<Difference>, StoreError> {
        let difference = match (old, new) {
            (None, None) => return Ok(None),
            (None, Some(_)) => DifferenceKind::Added,
            (Some(_), None) => DifferenceKind::Removed,
            (Some(old), Some(new)) if (old.parent, &old.name) != (new.parent, &new.name) => {
                DifferenceKind::Moved
            }
            (Some(old), Some(new)) if old.content == new.content && old.mode == new.mode => return Ok(None),
            (Some(_), Some(_)) => DifferenceKind::Changed,
        };
        let state = new.or(old).expect("at least one state exists");
        let Some(path) = self.logical_path(group, &state.path) else { return Ok(None) };
        let from = match old {
            Some(old) if difference == DifferenceKind::Moved => self.logical_path(group, &old.path),
            _ => None,
        };
        let size = |state: Option<&NodeState>| state.map_or(0, |state| state.size);
        let modes = match (old, new) {
            // That of a key's file only says whether the key expires.
            (Some(old), Some(new)) if old.mode != new.mode && !path.is_state() => Some((old.mode, new.mode)),
            _ => None,
        };
        let content = match state.kind {
            NodeKind::File if options.text => {
                let is_state = path.is_state();
                self.content_diff(&**group.store, (old, new), is_state, options.context)?
            }
            _ => None,
        };
        let sizes = (size(old), size(new));
        Ok(Some(Difference { path, from, difference, kind: state.kind, modes, sizes, content }))
    }

    fn content_diff(
        &self,
        store: &dyn Store,
        (old, new): (Option<&NodeState>, Option<&NodeState>),
        is_state: bool,
        context: usize,
    ) -> Result<Option<ContentDiff>, StoreError> {
        let content = |state: Option<&NodeState>| state.and_then(|state| state.content.clone());
        let (before, after) = (content(old), content(new));
        if before == after {
            return Ok(None);
        }
        // Unknown content can't be compared, and a line diff of large content would be of no use.
        let unknown = [(old, &before), (new, &after)]
            .iter()
            .any(|(state, content)| state.is_some() && content.is_none());
        let large = [&before, &after].into_iter().flatten().any(|content| content.size() > MAX_DIFF_SIZE);
        if unknown || large {
            return Ok(Some(ContentDiff::Binary));
        }
        // The texts of both contents and their lines are held next to the contents themselves.
        let sizes = [&before, &after].into_iter().flatten().map(ContentRef::size);
        let _memory = self.reserve(sizes.sum::<u64>() * 6)?;
        let bytes = |content: &Option<ContentRef>| match content {
            Some(content) if is_state => state_value(read_content(store, content)?),
            Some(content) => read_content(store, content),
            None => Ok(Vec::new()),
        };
        Ok(Some(diff_content(&bytes(&before)?, &bytes(&after)?, context)))
    }

    fn blame(&self, path: &VfsPath) -> Result<Vec<BlameLine>> {
        let (_, resolved) = self.resolve(path, Access::History)?;
        let store = &**resolved.workspace.mount().store();
        let failed = |cause| Error::Store { path: path.clone(), visibility: Visibility::Visible, cause };
        let attr = store.stat(&resolved.node_path).map_err(failed)?;
        if attr.kind == NodeKind::Directory {
            return Err(failed(StoreError::IsADirectory));
        }
        let query = RevisionQuery { at: Some(resolved.node_path.clone()), ..RevisionQuery::all() };
        let revisions =
            store.require_history().and_then(|history| history.revisions(&query)).map_err(failed)?;
        let group =
            StoreGroup { store: resolved.workspace.mount().store(), workspaces: vec![resolved.workspace] };
        // The author of content that the file got outside the caller's Workspace isn't revealed.
        let is_visible = |state: &NodeState| self.logical_path(&group, &state.path).is_some();
        fn content_of(state: &Option<NodeState>) -> Option<&ContentRef> {
            state.as_ref()?.content.as_ref()
        }
        let mut states: Vec<(&ContentRef, Writer)> = Vec::new();
        for revision in revisions.revisions.iter().rev() {
            for change in &revision.changes {
                if let Some(before) = content_of(&change.before) {
                    match states.last() {
                        None => states.push((before, Writer::Unknown)),
                        // The revision found other content than the one before it had left.
                        Some((last, _)) if *last != before => states.push((before, Writer::AnotherProgram)),
                        Some(_) => {}
                    }
                }
                if let (Some(state), Some(after)) = (&change.after, content_of(&change.after)) {
                    let writer = match is_visible(state) {
                        true => Writer::Revision(store.revision(revision.number), revision.operation.clone()),
                        false => Writer::Unknown,
                    };
                    states.push((after, writer));
                }
            }
        }
        // All states of the file are in memory at once, and so are their texts.
        let size = states.iter().map(|(content, _)| content.size()).sum();
        if size > super::MAX_CONTENT_SIZE {
            return Err(failed(StoreError::TooLarge { size, limit: super::MAX_CONTENT_SIZE }));
        }
        let _memory = self.reserve(size * 3).map_err(failed)?;
        let (mut contents, mut writers) = (Vec::new(), Vec::new());
        for (content, writer) in states {
            contents.push(read_content(store, content).map_err(failed)?);
            writers.push(writer);
        }
        let changed_node = revisions.revisions.iter().flat_map(|revision| &revision.changes).next();
        let current = changed_node.and_then(|change| revisions.current.get(&change.node));
        let current = current.and_then(|current| current.state.as_ref()?.content.as_ref());
        // As of the same moment as the revisions, if the Store has it: a later revision is not another program's change.
        let present = match current {
            Some(content) => read_content(store, content),
            None => store.read(&resolved.node_path, super::MAX_CONTENT_SIZE).map(|read| read.bytes),
        };
        let present = present.map_err(failed)?;
        if contents.last() != Some(&present) {
            writers.push(if changed_node.is_none() { Writer::Unknown } else { Writer::AnotherProgram });
            contents.push(present);
        }
        let texts: Option<Vec<_>> =
            contents.iter().map(|content| TextEncoding::decode_content(content)).collect();
        let Some(texts) = texts else { return Err(Error::Binary { path: path.clone() }) };
        let texts: Vec<_> = texts.iter().map(|text| text.as_bytes()).collect();
        // What a merge took from a fork has the authors of the fork.
        let mut merged_authors: HashMap<usize, Option<Vec<Option<Operation>>>> = HashMap::new();
        let mut lines = Vec::new();
        for BlamedLine { version, index, line } in blame::blame_lines(&texts) {
            let by_another_program = matches!(writers[version], Writer::AnotherProgram);
            let (revision, operation) = match &writers[version] {
                Writer::Revision(revision, operation) => {
                    let authors = match (merged_authors.get(&version), changed_node) {
                        (Some(_), _) | (None, None) => None,
                        (None, Some(change)) => {
                            let of_operation = |revision: &&Revision| revision.operation.id == operation.id;
                            let mut changes = revisions.revisions.iter().filter(of_operation);
                            let path = changes.find_map(|revision| {
                                let after = revision.changes.iter().find_map(|change| change.after.as_ref());
                                after.map(|after| &after.path)
                            });
                            let stored = stored_line_authors(store, operation.id, change.node, path);
                            Some(stored.map_err(failed)?)
                        }
                    };
                    if let Some(authors) = authors {
                        merged_authors.insert(version, authors);
                    }
                    let authors = merged_authors.get(&version).and_then(Option::as_ref);
                    let author = authors.and_then(|authors| authors.get(index)?.as_ref());
                    (Some(*revision), Some(author.unwrap_or(operation).clone()))
                }
                Writer::AnotherProgram | Writer::Unknown => (None, None),
            };
            let operation = operation.map(|operation| self.without_withheld_names(operation));
            lines.push(BlameLine { line, revision, operation, by_another_program });
        }
        Ok(lines)
    }
}

/// The state that each node has at the end of these revisions, in the order in which they are given. `direction` returns
/// the earlier and the later state of a change in that order.
///
/// A state has the path that the node had at its own last change. If a directory above the node was moved later, the path
/// at the end is another one.
fn end_states<'r>(
    revisions: impl Iterator<Item = &'r Revision>,
    direction: impl Fn(&'r NodeChange) -> (&'r Option<NodeState>, &'r Option<NodeState>),
) -> HashMap<NodeId, Option<NodeState>> {
    let mut ends: HashMap<NodeId, Option<NodeState>> = HashMap::new();
    for revision in revisions {
        let mut moves: Vec<(&StorePath, &StorePath)> = Vec::new();
        for change in &revision.changes {
            if let (Some(earlier), Some(later)) = direction(change)
                && later.kind == NodeKind::Directory
                && earlier.path != later.path
            {
                moves.push((&earlier.path, &later.path));
            }
        }
        if !moves.is_empty() {
            for state in ends.values_mut().flatten() {
                let above = moves.iter().filter(|(from, _)| state.path.is_at_or_below(from));
                if let Some((from, to)) = above.max_by_key(|(from, _)| from.depth())
                    && let Some(rest) = state.path.strip_prefix(from)
                {
                    state.path = to.join(&StorePath::from_checked(rest));
                }
            }
        }
        ends.extend(revision.changes.iter().map(|change| (change.node, direction(change).1.clone())));
    }
    ends
}
