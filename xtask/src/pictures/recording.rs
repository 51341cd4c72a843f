//! A session with a demo stead: an agent reads, is denied and edits; then a person looks and undoes.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::Result;
use crate::programs::{capture, program};
use crate::stdio_client::{STEAD_VARIABLES, StdioClient};
use crate::varying_text::{self, Variable};

/// The files and the configuration of the demo.
const FILES: [(&str, &str); 3] = [
    ("handbook/prices.md", "All prices are in cents.\n"),
    ("shop/cart.py", "def total(prices):\n    return sum(prices) / 100\n"),
    (
        "stead.toml",
        r#"
[stores.shop]
kind = "physical"
path = "shop"

[stores.handbook]
kind = "physical"
path = "handbook"

[agents.coder]
workspaces = [
    { prefix = "/shop", scope = "rw", store = "shop" },
    { prefix = "/handbook", scope = "ro", store = "handbook" },
]
"#,
    ),
];

/// A line of the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedLine {
    pub(super) kind: LineKind,
    pub(super) text: String,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    /// Who acts from here on.
    Heading,
    /// A tool call of the agent.
    Call,
    /// A command of the person.
    Command,
    /// What a tool or a command answers.
    Answer,
    /// A line that a diff adds.
    Added,
    /// A line that a diff removes.
    Removed,
    /// A refusal.
    Denied,
}

/// Plays the session with this binary.
pub(super) fn record(binary: &Path) -> Result<Vec<RecordedLine>> {
    let directory = tempfile::tempdir()?;
    for (name, content) in FILES {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory"))?;
        fs::write(path, content)?;
    }
    let mut recording = Recording { binary, directory: directory.path(), lines: Vec::new() };

    recording
        .add(LineKind::Heading, "An agent, connected over MCP: /handbook is READ_ONLY, /shop is READ_WRITE");
    let mut server = recording.program(binary);
    let mut agent = StdioClient::start(server.args(["mcp", "--agent", "coder"]))?;
    agent.initialize()?;
    recording.call(&mut agent, "read_file", &[("path", "/handbook/prices.md")])?;
    let edit = [("path", "/handbook/prices.md"), ("old_string", "cents"), ("new_string", "euros")];
    recording.call(&mut agent, "edit_file", &edit)?;
    let edit = [("path", "/shop/cart.py"), ("old_string", " / 100"), ("new_string", "")];
    recording.call(&mut agent, "edit_file", &edit)?;
    drop(agent);

    recording.add(LineKind::Heading, "You, in a terminal");
    recording.command(&["log"])?;
    recording.command(&["diff", "/shop", "1h"])?;
    recording.command(&["undo"])?;
    Ok(recording.lines)
}

struct Recording<'r> {
    binary: &'r Path,
    directory: &'r Path,
    lines: Vec<RecordedLine>,
}

impl Recording<'_> {
    /// A program in the directory of the demo.
    fn program(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = program(name);
        command.current_dir(self.directory).env("HOME", self.directory).env("NO_COLOR", "1");
        for name in STEAD_VARIABLES {
            command.env_remove(name);
        }
        command
    }

    /// Calls a tool, and adds the call and its answer.
    fn call(&mut self, agent: &mut StdioClient, tool: &str, arguments: &[(&str, &str)]) -> Result {
        let shown: Vec<_> = arguments.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        self.add(LineKind::Call, &format!("{tool}  {}", shown.join(", ")));
        let arguments: serde_json::Map<_, _> =
            arguments.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        let answer = agent.request("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        let text = answer["content"][0]["text"].as_str().ok_or("the answer has no text")?;
        let kind = if answer["isError"] == true { LineKind::Denied } else { LineKind::Answer };
        for line in text.lines() {
            self.add(kind, line);
        }
        Ok(())
    }

    /// Runs a command, and adds it with what it prints.
    fn command(&mut self, arguments: &[&str]) -> Result {
        self.add(LineKind::Command, &format!("stead {}", arguments.join(" ")));
        // The shell merges standard error into the output, as a terminal does.
        let mut shell = self.program("sh");
        shell.args(["-c", r#""$0" "$@" 2>&1"#]).arg(self.binary);
        let output = capture(shell.args(arguments))?;
        for line in output.lines() {
            let kind = match line.as_bytes() {
                [b'+', ..] => LineKind::Added,
                [b'-', ..] => LineKind::Removed,
                _ => LineKind::Answer,
            };
            self.add(kind, line);
        }
        Ok(())
    }

    fn add(&mut self, kind: LineKind, text: &str) {
        self.lines.push(RecordedLine { kind, text: with_fixed_variables(text) });
    }
}

/// The text with the same ids and times in every recording.
fn with_fixed_variables(text: &str) -> String {
    varying_text::replace(text, |kind, found| match kind {
        Variable::Time => "2026-11-16 09:41".to_owned(),
        Variable::Id if found.contains('-') => "01a1ddfe-db70-73d0-973f-51da99d87c0a".to_owned(),
        Variable::Id => "686a5ce65cf97b41".chars().cycle().take(found.len()).collect(),
        Variable::Duration | Variable::Secret => found.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_of_different_days_are_equal() {
        let shown = "v1  2026-11-16 09:41  coder  01a1ddfe-db70-73d0-973f-51da99d87c0a";
        assert_eq!(
            with_fixed_variables("v1  2027-02-03 10:11  coder  0fffffff-1111-7222-8333-444444444444"),
            shown
        );
        assert_eq!(with_fixed_variables("[version_tag 0d3ff7c0b52e]"), "[version_tag 686a5ce65cf9]");
    }
}
