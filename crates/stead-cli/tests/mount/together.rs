//! A mount and a tool, or two mounts: each sees what the other does.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::common::{BOTH, Place, eventually};
use super::torture::mapping;

#[test]
fn a_mount_and_a_tool_see_each_others_changes() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let at = mount.path(workspace);
        let path = format!("/{workspace}/shared");
        fs::write(at.join("shared"), "by a program").unwrap();
        assert_eq!(place.stead(["cat", &path]), "by a program");
        let mut open = fs::File::open(at.join("shared")).unwrap();
        let mut first = [0; 2];
        open.read_exact(&mut first).unwrap();
        place.fed(["write", &path], "by a tool, and longer");
        // A program that opens the file afterwards sees it at once.
        assert_eq!(fs::read_to_string(at.join("shared")).unwrap(), "by a tool, and longer", "{workspace}");
        assert!(eventually(|| fs::metadata(at.join("shared")).unwrap().len() == 21));
        place.fed(["write", &format!("/{workspace}/made/by")], "by a tool");
        assert!(eventually(|| at.join("made/by").exists()), "{workspace}");
        place.stead(["mv", &format!("/{workspace}/made"), &format!("/{workspace}/moved")]);
        assert!(eventually(|| at.join("moved/by").exists() && !at.join("made").exists()));
        place.stead(["rm", "-r", &format!("/{workspace}/moved")]);
        assert!(eventually(|| !at.join("moved").exists() && fs::read_dir(&at).unwrap().count() <= 2));
    }
}

#[test]
fn two_mounts_see_each_others_changes() {
    let place = Place::new();
    let (one, other) = (place.mount(), place.mount_at("mnt2", &[]));
    for workspace in BOTH {
        let (here, there) = (one.path(workspace), other.path(workspace));
        assert!(!there.join("d").exists());
        fs::create_dir(here.join("d")).unwrap();
        fs::write(here.join("d/f"), "one").unwrap();
        assert!(eventually(|| fs::read_to_string(there.join("d/f")).is_ok_and(|text| text == "one")));
        fs::write(there.join("d/f"), "and another").unwrap();
        assert!(eventually(|| fs::read_to_string(here.join("d/f")).unwrap() == "and another"));
        // A directory that the other mount has renamed is found again, with its entries.
        fs::rename(there.join("d"), there.join("e")).unwrap();
        assert!(eventually(|| fs::read_to_string(here.join("e/f")).is_ok_and(|text| text == "and another")));
        assert!(eventually(|| !here.join("d").exists()), "{workspace}");
        fs::write(here.join("e/g"), "g").unwrap();
        assert!(eventually(|| there.join("e/g").exists()));
        fs::remove_dir_all(there.join("e")).unwrap();
        assert!(eventually(|| !here.join("e").exists()));
    }
}

/// The kernel must not show cached content of an older state with the size of a newer one.
#[test]
fn a_reader_follows_a_file_that_a_tool_appends_to() {
    let place = Place::new();
    let mount = place.mount();
    for (workspace, lines) in [("v", 20), ("p", 3)] {
        let path = mount.path(workspace).join("log");
        fs::write(&path, "line 0\n").unwrap();
        let mut open = fs::File::open(&path).unwrap();
        let (mut text, mut expected) = (String::new(), "line 0\n".to_owned());
        open.read_to_string(&mut text).unwrap();
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
                place.fed(["append", &format!("/{workspace}/log")], &line);
                expected.push_str(&line);
                let follows = eventually(|| {
                    open.read_to_string(&mut text).unwrap();
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
fn a_listing_is_what_is_there_whoever_has_changed_it() {
    let place = Place::new();
    let (mount, other) = (place.mount(), place.mount_at("mnt2", &[]));
    for workspace in BOTH {
        let at = mount.path(workspace).join("d");
        let shown = |expected: &BTreeSet<OsString>, when: &str| {
            let entries = fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().file_name());
            let shown: BTreeSet<_> = entries.collect();
            let wrong: Vec<_> = shown.symmetric_difference(expected).collect();
            assert!(wrong.is_empty(), "{workspace}, {when}: {wrong:?}");
        };
        let mut expected = BTreeSet::new();
        fs::create_dir(&at).unwrap();
        for number in 0..300 {
            fs::write(at.join(number.to_string()), "x").unwrap();
            expected.insert(OsString::from(number.to_string()));
        }
        for round in 0..5 {
            shown(&expected, "at first");
            shown(&expected, "again, as the kernel knows it");
            // A listing that is started and not finished.
            let mut begun = fs::read_dir(&at).unwrap();
            begun.by_ref().take(10).for_each(|entry| drop(entry.unwrap()));
            fs::write(at.join(format!("own{round}")), "x").unwrap();
            expected.insert(format!("own{round}").into());
            shown(&expected, "own");
            drop(begun);
            place.fed(["write", &format!("/{workspace}/d/tool{round}")], "x");
            expected.insert(format!("tool{round}").into());
            shown(&expected, "by a tool");
            let there = other.path(workspace).join("d");
            assert!(eventually(|| fs::rename(there.join("7"), there.join("moved")).is_ok()));
            expected.remove(OsStr::new("7"));
            expected.insert("moved".into());
            shown(&expected, "by another mount");
            fs::rename(at.join("moved"), at.join("7")).unwrap();
            expected.remove(OsStr::new("moved"));
            expected.insert("7".into());
            shown(&expected, "moved back");
        }
    }
}

/// The mount still knows `a` as the parent of `b`; by now it is the other way round.
#[test]
fn a_directory_that_another_has_put_into_its_own_child_is_found_there() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let at = mount.path(workspace);
        fs::create_dir_all(at.join("a/b")).unwrap();
        fs::write(at.join("a/b/old"), "old").unwrap();
        mount.sh(workspace, "ls -R");
        place.stead(["mv", &format!("/{workspace}/a"), &format!("/{workspace}/x")]);
        place.fed(["write", &format!("/{workspace}/a/b/new")], "new");
        place.stead(["mv", &format!("/{workspace}/x"), &format!("/{workspace}/a/b/c")]);
        let found = || fs::read_to_string(at.join("a/b/c/b/old")).is_ok_and(|text| text == "old");
        assert!(eventually(found), "{workspace}");
        assert!(eventually(|| at.join("a/b/new").exists() && !at.join("a/b/old").exists()), "{workspace}");
        assert_eq!(mount.sh(workspace, "find a -type f | sort"), "a/b/c/b/old\na/b/new\n");
    }
}

/// The kernel releases a file some time after a program has closed it. What another program is still writing then isn't
/// finished, and must not be committed.
#[test]
fn a_late_release_makes_no_change_of_what_another_program_is_writing() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let path = mount.path(workspace).join("f");
        let versions = || place.stead(["log", &format!("/{workspace}/f"), "--json"]).lines().count();
        fs::write(&path, "one\n").unwrap();
        let first = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // A mapping keeps the file from being released when the program closes it.
        let mapped = mapping::kept(first);
        let mut second = fs::OpenOptions::new().append(true).open(&path).unwrap();
        second.write_all(b"half of a li").unwrap();
        let before = versions();
        drop(mapped);
        for _ in 0..20 {
            assert_eq!(versions(), before, "{workspace}");
        }
        second.write_all(b"ne\n").unwrap();
        drop(second);
        assert!(eventually(|| place.stead(["cat", &format!("/{workspace}/f")]) == "one\nhalf of a line\n"));
        assert_eq!(versions(), before + 1, "{workspace}");
    }
}

