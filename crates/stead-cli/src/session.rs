//! What every command uses: the global options, the configuration that they name, and the output.
//!
//! Data goes to stdout; messages for a person go to stderr.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use stead::name::escape_name;
use stead::search::{IgnoreFiles, LeftOut};
use stead::vfs::Unreadable;
use stead::{Config, Identity, Stead, Stores, Vfs};
use stead_server::print_to_stderr;

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::output::{Output, OutputArgs};
use crate::{human, json};

/// Options that every command takes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Globals {
    /// Run as if started in this directory
    #[arg(short = 'C', long, global = true, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The configuration file [default: stead.toml here or above, then what `stead mcp` serves here, then
    /// ~/.config/stead/stead.toml]
    #[arg(long, global = true, value_name = "FILE", env = "STEAD_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Print JSON, one document per line
    #[arg(long, global = true)]
    json: bool,
    /// The agent to act as; not needed if only one is configured
    #[arg(long, global = true, value_name = "NAME", env = "STEAD_AGENT", hide_env_values = true)]
    agent: Option<String>,
    /// The thread that the agent works in
    #[arg(long, global = true, value_name = "ID", value_parser = crate::commands::parse_thread)]
    thread: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// When to look.
#[derive(Debug, clap::Args)]
pub(crate) struct AsOfArg {
    /// Use an earlier version: its number, a snapshot's label or #number, or a time (2h, yesterday, 2026-11-15 08:30)
    #[arg(long, value_name = "VERSION")]
    at: Option<String>,
}

impl AsOfArg {
    /// Whether `--at` is given.
    pub(crate) fn is_some(&self) -> bool {
        self.at.is_some()
    }

    /// The stead as it was at `--at`, or as it is now if that isn't given.
    pub(crate) fn apply_to(&self, stead: Stead, path: &str) -> Result<Stead, CommandError> {
        match &self.at {
            Some(version) => Ok(stead.as_of_text(path, version)?),
            None => Ok(stead),
        }
    }
}

/// Whether ignore files are respected.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct IgnoreArg {
    /// Also show what .gitignore, .ignore and .git/info/exclude leave out, and .git
    #[arg(long)]
    no_ignore: bool,
}

impl IgnoreArg {
    pub(crate) fn ignore_files(self) -> IgnoreFiles {
        if self.no_ignore { IgnoreFiles::Disregarded } else { IgnoreFiles::Respected }
    }
}

/// One run of the binary.
pub(crate) struct Session {
    globals: Globals,
    output: Output,
    styled: bool,
    credential: Option<OsString>,
    /// Where the command was started, if `-C` has changed the directory.
    start_directory: Option<PathBuf>,
}

impl Session {
    pub(crate) fn new(globals: Globals, credential: Option<OsString>) -> Self {
        let styled = globals.output.has_colour();
        Session { globals, output: Output::new(), styled, credential, start_directory: None }
    }

