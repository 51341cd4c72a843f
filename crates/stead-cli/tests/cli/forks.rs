//! Forks, from creating one to discarding it.

use crate::common::TestDir;
use insta::assert_snapshot;

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
    // A fork of the fork prevents it from being discarded.
    assert_snapshot!(coder(&["fork", "/forks/draft", "second"]), @"! Forked /forks/draft as /forks/second");
    assert_snapshot!(coder(&["discard", "draft"]), @r#"
    ! stead: the fork `draft` can't be discarded: it has forks; discard them first
    exit 1
    "#);
    assert_snapshot!(coder(&["discard", "second"]), @"! Discarded the fork second");
    assert_snapshot!(coder(&["discard", "draft"]), @"! Discarded the fork draft");
    assert_snapshot!(coder(&["discard", "draft"]), @r#"
    ! stead: you have no fork `draft`; create one with `stead fork`
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
    ! stead: you have no fork `draft`; create one with `stead fork`
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
    ! stead: you have no fork `draft`; create one with `stead fork`
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
