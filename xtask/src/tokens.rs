//! `cargo xtask tokens`: what the tools, the map and ten typical answers cost a model, in tokens of o200k.
//!
//! Counts what is on the wire: the text of an answer, and its structured content, which some hosts send to the model
//! instead of the text and others in addition to it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

use crate::Result;
use crate::programs::{self, capture, cargo, program, root};
use crate::stdio_client::StdioClient;
use crate::test_clients::TestClients;
use crate::{compared_servers, sections};

/// Runs the command: `[--before BINARY] [--write]`.
pub(crate) fn run(options: &[&str]) -> Result {
    let (before, write) = match options {
        [] => (None, false),
        ["--write"] => (None, true),
        ["--before", binary] => (Some(*binary), false),
        ["--before", binary, "--write"] => (Some(*binary), true),
        _ => return Err("cargo xtask tokens [--before BINARY] [--write]".into()),
    };
    capture(cargo().args(["build", "--package", "stead-cli"]))?;
    let directory = TestClients::without_fetching()?.fresh_directory("tokens")?;
    let mut columns = Vec::new();
    if let Some(binary) = before {
        columns.push(measure(BEFORE, ComparedServer::Stead, Path::new(binary), &directory.join("before"))?);
    }
    let binary = programs::target().join("debug/stead");
    columns.push(measure("stead", ComparedServer::Stead, &binary, &directory.join("now"))?);
    let node = compared_servers::install_node(&programs::target())?;
    columns.push(measure("server-filesystem", ComparedServer::Node, &node, &directory.join("node"))?);
    let page = root().join("docs/benchmarks.md");
    let text = fs::read_to_string(&page)?;
    // The older binary is seldom at hand, and its numbers don't change.
    let earlier = if before.is_none() { column(&text, BEFORE) } else { None };
    let table = table(&columns, earlier.as_deref());
    println!("{table}");
    if write {
        fs::write(&page, sections::replace_sections(&text, &table)?)?;
    }
    Ok(())
}

/// The label of the column for an older binary.
const BEFORE: &str = "stead before";

/// The labels of the rows and the cells of one column in the table of a page, if it has that column.
fn column<'p>(page: &'p str, label: &str) -> Option<Vec<(&'p str, &'p str)>> {
    let section = page.split_once(BEGIN)?.1.split_once(END)?.0;
    let mut rows = section.lines().filter(|line| line.starts_with("| "));
    let cells = |line: &'p str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let index = cells(rows.next()?).iter().position(|cell| *cell == label)?;
    rows.map(|row| Some((*cells(row).first()?, *cells(row).get(index)?))).collect()
}

/// The server that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparedServer {
    /// A `stead` binary.
    Stead,
    /// A script for Node: npm `@modelcontextprotocol/server-filesystem`.
    Node,
}

/// The tokens of an answer: of its text, and of its structured content.
#[derive(Debug, Clone, Copy, Default)]
struct TokenCount {
    text: usize,
    structured: usize,
}

/// What the answers of one server cost; `None` for a call that it doesn't have.
struct CostColumn {
    label: &'static str,
    rows: Vec<(&'static str, Option<TokenCount>)>,
}

fn measure(
    label: &'static str,
    server: ComparedServer,
    binary: &Path,
    directory: &Path,
) -> Result<CostColumn> {
    let files = directory.join("project");
    write_example_files(&files)?;
    let mut client = StdioClient::start(&mut server_command(server, binary, directory, &files)?)?;
    let counter = TokenCounter::new()?;
    let initialized = client.initialize()?;
    let tools = client.request("tools/list", &json!({}))?["tools"].to_string();
    let map = initialized["instructions"].as_str().unwrap_or_default().to_owned();
    let text = |text: &str| Some(TokenCount { text: counter.count_text(text), structured: 0 });
    let mut rows = vec![("tools, as listed", text(&tools)), ("instructions: the map", text(&map))];
    for (label, call) in calls(server, &files) {
        let tokens = match call {
            Some((tool, arguments)) => Some(counter.count_answer(
                &client.request("tools/call", &json!({ "name": tool, "arguments": arguments }))?,
            )),
            None => None,
        };
        rows.push((label, tokens));
    }
    Ok(CostColumn { label, rows })
}

/// Writes a small project, the same for every server.
fn write_example_files(files: &Path) -> Result {
    fs::create_dir_all(files.join("src"))?;
    for number in 0..40 {
        let mut text = format!("//! Part {number} of the example.\n\n");
        for part in 0..20 {
            writeln!(
                text,
                "/// Adds {part} to a number.\nfn add_{number}_{part}(to: u64) -> u64 {{\n    to + {part}\n}}\n"
            )?;
        }
        fs::write(files.join(format!("src/part_{number:02}.rs")), text)?;
    }
    let line = |number| format!("{number:05} the quick brown fox jumps over the lazy dog\n");
    fs::write(files.join("log.txt"), (0..5_000).map(line).collect::<String>())?;
    Ok(fs::write(files.join("readme.md"), "# Example\n\nA project with forty parts.\n")?)
}

/// Ten typical calls, in the form that each server has.
fn calls(server: ComparedServer, files: &Path) -> Vec<(&'static str, Option<(&'static str, Value)>)> {
    let path = |relative: &str| match server {
        ComparedServer::Stead => format!("/project/{relative}"),
        ComparedServer::Node => files.join(relative).to_string_lossy().into_owned(),
    };
    let is_ours = server == ComparedServer::Stead;
    let either = |ours: &'static str, other: &'static str| if is_ours { ours } else { other };
    let read = either("read_file", "read_text_file");
    let edit = match server {
        ComparedServer::Stead => {
            json!({ "path": path("readme.md"), "old_string": "forty", "new_string": "many" })
        }
        ComparedServer::Node => {
            json!({ "path": path("readme.md"), "edits": [{ "oldText": "forty", "newText": "many" }] })
        }
    };
    let parts: Vec<_> = (0..3).map(|number| path(&format!("src/part_{number:02}.rs"))).collect();
    let grep = json!({ "pattern": "fn add_1._7", "path": path("src") });
    vec![
        (
            "list 40 files, with sizes",
            Some((either("list_directory", "list_directory_with_sizes"), json!({ "path": path("src") }))),
        ),
        ("read a file of 100 lines", Some((read, json!({ "path": path("src/part_01.rs") })))),
        ("read a log of 5,000 lines", Some((read, json!({ "path": path("log.txt") })))),
        (
            "read three files at once",
            Some((either("read_many", "read_multiple_files"), json!({ "paths": parts }))),
        ),
        ("search in files, 10 hits", is_ours.then_some(("grep", grep))),
        (
            "find 40 files by name",
            Some((either("glob", "search_files"), json!({ "path": path(""), "pattern": "**/*.rs" }))),
        ),
        ("write a file", Some(("write_file", json!({ "path": path("new.md"), "content": "# New\n" })))),
        ("edit a file", Some(("edit_file", edit))),
        ("look at a path", Some((either("stat", "get_file_info"), json!({ "path": path("readme.md") })))),
        ("be denied", Some((read, json!({ "path": "/etc/passwd" })))),
    ]
}

