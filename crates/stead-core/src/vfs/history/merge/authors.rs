//! Who wrote each line of a file that a merge takes from a fork: stored with the merge, so that blame knows it after the fork
//! is gone.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::history::blame::blame;
use crate::history::{RevertAction, RevertChange, RevertSteps};
use crate::identity::{Operation, OperationId};
use crate::monitor::{CallMonitor, check_not_stopped};
use crate::store::{
    CompanionRecord, CompanionRow, Content, ContentRef, NodeChange, NodeId, NodeState, RecordKind, Revision,
    RevisionNumber, RevisionQuery, Step, Store, StorePath, StoreResult,
};
use crate::text_encoding::TextEncoding;
use crate::vfs::call::Call;
use crate::vfs::history::merge::progress::MergeProgress;
use crate::vfs::history::read_content;

/// The largest file whose lines get authors, and the largest sum of its versions, in bytes.
const MAX_SIZE: u64 = 8 << 20;
/// The most versions of a file that are compared.
const MAX_VERSIONS: usize = 200;
/// How many revisions of a fork are read at once at most, and how many changes of nodes these should have.
const REVISIONS_PER_PAGE: usize = 500;
const CHANGES_PER_PAGE: usize = 1_000;

fn kind() -> RecordKind {
    RecordKind::new("line_authors").expect("the name is a valid kind")
}

fn key(operation: OperationId, node: NodeId) -> String {
    format!("{operation}/{}", node.0)
}

/// The key in a Store that gives a new node an id that isn't known before.
fn path_key(operation: OperationId, path: &StorePath) -> String {
    format!("{operation}/path/{}", blake3::hash(path.as_bytes()).to_hex())
}

/// The authors of a file's lines in a fork, from the first line to the last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LineAuthors {
    operations: Vec<AuthorRow>,
    /// Runs of lines: how many, and which of the operations wrote them; `None` for lines that are older than the fork.
    runs: Vec<(usize, Option<usize>)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AuthorRow {
    operation: OperationId,
    agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    organization: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    tool: String,
    at: i64,
}

impl From<&Operation> for AuthorRow {
    fn from(operation: &Operation) -> Self {
        let identity = &operation.identity;
        AuthorRow {
            operation: operation.id,
            agent: identity.agent.clone(),
            thread: identity.thread.clone(),
            organization: identity.organization.clone(),
            team: identity.team.clone(),
            tool: operation.tool.to_string(),
            at: operation.at.0,
        }
    }
}

impl AuthorRow {
    fn into_operation(self) -> Operation {
        let identity = crate::identity::Identity {
            agent: self.agent,
            thread: self.thread,
            organization: self.organization,
            team: self.team,
        };
        Operation {
            id: self.operation,
            identity: Arc::new(identity),
            tool: self.tool.into(),
            at: crate::clock::Timestamp(self.at),
        }
    }
}

/// Adds the rows with the authors of the lines of each file that steps write from a fork. With `by_path`, they are found by the
/// path of the file instead of its node.
pub(super) fn add_line_authors(
    call: &Call<'_>,
    steps: &RevertSteps,
    fork: &Arc<dyn Store>,
    by_path: bool,
    progress: &MergeProgress,
    records: &mut Vec<CompanionRecord>,
) -> StoreResult<()> {
    let monitor = call.cancellation_monitor();
    let written: HashMap<&StorePath, usize> = steps
        .steps
        .iter()
        .enumerate()
        .filter_map(|(index, step)| Some((written_content(step)?.0, index)))
        .collect();
    let is_written = |change: &&RevertChange| {
        let action = change.action;
        matches!(action, RevertAction::Restored | RevertAction::Reverted | RevertAction::Merged)
            && written.contains_key(&change.path)
    };
    let changes = || steps.changes.iter().filter(is_written);
    let mut histories = Histories::load(&**fork, changes().map(|change| change.node), monitor.as_ref())?;
    records.reserve(histories.by_node.len());
    for change in changes() {
        progress.advance_or_stop(monitor.as_ref())?;
        let step = written[&change.path];
        let versions = histories.by_node.remove(&change.node).unwrap_or_default();
        let content = steps.steps.get(step).and_then(written_content).map(|(_, content)| content);
        let merged = match content {
            Some(Content::Bytes(bytes)) => Some(Cow::Borrowed(&**bytes)),
            Some(Content::Stored(draft)) if change.action == RevertAction::Merged => {
                if draft.size() > MAX_SIZE {
                    continue;
                }
                Some(Cow::Owned(read_content(&**fork, draft)?))
            }
            _ => None,
        };
        let authors = line_authors(&**fork, &versions, &histories.operations, merged.as_deref())?;
        let Some(authors) = authors else { continue };
        let mut data = serde_json::to_string(&authors).expect("authors can be written as JSON");
        // Authors that don't fit into a row are left out: then the lines belong to the merge.
        let mut key = match by_path {
            true => path_key(call.operation(), &change.path),
            false => key(call.operation(), change.node),
        };
        // There is a row for each file until the change is made.
        data.shrink_to_fit();
        key.shrink_to_fit();
        if let Ok(row) = CompanionRow::put(kind(), key, data) {
            records.push(CompanionRecord::Row(row.filled_from(step)));
        }
    }
    Ok(())
}

/// What a step writes, and where.
fn written_content(step: &Step) -> Option<(&StorePath, &Content)> {
    match step {
        Step::Write { at, content, .. } => Some((&at.path, content)),
        _ => None,
    }
}

