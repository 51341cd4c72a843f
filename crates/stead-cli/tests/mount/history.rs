//! Versions, undo, the audit and the past, through a mount.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use super::common::{OnMount, TestDir, WORKSPACES, eventually};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn versions(dir: &TestDir, path: &str) -> usize {
    dir.stead(["--json", "log", path]).lines().count()
}

#[test]
fn a_version_is_made_by_a_sync_or_a_close() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = format!("/{workspace}/f");
        let mut file = File::create(mount.path(workspace).join("f")).unwrap();
        assert_eq!(versions(&dir, &path), 1, "creating the file makes a version");
        for _ in 0..50 {
            file.write_all(b"some text\n").unwrap();
        }
        assert_eq!(versions(&dir, &path), 1);
        file.sync_all().unwrap();
        assert_eq!(versions(&dir, &path), 2);
        file.sync_all().unwrap();
        for number in 0..50 {
            file.write_all_at(b"other", number * 10).unwrap();
        }
        drop(file);
        assert_eq!(versions(&dir, &path), 3);
        drop(File::options().write(true).open(mount.path(workspace).join("f")).unwrap());
        drop(File::open(mount.path(workspace).join("f")).unwrap());
        assert_eq!(versions(&dir, &path), 3, "without a write there is no new version");
    }
}

#[test]
fn changes_by_a_shell_are_undone_like_changes_by_a_tool() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        mount.sh(workspace, "echo precious > precious && mkdir d && echo x > d/x");
        dir.stead(["snapshot", &format!("/{workspace}"), "--label", &format!("before-{workspace}")]);
        mount.sh(workspace, "echo spoilt > precious && rm -r d");
        dir.stead(["restore", &format!("/{workspace}"), &format!("before-{workspace}")]);
        let read_both = || mount.sh(workspace, "cat precious d/x");
        assert!(super::common::eventually(|| mount.path(workspace).join("d/x").exists()));
        assert_eq!(read_both(), "precious\nx\n", "{workspace}");
        mount.sh(workspace, "rm precious");
        dir.stead(["undo", "--last", "1"]);
        assert!(super::common::eventually(|| mount.path(workspace).join("precious").exists()));
    }
}

#[test]
fn an_open_file_and_a_change_of_a_name_are_one_record_each() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        mount.sh(
            workspace,
            "echo 12345 > f && cat f > /dev/null && mkdir d && mv f d/g && stat d/g && rm d/g",
        );
        let refused = mount.shell("ro", "echo x > no");
        assert!(!refused.status.success());
        let outcomes = || {
            let output = dir.stead(["--json", "audit", "--path", &format!("/{workspace}")]);
            let mut records: Vec<_> = lines(&output)
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
        assert!(super::common::eventually(|| outcomes() == expected), "{workspace}: {:?}", outcomes());
    }
    let denied = lines(&dir.stead(["--json", "audit", "--path", "/ro"]));
    assert!(denied.iter().any(|record| record["outcome"] == "denied" && record["paths"][0] == "/ro/no"));
}

#[test]
fn the_past_is_mounted_read_only() {
    let dir = TestDir::new();
    let current = dir.mount();
    current.sh("v", "mkdir d && echo old > d/f && ln -s d/f link");
    dir.stead(["snapshot", "--label", "then"]);
    current.sh("v", "echo new > d/f && echo added > d/g && rm link");
    let past = dir.mount_at("mnt2", &["--at", "then"]);
    let read = |mount: &OnMount| mount.sh("v", "cat d/f; ls; cat link 2>/dev/null || echo gone");
    assert_eq!(read(&past), "old\nd\nlink\nnested\nold\n");
    assert_eq!(read(&current), "new\nd\nnested\ngone\n");
    let difference =
        current.shell("", &format!("diff -rq --no-dereference {}/v/d v/d", past.mount_point.display()));
    let difference = String::from_utf8_lossy(&difference.stdout).into_owned();
    assert!(difference.contains("f differ") && difference.contains("Only in v/d: g"), "{difference}");
    let refused = past.shell("v", "echo x > d/new");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Read-only file system"));
    let versions = versions(&dir, "/v");
    let first = format!("{}", versions - 4);
    drop(past);
    let earlier = dir.mount_at("mnt2", &["--at", &first]);
    assert!(!earlier.path("v/d/g").exists());
    fs::read_dir(earlier.path("")).unwrap().for_each(drop);
}

