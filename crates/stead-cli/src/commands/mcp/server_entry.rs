//! The command that a host is to start: the binary and its arguments.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stead::Config;
use stead::config::ScopedDirectory;
use stead::{AccessScope, Error};

use crate::command_error::CommandError;
use crate::human;
use crate::session::Session;

/// What a host starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerEntry {
    pub(super) command: String,
    pub(super) arguments: Vec<String>,
}

impl ServerEntry {
    /// The entry that serves these directories, or the configuration that is found if there are none.
    pub(super) fn new(
        directories: &[OsString],
        structured: bool,
        program: String,
        session: &Session,
    ) -> Result<Self, CommandError> {
        let directories: Vec<_> =
            directories.iter().map(|directory| ScopedDirectory::parse(directory)).collect();
        let mut arguments = vec!["mcp".to_owned()];
        let mut add_option = |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
        let directories = if directories.is_empty() {
            let config = session.config()?;
            let agent = session.agent(&config)?;
            if !config.has_agent(&agent) {
                return Err(Error::unknown_agent(&config, &agent).into());
            }
            add_option("--agent", &agent);
            match config.served_directories(&agent) {
                Some(directories) => directories,
                None => {
                    let file = std::path::absolute(config.file()).and_then(|file| file.canonicalize());
                    let file = file.map_err(|error| CommandError::host("the configuration", error))?;
                    add_option("--config", utf8(&file)?);
                    Vec::new()
                }
            }
        } else {
            if let Some(agent) = session.named_agent() {
                add_option("--agent", agent);
            }
            Config::resolve_directories(&directories)?
        };
        if let Some(thread) = session.named_thread() {
            add_option("--thread", thread);
        }
        if structured {
            arguments.push("--structured".to_owned());
        }
        for directory in &directories {
            arguments.push(format!("{}:{}", utf8(&directory.path)?, suffix(directory.scope)));
        }
        Ok(ServerEntry { command: program, arguments })
    }
}

fn suffix(scope: AccessScope) -> &'static str {
    match scope {
        AccessScope::ReadOnly => "ro",
        AccessScope::ReadWrite => "rw",
        AccessScope::WriteOnly => "wo",
    }
}

fn utf8(path: &Path) -> Result<&str, CommandError> {
    path.to_str().ok_or_else(|| {
        CommandError::invalid(format!(
            "`{}` isn't valid UTF-8, so a host's configuration can't name it; rename it",
            human::host_path(path)
        ))
    })
}

/// How a host names this binary: `stead` if that is enough where the host is started, else its absolute path.
pub(super) fn program(name_is_enough: bool) -> Result<String, CommandError> {
    let own_path =
        env::current_exe().map_err(|error| CommandError::host("this binary can't be found", error))?;
    match find_on_path(&own_path) {
        Some(_) if name_is_enough => Ok("stead".to_owned()),
        // Rather than where a symlink there leads, which may change with the next version.
        Some(path) => Ok(utf8(&path)?.to_owned()),
        None => Ok(utf8(&own_path)?.to_owned()),
    }
}

/// The absolute path of the `stead` that a shell starts, if that is this binary.
fn find_on_path(own_path: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut candidates = env::split_paths(&path).map(|directory| directory.join("stead"));
    let first = std::path::absolute(candidates.find(|candidate| candidate.is_file())?).ok()?;
    (first.canonicalize().ok()? == own_path.canonicalize().ok()?).then_some(first)
}
