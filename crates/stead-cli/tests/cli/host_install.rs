//! `stead mcp install` and `uninstall`, with throwaway homes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{TestDir, open_terminal, output_text, read_terminal};

/// A home with a directory `code` in it.
struct Home(TestDir);

impl Home {
    fn new() -> Self {
        let dir = TestDir::empty();
        dir.file("home/code/a", "");
        Home(dir)
    }

    fn path(&self, relative: &str) -> String {
        self.0.path("home").canonicalize().unwrap().join(relative).to_str().unwrap().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args.iter().copied());
        command.current_dir(self.path("")).env("HOME", self.path("")).env("PATH", "/usr/bin");
        command.env_remove("CODEX_HOME").env_remove("CLAUDE_CONFIG_DIR");
        command
    }

    /// Runs the binary at a terminal where a person types `answer`. Returns what the terminal shows, and the exit code.
    fn run_at_terminal(&self, args: &[&str], answer: &str) -> (String, Option<i32>) {
        let (mut terminal, side) = open_terminal(50);
        let mut command = self.command(args);
        command.stdin(side.try_clone().unwrap()).stdout(side.try_clone().unwrap()).stderr(side);
        let mut child = command.spawn().unwrap();
        // The child has the only other end of the terminal now.
        drop(command);
        terminal.write_all(answer.as_bytes()).unwrap();
        let reader = read_terminal(terminal);
        let exit = child.wait().unwrap();
        (reader.join().unwrap(), exit.code())
    }

    /// Runs the binary in the home; the path of the home is shown as `HOME`, and that of the binary as `BINARY`.
    fn run(&self, args: &[&str]) -> String {
        let mut command = self.command(args);
        let text = output_text(&command.output().unwrap(), "no such path".as_ref());
        text.replace(env!("CARGO_BIN_EXE_stead"), "BINARY")
            .replace(self.path("").trim_end_matches('/'), "HOME")
    }

    fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap()
    }

    fn json(&self, relative: &str) -> Value {
        serde_json::from_str(&self.read(relative)).unwrap()
    }
}

#[test]
fn every_host_gets_its_entry_once_and_loses_it_again() {
    let home = Home::new();
    let (binary, directory) = (env!("CARGO_BIN_EXE_stead"), format!("{}:rw", home.path("code")));
    let plain = json!({ "command": binary, "args": ["mcp", directory] });
    let typed = json!({ "type": "stdio", "command": binary, "args": ["mcp", directory] });
    let list = json!({ "type": "local", "command": [binary, "mcp", directory] });
    for (host, file, key, entry) in [
        ("claude", ".claude.json", "mcpServers", &typed),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers", &plain),
        ("cursor", ".cursor/mcp.json", "mcpServers", &plain),
        ("vscode", ".config/Code/User/mcp.json", "servers", &typed),
        ("gemini", ".gemini/settings.json", "mcpServers", &plain),
        ("opencode", ".config/opencode/opencode.json", "mcp", &list),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers", &plain),
    ] {
        let install = ["mcp", "install", host, "code:rw", "-y"];
        let output = home.run(&install);
        assert!(output.contains(&format!("Wrote HOME/{file}.")), "{host}: {output}");
        assert_eq!(home.json(file), json!({ key: { "stead": entry } }), "{host}");
        let again = home.run(&install);
        assert_eq!(again, format!("! Nothing changes in HOME/{file}."), "{host}");
        home.run(&["mcp", "uninstall", host, "-y"]);
        assert_eq!(home.json(file), json!({ key: {} }), "{host}");
        assert_eq!(home.run(&["mcp", "uninstall", host, "-y"]), format!("! Nothing changes in HOME/{file}."));
    }
    home.run(&["mcp", "install", "codex", "code:rw", "-y"]);
    let expected =
        format!("[mcp_servers.stead]\ncommand = \"{binary}\"\nargs = [\"mcp\", \"{directory}\"]\n");
    assert_eq!(home.read(".codex/config.toml"), expected);
}

