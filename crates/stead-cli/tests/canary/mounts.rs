//! The canaries through a mounted file system, now and in the past.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::world::{Asked, NAME, PATHS, World, check, named};

/// A mounted stead. Dropping it unmounts it.
pub(crate) struct Mounted(Child);

impl Mounted {
    fn new(world: &World, more: &[&str]) -> Self {
        let args = [&["mount", world.elsewhere.path().to_str().unwrap()], more].concat();
        Mounted::start(world.command(&args))
    }

    /// Starts `stead mount`, and waits until it reports that the stead is mounted.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Mounted at "), "{line:?}");
        Mounted(child)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}

/// Checks everything that a program can learn of a path by reading.
fn look(at: &Path, asked: &str) {
    let told = format!(
        "{:?} {:?} {:?}",
        fs::symlink_metadata(at).map(|meta| meta.size()),
        fs::metadata(at).map(|meta| meta.size()),
        fs::read_link(at)
    );
    check(asked, told.as_bytes());
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(at) {
        let _ = file.read_to_end(&mut bytes);
    }
    check(asked, &bytes);
    let names = fs::read_dir(at).into_iter().flatten().flatten().map(|entry| entry.file_name());
    check(asked, format!("{:?}", names.collect::<Vec<_>>()).as_bytes());
}

fn look_below(at: &Path) {
    look(at, &at.display().to_string());
    if fs::symlink_metadata(at).is_ok_and(|meta| meta.is_dir()) {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            look_below(&entry.path());
        }
    }
}

#[test]
fn a_mount_shows_nothing_of_what_is_withheld() {
    if !Path::new("/dev/fuse").exists() {
        return;
    }
    let world = World::new(Asked::ByAgent);
    let version = world.version.clone();
    for more in [&[][..], &["--at", &version], &["--at", "before"]] {
        let mounted = Mounted::new(&world, more);
        let top = world.elsewhere.path();
        look_below(top);
        for path in PATHS.iter().map(ToString::to_string).chain(named()) {
            look(&top.join(&path[1..]), &path);
        }
        drop(mounted);
    }
    // What a program learns of a file that it may only write is the same as for a new file.
    let _mounted = Mounted::new(&world, &[]);
    let top = world.elsewhere.path();
    // The inode number doesn't reveal the file's age: numbers follow the order in which files are opened.
    let number = |name: String| {
        let file = OpenOptions::new().append(true).create(true).open(top.join("drop").join(name)).unwrap();
        file.metadata().unwrap().ino()
    };
    let numbers = ["new-1", &format!("{NAME}.txt"), "new-2"].map(|name| number(name.to_owned()));
    assert!(numbers.windows(2).all(|two| two[0] + 1 == two[1]), "{numbers:?}");
    for path in named().iter().filter(|path| path.starts_with("/home/wo") || path.starts_with("/drop")) {
        let at = top.join(&path[1..]);
        let mut file = OpenOptions::new().append(true).create(true).open(&at).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(file.metadata().unwrap().size(), 0, "{path}");
        fs::remove_file(&at).unwrap();
        assert_eq!(file.metadata().unwrap().size(), 0, "{path} after it was removed");
        check(
            path,
            format!("{:?}", rustix::fs::statvfs(top.join("drop")).map(|space| space.f_bfree)).as_bytes(),
        );
    }
}
