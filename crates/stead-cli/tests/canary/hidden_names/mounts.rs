//! Compared steads through a mount.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::At;
use super::Needs::{self, Nothing, Room};
use super::compared_stead::{COMPARED_PAIRS, ComparedStead, Occupant, STORES, Transcript};
use crate::is_long;
use crate::mounted::Mounted;

type IoResult = std::io::Result<()>;

/// What a program does at a path in the WRITE_ONLY Workspace.
type Action = fn(path: &Path) -> IoResult;

/// What programs do, and what has to be at the path.
const ACTIONS: [(&str, Action, Needs); 9] = [
    ("write", |path| fs::write(path, "x"), Room),
    ("empty", |path| File::create(path).map(drop), Room),
    ("append", |path| open_for_append(path)?.write_all(b"x"), Room),
    ("touch", |path| open_for_append(path).map(drop), Room),
    ("write and remove", |path| fs::write(path, "x").and_then(|()| fs::remove_file(path)), Room),
    ("remove", |path| fs::remove_file(path), Nothing),
    ("remove a directory", |path| fs::remove_dir(path), Nothing),
    ("make a directory", |path| fs::create_dir(path), Nothing),
    ("make and remove a directory", |path| fs::create_dir(path).and_then(|()| fs::remove_dir(path)), Nothing),
];

fn open_for_append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn transcript_of(occupant: Occupant, pair: (Occupant, Occupant)) -> Transcript {
    let makes_directory = |name: &str| name.starts_with("make");
    let actions: Vec<_> = ACTIONS
        .iter()
        .filter(|(name, _, needs)| {
            // A directory can't be made where a file is, and the other way round.
            needs.hides_occupant(pair.1, At::Name) && (!makes_directory(name) || pair.1.is_directory())
        })
        .collect();
    let names: Vec<String> = (0..actions.len()).map(|number| format!("n{number}")).collect();
    let mut compared = ComparedStead::new(occupant, &names);
    let mounted = Mounted::start(compared.command(&["mount", compared.outside.path().to_str().unwrap()]));
    let root = compared.outside.path().to_owned();
    let mut transcript = Transcript::default();
    for ((name, action, _), entry_name) in actions.iter().zip(&names) {
        for store in STORES {
            let root = root.join(&store[1..]);
            let path = root.join("wo").join(entry_name);
            let result = action(&path).map_err(|error| error.raw_os_error());
            transcript.note(&format!("{name} at {store} {entry_name}"), &format!("{result:?}"));
            let metadata = fs::symlink_metadata(&path).map_err(|error| error.raw_os_error());
            let metadata =
                metadata.map(|meta| (meta.file_type(), meta.mode(), meta.size(), meta.nlink(), meta.ino()));
            transcript.note(&format!("{name} at {store} {entry_name} shows"), &format!("{metadata:?}"));
            // The inode numbers of a Physical Store are the host's, so only the Virtual Store's are compared.
            let new = root.join(format!("after-{entry_name}"));
            fs::write(&new, "1").unwrap();
            if *store == *"/main" {
                transcript.note(name, &format!("inode {}", fs::metadata(&new).unwrap().ino()));
            }
            let space = rustix::fs::statvfs(&root).unwrap();
            transcript.note(name, &format!("{store} {} {}", space.f_blocks, space.f_bfree));
            transcript.note(name, &format!("{store} {}", fs::metadata(&root).unwrap().nlink()));
        }
    }
    drop(mounted);
    compared.transcript = transcript;
    for last in ["1", "5", "20"] {
        compared.run(&["undo", "--dry-run", "--last", last]);
    }
    compared.look_at_records(pair);
    compared.transcript
}

#[test]
fn no_mount_reveals_whether_a_name_is_taken_in_a_write_only_workspace() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("SKIPPED: this host has no /dev/fuse");
        return;
    }
    let count = if is_long() { COMPARED_PAIRS.len() } else { 2 };
    // Left out: a mount doesn't follow a symlink whose target it may not show, and the program sees that.
    let pairs =
        COMPARED_PAIRS.into_iter().filter(|pair| !matches!(pair.1, Occupant::Symlink | Occupant::Dangling));
    for pair in pairs.take(count) {
        transcript_of(pair.0, pair).check_same(&transcript_of(pair.1, pair), pair);
    }
}
