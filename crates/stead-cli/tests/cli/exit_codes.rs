//! The same cause has the same exit code in every command: 1 the answer is no, 2 wrong usage or configuration, 70
//! something is broken, 75 try again later.

use std::collections::BTreeSet;

use crate::common::TestDir;

/// What a command needs before it does anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    Nothing,
    Config,
    Agent,
}

/// Every command with arguments that are right, and what it needs. `{}` stands for a path.
pub(crate) fn commands() -> Vec<(&'static str, Vec<&'static str>, Needs)> {
    use Needs::{Agent, Config, Nothing};
    vec![
        ("append", vec!["{}", "x"], Agent),
        ("audit", vec![], Config),
        ("backup", vec!["copy.db"], Config),
        ("blame", vec!["{}"], Agent),
        ("call", vec!["stat", "{\"path\": \"{}\"}"], Agent),
        ("cat", vec!["{}"], Agent),
        ("completions", vec!["bash"], Nothing),
        ("config", vec!["check"], Config),
        ("cp", vec!["{}", "{}-copy"], Agent),
        ("diff", vec!["{}", "1h"], Agent),
        ("discard", vec!["none"], Agent),
        ("doctor", vec![], Nothing),
        ("edit", vec!["{}", "old", "new"], Agent),
        ("export", vec!["{}", "out"], Agent),
        ("files", vec!["list"], Agent),
        ("fork", vec!["/notes", "draft"], Agent),
        ("forks", vec![], Agent),
        ("gc", vec![], Config),
        ("glob", vec!["*", "{}"], Agent),
        ("grep", vec!["x", "{}"], Agent),
        ("import", vec!["src", "{}"], Agent),
        ("init", vec![], Nothing),
        ("log", vec!["{}"], Agent),
        ("ls", vec!["{}"], Agent),
        ("man", vec!["pages"], Nothing),
        ("map", vec![], Agent),
        ("mcp", vec![], Agent),
        ("merge", vec!["none"], Agent),
        ("mkdir", vec!["{}"], Agent),
        ("mount", vec!["mnt"], Agent),
        ("mv", vec!["{}", "{}-moved"], Agent),
        ("org", vec!["check"], Config),
        ("restore", vec!["{}", "1h"], Agent),
        ("restore-backup", vec!["copy.db", "--yes"], Config),
        ("review", vec!["none"], Agent),
        ("rm", vec!["{}"], Agent),
        ("serve", vec!["--listen", "127.0.0.1:0"], Agent),
        ("snapshot", vec![], Agent),
        ("snapshots", vec![], Agent),
        ("stat", vec!["{}"], Agent),
        ("state", vec!["list"], Agent),
        ("threads", vec!["list"], Agent),
        ("token", vec!["create"], Agent),
        ("tools", vec![], Agent),
        ("tree", vec!["{}"], Agent),
        ("undo", vec![], Agent),
        ("update", vec!["none"], Agent),
        ("verify", vec![], Config),
        ("write", vec!["{}", "x"], Agent),
    ]
}

/// The exit code and the output of a command on a path.
fn run_at(dir: &TestDir, options: &[&str], (command, args): (&str, &[&str]), path: &str) -> (i32, String) {
    let args: Vec<_> = args.iter().map(|arg| arg.replace("{}", path)).collect();
    let all = options.iter().copied().chain([command]).chain(args.iter().map(String::as_str));
    let output = dir.stead(all);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn every_command_is_in_the_table() {
    let dir = TestDir::empty();
    let help = dir.run(["--help"]);
    let listed = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names: BTreeSet<&str> = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    let expected: BTreeSet<&str> = commands().iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, expected);
}

#[test]
fn wrong_usage_an_unknown_agent_and_a_broken_configuration_are_2() {
    let dir = TestDir::new();
    dir.file("broken/stead.toml", "[stores.a]\nkind = \"virtul\"\n");
    for (command, args, needs) in commands() {
        let (code, output) =
            run_at(&dir, &[], (command, &[&args[..], &["--no-such-option"]].concat()), "/notes");
        assert_eq!(code, 2, "{command} with an unknown option: {output}");
        if needs >= Needs::Config {
            let options = ["--config", "broken/stead.toml"];
            let (code, output) = run_at(&dir, &options, (command, &args), "/notes");
            assert_eq!(code, 2, "{command} with a broken configuration: {output}");
            let (code, output) = run_at(&dir, &["--config", "missing.toml"], (command, &args), "/notes");
            assert_eq!(code, 2, "{command} without its configuration: {output}");
        }
        if needs == Needs::Agent {
            let (code, output) = run_at(&dir, &["--agent", "nobody"], (command, &args), "/notes");
            assert_eq!(code, 2, "{command} as an unknown agent: {output}");
            assert!(output.contains("`nobody`"), "{command}: {output}");
        }
    }
}

