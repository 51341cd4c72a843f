//! A mount and a tool, or two mounts: each sees what the other does.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::common::{TestDir, WORKSPACES, eventually};
use super::torture::mapping;

#[test]
fn a_mount_and_a_tool_see_each_others_changes() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let directory = mount.path(workspace);
        let path = format!("/{workspace}/shared");
        fs::write(directory.join("shared"), "by a program").unwrap();
        assert_eq!(dir.stead(["cat", &path]), "by a program");
        let mut file = fs::File::open(directory.join("shared")).unwrap();
        let mut first = [0; 2];
        file.read_exact(&mut first).unwrap();
        dir.run_with_input(["write", &path], "by a tool, and longer");
        // A program that opens the file afterwards sees it at once.
        assert_eq!(
            fs::read_to_string(directory.join("shared")).unwrap(),
            "by a tool, and longer",
            "{workspace}"
        );
        assert!(eventually(|| fs::metadata(directory.join("shared")).unwrap().len() == 21));
        dir.run_with_input(["write", &format!("/{workspace}/made/by")], "by a tool");
        assert!(eventually(|| directory.join("made/by").exists()), "{workspace}");
        dir.stead(["mv", &format!("/{workspace}/made"), &format!("/{workspace}/moved")]);
        assert!(eventually(|| directory.join("moved/by").exists() && !directory.join("made").exists()));
        dir.stead(["rm", "-r", &format!("/{workspace}/moved")]);
        assert!(eventually(
            || !directory.join("moved").exists() && fs::read_dir(&directory).unwrap().count() <= 2
        ));
    }
}

#[test]
fn two_mounts_see_each_others_changes() {
    let dir = TestDir::new();
    let (first, second) = (dir.mount(), dir.mount_at("mnt2", &[]));
    for workspace in WORKSPACES {
        let (first_directory, second_directory) = (first.path(workspace), second.path(workspace));
        assert!(!second_directory.join("d").exists());
        fs::create_dir(first_directory.join("d")).unwrap();
        fs::write(first_directory.join("d/f"), "one").unwrap();
        assert!(eventually(
            || fs::read_to_string(second_directory.join("d/f")).is_ok_and(|text| text == "one")
        ));
        fs::write(second_directory.join("d/f"), "and another").unwrap();
        assert!(eventually(|| fs::read_to_string(first_directory.join("d/f")).unwrap() == "and another"));
        // A directory that the other mount has renamed is found again, with its entries.
        fs::rename(second_directory.join("d"), second_directory.join("e")).unwrap();
        assert!(eventually(
            || fs::read_to_string(first_directory.join("e/f")).is_ok_and(|text| text == "and another")
        ));
        assert!(eventually(|| !first_directory.join("d").exists()), "{workspace}");
        fs::write(first_directory.join("e/g"), "g").unwrap();
        assert!(eventually(|| second_directory.join("e/g").exists()));
        fs::remove_dir_all(second_directory.join("e")).unwrap();
        assert!(eventually(|| !first_directory.join("e").exists()));
    }
}

/// The kernel must not show cached content of an older state with the size of a newer one.
#[test]
fn a_reader_follows_a_file_that_a_tool_appends_to() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for (workspace, lines) in [("v", 20), ("p", 3)] {
        let path = mount.path(workspace).join("log");
        fs::write(&path, "line 0\n").unwrap();
        let mut file = fs::File::open(&path).unwrap();
        let (mut text, mut expected) = (String::new(), "line 0\n".to_owned());
        file.read_to_string(&mut text).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Another thread asks for the size all the time.
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    fs::metadata(&path).unwrap();
                }
            });
            let _done = Done(&done);
            for line in 1..lines {
                let line = format!("line {line}\n");
                dir.run_with_input(["append", &format!("/{workspace}/log")], &line);
                expected.push_str(&line);
                let follows = eventually(|| {
                    file.read_to_string(&mut text).unwrap();
                    assert!(expected.starts_with(&text), "{workspace}: {text:?}");
                    text == expected
                });
                assert!(follows, "{workspace}: {text:?}");
            }
        });
    }
}

