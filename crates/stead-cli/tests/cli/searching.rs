//! `grep`, `glob`, `tree` and `ls -R` with the flags that people know from grep, ripgrep and tree.

use crate::common::TestDir;
use insta::assert_snapshot;

/// A project with ignored files.
fn project() -> TestDir {
    let dir = TestDir::empty();
    for (path, content) in [
        (".git/config", "[core]\n"),
        (".git/info/exclude", "*.swp\n"),
        (".gitignore", "target/\n*.log\n"),
        ("docs/guide.md", "The Fox and the foxes.\nEnd.\n"),
        ("src/main.rs", "fn main() {\n    fox();\n}\n"),
        ("src/run.log", "fox\n"),
        ("target/out.rs", "fox\n"),
        ("x.swp", "fox\n"),
    ] {
        dir.file(path, content);
    }
    dir.file(
        "stead.toml",
        "[stores.code]\nkind = \"physical\"\npath = \".\"\n\n[agents.coder]\n\
         [[agents.coder.workspaces]]\nprefix = \"/p\"\nscope = \"rw\"\nstore = \"code\"\n",
    );
    dir
}

#[test]
fn ignored_files_are_left_out_and_the_user_is_told() {
    let dir = project();
    assert_snapshot!(dir.run(["grep", "fox"]), @r#"
    /p/docs/guide.md:1:The Fox and the foxes.
    /p/src/main.rs:2:    fox();
    ! Left out: ignored files and .git; --no-ignore shows all.
    "#);
    assert_snapshot!(dir.run(["tree", "/p"]), @r#"
    /p
    ├── .gitignore
    ├── docs/
    │   └── guide.md
    └── src/
        └── main.rs
    ! Left out: ignored files and .git; --no-ignore shows all.
    "#);
    assert_snapshot!(dir.run(["glob", "**/*.rs"]), @r#"
    /p/src/main.rs
    ! Left out: ignored files and .git; --no-ignore shows all.
    "#);
    assert_snapshot!(dir.run(["ls", "-R", "/p/src"]), @r#"
    /p/src/main.rs
    ! Left out: ignored files; --no-ignore shows all.
    "#);
    assert_eq!(dir.run(["grep", "fox", "--no-ignore", "-l"]).lines().count(), 5);
    assert_eq!(dir.run(["grep", "fox", "-ul"]).lines().count(), 5);
    assert_eq!(dir.run(["glob", "**/*.rs", "--no-ignore"]), "/p/src/main.rs\n/p/target/out.rs");
    assert!(dir.run(["tree", "--no-ignore"]).contains(".git/"));
    assert_eq!(dir.run(["ls", "-R", "--no-ignore", "/p/src"]), "/p/src/main.rs\n/p/src/run.log");
    assert_eq!(dir.run(["grep", "fox", "/p/target", "/p/x.swp"]), "/p/target/out.rs:1:fox\n/p/x.swp:1:fox");
    let json = dir.run(["--json", "grep", "-l", "fox"]);
    assert!(json.contains(r#""left_out":{"git":true,"ignored":true}"#), "{json}");
}

#[test]
fn the_flags_of_grep_and_ripgrep_mean_what_people_expect() {
    let dir = project();
    let grep = |args: &str| dir.run(["grep"].into_iter().chain(args.split(' ')));
    assert_eq!(
        grep("-rn fox /p/src"),
        "/p/src/main.rs:2:    fox();\n! Left out: ignored files; --no-ignore shows all."
    );
    assert_eq!(grep("-w -i fox /p/docs"), "/p/docs/guide.md:1:The Fox and the foxes.");
    assert_eq!(grep("-w foxe /p/docs"), "exit 1");
    assert_eq!(grep("-v fox /p/docs/guide.md"), "/p/docs/guide.md:2:End.");
    assert_eq!(grep("-e nothing -e End /p/docs"), "/p/docs/guide.md:2:End.");
    assert_eq!(grep("-e -x /p/docs"), "exit 1");
    assert_eq!(grep("-S fox -o /p/docs"), "/p/docs/guide.md:1:Fox\n/p/docs/guide.md:1:fox");
    assert_eq!(grep("-c . /p/docs"), "/p/docs/guide.md:2");
    assert_eq!(grep("-l -g *.md -g !x* . /p/docs /p/docs"), "/p/docs/guide.md\n/p/docs/guide.md");
    assert_eq!(grep("-l -g !*.md . /p/docs"), "exit 1");
    assert_eq!(grep("-l -t md . /p/docs"), "/p/docs/guide.md");
    assert_eq!(grep("-l -t rust . /p/docs"), "exit 1");
    assert_eq!(
        grep("-U -A1 main.*\\n.*fox /p/src/main.rs"),
        "/p/src/main.rs:1:fn main() {\n/p/src/main.rs:2:    fox();\n/p/src/main.rs-3-}"
    );
    assert_eq!(grep("-q fox"), "");
    assert_eq!(grep("-q nothing"), "exit 1");
    assert_eq!(grep("-B1 End /p/docs"), "/p/docs/guide.md-1-The Fox and the foxes.\n/p/docs/guide.md:2:End.");
    assert_snapshot!(grep("-P (?<=a)b"), @r#"
    ! stead: -P isn't available: patterns have no look-around and no backreferences. Leave -P out if the pattern has none
    exit 2
    "#);
    assert!(grep("-t rusty x").contains("`rusty` isn't a file type"));
    assert_snapshot!(grep("fox /p/docs /p/none"), @r#"
    /p/docs/guide.md:1:The Fox and the foxes.
    ! stead: `/p/none` does not exist; list its directory to see what does
    exit 1
    "#);
    assert_snapshot!(grep("--max 1 fox /p/docs /p/src"), @r#"
    /p/docs/guide.md:1:The Fox and the foxes.
    ! There are more than 1 matches; raise --max to see them.
    ! Left out: ignored files; --no-ignore shows all.
    "#);
}

#[test]
fn matches_are_highlighted_if_the_user_wants_colours() {
    let dir = project();
    let always = ["grep", "--color", "always", "fox", "/p/docs"];
    let shown = String::from_utf8(dir.stead(always).stdout).unwrap();
    assert_eq!(
        shown,
        "\u{1b}[35m/p/docs/guide.md\u{1b}[0m:\u{1b}[32m1\u{1b}[0m:The Fox and the \u{1b}[31mfox\u{1b}[0mes.\n"
    );
    for choice in ["auto", "never"] {
        assert!(!dir.run(["grep", "--color", choice, "fox", "/p/docs"]).contains('\u{1b}'), "{choice}");
    }
}

#[test]
fn tree_takes_the_flags_of_tree() {
    let dir = project();
    assert_snapshot!(dir.run(["tree", "-a", "-L", "1", "/p"]), @r#"
    /p
    ├── .gitignore
    ├── docs/
    └── src/
    ! Left out: ignored files and .git; --no-ignore shows all.
    "#);
    assert_snapshot!(dir.run(["tree", "-d", "/p"]), @r#"
    /p
    ├── docs/
    └── src/
    ! Left out: ignored files and .git; --no-ignore shows all.
    "#);
}

#[test]
fn an_earlier_version_has_the_ignore_files_of_then() {
    let dir = TestDir::new();
    dir.stead(["write", "/notes/.gitignore", "*.log"]);
    dir.stead(["write", "/notes/a.log", "fox"]);
    dir.stead(["write", "/notes/a.tmp", "fox"]);
    dir.stead(["snapshot", "/notes", "--label", "then"]);
    dir.stead(["write", "/notes/.gitignore", "*.tmp"]);
    assert!(dir.run(["grep", "-l", "fox", "/notes"]).starts_with("/notes/a.log\n!"));
    assert!(dir.run(["grep", "-l", "fox", "/notes", "--at", "then"]).starts_with("/notes/a.tmp\n!"));
    assert!(dir.run(["glob", "a.*", "/notes", "--at", "then"]).starts_with("/notes/a.tmp\n!"));
}

#[test]
fn text_in_utf_16_and_latin_1_is_found_compared_and_printed() {
    let dir = TestDir::new();
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let long_line = format!("caf\u{e9} {}\u{20ac}", "x".repeat(500_000));
    dir.run_with_input(["write", "/notes/wide.txt"], &utf_16(&format!("\u{feff}one\n{long_line}\nthree\n")));
    dir.run_with_input(["write", "/notes/latin.txt"], b"one\ncaf\xe9\n");
    assert_eq!(
        dir.run(["grep", "-o", "caf\u{e9}", "/notes"]),
        "/notes/latin.txt:2:caf\u{e9}\n/notes/wide.txt:2:caf\u{e9}"
    );
    assert_eq!(dir.run(["cat", "--lines", "2:3", "/notes/wide.txt"]), format!("{long_line}\nthree"));
    dir.run(["edit", "/notes/latin.txt", "one", "deux"]);
    assert!(dir.run(["diff", "/notes/latin.txt", "2"]).contains("+deux\n caf\u{e9}"));
    assert!(dir.run(["blame", "/notes/latin.txt"]).ends_with("2  caf\u{e9}"));
}
