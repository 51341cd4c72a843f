mod cleanup;
mod info;
mod list;
mod mv;
mod rm;
mod search;
mod sync;
mod table;
mod tag;
mod tree;

use clap::Subcommand;
use stead::vfs::ManagedFiles;
use stead::{Access, Stead, VfsError};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{AsOfArg, Session};

/// List, find, tag, move and remove the files of managed Workspaces
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    List(list::Args),
    Search(search::Args),
    Info(info::Args),
    #[command(visible_alias = "mv")]
    Move(mv::Args),
    #[command(visible_alias = "rm")]
    Delete(rm::Args),
    Tag(tag::Args),
    Tree(tree::Args),
    Cleanup(cleanup::Args),
    Sync(sync::Args),
}

/// Which managed Workspace is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkspaceArg {
    /// The managed Workspace, if the agent has several
    #[arg(long, value_name = "PREFIX")]
    workspace: Option<String>,
}

impl WorkspaceArg {
    /// The files of the Workspace. `path` is a path in it, if the command has one.
    fn files_of(
        &self,
        stead: &Stead,
        action: &'static str,
        path: Option<&str>,
    ) -> Result<ManagedFiles, CommandError> {
        let vfs = stead.vfs();
        if self.workspace.as_deref().or(path).is_none() && vfs.managed_workspaces().nth(1).is_some() {
            let prefixes: Vec<_> =
                vfs.managed_workspaces().map(|workspace| format!("`{}`", workspace.prefix())).collect();
            return Err(CommandError::invalid(format!(
                "there are several managed Workspaces; choose one with --workspace: {}",
                prefixes.join(", ")
            )));
        }
        Ok(vfs
            .operation("files")
            .with_facts(vfs.facts().clone().with_if_room("action", action))
            .managed(self.workspace.as_deref().or(path))?)
    }

    /// The same as they were at `at`, which may be a snapshot or a version of this Workspace alone.
    fn files_at(
        &self,
        at: &AsOfArg,
        stead: Stead,
        action: &'static str,
        path: Option<&str>,
    ) -> Result<ManagedFiles, CommandError> {
        let prefix = self.files_of(&stead, action, path)?.prefix().clone();
        let stead = at.apply_to(stead, path.unwrap_or(prefix.as_str()))?;
        self.files_of(&stead, action, Some(prefix.as_str()))
    }
}

/// Which managed Workspaces are meant.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkspacesArg {
    #[command(flatten)]
    one: WorkspaceArg,
    /// All managed Workspaces of the agent, one after the other
    #[arg(long, conflicts_with = "workspace")]
    all: bool,
}

impl WorkspacesArg {
    /// The files of the Workspaces.
    fn files_of(
        &self,
        stead: &Stead,
        action: &'static str,
        access: Access,
    ) -> Result<Vec<ManagedFiles>, CommandError> {
        if !self.all {
            return Ok(vec![self.one.files_of(stead, action, None)?]);
        }
        let usable = stead.vfs().managed_workspaces().filter(|workspace| workspace.scope().allows(access));
        let prefixes = usable.map(|workspace| workspace.prefix().to_string());
        prefixes.map(|prefix| self.one.files_of(stead, action, Some(&prefix))).collect()
    }

    /// Works on the files of each Workspace that allows this access. With several, one that fails doesn't stop the others; the
    /// last error is returned.
    fn each(
        &self,
        (action, access): (&'static str, Access),
        session: &mut Session,
        work: impl Fn(&ManagedFiles, &mut Session) -> Result<(), CommandError>,
    ) -> CommandResult {
        let stead = session.stead()?;
        let mut failed = None;
        for files in self.files_of(&stead, action, access)? {
            if self.all && !session.wants_json() {
                session.say(format_args!("{}:", files.prefix()));
            }
            match work(&files, session) {
                Err(CommandError::ReaderGone) => return Err(CommandError::ReaderGone),
                Err(error) => {
                    if let Some(earlier) = failed.replace(error) {
                        session.warn(earlier.message());
                    }
                }
                Ok(()) => {}
            }
        }
        failed.map_or(Ok(Exit::OK), Err)
    }
}

/// An error of the rules of managed Workspaces, as one of usage.
fn invalid(error: impl std::fmt::Display) -> CommandError {
    VfsError::Invalid(error.to_string()).into()
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    match args {
        Args::List(args) => list::run(args, session),
        Args::Search(args) => search::run(args, session),
        Args::Info(args) => info::run(args, session),
        Args::Move(args) => mv::run(args, session),
        Args::Delete(args) => rm::run(args, session),
        Args::Tag(args) => tag::run(args, session),
        Args::Tree(args) => tree::run(args, session),
        Args::Cleanup(args) => cleanup::run(args, session),
        Args::Sync(args) => sync::run(args, session),
    }
}
