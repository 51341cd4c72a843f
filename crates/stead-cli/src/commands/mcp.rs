//! `stead mcp`: serves one agent over standard input and output, and enters that into the configuration of a host.

mod host;
mod host_file;
mod install;
mod json_entry;
mod person_command;
mod server_entry;
mod toml_entry;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::Arc;

use stead::config::ScopedDirectory;
use stead::tools::ResultFormat;
use stead::{Clock, Config, ErrorKind, Identity, SystemClock, Tokens};
use stead_server::{ServerLimits, SteadRegistry};

use super::server_lock;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::human;
use crate::session::Session;
use crate::telemetry::Telemetry;

/// Serve one agent over MCP on standard input and output; `mcp install` sets up a host
///
/// The agent is given by --agent and --thread, or by a token in STEAD_TOKEN. An agent that works in threads and has none gets
/// a thread for as long as the server runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// Add structured content to results, for programs; don't use it for models
    #[arg(long)]
    structured: bool,
    /// Directories to serve as Workspaces without a configuration; read-only unless :rw or :wo follows. A directory
    /// named `install` is written ./install
    #[arg(value_name = "DIR[:ro|rw|wo]")]
    directories: Vec<OsString>,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    Install(install::InstallArgs),
    Uninstall(install::UninstallArgs),
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    match args.command {
        Some(McpCommand::Install(install)) => install::install(install, args.structured, session),
        Some(McpCommand::Uninstall(uninstall)) => install::uninstall(uninstall, session),
        None => serve(args, session),
    }
}

fn serve(args: Args, session: &mut Session) -> CommandResult {
    let mut result_format = ResultFormat::structured_if(args.structured);
    let (config, identity) = if args.directories.is_empty() {
        let config = session.config_of_agent()?;
        let (identity, token_format) = identity(&config, session)?;
        result_format = result_format.or(token_format);
        (config, identity)
    } else {
        let agent = session.named_agent().unwrap_or(DEFAULT_AGENT).to_owned();
        let directories: Vec<_> =
            args.directories.iter().map(|directory| ScopedDirectory::parse(directory)).collect();
        let config = Config::for_directories(&agent, &directories)?;
        let start_line = person_command::start_line(&config, &agent, session.named_config());
        session.say(human::escape_lines(&start_line));
        for warning in config.directory_warnings(&agent) {
            session.warn(format_args!("stead: warning: {warning}"));
        }
        let thread = session.named_thread().map(str::to_owned);
        (config, Identity { thread, ..Identity::agent(agent) })
    };
    if std::io::stdin().is_terminal() {
        session.say("Waiting for an MCP client on standard input; hosts start this command themselves.");
    }
    let _telemetry = Telemetry::init()?;
    let _lock = server_lock::take(&config)?;
    let steads = Arc::new(SteadRegistry::of(&config, ServerLimits::default()).with_results(result_format));
    let works_in_threads = config.agents.get(&identity.agent).is_some_and(|agent| agent.scope.has_threads());
    if works_in_threads && identity.thread.is_none() {
        return serve_in_own_thread(&steads, identity, session);
    }
    stead_server::run_stdio(&steads, &identity)?;
    Ok(Exit::OK)
}

/// Serves in a thread that is made for this server and destroyed at its end. If the server is killed, the thread's idle time-out
/// ends it.
fn serve_in_own_thread(
    steads: &Arc<SteadRegistry>,
    identity: Identity,
    session: &mut Session,
) -> CommandResult {
    let thread = stead::generate_thread_name("mcp")?;
    let identity = identity.with_thread(&thread);
    session.say(format_args!("Working in the thread {thread}, which ends with this server."));
    let served = stead_server::run_stdio(steads, &identity);
    if let Err(error) = steads.end_thread(&identity) {
        let reason = human::escape_lines(&error.to_string());
        session.warn(format_args!("stead: the thread {thread} is left to its idle time-out: {reason}"));
    }
    served?;
    Ok(Exit::OK)
}

/// The agent of `stead mcp DIR...` without `--agent`.
const DEFAULT_AGENT: &str = "agent";

/// The identity to serve and its result format: from the token in `STEAD_TOKEN`, or from `--agent` and `--thread`.
fn identity(config: &Config, session: &Session) -> Result<(Identity, ResultFormat), CommandError> {
    let Some(secret) = session.credential()? else {
        return Ok((session.identity(config)?, ResultFormat::Text));
    };
    let token = Tokens::of(config).check(secret, SystemClock.now())?.ok_or_else(|| {
        let message = "the token in STEAD_TOKEN isn't valid: it is unknown, revoked or expired";
        CommandError::Message(ErrorKind::Denied, message.to_owned())
    })?;
    let is_other_agent = session.named_agent().is_some() && session.agent(config)? != token.identity.agent;
    let is_other_thread =
        session.named_thread().is_some_and(|thread| Some(thread) != token.identity.thread.as_deref());
    if is_other_agent || is_other_thread {
        return Err(CommandError::invalid(
            "the token in STEAD_TOKEN belongs to another agent or thread than --agent and --thread name",
        ));
    }
    Ok((token.identity.clone(), token.results))
}