/// Counts tokens of o200k.
struct TokenCounter(CoreBPE);

impl TokenCounter {
    fn new() -> Result<Self> {
        Ok(TokenCounter(tiktoken_rs::o200k_base()?))
    }

    fn count_text(&self, text: &str) -> usize {
        self.0.encode_ordinary(text).len()
    }

    fn count_answer(&self, result: &Value) -> TokenCount {
        let blocks = result["content"].as_array().into_iter().flatten();
        let text = blocks.filter_map(|block| block["text"].as_str()).map(|text| self.count_text(text)).sum();
        let structured =
            result.get("structuredContent").map_or(0, |facts| self.count_text(&facts.to_string()));
        TokenCount { text, structured }
    }
}

/// The command that starts a server for the files.
fn server_command(server: ComparedServer, binary: &Path, directory: &Path, files: &Path) -> Result<Command> {
    match server {
        ComparedServer::Stead => {
            let config = directory.join("stead.toml");
            fs::write(&config, CONFIG)?;
            let mut command = program(binary);
            command.args(["mcp", "--agent", "coder", "--config"]).arg(config);
            Ok(command)
        }
        ComparedServer::Node => {
            let mut command = program("node");
            command.arg(binary).arg(files);
            Ok(command)
        }
    }
}

const CONFIG: &str = r#"
[stores.project]
kind = "physical"
path = "project"

[agents.coder]
history = true
workspaces = [{ prefix = "/project", store = "project", scope = "rw" }]
"#;

const BEGIN: &str = "<!-- begin tokens -->";
const END: &str = "<!-- end tokens -->";

/// The table for the page. `earlier` has the cells of the column [`BEFORE`] that were measured earlier, by row.
fn table(columns: &[CostColumn], earlier: Option<&[(&str, &str)]>) -> String {
    let labels = earlier.map(|_| BEFORE).into_iter().chain(columns.iter().map(|column| column.label));
    let labels: Vec<_> = labels.collect();
    let mut text = format!("{BEGIN}\n| tokens (o200k) | {} |\n", labels.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(labels.len()));
    for (index, (label, _)) in columns[0].rows.iter().enumerate() {
        let earlier = earlier.map(|rows| {
            let row = rows.iter().find(|(known, _)| known == label);
            row.map_or_else(|| cell(None), |(_, cell)| (*cell).to_owned())
        });
        let measured = columns.iter().map(|column| cell(column.rows[index].1));
        let cells: Vec<_> = earlier.into_iter().chain(measured).collect();
        let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
    }
    text + END
}

fn cell(tokens: Option<TokenCount>) -> String {
    match tokens {
        None => "—".to_owned(),
        Some(TokenCount { text, structured: 0 }) => text.to_string(),
        Some(TokenCount { text, structured }) => format!("{text} + {structured}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_structured_content_are_counted_apart() {
        let counter = TokenCounter::new().unwrap();
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        let answer = json!({ "content": [{ "type": "text", "text": "hello world" }, image] });
        let TokenCount { text, structured } = counter.count_answer(&answer);
        assert_eq!((text, structured), (2, 0));
        let answer = json!({ "content": [], "structuredContent": { "a": 1 } });
        assert!(counter.count_answer(&answer).structured > 2);
    }

    #[test]
    fn a_column_that_is_not_measured_again_stays() {
        let rows = vec![("one", Some(TokenCount { text: 7, structured: 2 })), ("two", None)];
        let columns = [CostColumn { label: "stead", rows }];
        let page = format!(
            "Before.\n{BEGIN}\n| t | {BEFORE} | x |\n|---|---:|---:|\n| one | 9 + 1 | 3 |\n{END}\nAfter."
        );
        let earlier = column(&page, BEFORE);
        assert_eq!(earlier, Some(vec![("one", "9 + 1")]));
        assert_eq!(column(&page, "none"), None);
        assert_eq!(
            table(&columns, earlier.as_deref()),
            format!(
                "{BEGIN}\n| tokens (o200k) | {BEFORE} | stead |\n|---|---:|---:|\n| one | 9 + 1 | 7 + 2 |\n| two | — | — |\n{END}"
            )
        );
    }
}