#[test]
fn what_else_is_in_the_file_stays_and_the_old_file_is_kept() {
    let home = Home::new();
    let before = "{\n    \"oauth\": \"secret\",\n    \"mcpServers\": {\n        \"docs\": {\"command\": \"docs\"}\n    },\n    \"last\": 1\n}\n";
    home.0.file("home/.claude.json", before);
    fs::set_permissions(home.path(".claude.json"), fs::Permissions::from_mode(0o600)).unwrap();
    let output = home.run(&["mcp", "install", "claude", "code", "--name", "files", "-y"]);
    assert!(!output.contains("secret"), "only what changes is shown: {output}");
    insta::assert_snapshot!(output, @r#"
    ! --- HOME/.claude.json
    ! +++ HOME/.claude.json
    ! @@ -3,3 +3,8 @@
    !      "mcpServers": {
    ! -        "docs": {"command": "docs"}
    ! +        "docs": {"command": "docs"},
    ! +        "files": {
    ! +            "type": "stdio",
    ! +            "command": "BINARY",
    ! +            "args": ["mcp", "HOME/code:ro"]
    ! +        }
    !      },
    ! Wrote HOME/.claude.json. The old one is HOME/.claude.json.stead-backup. Restart Claude Code to use it.
    "#);
    assert_eq!(home.read(".claude.json.stead-backup"), before);
    let written = home.read(".claude.json");
    assert!(
        written.starts_with("{\n    \"oauth\": \"secret\",\n") && written.ends_with("    \"last\": 1\n}\n")
    );
    assert_eq!(
        home.json(".claude.json")["mcpServers"]["files"]["args"][1],
        format!("{}:ro", home.path("code"))
    );
    let mode = |file: &str| fs::metadata(home.path(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(".claude.json"), mode(".claude.json.stead-backup")), (0o600, 0o600));
    home.run(&["mcp", "uninstall", "claude", "--name", "files", "-y"]);
    assert_eq!(home.read(".claude.json"), before);
}

#[test]
fn nothing_is_written_without_a_yes() {
    let home = Home::new();
    let output = home.run(&["mcp", "install", "cursor", "code"]);
    assert!(output.contains("+    \"stead\": {"), "the difference is shown: {output}");
    assert!(output.contains("there is no terminal to ask at; run it with -y"), "{output}");
    assert!(output.ends_with("exit 2"), "{output}");
    assert!(!fs::exists(home.path(".cursor")).unwrap());
    insta::assert_snapshot!(home.run(&["mcp", "install", "cursor", "code", "--print"]), @r#"
    {
      "mcpServers": {
        "stead": {
          "command": "BINARY",
          "args": ["mcp", "HOME/code:ro"]
        }
      }
    }
    ! Cursor reads this JSON from HOME/.cursor/mcp.json.
    "#);
    assert!(!fs::exists(home.path(".cursor")).unwrap());
}

#[test]
fn a_broken_file_is_left_alone() {
    let home = Home::new();
    for (host, file, text) in [
        ("claude", ".claude.json", "{\"mcpServers\": {"),
        ("vscode", ".config/Code/User/mcp.json", "{\"servers\": []}"),
        ("codex", ".codex/config.toml", "model = "),
    ] {
        home.0.file(&format!("home/{file}"), text);
        for args in [&["mcp", "install", host, "code", "-y"][..], &["mcp", "uninstall", host, "-y"]] {
            let output = home.run(args);
            assert!(output.contains(&format!("`HOME/{file}` is left as it is: ")), "{output}");
            assert!(output.ends_with("exit 2"), "{output}");
        }
        assert_eq!(home.read(file), text);
    }
}

#[test]
fn without_directories_the_configuration_that_is_found_is_entered() {
    let home = Home::new();
    let entry = |host: &str, extra: &[&str]| {
        let output = home.run(&[&["mcp", "install", host, "--print", "--json"], extra].concat());
        serde_json::from_str::<Value>(&output).map_or(output, |value| value["entry"]["args"].to_string())
    };
    assert!(entry("claude", &[]).contains("there is no configuration here"));
    // What was served once is served again.
    home.run(&["mcp", "code:rw"]);
    assert_eq!(entry("claude", &["-C", "code"]), r#"["mcp","--agent","agent","HOME/code:rw"]"#);
    home.run(&["init"]);
    assert_eq!(entry("claude", &["-C", "code"]), r#"["mcp","--agent","coder","--config","HOME/stead.toml"]"#);
    assert!(entry("claude", &["--agent", "nobody"]).contains("there is no agent `nobody`"));
    let refused = home.run(&["mcp", "install", "claude", "code:rw", "code:wo", "--print"]);
    assert!(refused.contains("keep one of the two"), "{refused}");
}

#[test]
fn a_project_has_its_own_file_where_the_host_has_one() {
    let home = Home::new();
    home.0.file("home/code/.vscode/mcp.json", "{\n  // ours\n  \"servers\": {},\n}\n");
    home.run(&["-C", "code", "mcp", "install", "vscode", ".:rw", "--project", "-y"]);
    let written = home.read("code/.vscode/mcp.json");
    assert!(
        written.contains("// ours") && written.contains(&format!("\"{}:rw\"", home.path("code"))),
        "{written}"
    );
    let output = home.run(&["mcp", "install", "windsurf", "code", "--project", "-y"]);
    assert!(output.contains("Windsurf has no file for a project; leave --project out"), "{output}");
}

#[test]
fn a_directory_named_install_is_reached_by_its_path() {
    let home = Home::new();
    home.0.file("home/install/a", "");
    assert!(home.run(&["mcp", "install"]).contains("<HOST>"));
    let output = home.run(&["mcp", "./install:rw"]);
    assert!(output.contains("stead -C ~/install undo"), "{output}");
    assert!(
        home.run(&["mcp", "code", "install"]).contains("stead -C ~/code audit"),
        "only the first word is a command"
    );
}

#[test]
fn a_host_that_a_shell_starts_gets_the_name_of_the_binary_if_a_shell_finds_it() {
    let home = Home::new();
    fs::create_dir(home.path("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_stead"), home.path("bin/stead")).unwrap();
    let command_for = |host: &str, extra: &[&str]| {
        let args = [&["mcp", "install", host, "code", "--print", "--json"], extra].concat();
        let mut command = home.0.command(args);
        command.current_dir(home.path("")).env("HOME", home.path("")).env("PATH", home.path("bin"));
        let value: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        value["entry"]["command"].as_str().unwrap().to_owned()
    };
    assert_eq!(command_for("claude", &[]), "stead");
    assert_eq!(command_for("cursor", &["--project"]), "stead");
    // A program of the desktop may have another PATH. The symlink stays when a new version is installed.
    assert_eq!(command_for("cursor", &[]), home.path("bin/stead"));
}

#[test]
fn a_person_at_a_terminal_is_asked_before_anything_is_written() {
    let home = Home::new();
    let install = ["mcp", "install", "cursor", "code:rw"];
    // An empty line and the end of the input (Ctrl-D) mean no.
    for answer in ["n\n", "\n", "\u{4}", "yep\n"] {
        let (shown, exit) = home.run_at_terminal(&install, answer);
        assert!(shown.contains("Write it? [y/N]") && shown.contains("Nothing was changed."), "{shown}");
        assert!(shown.contains("+    \"stead\": {"), "the difference comes before the question: {shown}");
        assert_eq!(exit, Some(1));
        assert!(!home.0.path("home/.cursor").exists(), "{answer:?}");
    }
    for answer in ["y\n", "YES\n"] {
        let (shown, exit) = home.run_at_terminal(&install, answer);
        assert!(shown.contains("Wrote ") && shown.contains("Restart Cursor"), "{shown}");
        assert_eq!((exit, home.json(".cursor/mcp.json")["mcpServers"]["stead"].is_object()), (Some(0), true));
        fs::remove_dir_all(home.path(".cursor")).unwrap();
    }
}

#[test]
fn a_file_with_a_byte_order_mark_is_changed_and_one_with_an_entry_twice_is_not() {
    let home = Home::new();
    home.0.file("home/.cursor/mcp.json", "\u{feff}{}\n");
    let install = ["mcp", "install", "cursor", "code:rw", "-y"];
    assert!(home.run(&install).contains("Wrote HOME/.cursor/mcp.json"));
    assert!(home.read(".cursor/mcp.json").starts_with("\u{feff}{\n"));
    let twice = r#"{"mcpServers": {"stead": {"command": "a"}, "stead": {"command": "b"}}}"#;
    home.0.file("home/.cursor/mcp.json", twice);
    let refused = home.run(&install);
    assert!(refused.contains("is left as it is: it has `stead` twice in one object"), "{refused}");
    assert_eq!(home.read(".cursor/mcp.json"), twice);
}