/// Tells other threads to end when it is dropped.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The kernel may cache the names in a directory, but a new listing shows what is there.
#[test]
fn a_listing_shows_changes_by_programs_tools_and_other_mounts() {
    let dir = TestDir::new();
    let (mount, other) = (dir.mount(), dir.mount_at("mnt2", &[]));
    for workspace in WORKSPACES {
        let directory = mount.path(workspace).join("d");
        let check_listing = |expected: &BTreeSet<OsString>, when: &str| {
            let entries = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
            let shown: BTreeSet<_> = entries.collect();
            let differences: Vec<_> = shown.symmetric_difference(expected).collect();
            assert!(differences.is_empty(), "{workspace}, {when}: {differences:?}");
        };
        let mut expected = BTreeSet::new();
        fs::create_dir(&directory).unwrap();
        for number in 0..300 {
            fs::write(directory.join(number.to_string()), "x").unwrap();
            expected.insert(OsString::from(number.to_string()));
        }
        for round in 0..5 {
            check_listing(&expected, "at first");
            check_listing(&expected, "again, as the kernel knows it");
            // A listing that is started and not finished.
            let mut unfinished = fs::read_dir(&directory).unwrap();
            unfinished.by_ref().take(10).for_each(|entry| drop(entry.unwrap()));
            fs::write(directory.join(format!("own{round}")), "x").unwrap();
            expected.insert(format!("own{round}").into());
            check_listing(&expected, "own");
            drop(unfinished);
            dir.run_with_input(["write", &format!("/{workspace}/d/tool{round}")], "x");
            expected.insert(format!("tool{round}").into());
            check_listing(&expected, "by a tool");
            let other_directory = other.path(workspace).join("d");
            assert!(eventually(
                || fs::rename(other_directory.join("7"), other_directory.join("moved")).is_ok()
            ));
            expected.remove(OsStr::new("7"));
            expected.insert("moved".into());
            check_listing(&expected, "by another mount");
            fs::rename(directory.join("moved"), directory.join("7")).unwrap();
            expected.remove(OsStr::new("moved"));
            expected.insert("7".into());
            check_listing(&expected, "moved back");
        }
    }
}

/// The mount still knows `a` as the parent of `b`; by now it is the other way round.
#[test]
fn a_directory_that_a_tool_moved_into_its_own_child_is_found_there() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let directory = mount.path(workspace);
        fs::create_dir_all(directory.join("a/b")).unwrap();
        fs::write(directory.join("a/b/old"), "old").unwrap();
        mount.sh(workspace, "ls -R");
        dir.stead(["mv", &format!("/{workspace}/a"), &format!("/{workspace}/x")]);
        dir.run_with_input(["write", &format!("/{workspace}/a/b/new")], "new");
        dir.stead(["mv", &format!("/{workspace}/x"), &format!("/{workspace}/a/b/c")]);
        let is_found = || fs::read_to_string(directory.join("a/b/c/b/old")).is_ok_and(|text| text == "old");
        assert!(eventually(is_found), "{workspace}");
        assert!(
            eventually(|| directory.join("a/b/new").exists() && !directory.join("a/b/old").exists()),
            "{workspace}"
        );
        assert_eq!(mount.sh(workspace, "find a -type f | sort"), "a/b/c/b/old\na/b/new\n");
    }
}

/// The kernel releases a file some time after a program has closed it. What another program is still writing then isn't
/// finished, and must not be committed.
#[test]
fn a_late_release_does_not_commit_what_another_program_is_writing() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("f");
        let versions = || dir.stead(["log", &format!("/{workspace}/f"), "--json"]).lines().count();
        fs::write(&path, "one\n").unwrap();
        let first = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // A mapping keeps the file from being released when the program closes it.
        let mapped = mapping::keep_mapped(first);
        let mut second = fs::OpenOptions::new().append(true).open(&path).unwrap();
        second.write_all(b"half of a li").unwrap();
        let before = versions();
        drop(mapped);
        for _ in 0..20 {
            assert_eq!(versions(), before, "{workspace}");
        }
        second.write_all(b"ne\n").unwrap();
        drop(second);
        assert!(eventually(|| dir.stead(["cat", &format!("/{workspace}/f")]) == "one\nhalf of a line\n"));
        assert_eq!(versions(), before + 1, "{workspace}");
    }
}

