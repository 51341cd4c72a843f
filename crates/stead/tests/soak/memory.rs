//! How much memory work on large files takes.

use std::io::Read;

use stead::transfer::{CompareBy, ImportSource, NoObserver};
use stead_core::VfsPath;

use crate::child::{Task, lines_of, send_line};
use crate::test_stores::{Kind, vfs_for};

const FILES: usize = 100_000;
const LARGE: u64 = 4 << 30;
/// 200 MiB, in KiB as the host counts.
const LIMIT: u64 = 200 << 10;

/// The most memory that this process has used so far, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

pub(crate) fn child(task: &Task) {
    let vfs = vfs_for(task.kind.open(&task.directory.join("store")), "porter");
    let path = task.directory.join("tree");
    let destination = VfsPath::parse("/imported").unwrap();
    let source = ImportSource::Directory { path, name: "tree".into() };
    let totals =
        stead::transfer::import(&vfs, source, &destination, CompareBy::default(), &mut NoObserver).unwrap();
    assert_eq!(totals.files, FILES as u64 + 1);
    let mut reader = vfs.reader("/imported/large").unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        match reader.read(&mut buffer).unwrap() {
            0 => break,
            count => size += count as u64,
        }
    }
    assert_eq!(size, LARGE);
    send_line(&peak().to_string());
}

#[test]
fn a_large_tree_and_a_large_file_are_transferred_in_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("store")).unwrap();
    let tree = directory.path().join("tree");
    for n in 0..FILES {
        let subdirectory = tree.join(format!("d{}", n / 1_000));
        if n % 1_000 == 0 {
            std::fs::create_dir_all(&subdirectory).unwrap();
        }
        std::fs::write(subdirectory.join(format!("f{n}")), format!("content of {n}")).unwrap();
    }
    std::fs::File::create(tree.join("large")).unwrap().set_len(LARGE).unwrap();
    let (mut child, output) = Task::new("memory", Kind::Virtual, directory.path(), 0).start();
    let peaks: Vec<u64> = lines_of(output).map(|line| line.parse().unwrap()).collect();
    assert!(child.wait().unwrap().success());
    let [peak] = *peaks else { panic!("the child should send one number, not {peaks:?}") };
    println!("{FILES} files imported and {} GiB read: {} MiB at the most", LARGE >> 30, peak >> 10);
    assert!(peak < LIMIT, "{peak} KiB");
}
