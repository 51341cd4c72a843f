//! What recovery could not decide, for a person to look at: a text beside what is kept, which `verify` shows.

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

/// How the text's name ends.
const SUFFIX: &str = ".report";
/// No report is longer.
const MAX_LENGTH: usize = 16 << 10;

/// Why something could not be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undecided {
    /// It was made, and has been changed since.
    Made,
    /// It was put in place of something else, and has been changed since.
    Replaced,
    /// It was removed, and its name has been taken since.
    Removed,
    /// It got another name, and its old one has been taken since.
    Moved,
    /// It was written into, and has been changed since.
    Written,
    /// It was written into, and has got another name since, or was removed.
    WrittenElsewhere,
}

impl Undecided {
    fn sentence(self) -> &'static str {
        match self {
            Undecided::Made => {
                "a process died in the middle of a change that made this, and another program has changed it since; it was left as it is"
            }
            Undecided::Replaced => {
                "a process died in the middle of a change that replaced this, and another program has changed it since; it was left as it is"
            }
            Undecided::Removed => {
                "a process died in the middle of a change that removed this, and something else has its name since"
            }
            Undecided::Moved => {
                "a process died in the middle of a change that gave this its name, and something else has its old name since; it was left where it is"
            }
            Undecided::Written => {
                "a process died while it wrote into this, and another program has changed it since; it was left as it is and may hold a part of what was to be written"
            }
            Undecided::WrittenElsewhere => {
                "a process died while it wrote into the file that had this name, and another program has moved or removed that file since; it may hold a part of what was to be written"
            }
        }
    }
}

/// Says what could not be decided, and under which name in `kept/` the content from before is.
pub(super) fn write(
    root: &Root,
    kept: &Dir,
    at: &[u8],
    why: Undecided,
    name: Option<&str>,
) -> StoreResult<()> {
    let folder = format!("physical/{}/recovered", directory_id(&root.stat));
    let report = match name {
        Some(name) => format!("{name}{SUFFIX}"),
        None => format!("{}-{:08x}{SUFFIX}", SystemClock.now().as_millis(), fastrand::u32(..)),
    };
    let before = name.map(|name| format!(" What was there before is kept as `{folder}/{name}`."));
    let text = format!(
        "`{}`: {}.{} Compare, and then remove `{folder}/{report}` from Stead's state directory.\n",
        escape_name(at),
        why.sentence(),
        before.unwrap_or_default()
    );
    let mut file = host::create(kept.as_fd(), report.as_bytes()).map_err(errno_to_store_error)?;
    file.write_all(text.as_bytes()).map_err(io_to_store_error)?;
    sync::sync_all(sync::SyncPoint::RecoveryReport, &file).map_err(errno_to_store_error)
}

/// All that is still to be looked at.
pub(super) fn all(kept: &Dir) -> StoreResult<Vec<String>> {
    let view = kept.enter(b"", OpenMode::Directory).map_err(errno_to_store_error)?;
    let mut names: Vec<_> =
        tree::names(&view).map_err(errno_to_store_error)?.into_iter().map(|(name, _)| name).collect();
    names.retain(|name| name.ends_with(SUFFIX.as_bytes()));
    names.sort();
    let mut reports = Vec::with_capacity(names.len());
    for name in names {
        let file = kept.open(&name, OpenMode::Read).map_err(errno_to_store_error)?.into();
        let mut text = vec![0; MAX_LENGTH];
        let count = super::draft::read_full(&file, 0, &mut text)?;
        reports.push(String::from_utf8_lossy(&text[..count]).trim_end().to_owned());
    }
    Ok(reports)
}
