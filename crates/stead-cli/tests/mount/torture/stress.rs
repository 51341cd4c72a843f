//! Many processes that randomly do what programs do, all on one tree.
//!
//! An operation may fail only because of what another process has done to the same names. Afterwards the mount, with
//! everything that the kernel caches, shows the same tree as the command line, and `stead verify` finds no problem.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Result, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::child::{Task, received_lines, send_line};
use super::mapping;
use super::tree::{assert_same, tree};
use crate::common::{TestDir, long_or};

const PROCESSES: u64 = 8;

fn duration() -> Duration {
    Duration::from_secs(long_or(1_800, 8))
}

#[test]
fn many_processes_on_a_tree_in_a_database() {
    many_processes("v");
}

#[test]
fn many_processes_on_a_tree_in_a_directory() {
    many_processes("p");
}

fn many_processes(workspace: &str) {
    let dir = TestDir::new();
    let mount = dir.mount();
    let shared = mount.mount_point.join(workspace).join("shared");
    fs::create_dir(&shared).unwrap();
    let children = (0..PROCESSES).map(|number| Task::new("stress", number, &shared).start());
    let mut succeeded = 0;
    for child in children.collect::<Vec<_>>() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        succeeded += received_lines(&*output.stdout).map(|count| count.parse::<u64>().unwrap()).sum::<u64>();
    }
    println!("{succeeded} operations succeeded");
    let mounted_tree = tree(&shared);
    assert!(mounted_tree.len() > 20, "too few entries to compare: {mounted_tree:?}");

    let exported = dir.path("exported");
    dir.stead(["export", &format!("/{workspace}/shared"), exported.to_str().unwrap()]);
    assert_same(&mounted_tree, &tree(&exported), "the mount and the command line show different trees");
    mount.end_cleanly();

    let mount = dir.mount();
    assert_same(&mounted_tree, &tree(&shared), "the mount and the next mount show different trees");
    mount.end_cleanly();
    dir.stead(["verify"]);
}

/// One of the processes.
pub(crate) fn child(task: &Task) {
    let mut worker = Worker {
        number: task.number,
        top: task.directory.clone(),
        random: fastrand::Rng::with_seed(task.number + 1),
        succeeded: 0,
    };
    let deadline = Instant::now() + duration();
    while Instant::now() < deadline {
        worker.random_operation();
    }
    send_line(&worker.succeeded.to_string());
}

struct Worker {
    number: u64,
    top: PathBuf,
    random: fastrand::Rng,
    succeeded: u64,
}

impl Worker {
    /// A path in the shared tree, up to three directories deep.
    fn path(&mut self, kind: char, names: u32) -> PathBuf {
        let mut path = self.top.clone();
        for _ in 0..self.random.u32(..3) {
            path.push(format!("d{}", self.random.u32(..4)));
        }
        path.join(format!("{kind}{}", self.random.u32(..names)))
    }

    fn file(&mut self) -> PathBuf {
        self.path('f', 8)
    }

    fn directory(&mut self) -> PathBuf {
        self.path('d', 4)
    }

    /// A symlink, a file or a directory.
    fn any(&mut self) -> PathBuf {
        match self.random.u32(..4) {
            0 => self.directory(),
            1 => self.path('l', 4),
            _ => self.file(),
        }
    }

    fn content(&mut self) -> Vec<u8> {
        let size = match self.random.u32(..10) {
            0 => self.random.usize(100_000..400_000),
            _ => self.random.usize(..9_000),
        };
        let piece = self.random.u64(..).to_le_bytes();
        piece.into_iter().cycle().take(size).collect()
    }

    fn random_operation(&mut self) {
        let choice = self.random.u32(..17);
        let result = match choice {
            0 => File::create_new(self.file()).map(drop),
            1 | 2 => {
                let (path, content) = (self.file(), self.content());
                fs::write(path, content)
            }
            3 => self.patch(),
            4 => self.append(),
            5 => {
                let (path, size) = (self.file(), self.random.u64(..50_000));
                OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(size))
            }
            6 => {
                let (from, to) = (self.any(), self.any());
                fs::rename(from, to)
            }
            7 => self.exchange(),
            8 => fs::remove_file(self.any()),
            9 | 10 => fs::create_dir(self.directory()),
            11 => fs::remove_dir(self.directory()),
            12 => {
                let path = self.path('l', 4);
                symlink(format!("f{}", self.random.u32(..8)), path)
            }
            13 => self.list(),
            14 => fs::metadata(self.any()).map(drop),
            15 => self.read(),
            _ => self.open_and_unlink(),
        };
        match result {
            Ok(()) => self.succeeded += 1,
            // Directories that are moved into each other again and again reach the deepest path that a stead allows.
            Err(error) if matches!(choice, 6 | 7) && is_too_deep(&error) => {}
            Err(error) => assert!(is_a_race(&error), "process {}, operation {choice}: {error}", self.number),
        }
    }

    fn patch(&mut self) -> Result<()> {
        let (path, content) = (self.file(), self.content());
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        file.write_all_at(&content, self.random.u64(..20_000))?;
        if self.random.bool() { file.sync_all() } else { Ok(()) }
    }

    fn append(&mut self) -> Result<()> {
        let (path, content) = (self.file(), self.content());
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        // Otherwise the file would only ever grow.
        if file.metadata()?.len() > 1 << 20 { file.set_len(0) } else { file.write_all(&content) }
    }

    fn exchange(&mut self) -> Result<()> {
        let (first, second) = (self.any(), self.any());
        Ok(renameat_with(CWD, first, CWD, second, RenameFlags::EXCHANGE)?)
    }

    fn list(&mut self) -> Result<()> {
        for entry in fs::read_dir(self.directory())? {
            let entry = entry?;
            entry.file_type()?;
            // Fails if it is gone by now.
            let _ = entry.metadata();
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let mut content = Vec::new();
        File::open(self.file())?.read_to_end(&mut content).map(drop)
    }

    /// A file that no other process uses keeps what is written, through a mapping too, and after its name is gone.
    fn open_and_unlink(&mut self) -> Result<()> {
        let (path, mut content) = (self.path('u', 1), self.content());
        let path = path.with_file_name(format!("u{}-{}", self.number, self.succeeded));
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        file.write_all(&content)?;
        // Fails if another process has moved a directory of the path: then the file keeps its name.
        let _ = fs::remove_file(&path);
        let more = self.content();
        file.write_all(&more)?;
        content.extend(more);
        let size = file.metadata()?.len();
        assert_eq!(size, content.len() as u64, "the size of a file that only this process writes");
        let mut read = vec![0; content.len()];
        file.read_exact_at(&mut read, 0)?;
        assert!(read == content, "the bytes read differ from the bytes written");
        if !content.is_empty() {
            assert!(mapping::read(&file) == content, "the mapped bytes differ from the bytes written");
        }
        Ok(())
    }
}

fn is_too_deep(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NAMETOOLONG.raw_os_error())
}

/// Whether other processes can have caused the error by what they do to the same names.
fn is_a_race(error: &std::io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        number,
        Some(
            Errno::NOENT
                | Errno::EXIST
                | Errno::NOTDIR
                | Errno::ISDIR
                | Errno::NOTEMPTY
                // A directory moved into itself.
                | Errno::INVAL
                // A symlink that leads to its own name.
                | Errno::LOOP
                // A name that was replaced twice while it was opened.
                | Errno::STALE
        )
    )
}
