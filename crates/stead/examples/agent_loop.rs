//! An agent loop: a model that calls tools, and a stead that answers.
//!
//! The model here is a script, so that the example runs anywhere. With a real one, send the map as part of the system
//! prompt, the tools with their schemas, and each reply as the result of the call.

use std::sync::Arc;

use serde_json::{Value, json};
use stead::tools::{Block, ToolChoice};
use stead::{AccessScope, MemoryStore, Stead};

/// What a model says: use a tool, or be done.
enum ModelTurn {
    Call(&'static str, Value),
    Done(&'static str),
}

/// A model that goes by a script, and reads what it is answered.
struct ScriptedModel {
    turn: usize,
    replies: Vec<String>,
}

impl ScriptedModel {
    fn next(&mut self, system: &str, tools: &[Value]) -> ModelTurn {
        assert!(system.contains("/handbook: READ_ONLY (RO)"), "the model is told of its Workspaces");
        assert!(tools.iter().any(|tool| tool["name"] == "undo"), "and of its tools");
        self.turn += 1;
        match self.turn {
            1 => ModelTurn::Call("grep", json!({ "pattern": "functions", "path": "/handbook" })),
            2 => ModelTurn::Call("write_file", json!({ "path": "/handbook/rules.md", "content": "none" })),
            3 => ModelTurn::Call(
                "write_file",
                json!({ "path": "/notes/plan.md", "content": "1. small functions\n" }),
            ),
            4 => ModelTurn::Call(
                "edit_file",
                json!({ "path": "/notes/plan.md", "old_string": "small", "new_string": "huge" }),
            ),
            5 => ModelTurn::Call("undo", json!({})),
            6 => ModelTurn::Call("read_file", json!({ "path": "/notes/plan.md" })),
            _ => ModelTurn::Done("The plan follows the handbook."),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (handbook, notes) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let author = Stead::builder("author").workspace("/", AccessScope::ReadWrite, &handbook).build()?;
    author.vfs().write("/rules.md", "Write small functions.\n")?;

    let stead = Stead::builder("coder")
        .workspace("/handbook", AccessScope::ReadOnly, &handbook)
        .workspace("/notes", AccessScope::ReadWrite, &notes)
        .tools(ToolChoice { history: true, ..ToolChoice::default() })
        .build()?;

    let mut model = ScriptedModel { turn: 0, replies: Vec::new() };
    loop {
        // Rebuilt at every turn: Workspaces may have changed. The same ones give the same text.
        let system = format!("You are a careful engineer.\n\n{}", stead.map());
        let toolbox = stead.toolbox();
        let tools: Vec<_> = toolbox
            .offered()
            .map(|tool| {
                json!({
                    "name": tool.name,
                    "description": toolbox.description(tool),
                    "input_schema": tool.input_schema(),
                })
            })
            .collect();
        match model.next(&system, &tools) {
            ModelTurn::Call(tool, arguments) => {
                println!("> {tool} {arguments}");
                let reply = stead.call(tool, arguments);
                let mark = if reply.is_failure() { "!" } else { "<" };
                // What a model can use next, such as a version tag, stands at the end of the text.
                let text: String = reply.for_model().iter().filter_map(Block::as_text).collect();
                println!("{mark} {}", text.trim_end());
                model.replies.push(text);
            }
            ModelTurn::Done(message) => {
                println!("{message}");
                break;
            }
        }
    }
    assert_eq!(model.replies[0], "/handbook/rules.md:1:Write small functions.\n");
    assert!(model.replies[1].contains("which is READ_ONLY"), "a refusal is an answer");
    assert!(model.replies[4].starts_with("Undone."));
    assert!(model.replies[5].starts_with("1. small functions\n[version_tag "));
    Ok(())
}
