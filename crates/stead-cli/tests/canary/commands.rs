//! Every command of the binary, run as the agent's host would run it: now and in the past, as text and as JSON.

use std::collections::BTreeSet;

use crate::fixture::{Caller, Fixture, PATHS, canary_paths, check};
use crate::is_long;

/// How a command is run in this test.
enum Row {
    /// With these arguments for each path; `{}` stands for the path. Commands with `--at` are also run in the past.
    ForEachPath(&'static [&'static str], AtOption),
    /// With these arguments, once.
    Once(&'static [&'static str]),
    /// Not at all: the command is for the person who runs Stead, works on a whole database and shows nothing to an
    /// agent; or it only starts something that has a test of its own.
    NotForAgents,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AtOption {
    /// The command has `--at`.
    WithAt,
    /// The command doesn't have `--at`.
    WithoutAt,
}

/// How every command is run. A command without a row here fails the test.
fn rows() -> Vec<(&'static str, Vec<Row>)> {
    use AtOption::{WithAt, WithoutAt};
    use Row::{ForEachPath, NotForAgents, Once};
    vec![
        // First, before the agent has named a canary itself. It shows what the agent did, as the person sees it: the
        // agent's own paths, no content, and no sizes except of what the agent moved itself.
        ("audit", vec![Once(&["audit", "--limit", "1000"])]),
        (
            "append",
            vec![
                ForEachPath(&["append", "{}", "x"], WithoutAt),
                ForEachPath(&["append", "{}/new", "x"], WithoutAt),
            ],
        ),
        ("backup", vec![NotForAgents]),
        ("blame", vec![ForEachPath(&["blame", "{}"], WithoutAt)]),
        ("call", vec![ForEachPath(&["call", "read_file", "{\"path\": \"{}\"}"], WithoutAt)]),
        ("cat", vec![ForEachPath(&["cat", "{}"], WithAt)]),
        ("completions", vec![NotForAgents]),
        ("config", vec![NotForAgents]),
        (
            "cp",
            vec![
                ForEachPath(&["cp", "--overwrite", "{}", "/yard/taken"], WithoutAt),
                ForEachPath(&["cp", "/home/open.txt", "{}"], WithoutAt),
            ],
        ),
        (
            "diff",
            vec![
                ForEachPath(&["diff", "{}", "1"], WithoutAt),
                ForEachPath(&["diff", "{}", "before"], WithoutAt),
                ForEachPath(&["diff", "{}"], WithoutAt),
                ForEachPath(&["diff", "{}", "1", "--stat"], WithoutAt),
                Once(&["diff", "--fork", "one"]),
                Once(&["diff", "--fork", "two"]),
            ],
        ),
        ("discard", vec![Once(&["discard", "two"])]),
        ("doctor", vec![Once(&["doctor"])]),
        ("edit", vec![ForEachPath(&["edit", "--all", "{}", "C", "c"], WithoutAt)]),
        ("export", vec![ForEachPath(&["export", "{}", "-"], WithAt)]),
        (
            "files",
            vec![
                ForEachPath(&["files", "info", "{}"], WithoutAt),
                ForEachPath(&["files", "tree", "--workspace", "{}"], WithoutAt),
                ForEachPath(&["files", "tree", "--workspace", "{}", "--at", "1"], WithoutAt),
                ForEachPath(&["files", "list", "--workspace", "{}", "--at", "1"], WithoutAt),
                ForEachPath(&["files", "delete", "{}"], WithoutAt),
                Once(&["files", "list"]),
                Once(&["files", "search", "*"]),
                Once(&["files", "cleanup", "--dry-run"]),
                Once(&["files", "sync"]),
            ],
        ),
        (
            "fork",
            vec![
                ForEachPath(&["fork", "{}", "again"], WithoutAt),
                Once(&["fork", "/home", "given", "--to", "other"]),
            ],
        ),
        ("forks", vec![Once(&["forks"]), Once(&["forks", "--all"])]),
        ("gc", vec![NotForAgents]),
        ("glob", vec![ForEachPath(&["glob", "**", "{}"], WithAt)]),
        (
            "grep",
            vec![ForEachPath(&["grep", ".", "{}"], WithAt), ForEachPath(&["grep", "-c", ".", "{}"], WithAt)],
        ),
        ("help", vec![NotForAgents]),
        ("import", vec![ForEachPath(&["import", "imported", "{}"], WithoutAt)]),
        ("init", vec![NotForAgents]),
        (
            "log",
            vec![
                ForEachPath(&["log", "{}"], WithoutAt),
                ForEachPath(&["log", "-p", "{}"], WithoutAt),
                Once(&["log"]),
                Once(&["log", "-p"]),
                Once(&["log", "--oneline"]),
            ],
        ),
        (
            "ls",
            vec![
                ForEachPath(&["ls", "-l", "{}"], WithAt),
                ForEachPath(&["ls", "-lR", "{}"], WithAt),
                ForEachPath(&["ls", "-lRS", "{}"], WithAt),
            ],
        ),
        ("man", vec![NotForAgents]),
        ("map", vec![Once(&["map"])]),
        ("mcp", vec![NotForAgents]),
        (
            "merge",
            vec![
                Once(&["merge", "one", "--dry-run"]),
                Once(&["merge", "one", "--markers"]),
                Once(&["merge", "other/one"]),
                ForEachPath(&["merge", "one", "--leave", "{}/**"], WithoutAt),
            ],
        ),
        (
            "mkdir",
            vec![ForEachPath(&["mkdir", "{}"], WithoutAt), ForEachPath(&["mkdir", "-p", "{}/d"], WithoutAt)],
        ),
        ("mount", vec![NotForAgents]),
        ("mv", vec![ForEachPath(&["mv", "--overwrite", "{}", "/yard/moved"], WithoutAt)]),
        ("org", vec![NotForAgents]),
        (
            "restore",
            vec![
                ForEachPath(&["restore", "--dry-run", "{}", "1"], WithoutAt),
                ForEachPath(&["restore", "{}", "before"], WithoutAt),
            ],
        ),
        ("restore-backup", vec![NotForAgents]),
        (
            "review",
            vec![
                Once(&["review"]),
                Once(&["review", "coder/reviewed", "--list"]),
                Once(&["review", "other/one", "--list"]),
                ForEachPath(&["review", "coder/reviewed", "--refuse", "{}", "{}/**"], WithoutAt),
                Once(&["review", "coder/reviewed", "--take", "**"]),
            ],
        ),
        ("rm", vec![ForEachPath(&["rm", "{}"], WithoutAt), ForEachPath(&["rm", "-r", "{}"], WithoutAt)]),
        ("serve", vec![NotForAgents]),
        ("snapshot", vec![ForEachPath(&["snapshot", "{}"], WithoutAt), Once(&["snapshot"])]),
        ("snapshots", vec![ForEachPath(&["snapshots", "{}"], WithoutAt)]),
        ("stat", vec![ForEachPath(&["stat", "{}"], WithAt), ForEachPath(&["stat", "-P", "{}"], WithAt)]),
        (
            "state",
            vec![
                Once(&["state", "list"]),
                Once(&["state", "list", "--json"]),
                Once(&["state", "list", "--at", "before"]),
                ForEachPath(&["state", "get", "{}"], WithoutAt),
                Once(&["state", "set", "mine", "2"]),
                ForEachPath(&["state", "delete", "{}"], WithoutAt),
            ],
        ),
        // It names threads and counts their files, for the person.
        ("threads", vec![NotForAgents]),
        ("token", vec![NotForAgents]),
        ("tools", vec![Once(&["tools"])]),
        ("tree", vec![ForEachPath(&["tree", "{}"], WithAt)]),
        ("undo", vec![Once(&["undo", "--dry-run", "--last", "100"]), Once(&["undo", "--last", "2"])]),
        ("update", vec![Once(&["update", "one", "--dry-run"]), Once(&["update", "one"])]),
        ("verify", vec![NotForAgents]),
        (
            "write",
            vec![
                ForEachPath(&["write", "{}", "x"], WithoutAt),
                ForEachPath(&["write", "--create-only", "{}/new", "x"], WithoutAt),
            ],
        ),
    ]
}

