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
pub(crate) enum Act {
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

pub(crate) const ACTS: [Act; 11] = [
    Act::Append,
    Act::AppendMuch,
    Act::Edit,
    Act::Write,
    Act::WriteWithRow,
    Act::Patch,
    Act::Move,
    Act::MoveOver,
    Act::Delete,
    Act::Undo,
    Act::Restore,
];

pub(crate) const LINE: &[u8] = b"a line of the process that dies\n";

fn much() -> Vec<u8> {
    LINE.repeat((2 << 20) / LINE.len() + 1_000)
}

impl Act {
    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn named(name: &str) -> Self {
        ACTS.into_iter().find(|act| act.name() == name).unwrap()
    }

    /// Whether the act needs displaced content.
    pub(crate) fn needs_content(self) -> bool {
        matches!(self, Act::Undo | Act::Restore)
    }

    pub(crate) fn perform(
        self,
        store: &dyn Store,
        door: &Vfs,
        first: RevisionNumber,
    ) -> stead_core::Result<()> {
        match self {
            Act::Append => door.append("/w/log", LINE).map(drop),
            Act::AppendMuch => door.append("/w/log", much()).map(drop),
            Act::Edit => door.edit("/w/log", "two", "2", Occurrences::One).map(drop),
            Act::Write => door.write("/w/log", LINE).map(drop),
            Act::WriteWithRow => {
                let at = NodePath::from_root(StorePath::from_checked("log"));
                let step = Step::Write { at, content: LINE.to_vec().into(), options: PutOptions::default() };
                put_row(store, door.identity(), vec![step], "2");
                Ok(())
            }
            Act::Patch => {
                let file = door.open("/w/log", OpenOptions::write())?;
                file.write_at(4, b"TWO")?;
                file.write_at(14, LINE)?;
                file.close()
            }
            Act::Move => door.rename("/w/log", "/w/moved", Overwrite::Refuse).map(drop),
            Act::MoveOver => door.rename("/w/log", "/w/target", Overwrite::Replace).map(drop),
            Act::Delete => door.remove_file("/w/log", RemoveOptions::default()).map(drop),
            Act::Undo => {
                door.undo(UndoTarget::Last(1), UndoOptions::default()).map(|undone| assert!(undone.done))
            }
            Act::Restore => {
                door.restore("/w", first, &RestoreOptions::default()).map(|restored| assert!(restored.done))
            }
        }
    }

    /// The files after the act.
    pub(crate) fn model(self, files: &Files) -> Files {
        let mut files = files.clone();
        match self {
            Act::Append => files.get_mut("log").unwrap().extend_from_slice(LINE),
            Act::AppendMuch => files.get_mut("log").unwrap().extend(much()),
            Act::Edit => drop(files.insert("log".into(), b"one\n2\nthree\n".to_vec())),
            Act::Write | Act::WriteWithRow => drop(files.insert("log".into(), LINE.to_vec())),
            Act::Patch => drop(files.insert("log".into(), [b"one\nTWO\nthree\n", LINE].concat())),
            Act::Move => {
                let content = files.remove("log").unwrap();
                files.insert("moved".into(), content);
            }
            Act::MoveOver => {
                let content = files.remove("log").unwrap();
                files.insert("target".into(), content);
            }
            Act::Delete => drop(files.remove("log")),
            Act::Undo | Act::Restore => return first_files(),
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
pub(crate) fn set_up(door: &Vfs, version: impl Fn() -> RevisionNumber) -> (Files, RevisionNumber) {
    for (name, content) in first_files() {
        door.write(format!("/w/{name}"), content).unwrap();
    }
    let first = version();
    let files = Files::from([
        ("log".into(), b"one\ntwo\nthree\n".to_vec()),
        ("target".into(), b"the target\n".to_vec()),
        ("extra".into(), b"extra\n".to_vec()),
    ]);
    let many = door.operation("many");
    for (name, content) in &files {
        many.write(format!("/w/{name}"), content.clone()).unwrap();
    }
    (files, first)
}

/// What is done after the process was killed, before another process opens the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
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

pub(crate) const OTHERS: [Other; 6] =
    [Other::Nothing, Other::Append, Other::Write, Other::Move, Other::Host, Other::HostAtTarget];

pub(crate) const OTHERS_LINE: &[u8] = b"acknowledged\n";

impl Other {
    pub(crate) fn is_of_the_host(self) -> bool {
        matches!(self, Other::Host | Other::HostAtTarget)
    }

    /// Does it, and returns whether it was acknowledged.
    pub(crate) fn perform(self, door: &Vfs, root: &Path) -> bool {
        let by_the_host = |name: &str| {
            let options = std::fs::OpenOptions::new().append(true).create(true).open(root.join(name));
            options.unwrap().write_all(OTHERS_LINE).unwrap();
        };
        match self {
            Other::Nothing => false,
            Other::Append => door.append("/w/log", OTHERS_LINE).map(drop).unwrap_acknowledged(),
            Other::Write => door.write("/w/log", OTHERS_LINE).map(drop).unwrap_acknowledged(),
            Other::Move => match door.rename("/w/log", "/w/away", Overwrite::Refuse) {
                Err(error) if error.kind() == stead_core::ErrorKind::NotFound => false,
                moved => moved.map(drop).unwrap_acknowledged(),
            },
            Other::Host => {
                by_the_host("log");
                true
            }
            Other::HostAtTarget => {
                by_the_host("target");
                true
            }
        }
    }

    pub(crate) fn model(self, files: &Files) -> Files {
        let mut files = files.clone();
        match self {
            Other::Nothing => {}
            Other::Append | Other::Host => files.entry("log".into()).or_default().extend(OTHERS_LINE),
            Other::Write => drop(files.insert("log".into(), OTHERS_LINE.to_vec())),
            Other::Move => {
                if let Some(content) = files.remove("log") {
                    files.insert("away".into(), content);
                }
            }
            Other::HostAtTarget => files.entry("target".into()).or_default().extend(OTHERS_LINE),
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
