//! The twins through a mount.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::At;
use super::Needs::{self, Nothing, Room};
use super::world::{STORES, TWINS, There, Transcript, Twin};
use crate::is_long;
use crate::mounts::Mounted;

type Done = std::io::Result<()>;

/// What a program does at a path in the WRITE_ONLY Workspace.
type Act = fn(at: &Path) -> Done;

/// What programs do, and what has to be at the path.
const ACTS: [(&str, Act, Needs); 9] = [
    ("write", |at| fs::write(at, "x"), Room),
    ("empty", |at| File::create(at).map(drop), Room),
    ("append", |at| appended(at)?.write_all(b"x"), Room),
    ("touch", |at| appended(at).map(drop), Room),
    ("write and remove", |at| fs::write(at, "x").and_then(|()| fs::remove_file(at)), Room),
    ("remove", |at| fs::remove_file(at), Nothing),
    ("remove a directory", |at| fs::remove_dir(at), Nothing),
    ("make a directory", |at| fs::create_dir(at), Nothing),
    ("make and remove a directory", |at| fs::create_dir(at).and_then(|()| fs::remove_dir(at)), Nothing),
];

fn appended(at: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).open(at)
}

fn told(there: There, twins: (There, There)) -> Transcript {
    let makes_directory = |name: &str| name.starts_with("make");
    let acts: Vec<_> = ACTS
        .iter()
        .filter(|(name, _, needs)| {
            // A directory can't be made where a file is, and the other way round.
            needs.is_silent(twins.1, At::Name) && (!makes_directory(name) || twins.1.is_directory())
        })
        .collect();
    let names: Vec<String> = (0..acts.len()).map(|number| format!("n{number}")).collect();
    let mut twin = Twin::new(there, &names);
    let mounted = Mounted::start(twin.command(&["mount", twin.elsewhere.path().to_str().unwrap()]));
    let top = twin.elsewhere.path().to_owned();
    let mut transcript = Transcript::default();
    for ((name, act, _), at) in acts.iter().zip(&names) {
        for store in STORES {
            let top = top.join(&store[1..]);
            let path = top.join("wo").join(at);
            let done = act(&path).map_err(|error| error.raw_os_error());
            transcript.note(&format!("{name} at {store} {at}"), &format!("{done:?}"));
            let there = fs::symlink_metadata(&path).map_err(|error| error.raw_os_error());
            let there =
                there.map(|meta| (meta.file_type(), meta.mode(), meta.size(), meta.nlink(), meta.ino()));
            transcript.note(&format!("{name} at {store} {at} shows"), &format!("{there:?}"));
            // The inode numbers of a Physical Store are the host's, so only the Virtual Store's are compared.
            let new = top.join(format!("after-{at}"));
            fs::write(&new, "1").unwrap();
            if *store == *"/main" {
                transcript.note(name, &format!("inode {}", fs::metadata(&new).unwrap().ino()));
            }
            let space = rustix::fs::statvfs(&top).unwrap();
            transcript.note(name, &format!("{store} {} {}", space.f_blocks, space.f_bfree));
            transcript.note(name, &format!("{store} {}", fs::metadata(&top).unwrap().nlink()));
        }
    }
    drop(mounted);
    twin.transcript = transcript;
    for last in ["1", "5", "20"] {
        twin.run(&["undo", "--dry-run", "--last", last]);
    }
    twin.look_at_records(twins);
    twin.transcript
}

#[test]
fn no_mount_tells_whether_a_name_is_taken_in_a_write_only_workspace() {
    if !Path::new("/dev/fuse").exists() {
        return;
    }
    let few = if is_long() { TWINS.len() } else { 2 };
    // Left out: a mount doesn't follow a symlink whose target it may not show, and the program sees that.
    let all = TWINS.into_iter().filter(|twins| !matches!(twins.1, There::Symlink | There::Dangling));
    for twins in all.take(few) {
        told(twins.0, twins).check_same(&told(twins.1, twins), twins);
    }
}
