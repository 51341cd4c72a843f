//! The answers of commands: exit codes, JSON, and names that try to mislead.

use std::io::Read;
use std::process::Stdio;

use crate::common::{TestDir, output_text};
use insta::assert_snapshot;

#[test]
fn exit_codes_distinguish_a_negative_answer_from_wrong_usage() {
    let dir = TestDir::new();
    let exit_code = |args: &[&str]| dir.stead(args.iter().copied()).status.code().unwrap();
    assert_eq!(exit_code(&["cat", "/project/README.md"]), 0);
    assert_eq!(exit_code(&["cat", "/project/nothing"]), 1);
    assert_eq!(exit_code(&["cat", "/elsewhere"]), 1);
    assert_eq!(exit_code(&["write", "/project/x", "y"]), 1);
    assert_eq!(exit_code(&["write", "/notes/x", "y"]), 0);
    assert_eq!(exit_code(&["write", "--create-only", "/notes/x", "y"]), 1);
    assert_eq!(exit_code(&["write", "--if-match", "000000000001", "/notes/x", "y"]), 1);
    assert_eq!(exit_code(&["write", "--if-match", "1", "/notes/x", "y"]), 2);
    assert_eq!(exit_code(&["rm", "/notes/nothing"]), 1);
    assert_eq!(exit_code(&["rm", "-f", "/notes/nothing"]), 0);
    assert_eq!(exit_code(&["cat", "/../x"]), 2);
    assert_eq!(exit_code(&["grep", "("]), 2);
    assert_eq!(exit_code(&["grep", "no such text"]), 1);
    assert_eq!(exit_code(&["nonsense"]), 2);
    assert_eq!(exit_code(&["--help"]), 0);
    assert_eq!(exit_code(&["--agent", "other", "ls"]), 2);
    assert_eq!(exit_code(&["--config", "missing.toml", "ls"]), 2);
}

#[test]
fn an_error_that_depends_on_stored_data_is_a_negative_answer() {
    let dir = TestDir::new();
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, dir.path(name)).unwrap();
    link("round", "round");
    link("/etc/passwd", "outside");
    link("../notes/x", "across");
    link("src/main.rs", "inside");
    link("src/.env", "hidden");
    std::os::unix::net::UnixListener::bind(dir.path("socket")).unwrap();
    dir.stead(["write", "/notes/x", "one one\n"]);
    let exit_code = |args: &[&str]| dir.stead(args.iter().copied()).status.code().unwrap();
    assert_eq!(exit_code(&["edit", "/notes/x", "two", "2"]), 1);
    assert_eq!(exit_code(&["edit", "/notes/x", "one", "1"]), 1);
    assert_eq!(exit_code(&["edit", "/notes/x", "", "1"]), 2);
    assert_eq!(exit_code(&["edit", "/notes/x", "one", "one"]), 2);
    assert_eq!(exit_code(&["cat", "/project/round"]), 1);
    assert_eq!(exit_code(&["cat", "/project/socket"]), 1);
    assert_eq!(exit_code(&["cat", "--lines", "9", "/notes/x"]), 1);
    assert_eq!(exit_code(&["ls", "/notes/x/y"]), 1);
    // Targets that an agent can't use are not shown either.
    let listing = dir.run(["ls", "-l", "/project"]);
    let names: Vec<_> = listing.lines().filter_map(|line| Some(line.rsplit_once("  ")?.1)).collect();
    assert_snapshot!(names.join("\n"), @r#"
    README.md
    across -> ../notes/x
    hidden -> (a hidden name)
    inside -> src/main.rs
    outside -> (outside your Workspaces)
    round -> round
    socket=
    src/
    "#);
    let socket = listing.lines().find(|line| line.contains("socket")).unwrap();
    assert!(socket.starts_with('s'), "{socket}");
}

#[test]
fn a_limit_or_an_offset_of_zero_is_refused() {
    let dir = TestDir::new();
    for args in [
        ["ls", "--limit", "0", "/notes"],
        ["tree", "--limit", "0", "/notes"],
        ["cat", "--offset", "0", "/project/README.md"],
    ] {
        let output = dir.stead(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr.contains("at least 1") || stderr.contains("counted from 1"), "{stderr}");
    }
    assert!(dir.stead(["cat", "--bytes", "--offset", "0", "/project/README.md"]).status.success());
}

