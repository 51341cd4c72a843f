//! The stead that `stead serve --demo` creates, and the instructions that it prints.

use std::fs;
use std::io::ErrorKind as HostKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use serde_json::json;
use stead::{Clock, Config, Identity, Stead, SystemClock, Tokens, demo};

use crate::command_error::CommandError;
use crate::human;
use crate::session::{Colour, Session};

/// The agents of the demo. Each gets a token.
const AGENTS: [&str; 2] = ["writer", "reviewer"];

/// A stead in a temporary directory, which is removed when this is dropped.
pub(super) struct Demo {
    directory: PathBuf,
    config: Config,
    secrets: [String; 2],
}

impl Demo {
    pub(super) fn create() -> Result<Self, CommandError> {
        let directory = create_directory()?;
        let set_up = || -> Result<_, CommandError> {
            let config = demo::create(&directory)?;
            let (tokens, now) = (Tokens::of(&config), SystemClock.now());
            let mut secrets = [const { String::new() }; 2];
            for (agent, secret) in AGENTS.iter().zip(&mut secrets) {
                *secret = tokens.create(Identity::agent(*agent), None, now)?.1;
            }
            Ok((config, secrets))
        };
        match set_up() {
            Ok((config, secrets)) => Ok(Demo { directory, config, secrets }),
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
        let map = Stead::open(&self.config, AGENTS[0])?.map();
        let file = human::host_path(&self.directory.join(stead::config::FILE_NAME));
        let [writer, reviewer] = &self.secrets;
        if session.wants_json() {
            let tokens = json!({ AGENTS[0]: writer, AGENTS[1]: reviewer });
            session.print_json(&json!({ "listening": url, "map": map, "tokens": tokens, "config": file }))?;
            return session.flush();
        }
        let bearer = format!("Authorization: Bearer {writer}");
        let client = json!({ "mcpServers": { "stead": {
            "type": "http",
            "url": url,
            "headers": { "Authorization": format!("Bearer {writer}") },
        }}});
        session.print_line("The Filesystem Map of the agent `writer`:\n")?;
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
        session.print_line(format_args!("The agent `reviewer` sees less; its token is {reviewer}\n"))?;
        session.print_line(
            "Ask for a change in /handbook (it is denied), for a change in /project, and to undo it. Then run:\n",
        )?;
        session.print_line(format_args!("    stead --config {file} audit"))?;
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
