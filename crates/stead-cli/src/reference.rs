//! Writes docs/reference/commands.md and docs/reference/tools.md from the definitions of the commands and tools.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use stead::tools::{Field, OfferedWhen, TOOLS};

const COMMANDS: &str = "# Commands

Every command of `stead`, made from the definitions that `stead --help` uses. The guides show how the commands are used
together. Exit codes: 0 success, 1 the answer is no (not found, denied, conflict), 2 wrong usage or configuration, 70 an
internal error, 75 try again later.
";

const TOOL_PAGE: &str = "# Tools

Every tool, with its parameters, made from the definitions that agents receive. [The guide](../guide/tools.md) says which
tools an agent is offered, and what the answers look like. `stead tools --json` prints the JSON Schemas.
";

fn commands_page() -> String {
    let mut cli = crate::command();
    cli.build();
    let mut page = COMMANDS.to_owned();
    page.push_str("\n## Options of every command\n\n");
    write_arguments(&mut page, cli.get_arguments().filter(|argument| argument.is_global_set()));
    for command in cli.get_subcommands() {
        write_command(&mut page, command, "stead");
    }
    page
}

fn write_command(page: &mut String, command: &Command, parent: &str) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{parent} {}", command.get_name());
    write!(page, "\n## {name}\n\n").unwrap();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    writeln!(page, "{}", about.trim_end()).unwrap();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).replace("\n       ", "\n");
    write!(page, "\n```text\n{usage}\n```\n").unwrap();
    let own = || command.get_arguments().filter(|argument| !argument.is_global_set());
    if own().any(is_shown) {
        page.push('\n');
        write_arguments(page, own());
    }
    for subcommand in command.get_subcommands() {
        write_command(page, subcommand, &name);
    }
}

fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
}

fn write_arguments<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    page.push_str("| argument | meaning |\n|---|---|\n");
    for argument in arguments.filter(|argument| is_shown(argument)) {
        let help =
            argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut notes = Vec::new();
        let values: Vec<_> = argument
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set() && takes_value(argument))
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        if !values.is_empty() {
            notes.push(format!("One of {}.", values.join(", ")));
        }
        let defaults: Vec<_> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if takes_value(argument) && !defaults.is_empty() {
            notes.push(format!("Default: `{}`.", defaults.join(" ")));
        }
        let end = if help.is_empty() || help.ends_with('.') { "" } else { "." };
        let text = [vec![format!("{help}{end}")], notes].concat().join(" ").replace('|', "\\|");
        writeln!(page, "| `{}` | {} |", written(argument).replace('|', "\\|"), text.trim()).unwrap();
    }
}

fn takes_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

/// How an argument is written on the command line.
fn written(argument: &Arg) -> String {
    let value = argument
        .get_value_names()
        .map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        .unwrap_or_else(|| argument.get_id().as_str().to_uppercase());
    let flags: Vec<String> = [
        argument.get_short().map(|short| format!("-{short}")),
        argument.get_long().map(|long| format!("--{long}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    match (flags.is_empty(), takes_value(argument)) {
        (true, _) => value,
        (false, true) => format!("{} {value}", flags.join(", ")),
        (false, false) => flags.join(", "),
    }
}

fn tools_page() -> String {
    let mut page = TOOL_PAGE.to_owned();
    for tool in TOOLS {
        write!(page, "\n## {}\n\n{}\n", tool.name, tool.description).unwrap();
        page.push_str(match tool.offered {
            OfferedWhen::Always => "",
            OfferedWhen::WithHistory | OfferedWhen::WithForks => {
                "\nOffered only if the configuration enables it.\n"
            }
            OfferedWhen::WithState => "\nOffered only to agents that have a State.\n",
            OfferedWhen::WithManaged => {
                "\nOffered only to agents that may read a managed Workspace. An agent that may write in none has only the actions \
                 list, search, info and tree.\n"
            }
            OfferedWhen::InOrganization => {
                "\nOffered only to agents of an organization whose records give them the tool.\n"
            }
        });
        write_fields(&mut page, "parameter", tool.input);
        write_fields(&mut page, "structured result", tool.output);
    }
    page
}

fn write_fields(page: &mut String, title: &str, fields: &[Field]) {
    if fields.is_empty() {
        return;
    }
    write!(page, "\n| {title} | type | meaning |\n|---|---|---|\n").unwrap();
    for field in fields {
        let optional = if field.required { "" } else { ", optional" };
        let description = field.description.replace('|', "\\|");
        writeln!(page, "| `{}` | {}{optional} | {description} |", field.name, field.field_type.describe())
            .unwrap();
    }
}

fn check_page(name: &str, page: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("STEAD_WRITE_REFERENCE").is_some() {
        std::fs::write(&file, page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "docs/reference/{name} is out of date: run `cargo xtask reference`");
}

#[test]
fn the_page_of_commands_is_what_the_code_says() {
    check_page("commands.md", &commands_page());
}

#[test]
fn the_page_of_tools_is_what_the_code_says() {
    check_page("tools.md", &tools_page());
}

#[test]
fn every_command_and_argument_has_a_description() {
    let mut cli = crate::command();
    cli.build();
    let mut pending: Vec<&Command> = cli.get_subcommands().collect();
    while let Some(command) = pending.pop() {
        if command.is_hide_set() || command.get_name() == "help" {
            continue;
        }
        assert!(command.get_about().is_some(), "`{}` has no description", command.get_name());
        for argument in command.get_arguments().filter(|argument| is_shown(argument)) {
            assert!(argument.get_help().is_some(), "`{}` of `{}`", argument.get_id(), command.get_name());
        }
        pending.extend(command.get_subcommands());
    }
}
