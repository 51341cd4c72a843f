//! What the killed process does, what is done after it, and which files that leaves.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use stead_core::store::{
    Change, CompanionRecord, CompanionRow, NodePath, PutOptions, RecordKind, RevisionNumber, Step, StorePath,
};
use stead_core::vfs::{OpenOptions, Overwrite, RemoveOptions, RestoreOptions, UndoOptions, UndoTarget};
use stead_core::{Clock, Identity, Occurrences, Operation, OperationId, Store, SystemClock, Vfs};

/// The files of a directory.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// What the killed process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KilledOperation {
    Append,
    /// So much that it takes several system calls.
    AppendMuch,
    Edit,
    Write,
    /// Writes a file, with a companion row that replaces one.
    WriteWithRow,
    /// Writes into a file in place, as a mounted file system does.
    Patch,
    Move,
    MoveOver,
    Delete,
    Undo,
    Restore,
}

pub(crate) const KILLED_OPERATIONS: [KilledOperation; 11] = [
    KilledOperation::Append,
    KilledOperation::AppendMuch,
    KilledOperation::Edit,
    KilledOperation::Write,
    KilledOperation::WriteWithRow,
    KilledOperation::Patch,
    KilledOperation::Move,
    KilledOperation::MoveOver,
    KilledOperation::Delete,
    KilledOperation::Undo,
    KilledOperation::Restore,
];

pub(crate) const LINE: &[u8] = b"a line of the process that dies\n";

fn long_content() -> Vec<u8> {
    LINE.repeat((2 << 20) / LINE.len() + 1_000)
}

impl KilledOperation {
    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn named(name: &str) -> Self {
        KILLED_OPERATIONS.into_iter().find(|operation| operation.name() == name).unwrap()
    }

    /// Whether the operation needs displaced content.
    pub(crate) fn needs_content(self) -> bool {
        matches!(self, KilledOperation::Undo | KilledOperation::Restore)
    }

    pub(crate) fn perform(
        self,
        store: &dyn Store,
        vfs: &Vfs,
        first: RevisionNumber,
    ) -> stead_core::Result<()> {
        match self {
            KilledOperation::Append => vfs.append("/w/log", LINE).map(drop),
            KilledOperation::AppendMuch => vfs.append("/w/log", long_content()).map(drop),
            KilledOperation::Edit => vfs.edit("/w/log", "two", "2", Occurrences::One).map(drop),
            KilledOperation::Write => vfs.write("/w/log", LINE).map(drop),
            KilledOperation::WriteWithRow => {
                let at = NodePath::from_root(StorePath::from_checked("log"));
                let step = Step::Write { at, content: LINE.to_vec().into(), options: PutOptions::default() };
                put_row(store, vfs.identity(), vec![step], "2");
                Ok(())
            }
            KilledOperation::Patch => {
                let file = vfs.open("/w/log", OpenOptions::write())?;
                file.write_at(4, b"TWO")?;
                file.write_at(14, LINE)?;
                file.close()
            }
            KilledOperation::Move => vfs.rename("/w/log", "/w/moved", Overwrite::Refuse).map(drop),
            KilledOperation::MoveOver => vfs.rename("/w/log", "/w/target", Overwrite::Replace).map(drop),
            KilledOperation::Delete => vfs.remove_file("/w/log", RemoveOptions::default()).map(drop),
            KilledOperation::Undo => {
                vfs.undo(UndoTarget::Last(1), UndoOptions::default()).map(|undone| assert!(undone.done))
            }
            KilledOperation::Restore => {
                let store = vfs.workspaces().next().unwrap().mount().store();
                vfs.restore("/w", store.revision(first), &RestoreOptions::default())
                    .map(|restored| assert!(restored.done))
            }
        }
    }

    /// The files after the operation.
    pub(crate) fn model(self, files: &Files) -> Files {
        let mut files = files.clone();
        match self {
            KilledOperation::Append => files.get_mut("log").unwrap().extend_from_slice(LINE),
            KilledOperation::AppendMuch => files.get_mut("log").unwrap().extend(long_content()),
            KilledOperation::Edit => drop(files.insert("log".into(), b"one\n2\nthree\n".to_vec())),
            KilledOperation::Write | KilledOperation::WriteWithRow => {
                drop(files.insert("log".into(), LINE.to_vec()))
            }
            KilledOperation::Patch => drop(files.insert("log".into(), [b"one\nTWO\nthree\n", LINE].concat())),
            KilledOperation::Move => {
                let content = files.remove("log").unwrap();
                files.insert("moved".into(), content);
            }
            KilledOperation::MoveOver => {
                let content = files.remove("log").unwrap();
                files.insert("target".into(), content);
            }
            KilledOperation::Delete => drop(files.remove("log")),
            KilledOperation::Undo | KilledOperation::Restore => return first_files(),
        }
        files
    }
}

