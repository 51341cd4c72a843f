//! The first five minutes of a new user.

use crate::common::TestDir;
use insta::assert_snapshot;

#[test]
fn without_a_configuration_the_error_says_what_to_do() {
    assert_snapshot!(TestDir::empty().run(["ls"]), @r#"
    ! stead: there is no configuration here; run `stead init` to create a stead.toml, or name one with --config
    exit 2
    "#);
}

#[test]
fn the_configuration_of_init_works_at_once() {
    let dir = TestDir::empty();
    dir.file("README.md", "# Hello\nThe quick brown fox.\n");
    assert_snapshot!(dir.run(["init"]), @r#"
    ! Wrote stead.toml. Try `stead ls -l /`, then `stead write /notes/hello.md "Hello"`.
    "#);
    assert_snapshot!(dir.run(["config", "check"]), @"stead.toml is fine: 2 Stores, 1 agent.");
    assert_snapshot!(dir.run(["ls"]), @r#"
    notes/
    project/
    "#);
    assert_snapshot!(dir.run(["ls", "/project"]), @"README.md");
    assert_snapshot!(dir.run(["cat", "/project/README.md"]), @r#"
    # Hello
    The quick brown fox.
    "#);
    assert_snapshot!(dir.run(["write", "/project/README.md", "mine"]), @r#"
    ! stead: `/project/README.md` is in the Workspace `/project`, which is READ_ONLY: writing is not allowed there; you may write in `/notes`
    exit 1
    "#);
    assert_snapshot!(dir.run(["write", "/notes/plan.md", "one\ntwo\nthree\n"]), @"! Created /notes/plan.md");
    assert_snapshot!(dir.run(["edit", "/notes/plan.md", "two", "2"]), @r#"
         1	one
         2	2
         3	three
    ! Made 1 replacement in /notes/plan.md
    "#);
    assert_snapshot!(dir.run(["edit", "/notes/plan.md", "  three", "3"]), @r#"
    ! stead: `/notes/plan.md` doesn't contain the text to replace: it differs in white space at line 3, which is `three`
    exit 1
    "#);
    assert_snapshot!(dir.run(["cat", "/notes/pln.md"]), @r#"
    ! stead: `/notes/pln.md` does not exist; did you mean `/notes/plan.md`?
    exit 1
    "#);
    assert_snapshot!(dir.run(["append", "/notes/plan.md", "four\n"]), @"! Appended to /notes/plan.md");
    assert_snapshot!(dir.run(["cat", "--lines", "2:3", "/notes/plan.md"]), @r#"
    2
    three
    "#);
    assert_snapshot!(dir.run(["grep", "-i", "FOUR|quick"]), @r#"
    /notes/plan.md:4:four
    /project/README.md:2:The quick brown fox.
    "#);
    assert_snapshot!(dir.run(["grep", "-C", "1", "2", "/notes"]), @r#"
    /notes/plan.md-1-one
    /notes/plan.md:2:2
    /notes/plan.md-3-three
    "#);
    assert_snapshot!(dir.run(["glob", "**/*.md"]), @r#"
    /notes/plan.md
    /project/README.md
    "#);
    assert_snapshot!(dir.run(["cp", "/project/README.md", "/notes/"]), @"! Copied /project/README.md to /notes/README.md");
    assert_snapshot!(dir.run(["mkdir", "-p", "/notes/a/b"]), @"");
    assert_snapshot!(dir.run(["mv", "/notes/README.md", "/notes/a/b/"]), @"! Moved /notes/README.md to /notes/a/b/README.md");
    assert_snapshot!(dir.run(["tree"]), @r#"
    /
    ├── notes/
    │   ├── a/
    │   │   └── b/
    │   │       └── README.md
    │   └── plan.md
    └── project/
        └── README.md
    "#);
    assert_snapshot!(dir.run(["rm", "-r", "/notes/a", "/notes/plan.md"]), @"");
    assert_eq!(dir.run(["verify"]).matches("nothing is wrong").count(), 2);
}

#[test]
fn a_configuration_is_not_overwritten_by_accident() {
    let dir = TestDir::new();
    dir.file("stead.toml", "mine");
    assert_snapshot!(dir.run(["init"]), @r#"
    ! stead: `stead.toml` exists already; use --force to replace it
    exit 1
    "#);
    assert_eq!(std::fs::read_to_string(dir.path("stead.toml")).unwrap(), "mine");
    assert_snapshot!(dir.run(["init", "--force"]), @r#"
    ! Wrote stead.toml. Try `stead ls -l /`, then `stead write /notes/hello.md "Hello"`.
    "#);
    assert_snapshot!(dir.run(["config", "check"]), @"stead.toml is fine: 2 Stores, 1 agent.");
}

#[test]
fn an_agent_reaches_neither_the_configuration_nor_the_state() {
    let dir = TestDir::new();
    dir.stead(["write", "/notes/x", "secret"]);
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    std::fs::write(dir.path("stead.toml"), config.replace("READ_ONLY", "READ_WRITE")).unwrap();
    assert_snapshot!(dir.run(["ls", "/project"]), @r#"
    README.md
    src/
    "#);
    assert_snapshot!(dir.run(["cat", "/project/stead.toml", "/project/.stead/stead.db"]), @r#"
    ! stead: `/project/stead.toml` does not exist; list its directory to see what does
    ! stead: `/project/.stead/stead.db` does not exist; list its directory to see what does
    exit 1
    "#);
    for path in ["/project/stead.toml", "/project/.stead/x", "/project/.stead"] {
        let before = std::fs::read(dir.path("stead.toml")).unwrap();
        assert!(!dir.stead(["write", path, "mine"]).status.success(), "{path}");
        assert!(!dir.stead(["rm", "-r", path]).status.success(), "{path}");
        assert!(!dir.stead(["mv", path, "/project/moved"]).status.success(), "{path}");
        assert_eq!(std::fs::read(dir.path("stead.toml")).unwrap(), before);
    }
}
