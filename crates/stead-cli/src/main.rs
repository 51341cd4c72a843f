//! The binary `stead`: parses the arguments, runs one command and reports its result.

// These panic if the output is closed: `Session` and `print_to_stderr` don't.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod allocator;
mod command_error;
mod commands;
mod credential;
mod human;
mod interrupt;
mod json;
mod output;
mod progress;
#[cfg(test)]
mod reference;
mod session;
mod telemetry;

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser};
use stead_server::print_to_stderr;

use command_error::Exit;
use commands::Command;
use session::{Globals, Session};

/// A bounded place for every AI agent to work.
#[derive(Debug, Parser)]
#[command(name = "stead", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// `stead mcp` alone. Hosts start it often and wait for it, and building clap's tree of all commands takes longer than
/// parsing these arguments.
#[derive(Debug, Parser)]
#[command(name = "stead")]
struct McpCli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: McpCommand,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    Mcp(commands::mcp::Args),
}

fn main() -> ExitCode {
    allocator::tune_allocator();
    stead::set_operator_notifier(|text| print_to_stderr(format_args!("stead: {text}")));
    let credential = credential::take();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error),
    };
    let mut session = Session::new(cli.globals, credential);
    let exit = match session.change_directory().and_then(|()| cli.command.run(&mut session)) {
        Ok(exit) => exit,
        Err(failure) => session.report(&failure),
    };
    exit.max(session.finish()).into()
}

/// Parses the arguments. `stead mcp` is tried first, because its start has to be fast.
fn parse() -> Result<Cli, clap::Error> {
    match McpCli::try_parse() {
        Ok(McpCli { globals, command: McpCommand::Mcp(args) }) => {
            Ok(Cli { globals, command: Command::Mcp(args) })
        }
        Err(_) => Cli::from_arg_matches(&command().try_get_matches()?),
    }
}

/// All commands, as clap has them.
fn command() -> clap::Command {
    // Where a command has its own `-C`, as `grep` does for the lines around a match, the directory has only its long
    // name after the command. Before the command, `-C` is always the directory.
    let directory = Arg::new("directory").long("directory").value_name("DIR");
    let directory = directory
        .value_parser(value_parser!(PathBuf))
        .help("Run as if started in this directory (-C before the command)");
    Cli::command().mut_subcommands(|command| {
        let has_short = command.get_arguments().any(|arg| arg.get_short() == Some('C'));
        if has_short { command.arg(directory.clone()) } else { command }
    })
}

/// Prints a usage error, or the text of `--help` or `--version`, and returns the exit code.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    let asked_for_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && asked_for_json {
        let text = error.to_string();
        let message = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        // If the output is closed, there is nobody to report to.
        let _ = writeln!(std::io::stdout(), "{}", json::error("invalid", message));
    } else if error.use_stderr() && std::env::args_os().any(|argument| has_control_characters(&argument)) {
        print_to_stderr(human::escape_lines(error.to_string().trim_end()));
    } else if error.print().is_err() {
        // The output is closed, so there is nobody to report to.
    }
    if error.use_stderr() { Exit::USAGE.into() } else { Exit::OK.into() }
}

/// Whether an argument can't be repeated in a message unchanged.
fn has_control_characters(argument: &OsStr) -> bool {
    argument.to_str().is_none_or(|text| text.chars().any(char::is_control))
}