    /// Changes to the directory that `-C` names, as git and make do.
    pub(crate) fn change_directory(&mut self) -> Result<(), CommandError> {
        let Some(directory) = &self.globals.directory else { return Ok(()) };
        self.start_directory = std::env::current_dir().ok();
        let Err(error) = std::env::set_current_dir(directory) else { return Ok(()) };
        let shown_path = human::host_path(directory);
        if error.kind() == io::ErrorKind::NotFound && Config::has_served(directory) {
            return Err(CommandError::invalid(format!(
                "`{shown_path}` doesn't exist any more. Stead still has its history: if you moved the directory, move it \
                 back; at another place it begins a new history"
            )));
        }
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "it doesn't exist".to_owned(),
            kind => kind.to_string(),
        };
        Err(CommandError::invalid(format!("can't change to the directory `{shown_path}`: {reason}")))
    }

    /// Where the command was started, if `-C` has changed the directory.
    pub(crate) fn start_directory(&self) -> Option<&Path> {
        self.start_directory.as_deref()
    }

    /// Whether `--json` is given.
    pub(crate) fn wants_json(&self) -> bool {
        self.globals.json
    }

    /// Whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Whether to show progress: stderr is a terminal, and neither `--json` nor `--quiet` is given.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.globals.json && !self.globals.output.quiet && io::stderr().is_terminal()
    }

    /// Lets a pager show what is longer than the terminal. For commands whose output people read from top to bottom;
    /// called before anything is printed.
    pub(crate) fn use_pager(&mut self) {
        if !self.globals.json {
            self.output.use_pager(&self.globals.output);
        }
    }

    /// The path of the configuration file: the given one, or the one that was found.
    pub(crate) fn config_file(&self) -> Result<PathBuf, CommandError> {
        Ok(Config::find(self.globals.config.as_deref())?)
    }

    /// The configuration file that was found, if neither an option nor the current directory tells the user which one.
    fn config_found_elsewhere(&self) -> Option<PathBuf> {
        let is_named = self.globals.config.is_some();
        (!is_named).then(|| Config::find(None).ok()).flatten().filter(|file| file.components().count() > 1)
    }

    /// Loads the configuration.
    pub(crate) fn config(&self) -> Result<Config, CommandError> {
        Ok(Config::load(&self.config_file()?)?)
    }

    /// Loads the configuration for a command of one agent. Records of another organization that can't be used don't keep the
    /// agent from working.
    pub(crate) fn config_of_agent(&self) -> Result<Config, CommandError> {
        let file = self.config_file()?;
        let error = match Config::load(&file) {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        // Without a name, nobody knows whether the agent is one of those without records.
        let (Some(agent), Ok(config)) = (&self.globals.agent, Config::load_usable(&file)) else {
            return Err(error.into());
        };
        match config.full_agent_name(agent) {
            Ok(name) if config.has_agent(&name) => Ok(self.with_warnings(config)),
            _ => Err(error.into()),
        }
    }

    /// Loads the configuration for a command that doesn't depend on the records of organizations.
    pub(crate) fn config_without_records(&self) -> Result<Config, CommandError> {
        let file = self.config_file()?;
        match Config::load(&file) {
            Ok(config) => Ok(config),
            Err(error) => {
                Config::load_usable(&file).map_or(Err(error.into()), |config| Ok(self.with_warnings(config)))
            }
        }
    }

    fn with_warnings(&self, config: Config) -> Config {
        if !self.globals.json {
            let warn = |unused| print_to_stderr(format_args!("stead: {unused}"));
            config.unused_records().iter().for_each(warn);
        }
        config
    }

    /// The stead of the agent that the command acts as, with approval for every call.
    pub(crate) fn stead(&self) -> Result<Stead, CommandError> {
        // The person who runs the command is the person who would be asked.
        Ok(self.stead_of_agent()?.with_approval())
    }

    /// Like [`Session::stead`], for a command that shows changes or takes them back: in a directory of `stead mcp DIR`, a
    /// person can do that whatever scope the agents have there.
    pub(crate) fn stead_of_owner(&self) -> Result<Stead, CommandError> {
        Ok(self.open(&self.config_of_agent()?.for_owner())?.with_approval())
    }

    /// Like [`Session::stead_of_owner`], for a command about changes that wait for a review: with the Workspaces themselves, and
    /// outside of threads.
    pub(crate) fn stead_for_review(&self) -> Result<Stead, CommandError> {
        let config = self.config_of_agent()?.for_owner();
        let stores = Stores::of(&config);
        stores.open_audit()?;
        Ok(Stead::open_for_review(&stores, &self.identity(&config)?)?.with_approval())
    }

    /// The stead for a command about a fork: [`Session::stead_for_review`] for a review fork.
    pub(crate) fn stead_for_fork(&self, fork: &str) -> Result<Stead, CommandError> {
        if fork.starts_with("review:") { self.stead_for_review() } else { self.stead_of_owner() }
    }

    /// Like [`Session::stead`], but what is protected from agents can be changed too: the user has asked for it.
    pub(crate) fn stead_without_protection(&self) -> Result<Stead, CommandError> {
        let mut config = self.config_of_agent()?;
        let agent = self.agent(&config)?;
        if let Some(agent_config) = config.agent(&agent) {
            let agent_config = agent_config.into_owned().without_protection();
            config.agents.insert(agent, agent_config);
        }
        Ok(self.open(&config)?.with_approval())
    }

    /// The stead as the agent itself has it: calls that need approval are refused.
    pub(crate) fn stead_of_agent(&self) -> Result<Stead, CommandError> {
        self.open(&self.config_of_agent()?)
    }

    fn open(&self, config: &Config) -> Result<Stead, CommandError> {
        let stores = Stores::of(config);
        stores.open_audit()?;
        let identity = self.identity(config)?;
        if config.agents.get(&identity.agent).is_some_and(|agent| agent.scope.has_threads()) {
            // A thread past its time-out has ended, also where no server runs. What can't be removed now is removed later.
            let _ = stores.threads().sweep();
        }
        let stead = Stead::open_in(&stores, &identity)?;
        stead.folders().iter().for_each(|folders| folders.prepare());
        Ok(stead)
    }

    /// The identity that the command acts as: [`Session::agent`], in the thread that `--thread` names.
    pub(crate) fn identity(&self, config: &Config) -> Result<Identity, CommandError> {
        Ok(Identity { thread: self.globals.thread.clone(), ..config.identity(self.agent(config)?) })
    }

    /// The agent that the command acts as: the one that `--agent` names, or the only one; with `--thread`, the only one that works in
    /// threads.
    pub(crate) fn agent(&self, config: &Config) -> Result<String, CommandError> {
        match &self.globals.agent {
            Some(agent) => {
                config.full_agent_name(agent).map_err(|error| CommandError::invalid(error.to_string()))
            }
            None => match self.globals.thread.as_ref().and_then(|_| only_agent_in_threads(config)) {
                Some(agent) => Ok(agent.to_owned()),
                None => only_agent(config),
            },
        }
    }

    /// The agent that `--agent` names.
    pub(crate) fn named_agent(&self) -> Option<&str> {
        self.globals.agent.as_deref()
    }

    /// The thread that `--thread` names.
    pub(crate) fn named_thread(&self) -> Option<&str> {
        self.globals.thread.as_deref()
    }

    /// The configuration file that `--config` or the environment names.
    pub(crate) fn named_config(&self) -> Option<&Path> {
        self.globals.config.as_deref()
    }

    /// The token from the environment.
    pub(crate) fn credential(&self) -> Result<Option<&str>, CommandError> {
        let Some(token) = &self.credential else { return Ok(None) };
        let text = token
            .to_str()
            .ok_or_else(|| CommandError::invalid("STEAD_TOKEN doesn't contain a valid token"))?;
        Ok(Some(text))
    }

    /// The `Vfs` of the agent's stead, for one operation of this command.
    pub(crate) fn vfs(&self, command: &'static str) -> Result<Vfs, CommandError> {
        Ok(self.stead()?.vfs().operation(command))
    }

    /// Runs `act` as one operation with one audit record. `act` gets the stead as it was at `--at`, if that is given.
    pub(crate) fn compound<T>(
        &mut self,
        command: &'static str,
        stead: &Stead,
        (at, path): (&AsOfArg, &str),
        act: impl FnOnce(&mut Session, &Stead) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        stead.compound(command, path, CommandError::kind, |stead| {
            let stead = at.apply_to(stead.clone(), path)?;
            act(self, &stead).map_err(|error| error.with_suggestion(stead.vfs()))
        })
    }

    /// The output for data.
    pub(crate) fn stdout(&mut self) -> &mut impl Write {
        &mut self.output
    }

    /// Prints a line of data.
    pub(crate) fn print_line(&mut self, line: impl std::fmt::Display) -> Result<(), CommandError> {
        self.write_output(|out| writeln!(out, "{line}"))
    }

    /// Prints a JSON document on one line.
    pub(crate) fn print_json(&mut self, value: &Value) -> Result<(), CommandError> {
        self.print_line(value)
    }

    /// Writes data. If the reader has closed the output, returns `CommandError::ReaderGone`, which ends the command.
    pub(crate) fn write_output(
        &mut self,
        write: impl FnOnce(&mut Output) -> io::Result<()>,
    ) -> Result<(), CommandError> {
        write(&mut self.output).map_err(CommandError::output_error)
    }

    /// Prints a message for a person, unless `--json` or `--quiet` is given.
    pub(crate) fn say(&mut self, message: impl std::fmt::Display) {
        if !self.globals.json && !self.globals.output.quiet {
            self.output.print_message(message);
        }
    }

    /// Prints a warning for a person, also with `--quiet`, unless `--json` is given.
    pub(crate) fn warn(&mut self, message: impl std::fmt::Display) {
        if !self.globals.json {
            self.output.print_message(message);
        }
    }

    /// Warns of what could not be read, so that the user doesn't take the result for complete.
    pub(crate) fn warn_unreadable(&mut self, unreadable: &[Unreadable]) {
        const MAX_SHOWN: usize = 8;
        if unreadable.is_empty() {
            return;
        }
        self.warn(format_args!(
            "{} could not be read:",
            human::count(unreadable.len() as u64, "path", "paths")
        ));
        for Unreadable { path, reason } in unreadable.iter().take(MAX_SHOWN) {
            self.warn(format_args!("  {path}: {reason}"));
        }
        if unreadable.len() > MAX_SHOWN {
            self.warn(format_args!("  and {} more", unreadable.len() - MAX_SHOWN));
        }
    }

    /// Warns that a change can't be undone, because what it replaced or removed is too large to be kept.
    pub(crate) fn warn_not_kept(&mut self, not_kept: u64) {
        match not_kept {
            0 => {}
            1 => self.warn("This can't be undone: the old content is too large to be kept."),
            count => self.warn(format_args!(
                "This can't be undone whole: {} were too large to be kept.",
                human::count(count, "file", "files")
            )),
        }
    }

    /// Says what a walk or a search left out, so that the user doesn't take the result for complete.
    pub(crate) fn say_left_out(&mut self, left_out: LeftOut) {
        if !left_out.is_empty() {
            self.say(format_args!("Left out: {left_out}; --no-ignore shows all."));
        }
    }

    /// Whether output has colours.
    pub(crate) fn is_styled(&self) -> bool {
        self.styled
    }

    /// Text in a colour, if `--color` asks for it: `auto` does on a terminal.
    pub(crate) fn paint(&self, colour: Colour, text: impl std::fmt::Display) -> String {
        if self.styled { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_string() }
    }

    /// Prints an error and returns the exit code.
    pub(crate) fn report(&mut self, failure: &CommandError) -> Exit {
        let Some(kind) = failure.kind() else { return Exit::OK };
        let message = failure.message();
        if self.globals.json {
            let printed = self.print_json(&json::error(kind.code(), &message));
            return printed.map_or(Exit::OK, |()| failure.exit());
        }
        let prefix = if failure.has_location() { "" } else { "stead: " };
        self.output.print_message(format_args!("{prefix}{}", human::escape_lines(&message)));
        if failure.concerns_store()
            && let Some(file) = self.config_found_elsewhere()
        {
            let file = human::host_path(&file);
            self.output.print_message(format_args!("stead: the configuration in use is `{file}`"));
        }
        failure.exit()
    }

    /// Runs `act` for each item, and goes on if it fails for one. Returns the worst exit code.
    pub(crate) fn for_each<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut act: impl FnMut(&mut Session, T) -> Result<(), CommandError>,
    ) -> CommandResult {
        let mut exit = Exit::OK;
        for item in items {
            match act(self, item) {
                Ok(()) => {}
                Err(CommandError::ReaderGone) => return Err(CommandError::ReaderGone),
                Err(failure) => exit = exit.max(self.report(&failure)),
            }
        }
        Ok(exit)
    }

    /// Flushes the output, for a reader that waits for it.
    pub(crate) fn flush(&mut self) -> Result<(), CommandError> {
        self.write_output(Write::flush)
    }

    /// Flushes the output at the end of the run, and returns the exit code for a failure.
    pub(crate) fn finish(&mut self) -> Exit {
        match self.output.finish() {
            Ok(()) => Exit::OK,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::OK,
            Err(error) => {
                print_to_stderr(format_args!("stead: the output can't be written: {}", error.kind()));
                Exit::TEMPORARY
            }
        }
    }
}

/// The colours and styles in use, as ANSI codes.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Colour {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Blue = 34,
    Magenta = 35,
    Cyan = 36,
}

/// The only agent that works in threads; `None` if there are several or none.
pub(crate) fn only_agent_in_threads(config: &Config) -> Option<&str> {
    let mut in_threads = config.agents.iter().filter(|(_, agent)| agent.scope.has_threads());
    match (in_threads.next(), in_threads.next()) {
        (Some((agent, _)), None) => Some(agent),
        _ => None,
    }
}

fn only_agent(config: &Config) -> Result<String, CommandError> {
    const MAX_SHOWN: usize = 50;
    let mut names = config.agent_names();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name.into_owned()),
        (None, _) => Err(CommandError::invalid("the configuration has no agent; add [agents.NAME] to it")),
        _ => {
            let names: Vec<_> =
                config.agent_names().map(|name| format!("`{}`", escape_name(name.as_bytes()))).collect();
            let more = match names.len().saturating_sub(MAX_SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Err(CommandError::invalid(format!(
                "several agents are configured; choose one with --agent: {}{more}",
                names[..names.len().min(MAX_SHOWN)].join(", ")
            )))
        }
    }
}