#[test]
fn a_database_in_a_directory_that_does_not_exist_is_2() {
    let dir = TestDir::new();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    dir.file("stead.toml", &format!("{config}\n[database]\nurl = \"sqlite:none/stead.db\"\n"));
    // These need no database, or none that exists.
    let others = ["audit", "config", "mcp", "mount", "org", "restore-backup", "serve", "threads", "token"];
    for (command, args, needs) in commands() {
        if needs == Needs::Nothing || others.contains(&command) {
            continue;
        }
        let (code, output) = run_at(&dir, &[], (command, &args), "/notes/file");
        assert_eq!(code, 2, "{command}: {output}");
        assert!(output.contains("the database's directory doesn't exist"), "{command}: {output}");
    }
}

/// The commands that take a path.
fn commands_with_path() -> Vec<&'static str> {
    let has_path = |args: &[&str]| args.iter().any(|arg| arg.contains("{}"));
    commands().into_iter().filter(|(_, args, _)| has_path(args)).map(|(name, ..)| name).collect()
}

/// Checks the exit code of these commands at a path.
fn check_paths(dir: &TestDir, path: &str, names: &[&str], expected: i32) {
    for (command, args, _) in commands().into_iter().filter(|(name, ..)| names.contains(name)) {
        let (code, output) = run_at(dir, &[], (command, &args), path);
        assert_eq!(code, expected, "{command} at {path}: {output}");
    }
}

#[test]
fn what_is_not_there_not_allowed_or_in_conflict_is_1() {
    let dir = TestDir::new();
    dir.stead(["write", "/notes/file", "old"]);
    let reading = ["blame", "call", "cat", "cp", "export", "glob", "grep", "ls", "mv", "stat", "tree"];
    check_paths(&dir, "/notes/missing", &reading, 1);
    check_paths(&dir, "/notes/missing", &["edit", "rm"], 1);
    check_paths(&dir, "/notes/file/below", &reading, 1);
    check_paths(&dir, "/elsewhere/x", &commands_with_path(), 1);
    // READ_ONLY.
    check_paths(&dir, "/project/x", &["append", "edit", "import", "mkdir", "restore", "rm", "write"], 1);
    let exit_code = |args: &[&str]| dir.stead(args.iter().copied()).status.code().unwrap();
    for args in [
        &["write", "--create-only", "/notes/file", "x"][..],
        &["write", "--if-match", "000000000001", "/notes/file", "x"],
        &["append", "--if-match", "000000000001", "/notes/file", "x"],
        &["edit", "--if-match", "000000000001", "/notes/file", "old", "new"],
        &["mkdir", "/notes/file"],
        &["cp", "/project/README.md", "/notes/file"],
        &["mv", "/notes/file", "/notes/file2", "--if-match", "000000000001"],
        &["discard", "none"],
        &["diff", "--fork", "none"],
        &["restore-backup", "none.db", "-y"],
        &["import", "none", "/notes"],
        &["token", "revoke", "none"],
        &["tools", "none"],
        &["undo", "--operation", "01a1ddfe-db70-73d0-973f-51da99d87c0a"],
        &["snapshots", "--forget", "none"],
        &["diff", "/notes", "none"],
        &["restore", "/notes", "none"],
        &["cat", "--at", "none", "/notes/file"],
    ] {
        assert_eq!(exit_code(args), 1, "{args:?}: {}", dir.run(args.iter().copied()));
    }
}

#[test]
fn a_damaged_database_is_70_and_a_missing_directory_75() {
    let dir = TestDir::new();
    dir.stead(["write", "/notes/file", "old"]);
    std::fs::write(dir.path(".stead/stead.db"), "something else ".repeat(999)).unwrap();
    for (command, args, needs) in commands() {
        // `config check` answers what is wrong, and `restore-backup` repairs it. `mcp`, `serve` and `mount` run on. `org` and
        // tokens don't use the database.
        let others = ["config", "mcp", "mount", "org", "restore-backup", "serve", "token"];
        if needs == Needs::Nothing || others.contains(&command) {
            continue;
        }
        let (code, output) = run_at(&dir, &[], (command, &args), "/notes/file");
        assert_eq!(code, 70, "{command}: {output}");
        assert!(output.contains("restore-backup"), "{command}: {output}");
    }
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        "[stores.gone]\nkind = \"physical\"\npath = \"gone\"\n[[agents.a.workspaces]]\nprefix = \"/gone\"\nscope = \
         \"rw\"\nstore = \"gone\"\n",
    );
    dir.file("src/a", "x");
    // What a tool answers is shown by `call`, whose exit code only says whether it is an error.
    let with_path: Vec<_> = commands_with_path().into_iter().filter(|name| *name != "call").collect();
    check_paths(&dir, "/gone/x", &with_path, 75);
}