/// An append must not lose lines: what a tool has appended stays.
#[test]
fn nobodys_lines_are_lost() {
    let place = Place::new();
    let (mount, other) = (place.mount(), place.mount_at("mnt2", &[]));
    for workspace in BOTH {
        let path = mount.path(workspace).join("log");
        fs::write(&path, "one\n").unwrap();
        // A program has written and not closed the file yet when a tool appends.
        let mut open = fs::OpenOptions::new().append(true).open(&path).unwrap();
        open.write_all(b"program\n").unwrap();
        place.fed(["append", &format!("/{workspace}/log")], "tool\n");
        drop(open);
        let is_shown = eventually(|| fs::read_to_string(&path).unwrap() == "one\ntool\nprogram\n");
        assert!(is_shown, "{workspace}: {:?}", fs::read_to_string(&path));

        let append = |directory: &Path, who: &str| {
            for line in 0..60 {
                let file = fs::OpenOptions::new().append(true).open(directory.join("log"));
                file.unwrap().write_all(format!("{who}{line}\n").as_bytes()).unwrap();
            }
        };
        let (here, there) = (mount.path(workspace), other.path(workspace));
        assert!(eventually(|| there.join("log").exists()));
        std::thread::scope(|scope| {
            scope.spawn(|| append(&here, "a"));
            scope.spawn(|| append(&here, "b"));
            scope.spawn(|| append(&there, "c"));
        });
        let text = place.stead(["cat", &format!("/{workspace}/log")]);
        for who in ["a", "b", "c"] {
            let lines: Vec<_> = text.lines().filter(|line| line.starts_with(who)).collect();
            let expected: Vec<_> = (0..60).map(|line| format!("{who}{line}")).collect();
            assert_eq!(lines, expected, "{workspace}");
        }
    }
}

/// A Physical Store can't follow a file that another process has moved. A program that has written to it gets an error.
#[test]
fn what_was_written_to_a_file_that_another_has_moved_is_there_or_refused() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let path = mount.path(workspace).join("f");
        fs::write(&path, "old").unwrap();
        let mut open = fs::OpenOptions::new().write(true).open(&path).unwrap();
        open.write_all(b"new").unwrap();
        place.stead(["mv", &format!("/{workspace}/f"), &format!("/{workspace}/g")]);
        let synced = open.sync_all();
        let there = place.stead(["cat", &format!("/{workspace}/g")]);
        assert_eq!(there, if synced.is_ok() { "new" } else { "old" }, "{workspace}");
        // If the file was removed or replaced, nobody needs what was written to it.
        for take_away in ["rm gone", "echo other > next; mv next gone"] {
            mount.sh(workspace, "echo old > gone");
            let mut open =
                fs::OpenOptions::new().write(true).open(mount.path(workspace).join("gone")).unwrap();
            open.write_all(b"new").unwrap();
            mount.sh(workspace, take_away);
            open.sync_all().unwrap();
        }
    }
}

/// A page that is written back from a mapping belongs where it came from, even if the file is open for appending.
#[test]
fn what_is_written_through_memory_goes_where_it_belongs_also_by_a_file_that_appends() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
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
fn what_others_do_in_a_workspace_that_was_empty_is_seen() {
    let place = Place::new();
    let mount = place.mount();
    assert!(!mount.path("v/none").exists());
    mount.sh("v", "echo mine > mine");
    assert!(mount.path("v/mine").exists());
    place.stead(["rm", "/v/mine"]);
    assert!(eventually(|| !mount.path("v/mine").exists()), "the kernel is told");
}
