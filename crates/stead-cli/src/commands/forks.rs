use stead::{Fork, ForkPart, Stead, VfsPath};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// List the agent's forks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also list the forks of other agents that this agent can merge, as OWNER/FORK
    #[arg(short, long)]
    all: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let forks: Vec<_> = stead.single_record("forks", None, CommandError::kind, |stead| {
        let shown = stead.forks()?.map(|fork| (fork.clone(), Shown::Yes));
        let withheld = stead.withheld_forks()?.map(|fork| (fork.clone(), Shown::Withheld));
        let others = if args.all { stead.forks_of_others()? } else { Vec::new() };
        let others = others.into_iter().map(|mut fork| {
            // The prefix that the base has for this agent.
            if let Ok((_, prefix)) = stead.find_reviewable(&format!("{}/{}", fork.owner, fork.name)) {
                fork.base_prefix = forked_directory(stead, &fork, &prefix).unwrap_or(prefix);
            }
            (fork, Shown::OfAnotherAgent)
        });
        Ok::<_, CommandError>(shown.chain(withheld).chain(others).collect())
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

/// The directory that a fork was made from, in the Workspace at `prefix` that it can be merged into. `None` if its name is hidden.
fn forked_directory(stead: &Stead, fork: &Fork, prefix: &VfsPath) -> Option<VfsPath> {
    let workspace = stead.vfs().workspaces().find(|workspace| workspace.prefix() == prefix)?;
    let top = VfsPath::parse(&format!("/{}", workspace.mount().path().as_str()?)).ok()?;
    let relative_path = fork.path.strip_prefix(&top)?;
    (!workspace.hide().hides(relative_path)).then(|| prefix.join(relative_path).ok())?
}

/// Whether the agent has the fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Yes,
    Withheld,
    /// Another agent has it.
    OfAnotherAgent,
}

fn line(fork: &Fork, shown: Shown) -> String {
    let mut line = match shown {
        Shown::OfAnotherAgent => format!("{}/{}", fork.owner, fork.name),
        Shown::Yes | Shown::Withheld => format!("/forks/{}", fork.name),
    };
    line += &format!("  of {}, made {}", fork.base_prefix, fork.created);
    if fork.created_by != fork.owner {
        line += &format!(" by {}", fork.created_by);
    }
    if fork.pinned_at.is_some() {
        line += ", pinned";
    }
    if !fork.parts.is_empty() {
        line += &format!(", with {}", parts(fork));
    }
    if !fork.excluded.is_empty() {
        line += &format!(", without {}", excluded_paths(fork));
    }
    if shown == Shown::Withheld {
        line += &format!("; withheld, because {} can't read what it was made from any more", fork.created_by);
    }
    line
}

/// The nested Workspaces that were forked with a fork: their paths in it and their scopes.
pub(super) fn parts(fork: &Fork) -> String {
    let part = |part: &ForkPart| format!("{} ({})", &part.place.as_str()[1..], part.scope);
    fork.parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// The paths that a fork was made without, relative to its root.
pub(super) fn excluded_paths(fork: &Fork) -> String {
    let paths: Vec<_> = fork.excluded.iter().map(|path| path.as_str()[1..].to_owned()).collect();
    paths.join(", ")
}
