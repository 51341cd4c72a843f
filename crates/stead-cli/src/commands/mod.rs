//! The commands, one file each: its arguments, whose doc comments are the help texts, and the function that runs it.

mod append;
mod audit;
mod backup;
mod blame;
mod call;
mod cat;
mod completions;
mod config;
mod content;
mod cp;
mod demo;
mod diff;
pub(crate) mod difference;
mod discard;
mod doctor;
mod edit;
mod export;
mod files;
mod fork;
mod forks;
mod gc;
mod glob;
mod grep;
mod import;
mod init;
mod log;
mod ls;
mod man;
mod map;
pub(crate) mod mcp;
mod merge;
mod mkdir;
mod mount;
mod mv;
mod org;
mod restore;
mod restore_backup;
mod review;
mod rm;
mod serve;
mod server_lock;
mod snapshot;
mod snapshots;
mod stat;
mod state;
mod threads;
mod token;
mod tools;
mod tree;
mod undo;
mod update;
mod verify;
mod write;

use clap::Subcommand;
use stead::{Clock, SystemClock};

use crate::command_error::CommandResult;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(init::Args),
    #[command(subcommand)]
    Config(config::Args),
    #[command(subcommand)]
    Org(org::Args),
    Ls(ls::Args),
    Cat(cat::Args),
    Write(write::Args),
    Edit(edit::Args),
    Append(append::Args),
    Rm(rm::Args),
    Cp(cp::Args),
    Mv(mv::Args),
    Mkdir(mkdir::Args),
    Stat(stat::Args),
    Tree(tree::Args),
    Glob(glob::Args),
    Grep(grep::Args),
    #[command(subcommand)]
    Files(Box<files::Args>),
    #[command(subcommand)]
    State(state::Args),
    Map(map::Args),
    Tools(tools::Args),
    Call(call::Args),
    Import(import::Args),
    Export(export::Args),
    Audit(Box<audit::Args>),
    Log(log::Args),
    Diff(diff::Args),
    Snapshot(snapshot::Args),
    Snapshots(snapshots::Args),
    Restore(restore::Args),
    Undo(undo::Args),
    Blame(blame::Args),
    Fork(fork::Args),
    Forks(forks::Args),
    Update(update::Args),
    Merge(merge::Args),
    Review(review::Args),
    Discard(discard::Args),
    Mount(mount::Args),
    #[command(hide = true)]
    MountWatchdog(mount::WatchdogArgs),
    Mcp(mcp::Args),
    Serve(serve::Args),
    #[command(subcommand)]
    Threads(threads::Args),
    #[command(subcommand)]
    Token(token::Args),
    Verify(verify::Args),
    Gc(gc::Args),
    Backup(backup::Args),
    RestoreBackup(restore_backup::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    pub(crate) fn run(self, session: &mut Session) -> CommandResult {
        match self {
            Command::Init(args) => init::run(args, session),
            Command::Config(args) => config::run(args, session),
            Command::Org(args) => org::run(args, session),
            Command::Ls(args) => ls::run(args, session),
            Command::Cat(args) => cat::run(args, session),
            Command::Write(args) => write::run(args, session),
            Command::Edit(args) => edit::run(args, session),
            Command::Append(args) => append::run(args, session),
            Command::Rm(args) => rm::run(args, session),
            Command::Cp(args) => cp::run(args, session),
            Command::Mv(args) => mv::run(args, session),
            Command::Mkdir(args) => mkdir::run(args, session),
            Command::Stat(args) => stat::run(args, session),
            Command::Tree(args) => tree::run(args, session),
            Command::Glob(args) => glob::run(args, session),
            Command::Grep(args) => grep::run(args, session),
            Command::Files(args) => files::run(*args, session),
            Command::State(args) => state::run(args, session),
            Command::Map(args) => map::run(args, session),
            Command::Tools(args) => tools::run(args, session),
            Command::Call(args) => call::run(args, session),
            Command::Import(args) => import::run(args, session),
            Command::Export(args) => export::run(args, session),
            Command::Audit(args) => audit::run(*args, session),
            Command::Log(args) => log::run(args, session),
            Command::Diff(args) => diff::run(args, session),
            Command::Snapshot(args) => snapshot::run(args, session),
            Command::Snapshots(args) => snapshots::run(args, session),
            Command::Restore(args) => restore::run(args, session),
            Command::Undo(args) => undo::run(args, session),
            Command::Blame(args) => blame::run(args, session),
            Command::Fork(args) => fork::run(args, session),
            Command::Forks(args) => forks::run(args, session),
            Command::Update(args) => update::run(args, session),
            Command::Merge(args) => merge::run(args, session),
            Command::Review(args) => review::run(args, session),
            Command::Discard(args) => discard::run(args, session),
            Command::Mount(args) => mount::run(args, session),
            Command::MountWatchdog(args) => mount::run_watchdog(&args),
            Command::Mcp(args) => mcp::run(args, session),
            Command::Serve(args) => serve::run(args, session),
            Command::Threads(args) => threads::run(args, session),
            Command::Token(args) => token::run(args, session),
            Command::Verify(args) => verify::run(args, session),
            Command::Gc(args) => gc::run(args, session),
            Command::Backup(args) => backup::run(args, session),
            Command::RestoreBackup(args) => restore_backup::run(args, session),
            Command::Doctor(args) => doctor::run(args, session),
            Command::Completions(args) => completions::run(args, session),
            Command::Man(args) => man::run(args, session),
        }
    }
}

/// Parses a time such as `2h`, `yesterday` or `2026-11-15 08:30`, for clap.
fn parse_time(text: &str) -> Result<stead::Timestamp, String> {
    stead::time_text::parse_time(text, SystemClock.now())
}

/// The name of a fork, for clap. The path at which `stead forks` lists it is accepted, too.
pub(crate) fn parse_fork(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("/forks/").map_or(text, |name| name.trim_end_matches('/'));
    if name.is_empty() { Err("a fork has a name".to_owned()) } else { Ok(name.to_owned()) }
}

/// Checks the name of a thread, for clap.
pub(crate) fn parse_thread(text: &str) -> Result<String, String> {
    stead::parse_thread_name(text).map_err(|error| error.to_string())
}

/// Parses a duration such as `12h` or `30d` and refuses zero, for clap.
fn parse_nonzero_duration(text: &str) -> Result<std::time::Duration, String> {
    match parse_duration(text)? {
        std::time::Duration::ZERO => Err("the duration has to be longer than 0".to_owned()),
        time => Ok(time),
    }
}

/// Parses a duration such as `12h` or `30d`, for clap.
fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    stead::time_text::parse_duration(text)
}