/// The commands that only read. They run in one fixture, commands that change things in another, and those that destroy
/// things in a third.
const READING: [&str; 15] = [
    "blame",
    "call",
    "cat",
    "diff",
    "export",
    "forks",
    "glob",
    "grep",
    "log",
    "ls",
    "map",
    "snapshots",
    "stat",
    "tools",
    "tree",
];
const DESTRUCTIVE: [&str; 5] = ["write", "rm", "mv", "restore", "undo"];

fn command_names(fixture: &Fixture) -> BTreeSet<String> {
    let help = String::from_utf8(fixture.run(&["--help"]).stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let lines = commands.lines().take_while(|line| !line.trim().is_empty());
    lines
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_has_a_row() {
    let fixture = Fixture::new(Caller::Person);
    let known: BTreeSet<String> = rows().iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(command_names(&fixture), known);
    // Every command that can look at the past is run in the past.
    for (name, rows) in rows() {
        let help = String::from_utf8(fixture.run(&[name, "--help"]).stdout).unwrap();
        let runs_in_past =
            rows.iter().any(|row| matches!(row, Row::ForEachPath(_, AtOption::WithAt))) || name == "mount";
        assert_eq!(help.contains("--at"), runs_in_past, "{name}");
    }
}

fn run(fixture: &Fixture, args: &[&str]) {
    let output = fixture.run(args);
    let question = format!("stead {}", args.join(" "));
    check(&question, &output.stdout);
    check(&question, &output.stderr);
}

fn run_row(fixture: &Fixture, name: &str, row: &Row) {
    let (args, at_option) = match row {
        Row::NotForAgents => return,
        Row::Once(args) => {
            run(fixture, args);
            run(fixture, &[args, &["--json"][..]].concat());
            return;
        }
        Row::ForEachPath(args, at_option) => (args, *at_option),
    };
    // Not canaries: what the person may see after approval, and what is made where everything may be seen.
    // The agent may write in a nested READ_WRITE Workspace, and in the part of a fork that was made from it.
    let open = ["/home/ask/", "/home/beside/", "/forks/two/self/beside/"];
    let is_open = |path: &String| open.iter().any(|open| path.starts_with(open));
    let paths = PATHS.iter().map(ToString::to_string).chain(canary_paths()).filter(|path| !is_open(path));
    for (index, path) in paths.enumerate() {
        let args: Vec<String> = args.iter().map(|arg| arg.replace("{}", &path)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let run_with = |options: &[&str]| run(fixture, &[&args, options].concat());
        let json = if name == "export" { &[][..] } else { &["--json"] };
        let option_sets: &[&[&str]] = match at_option {
            AtOption::WithAt => {
                &[&[], json, &["--at", "before"], &[json, &["--at", &fixture.version]].concat()]
            }
            AtOption::WithoutAt => &[&[], json],
        };
        // Each path is tried in one way, and all paths and commands together in all ways. The long run tries all ways.
        for (number, options) in option_sets.iter().enumerate() {
            if is_long() || (index + name.len()) % option_sets.len() == number {
                run_with(options);
            }
        }
    }
}

fn run_all(is_selected: impl Fn(&str) -> bool) {
    let fixture = Fixture::new(Caller::Person);
    std::fs::create_dir(fixture.path("imported")).unwrap();
    std::fs::write(fixture.path("imported/a.txt"), "a\n").unwrap();
    for (name, rows) in rows().into_iter().filter(|(name, _)| is_selected(name)) {
        for row in &rows {
            run_row(&fixture, name, row);
        }
    }
    // Nothing withheld was copied to a place that may be seen.
    for args in [&["grep", ".", "/"][..], &["ls", "-lR", "/"], &["export", "/", "-"], &["log"]] {
        run(&fixture, args);
    }
}

#[test]
fn no_reading_command_reveals_what_is_withheld() {
    run_all(|name| READING.contains(&name));
}

#[test]
fn no_changing_command_reveals_or_copies_what_is_withheld() {
    run_all(|name| !READING.contains(&name) && !DESTRUCTIVE.contains(&name));
}

#[test]
fn no_destructive_command_reveals_what_is_withheld() {
    run_all(|name| DESTRUCTIVE.contains(&name));
}