/// An append must not lose lines: what a tool has appended stays.
#[test]
fn no_appended_lines_are_lost() {
    let dir = TestDir::new();
    let (mount, other) = (dir.mount(), dir.mount_at("mnt2", &[]));
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("log");
        fs::write(&path, "one\n").unwrap();
        // A program has written and not closed the file yet when a tool appends.
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"program\n").unwrap();
        dir.run_with_input(["append", &format!("/{workspace}/log")], "tool\n");
        drop(file);
        let is_shown = eventually(|| fs::read_to_string(&path).unwrap() == "one\ntool\nprogram\n");
        assert!(is_shown, "{workspace}: {:?}", fs::read_to_string(&path));

        let append = |directory: &Path, writer: &str| {
            for line in 0..60 {
                let file = fs::OpenOptions::new().append(true).open(directory.join("log"));
                file.unwrap().write_all(format!("{writer}{line}\n").as_bytes()).unwrap();
            }
        };
        let (directory, other_directory) = (mount.path(workspace), other.path(workspace));
        assert!(eventually(|| other_directory.join("log").exists()));
        std::thread::scope(|scope| {
            scope.spawn(|| append(&directory, "a"));
            scope.spawn(|| append(&directory, "b"));
            scope.spawn(|| append(&other_directory, "c"));
        });
        let text = dir.stead(["cat", &format!("/{workspace}/log")]);
        for writer in ["a", "b", "c"] {
            let lines: Vec<_> = text.lines().filter(|line| line.starts_with(writer)).collect();
            let expected: Vec<_> = (0..60).map(|line| format!("{writer}{line}")).collect();
            assert_eq!(lines, expected, "{workspace}");
        }
    }
}

/// A Physical Store can't follow a file that another process has moved. A program that has written to it gets an error.
#[test]
fn a_write_to_a_file_that_a_tool_moved_is_stored_or_fails() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("f");
        fs::write(&path, "old").unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all(b"new").unwrap();
        dir.stead(["mv", &format!("/{workspace}/f"), &format!("/{workspace}/g")]);
        let synced = file.sync_all();
        let content = dir.stead(["cat", &format!("/{workspace}/g")]);
        assert_eq!(content, if synced.is_ok() { "new" } else { "old" }, "{workspace}");
        // If the file was removed or replaced, nobody needs what was written to it.
        for script in ["rm gone", "echo other > next; mv next gone"] {
            mount.sh(workspace, "echo old > gone");
            let mut file =
                fs::OpenOptions::new().write(true).open(mount.path(workspace).join("gone")).unwrap();
            file.write_all(b"new").unwrap();
            mount.sh(workspace, script);
            file.sync_all().unwrap();
        }
    }
}

/// A page that is written back from a mapping belongs where it came from, even if the file is open for appending.
#[test]
fn a_mapped_write_goes_to_its_offset_even_in_a_file_opened_for_appending() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("f");
        fs::write(&path, "one two three\n").unwrap();
        let mut file = fs::OpenOptions::new().read(true).append(true).open(&path).unwrap();
        mapping::write(&file, 4, b"TWO");
        file.write_all(b"four\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one TWO three\nfour\n", "{workspace}");
    }
}

/// A Workspace is shown before its Store has a directory for it.
#[test]
fn changes_by_others_in_a_workspace_that_was_empty_are_seen() {
    let dir = TestDir::new();
    let mount = dir.mount();
    assert!(!mount.path("v/none").exists());
    mount.sh("v", "echo mine > mine");
    assert!(mount.path("v/mine").exists());
    dir.stead(["rm", "/v/mine"]);
    assert!(
        eventually(|| !mount.path("v/mine").exists()),
        "the kernel has to drop the removed file from its cache"
    );
}

/// A file that others change is read past the kernel's pages, but a mapping fills them. They stayed, and later readers got
/// them.
#[test]
fn what_a_mapping_has_shown_of_a_file_that_the_host_changes_is_not_shown_later() {
    let dir = TestDir::new();
    let mount = dir.mount();
    let (on_host, on_mount) = (dir.path("project/shared"), mount.path("p/shared"));
    let write_on_host = |byte: u8| {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&on_host).unwrap();
        file.write_all_at(&[byte; 4096], 0).unwrap();
    };
    write_on_host(b'1');
    assert_eq!(fs::read(&on_mount).unwrap(), [b'1'; 4096]);
    write_on_host(b'2');
    assert_eq!(mapping::read(&fs::File::open(&on_mount).unwrap()), [b'2'; 4096]);
    write_on_host(b'3');
    assert_eq!(fs::read(&on_mount).unwrap(), [b'3'; 4096]);
    // From then on the file doesn't count as one that others change.
    std::thread::sleep(Duration::from_millis(2_200));
    assert_eq!(fs::read(&on_mount).unwrap(), [b'3'; 4096], "the kernel has kept an old page");
}
