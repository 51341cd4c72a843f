//! History, undo, snapshots and restore, as people and scripts use them.

use crate::common::Place;
use insta::assert_snapshot;
use serde_json::Value;

/// Two agents on one directory, one of them with notes under a quota.
const TWO: &str = r#"
[stores.site]
kind = "physical"
path = "site"
[stores.notes]
kind = "virtual"
[[agents.ann.workspaces]]
prefix = "/site"
scope = "rw"
store = "site"
[[agents.ann.workspaces]]
prefix = "/notes"
scope = "rw"
store = "notes"
quota = { bytes = "1KiB", files = 3, file_bytes = "100B" }
[[agents.bob.workspaces]]
prefix = "/site"
scope = "rw"
store = "site"
[[agents.bob.workspaces]]
prefix = "/drop"
scope = "wo"
store = "notes"
"#;

fn two() -> Place {
    let place = Place::empty();
    place.file("stead.toml", TWO);
    place.file("site/index.html", "1\n2\n3\n4\n5\n6\n");
    place
}

/// The output without times and operation ids.
fn steady(told: &str) -> String {
    let word = |word: &str| {
        let is_time = word.len() == 5 && word.as_bytes()[2] == b':';
        let is_day = word.starts_with("20") && word.len() == 10;
        let is_id = word.trim_matches(['(', ')']).len() == 36;
        (!is_time && !is_day && !is_id).then(|| word.to_owned())
    };
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<_> = line.split_whitespace().filter_map(word).collect();
        format!("{}{}", " ".repeat(indent), words.join(" "))
    };
    told.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_bad_edit_is_found_and_taken_back() {
    let place = two();
    place.run(["--agent", "ann", "edit", "/site/index.html", "2", "two"]);
    place.run(["--agent", "bob", "edit", "/site/index.html", "6", "six"]);
    place.run(["--agent", "ann", "write", "/site/new/page.html", "x"]);
    assert_snapshot!(steady(&place.run(["--agent", "ann", "log"])), @r"
    v3 ann write
      A /site/new/
      A /site/new/page.html
    v2 bob edit
      M /site/index.html
    v1 ann edit
      M /site/index.html
    ");
    assert_snapshot!(steady(&place.run(["--agent", "bob", "log", "/site/index.html", "--by", "ann"])), @r"
    v1 ann edit
      M /site/index.html
    ");
    assert_snapshot!(steady(&place.run(["--agent", "ann", "undo", "--last", "2", "--dry-run"])), @r"
    merged /site/index.html
    removed /site/new
    removed /site/new/page.html
    ! Would undo write of
    ! Would undo edit of
    ");
    assert_snapshot!(steady(&place.run(["--agent", "ann", "undo", "--last", "2"])), @r"
    merged /site/index.html
    removed /site/new
    removed /site/new/page.html
    ! Undid write of
    ! Undid edit of
    ");
    assert_eq!(std::fs::read_to_string(place.path("site/index.html")).unwrap(), "1\n2\n3\n4\n5\nsix\n");
    assert_snapshot!(steady(&place.run(["--agent", "ann", "blame", "/site/index.html"])), @r"
           - (before) - 1 1
          v4 ann 2 2
           - (before) - 3 3
           - (before) - 4 4
           - (before) - 5 5
          v2 bob 6 six
    ");
    assert_snapshot!(place.run(["--agent", "ann", "undo"]), @"! There is nothing to undo.");
}

#[test]
fn a_conflict_is_an_answer() {
    let place = two();
    place.run(["--agent", "ann", "edit", "/site/index.html", "2", "two"]);
    place.run(["--agent", "bob", "edit", "/site/index.html", "two", "zwei"]);
    assert_snapshot!(steady(&place.run(["--agent", "ann", "undo"])), @r"
    conflict /site/index.html: the same lines have been changed since
    ! Could not undo edit of
    ! Nothing was changed: 1 conflict.
    exit 1
    ");
    assert_snapshot!(steady(&place.run(["--agent", "ann", "undo", "--dry-run"])), @r"
    conflict /site/index.html: the same lines have been changed since
    ! Could not undo edit of
    ! Nothing would be changed: 1 conflict.
    exit 1
    ");
    assert_snapshot!(steady(&place.run(["--agent", "ann", "undo", "--skip-conflicts"])), @r"
    conflict /site/index.html: the same lines have been changed since
    ! Could not undo edit of
    ! Nothing was changed: 1 conflict.
    exit 1
    ");
    let told = place.stead(["--agent", "ann", "undo", "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["done"], false);
    assert_eq!(told["conflicts"][0]["path"], "/site/index.html");
    let unknown = ["--agent", "bob", "undo", "--operation", "01a1ddfe-db70-73d0-973f-51da99d87c0a"];
    assert_snapshot!(place.run(unknown), @r"
    ! stead: there is no operation 01a1ddfe-db70-73d0-973f-51da99d87c0a of yours in the history
    exit 1
    ");
    assert!(place.run(["undo", "--agent", "ann", "--operation", "x"]).ends_with("exit 2"));
}

#[test]
fn skipping_conflicts_says_which_operations_are_undone() {
    let place = two();
    place.run(["--agent", "ann", "edit", "/site/index.html", "2", "two"]);
    place.run(["--agent", "bob", "edit", "/site/index.html", "two", "zwei"]);
    place.run(["--agent", "ann", "write", "/site/new.html", "x"]);
    assert_snapshot!(steady(&place.run(["--agent", "ann", "undo", "--last", "2"])), @r"
    conflict /site/index.html: the same lines have been changed since
    ! Could not undo write of
    ! Could not undo edit of
    ! Nothing was changed: 1 conflict; --skip-conflicts undoes the rest.
    exit 1
    ");
    let skip = ["--agent", "ann", "undo", "--last", "2", "--skip-conflicts"];
    assert_snapshot!(steady(&place.run([&skip[..], &["--dry-run"]].concat())), @r"
    removed /site/new.html
    conflict /site/index.html: the same lines have been changed since
    ! Would undo write of
    ! Could not undo edit of
    exit 1
    ");
    assert_snapshot!(steady(&place.run(skip)), @r"
    removed /site/new.html
    conflict /site/index.html: the same lines have been changed since
    ! Undid write of
    ! Could not undo edit of
    exit 1
    ");
    let told = place.stead(["--agent", "ann", "undo", "--last", "2", "--skip-conflicts", "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["incomplete"][0]["operation"]["tool"], "edit");
    assert_eq!(told["incomplete"][0]["partial"], false);
}

#[test]
fn snapshots_have_names_and_can_be_gone_back_to() {
    let place = two();
    place.run(["--agent", "ann", "write", "/notes/plan.md", "1. think\n"]);
    assert_snapshot!(place.run(["--agent", "ann", "snapshot", "/notes", "--label", "draft"]), @"Snapshot #1 `draft` keeps version 1.");
    assert_snapshot!(place.run(["--agent", "ann", "snapshot", "/notes", "--label", "draft"]), @r"
    ! stead: a snapshot with that name exists already; choose another name
    exit 1
    ");
    place.run(["--agent", "ann", "append", "/notes/plan.md", "2. write\n"]);
    place.run(["--agent", "ann", "write", "/notes/more.md", "x"]);
    assert_snapshot!(place.run(["--agent", "ann", "diff", "/notes", "draft"]), @r"
    added /notes/more.md
    --- /dev/null
    +++ b/notes/more.md
    @@ -0,0 +1 @@
    +x
    \ No newline at end of file
    changed /notes/plan.md
    --- a/notes/plan.md
    +++ b/notes/plan.md
    @@ -1 +1,2 @@
     1. think
    +2. write
    ");
    assert_eq!(place.run(["--agent", "ann", "cat", "/notes/plan.md", "--at", "draft"]), "1. think");
    assert_eq!(place.run(["--agent", "ann", "ls", "/notes", "--at", "#1"]), "plan.md");
    // A Workspace that can't be shown as it was then is still listed, and a call in it says why.
    assert_eq!(place.run(["--agent", "ann", "ls", "/", "--at", "1"]), "notes/\nsite/");
    assert_eq!(place.run(["--agent", "ann", "grep", "write", "/notes", "--at", "draft"]), "exit 1");
    assert_snapshot!(place.run(["--agent", "ann", "diff", "/notes", "now", "#1", "--stat"]), @r"
    D /notes/more.md
    M /notes/plan.md
    ");
    assert_snapshot!(place.run(["--agent", "ann", "restore", "/notes", "draft", "/notes/plan.md"]), @r"
    reverted   /notes/plan.md
    ! Restored with 1 change; `stead undo` undoes the restore.
    ");
    assert_snapshot!(place.run(["--agent", "ann", "ls", "/notes"]), @r"
    more.md
    plan.md
    ");
    assert_eq!(place.run(["--agent", "ann", "cat", "/notes/plan.md"]), "1. think");
    assert_snapshot!(steady(&place.run(["--agent", "ann", "snapshots"])), @"#1 v1 /notes draft");
    assert_snapshot!(place.run(["--agent", "ann", "diff", "/notes", "yesterday"]), @r"
    ! stead: there is no snapshot, version or time `yesterday` in the history
    exit 1
    ");
    assert_snapshot!(place.run(["--agent", "ann", "diff", "/notes", "99"]), @r"
    ! stead: there is no version 99 in the history
    exit 1
    ");
    assert_snapshot!(place.run(["--agent", "ann", "snapshots", "--forget", "draft"]), @"Removed snapshot #1.");
}

#[test]
fn a_snapshot_of_everything_is_compared_and_restored_as_a_whole() {
    let place = two();
    place.run(["--agent", "ann", "write", "/notes/plan.md", "1. think\n"]);
    assert_snapshot!(place.run(["--agent", "ann", "snapshot", "--label", "all"]), @"Snapshot #1 `all` keeps version 2.");
    place.run(["--agent", "ann", "append", "/notes/plan.md", "2. write\n"]);
    place.run(["--agent", "bob", "edit", "/site/index.html", "2", "two"]);
    assert_snapshot!(place.run(["--agent", "ann", "diff", "/", "all", "--stat"]), @r"
    M /notes/plan.md
    M /site/index.html
    ");
    assert_snapshot!(place.run(["--agent", "ann", "restore", "/", "all"]), @r"
    reverted   /notes/plan.md
    reverted   /site/index.html
    ! Restored with 2 changes; `stead undo` undoes the restore.
    ");
    assert_snapshot!(place.run(["--agent", "ann", "diff", "/", "all", "--stat"]), @"! There are no differences.");
    // A WRITE_ONLY Workspace is left out, and nothing is revealed of its content.
    assert_snapshot!(place.run(["--agent", "bob", "restore", "/", "2"]), @r"
    left out   /drop: `/drop` is in the Workspace `/drop`, which is WRITE_ONLY: restoring is not allowed there; you may restore in `/site`
    ! Nothing to do: everything is already in that state.
    ! 1 path stays as it was; see the reasons above.
    ");
}

#[test]
fn history_follows_the_scope() {
    let place = two();
    for args in
        [&["log", "/drop/x"][..], &["snapshot", "/drop"], &["diff", "/drop", "1"], &["blame", "/drop/x"]]
    {
        let told = place.run(["--agent", "bob"].into_iter().chain(args.iter().copied()));
        assert!(told.contains("WRITE_ONLY") && told.ends_with("exit 1"), "{args:?}: {told}");
    }
    let told = place.run(["--agent", "bob", "restore", "/drop", "1"]);
    assert!(told.contains("WRITE_ONLY") && told.ends_with("exit 1"), "{told}");
}

#[test]
fn a_quota_says_what_is_used_and_what_is_allowed() {
    let place = two();
    for name in ["a", "b", "c"] {
        place.run(["--agent", "ann", "write", &format!("/notes/{name}"), "x"]);
    }
    assert_snapshot!(place.run(["--agent", "ann", "write", "/notes/d", "x"]), @r"
    ! stead: `/notes/d` was not written: this would use 4 files, but only 3 are allowed; 3 are in use. Delete something, or ask for a higher quota
    exit 1
    ");
    let long = "x".repeat(101);
    assert_snapshot!(place.run(["--agent", "ann", "write", "/notes/a", &long]), @r"
    ! stead: `/notes/a` was not written: this would use 101 bytes in one file, but only 100 are allowed. Delete something, or ask for a higher quota
    exit 1
    ");
    assert_eq!(place.run(["--agent", "ann", "cat", "/notes/a"]), "x");
}

#[test]
fn a_database_is_cared_for() {
    let place = two();
    place.run(["--agent", "ann", "write", "/notes/a", "as it was"]);
    assert!(place.run(["backup", "copy.db"]).starts_with("Copied version 1 of the database:"));
    assert_snapshot!(place.run(["backup", "copy.db"]), @r"
    ! stead: `copy.db` exists already; choose another name
    exit 1
    ");
    place.run(["--agent", "ann", "write", "/notes/a", "as it is"]);
    assert_snapshot!(place.run(["gc", "--older-than", "0s", "--grace", "0s"]), @"Deleted 1 file version; freed 9 B.");
    assert!(place.run(["restore-backup", "copy.db"]).ends_with("exit 2"));
    assert!(place.run(["restore-backup", "no.db", "--yes"]).ends_with("exit 2"));
    assert_snapshot!(place.run(["restore-backup", "copy.db", "--yes"]), @"Restored the backup as version 3.");
    assert_eq!(place.run(["--agent", "ann", "cat", "/notes/a"]), "as it was");
    // The audit records are not undone.
    assert!(place.run(["audit", "verify"]).contains("nothing is wrong"));
    assert!(place.run(["verify"]).contains("nothing is wrong"));
}

#[test]
fn what_a_directory_need_not_keep_is_given_back() {
    let place = two();
    let keep = TWO.replace("kind = \"physical\"", "kind = \"physical\"\nkeep = { age = \"0s\" }");
    place.file("stead.toml", &keep);
    place.run(["--agent", "ann", "rm", "/site/index.html"]);
    assert_snapshot!(place.run(["gc"]), @r"
    Deleted 0 file versions; freed 0 B.
    Kept content of `site`: freed 4.0 KiB, 0 B left.
    ");
    let told: Value = serde_json::from_str(&place.run(["gc", "--json"])).unwrap();
    assert_eq!(told["kept"], serde_json::json!([{ "store": "site", "freed": 0, "bytes": 0 }]));
    // A directory that is missing doesn't prevent the rest.
    std::fs::remove_dir_all(place.path("site")).unwrap();
    assert!(place.run(["gc"]).contains("The kept content of `site` could not be cleaned up"));
}

/// If another program has put something else in the place of what would be undone, undo doesn't touch it.
#[test]
fn a_strangers_file_is_never_taken_back() {
    let place = two();
    place.run(["--agent", "ann", "mkdir", "/site/m"]);
    std::fs::remove_dir(place.path("site/m")).unwrap();
    place.file("site/m", "a stranger's");
    let told = steady(&place.run(["--agent", "ann", "undo", "--skip-conflicts"]));
    assert!(told.contains("conflict /site/m:") && told.ends_with("exit 1"), "{told}");
    assert_eq!(std::fs::read_to_string(place.path("site/m")).unwrap(), "a stranger's");
    // The operation isn't undone, and the log doesn't mark it as undone.
    assert!(!place.run(["--agent", "ann", "log"]).contains("(undone)"));

    place.run(["--agent", "ann", "write", "/site/f", "1"]);
    place.run(["--agent", "ann", "write", "/site/f", "2"]);
    std::fs::remove_file(place.path("site/f")).unwrap();
    place.file("site/f/inside", "a stranger's, too");
    let told = steady(&place.run(["--agent", "ann", "undo"]));
    assert!(told.contains("conflict /site/f") && told.ends_with("exit 1"), "{told}");
    assert!(place.path("site/f/inside").exists());
}

#[test]
fn what_is_forgotten_is_not_made_up() {
    let place = two();
    for content in ["1", "2", "3"] {
        place.run(["--agent", "ann", "write", "/notes/a", content]);
    }
    place.run(["gc", "--older-than", "0s", "--grace", "0s"]);
    place.run(["--agent", "ann", "write", "/notes/b", "new"]);
    for args in [&["diff", "/notes", "1"][..], &["restore", "/notes", "1"], &["cat", "/notes/a", "--at", "1"]]
    {
        let told = place.run(["--agent", "ann"].into_iter().chain(args.iter().copied()));
        assert!(told.contains("version 1 is no longer kept") && told.ends_with("exit 1"), "{args:?}: {told}");
    }
    assert_eq!(place.run(["--agent", "ann", "cat", "/notes/b"]), "new");
    assert_snapshot!(place.run(["--agent", "ann", "restore", "/notes", "now"]), @"! Nothing to do: everything is already in that state.");
    for label in ["now", "#1", "7", "v7", "2h", "2026-11-15", ""] {
        let told = place.run(["--agent", "ann", "snapshot", "--label", label]);
        assert!(told.contains("a snapshot's label") && told.ends_with("exit 2"), "{label}: {told}");
    }
    place.run(["--agent", "ann", "write", "/site/g", "1"]);
    let told = place.run(["--agent", "ann", "cat", "/site/index.html", "--at", "now"]);
    assert!(
        told.contains("a host directory can only be read as of a snapshot") && told.ends_with("exit 2"),
        "{told}"
    );
}

#[test]
fn what_is_done_beside_files_is_on_record() {
    let place = two();
    place.run(["--agent", "ann", "write", "/notes/a", "1"]);
    place.run(["--agent", "ann", "snapshot", "/notes", "--label", "x"]);
    place.run(["--agent", "ann", "undo"]);
    place.run(["--agent", "ann", "snapshots", "--forget", "x"]);
    place.run(["--agent", "ann", "fork", "/notes", "f"]);
    place.run(["--agent", "ann", "discard", "f"]);
    place.run(["backup", "b.db"]);
    place.run(["gc"]);
    place.run(["restore-backup", "b.db", "--yes"]);
    let exported = place.stead(["audit", "export"]);
    let records = String::from_utf8(exported.stdout).unwrap();
    let calls: Vec<String> = records
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|record| format!("{} {} {}", record["agent"], record["call"], record["paths"]).replace('"', ""))
        .collect();
    for wanted in [
        "ann snapshot [/notes]",
        "ann undo [/notes/a]",
        "ann forget_snapshot []",
        "ann fork [/notes]",
        "ann discard [/forks/f]",
        "(operator) backup []",
        "(operator) gc []",
        "(operator) restore_backup []",
    ] {
        assert!(calls.iter().any(|call| call == wanted), "{wanted}: {calls:#?}");
    }
}

/// A snapshot of a host directory contains everything in it, also what other programs put there.
#[test]
fn a_directory_can_be_looked_at_and_put_back_as_it_was() {
    let place = two();
    place.file("site/docs/a.md", "one\n");
    std::os::unix::fs::symlink("docs/a.md", place.path("site/link")).unwrap();
    assert_snapshot!(place.run(["--agent", "ann", "snapshot", "--label", "before"]), @"Snapshot #1 `before` keeps version 1.");
    place.file("site/docs/a.md", "two\n");
    place.file("site/new.md", "new\n");
    std::fs::remove_file(place.path("site/index.html")).unwrap();
    std::fs::remove_file(place.path("site/link")).unwrap();

    assert_eq!(place.run(["--agent", "ann", "cat", "/site/docs/a.md", "--at", "before"]), "one");
    assert_eq!(place.run(["--agent", "ann", "cat", "/site/link", "--at", "#1"]), "one");
    assert_eq!(place.run(["--agent", "ann", "ls", "/site", "--at", "before"]), "docs/\nindex.html\nlink@");
    assert_eq!(
        place.run(["--agent", "ann", "glob", "**/*.md", "/site", "--at", "before"]),
        "/site/docs/a.md"
    );
    assert!(
        place.run(["--agent", "ann", "grep", "one", "/site", "--at", "before"]).contains("/site/docs/a.md:1")
    );
    assert!(place.run(["--agent", "ann", "stat", "/site/index.html", "--at", "before"]).contains("12"));
    assert!(place.run(["--agent", "ann", "tree", "/site", "--at", "before"]).contains("a.md"));
    place.run(["--agent", "ann", "export", "/site", "out", "--at", "before"]);
    assert_eq!(std::fs::read_to_string(place.path("out/docs/a.md")).unwrap(), "one\n");
    assert_snapshot!(place.run(["--agent", "ann", "diff", "/site", "before", "--stat"]), @r"
    M /site/docs/a.md
    D /site/index.html
    D /site/link@
    A /site/new.md
    ");
    place.run(["--agent", "ann", "snapshot", "/site", "--label", "after"]);
    place.file("site/docs/a.md", "three\n");
    assert_snapshot!(place.run(["--agent", "ann", "diff", "/site/docs", "before", "after"]), @r"
    changed /site/docs/a.md
    --- a/site/docs/a.md
    +++ b/site/docs/a.md
    @@ -1 +1 @@
    -one
    +two
    ");
    assert_snapshot!(place.run(["--agent", "ann", "diff", "/site", "after", "now", "--stat"]), @"M /site/docs/a.md");
    assert_snapshot!(place.run(["--agent", "ann", "restore", "/site", "before", "/site/index.html"]), @r"
    restored   /site/index.html
    ! Restored with 1 change; `stead undo` undoes the restore.
    ");
    assert_snapshot!(place.run(["--agent", "ann", "restore", "/site", "before"]), @r"
    reverted   /site/docs/a.md
    restored   /site/link
    removed    /site/new.md
    ! Restored with 3 changes; `stead undo` undoes the restore.
    ");
    assert!(place.run(["verify"]).contains("nothing is wrong"));
    place.run(["--agent", "ann", "undo"]);
    assert_eq!(place.run(["--agent", "ann", "cat", "/site/docs/a.md"]), "three");
    place.run(["gc", "--older-than", "0s", "--grace", "0s"]);
    assert_eq!(place.run(["--agent", "ann", "cat", "/site/docs/a.md", "--at", "after"]), "two");
    let told = place.run(["--agent", "ann", "cat", "/site/new.md", "--at", "1h"]);
    assert!(
        told.contains("a host directory can only be read as of a snapshot") && told.ends_with("exit 2"),
        "{told}"
    );
}

/// The history of a directory belongs to the Store, not to the inode.
#[test]
fn a_directory_that_was_made_anew_still_has_its_log() {
    let place = two();
    place.run(["--agent", "ann", "write", "/site/a", "ours"]);
    place.run(["--agent", "ann", "snapshot", "/site", "--label", "kept"]);
    let log = place.run(["--agent", "ann", "log", "/site"]);
    std::fs::rename(place.path("site"), place.path("old")).unwrap();
    place.file("site/a", "restored from a backup");
    assert_eq!(place.run(["--agent", "ann", "log", "/site"]), log);
    let told = place.run(["--agent", "ann", "undo"]);
    assert!(told.contains("/site/a: it has been changed") && told.ends_with("exit 1"), "{told}");
    place.run(["--agent", "ann", "restore", "/site", "kept"]);
    assert_eq!(place.run(["--agent", "ann", "cat", "/site/a"]), "ours");
    assert_eq!(std::fs::read_to_string(place.path("site/index.html")).unwrap(), "1\n2\n3\n4\n5\n6\n");
    assert!(place.run(["verify"]).contains("nothing is wrong"));
}
