//! Versions, undo, the audit and the past, through a mount.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use super::common::{BOTH, OnMount, Place, eventually};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn versions(place: &Place, path: &str) -> usize {
    place.stead(["--json", "log", path]).lines().count()
}

#[test]
fn a_version_is_made_by_a_sync_or_a_close() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let path = format!("/{workspace}/f");
        let mut file = File::create(mount.path(workspace).join("f")).unwrap();
        assert_eq!(versions(&place, &path), 1, "its name");
        for _ in 0..50 {
            file.write_all(b"some text\n").unwrap();
        }
        assert_eq!(versions(&place, &path), 1);
        file.sync_all().unwrap();
        assert_eq!(versions(&place, &path), 2);
        file.sync_all().unwrap();
        for number in 0..50 {
            file.write_all_at(b"other", number * 10).unwrap();
        }
        drop(file);
        assert_eq!(versions(&place, &path), 3);
        drop(File::options().write(true).open(mount.path(workspace).join("f")).unwrap());
        drop(File::open(mount.path(workspace).join("f")).unwrap());
        assert_eq!(versions(&place, &path), 3, "nothing was written");
    }
}

#[test]
fn what_a_shell_did_is_undone_like_a_tools_work() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        mount.sh(workspace, "echo precious > precious && mkdir d && echo x > d/x");
        place.stead(["snapshot", &format!("/{workspace}"), "--label", &format!("before-{workspace}")]);
        mount.sh(workspace, "echo spoilt > precious && rm -r d");
        place.stead(["restore", &format!("/{workspace}"), &format!("before-{workspace}")]);
        let look = || mount.sh(workspace, "cat precious d/x");
        assert!(super::common::eventually(|| mount.path(workspace).join("d/x").exists()));
        assert_eq!(look(), "precious\nx\n", "{workspace}");
        mount.sh(workspace, "rm precious");
        place.stead(["undo", "--last", "1"]);
        assert!(super::common::eventually(|| mount.path(workspace).join("precious").exists()));
    }
}

#[test]
fn an_open_file_and_a_change_of_a_name_are_one_record_each() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        mount.sh(
            workspace,
            "echo 12345 > f && cat f > /dev/null && mkdir d && mv f d/g && stat d/g && rm d/g",
        );
        let refused = mount.shell("ro", "echo x > no");
        assert!(!refused.status.success());
        let told = || {
            let told = place.stead(["--json", "audit", "--path", &format!("/{workspace}")]);
            let mut records: Vec<_> = lines(&told)
                .iter()
                .filter(|record| record["outcome"] != "begun")
                .map(|record| {
                    format!("{} {}", record["call"].as_str().unwrap(), record["outcome"].as_str().unwrap())
                })
                .collect();
            records.sort();
            records
        };
        let expected = ["mkdir ok", "move ok", "open ok", "open ok", "open ok", "remove ok"];
        assert!(super::common::eventually(|| told() == expected), "{workspace}: {:?}", told());
    }
    let denied = lines(&place.stead(["--json", "audit", "--path", "/ro"]));
    assert!(denied.iter().any(|record| record["outcome"] == "denied" && record["paths"][0] == "/ro/no"));
}

#[test]
fn the_past_is_mounted_read_only() {
    let place = Place::new();
    let now = place.mount();
    now.sh("v", "mkdir d && echo old > d/f && ln -s d/f link");
    place.stead(["snapshot", "--label", "then"]);
    now.sh("v", "echo new > d/f && echo added > d/g && rm link");
    let then = place.mount_at("mnt2", &["--at", "then"]);
    let read = |mount: &OnMount| mount.sh("v", "cat d/f; ls; cat link 2>/dev/null || echo gone");
    assert_eq!(read(&then), "old\nd\nlink\nnested\nold\n");
    assert_eq!(read(&now), "new\nd\nnested\ngone\n");
    let difference = now.shell("", &format!("diff -rq --no-dereference {}/v/d v/d", then.at.display()));
    let difference = String::from_utf8_lossy(&difference.stdout).into_owned();
    assert!(difference.contains("f differ") && difference.contains("Only in v/d: g"), "{difference}");
    let refused = then.shell("v", "echo x > d/new");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Read-only file system"));
    let versions = versions(&place, "/v");
    let first = format!("{}", versions - 4);
    drop(then);
    let earlier = place.mount_at("mnt2", &["--at", &first]);
    assert!(!earlier.path("v/d/g").exists());
    fs::read_dir(earlier.path("")).unwrap().for_each(drop);
}

