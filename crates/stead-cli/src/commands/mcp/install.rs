//! `stead mcp install` and `uninstall`: enter Stead into a host's configuration, and take it out again.

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::host::{EditError, Format, Host, UserDirectories};
use super::host_file::HostFile;
use super::server_entry::{self, ServerEntry};
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::human;
use crate::session::Session;

/// Enter Stead into the MCP configuration of a host
///
/// Shows what changes in the host's file, and asks before it writes. The old file is kept beside it.
#[derive(Debug, clap::Args)]
pub(super) struct InstallArgs {
    /// The host
    host: Host,
    /// The directories to serve; read-only unless :rw or :wo follows [default: the configuration that is found]
    #[arg(value_name = "DIR[:ro|rw|wo]")]
    directories: Vec<OsString>,
    #[command(flatten)]
    target: EntryArgs,
    /// Only show the entry
    #[arg(long, conflicts_with = "yes")]
    print: bool,
}

/// Take Stead out of the MCP configuration of a host
#[derive(Debug, clap::Args)]
pub(super) struct UninstallArgs {
    /// The host
    host: Host,
    #[command(flatten)]
    target: EntryArgs,
}

/// Which entry is meant, and whether to ask.
#[derive(Debug, clap::Args)]
struct EntryArgs {
    /// The name of the entry
    #[arg(long, default_value = "stead", value_parser = parse_name)]
    name: String,
    /// Use the host's file in the current directory, which a project shares
    #[arg(long)]
    project: bool,
    /// Write without asking
    #[arg(short, long)]
    yes: bool,
}

/// Checks the name of an entry, for clap. All hosts accept such names.
fn parse_name(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !text.is_empty() && text.chars().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err("a name has only letters, digits, `-` and `_`".to_owned()),
    }
}

pub(super) fn install(args: InstallArgs, structured: bool, session: &mut Session) -> CommandResult {
    let InstallArgs { host, directories, target, print } = args;
    // A file that a project shares should name no path of this machine. A desktop may have another `PATH` than a shell.
    let program = server_entry::program(target.project || !host.is_desktop_program())?;
    let entry = ServerEntry::new(&directories, structured, program, session)?;
    let path = file_of(host, target.project)?;
    if print {
        return print_entry(host, &target.name, &entry, &path, session);
    }
    let file = HostFile::read(&path)?;
    let text = host.with_entry(file.text(), &target.name, &entry).map_err(|error| refusal(&file, &error))?;
    write(host, &target, &file, &text, session)
}

pub(super) fn uninstall(args: UninstallArgs, session: &mut Session) -> CommandResult {
    let UninstallArgs { host, target } = args;
    let file = HostFile::read(&file_of(host, target.project)?)?;
    let text = host.without_entry(file.text(), &target.name).map_err(|error| refusal(&file, &error))?;
    write(host, &target, &file, &text, session)
}

fn file_of(host: Host, project: bool) -> Result<PathBuf, CommandError> {
    if !project {
        return Ok(host.user_file(&UserDirectories::from_environment()?));
    }
    let directory = std::env::current_dir()
        .map_err(|error| CommandError::host("the current directory can't be used", error))?;
    host.project_file(&directory).ok_or_else(|| {
        CommandError::invalid(format!("{} has no file for a project; leave --project out", host.name()))
    })
}

fn refusal(file: &HostFile, error: &EditError) -> CommandError {
    let shown_path = human::host_path(file.path());
    CommandError::invalid(format!(
        "`{shown_path}` is left as it is: {error}; correct it, then run this again"
    ))
}

/// Shows the entry as it would stand in a file that has nothing else.
fn print_entry(
    host: Host,
    name: &str,
    entry: &ServerEntry,
    path: &std::path::Path,
    session: &mut Session,
) -> CommandResult {
    if session.wants_json() {
        let keys: Map<String, Value> =
            host.entry_keys(entry).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        session.print_json(&json!({ "file": human::host_path(path), "name": name, "entry": keys }))?;
        return Ok(Exit::OK);
    }
    let text = host.with_entry("", name, entry).map_err(|error| CommandError::invalid(error.to_string()))?;
    session.print_line(text.trim_end())?;
    let language = if host.format() == Format::Toml { "TOML" } else { "JSON" };
    session.say(format_args!("{} reads this {language} from {}.", host.name(), human::host_path(path)));
    Ok(Exit::OK)
}

/// Shows the difference, asks, and writes.
fn write(
    host: Host,
    target: &EntryArgs,
    file: &HostFile,
    text: &str,
    session: &mut Session,
) -> CommandResult {
    let shown_path = human::host_path(file.path());
    if text == file.text() {
        if session.wants_json() {
            session.print_json(&json!({ "file": shown_path, "changed": false }))?;
        }
        session.say(format_args!("Nothing changes in {shown_path}."));
        return Ok(Exit::OK);
    }
    session.say(file.difference(text));
    if !target.yes && !is_approved(&shown_path, session)? {
        session.say("Nothing was changed.");
        return Ok(Exit::NEGATIVE);
    }
    let backup = file.replace(text)?.map(|backup| human::host_path(&backup));
    if session.wants_json() {
        session.print_json(&json!({ "file": shown_path, "changed": true, "backup": backup }))?;
    }
    let kept = backup.map_or_else(String::new, |backup| format!(" The old one is {backup}."));
    session.say(format_args!("Wrote {shown_path}.{kept} Restart {} to use it.", host.name()));
    Ok(Exit::OK)
}

/// Asks the person at the terminal.
fn is_approved(shown_path: &str, session: &mut Session) -> Result<bool, CommandError> {
    if session.wants_json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CommandError::invalid(format!(
            "this changes `{shown_path}`, and there is no terminal to ask at; run it with -y to write it without asking"
        )));
    }
    session.say("Write it? [y/N]");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| CommandError::host("the answer can't be read", error))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
