use serde_json::{Value, json};
use stead::{Tool, Toolbox};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{Colour, Session};

/// Show the agent's tools
///
/// With --json, each tool has its schemas, in MCP's form.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this tool
    #[arg(value_name = "TOOL")]
    tool: Option<String>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let toolbox = session.stead_of_agent()?.toolbox();
    let mut tools: Vec<_> = toolbox.offered().collect();
    if let Some(name) = &args.tool {
        tools.retain(|tool| tool.name == name);
        if tools.is_empty() {
            let name = name.escape_debug();
            let message = format!("the agent has no tool `{name}`; `stead tools` lists its tools");
            return Err(CommandError::Message(stead::ErrorKind::NotFound, message));
        }
    }
    if session.wants_json() {
        session.print_json(&tools.iter().map(|tool| as_json(tool, &toolbox)).collect())?;
        return Ok(Exit::OK);
    }
    session.use_pager();
    for (index, tool) in tools.iter().enumerate() {
        if index > 0 {
            session.print_line("")?;
        }
        print_tool(tool, &toolbox, session)?;
    }
    if tools.is_empty() {
        session.say("The agent has no tools: it has no Workspaces, or their scopes allow none of its tools.");
    }
    Ok(Exit::OK)
}

fn print_tool(tool: &Tool, toolbox: &Toolbox, session: &mut Session) -> Result<(), CommandError> {
    let name = session.paint(Colour::Bold, tool.name);
    session.print_line(name)?;
    session.print_line(format_args!("  {}", toolbox.description(tool)))?;
    for field in tool.input {
        let optional = if field.required { "" } else { ", optional" };
        session.print_line(format_args!(
            "    {} ({}{optional}): {}",
            field.name,
            field.field_type.describe(),
            field.description
        ))?;
    }
    Ok(())
}

fn as_json(tool: &Tool, toolbox: &Toolbox) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": toolbox.description(tool),
        "inputSchema": tool.input_schema(),
        "outputSchema": tool.output_schema(),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        },
        "capabilities": tool.capabilities.iter().map(|capability| capability.name()).collect::<Vec<_>>(),
    })
}
