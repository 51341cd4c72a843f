//! Names that are hidden from agents, at the command line and over MCP.

use insta::assert_snapshot;

use crate::common::TestDir;

fn project() -> TestDir {
    let dir = TestDir::new();
    dir.file(".env", "TOKEN=secret\n");
    dir.file(".env.example", "TOKEN=\n");
    dir.file("src/server.key", "secret\n");
    dir
}

#[test]
fn a_hidden_file_does_not_exist_for_an_agent() {
    let dir = project();
    assert_snapshot!(dir.run(["ls", "/project"]), @r"
    .env.example
    README.md
    src/
    ");
    assert_snapshot!(dir.run(["cat", "/project/.env"]), @r"
    ! stead: `/project/.env` does not exist; list its directory to see what does
    exit 1
    ");
    assert_snapshot!(dir.run(["grep", "-l", "TOKEN", "/"]), @"/project/.env.example");
    assert_snapshot!(dir.run(["write", "/notes/.env", "x"]), @r"
    ! stead: `/notes/.env` can't be created or changed: names like this one are hidden from agents in the Workspace `/notes`; choose another name, or ask the person who runs Stead
    exit 1
    ");
    assert_snapshot!(dir.run(["call", "read_file", r#"{"path": "/project/src/server.key"}"#]), @r"
    ! not_found: `/project/src/server.key` does not exist; list its directory to see what does
    exit 1
    ");
}

#[test]
fn copy_import_and_export_say_how_many_names_they_leave_out() {
    let dir = project();
    assert_snapshot!(dir.run(["cp", "/project/src", "/notes/src"]), @r"
    ! Copied /project/src to /notes/src
    ! 1 name is hidden from this agent and left out.
    ");
    assert_snapshot!(dir.run(["import", "src", "/notes/in"]), @r"
    ! Imported 1 file (13 B), 1 was left out.
    ! 1 name is hidden from agents; use --with-protected to import everything.
    ");
    assert_snapshot!(dir.run(["import", "--with-protected", "src", "/notes/in"]), @"! Imported 1 file (7 B), 1 was unchanged.");
    assert_snapshot!(dir.run(["export", "/notes", "out"]), @r"
    ! Exported 2 files (26 B), 2 directories, 1 was left out.
    ! 1 name is hidden from this agent and left out.
    ");
    assert!(!dir.path("out/in/server.key").exists());
    assert_snapshot!(dir.run(["rm", "-r", "/notes/in"]), @r"
    ! stead: `/notes/in` can't be moved or removed as a whole: it contains names that are hidden from agents, here or where it would go; move or remove the rest of it
    exit 1
    ");
}

#[test]
fn the_list_at_the_top_of_the_file_replaces_the_default() {
    let dir = project();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    dir.file("stead.toml", &format!("hide = [\"*.md\"]\n{config}"));
    assert_snapshot!(dir.run(["glob", "**/*.{env,md,key}", "/project"]), @r"
    /project/.env
    /project/src/server.key
    ");
    dir.file("stead.toml", &format!("hide = []\n{config}"));
    assert_snapshot!(dir.run(["cat", "/project/.env"]), @"TOKEN=secret");
}
