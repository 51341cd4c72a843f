//! Options and habits that people bring along from ls, cat, cp, git and less.

use std::process::Stdio;

use crate::common::{TestDir, open_terminal, output_text, read_terminal};
use insta::assert_snapshot;
use serde_json::Value;

/// A directory with three files of different sizes and ages.
fn three_files() -> TestDir {
    let dir = TestDir::new();
    for (name, content) in [("small", "1\n"), ("large", &"x".repeat(2_000)), ("middle", "12345\n")] {
        dir.stead(["write", &format!("/notes/{name}"), content]);
    }
    dir.stead(["mkdir", "/notes/.hidden"]);
    dir
}

/// The last words of the lines: the names in a long listing.
fn last_words(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_whitespace().next_back()).collect()
}

#[test]
fn ls_sorts_by_time_and_size_and_in_reverse() {
    let dir = three_files();
    assert_eq!(last_words(&dir.run(["ls", "-la", "/notes"])), [".hidden/", "large", "middle", "small"]);
    assert_eq!(last_words(&dir.run(["ls", "-1t", "/notes"])), [".hidden/", "middle", "large", "small"]);
    assert_eq!(last_words(&dir.run(["ls", "-tr", "/notes"])), ["small", "large", "middle", ".hidden/"]);
    assert_eq!(last_words(&dir.run(["ls", "-S", "/notes"])), ["large", "middle", "small", ".hidden/"]);
    assert_eq!(last_words(&dir.run(["ls", "-RS", "--limit", "1", "/notes"]))[0], "/notes/large");
    assert_snapshot!(dir.run(["ls", "-S", "--limit", "1", "/notes"]), @r"
    large
    ! 1 of 4; raise --limit to see more.
    ");
}

#[test]
fn ls_shows_bytes_and_with_h_readable_sizes() {
    let dir = three_files();
    let large = |args| dir.run(args).lines().find(|line| line.ends_with("large")).unwrap().to_owned();
    assert!(large(["ls", "-l", "/notes"]).contains(" 2000 "));
    assert!(large(["ls", "-lh", "/notes"]).contains(" 2.0 KiB "));
    assert!(dir.run(["ls", "--help"]).contains("Usage: stead ls"));
}

#[test]
fn cat_numbers_lines_as_the_file_counts_them() {
    let dir = TestDir::new();
    dir.stead(["write", "/notes/a", "one\ntwo\nthree\n"]);
    assert_eq!(dir.run(["cat", "-n", "/notes/a"]), "     1\tone\n     2\ttwo\n     3\tthree");
    assert_eq!(dir.run(["cat", "-n", "--lines", "2:3", "/notes/a"]), "     2\ttwo\n     3\tthree");
}

#[test]
fn options_that_change_nothing_here_are_taken() {
    let dir = three_files();
    assert_snapshot!(dir.run(["cp", "-r", "/notes/small", "/notes/copy"]), @"! Copied /notes/small to /notes/copy");
    assert_snapshot!(dir.run(["cp", "-a", "-f", "/notes/large", "/notes/copy"]), @"! Copied /notes/large to /notes/copy");
    assert_snapshot!(dir.run(["mv", "-f", "/notes/middle", "/notes/copy"]), @"! Moved /notes/middle to /notes/copy");
    assert_snapshot!(dir.run(["mkdir", "-pv", "/notes/d"]), @"! Created /notes/d");
    assert_snapshot!(dir.run(["rm", "-Rfv", "/notes/d", "/notes/copy"]), @r"
    ! Removed /notes/d
    ! Removed /notes/copy
    ");
    assert_snapshot!(dir.run(["-q", "cp", "/notes/small", "/notes/copy"]), @"");
    // An error isn't a message, so it is printed all the same.
    let call = ["-q", "call", "read_file", r#"{"path": "/notes/none"}"#];
    assert!(dir.run(call).starts_with("! not_found: `/notes/none` does not exist"));
    assert!(dir.run(["cp", "-q", "/notes/small", "/notes/copy"]).contains("already exists"));
}

/// Runs the binary with a terminal of this many rows as its standard output, and returns what it shows.
fn on_terminal(dir: &TestDir, rows: u16, args: &[&str], environment: &[(&str, &str)]) -> String {
    let (terminal, side) = open_terminal(rows);
    let mut command = dir.command(args.iter().copied());
    command.env_remove("PAGER").env_remove("STEAD_PAGER").env_remove("NO_COLOR").env("TERM", "xterm");
    command.envs(environment.iter().copied()).stdout(side).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The child has the only other end of the terminal now.
    drop(command);
    let reader = read_terminal(terminal);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    reader.join().unwrap() + &output_text(&output, &dir.path(""))
}

#[test]
fn output_that_is_longer_than_the_terminal_goes_to_a_pager() {
    let dir = three_files();
    let pager = [("STEAD_PAGER", "sh -c 'echo paged; cat'"), ("NO_COLOR", "1")];
    let lines = |rows, args: &[&str], environment: &[_]| {
        on_terminal(&dir, rows, args, environment).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let log = ["log", "--oneline"];
    // Four lines don't fit four rows, because one is for the prompt.
    assert_eq!(lines(4, &log, &pager)[0], "paged");
    assert_eq!(lines(4, &log, &pager).len(), 5);
    assert!(lines(5, &log, &pager)[0].contains(" mkdir /notes/.hidden"));
    assert_eq!(lines(4, &["--no-pager", "log", "--oneline"], &pager).len(), 4);
    assert_eq!(lines(4, &["--json", "log"], &pager).len(), 4);
    assert_eq!(lines(4, &log, &[("PAGER", "cat"), ("NO_COLOR", "1")]).len(), 4);
    for command in [&["grep", "-u", "", "/notes"][..], &["glob", "**", "/notes"], &["tree", "/notes"]] {
        assert_eq!(lines(2, command, &pager)[0], "paged", "{command:?}");
        assert_ne!(lines(50, command, &pager)[0], "paged", "{command:?}");
    }
    // If the pager doesn't exist, the output is printed without it.
    assert_eq!(lines(4, &log, &[("PAGER", "no-such-pager"), ("NO_COLOR", "1")]).len(), 4);
    // STEAD_PAGER goes before PAGER.
    let both = [("PAGER", "no-such-pager"), pager[0], pager[1]];
    assert_eq!(lines(4, &log, &both)[0], "paged");
}

#[test]
fn if_a_pager_ends_early_the_command_succeeds() {
    let dir = TestDir::new();
    dir.run_with_input(["write", "/notes/long"], "line\n".repeat(60_000).as_bytes());
    let shown = on_terminal(&dir, 24, &["blame", "/notes/long"], &[("PAGER", "head -1"), ("NO_COLOR", "1")]);
    assert_eq!(shown.lines().count(), 1, "{shown}");
}

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let dir = three_files();
    let escape = |text: String| text.contains("\x1b[");
    assert!(escape(on_terminal(&dir, 50, &["log"], &[])));
    assert!(!escape(on_terminal(&dir, 50, &["log"], &[("NO_COLOR", "1")])));
    assert!(!escape(on_terminal(&dir, 50, &["log", "--color", "never"], &[])));
    assert!(escape(on_terminal(&dir, 50, &["log", "--color=always"], &[("NO_COLOR", "1")])));
    assert!(!escape(dir.run(["log"])));
    assert!(escape(dir.run(["log", "--color", "always"])));
    assert!(dir.run(["log", "--color", "sometimes"]).ends_with("exit 2"));
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let dir = TestDir::empty();
    assert!(dir.run(["man", "pages/man1"]).starts_with("! Wrote the manual pages to pages/man1."));
    for (page, text) in [
        ("stead.1", "bounded place"),
        ("stead-ls.1", "List directories"),
        ("stead-undo.1", "dry\\-run"),
        ("stead-token-create.1", "SYNOPSIS"),
    ] {
        let content = std::fs::read_to_string(dir.path(&format!("pages/man1/{page}"))).unwrap();
        assert!(content.contains(text), "{page}: {content}");
    }
    assert!(!dir.path("pages/man1/stead-mount-watchdog.1").exists(), "a hidden command has no page");
    std::fs::write(dir.path("file"), "").unwrap();
    assert!(dir.run(["man", "file"]).contains("`file` can't be written"));
}

#[test]
fn an_operation_is_named_by_the_beginning_of_its_id() {
    let dir = three_files();
    let ids: Vec<String> = dir
        .run(["log", "--json"])
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["operation"]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let short = &ids[1][..13];
    let log = dir.run(["log", "--oneline", "--operation", short]);
    assert!(log.starts_with(&format!("{short} v3 coder write /notes/middle")), "{log}");
    assert_snapshot!(dir.run(["diff", "--operation", short, "--stat"]), @r"
     /notes/middle | 1 +
     1 path changed, 1 insertion(+)
    ");
    assert!(
        dir.run(["undo", "-n", "--operation", &short.replace('-', "").to_uppercase()])
            .contains("removed    /notes/middle")
    );
    let audit = dir.run(["audit", "--operation", short]);
    assert!(audit.contains("  write  ") && audit.lines().count() == 1, "{audit}");
    // The first four digits of all ids are the same for weeks.
    for args in [
        &["log", "--operation"][..],
        &["undo", "--operation"],
        &["diff", "--operation"],
        &["audit", "--operation"],
    ] {
        let output = dir.run(args.iter().copied().chain([&ids[0][..4]]));
        assert!(
            output.contains(&format!("operations have an id that begins with `{}`", &ids[0][..4])),
            "{output}"
        );
        // The audit has operations that only read, too, and the first few are listed.
        assert!(args[0] == "audit" || ids.iter().all(|id| output.contains(id.as_str())), "{output}");
        assert!(output.ends_with("exit 1"), "{output}");
        let output = dir.run(args.iter().copied().chain(["019"]));
        assert!(output.contains("too short for an operation id") && output.ends_with("exit 2"), "{output}");
        let output = dir.run(args.iter().copied().chain(["ffffffff"]));
        assert!(output.contains("there is no operation ffffffff") && output.ends_with("exit 1"), "{output}");
    }
}

#[test]
fn a_diff_without_versions_begins_at_the_last_snapshot_or_today() {
    let dir = TestDir::new();
    dir.stead(["write", "/notes/a.md", "one\ntwo\n"]);
    assert_snapshot!(dir.run(["diff", "--stat"]), @r"
     /notes/a.md | 2 ++
     1 path changed, 2 insertions(+)
    ! There is no snapshot, so this is what has changed today.
    ");
    dir.stead(["snapshot", "/notes", "--label", "first"]);
    dir.stead(["edit", "/notes/a.md", "two", "2\n3"]);
    dir.stead(["mkdir", "/notes/d"]);
    let output = dir.run(["diff", "/notes"]);
    assert!(output.contains(
        "changed /notes/a.md\n--- a/notes/a.md\n+++ b/notes/a.md\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3"
    ));
    assert!(output.contains("! Compared with the last snapshot: #1 `first` of 20"), "{output}");
    assert_snapshot!(dir.run(["-q", "diff", "/notes", "--stat"]), @r"
     /notes/a.md | 3 ++-
     /notes/d/   | added
     2 paths changed, 2 insertions(+), 1 deletion(-)
    ");
    assert_snapshot!(dir.run(["-q", "diff", "/notes", "--name-only"]), @r"
    /notes/a.md
    /notes/d/
    ");
    assert_snapshot!(dir.run(["diff", "/notes", "first", "--name-status"]), @r"
    M /notes/a.md
    A /notes/d/
    ");
}

#[test]
fn a_log_shows_patches_counts_or_one_line_each() {
    let dir = TestDir::new();
    dir.stead(["write", "/notes/a.md", "one\ntwo\n"]);
    dir.stead(["edit", "/notes/a.md", "two", "2"]);
    let log = dir.run(["log", "-p", "-n", "1"]);
    assert!(
        log.ends_with(
            "changed /notes/a.md\n--- a/notes/a.md\n+++ b/notes/a.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
        ),
        "{log}"
    );
    let log = dir.run(["log", "--stat", "/notes"]);
    assert!(log.contains(" /notes/a.md | 2 +-\n 1 path changed, 1 insertion(+), 1 deletion(-)\n"), "{log}");
    let log = dir.run(["log", "--oneline", "--stat", "-n", "1"]);
    assert!(
        log.ends_with(
            "v2 coder edit /notes/a.md\n /notes/a.md | 2 +-\n 1 path changed, 1 insertion(+), 1 deletion(-)"
        ),
        "{log}"
    );
    let log = dir.run(["log", "--oneline"]);
    let lines: Vec<_> = log.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(lines, ["v2 coder edit /notes/a.md", "v1 coder write /notes/a.md"]);
}

#[test]
fn times_are_said_as_people_say_them_and_are_local() {
    let dir = TestDir::new();
    dir.stead(["write", "/notes/a", "1"]);
    for time in ["yesterday", "today", "2 hours ago", "2h", "2020-01-01", "2020-01-01 08:30"] {
        let log = dir.run(["log", "--oneline", "--since", time]);
        assert!(log.ends_with("v1 coder write /notes/a"), "{time}: {log}");
        assert_eq!(dir.run(["ls", "/notes", "--at", time]), "", "{time}");
        assert!(dir.run(["audit", "--since", time]).contains("/notes/a"), "{time}");
        assert!(dir.run(["diff", "/notes", time, "--name-only"]).contains("/notes/a"), "{time}");
        assert!(dir.run(["restore", "-n", "/notes", time]).contains("removed    /notes/a"), "{time}");
    }
    for args in [&["log", "--since", "soon"][..], &["undo", "--since", "soon"], &["audit", "--until", "soon"]]
    {
        let output = dir.run(args.iter().copied());
        assert!(
            output.contains("`soon` isn't a valid time; write it as 2h, 2 hours ago, 10:30, yesterday"),
            "{output}"
        );
        assert!(output.ends_with("exit 2"), "{output}");
    }
    // The same minute, as it is shown and as it is given, in another zone.
    let in_zone = |args: &[&str]| {
        let output = dir.command(args.iter().copied()).env("TZ", "JST-9").output().unwrap();
        output_text(&output, &dir.path(""))
    };
    let shown = in_zone(&["log"]);
    let words: Vec<_> = shown.split_whitespace().collect();
    let minute = format!("{} {}", words[1], words[2]);
    assert!(in_zone(&["log", "--oneline", "--since", &minute]).ends_with("write /notes/a"), "{minute}");
    assert!(!dir.run(["log"]).contains(&minute));
}

#[test]
fn hints_fit_the_command() {
    let dir = TestDir::new();
    dir.stead(["mkdir", "/notes/d"]);
    assert_snapshot!(dir.run(["mkdir", "/notes/d"]), @r"
    ! stead: `/notes/d` exists already; if an existing directory will do, use -p
    exit 1
    ");
    assert_snapshot!(dir.run(["write", "/notes/d", "x"]), @r"
    ! stead: `/notes/d` is a directory; name a file in it: `/notes/d/NAME`
    exit 1
    ");
    assert_snapshot!(dir.run(["rm", "/notes/d"]), @r"
    ! stead: `/notes/d` is a directory; use -r to remove it and everything in it
    exit 1
    ");
}
