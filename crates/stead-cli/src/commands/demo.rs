//! The steads that `stead serve --demo` creates, and the instructions that it prints.

use std::fs;
use std::io::ErrorKind as HostKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use stead::{Clock, Config, Stead, SystemClock, Tokens, demo};

use crate::command_error::CommandError;
use crate::human;
use crate::session::{Colour, Session};

/// What the demo shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DemoKind {
    /// Two agents, and Workspaces of all scopes
    Agents,
    /// An organization with teams
    Org,
}

impl DemoKind {
    /// The agent whose Filesystem Map is shown.
    fn first_agent(self) -> &'static str {
        match self {
            DemoKind::Agents => "writer",
            DemoKind::Org => "acme/agent-marcus",
        }
    }

    /// What to ask the agent for.
    fn task(self) -> &'static str {
        match self {
            DemoKind::Agents => {
                "Ask for a change in /handbook (it is denied), for a change in /project, and to undo it. Then run:"
            }
            DemoKind::Org => {
                "Ask which folders there are, for a change in the Library's handbook (it is denied), and for a note in the \
                 HR team's shared folder. Then run:"
            }
        }
    }

    /// The commands to try after that, without the configuration file.
    fn commands(self) -> &'static [&'static str] {
        match self {
            DemoKind::Agents => &["audit"],
            DemoKind::Org => &["org show --agent agent-marcus", "org graph", "audit"],
        }
    }
}

/// A stead in a temporary directory, which is removed when this is dropped.
pub(super) struct Demo {
    kind: DemoKind,
    directory: PathBuf,
    config: Config,
    /// Each agent with its token.
    tokens: Vec<(String, String)>,
}

impl Demo {
    pub(super) fn create(kind: DemoKind) -> Result<Self, CommandError> {
        let directory = create_directory()?;
        let set_up = || -> Result<_, CommandError> {
            let config = match kind {
                DemoKind::Agents => demo::create(&directory)?,
                DemoKind::Org => demo::create_organization(&directory)?,
            };
            let (tokens, now) = (Tokens::of(&config), SystemClock.now());
            let mut created = Vec::new();
            for agent in config.agent_names() {
                let secret = tokens.create(config.identity(&*agent), None, now)?.1;
                created.push((agent.into_owned(), secret));
            }
            // The agent that the instructions are about comes first.
            created.sort_by_key(|(agent, _)| agent != kind.first_agent());
            Ok((config, created))
        };
        match set_up() {
            Ok((config, tokens)) => Ok(Demo { kind, directory, config, tokens }),
            Err(failure) => {
                let _ = fs::remove_dir_all(&directory);
                Err(failure)
            }
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Prints the Filesystem Map, and what to paste into an MCP client.
    pub(super) fn print_instructions(&self, url: &str, session: &mut Session) -> Result<(), CommandError> {
        let Some(((agent, secret), others)) = self.tokens.split_first() else { return Ok(()) };
        let map = Stead::open(&self.config, agent)?.map();
        let file = human::host_path(&self.directory.join(stead::config::FILE_NAME));
        if session.wants_json() {
            let tokens: Map<_, _> = self
                .tokens
                .iter()
                .map(|(agent, secret)| (agent.clone(), Value::String(secret.clone())))
                .collect();
            session.print_json(&json!({ "listening": url, "map": map, "tokens": tokens, "config": file }))?;
            return session.flush();
        }
        let bearer = format!("Authorization: Bearer {secret}");
        let client = json!({ "mcpServers": { "stead": {
            "type": "http",
            "url": url,
            "headers": { "Authorization": format!("Bearer {secret}") },
        }}});
        session.print_line(format_args!("The Filesystem Map of the agent `{agent}`:\n"))?;
        for line in map.lines() {
            session.print_line(format_args!("    {line}"))?;
        }
        let shown_url = session.paint(Colour::Bold, url);
        session.print_line(format_args!("\nServing MCP at {shown_url} until you press Ctrl-C.\n"))?;
        session.print_line("Paste this into a terminal, for Claude Code:\n")?;
        session.print_line(format_args!(
            "    claude mcp add --transport http stead {url} --header \"{bearer}\"\n"
        ))?;
        session.print_line("or this into the configuration of another MCP client:\n")?;
        session.print_line(format_args!("    {client}\n"))?;
        session.print_line("Other agents see something else. Their tokens:\n")?;
        let width = others.iter().map(|(agent, _)| agent.len()).max().unwrap_or_default();
        for (agent, secret) in others {
            session.print_line(format_args!("    {agent:width$}  {secret}"))?;
        }
        session.print_line(format_args!("\n{}\n", self.kind.task()))?;
        for command in self.kind.commands() {
            session.print_line(format_args!("    stead --config {file} {command}"))?;
        }
        session.flush()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Creates a temporary directory that only this user can read.
fn create_directory() -> Result<PathBuf, CommandError> {
    let failed = |error| CommandError::host("a temporary directory for the demo can't be created", error);
    for number in 0..1_000 {
        let directory = std::env::temp_dir().join(format!("stead-demo-{}-{number}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == HostKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(HostKind::AlreadyExists.into()))
}