#[test]
fn a_closed_standard_input_does_not_empty_a_file() {
    let dir = TestDir::new();
    dir.stead(["write", "/notes/x", "mine"]);
    for command in ["write", "append"] {
        let binary = env!("CARGO_BIN_EXE_stead");
        let mut shell = std::process::Command::new("sh");
        shell.current_dir(dir.path("")).args(["-c", &format!("'{binary}' {command} /notes/x <&-")]);
        let output = output_text(&shell.output().unwrap(), &dir.path(""));
        assert!(output.starts_with("! stead: standard input is closed; give the content as"), "{output}");
        assert!(output.ends_with("exit 2"), "{output}");
    }
    assert_eq!(dir.run(["cat", "/notes/x"]), "mine");
    // If standard input is open and empty, the user wants an empty file.
    assert!(dir.stead(["write", "/notes/x"]).status.success());
    assert_eq!(dir.run(["cat", "/notes/x"]), "");
}

#[test]
fn every_path_is_tried_even_if_another_one_fails() {
    let dir = TestDir::new();
    assert_snapshot!(dir.run(["cat", "/project/nothing", "/project/README.md", "/project"]), @r#"
    # Hello
    The quick brown fox.
    ! stead: `/project/nothing` does not exist; list its directory to see what does
    ! stead: `/project` is a directory; list it instead, or name a file in it
    exit 1
    "#);
}

#[test]
fn json_has_stable_fields() {
    let dir = TestDir::new();
    let masked = |args: &[&str]| {
        let output = dir.run(args.iter().copied());
        let mut masked_output = String::new();
        // Times, tags and ids differ from run to run.
        for part in output.split_inclusive(['"', ',', '}']) {
            let word = part.trim_end_matches(['"', ',', '}']);
            let delimiters = &part[word.len()..];
            let varies = (word.len() > 8
                && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'))
                || (word.len() == 24 && word.ends_with('Z'));
            masked_output.push_str(if varies { "*" } else { word });
            masked_output.push_str(delimiters);
        }
        masked_output
    };
    assert_snapshot!(masked(&["--json", "write", "/notes/a.txt", "one\n"]), @r#"
    {"created":true,"operation":"*","path":"/notes/a.txt","version":1,"version_tag":"*"}
    "#);
    assert_snapshot!(masked(&["--json", "edit", "/notes/a.txt", "one", "1"]), @r#"
    {"created":false,"excerpt":{"complete":true,"lines":[{"number":1,"text":"1"}]},"operation":"*","path":"/notes/a.txt","replaced":1,"version":2,"version_tag":"*"}
    "#);
    assert_snapshot!(masked(&["--json", "ls", "/notes"]), @r#"
    {"cursor":null,"entries":[{"kind":"file","mode":"0644","modified":"*","name":"a.txt","size":2,"version_tag":"*","workspace":null}],"path":"/notes","total":1}
    "#);
    assert_snapshot!(masked(&["--json", "ls", "/"]), @r#"
    {"cursor":null,"entries":[{"kind":"directory","mode":"0755","modified":null,"name":"notes","size":0,"version_tag":null,"workspace":"READ_WRITE"},{"kind":"directory","mode":"0755","modified":null,"name":"project","size":0,"version_tag":null,"workspace":"READ_ONLY"}],"path":"/","total":2}
    "#);
    assert_snapshot!(masked(&["--json", "stat", "/notes/a.txt"]), @r#"
    {"created":"*","kind":"file","mime":"text/plain","mode":"0644","modified":"*","path":"/notes/a.txt","scope":"READ_WRITE","size":2,"version_tag":"*"}
    "#);
    assert_snapshot!(masked(&["--json", "cat", "/notes/a.txt"]), @r#"
    {"content":"1\n","encoding":"utf-8","path":"/notes/a.txt","size":2,"version_tag":"*"}
    "#);
    assert_snapshot!(masked(&["--json", "cat", "--offset", "1", "/notes/a.txt"]), @r#"
    {"content":"1\n","encoding":"utf-8","first_line":1,"lines":1,"next_byte_offset":null,"next_offset":null,"path":"/notes/a.txt","size":2,"total_lines":1,"version_tag":"*"}
    "#);
    assert_snapshot!(masked(&["--json", "grep", "fox"]), @r#"
    {"files":[{"count":1,"lines":[{"match":true,"number":2,"text":"The quick brown fox."}],"path":"/project/README.md"}],"left_out":{"git":false,"ignored":false},"timed_out":false,"truncated":false,"unread":[]}
    "#);
    assert_snapshot!(masked(&["--json", "glob", "*", "/notes"]), @r#"
    {"entries":[{"kind":"file","mode":"0644","modified":"*","path":"/notes/a.txt","size":2,"version_tag":"*"}],"left_out":{"git":false,"ignored":false},"truncated":false,"unread":[]}
    "#);
    assert_snapshot!(masked(&["--json", "cp", "/notes/a.txt", "/notes/b.txt"]), @r#"
    {"from":"/notes/a.txt","hidden":0,"operation":"*","to":"/notes/b.txt","version":3,"version_tag":"*"}
    "#);
    assert_snapshot!(masked(&["--json", "rm", "/notes/b.txt"]), @r#"
    {"operation":"*","path":"/notes/b.txt","version":4}
    "#);
    assert_snapshot!(masked(&["--json", "import", "src", "/notes/src"]), @r#"
    {"bytes":13,"directories":0,"files":1,"hidden":0,"protected":0,"refused":0,"skipped":0,"symlinks":0,"unchanged":0}
    "#);
    assert!(dir.run(["--json", "verify"]).contains(r#""problems":[],"store":"database""#));
    assert_snapshot!(masked(&["--json", "config", "check"]), @r#"
    {"file":"stead.toml","notes":[],"ok":true,"problems":[]}
    "#);
    assert_snapshot!(masked(&["--json", "write", "/project/x", "y"]), @r#"
    {"error":{"code":"denied","message":"`/project/x` is in the Workspace `/project`, which is READ_ONLY: writing is not allowed there; you may write in `/notes`"}}
    exit 1
    "#);
    assert_snapshot!(masked(&["--json", "ls", "--nonsense"]), @r#"
    {"error":{"code":"invalid","message":"unexpected argument '--nonsense' found\n\n  tip: to pass '--nonsense' as a value, use '-- --nonsense'\n\nUsage: stead ls [OPTIONS] [PATH]...\n\nFor more information, try '--help'."}}
    exit 2
    "#);
}

#[test]
fn a_name_cannot_forge_a_line_of_output() {
    let dir = TestDir::new();
    dir.file("evil\n-rw-r--r--  1 B  root\u{1b}[31m", "x");
    assert_snapshot!(dir.run(["ls", "/project"]), @r#"
    README.md
    evil\u{a}-rw-r--r--  1 B  root\u{1b}[31m
    src/
    "#);
    assert_snapshot!(dir.run(["tree", "/project"]), @r#"
    /project
    ├── README.md
    ├── evil\u{a}-rw-r--r--  1 B  root\u{1b}[31m
    └── src/
        └── main.rs
    "#);
    assert_snapshot!(dir.run(["ls", "/project/a\nb"]), @r#"
    ! stead: `/project/a\u{a}b` contains the control character U+000A; use a name without it
    exit 2
    "#);
    assert_snapshot!(dir.run(["ls", "/project/README.md", "/project/\u{1b}[31m"]), @r#"
    /project/README.md:
    README.md
    /project/\u{1b}[31m:
    ! stead: `/project/\u{1b}[31m` contains the control character U+001B; use a name without it
    exit 2
    "#);
}

#[test]
fn an_argument_cannot_forge_a_line_of_output() {
    let dir = TestDir::new();
    let evil = "x\u{1b}[31m\nstead: all is well";
    for args in [
        &["--config", evil, "ls"][..],
        &["--agent", evil, "ls"],
        &["import", evil, "/notes"],
        &["export", "/notes", &format!("none/{evil}")],
        &["edit", "/notes/x", "--old-file", evil, "--new-file", evil],
        &["init", "--dir", evil],
        &["cat", evil],
        &[evil],
        &["ls", &format!("--{evil}")],
        &["grep", &format!("({evil}")],
    ] {
        let output = dir.stead(args.iter().copied());
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(!output.status.success(), "{args:?}");
        assert!(!text.contains('\u{1b}'), "{args:?}: {text:?}");
    }
    dir.file(
        "evil.toml",
        "[agents.\"x\\u001b[31m\\ny\"]\n[stores.\"\\u001b\"]\nkind = \"memory\"\npath = 1\n",
    );
    assert_snapshot!(dir.run(["--config", "evil.toml", "config", "check"]), @r#"
    evil.toml:1:9: the agent `x\u{1b}[31m\u{a}y` has neither a Workspace nor an Executor, so it can do nothing; add [[agents.x\u{1b}[31m\u{a}y.workspaces]]
    evil.toml:4:1: `path` isn't a known key of `stores.\u{1b}`; it takes `kind`
    exit 2
    "#);
}

#[test]
fn content_from_standard_input_is_stored_unchanged() {
    let dir = TestDir::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    assert!(dir.run_with_input(["write", "/notes/binary", "-"], &bytes).status.success());
    assert!(dir.run_with_input(["append", "/notes/binary"], b"end").status.success());
    let content = dir.stead(["cat", "/notes/binary"]).stdout;
    assert_eq!(content, [&bytes, &b"end"[..]].concat());
    let part = dir.stead(["cat", "--bytes", "--offset", "299998", "--limit", "4", "/notes/binary"]).stdout;
    assert_eq!(part, [&bytes[299_998..], b"en"].concat());
    let json = dir.run(["--json", "cat", "--bytes", "--offset", "253", "--limit", "3", "/notes/binary"]);
    assert!(json.contains(r#""content":"/f7/","encoding":"base64""#), "{json}");
}

#[test]
fn lines_longer_than_one_call_are_printed_completely() {
    let dir = TestDir::new();
    let text = format!("first\n{}\nlast\n", "x".repeat(700_000));
    dir.run_with_input(["write", "/notes/long"], text.as_bytes());
    assert_eq!(dir.stead(["cat", "--lines", "1:", "/notes/long"]).stdout, text.as_bytes());
    assert_eq!(dir.stead(["cat", "--lines", "3", "/notes/long"]).stdout, b"last\n");
}

#[test]
fn a_command_ends_quietly_when_its_reader_closes_the_output() {
    let dir = TestDir::new();
    dir.run_with_input(["write", "/notes/large"], &vec![b'x'; 4 << 20]);
    let mut command = dir.command(["cat", "/notes/large"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

#[test]
fn a_listing_continues_at_its_cursor() {
    let dir = TestDir::new();
    for name in ["a", "b", "c"] {
        dir.stead(["write", &format!("/notes/{name}"), ""]);
    }
    assert_snapshot!(dir.run(["ls", "--limit", "2", "/notes"]), @r#"
    a
    b
    ! 2 of 3; continue with --cursor 62
    "#);
    assert_snapshot!(dir.run(["ls", "--limit", "2", "--cursor", "62", "/notes"]), @"c");
}

#[test]
fn the_agent_has_to_be_named_if_several_are_configured() {
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        r#"
[stores.a]
kind = "virtual"
[stores.gone]
kind = "physical"
path = "gone"
[[agents.one.workspaces]]
prefix = "/a"
scope = "rw"
store = "a"
[[agents.two.workspaces]]
prefix = "/gone"
scope = "ro"
store = "gone"
"#,
    );
    assert_snapshot!(dir.run(["ls"]), @r#"
    ! stead: several agents are configured; choose one with --agent: `one`, `two`
    exit 2
    "#);
    assert_snapshot!(dir.run(["--agent", "three", "ls"]), @r#"
    ! stead: there is no agent `three`; there are `one`, `two`
    exit 2
    "#);
    assert_snapshot!(dir.run(["--agent", "one", "ls"]), @"a/");
    assert_snapshot!(dir.run(["--agent", "two", "ls"]), @"gone/");
}

#[test]
fn errors_in_the_configuration_are_reported_with_their_lines() {
    let dir = TestDir::empty();
    dir.file("stead.toml", "[stores.a]\nkind = \"virtul\"\n\n[agents.x]\nworkspace = 1\n");
    assert_snapshot!(dir.run(["config", "check"]), @r#"
    stead.toml:2:8: `kind` can't be `virtul`; did you mean `virtual`?
    stead.toml:5:1: `workspace` isn't a known key of `agents.x`; did you mean `workspaces`?
    exit 2
    "#);
    assert_snapshot!(dir.run(["ls"]), @r#"
    ! stead.toml:2:8: `kind` can't be `virtul`; did you mean `virtual`?
    ! stead.toml:5:1: `workspace` isn't a known key of `agents.x`; did you mean `workspaces`?
    exit 2
    "#);
    assert_snapshot!(dir.run(["--json", "config", "check"]), @r#"
    {"file":"stead.toml","notes":[],"ok":false,"problems":[{"column":8,"line":2,"message":"`kind` can't be `virtul`; did you mean `virtual`?"},{"column":1,"line":5,"message":"`workspace` isn't a known key of `agents.x`; did you mean `workspaces`?"}]}
    exit 2
    "#);
}

#[test]
fn trees_are_imported_and_exported() {
    let dir = TestDir::new();
    assert_snapshot!(dir.run(["import", "src", "/notes/src"]), @"! Imported 1 file (13 B).");
    assert_snapshot!(dir.run(["import", "src", "/notes/src"]), @"! Imported 0 files (0 B), 1 was unchanged.");
    assert_snapshot!(dir.run(["import", ".", "/project/copy"]), @r#"
    ! stead: `/project/copy` is inside `.`, and a directory can't be imported into itself
    exit 2
    "#);
    assert_snapshot!(dir.run(["export", "/project", "out"]), @r#"
    ! stead: `out` is inside `/project`, and a directory can't be exported into itself
    exit 2
    "#);
    assert_snapshot!(dir.run(["export", "/project", "out.tar"]), @r#"
    ! stead: `out.tar` is inside `/project`, and a directory can't be exported into itself
    exit 2
    "#);
    assert_snapshot!(dir.run(["export", "/notes", "out"]), @"! Exported 1 file (13 B), 1 directory.");
    assert_snapshot!(dir.run(["export", "/notes", "out"]), @r#"
    ! stead: `out` isn't empty; name a new directory, or use --force to write into this one
    exit 1
    "#);
    assert_snapshot!(dir.run(["export", "--force", "/notes", "out"]), @"! Exported 0 files (0 B), 1 was unchanged.");
    assert_eq!(std::fs::read_to_string(dir.path("out/src/main.rs")).unwrap(), "fn main() {}\n");
    let archive = dir.stead(["export", "/notes", "-"]).stdout;
    assert_snapshot!(String::from_utf8_lossy(&dir.run_with_input(["import", "-", "/notes/again"], &archive).stderr), @"Imported 1 file (13 B), 1 directory.");
    assert_eq!(dir.run(["cat", "/notes/again/src/main.rs"]), "fn main() {}");
    assert_snapshot!(dir.run(["import", "README.md", "/notes"]), @r#"
    ! stead: `README.md` isn't a tar archive
    exit 2
    "#);
    assert_snapshot!(dir.run(["import", "missing", "/notes"]), @r#"
    ! stead: `missing` can't be read: there is no such file or directory
    exit 1
    "#);
}

#[test]
fn completions_are_printed() {
    let dir = TestDir::empty();
    for shell in ["bash", "zsh", "fish"] {
        assert!(dir.run(["completions", shell]).contains("completions"), "{shell}");
    }
}

#[test]
fn an_earlier_version_can_be_exported() {
    let dir = TestDir::new();
    let version = |args: [&str; 4]| {
        let stdout = String::from_utf8(dir.stead(args).stdout).unwrap();
        let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        document["version"].as_i64().unwrap().to_string()
    };
    let first = version(["--json", "write", "/notes/a.md", "first"]);
    version(["--json", "write", "/notes/a.md", "second"]);
    assert!(dir.stead(["export", "/notes", "then", "--at", &first]).status.success());
    assert!(dir.stead(["export", "/notes", "now"]).status.success());
    assert_eq!(std::fs::read_to_string(dir.path("then/a.md")).unwrap(), "first");
    assert_eq!(std::fs::read_to_string(dir.path("now/a.md")).unwrap(), "second");
    assert_eq!(dir.stead(["export", "/notes", "never", "--at", "999"]).status.code(), Some(1));
    assert!(!dir.path("never").exists());
}

#[test]
fn a_person_can_import_what_is_protected_from_agents() {
    let dir = TestDir::new();
    dir.file("repository/.git/config", "[core]\n");
    dir.file("repository/.git/HEAD", "ref: refs/heads/main\n");
    let output = dir.stead(["import", "repository", "/notes/r"]);
    assert_snapshot!(output_text(&output, &dir.path("")), @r#"
    ! stead: left out `/notes/r/.git/config`: it is protected from agents
    ! Imported 1 file (21 B), 1 directory, 1 was left out.
    ! 1 name is protected from agents; use --with-protected to import everything.
    "#);
    assert_eq!(dir.stead(["cat", "/notes/r/.git/HEAD"]).status.code(), Some(0));
    assert_eq!(dir.stead(["cat", "/notes/r/.git/config"]).status.code(), Some(1));
    assert_eq!(dir.stead(["import", "--with-protected", "repository", "/notes/r"]).status.code(), Some(0));
    assert_eq!(dir.stead(["cat", "/notes/r/.git/config"]).status.code(), Some(0));
    assert_eq!(dir.stead(["write", "/notes/r/.git/config", "x"]).status.code(), Some(1));
}

#[test]
fn an_agent_reaches_neither_configuration_nor_database_whatever_their_names() {
    let dir = TestDir::empty();
    let toml = |path: &str| {
        format!(
            "[database]\nurl = \"sqlite:stead.db\"\n[stores.here]\nkind = \"physical\"\npath = \"{path}\"\n\
             [stores.notes]\nkind = \"virtual\"\n[agents.a]\n\
             [[agents.a.workspaces]]\nprefix = \"/p\"\nscope = \"rw\"\nstore = \"here\"\n\
             [[agents.a.workspaces]]\nprefix = \"/n\"\nscope = \"rw\"\nstore = \"notes\"\n"
        )
    };
    dir.file("conf/real.toml", &toml(".."));
    dir.file("data/.keep", "");
    std::os::unix::fs::symlink("conf/real.toml", dir.path("stead.toml")).unwrap();
    std::os::unix::fs::symlink("../data/real.db", dir.path("conf/stead.db")).unwrap();
    dir.file("data/real.db", "");
    assert!(dir.stead(["--config", "conf/real.toml", "write", "/n/a", "x"]).status.success());
    let exit_code = |args: &[&str]| {
        let arguments = ["--config", "conf/real.toml"].into_iter().chain(args.iter().copied());
        dir.stead(arguments).status.code().unwrap()
    };
    assert_eq!(exit_code(&["write", "/p/fine", "x"]), 0);
    for name in [
        "stead.toml",
        "conf/real.toml",
        "conf/stead.toml",
        "conf/stead.db",
        "conf/stead.db-journal",
        "data/real.db",
        "data/real.db-wal",
        "data/real.db-journal",
        "data/real.db-shm",
        ".stead/x",
    ] {
        let path = format!("/p/{name}");
        assert_ne!(exit_code(&["cat", &path]), 0, "cat {name}");
        assert_ne!(exit_code(&["write", &path, "evil"]), 0, "write {name}");
        assert_ne!(exit_code(&["rm", &path]), 0, "rm {name}");
        assert_ne!(exit_code(&["mv", "--overwrite", "/p/fine", &path]), 0, "mv {name}");
    }
    for parent in ["/p/conf", "/p/data"] {
        assert_ne!(exit_code(&["rm", "-r", parent]), 0, "rm -r {parent}");
        assert_ne!(exit_code(&["mv", parent, "/p/moved"]), 0, "mv {parent}");
    }
    assert_eq!(exit_code(&["cat", "/n/a"]), 0);
}
