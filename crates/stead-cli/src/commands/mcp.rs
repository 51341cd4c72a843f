use std::ffi::OsString;
use std::sync::Arc;

use stead::config::BareDirectory;
use stead::{Config, Identity};
use stead_server::{Limits, Steads};

use crate::failure::{Ended, Exit};
use crate::session::Session;

/// Serve one agent over MCP on standard input and output
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The thread that the agent works in
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Directories to mount, read-only unless :rw or :wo follows; no configuration is used then
    #[arg(value_name = "DIR[:ro|rw|wo]")]
    directories: Vec<OsString>,
}

pub(super) fn run(args: Args, session: &mut Session) -> Ended {
    let (config, agent) = if args.directories.is_empty() {
        let config = session.config()?;
        let agent = session.agent(&config)?.to_owned();
        (config, agent)
    } else {
        let agent = session.named_agent().unwrap_or("agent").to_owned();
        let directories: Vec<_> =
            args.directories.iter().map(|directory| BareDirectory::parse(directory)).collect();
        (Config::of_directories(&agent, &directories)?, agent)
    };
    let identity = Identity::agent(agent);
    let identity = match args.thread {
        Some(thread) => identity.with_thread(thread),
        None => identity,
    };
    let steads = Arc::new(Steads::of(&config, Limits::default()));
    stead_server::run_stdio(&steads, &identity)?;
    Ok(Exit::OK)
}
