//! Every command of the binary, run as the agent's host would run it: now and in the past, as text and as JSON.

use std::collections::BTreeSet;

use crate::is_long;
use crate::world::{Asked, PATHS, World, check, named};

/// How a command is run in this test.
enum Row {
    /// With these arguments for each path; `{}` stands for the path. Commands with `--at` are also run in the past.
    Asks(&'static [&'static str], Past),
    /// With these arguments, once.
    Once(&'static [&'static str]),
    /// Not at all: the command is for the person who runs Stead, works on a whole database and shows nothing to an
    /// agent; or it only starts something that has a test of its own.
    NotForAgents,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Past {
    /// The command has `--at`.
    At,
    /// The command doesn't have `--at`.
    No,
}

/// How every command is run. A command without a row here fails the test.
fn rows() -> Vec<(&'static str, Vec<Row>)> {
    use Past::{At, No};
    use Row::{Asks, NotForAgents, Once};
    vec![
        // First, before the agent has named a canary itself. It shows what the agent did, as the person sees it: the
        // agent's own paths, no content, and no sizes except of what the agent moved itself.
        ("audit", vec![Once(&["audit", "--limit", "1000"])]),
        ("append", vec![Asks(&["append", "{}", "x"], No), Asks(&["append", "{}/new", "x"], No)]),
        ("backup", vec![NotForAgents]),
        ("blame", vec![Asks(&["blame", "{}"], No)]),
        ("call", vec![Asks(&["call", "read_file", "{\"path\": \"{}\"}"], No)]),
        ("cat", vec![Asks(&["cat", "{}"], At)]),
        ("completions", vec![NotForAgents]),
        ("config", vec![NotForAgents]),
        (
            "cp",
            vec![
                Asks(&["cp", "--overwrite", "{}", "/yard/taken"], No),
                Asks(&["cp", "/home/open.txt", "{}"], No),
            ],
        ),
        (
            "diff",
            vec![
                Asks(&["diff", "{}", "1"], No),
                Asks(&["diff", "{}", "before"], No),
                Once(&["diff", "--fork", "one"]),
                Once(&["diff", "--fork", "two"]),
            ],
        ),
        ("discard", vec![Once(&["discard", "two"])]),
        ("doctor", vec![Once(&["doctor"])]),
        ("edit", vec![Asks(&["edit", "--all", "{}", "C", "c"], No)]),
        ("export", vec![Asks(&["export", "{}", "-"], At)]),
        (
            "fork",
            vec![Asks(&["fork", "{}", "again"], No), Once(&["fork", "/home", "given", "--to", "other"])],
        ),
        ("forks", vec![Once(&["forks"])]),
        ("gc", vec![NotForAgents]),
        ("glob", vec![Asks(&["glob", "**", "{}"], At)]),
        ("grep", vec![Asks(&["grep", ".", "{}"], At), Asks(&["grep", "-c", ".", "{}"], At)]),
        ("help", vec![NotForAgents]),
        ("import", vec![Asks(&["import", "imported", "{}"], No)]),
        ("init", vec![NotForAgents]),
        ("log", vec![Asks(&["log", "{}"], No), Once(&["log"])]),
        ("ls", vec![Asks(&["ls", "-l", "{}"], At), Asks(&["ls", "-lR", "{}"], At)]),
        ("map", vec![Once(&["map"])]),
        ("mcp", vec![NotForAgents]),
        ("mkdir", vec![Asks(&["mkdir", "{}"], No), Asks(&["mkdir", "-p", "{}/d"], No)]),
        ("mount", vec![NotForAgents]),
        ("mv", vec![Asks(&["mv", "--overwrite", "{}", "/yard/moved"], No)]),
        (
            "restore",
            vec![Asks(&["restore", "--dry-run", "{}", "1"], No), Asks(&["restore", "{}", "before"], No)],
        ),
        ("restore-backup", vec![NotForAgents]),
        ("rm", vec![Asks(&["rm", "{}"], No), Asks(&["rm", "-r", "{}"], No)]),
        ("serve", vec![NotForAgents]),
        ("snapshot", vec![Asks(&["snapshot", "{}"], No), Once(&["snapshot"])]),
        ("snapshots", vec![Asks(&["snapshots", "{}"], No)]),
        ("stat", vec![Asks(&["stat", "{}"], At), Asks(&["stat", "-P", "{}"], At)]),
        ("token", vec![NotForAgents]),
        ("tools", vec![Once(&["tools"])]),
        ("tree", vec![Asks(&["tree", "{}"], At)]),
        ("undo", vec![Once(&["undo", "--dry-run", "--last", "100"]), Once(&["undo", "--last", "2"])]),
        ("verify", vec![NotForAgents]),
        (
            "write",
            vec![Asks(&["write", "{}", "x"], No), Asks(&["write", "--create-only", "{}/new", "x"], No)],
        ),
    ]
}