#[test]
fn a_shell_that_writes_a_file_anew_makes_one_version_of_it() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        mount.sh(workspace, "echo one > f; echo two > f");
        place.stead(["undo"]);
        assert!(eventually(|| fs::read_to_string(mount.path(workspace).join("f")).unwrap() == "one\n"));
        // A program that reads or opens the file doesn't make a version of what is half written.
        mount.sh(workspace, "exec 7> f; echo half >&7; cat f > /dev/null");
        let seen = place.stead(["cat", &format!("/{workspace}/f")]);
        assert_eq!(seen, "half\n", "the shell has ended");
        let mut open = fs::File::create(mount.path(workspace).join("f")).unwrap();
        open.write_all(b"more").unwrap();
        assert_eq!(fs::read_to_string(mount.path(workspace).join("f")).unwrap(), "more");
        assert_eq!(place.stead(["cat", &format!("/{workspace}/f")]), "half\n");
    }
}

/// A program can't rename across Workspaces: `mv` copies the file and removes the old one, in several calls.
#[test]
fn a_move_across_workspaces_is_undone_half_by_half_or_as_a_whole() {
    let place = Place::new();
    let mount = place.mount();
    for [from, to] in [["v", "p"], ["p", "v"]] {
        mount.sh(from, "echo precious > f && chmod 640 f");
        let operations = |workspace: &str| -> Vec<String> {
            let log = lines(&place.stead(["--json", "log", &format!("/{workspace}")]));
            let mut ids: Vec<_> =
                log.iter().map(|entry| entry["operation"]["id"].as_str().unwrap().to_owned()).collect();
            ids.dedup();
            ids
        };
        let (kept, before) = (operations(from).len(), operations(to).len());
        mount.sh("", &format!("mv {from}/f {to}/f"));
        let (removal, copies) = (operations(from).len() - kept, operations(to).len() - before);
        assert_eq!(removal, 1);
        let is = |workspace: &str, content: Option<&str>| {
            let path = mount.path(workspace).join("f");
            let there = eventually(|| fs::read_to_string(&path).ok().as_deref() == content);
            assert!(there, "{from} to {to}: {path:?} should be {content:?}");
        };
        is(from, None);
        is(to, Some("precious\n"));
        // Undoes the removal alone: the file is then in both places.
        place.stead(["undo"]);
        is(from, Some("precious\n"));
        is(to, Some("precious\n"));
        // Undoes the copy alone.
        place.stead(["undo", "--last", &copies.to_string()]);
        is(from, Some("precious\n"));
        is(to, None);

        mount.sh("", &format!("mv {from}/f {to}/f"));
        place.stead(["undo", "--last", &(copies + removal).to_string()]);
        is(from, Some("precious\n"));
        is(to, None);
        mount.sh(from, "rm f");
    }
}

#[test]
fn an_undo_of_a_new_file_removes_it() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let is_gone = |name: &str| {
            let gone = eventually(|| !mount.path(workspace).join(name).exists());
            assert!(gone, "{workspace}: {name} is left");
        };
        mount.sh(workspace, "echo kept > kept; echo new > new");
        place.stead(["undo"]);
        is_gone("new");
        // What a program does to a new file right after creating it belongs to the same operation: its mode, its time,
        // its final name.
        mount.sh(workspace, "cp -p kept copy && head -c 3000000 /dev/urandom > large && : > empty");
        for name in ["empty", "large", "copy"] {
            assert!(mount.path(workspace).join(name).exists(), "{workspace}: {name}");
            let told = place.stead(["undo"]);
            assert!(told.contains(&format!("/{workspace}/{name}")), "{workspace}: {told}");
            is_gone(name);
        }
        let mut file = File::create_new(mount.path(workspace).join("temporary")).unwrap();
        assert!(
            File::create_new(mount.path(workspace).join("temporary")).is_err(),
            "the name is taken at once"
        );
        let taken = place.run(["write", "--create-only", &format!("/{workspace}/temporary"), "x"]);
        assert!(!taken.status.success(), "{workspace}: for everyone");
        file.write_all(b"renamed before it is closed").unwrap();
        fs::rename(mount.path(workspace).join("temporary"), mount.path(workspace).join("kept")).unwrap();
        drop(file);
        place.stead(["undo"]);
        let kept = mount.path(workspace).join("kept");
        assert!(eventually(|| fs::read_to_string(&kept).is_ok_and(|kept| kept == "kept\n")), "{workspace}");
        is_gone("temporary");
        // What is written later is another operation.
        let mut file = File::create(mount.path(workspace).join("log")).unwrap();
        file.write_all(b"one\n").unwrap();
        file.sync_all().unwrap();
        file.write_all(b"two\n").unwrap();
        drop(file);
        place.stead(["undo"]);
        let log = mount.path(workspace).join("log");
        assert!(eventually(|| fs::read_to_string(&log).is_ok_and(|log| log == "one\n")), "{workspace}");
        place.stead(["undo"]);
        is_gone("log");
        assert_eq!(mount.sh(workspace, "cat kept"), "kept\n");
    }
}
