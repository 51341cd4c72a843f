//! History, undo, snapshots and restore, as people and scripts use them.

use crate::common::TestDir;
use insta::assert_snapshot;
use serde_json::Value;

/// Two agents on one directory, one of them with notes under a quota.
const TWO_AGENTS: &str = r#"
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

fn two_agents() -> TestDir {
    let dir = TestDir::empty();
    dir.file("stead.toml", TWO_AGENTS);
    dir.file("site/index.html", "1\n2\n3\n4\n5\n6\n");
    dir
}

/// The output without times and operation ids.
fn without_times_and_ids(output: &str) -> String {
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
    output.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_bad_edit_is_found_and_undone() {
    let dir = two_agents();
    dir.run(["--agent", "ann", "edit", "/site/index.html", "2", "two"]);
    dir.run(["--agent", "bob", "edit", "/site/index.html", "6", "six"]);
    dir.run(["--agent", "ann", "write", "/site/new/page.html", "x"]);
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "log"])), @r"
    v3 ann write
      A /site/new/
      A /site/new/page.html
    v2 bob edit
      M /site/index.html
    v1 ann edit
      M /site/index.html
    ");
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "bob", "log", "/site/index.html", "--by", "ann"])), @r"
    v1 ann edit
      M /site/index.html
    ");
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "undo", "--last", "2", "--dry-run"])), @r"
    merged /site/index.html
    removed /site/new
    removed /site/new/page.html
    ! Would undo write of
    ! Would undo edit of
    ");
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "undo", "--last", "2"])), @r"
    merged /site/index.html
    removed /site/new
    removed /site/new/page.html
    ! Undid write of
    ! Undid edit of
    ");
    assert_eq!(std::fs::read_to_string(dir.path("site/index.html")).unwrap(), "1\n2\n3\n4\n5\nsix\n");
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "blame", "/site/index.html"])), @r"
           - (before) - 1 1
          v4 ann 2 2
           - (before) - 3 3
           - (before) - 4 4
           - (before) - 5 5
          v2 bob 6 six
    ");
    assert_snapshot!(dir.run(["--agent", "ann", "undo"]), @"! There is nothing to undo.");
}

#[test]
fn an_undo_with_a_conflict_is_a_negative_answer() {
    let dir = two_agents();
    dir.run(["--agent", "ann", "edit", "/site/index.html", "2", "two"]);
    dir.run(["--agent", "bob", "edit", "/site/index.html", "two", "zwei"]);
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "undo"])), @r"
    conflict /site/index.html: the same lines have been changed since
    ! Could not undo edit of
    ! Nothing was changed: 1 conflict.
    exit 1
    ");
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "undo", "--dry-run"])), @r"
    conflict /site/index.html: the same lines have been changed since
    ! Could not undo edit of
    ! Nothing would be changed: 1 conflict.
    exit 1
    ");
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "undo", "--skip-conflicts"])), @r"
    conflict /site/index.html: the same lines have been changed since
    ! Could not undo edit of
    ! Nothing was changed: 1 conflict.
    exit 1
    ");
    let reply = dir.stead(["--agent", "ann", "undo", "--json"]);
    let reply: Value = serde_json::from_slice(&reply.stdout).unwrap();
    assert_eq!(reply["done"], false);
    assert_eq!(reply["conflicts"][0]["path"], "/site/index.html");
    let unknown = ["--agent", "bob", "undo", "--operation", "01a1ddfe-db70-73d0-973f-51da99d87c0a"];
    assert_snapshot!(dir.run(unknown), @r"
    ! stead: there is no operation 01a1ddfe-db70-73d0-973f-51da99d87c0a in the history
    exit 1
    ");
    assert!(dir.run(["undo", "--agent", "ann", "--operation", "x"]).ends_with("exit 2"));
}

#[test]
fn s25_a_person_undoes_the_operation_of_anyone_in_the_workspaces_of_the_named_agent() {
    let dir = two_agents();
    dir.run(["--agent", "bob", "write", "/site/by-bob.html", "b"]);
    dir.run(["--agent", "ann", "write", "/site/by-ann.html", "a"]);
    let newest = |agent: &str| {
        let log = dir.stead(["--agent", "ann", "log", "--json", "--by", agent]);
        let log = String::from_utf8(log.stdout).unwrap();
        let log: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        log["operation"]["id"].as_str().unwrap().to_owned()
    };
    let by_bob = newest("bob");
    // Without its id, only the agent's own operations are undone.
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "undo", "--last", "9"])), @r"
    removed /site/by-ann.html
    ! Undid write of
    ");
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "undo", "--operation", &by_bob[..30]])), @r"
    removed /site/by-bob.html
    ! Undid write of
    ");
    assert_snapshot!(dir.run(["--agent", "bob", "ls", "/site"]), @"index.html");
    // The undo is the named agent's, and bob can see who did it.
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "bob", "undo", "--operation", &newest("ann")])), @r"
    restored /site/by-bob.html
    ! Undid undo of
    ");
    assert_snapshot!(dir.run(["--agent", "bob", "ls", "/site"]), @r"
    by-bob.html
    index.html
    ");
}

