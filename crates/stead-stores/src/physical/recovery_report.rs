//! Reports about what recovery could not decide: text files in `recovered/`, beside the content that was rescued.
//! `verify` shows them.

use std::io::Write;
use std::os::fd::AsFd;

use stead_core::name::escape_name;
use stead_core::store::StoreResult;
use stead_core::{Clock, SystemClock};

use super::history::directory_id;
use super::host::{self, OpenMode, errno_to_store_error, io_to_store_error};
use super::root::{Dir, Root};
use super::tree;
use crate::sync;

/// The suffix of a report's file name.
const SUFFIX: &str = ".report";
/// How many bytes of a report are read.
const MAX_LENGTH: usize = 16 << 10;

/// Why recovery could not undo an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undecided {
    /// The action created this path, which has been changed since.
    Made,
    /// The action replaced this path, which has been changed since.
    Replaced,
    /// The action removed this path, whose name has been taken since.
    Removed,
    /// The action renamed something to this path, and the old name has been taken since.
    Moved,
    /// The action wrote into this file, which has been changed since.
    Written,
    /// The action wrote into the file at this path, which has been moved or removed since.
    WrittenElsewhere,
}

impl Undecided {
    fn sentence(self) -> &'static str {
        match self {
            Undecided::Made => {
                "a process died during a change that created this, and then another program changed it; it was left \
                 as it is"
            }
            Undecided::Replaced => {
                "a process died during a change that replaced this, and then another program changed it; it was left \
                 as it is"
            }
            Undecided::Removed => {
                "a process died during a change that removed this, and then something else was created at its path"
            }
            Undecided::Moved => {
                "a process died during a change that moved this here, and then something else was created at its old \
                 path; it was left where it is"
            }
            Undecided::Written => {
                "a process died while it wrote into this file, and then another program changed it; it was left as it \
                 is and may contain a part of the new content"
            }
            Undecided::WrittenElsewhere => {
                "a process died while it wrote into the file at this path, and then another program moved or removed \
                 that file; it may contain a part of the new content"
            }
        }
    }
}

/// Writes a report about `at`. `name` is the name in `recovered/` of the content from before, if there is any.
pub(super) fn write(
    root: &Root,
    rescued: &Dir,
    at: &[u8],
    undecided: Undecided,
    name: Option<&str>,
) -> StoreResult<()> {
    let folder = format!("physical/{}/recovered", directory_id(&root.stat));
    let report = match name {
        Some(name) => format!("{name}{SUFFIX}"),
        None => format!("{}-{:08x}{SUFFIX}", SystemClock.now().as_millis(), fastrand::u32(..)),
    };
    let kept_note = name.map(|name| format!(" The earlier content is kept as `{folder}/{name}`."));
    let text = format!(
        "`{}`: {}.{} Check the result, then remove `{folder}/{report}` from Stead's state directory.\n",
        escape_name(at),
        undecided.sentence(),
        kept_note.unwrap_or_default()
    );
    let mut file = host::create(rescued.as_fd(), report.as_bytes()).map_err(errno_to_store_error)?;
    file.write_all(text.as_bytes()).map_err(io_to_store_error)?;
    sync::sync_all(sync::SyncPoint::RecoveryReport, &file).map_err(errno_to_store_error)
}

/// Reads all reports that have not been removed.
pub(super) fn all(rescued: &Dir) -> StoreResult<Vec<String>> {
    let view = rescued.enter(b"", OpenMode::Directory).map_err(errno_to_store_error)?;
    let mut names: Vec<_> =
        tree::names(&view).map_err(errno_to_store_error)?.into_iter().map(|(name, _)| name).collect();
    names.retain(|name| name.ends_with(SUFFIX.as_bytes()));
    names.sort();
    let mut reports = Vec::with_capacity(names.len());
    for name in names {
        let file = rescued.open(&name, OpenMode::Read).map_err(errno_to_store_error)?.into();
        let mut text = vec![0; MAX_LENGTH];
        let count = super::draft::read_full(&file, 0, &mut text)?;
        reports.push(String::from_utf8_lossy(&text[..count]).trim_end().to_owned());
    }
    Ok(reports)
}
