use stead::Fork;

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// List the agent's forks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let forks: Vec<_> = stead.single_record("forks", None, CommandError::kind, |stead| {
        let shown = stead.forks()?.map(|fork| (fork.clone(), Shown::Yes));
        let withheld = stead.withheld_forks()?.map(|fork| (fork.clone(), Shown::Withheld));
        Ok::<_, CommandError>(shown.chain(withheld).collect())
    })?;
    for (fork, shown) in &forks {
        if session.wants_json() {
            let value = json::fork(fork, *shown == Shown::Withheld);
            session.print_json(&value)?;
        } else {
            session.print_line(format_args!("{}", line(fork, *shown)))?;
        }
    }
    Ok(Exit::OK)
}

/// Whether the agent has the fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Yes,
    Withheld,
}

fn line(fork: &Fork, shown: Shown) -> String {
    let mut line = format!("/forks/{}  of {}, made {}", fork.name, fork.base_prefix, fork.created);
    if fork.created_by != fork.owner {
        line += &format!(" by {}", fork.created_by);
    }
    if fork.pinned_at.is_some() {
        line += ", pinned";
    }
    if !fork.excluded.is_empty() {
        line += &format!(", without {}", excluded_paths(fork));
    }
    if shown == Shown::Withheld {
        line += &format!("; withheld, because {} can't read what it was made from any more", fork.created_by);
    }
    line
}

/// The paths that a fork was made without, relative to its root.
pub(super) fn excluded_paths(fork: &Fork) -> String {
    let paths: Vec<_> = fork.excluded.iter().map(|path| path.as_str()[1..].to_owned()).collect();
    paths.join(", ")
}
