use std::io::{BufRead, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use stead::tools::{ApprovalAnswer, ApprovalGrant, Block, Failure as ToolFailure, OfferedWhen};
use stead::{LiveEntry, LiveSteads, Reply, Stead, Toolbox};

use super::content::open_stdin;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::human;
use crate::session::Session;

/// The longest line of input, in bytes.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Call a tool as the agent, and show the answer that a model gets
///
/// With --json, the answer has MCP's form: {"content": [...], "structuredContent": {...}, "isError": false}.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tool
    #[arg(value_name = "TOOL", required_unless_present = "lines")]
    tool: Option<String>,
    /// Its arguments, as a JSON object; `-` reads standard input
    #[arg(value_name = "JSON", default_value = "{}", conflicts_with = "lines")]
    arguments: String,
    /// Read one call per line from standard input, {"tool": ..., "arguments": {...}}, and write one answer per line
    #[arg(long, conflicts_with = "tool")]
    lines: bool,
    /// Approve all calls that need a person's approval
    #[arg(short, long)]
    yes: bool,
}

/// One line of input with `--lines`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallLine {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let answer = if args.yes {
        ApprovalAnswer::Approved(ApprovalGrant::everything())
    } else {
        ApprovalAnswer::NobodyToAsk
    };
    let Some(tool) = &args.tool else { return call_lines(answer, session) };
    let toolbox = session.stead_of_agent()?.toolbox();
    let text = match args.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            let read = open_stdin()?.take(MAX_INPUT_BYTES).read_to_string(&mut text);
            read.map_err(|error| CommandError::host("standard input can't be read", error))?;
            text
        }
        text => text.to_owned(),
    };
    let arguments = serde_json::from_str::<Map<String, Value>>(&text).map_err(|error| {
        CommandError::invalid(format!(
            "the arguments aren't a JSON object such as {{\"path\": \"/\"}}: {error}"
        ))
    })?;
    let reply = call_tool(&toolbox, tool, arguments, answer);
    if session.wants_json() {
        session.print_json(&reply.to_json())?;
    } else {
        print_reply(&reply, session)?;
    }
    Ok(if reply.is_failure() { Exit::NEGATIVE } else { Exit::OK })
}

fn call_tool(toolbox: &Toolbox, tool: &str, arguments: Map<String, Value>, answer: ApprovalAnswer) -> Reply {
    toolbox.call(tool, arguments, answer).expect("no question is asked if everything or nothing is approved")
}

/// The tools of an agent as they are now, and its forks.
struct LiveToolbox(Mutex<(Arc<Toolbox>, Vec<String>)>);

impl LiveToolbox {
    fn new(stead: &Stead) -> Self {
        LiveToolbox(Mutex::new(LiveToolbox::parts(stead)))
    }

    fn parts(stead: &Stead) -> (Arc<Toolbox>, Vec<String>) {
        // A fork that was discarded and made again has the same name.
        let forks = stead.forks().into_iter().flatten();
        (Arc::new(stead.toolbox()), forks.map(|fork| format!("{} {:?}", fork.name, fork.created)).collect())
    }

    /// Nothing that could panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, (Arc<Toolbox>, Vec<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveEntry for LiveToolbox {
    fn replace(&self, stead: &Stead) {
        *self.lock() = LiveToolbox::parts(stead);
    }

    fn refresh(&self, stead: &Stead) -> bool {
        let parts = LiveToolbox::parts(stead);
        let differs = self.lock().1 != parts.1;
        if differs {
            *self.lock() = parts;
        }
        differs
    }

    fn is_needed(&self, _: Duration) -> bool {
        true
    }
}

/// Answers every line of standard input, even one that isn't a valid call. Each call has the forks and the rights that the agent has
/// at that time.
fn call_lines(answer: ApprovalAnswer, session: &mut Session) -> CommandResult {
    let steads = LiveSteads::of(&session.config_of_agent()?);
    let identity = session.identity(&steads.config())?;
    steads.stores().open_audit()?;
    if identity.thread.is_some() {
        // As in every command, a thread past its time-out has ended.
        let _ = steads.sweep_threads();
    }
    let live = steads.get(&identity, LiveToolbox::new)?;
    let mut input = open_stdin()?;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(MAX_INPUT_BYTES).read_until(b'\n', &mut line);
        if read.map_err(|error| CommandError::host("standard input can't be read", error))? == 0 {
            return Ok(Exit::OK);
        }
        if line.len() as u64 == MAX_INPUT_BYTES && !line.ends_with(b"\n") && skip_rest_of_line(&mut input)? {
            let reply: Reply =
                ToolFailure::invalid(format!("a line can have at most {} MiB", MAX_INPUT_BYTES >> 20)).into();
            session.print_json(&reply.to_json())?;
            session.flush()?;
            continue;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let reply = match serde_json::from_slice::<CallLine>(&line) {
            Ok(CallLine { tool, arguments }) => {
                steads.refresh();
                steads.renew(&identity);
                let toolbox = Arc::clone(&live.lock().0);
                let reply = call_tool(&toolbox, &tool, arguments, answer.clone());
                // The answer says where the new fork is, and the next line uses it.
                if stead::tools::tool(&tool)
                    .is_some_and(|tool| tool.offered == OfferedWhen::WithForks && tool.is_mutating())
                {
                    steads.refresh_forks();
                }
                reply
            }
            Err(error) => {
                ToolFailure::invalid(format!("the line isn't a call such as {{\"tool\": \"stat\", \"arguments\": {{\"path\": \"/\"}}}}: {error}"))
                    .into()
            }
        };
        session.print_json(&reply.to_json())?;
        session.flush()?;
    }
}

/// Skips the rest of a line, and returns whether there was any: a last line without a newline may be exactly as long as
/// the limit.
fn skip_rest_of_line(input: &mut impl BufRead) -> Result<bool, CommandError> {
    let mut skipped_any = false;
    loop {
        let buffer =
            input.fill_buf().map_err(|error| CommandError::host("standard input can't be read", error))?;
        let (consumed, is_line_end) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(index) => (index + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        skipped_any |= consumed > 0;
        input.consume(consumed);
        if is_line_end {
            return Ok(skipped_any);
        }
    }
}

fn print_reply(reply: &Reply, session: &mut Session) -> Result<(), CommandError> {
    if let Some(failure) = &reply.failure {
        session.warn(format_args!("{}: {}", failure.kind, human::escape_lines(&failure.message)));
        return Ok(());
    }
    for block in reply.clone().for_model() {
        let Block::Text(text) = block else {
            session.say("The answer also contains an image; --json shows it.");
            continue;
        };
        session.write_output(|out| std::io::Write::write_all(out, text.as_bytes()))?;
        if !text.ends_with('\n') {
            session.print_line("")?;
        }
    }
    Ok(())
}