/// The commands that only read. They run in one world, commands that change things in another, and those that destroy
/// things in a third.
const LOOKING: [&str; 15] = [
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
const DESTROYING: [&str; 5] = ["write", "rm", "mv", "restore", "undo"];

fn command_names(world: &World) -> BTreeSet<String> {
    let help = String::from_utf8(world.run(&["--help"]).stdout).unwrap();
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let lines = listed.lines().take_while(|line| !line.trim().is_empty());
    lines
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_has_a_row() {
    let world = World::new(Asked::ByPerson);
    let known: BTreeSet<String> = rows().iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(command_names(&world), known);
    // Every command that can look at the past is run in the past.
    for (name, rows) in rows() {
        let help = String::from_utf8(world.run(&[name, "--help"]).stdout).unwrap();
        let asked = rows.iter().any(|row| matches!(row, Row::Asks(_, Past::At))) || name == "mount";
        assert_eq!(help.contains("--at"), asked, "{name}");
    }
}

fn run(world: &World, args: &[&str]) {
    let output = world.run(args);
    let asked = format!("stead {}", args.join(" "));
    check(&asked, &output.stdout);
    check(&asked, &output.stderr);
}

fn ask(world: &World, name: &str, row: &Row) {
    let (args, past) = match row {
        Row::NotForAgents => return,
        Row::Once(args) => {
            run(world, args);
            run(world, &[args, &["--json"][..]].concat());
            return;
        }
        Row::Asks(args, past) => (args, *past),
    };
    // Not canaries: what the person may see after approval, and what is made where everything may be seen.
    let is_open = |path: &String| path.starts_with("/home/ask/") || path.starts_with("/home/beside/");
    let paths = PATHS.iter().map(ToString::to_string).chain(named()).filter(|path| !is_open(path));
    for (index, path) in paths.enumerate() {
        let args: Vec<String> = args.iter().map(|arg| arg.replace("{}", &path)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let with = |more: &[&str]| run(world, &[&args, more].concat());
        let json = if name == "export" { &[][..] } else { &["--json"] };
        let ways: &[&[&str]] = match past {
            Past::At => &[&[], json, &["--at", "before"], &[json, &["--at", &world.version]].concat()],
            Past::No => &[&[], json],
        };
        // Each path is tried in one way, and all paths and commands together in all ways. The long run tries all ways.
        for (way, more) in ways.iter().enumerate() {
            if is_long() || (index + name.len()) % ways.len() == way {
                with(more);
            }
        }
    }
}

fn ask_all(wanted: impl Fn(&str) -> bool) {
    let world = World::new(Asked::ByPerson);
    std::fs::create_dir(world.path("imported")).unwrap();
    std::fs::write(world.path("imported/a.txt"), "a\n").unwrap();
    for (name, rows) in rows().into_iter().filter(|(name, _)| wanted(name)) {
        for row in &rows {
            ask(&world, name, row);
        }
    }
    // Nothing withheld was copied to a place that may be seen.
    for args in [&["grep", ".", "/"][..], &["ls", "-lR", "/"], &["export", "/", "-"], &["log"]] {
        run(&world, args);
    }
}

#[test]
fn no_command_that_looks_tells_of_what_is_withheld() {
    ask_all(|name| LOOKING.contains(&name));
}

#[test]
fn no_command_that_changes_tells_of_what_is_withheld_or_brings_it_out() {
    ask_all(|name| !LOOKING.contains(&name) && !DESTROYING.contains(&name));
}

#[test]
fn no_command_that_destroys_or_takes_back_tells_of_what_is_withheld() {
    ask_all(|name| DESTROYING.contains(&name));
}