#[test]
fn skipping_conflicts_says_which_operations_are_undone() {
    let dir = two_agents();
    dir.run(["--agent", "ann", "edit", "/site/index.html", "2", "two"]);
    dir.run(["--agent", "bob", "edit", "/site/index.html", "two", "zwei"]);
    dir.run(["--agent", "ann", "write", "/site/new.html", "x"]);
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "undo", "--last", "2"])), @r"
    conflict /site/index.html: the same lines have been changed since
    ! Could not undo write of
    ! Could not undo edit of
    ! Nothing was changed: 1 conflict; --skip-conflicts undoes the rest.
    exit 1
    ");
    let skip = ["--agent", "ann", "undo", "--last", "2", "--skip-conflicts"];
    assert_snapshot!(without_times_and_ids(&dir.run([&skip[..], &["--dry-run"]].concat())), @r"
    removed /site/new.html
    conflict /site/index.html: the same lines have been changed since
    ! Would undo write of
    ! Could not undo edit of
    exit 1
    ");
    assert_snapshot!(without_times_and_ids(&dir.run(skip)), @r"
    removed /site/new.html
    conflict /site/index.html: the same lines have been changed since
    ! Undid write of
    ! Could not undo edit of
    exit 1
    ");
    let reply = dir.stead(["--agent", "ann", "undo", "--last", "2", "--skip-conflicts", "--json"]);
    let reply: Value = serde_json::from_slice(&reply.stdout).unwrap();
    assert_eq!(reply["incomplete"][0]["operation"]["tool"], "edit");
    assert_eq!(reply["incomplete"][0]["partial"], false);
}

#[test]
fn snapshots_have_labels_and_can_be_restored() {
    let dir = two_agents();
    dir.run(["--agent", "ann", "write", "/notes/plan.md", "1. think\n"]);
    assert_snapshot!(dir.run(["--agent", "ann", "snapshot", "/notes", "--label", "draft"]), @"Snapshot #1 `draft` keeps version 1.");
    assert_snapshot!(dir.run(["--agent", "ann", "snapshot", "/notes", "--label", "draft"]), @r"
    ! stead: a snapshot with that name exists already; choose another name
    exit 1
    ");
    dir.run(["--agent", "ann", "append", "/notes/plan.md", "2. write\n"]);
    dir.run(["--agent", "ann", "write", "/notes/more.md", "x"]);
    assert_snapshot!(dir.run(["--agent", "ann", "diff", "/notes", "draft"]), @r"
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
    assert_eq!(dir.run(["--agent", "ann", "cat", "/notes/plan.md", "--at", "draft"]), "1. think");
    assert_eq!(dir.run(["--agent", "ann", "ls", "/notes", "--at", "#1"]), "plan.md");
    // A Workspace that can't be shown as it was then is still listed, and a call in it says why.
    assert_eq!(dir.run(["--agent", "ann", "ls", "/", "--at", "1"]), "notes/\nsite/");
    assert_eq!(dir.run(["--agent", "ann", "grep", "write", "/notes", "--at", "draft"]), "exit 1");
    assert_snapshot!(dir.run(["--agent", "ann", "diff", "/notes", "now", "#1", "--name-status"]), @r"
    D /notes/more.md
    M /notes/plan.md
    ");
    assert_snapshot!(dir.run(["--agent", "ann", "restore", "/notes", "draft", "/notes/plan.md"]), @r"
    reverted   /notes/plan.md
    ! Restored with 1 change; `stead undo` undoes the restore.
    ");
    assert_snapshot!(dir.run(["--agent", "ann", "ls", "/notes"]), @r"
    more.md
    plan.md
    ");
    assert_eq!(dir.run(["--agent", "ann", "cat", "/notes/plan.md"]), "1. think");
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "ann", "snapshots"])), @"#1 v1 /notes draft");
    assert_snapshot!(dir.run(["--agent", "ann", "diff", "/notes", "soon"]), @r"
    ! stead: there is no snapshot, version or time `soon` in the history; write a time as 2h, 2 hours ago, 10:30, yesterday, 2026-11-15, 2026-11-15 08:30 or 2026-11-15T08:30:00Z
    exit 1
    ");
    assert_snapshot!(dir.run(["--agent", "ann", "diff", "/notes", "99"]), @r"
    ! stead: there is no version 99 in the history
    exit 1
    ");
    assert_snapshot!(dir.run(["--agent", "ann", "snapshots", "--forget", "draft"]), @"Removed snapshot #1.");
}

#[test]
fn a_snapshot_of_everything_is_compared_and_restored_as_a_whole() {
    let dir = two_agents();
    dir.run(["--agent", "ann", "write", "/notes/plan.md", "1. think\n"]);
    assert_snapshot!(dir.run(["--agent", "ann", "snapshot", "--label", "all"]), @"Snapshot #1 `all` keeps version 2.");
    dir.run(["--agent", "ann", "append", "/notes/plan.md", "2. write\n"]);
    dir.run(["--agent", "bob", "edit", "/site/index.html", "2", "two"]);
    assert_snapshot!(dir.run(["--agent", "ann", "diff", "/", "all", "--name-status"]), @r"
    M /notes/plan.md
    M /site/index.html
    ");
    assert_snapshot!(dir.run(["--agent", "ann", "restore", "/", "all"]), @r"
    reverted   /notes/plan.md
    reverted   /site/index.html
    ! Restored with 2 changes; `stead undo` undoes the restore.
    ");
    assert_snapshot!(dir.run(["--agent", "ann", "diff", "/", "all", "--stat"]), @"! There are no differences.");
    // A WRITE_ONLY Workspace is left out, and nothing is revealed of its content.
    assert_snapshot!(dir.run(["--agent", "bob", "restore", "/", "2"]), @r"
    left out   /drop: `/drop` is in the Workspace `/drop`, which is WRITE_ONLY: restoring is not allowed there; you may restore in `/site`
    ! Nothing to do: everything is already in that state.
    ! 1 path stays as it was; see the reasons above.
    ");
}

#[test]
fn the_beginning_of_an_id_finds_only_operations_that_the_agent_can_see() {
    let dir = two_agents();
    let operation = |agent, path| {
        let reply = dir.stead(["--agent", agent, "--json", "write", path, "x"]);
        let reply: Value = serde_json::from_slice(&reply.stdout).unwrap();
        reply["operation"].as_str().unwrap().to_owned()
    };
    let hidden = operation("ann", "/notes/secret");
    let shared = operation("ann", "/site/a");
    let own = operation("bob", "/site/b");
    for command in ["log", "diff"] {
        let output = dir.run(["--agent", "bob", command, "--operation", &own[..4]]);
        assert!(output.starts_with("! stead: 2 operations have an id"), "{command}: {output}");
        assert!(output.contains(&shared) && output.contains(&own) && !output.contains(&hidden), "{output}");
        let output = dir.run(["--agent", "bob", command, "--operation", &hidden[..35]]);
        assert!(
            output.contains("there is no operation") && output.ends_with("exit 1"),
            "{command}: {output}"
        );
    }
    // A person may undo the operations of all agents in bob's Workspaces, so two of them make the beginning ambiguous.
    let output = dir.run(["--agent", "bob", "undo", "--operation", &own[..4]]);
    assert!(output.starts_with("! stead: 2 operations have an id") && !output.contains(&hidden), "{output}");
    let output = dir.run(["--agent", "bob", "undo", "--operation", &hidden]);
    assert!(output.contains("there is no operation") && output.ends_with("exit 1"), "{output}");
    assert_snapshot!(without_times_and_ids(&dir.run(["--agent", "bob", "undo", "--operation", &own])), @r"
    removed /site/b
    ! Undid write of
    ");
}

#[test]
fn history_commands_obey_the_scope() {
    let dir = two_agents();
    for args in
        [&["log", "/drop/x"][..], &["snapshot", "/drop"], &["diff", "/drop", "1"], &["blame", "/drop/x"]]
    {
        let output = dir.run(["--agent", "bob"].into_iter().chain(args.iter().copied()));
        assert!(output.contains("WRITE_ONLY") && output.ends_with("exit 1"), "{args:?}: {output}");
    }
    let output = dir.run(["--agent", "bob", "restore", "/drop", "1"]);
    assert!(output.contains("WRITE_ONLY") && output.ends_with("exit 1"), "{output}");
}

#[test]
fn a_quota_error_says_what_is_used_and_what_is_allowed() {
    let dir = two_agents();
    for name in ["a", "b", "c"] {
        dir.run(["--agent", "ann", "write", &format!("/notes/{name}"), "x"]);
    }
    assert_snapshot!(dir.run(["--agent", "ann", "write", "/notes/d", "x"]), @r"
    ! stead: `/notes/d` was not written: this would use 4 files, but only 3 are allowed; 3 are in use. Delete something, or ask for a higher quota
    exit 1
    ");
    let long = "x".repeat(101);
    assert_snapshot!(dir.run(["--agent", "ann", "write", "/notes/a", &long]), @r"
    ! stead: `/notes/a` was not written: this would use 101 bytes in one file, but only 100 are allowed. Split the file, or ask for a higher quota
    exit 1
    ");
    assert_eq!(dir.run(["--agent", "ann", "cat", "/notes/a"]), "x");
}

#[test]
fn a_database_is_backed_up_collected_and_restored() {
    let dir = two_agents();
    dir.run(["--agent", "ann", "write", "/notes/a", "as it was"]);
    assert!(dir.run(["backup", "copy.db"]).starts_with("Copied version 1 of the database:"));
    assert_snapshot!(dir.run(["backup", "copy.db"]), @r"
    ! stead: `copy.db` exists already; choose another name
    exit 1
    ");
    dir.run(["--agent", "ann", "write", "/notes/a", "as it is"]);
    assert_snapshot!(dir.run(["gc", "--older-than", "0s", "--grace", "0s"]), @"Deleted 1 file version; freed 9 B.");
    assert!(dir.run(["restore-backup", "copy.db"]).ends_with("exit 2"));
    assert_snapshot!(dir.run(["restore-backup", "no.db", "--yes"]), @r"
    ! stead: the backup `no.db` can't be read: there is no such file or directory
    exit 1
    ");
    assert_snapshot!(dir.run(["restore-backup", "copy.db", "--yes"]), @"Restored the backup as version 3.");
    assert_eq!(dir.run(["--agent", "ann", "cat", "/notes/a"]), "as it was");
    // The audit records are not undone.
    assert!(dir.run(["audit", "verify"]).contains("nothing is wrong"));
    assert!(dir.run(["verify"]).contains("nothing is wrong"));
}

#[test]
fn gc_frees_displaced_content_beyond_the_retention() {
    let dir = two_agents();
    let config = TWO_AGENTS.replace("kind = \"physical\"", "kind = \"physical\"\nkeep = { age = \"0s\" }");
    dir.file("stead.toml", &config);
    dir.run(["--agent", "ann", "rm", "/site/index.html"]);
    assert_snapshot!(dir.run(["gc"]), @r"
    Deleted 0 file versions; freed 0 B.
    Kept content of `site`: freed 4.0 KiB, 0 B left.
    ");
    let reply: Value = serde_json::from_str(&dir.run(["gc", "--json"])).unwrap();
    assert_eq!(reply["kept"], serde_json::json!([{ "store": "site", "freed": 0, "bytes": 0 }]));
    // A directory that is missing doesn't prevent the rest.
    std::fs::remove_dir_all(dir.path("site")).unwrap();
    assert!(dir.run(["gc"]).contains("The kept content of `site` could not be cleaned up"));
}

/// If another program has put something else in the place of what would be undone, undo doesn't touch it.
#[test]
fn undo_never_touches_a_file_of_another_program() {
    let dir = two_agents();
    dir.run(["--agent", "ann", "mkdir", "/site/m"]);
    std::fs::remove_dir(dir.path("site/m")).unwrap();
    dir.file("site/m", "a stranger's");
    let output = without_times_and_ids(&dir.run(["--agent", "ann", "undo", "--skip-conflicts"]));
    assert!(output.contains("conflict /site/m:") && output.ends_with("exit 1"), "{output}");
    assert_eq!(std::fs::read_to_string(dir.path("site/m")).unwrap(), "a stranger's");
    // The operation isn't undone, and the log doesn't mark it as undone.
    assert!(!dir.run(["--agent", "ann", "log"]).contains("(undone)"));

    dir.run(["--agent", "ann", "write", "/site/f", "1"]);
    dir.run(["--agent", "ann", "write", "/site/f", "2"]);
    std::fs::remove_file(dir.path("site/f")).unwrap();
    dir.file("site/f/inside", "a stranger's, too");
    let output = without_times_and_ids(&dir.run(["--agent", "ann", "undo"]));
    assert!(output.contains("conflict /site/f") && output.ends_with("exit 1"), "{output}");
    assert!(dir.path("site/f/inside").exists());
}

#[test]
fn a_version_that_gc_deleted_is_reported_as_no_longer_kept() {
    let dir = two_agents();
    for content in ["1", "2", "3"] {
        dir.run(["--agent", "ann", "write", "/notes/a", content]);
    }
    dir.run(["gc", "--older-than", "0s", "--grace", "0s"]);
    dir.run(["--agent", "ann", "write", "/notes/b", "new"]);
    for args in [&["diff", "/notes", "1"][..], &["restore", "/notes", "1"], &["cat", "/notes/a", "--at", "1"]]
    {
        let output = dir.run(["--agent", "ann"].into_iter().chain(args.iter().copied()));
        assert!(
            output.contains("version 1 is no longer kept") && output.ends_with("exit 1"),
            "{args:?}: {output}"
        );
    }
    for args in
        [&["diff", "/notes", "1h"][..], &["restore", "/notes", "1h"], &["cat", "/notes/a", "--at", "1h"]]
    {
        let output = dir.run(["--agent", "ann"].into_iter().chain(args.iter().copied()));
        assert!(
            output.contains("the history doesn't reach back that far") && output.ends_with("exit 1"),
            "{args:?}: {output}"
        );
    }
    assert_eq!(dir.run(["--agent", "ann", "cat", "/notes/b"]), "new");
    assert_snapshot!(dir.run(["--agent", "ann", "restore", "/notes", "now"]), @"! Nothing to do: everything is already in that state.");
    for label in ["now", "#1", "7", "v7", "2h", "2026-11-15", "yesterday", "10:30", ""] {
        let output = dir.run(["--agent", "ann", "snapshot", "--label", label]);
        assert!(output.contains("a snapshot's label") && output.ends_with("exit 2"), "{label}: {output}");
    }
    dir.run(["--agent", "ann", "write", "/site/g", "1"]);
    std::fs::write(dir.path("site/g"), "by the host").unwrap();
    assert_snapshot!(dir.run(["--agent", "ann", "cat", "/site/g", "--at", "now"]), @"by the host");
    assert!(dir.run(["--agent", "ann", "ls", "/", "--at", "now"]).contains("site"));
    let output = dir.run(["--agent", "ann", "cat", "/site/index.html", "--at", "4"]);
    assert!(
        output.contains("a host directory can only be read as of a snapshot") && output.ends_with("exit 2"),
        "{output}"
    );
}

#[test]
fn operations_other_than_file_changes_are_on_record() {
    let dir = two_agents();
    dir.run(["--agent", "ann", "write", "/notes/a", "1"]);
    dir.run(["--agent", "ann", "snapshot", "/notes", "--label", "x"]);
    dir.run(["--agent", "ann", "undo"]);
    dir.run(["--agent", "ann", "snapshots", "--forget", "x"]);
    dir.run(["--agent", "ann", "fork", "/notes", "f"]);
    dir.run(["--agent", "ann", "discard", "f"]);
    dir.run(["backup", "b.db"]);
    dir.run(["gc"]);
    dir.run(["restore-backup", "b.db", "--yes"]);
    let exported = dir.stead(["audit", "export"]);
    let records = String::from_utf8(exported.stdout).unwrap();
    let calls: Vec<String> = records
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|record| format!("{} {} {}", record["agent"], record["call"], record["paths"]).replace('"', ""))
        .collect();
    for expected in [
        "ann snapshot [/notes]",
        "ann undo [/notes/a]",
        "ann forget_snapshot []",
        "ann fork [/notes]",
        "ann discard [/forks/f]",
        "(operator) backup []",
        "(operator) gc []",
        "(operator) restore_backup []",
    ] {
        assert!(calls.iter().any(|call| call == expected), "{expected}: {calls:#?}");
    }
}

/// A snapshot of a host directory contains everything in it, also what other programs put there.
#[test]
fn a_host_directory_is_read_and_restored_as_of_a_snapshot() {
    let dir = two_agents();
    dir.file("site/docs/a.md", "one\n");
    std::os::unix::fs::symlink("docs/a.md", dir.path("site/link")).unwrap();
    assert_snapshot!(dir.run(["--agent", "ann", "snapshot", "--label", "before"]), @"Snapshot #1 `before` keeps version 1.");
    dir.file("site/docs/a.md", "two\n");
    dir.file("site/new.md", "new\n");
    std::fs::remove_file(dir.path("site/index.html")).unwrap();
    std::fs::remove_file(dir.path("site/link")).unwrap();

    assert_eq!(dir.run(["--agent", "ann", "cat", "/site/docs/a.md", "--at", "before"]), "one");
    assert_eq!(dir.run(["--agent", "ann", "cat", "/site/link", "--at", "#1"]), "one");
    assert_eq!(dir.run(["--agent", "ann", "ls", "/site", "--at", "before"]), "docs/\nindex.html\nlink@");
    assert_eq!(dir.run(["--agent", "ann", "glob", "**/*.md", "/site", "--at", "before"]), "/site/docs/a.md");
    assert!(
        dir.run(["--agent", "ann", "grep", "one", "/site", "--at", "before"]).contains("/site/docs/a.md:1")
    );
    assert!(dir.run(["--agent", "ann", "stat", "/site/index.html", "--at", "before"]).contains("12"));
    assert!(dir.run(["--agent", "ann", "tree", "/site", "--at", "before"]).contains("a.md"));
    dir.run(["--agent", "ann", "export", "/site", "out", "--at", "before"]);
    assert_eq!(std::fs::read_to_string(dir.path("out/docs/a.md")).unwrap(), "one\n");
    assert_snapshot!(dir.run(["--agent", "ann", "diff", "/site", "before", "--name-status"]), @r"
    M /site/docs/a.md
    D /site/index.html
    D /site/link@
    A /site/new.md
    ");
    dir.run(["--agent", "ann", "snapshot", "/site", "--label", "after"]);
    dir.file("site/docs/a.md", "three\n");
    assert_snapshot!(dir.run(["--agent", "ann", "diff", "/site/docs", "before", "after"]), @r"
    changed /site/docs/a.md
    --- a/site/docs/a.md
    +++ b/site/docs/a.md
    @@ -1 +1 @@
    -one
    +two
    ");
    assert_snapshot!(dir.run(["--agent", "ann", "diff", "/site", "after", "now", "--name-status"]), @"M /site/docs/a.md");
    assert_snapshot!(dir.run(["--agent", "ann", "restore", "/site", "before", "/site/index.html"]), @r"
    restored   /site/index.html
    ! Restored with 1 change; `stead undo` undoes the restore.
    ");
    assert_snapshot!(dir.run(["--agent", "ann", "restore", "/site", "before"]), @r"
    reverted   /site/docs/a.md
    restored   /site/link
    removed    /site/new.md
    ! Restored with 3 changes; `stead undo` undoes the restore.
    ");
    assert!(dir.run(["verify"]).contains("nothing is wrong"));
    dir.run(["--agent", "ann", "undo"]);
    assert_eq!(dir.run(["--agent", "ann", "cat", "/site/docs/a.md"]), "three");
    dir.run(["gc", "--older-than", "0s", "--grace", "0s"]);
    assert_eq!(dir.run(["--agent", "ann", "cat", "/site/docs/a.md", "--at", "after"]), "two");
    let output = dir.run(["--agent", "ann", "cat", "/site/new.md", "--at", "1h"]);
    assert!(
        output.contains("a host directory can only be read as of a snapshot") && output.ends_with("exit 2"),
        "{output}"
    );
}

/// The history of a directory belongs to the Store, not to the inode.
#[test]
fn a_directory_that_was_created_again_still_has_its_log() {
    let dir = two_agents();
    dir.run(["--agent", "ann", "write", "/site/a", "ours"]);
    dir.run(["--agent", "ann", "snapshot", "/site", "--label", "kept"]);
    let log = dir.run(["--agent", "ann", "log", "/site"]);
    std::fs::rename(dir.path("site"), dir.path("old")).unwrap();
    dir.file("site/a", "restored from a backup");
    assert_eq!(dir.run(["--agent", "ann", "log", "/site"]), log);
    let output = dir.run(["--agent", "ann", "undo"]);
    assert!(output.contains("/site/a: it has been changed") && output.ends_with("exit 1"), "{output}");
    dir.run(["--agent", "ann", "restore", "/site", "kept"]);
    assert_eq!(dir.run(["--agent", "ann", "cat", "/site/a"]), "ours");
    assert_eq!(std::fs::read_to_string(dir.path("site/index.html")).unwrap(), "1\n2\n3\n4\n5\n6\n");
    assert!(dir.run(["verify"]).contains("nothing is wrong"));
}