#[test]
fn a_shell_that_rewrites_a_file_makes_one_version() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        mount.sh(workspace, "echo one > f; echo two > f");
        dir.stead(["undo"]);
        assert!(eventually(|| fs::read_to_string(mount.path(workspace).join("f")).unwrap() == "one\n"));
        // A program that reads or opens the file doesn't make a version of what is half written.
        mount.sh(workspace, "exec 7> f; echo half >&7; cat f > /dev/null");
        let content = dir.stead(["cat", &format!("/{workspace}/f")]);
        assert_eq!(content, "half\n", "the end of the shell commits the open file");
        let mut file = fs::File::create(mount.path(workspace).join("f")).unwrap();
        file.write_all(b"more").unwrap();
        assert_eq!(fs::read_to_string(mount.path(workspace).join("f")).unwrap(), "more");
        assert_eq!(dir.stead(["cat", &format!("/{workspace}/f")]), "half\n");
    }
}

/// A program can't rename across Workspaces: `mv` copies the file and removes the old one, in several calls.
#[test]
fn a_move_across_workspaces_is_undone_half_by_half_or_as_a_whole() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for [from, to] in [["v", "p"], ["p", "v"]] {
        mount.sh(from, "echo precious > f && chmod 640 f");
        let operations = |workspace: &str| -> Vec<String> {
            let log = lines(&dir.stead(["--json", "log", &format!("/{workspace}")]));
            let mut ids: Vec<_> =
                log.iter().map(|entry| entry["operation"]["id"].as_str().unwrap().to_owned()).collect();
            ids.dedup();
            ids
        };
        let (count_in_from, count_in_to) = (operations(from).len(), operations(to).len());
        mount.sh("", &format!("mv {from}/f {to}/f"));
        let (removal, copies) = (operations(from).len() - count_in_from, operations(to).len() - count_in_to);
        assert_eq!(removal, 1);
        let assert_content = |workspace: &str, content: Option<&str>| {
            let path = mount.path(workspace).join("f");
            let matches = eventually(|| fs::read_to_string(&path).ok().as_deref() == content);
            assert!(matches, "{from} to {to}: {path:?} should be {content:?}");
        };
        assert_content(from, None);
        assert_content(to, Some("precious\n"));
        // Undoes the removal alone: the file is then in both places.
        dir.stead(["undo"]);
        assert_content(from, Some("precious\n"));
        assert_content(to, Some("precious\n"));
        // Undoes the copy alone.
        dir.stead(["undo", "--last", &copies.to_string()]);
        assert_content(from, Some("precious\n"));
        assert_content(to, None);

        mount.sh("", &format!("mv {from}/f {to}/f"));
        dir.stead(["undo", "--last", &(copies + removal).to_string()]);
        assert_content(from, Some("precious\n"));
        assert_content(to, None);
        mount.sh(from, "rm f");
    }
}

#[test]
fn an_undo_of_a_new_file_removes_it() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let assert_removed = |name: &str| {
            let is_removed = eventually(|| !mount.path(workspace).join(name).exists());
            assert!(is_removed, "{workspace}: {name} still exists");
        };
        mount.sh(workspace, "echo kept > kept; echo new > new");
        dir.stead(["undo"]);
        assert_removed("new");
        // What a program does to a new file right after creating it belongs to the same operation: its mode, its time,
        // its final name.
        mount.sh(workspace, "cp -p kept copy && head -c 3000000 /dev/urandom > large && : > empty");
        for name in ["empty", "large", "copy"] {
            assert!(mount.path(workspace).join(name).exists(), "{workspace}: {name}");
            let output = dir.stead(["undo"]);
            assert!(output.contains(&format!("/{workspace}/{name}")), "{workspace}: {output}");
            assert_removed(name);
        }
        let mut file = File::create_new(mount.path(workspace).join("temporary")).unwrap();
        assert!(
            File::create_new(mount.path(workspace).join("temporary")).is_err(),
            "the new name has to be visible at once"
        );
        let second_create = dir.run(["write", "--create-only", &format!("/{workspace}/temporary"), "x"]);
        assert!(!second_create.status.success(), "{workspace}: a second create of the same name has to fail");
        file.write_all(b"renamed before it is closed").unwrap();
        fs::rename(mount.path(workspace).join("temporary"), mount.path(workspace).join("kept")).unwrap();
        drop(file);
        dir.stead(["undo"]);
        let kept = mount.path(workspace).join("kept");
        assert!(eventually(|| fs::read_to_string(&kept).is_ok_and(|kept| kept == "kept\n")), "{workspace}");
        assert_removed("temporary");
        // What is written later is another operation.
        let mut file = File::create(mount.path(workspace).join("log")).unwrap();
        file.write_all(b"one\n").unwrap();
        file.sync_all().unwrap();
        file.write_all(b"two\n").unwrap();
        drop(file);
        dir.stead(["undo"]);
        let log = mount.path(workspace).join("log");
        assert!(eventually(|| fs::read_to_string(&log).is_ok_and(|log| log == "one\n")), "{workspace}");
        dir.stead(["undo"]);
        assert_removed("log");
        assert_eq!(mount.sh(workspace, "cat kept"), "kept\n");
    }
}