pub(crate) fn row_kind() -> RecordKind {
    RecordKind::new("manifest").unwrap()
}

/// Writes the companion row `log`, filled from the first step if there is one.
pub(crate) fn put_row(store: &dyn Store, identity: &Identity, steps: Vec<Step>, data: &str) {
    let now = SystemClock.now();
    let identity = Arc::new(identity.clone());
    let operation = Operation { id: OperationId::fresh(now), identity, tool: "row".into(), at: now };
    let row = CompanionRow::put(row_kind(), "log", data).unwrap();
    let row = if steps.is_empty() { row } else { row.filled_from(0) };
    let mut change = Change::new(operation, steps);
    change.records = vec![CompanionRecord::Row(row)];
    store.apply(change).unwrap();
}

/// The files at first.
fn first_files() -> Files {
    Files::from([("log".into(), b"zero\n".to_vec()), ("target".into(), b"at first\n".to_vec())])
}

/// Creates the files that the process finds. Returns them, and the revision that had the first files.
pub(crate) fn set_up(vfs: &Vfs, latest_revision: impl Fn() -> RevisionNumber) -> (Files, RevisionNumber) {
    for (name, content) in first_files() {
        vfs.write(format!("/w/{name}"), content).unwrap();
    }
    let first = latest_revision();
    let files = Files::from([
        ("log".into(), b"one\ntwo\nthree\n".to_vec()),
        ("target".into(), b"the target\n".to_vec()),
        ("extra".into(), b"extra\n".to_vec()),
    ]);
    let operation = vfs.operation("many");
    for (name, content) in &files {
        operation.write(format!("/w/{name}"), content.clone()).unwrap();
    }
    (files, first)
}

/// What is done after the process was killed, before another process opens the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// Nothing.
    Nothing,
    /// Another process, which has had the directory open all the time, appends a line.
    Append,
    /// That process writes the file again.
    Write,
    /// That process renames the file.
    Move,
    /// A program of the host appends a line to the file.
    Host,
    /// A program of the host appends a line to the file that the move would have replaced.
    HostAtTarget,
}

pub(crate) const FOLLOW_UPS: [FollowUp; 6] = [
    FollowUp::Nothing,
    FollowUp::Append,
    FollowUp::Write,
    FollowUp::Move,
    FollowUp::Host,
    FollowUp::HostAtTarget,
];

pub(crate) const FOLLOW_UP_LINE: &[u8] = b"acknowledged\n";

impl FollowUp {
    pub(crate) fn is_by_the_host(self) -> bool {
        matches!(self, FollowUp::Host | FollowUp::HostAtTarget)
    }

    /// Does it, and returns whether it was acknowledged.
    pub(crate) fn perform(self, vfs: &Vfs, root: &Path) -> bool {
        let by_the_host = |name: &str| {
            let options = std::fs::OpenOptions::new().append(true).create(true).open(root.join(name));
            options.unwrap().write_all(FOLLOW_UP_LINE).unwrap();
        };
        match self {
            FollowUp::Nothing => false,
            FollowUp::Append => vfs.append("/w/log", FOLLOW_UP_LINE).map(drop).unwrap_acknowledged(),
            FollowUp::Write => vfs.write("/w/log", FOLLOW_UP_LINE).map(drop).unwrap_acknowledged(),
            FollowUp::Move => match vfs.rename("/w/log", "/w/away", Overwrite::Refuse) {
                Err(error) if error.kind() == stead_core::ErrorKind::NotFound => false,
                moved => moved.map(drop).unwrap_acknowledged(),
            },
            FollowUp::Host => {
                by_the_host("log");
                true
            }
            FollowUp::HostAtTarget => {
                by_the_host("target");
                true
            }
        }
    }

    pub(crate) fn model(self, files: &Files) -> Files {
        let mut files = files.clone();
        match self {
            FollowUp::Nothing => {}
            FollowUp::Append | FollowUp::Host => {
                files.entry("log".into()).or_default().extend(FOLLOW_UP_LINE)
            }
            FollowUp::Write => drop(files.insert("log".into(), FOLLOW_UP_LINE.to_vec())),
            FollowUp::Move => {
                if let Some(content) = files.remove("log") {
                    files.insert("away".into(), content);
                }
            }
            FollowUp::HostAtTarget => files.entry("target".into()).or_default().extend(FOLLOW_UP_LINE),
        }
        files
    }
}

trait Acknowledged {
    fn unwrap_acknowledged(self) -> bool;
}

impl Acknowledged for stead_core::Result<()> {
    #[track_caller]
    fn unwrap_acknowledged(self) -> bool {
        self.unwrap();
        true
    }
}
