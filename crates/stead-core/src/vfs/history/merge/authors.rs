//! Who wrote each line of a file that a merge takes from a fork: stored with the merge, so that blame knows it after the fork
//! is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::history::blame::blame;
use crate::history::{RevertAction, RevertSteps};
use crate::identity::{Operation, OperationId};
use crate::store::{
    CompanionRecord, CompanionRow, Content, ContentRef, NodeId, NodeState, RecordKind, RevisionNumber,
    RevisionQuery, Step, Store, StoreError, StorePath, StoreResult,
};
use crate::text_encoding::TextEncoding;
use crate::vfs::call::Call;
use crate::vfs::history::read_content;

/// The largest file whose lines get authors, and the largest sum of its versions, in bytes.
const MAX_SIZE: u64 = 8 << 20;
/// The most versions of a file that are compared.
const MAX_VERSIONS: usize = 200;
/// How many revisions of a fork are read at once.
const REVISIONS_PER_PAGE: usize = 500;

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
    thread: Option<String>,
    organization: Option<String>,
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

/// The rows with the authors of the lines of each file that steps write from a fork. With `by_path`, they are found by the path
/// of the file instead of its node.
pub(super) fn line_author_records(
    call: &Call<'_>,
    steps: &RevertSteps,
    fork: &Arc<dyn Store>,
    by_path: bool,
) -> StoreResult<Vec<CompanionRecord>> {
    let mut written: BTreeMap<&StorePath, (usize, Option<&[u8]>)> = BTreeMap::new();
    for (index, step) in steps.steps.iter().enumerate() {
        if let Step::Write { at, content, .. } = step {
            let merged = match content {
                Content::Bytes(bytes) => Some(&**bytes),
                Content::Stored(_) | Content::Sealed(_) => None,
            };
            written.insert(&at.path, (index, merged));
        }
    }
    let is_written = |action: RevertAction| {
        matches!(action, RevertAction::Restored | RevertAction::Reverted | RevertAction::Merged)
    };
    let changes: Vec<_> = steps
        .changes
        .iter()
        .filter(|change| is_written(change.action) && written.contains_key(&change.path))
        .collect();
    let nodes = changes.iter().map(|change| change.node).collect();
    let mut histories = contents_of(call, &**fork, &nodes)?;
    let mut records = Vec::new();
    for change in changes {
        let (step, merged) = written[&change.path];
        call.check_not_stopped().map_err(|_| StoreError::Conflict)?;
        let versions = histories.remove(&change.node).unwrap_or_default();
        let Some(authors) = line_authors(&**fork, &versions, merged)? else { continue };
        let data = serde_json::to_string(&authors).expect("authors can be written as JSON");
        // Authors that don't fit into a row are left out: then the lines belong to the merge.
        let key = match by_path {
            true => path_key(call.operation(), &change.path),
            false => key(call.operation(), change.node),
        };
        if let Ok(row) = CompanionRow::put(kind(), key, data) {
            records.push(CompanionRecord::Row(row.filled_from(step)));
        }
    }
    Ok(records)
}

/// A content that a node had, and the operation that wrote it; `None` for what it had before the fork.
type Version = (ContentRef, Option<Operation>);

/// The contents that these nodes had in a fork, oldest first. The fork's history is read once, however many nodes there are.
fn contents_of(
    call: &Call<'_>,
    fork: &dyn Store,
    nodes: &BTreeSet<NodeId>,
) -> StoreResult<BTreeMap<NodeId, Vec<Version>>> {
    let mut found: BTreeMap<NodeId, Vec<Version>> = BTreeMap::new();
    let mut query = RevisionQuery { limit: REVISIONS_PER_PAGE, ..RevisionQuery::all() };
    loop {
        call.check_not_stopped().map_err(|_| StoreError::Conflict)?;
        let revisions = fork.require_history()?.revisions(&query)?.revisions;
        // Newest first.
        for revision in &revisions {
            for change in revision.changes.iter().filter(|change| nodes.contains(&change.node)) {
                let versions = found.entry(change.node).or_default();
                if versions.len() >= MAX_VERSIONS {
                    continue;
                }
                // The last one so far is what the node had before the change that was seen before this one.
                if versions.last().is_some_and(|(_, operation)| operation.is_none()) {
                    versions.pop();
                }
                let content =
                    |state: &Option<NodeState>| state.as_ref().and_then(|state| state.content.clone());
                if let Some(after) = content(&change.after) {
                    versions.push((after, Some(revision.operation.clone())));
                }
                if let Some(before) = content(&change.before) {
                    versions.push((before, None));
                }
            }
        }
        match revisions.last() {
            Some(last) if revisions.len() == REVISIONS_PER_PAGE => {
                query.up_to = RevisionNumber(last.number.0 - 1);
            }
            _ => break,
        }
    }
    for versions in found.values_mut() {
        versions.reverse();
    }
    Ok(found)
}

/// The authors of the lines of a file with these contents in a fork or, if its lines are merged with others, of the merged
/// text; `None` if they aren't known.
fn line_authors(
    fork: &dyn Store,
    versions: &[Version],
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
        let author = versions.get(version).and_then(|(_, operation)| operation.as_ref()).map(|operation| {
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
