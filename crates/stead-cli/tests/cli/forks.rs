//! Forks, from creating one to discarding it.

use crate::common::TestDir;
use insta::assert_snapshot;
use serde_json::{Value, json};
use stead::{Config, Stead};

/// Two agents. The notes of one are part of a Store in which the other may only write.
fn two_agents() -> TestDir {
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        r#"
            [stores.notes]
            kind = "virtual"
            [stores.code]
            kind = "physical"
            path = "code"
            [[agents.coder.workspaces]]
            prefix = "/notes"
            scope = "rw"
            store = "notes"
            path = "/coder"
            protect = ["*.lock"]
            [[agents.coder.workspaces]]
            prefix = "/code"
            scope = "rw"
            store = "code"
            [[agents.reviewer.workspaces]]
            prefix = "/notes"
            scope = "wo"
            store = "notes"
            path = "/coder"
            [[agents.reviewer.workspaces]]
            prefix = "/all"
            scope = "ro"
            store = "notes"
            path = "/reviews"
        "#,
    );
    std::fs::create_dir(dir.path("code")).unwrap();
    dir
}

/// The text without times, which differ from run to run.
fn without_times(text: &str) -> String {
    let mask_time =
        |word: &str| if word.contains('T') && word.contains(':') { "TIME" } else { word }.to_owned();
    text.lines()
        .map(|line| line.split(' ').map(mask_time).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_fork_is_made_changed_compared_and_discarded() {
    let dir = two_agents();
    let coder = |args: &[&str]| dir.run(["--agent", "coder"].into_iter().chain(args.iter().copied()));
    assert_snapshot!(coder(&["forks"]), @"");
    coder(&["write", "/notes/plan.md", "one\ntwo\n"]);
    coder(&["write", "/notes/old.md", "old\n"]);
    assert_snapshot!(coder(&["fork", "/notes", "draft"]), @"! Forked /notes as /forks/draft");
    assert_snapshot!(coder(&["diff", "--fork", "draft"]), @"! There are no differences.");
    // The base changes further. The fork doesn't see that, and the base doesn't see the changes in the fork.
    coder(&["write", "/notes/later.md", "later\n"]);
    coder(&["edit", "/forks/draft/plan.md", "two", "2"]);
    coder(&["mv", "/forks/draft/old.md", "/forks/draft/new.md"]);
    coder(&["write", "/forks/draft/added.md", "added\n"]);
    assert_snapshot!(coder(&["tree"]), @r#"
    /
    ├── code/
    ├── forks/
    │   └── draft/
    │       ├── added.md
    │       ├── new.md
    │       └── plan.md
    └── notes/
        ├── later.md
        ├── old.md
        └── plan.md
    "#);
    assert_snapshot!(coder(&["cat", "/notes/plan.md"]), @r#"
    one
    two
    "#);
    assert_snapshot!(coder(&["diff", "--fork", "draft"]), @r#"
    added /forks/draft/added.md
    --- /dev/null
    +++ b/forks/draft/added.md
    @@ -0,0 +1 @@
    +added
    moved /forks/draft/old.md -> /forks/draft/new.md
    changed /forks/draft/plan.md
    --- a/forks/draft/plan.md
    +++ b/forks/draft/plan.md
    @@ -1,2 +1,2 @@
     one
    -two
    +2
    "#);
    assert_snapshot!(coder(&["--json", "diff", "--fork", "draft"]), @r#"
    {"binary":false,"deletions":0,"diff":"@@ -0,0 +1 @@\n+added\n","difference":"added","from":null,"insertions":1,"kind":"file","modes":null,"path":"/forks/draft/added.md","sizes":[0,6]}
    {"binary":false,"deletions":null,"diff":null,"difference":"moved","from":"/forks/draft/old.md","insertions":null,"kind":"file","modes":null,"path":"/forks/draft/new.md","sizes":[4,4]}
    {"binary":false,"deletions":1,"diff":"@@ -1,2 +1,2 @@\n one\n-two\n+2\n","difference":"changed","from":null,"insertions":1,"kind":"file","modes":null,"path":"/forks/draft/plan.md","sizes":[8,6]}
    "#);
    assert_snapshot!(without_times(&coder(&["forks"])), @"/forks/draft  of /notes, made TIME");
    assert_snapshot!(coder(&["write", "/forks/draft/x.lock", "mine"]), @r#"
    ! stead: `/forks/draft/x.lock` is protected in the Workspace `/forks/draft` and read-only for agents; ask the person who runs Stead to change it
    exit 1
    "#);
    assert!(coder(&["verify"]).contains("nothing is wrong"));
    // A fork of the fork keeps what it shows of it.
    assert_snapshot!(coder(&["fork", "/forks/draft", "second"]), @"! Forked /forks/draft as /forks/second");
    assert_snapshot!(coder(&["discard", "draft"]), @"! Discarded the fork draft");
    assert_snapshot!(coder(&["cat", "/forks/second/added.md"]), @"added");
    assert_snapshot!(coder(&["merge", "second"]), @r#"
    ! stead: what the fork was made from is gone, so the fork can't be merged or updated
    exit 1
    "#);
    assert!(coder(&["verify"]).contains("nothing is wrong"));
    assert_snapshot!(coder(&["discard", "second"]), @"! Discarded the fork second");
    assert_snapshot!(coder(&["discard", "draft"]), @r#"
    ! stead: you have no fork `draft`; make one with `stead fork` or `fork_workspace`
    exit 1
    "#);
    assert_snapshot!(coder(&["ls", "/"]), @r#"
    code/
    notes/
    "#);
}

#[test]
fn a_fork_can_be_given_to_another_agent() {
    let dir = two_agents();
    let run =
        |agent: &str, args: &[&str]| dir.run(["--agent", agent].into_iter().chain(args.iter().copied()));
    run("coder", &["write", "/notes/plan.md", "one\n"]);
    assert_snapshot!(run("coder", &["fork", "/notes", "draft", "--to", "reviewer"]), @"! Forked /notes as /forks/draft of reviewer");
    assert_snapshot!(run("coder", &["forks"]), @"");
    assert_snapshot!(without_times(&run("reviewer", &["forks"])), @"/forks/draft  of /notes, made TIME by coder");
    assert_snapshot!(run("reviewer", &["cat", "/forks/draft/plan.md"]), @"one");
    assert_snapshot!(run("reviewer", &["write", "/forks/draft/plan.md", "two\n"]), @"! Wrote /forks/draft/plan.md");
    assert_snapshot!(run("coder", &["cat", "/notes/plan.md"]), @"one");
    assert_snapshot!(run("coder", &["fork", "/notes", "draft", "--to", "nobody"]), @r#"
    ! stead: there is no agent `nobody`; there are `coder`, `reviewer`
    exit 2
    "#);
}

#[test]
fn a_refused_fork_says_why() {
    let dir = two_agents();
    let run =
        |agent: &str, args: &[&str]| dir.run(["--agent", agent].into_iter().chain(args.iter().copied()));
    run("coder", &["write", "/notes/plan.md", "one\n"]);
    assert_snapshot!(run("reviewer", &["fork", "/notes", "draft"]), @r#"
    ! stead: `/notes` is in the Workspace `/notes`, which is WRITE_ONLY: reading its history is not allowed there; you may read history in `/all`
    exit 1
    "#);
    assert_snapshot!(run("coder", &["fork", "/notes/plan.md", "draft"]), @r#"
    ! stead: `/notes/plan.md` isn't a Workspace; fork the whole Workspace `/notes` instead
    exit 2
    "#);
    assert_snapshot!(run("coder", &["fork", "/elsewhere", "draft"]), @r#"
    ! stead: `/elsewhere` is in none of your Workspaces: you have `/code`, `/notes`
    exit 1
    "#);
    assert_snapshot!(run("coder", &["fork", "/notes", "../x"]), @r#"
    ! stead: `../x` isn't a valid fork name; use up to 64 letters, digits, `-`, `_` and `.`, beginning with a letter or a digit
    exit 2
    "#);
    run("coder", &["fork", "/notes", "draft"]);
    assert_snapshot!(run("coder", &["fork", "/notes", "draft"]), @r#"
    ! stead: a fork `draft` exists already; choose another name
    exit 1
    "#);
    assert_snapshot!(run("coder", &["diff", "--fork", "other"]), @r#"
    ! stead: you have no fork `other`; you have `draft`
    exit 1
    "#);
    assert_snapshot!(run("reviewer", &["discard", "draft"]), @r#"
    ! stead: you have no fork `draft`; make one with `stead fork` or `fork_workspace`
    exit 1
    "#);
}

#[test]
fn a_fork_whose_maker_can_not_read_the_base_any_more_is_withheld_and_listed_as_such() {
    let dir = two_agents();
    let run =
        |agent: &str, args: &[&str]| dir.run(["--agent", agent].into_iter().chain(args.iter().copied()));
    run("coder", &["write", "/notes/plan.md", "one\n"]);
    run("coder", &["fork", "/notes", "draft", "--to", "reviewer"]);
    assert_snapshot!(run("reviewer", &["cat", "/forks/draft/plan.md"]), @"one");
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    dir.file("stead.toml", &config.replacen("scope = \"rw\"", "scope = \"wo\"", 1));
    assert_snapshot!(run("reviewer", &["cat", "/forks/draft/plan.md"]), @r"
    ! stead: `/forks/draft/plan.md` is in none of your Workspaces: you have `/all`, `/notes`
    exit 1
    ");
    assert_snapshot!(run("reviewer", &["ls", "/"]), @r"
    all/
    notes/
    ");
    assert_snapshot!(without_times(&run("reviewer", &["forks"])), @"/forks/draft  of /notes, made TIME by coder; withheld, because coder can't read what it was made from any more");
    let listed = run("reviewer", &["forks", "--json"]);
    assert!(listed.contains("\"withheld\":true") && listed.contains("\"fork\":\"draft\""), "{listed}");
    assert_snapshot!(run("reviewer", &["diff", "--fork", "draft"]), @r"
    ! stead: you have no fork `draft`; make one with `stead fork` or `fork_workspace`
    exit 1
    ");
    dir.file("stead.toml", &config);
    assert_snapshot!(run("reviewer", &["cat", "/forks/draft/plan.md"]), @"one");
    dir.file("stead.toml", &config.replacen("scope = \"rw\"", "scope = \"wo\"", 1));
    assert_snapshot!(run("reviewer", &["discard", "draft"]), @"! Discarded the fork draft");
    assert_snapshot!(run("reviewer", &["forks"]), @"");
}

/// The untouched part is live, what the fork changes is kept, and undo, diff and search work as in any fork.
#[test]
fn g2_a_host_directory_is_forked_live_or_pinned() {
    let dir = two_agents();
    let coder = |args: &[&str]| dir.run(["--agent", "coder"].into_iter().chain(args.iter().copied()));
    let put = |path: &str, content: &str| {
        let path = dir.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    let has = |args: &[&str], parts: &[&str]| {
        let output = coder(args);
        for part in parts {
            assert!(output.contains(part), "{args:?}: {output}");
        }
        output
    };
    put("code/src/main.rs", "fn main() {}\n");
    put("code/src/lib.rs", "// base\n");
    put("code/old/a.txt", "a\n");
    assert_snapshot!(coder(&["fork", "/code", "live"]), @"! Forked /code as /forks/live");
    assert_snapshot!(coder(&["fork", "/code", "pinned", "--pin"]), @"! Forked /code as /forks/pinned");
    assert_snapshot!(coder(&["snapshots"]), @"! There are no snapshots.");
    coder(&["edit", "/forks/live/src/main.rs", "{}", "{ run() }"]);
    coder(&["mv", "/forks/live/old", "/forks/live/new"]);
    coder(&["write", "/forks/pinned/src/own.rs", "own\n"]);
    put("code/src/main.rs", "fn other() {}\n");
    put("code/src/lib.rs", "// host\n");
    put("code/old/b.txt", "b\n");
    assert_snapshot!(coder(&["cat", "/forks/live/src/main.rs"]), @"fn main() { run() }");
    assert_snapshot!(coder(&["cat", "/forks/live/src/lib.rs"]), @"// host");
    has(&["ls", "/forks/live/new"], &["a.txt", "b.txt"]);
    assert_snapshot!(coder(&["cat", "/forks/pinned/src/main.rs"]), @"fn main() {}");
    assert_snapshot!(coder(&["cat", "/forks/pinned/src/lib.rs"]), @"// base");
    let found = has(&["grep", "host", "/forks"], &["/forks/live/src/lib.rs"]);
    assert!(!found.contains("pinned"), "{found}");
    let diff =
        has(&["diff", "--fork", "live"], &["-fn main() {}", "+fn main() { run() }", "/forks/live/new"]);
    assert!(!diff.contains("lib.rs"), "{diff}");
    coder(&["rm", "-r", "/forks/live/src"]);
    assert!(!coder(&["ls", "/forks/live"]).contains("src"));
    coder(&["undo"]);
    assert_snapshot!(coder(&["cat", "/forks/live/src/main.rs"]), @"fn main() { run() }");
    assert_snapshot!(coder(&["fork", "/forks/live", "second"]), @"! Forked /forks/live as /forks/second");
    assert_snapshot!(coder(&["cat", "/forks/second/src/main.rs"]), @"fn main() { run() }");
    has(&["fork", "/forks/live", "third", "--pin"], &["`/forks/live` is a fork that isn't pinned", "exit"]);
    has(
        &["forks"],
        &["/forks/live  of /code", "/forks/pinned  of /code", ", pinned", "/forks/second  of /forks/live"],
    );
    // The directory has what the host's programs wrote, and nothing else.
    assert_eq!(std::fs::read_to_string(dir.path("code/src/main.rs")).unwrap(), "fn other() {}\n");
    assert!(dir.path("code/old/b.txt").exists() && !dir.path("code/new").exists());
    for fork in ["second", "live", "pinned"] {
        coder(&["discard", fork]);
    }
    assert_snapshot!(coder(&["forks"]), @"");
}

/// A fork of a directory is withheld like any fork, and comes back with the access.
#[test]
fn g4_a_fork_of_a_host_directory_is_withheld_when_its_maker_loses_access() {
    let dir = two_agents();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    let coder = |args: &[&str]| dir.run(["--agent", "coder"].into_iter().chain(args.iter().copied()));
    std::fs::write(dir.path("code/file"), "base\n").unwrap();
    coder(&["fork", "/code", "draft"]);
    coder(&["write", "/forks/draft/file", "fork\n"]);
    let without_code = config.replace(
        "prefix = \"/code\"\n            scope = \"rw\"",
        "prefix = \"/code\"\n            scope = \"wo\"",
    );
    assert_ne!(without_code, config);
    dir.file("stead.toml", &without_code);
    assert!(coder(&["cat", "/forks/draft/file"]).contains("exit 1"));
    assert!(coder(&["forks"]).contains("withheld"));
    dir.file("stead.toml", &config);
    assert_snapshot!(coder(&["cat", "/forks/draft/file"]), @"fork");
}

#[test]
fn g1_nested_workspaces_are_forked_merged_and_listed_with_the_fork() {
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        r#"
            [stores.code]
            kind = "virtual"
            [stores.lib]
            kind = "physical"
            path = "lib"
            [stores.drop]
            kind = "virtual"
            [stores.old]
            kind = "virtual"
            [agents.coder]
            forks = true
            [[agents.coder.workspaces]]
            prefix = "/code"
            scope = "rw"
            store = "code"
            [[agents.coder.workspaces]]
            prefix = "/code/lib"
            scope = "rw"
            store = "lib"
            [[agents.coder.workspaces]]
            prefix = "/code/lib/old"
            scope = "ro"
            store = "old"
            [[agents.coder.workspaces]]
            prefix = "/code/inbox"
            scope = "wo"
            store = "drop"
        "#,
    );
    std::fs::create_dir(dir.path("lib")).unwrap();
    dir.run(["write", "/code/a.md", "one\n"]);
    dir.run(["write", "/code/lib/l.md", "one\ntwo\n"]);
    assert_snapshot!(dir.run(["fork", "/code", "draft"]), @r#"
    ! Forked /code as /forks/draft
    ! With the nested Workspaces lib (READ_WRITE), lib/old (READ_ONLY)
    ! Not in the fork, because they are WRITE_ONLY or can't be forked: inbox
    "#);
    assert_snapshot!(without_times(&dir.run(["forks"])), @"/forks/draft  of /code, made TIME with lib (READ_WRITE), lib/old (READ_ONLY), without inbox");
    let json = dir.run(["--json", "forks"]);
    let part = r#""parts":[{"base":"/code/lib","path":"/lib","scope":"READ_WRITE"},{"base":"/code/lib/old","path":"/lib/old","scope":"READ_ONLY"}]"#;
    assert!(json.contains(part) && json.contains(r#""omitted":["/inbox"]"#), "{json}");
    assert_snapshot!(dir.run(["tree", "/forks"]), @r#"
    /forks
    └── draft/
        ├── a.md
        └── lib/
            ├── l.md
            └── old/
    "#);
    assert_snapshot!(dir.run(["write", "/forks/draft/lib/old/x", "x"]), @r#"
    ! stead: `/forks/draft/lib/old/x` is in the Workspace `/forks/draft/lib/old`, which is READ_ONLY: writing is not allowed there; you may write in `/code`, `/code/inbox`, `/code/lib`, `/forks/draft`, `/forks/draft/lib`
    exit 1
    "#);
    dir.run(["write", "/forks/draft/a.md", "two\n"]);
    dir.run(["edit", "/forks/draft/lib/l.md", "two", "2"]);
    assert_snapshot!(dir.run(["diff", "--fork", "draft"]), @r#"
    changed /forks/draft/a.md
    --- a/forks/draft/a.md
    +++ b/forks/draft/a.md
    @@ -1 +1 @@
    -one
    +two
    changed /forks/draft/lib/l.md
    --- a/forks/draft/lib/l.md
    +++ b/forks/draft/lib/l.md
    @@ -1,2 +1,2 @@
     one
    -two
    +2
    "#);
    assert_snapshot!(dir.run(["merge", "draft", "--take", "fork:lib/**"]), @r#"
    changed    /code/a.md
    changed    /code/lib/l.md
    ! Merged the fork draft: 2 changes; `stead undo` undoes it.
    "#);
    assert_snapshot!(dir.run(["merge", "draft"]), @"! Nothing to merge.");
    assert_eq!(std::fs::read_to_string(dir.path("lib/l.md")).unwrap(), "one\n2\n");
    assert!(
        dir.run(["undo"]).starts_with("reverted   /code/a.md\nreverted   /code/lib/l.md\n! Undid merge of ")
    );
    assert_eq!(std::fs::read_to_string(dir.path("lib/l.md")).unwrap(), "one\ntwo\n");
    assert_snapshot!(dir.run(["discard", "draft"]), @"! Discarded the fork draft");
    assert!(dir.run(["verify"]).contains("nothing is wrong"));
    let tool = dir.run(["call", "fork_workspace", r#"{"path":"/code","name":"second"}"#]);
    assert_snapshot!(tool, @"/code is forked. Work in /forks/second; merge_fork brings your changes back. It has the nested Workspaces /forks/second/lib (READ_WRITE), /forks/second/lib/old (READ_ONLY).");
}

#[test]
fn g1_a_review_by_another_agent_takes_and_refuses_what_is_in_nested_workspaces() {
    let dir = TestDir::empty();
    let workspace = |agent: &str, prefix: &str, store: &str| {
        format!("[[agents.{agent}.workspaces]]\nprefix = \"{prefix}\"\nscope = \"rw\"\nstore = \"{store}\"\n")
    };
    let workspaces = [
        workspace("coder", "/code", "code"),
        workspace("coder", "/code/lib", "lib"),
        workspace("reviewer", "/project", "code"),
        workspace("reviewer", "/library", "lib"),
    ];
    let stores = "[stores.code]\nkind = \"virtual\"\n[stores.lib]\nkind = \"virtual\"\n";
    dir.file("stead.toml", &format!("{stores}{}", workspaces.concat()));
    let run =
        |agent: &str, args: &[&str]| dir.run(["--agent", agent].into_iter().chain(args.iter().copied()));
    run("coder", &["fork", "/code", "draft"]);
    for path in ["a.md", "b.md", "lib/a.md", "lib/b.md"] {
        run("coder", &["write", &format!("/forks/draft/{path}"), "new\n"]);
    }
    // Globs are relative to the top of the fork, wherever the reviewer has the nested Workspace.
    let review = |options: &[&str]| run("reviewer", &[&["review", "coder/draft"], options].concat());
    assert!(review(&["--refuse", "lib/b.md", "--refuse", "b.md"]).contains("added      /library/a.md"));
    assert_snapshot!(run("reviewer", &["ls", "/library"]), @"a.md");
    assert_snapshot!(run("reviewer", &["ls", "/project"]), @"a.md");
    // What was refused is still in the fork.
    assert!(review(&["--list"]).contains("/library/b.md"));
    review(&["--take", "lib/**"]);
    assert_snapshot!(run("reviewer", &["ls", "/library"]), @r"
    a.md
    b.md
    ");
    assert_snapshot!(run("reviewer", &["ls", "/project"]), @"a.md");
}

/// The files that both sides of [`with_conflicts`] have changed.
pub(crate) const IN_CONFLICT: [&str; 4] = ["lib/a", "lib/b", "c", "d"];

/// A fork and its base that have changed four files differently. The agent has the tools for forks.
pub(crate) fn with_conflicts() -> TestDir {
    let dir = TestDir::empty();
    let text = "[stores.code]\nkind = \"virtual\"\n[agents.coder]\nforks = true\n[[agents.coder.workspaces]]\n\
                prefix = \"/code\"\nscope = \"rw\"\nstore = \"code\"\n";
    dir.file("stead.toml", text);
    let stead = Stead::open(&Config::parse(text, &dir.path("stead.toml")).unwrap(), "coder").unwrap();
    let write_all = |stead: &Stead, prefix: &str, content: &str| {
        for name in IN_CONFLICT {
            stead.vfs().write(&*format!("{prefix}/{name}"), content).unwrap();
        }
    };
    write_all(&stead, "/code", "base\n");
    let stead = stead.fork("/code", "draft").unwrap();
    write_all(&stead, "/code", "target\n");
    write_all(&stead, "/forks/draft", "fork\n");
    dir
}

/// What a Workspace or a fork has in the files of [`with_conflicts`].
pub(crate) fn contents(dir: &TestDir, prefix: &str) -> [String; 4] {
    IN_CONFLICT.map(|name| dir.run(["cat", &format!("{prefix}/{name}")]))
}

#[test]
fn g24_the_command_resolves_conflicts_by_globs_a_side_each_a_given_content_and_by_leaving_out() {
    let dir = with_conflicts();
    dir.file("c.txt", "given\n");
    let file = dir.path("c.txt");
    let merge = |args: &[&str]| dir.run(["merge", "draft"].iter().chain(args).copied());
    assert_snapshot!(merge(&["--take", "fork", "lib/a", "--content", "/code/c", file.to_str().unwrap(), "--dry-run"]), @r#"
    conflict   /code/d: content: the fork and the target changed the same lines, or content that isn't text (target line 1, fork line 1)
    conflict   /code/lib/b: content: the fork and the target changed the same lines, or content that isn't text (target line 1, fork line 1)
    ! Nothing was changed: 2 conflicts. Resolve them in the fork after `stead update draft`, or choose with --take, --content or --leave.
    exit 1
    "#);
    let choices =
        ["--take", "fork", "lib/a", "lib/b", "--content", "/code/c", file.to_str().unwrap(), "--leave", "d"];
    assert_snapshot!(merge(&choices), @r#"
    merged     /code/c
    changed    /code/lib/a
    changed    /code/lib/b
    left out   /code/d
    ! Merged the fork draft: 3 changes; `stead undo` undoes it.
    "#);
    assert_eq!(contents(&dir, "/code"), ["fork", "fork", "given", "target"]);

    let dir = with_conflicts();
    dir.run(["merge", "draft", "--take", "fork:lib/*", "--take", "ours:c", "--take", "theirs:d"]);
    assert_eq!(contents(&dir, "/code"), ["fork", "fork", "target", "fork"]);
    assert_eq!(contents(&dir, "/forks/draft"), ["fork", "fork", "target", "fork"]);

    for (side, expected) in [("ours", "target"), ("target", "target"), ("theirs", "fork")] {
        let dir = with_conflicts();
        merge_with_success(&dir, &["--take", side]);
        assert_eq!(contents(&dir, "/code"), [expected; 4], "{side}");
        assert_eq!(contents(&dir, "/forks/draft"), [expected; 4], "{side}");
    }
}

#[test]
fn g24_content_is_given_to_one_file_and_a_path_with_glob_characters_is_itself() {
    let dir = TestDir::empty();
    let text = "[stores.code]\nkind = \"virtual\"\n[[agents.coder.workspaces]]\nprefix = \"/code\"\nscope = \"rw\"\n\
                store = \"code\"\n";
    dir.file("stead.toml", text);
    dir.file("given.txt", "given\n");
    let file = dir.path("given.txt");
    let files = ["src/a", "src/b", "[id].ts", "i.ts"];
    files.iter().for_each(|name| drop(dir.run(["write", &format!("/code/{name}"), "base"])));
    dir.run(["fork", "/code", "draft"]);
    files.iter().for_each(|name| drop(dir.run(["write", &format!("/forks/draft/{name}"), "fork"])));
    dir.run(["write", "/code/[id].ts", "target"]);
    let contents = |prefix: &str| files.map(|name| dir.run(["cat", &format!("{prefix}/{name}")]));
    let before = contents("/code");
    for path in ["src", "/code/src", "missing", "."] {
        for command in ["merge", "update"] {
            let refused = dir.run([command, "draft", "--content", path, file.to_str().unwrap()]);
            assert!(
                refused.contains(&format!("`{path}` isn't a file that is merged")),
                "{command}: {refused}"
            );
            assert!(refused.ends_with("exit 2"), "{command}: {refused}");
        }
    }
    assert_eq!((contents("/code"), contents("/forks/draft")), (before, ["fork"; 4].map(str::to_owned)));
    dir.run(["merge", "draft", "--content", "[id].ts", file.to_str().unwrap(), "--leave", "src/b"]);
    assert_eq!(contents("/code"), ["fork", "base", "given", "fork"]);
    dir.run(["write", "/code/[id].ts", "target"]);
    dir.run(["write", "/forks/draft/[id].ts", "fork"]);
    dir.run(["merge", "draft", "--take", "fork:[id].ts", "--leave", "src"]);
    assert_eq!(contents("/code"), ["fork", "base", "fork", "fork"]);
}

#[track_caller]
fn merge_with_success(dir: &TestDir, options: &[&str]) -> String {
    let output = dir.run(["merge", "draft"].iter().chain(options).copied());
    assert!(!output.contains("exit "), "{output}");
    output
}

#[test]
fn g24_each_conflict_has_its_path_kind_sides_lines_and_on_request_the_text_with_markers() {
    let dir = with_conflicts();
    let side = |name: &str, content: &str| {
        let hash = blake3::hash(content.as_bytes()).to_hex().to_string();
        json!({ "path": name, "kind": "file", "mode": "0644", "size": content.len(), "hash": hash })
    };
    for markers in [false, true] {
        let options: &[&str] = if markers { &["--markers"] } else { &[] };
        let output = dir.stead(["--json", "merge", "draft"].iter().chain(options).copied());
        assert_eq!(output.status.code(), Some(1));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&result["done"], &result["operation"]), (&json!(false), &Value::Null));
        let conflicts = result["conflicts"].as_array().unwrap();
        let paths: Vec<_> = conflicts.iter().map(|conflict| conflict["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["/code/c", "/code/d", "/code/lib/a", "/code/lib/b"]);
        for (conflict, name) in conflicts.iter().zip(["c", "d", "lib/a", "lib/b"]) {
            assert_eq!(conflict["kind"], "content");
            for (key, content) in [("base", "base\n"), ("target", "target\n"), ("fork", "fork\n")] {
                assert_eq!(conflict[key], side(name, content), "{key} of {name}");
            }
            assert_eq!(conflict["hunks"], json!([{ "base": [1, 2], "target": [1, 2], "fork": [1, 2] }]));
            assert_eq!(conflict["marked"].is_null(), !markers);
        }
    }
    let marked = "<<<<<<< target\ntarget\n||||||| base\nbase\n=======\nfork\n>>>>>>> fork\n";
    assert_eq!(dir.run(["merge", "draft", "--markers"]).matches(marked).count(), 4);
    assert_eq!(contents(&dir, "/code"), ["target"; 4]);
    assert_eq!(contents(&dir, "/forks/draft"), ["fork"; 4]);
}

#[test]
fn g28_a_merged_fork_is_discarded_where_nothing_of_it_was_left_out() {
    let dir = with_conflicts();
    let merge = |args: &[&str]| dir.run(["merge", "draft", "--discard"].iter().chain(args).copied());
    let is_listed = || dir.run(["forks"]).starts_with("/forks/draft ");
    // With a conflict, and in a dry run, nothing is merged and nothing discarded.
    assert!(merge(&[]).contains("Nothing was changed: 4 conflicts"));
    assert!(is_listed());
    merge(&["--take", "fork", "--dry-run"]);
    assert!(is_listed());
    assert_snapshot!(merge(&["--take", "fork", "--leave", "d"]), @r#"
    changed    /code/c
    changed    /code/lib/a
    changed    /code/lib/b
    left out   /code/d
    ! Merged the fork draft: 3 changes; `stead undo` undoes it.
    "#);
    assert!(is_listed());
    assert_eq!(contents(&dir, "/forks/draft"), ["fork"; 4]);
    assert_snapshot!(merge(&["--take", "fork"]), @r#"
    changed    /code/d
    ! Merged the fork draft: 1 change; `stead undo` undoes it. The fork is discarded.
    "#);
    assert_eq!(dir.run(["forks"]), "");
    assert_eq!(contents(&dir, "/code"), ["fork"; 4]);
    assert!(dir.run(["verify"]).contains("nothing is wrong"));
}

#[test]
fn globs_of_a_merge_belong_to_one_side() {
    let dir = with_conflicts();
    assert_snapshot!(dir.run(["merge", "draft", "--take", "fork", "--take", "target", "lib/**"]), @r#"
    ! stead: it isn't clear which --take the globs belong to; use --take SIDE:GLOB for each
    exit 2
    "#);
    assert!(dir.run(["merge", "draft", "lib/**"]).contains("--take"), "a glob without a side is an error");
    assert!(dir.run(["merge", "draft", "--content", "/code/c"]).contains("2 values required"));
    assert_eq!(dir.run(["cat", "/code/c"]), "target");
}

#[test]
fn g28_a_fork_can_be_merged_after_a_backup_from_before_its_merge_was_restored() {
    let dir = two_agents();
    let coder = |args: &[&str]| dir.run(["--agent", "coder"].into_iter().chain(args.iter().copied()));
    std::fs::write(dir.path("code/t"), "1\n2\n3\n4\n5\n").unwrap();
    coder(&["fork", "/code", "draft"]);
    coder(&["edit", "/forks/draft/t", "1", "one"]);
    coder(&["edit", "/code/t", "5", "five"]);
    dir.run(["backup", "backup.db"]);
    assert!(coder(&["merge", "draft"]).contains("Merged the fork draft: 1 change"));
    dir.run(["restore-backup", "backup.db", "--yes"]);
    assert_eq!(coder(&["cat", "/forks/draft/t"]), "one\n2\n3\n4\n5");
    assert_eq!(coder(&["merge", "draft"]), "! Nothing to merge.");
    coder(&["edit", "/forks/draft/t", "3", "three"]);
    let merged = coder(&["merge", "draft"]);
    assert!(merged.contains("Merged the fork draft: 1 change"), "{merged}");
    assert_eq!(std::fs::read_to_string(dir.path("code/t")).unwrap(), "one\n2\nthree\n4\nfive\n");
}

#[test]
fn g24_a_glob_that_leaves_nothing_out_is_refused_and_paths_of_the_workspace_are_globs_for_every_fork() {
    let dir = TestDir::empty();
    let agents = ["a", "b"].map(|agent| {
        format!("[agents.{agent}]\nworkspaces = [{{ prefix = \"/w\", store = \"s\", scope = \"rw\" }}]\n")
    });
    dir.file("stead.toml", &format!("[stores.s]\nkind = \"virtual\"\n{}", agents.concat()));
    let run =
        |agent: &str, args: &[&str]| dir.run(["--agent", agent].into_iter().chain(args.iter().copied()));
    run("a", &["write", "/w/t", "1"]);
    run("b", &["fork", "/w", "k"]);
    run("b", &["write", "/forks/k/t", "2"]);
    run("b", &["write", "/forks/k/u", "2"]);
    for typo in ["tt", "/w/tt", "./tt"] {
        for (agent, fork) in [("b", "k"), ("a", "b/k")] {
            let refused = run(agent, &["merge", fork, "--leave", typo]);
            assert!(refused.contains("matches none of the changes, so nothing was done"), "{refused}");
        }
    }
    assert!(run("a", &["cat", "/w/u"]).contains("does not exist"));
    for path in ["t", "./t", "/w/t"] {
        for (agent, fork) in [("b", "k"), ("a", "b/k")] {
            let planned = run(agent, &["merge", fork, "-n", "--leave", path]);
            assert!(planned.contains("left out   /w/t") && planned.contains("added      /w/u"), "{planned}");
        }
    }
    // The path that `stead forks` lists names the fork, too.
    assert!(run("b", &["diff", "--fork", "/forks/k", "--stat"]).contains("/forks/k/u"));
    assert!(run("b", &["update", "/forks/k/", "-n"]).contains("This would be 0 changes"));
    // An update that only decides a conflict says that the fork keeps its side.
    run("a", &["write", "/w/t", "3"]);
    let kept = run("b", &["update", "k", "--take", "fork"]);
    assert!(
        kept.contains("it keeps its own side, and the next merge brings that into the Workspace"),
        "{kept}"
    );
}

#[test]
fn forks_of_several_directories_of_a_workspace_are_listed_with_their_directories() {
    let dir = TestDir::empty();
    let agents = [("op", "/all", "/"), ("m", "/sub", "/sub"), ("n", "/deep", "/sub/deep")].map(|(agent, prefix, path)| {
        format!(
            "[agents.{agent}]\nworkspaces = [{{ prefix = \"{prefix}\", store = \"s\", path = \"{path}\", scope = \"rw\" }}]\n"
        )
    });
    dir.file("stead.toml", &format!("[stores.s]\nkind = \"virtual\"\n{}", agents.concat()));
    for (agent, prefix) in [("m", "/sub"), ("n", "/deep")] {
        dir.run(["--agent", agent, "write", &format!("{prefix}/t"), "1"]);
        dir.run(["--agent", agent, "fork", prefix, "f"]);
    }
    let listed = without_times(&dir.run(["--agent", "op", "forks", "--all"]));
    assert_eq!(listed, "m/f  of /all/sub, made TIME\nn/f  of /all/sub/deep, made TIME");
}