/// A content that a node had, and the operation that wrote it, by its index; `None` for what it had before the fork.
type Version = (ContentRef, Option<usize>);

/// The contents that nodes had in a fork, oldest first.
#[derive(Default)]
struct Histories {
    by_node: HashMap<NodeId, Vec<Version>>,
    operations: Vec<Operation>,
}

impl Histories {
    /// Reads a fork's history once, however many nodes there are.
    fn load(
        fork: &dyn Store,
        nodes: impl Iterator<Item = NodeId>,
        monitor: Option<&Arc<dyn CallMonitor>>,
    ) -> StoreResult<Self> {
        let mut histories = Histories::default();
        histories.by_node.extend(nodes.map(|node| (node, Vec::new())));
        // How many nodes a revision has changed isn't known before it is read.
        let mut query = RevisionQuery { limit: 1, ..RevisionQuery::all() };
        loop {
            check_not_stopped(monitor)?;
            let revisions = fork.require_history()?.revisions(&query)?.revisions;
            // Newest first.
            let Some(last) = revisions.last().map(|revision| revision.number) else { break };
            let (count, mut changes) = (revisions.len(), 0);
            for revision in revisions {
                changes += revision.changes.len();
                histories.add(revision);
            }
            if count < query.limit {
                break;
            }
            query.up_to = RevisionNumber(last.0 - 1);
            query.limit = match changes {
                0..=CHANGES_PER_PAGE => (query.limit * 2).min(REVISIONS_PER_PAGE),
                _ => (query.limit / 2).max(1),
            };
        }
        for versions in histories.by_node.values_mut() {
            versions.reverse();
        }
        Ok(histories)
    }

    /// Adds what a revision wrote, which is older than all revisions so far.
    fn add(&mut self, revision: Revision) {
        let operation = self.operations.len();
        let mut has_written = false;
        for NodeChange { node, before, after } in revision.changes {
            let Some(versions) = self.by_node.get_mut(&node).filter(|versions| versions.len() < MAX_VERSIONS)
            else {
                continue;
            };
            // The last one so far is what the node had before the change that was seen before this one.
            if versions.last().is_some_and(|(_, operation)| operation.is_none()) {
                versions.pop();
            }
            if versions.capacity() == 0 {
                // Mostly there are no more, and there may be many nodes.
                versions.reserve_exact(2);
            }
            let content = |state: Option<NodeState>| state.and_then(|state| state.content.clone());
            if let Some(after) = content(after) {
                versions.push((after, Some(operation)));
                has_written = true;
            }
            versions.extend(content(before).map(|before| (before, None)));
        }
        if has_written {
            self.operations.push(revision.operation);
        }
    }
}

/// The authors of the lines of a file with these contents in a fork or, if its lines are merged with others, of the merged
/// text; `None` if they aren't known.
fn line_authors(
    fork: &dyn Store,
    versions: &[Version],
    operations: &[Operation],
    merged: Option<&[u8]>,
) -> StoreResult<Option<LineAuthors>> {
    let mut size = 0;
    for (content, _) in versions {
        size += content.size();
    }
    if versions.is_empty() || size > MAX_SIZE {
        return Ok(None);
    }
    let mut texts = Vec::with_capacity(versions.len());
    for (content, _) in versions {
        let bytes = read_content(fork, content)?;
        match TextEncoding::decode_content(&bytes) {
            Some(text) => texts.push(text.into_owned()),
            None => return Ok(None),
        }
    }
    if let Some(merged) = merged {
        match TextEncoding::decode_content(merged) {
            Some(text) => texts.push(text.into_owned()),
            None => return Ok(None),
        }
    }
    let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    let mut authors = LineAuthors::default();
    let mut index_by_version: BTreeMap<usize, usize> = BTreeMap::new();
    for (version, _) in blame(&texts) {
        let operation = versions.get(version).and_then(|(_, operation)| operations.get((*operation)?));
        let author = operation.map(|operation| {
            *index_by_version.entry(version).or_insert_with(|| {
                authors.operations.push(operation.into());
                authors.operations.len() - 1
            })
        });
        match authors.runs.last_mut() {
            Some((lines, last)) if *last == author => *lines += 1,
            _ => authors.runs.push((1, author)),
        }
    }
    Ok(Some(authors))
}

/// The operation behind each line of what a merge took from a fork for a node; `None` for lines that are older than the fork,
/// and `None` altogether if the operation wasn't a merge that stored authors. `path` is where the operation left the node.
pub(in crate::vfs::history) fn stored_line_authors(
    store: &dyn Store,
    operation: OperationId,
    node: NodeId,
    path: Option<&StorePath>,
) -> StoreResult<Option<Vec<Option<Operation>>>> {
    let Some(records) = store.companion_records() else { return Ok(None) };
    let mut stored = records.record(&kind(), &key(operation, node))?;
    if let (None, Some(path)) = (&stored, path) {
        stored = records.record(&kind(), &path_key(operation, path))?;
    }
    let Some(stored) = stored else { return Ok(None) };
    let Ok(authors) = serde_json::from_str::<LineAuthors>(&stored.data) else { return Ok(None) };
    let operations: Vec<Operation> = authors.operations.into_iter().map(AuthorRow::into_operation).collect();
    let mut lines = Vec::new();
    for (count, author) in authors.runs {
        let author = author.and_then(|index| operations.get(index).cloned());
        lines.extend(std::iter::repeat_n(author, count));
    }
    Ok(Some(lines))
}
