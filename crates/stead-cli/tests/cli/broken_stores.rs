//! Stores that are broken, missing or unreadable, and what still works next to them.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{TestDir, output_text};
use crate::program::copy_program;
use insta::assert_snapshot;

/// Two Stores that work and two that don't.
const HALF_BROKEN: &str = r#"
[database]
url = "sqlite:broken.db"
[stores.here]
kind = "physical"
path = "here"
[stores.gone]
kind = "physical"
path = "gone"
[stores.notes]
kind = "virtual"
[[agents.a.workspaces]]
prefix = "/here"
scope = "rw"
store = "here"
[[agents.a.workspaces]]
prefix = "/gone"
scope = "rw"
store = "gone"
[[agents.a.workspaces]]
prefix = "/notes"
scope = "rw"
store = "notes"
[audit]
enabled = false
"#;

#[test]
fn a_broken_store_does_not_affect_other_stores() {
    let dir = TestDir::empty();
    dir.file("stead.toml", HALF_BROKEN);
    dir.file("here/a.md", "fox\n");
    dir.file("broken.db", &"this isn't a database, and it is long enough to be sure of it. ".repeat(40));
    assert_eq!(dir.run(["cat", "/here/a.md"]), "fox");
    assert_snapshot!(dir.run(["ls"]), @r#"
    gone/
    here/
    notes/
    "#);
    assert_snapshot!(dir.run(["cat", "/gone/x", "/notes/x"]), @r#"
    ! stead: `/gone/x` can't be reached right now: the Store `gone` can't be opened: its directory doesn't exist; create it, or correct its `path`; try again
    ! stead: the stored data of `/notes/x` is damaged: the file isn't an SQLite database; `stead verify` lists all damage, and `stead restore-backup` restores a backup
    exit 75
    "#);
    assert_snapshot!(dir.run(["grep", "fox"]), @r#"
    /here/a.md:1:fox
    ! 2 paths could not be read:
    !   /gone: the Store `gone` can't be opened: its directory doesn't exist; create it, or correct its `path`
    !   /notes: stored data is damaged: the file isn't an SQLite database
    "#);
    assert_snapshot!(dir.run(["config", "check"]), @r#"
    stead.toml:3:7: the file isn't an SQLite database; name another file
    stead.toml:9:8: the directory of the Store `gone` doesn't exist; create it, or correct `path`
    exit 2
    "#);
    assert_eq!(dir.stead(["verify"]).status.code(), Some(70));

    std::fs::remove_file(dir.path("broken.db")).unwrap();
    std::fs::create_dir(dir.path("gone")).unwrap();
    assert_snapshot!(dir.run(["write", "/gone/x", "back"]), @"! Created /gone/x");
    assert_snapshot!(dir.run(["write", "/notes/x", "back"]), @"! Created /notes/x");
    let mode = std::fs::metadata(dir.path("broken.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(dir.run(["verify"]).matches("nothing is wrong").count(), 3);
}

#[test]
fn config_check_creates_nothing() {
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        &HALF_BROKEN
            .replace("broken.db", "none/x.db")
            .replace("\"here\"\n[[", "\"here\"\npath = \"/app\"\n[["),
    );
    dir.file("gone", "a file");
    std::fs::create_dir(dir.path("here")).unwrap();
    assert_snapshot!(dir.run(["config", "check"]), @r#"
    stead.toml:16:8: note: `/app` doesn't exist in the Store `here`; the Workspace is empty until something is written to it
    stead.toml:3:7: the database's directory doesn't exist; create it, or name another file
    stead.toml:9:8: `path` of the Store `gone` isn't a directory
    exit 2
    "#);
    let mut names: Vec<_> =
        std::fs::read_dir(dir.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["gone", "here", "stead.toml"]);

    dir.file("stead.toml", "# later\n");
    assert_snapshot!(dir.run(["config", "check"]), @r#"
    stead.toml:1:1: note: the file is empty: it has no Store and no agent; `stead init` writes one that works
    stead.toml is fine: 0 Stores, 0 agents.
    "#);
}

#[test]
fn paths_that_could_not_be_read_are_reported() {
    let dir = TestDir::new();
    dir.file("docs/secret/a.md", "fox\n");
    dir.file("src/hidden.rs", "// fox\n");
    let set_mode = |name: &str, mode| {
        std::fs::set_permissions(dir.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode("", 0o777);
    set_mode("docs/secret", 0o000);
    set_mode("src/hidden.rs", 0o000);
    // Root may read everything anyway. In that case another user looks, with a copy of the binary.
    let is_superuser = std::fs::read_dir(dir.path("docs/secret")).is_ok();
    let elsewhere = TestDir::empty();
    if is_superuser {
        std::fs::set_permissions(elsewhere.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
        copy_program(&elsewhere.path("stead"));
    }
    let run = |args: &[&str]| {
        let mut command = dir.command(args.iter().copied());
        if is_superuser {
            command = Command::new(elsewhere.path("stead"));
            command.args(args).current_dir(dir.path("")).uid(65_534).gid(65_534);
        }
        output_text(&command.output().unwrap(), &dir.path(""))
    };
    let tree = run(&["tree", "/project"]);
    let (grep, glob) = (run(&["grep", "fox", "/project"]), run(&["glob", "**/*.md", "/project"]));
    let list = run(&["--json", "ls", "-R", "/project"]);
    let copy = run(&["cp", "/project/docs", "/notes/docs"]);
    set_mode("docs/secret", 0o755);
    // Half of a tree is not a copy of it, so nothing is copied.
    assert_snapshot!(copy, @r#"
    ! stead: the host doesn't allow Stead to access `/project/docs`; its owner has to allow it
    exit 1
    "#);
    assert_snapshot!(tree, @r#"
    /project
    ├── README.md
    ├── docs/
    │   └── secret/
    └── src/
        ├── hidden.rs
        └── main.rs
    ! 1 path could not be read:
    !   /project/docs/secret: the host doesn't allow this for the user that Stead runs as
    "#);
    assert_snapshot!(grep, @r#"
    /project/README.md:2:The quick brown fox.
    ! 2 paths could not be read:
    !   /project/docs/secret: the host doesn't allow this for the user that Stead runs as
    !   /project/src/hidden.rs: the host doesn't allow this for the user that Stead runs as
    "#);
    assert_snapshot!(glob, @r#"
    /project/README.md
    ! 1 path could not be read:
    !   /project/docs/secret: the host doesn't allow this for the user that Stead runs as
    "#);
    let expected = r#""unread":[{"path":"/project/docs/secret","reason":"the host doesn't allow this for the user that Stead runs as"}]"#;
    assert!(list.contains(expected), "{list}");
}

#[test]
fn a_truncated_archive_is_reported_as_incomplete() {
    let dir = TestDir::new();
    dir.file("tree/small", "one");
    dir.file("tree/large", &"x".repeat(3 << 20));
    dir.stead(["import", "tree", "/notes"]);
    let archive = dir.stead(["export", "/notes", "-"]).stdout;
    for length in [700, 1_536 + 100, archive.len() / 2, (3 << 20) + 100] {
        let output = dir.run_with_input(["import", "-", "/notes/again"], &archive[..length]);
        let text = output_text(&output, &dir.path(""));
        let expected = "! stead: `standard input` is incomplete: it ends in the middle of a file; the files before it \
                        may have been imported; get the whole archive and import it again\nexit 2";
        assert_eq!(text, expected, "{length} bytes");
    }
    assert!(dir.run_with_input(["import", "-", "/notes/again"], &archive).status.success());
}
