//! A configuration without a file: host directories as the Workspaces of one agent.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use stead_core::store::QuotaLimits;
use stead_core::{AccessScope, ApprovalPolicy, VfsPath};
use stead_stores::database::Retention;
use stead_stores::{DisplacedRetention, state_folder_of};

use super::{
    AgentConfig, AuditConfig, Config, DatabaseConfig, FILE_NAME, StoreConfig, WorkspaceConfig, directory_of,
};
use crate::error::{Error, Result, escaped_path};

/// A directory and its Access Scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedDirectory {
    /// The directory.
    pub path: PathBuf,
    /// The Access Scope.
    pub scope: AccessScope,
}

impl ScopedDirectory {
    /// Parses `DIR`, `DIR:ro`, `DIR:rw` or `DIR:wo`. Without a suffix, the scope is READ_ONLY.
    pub fn parse(text: &OsStr) -> Self {
        let bytes = text.as_bytes();
        for (suffix, scope) in [
            (&b":ro"[..], AccessScope::ReadOnly),
            (b":rw", AccessScope::ReadWrite),
            (b":wo", AccessScope::WriteOnly),
        ] {
            if let Some(path) = bytes.strip_suffix(suffix)
                && !path.is_empty()
            {
                return ScopedDirectory { path: PathBuf::from(OsStr::from_bytes(path)), scope };
            }
        }
        ScopedDirectory { path: PathBuf::from(text), scope: AccessScope::ReadOnly }
    }
}

impl Config {
    /// A configuration with these directories as Workspaces of one agent, each at `/` plus the directory's name.
    ///
    /// Stead's own state is in the user's state folder, in a subfolder whose name depends on the directories, and never
    /// inside them.
    pub fn for_directories(agent: &str, directories: &[ScopedDirectory]) -> Result<Config> {
        for_directories(agent, directories, |directories| {
            state_folder_of(directories).ok_or_else(|| {
                Error::Invalid("there is no home directory for the state; set XDG_STATE_HOME".into())
            })
        })
    }
}

fn for_directories(
    agent: &str,
    directories: &[ScopedDirectory],
    state_folder: impl FnOnce(&[&Path]) -> Result<PathBuf>,
) -> Result<Config> {
    let (mut stores, mut workspaces, mut real_paths) = (BTreeMap::new(), Vec::new(), Vec::new());
    for directory in directories {
        let path = fs::canonicalize(&directory.path)
            .and_then(|path| if path.is_dir() { Ok(path) } else { Err(io::ErrorKind::NotADirectory.into()) })
            .map_err(|cause| {
                Error::host(format!("`{}` can't be used", escaped_path(&directory.path)), cause)
            })?;
        let prefix = free_prefix(&path, &workspaces)?;
        let store = prefix.as_str().trim_start_matches('/').to_owned();
        stores.insert(
            store.clone(),
            StoreConfig::Physical {
                path: path.clone(),
                displaced_retention: Some(DisplacedRetention::default()),
            },
        );
        workspaces.push(WorkspaceConfig {
            prefix,
            scope: directory.scope,
            store,
            path: VfsPath::root(),
            description: None,
            protect: None,
            hide: None,
            scratch: Vec::new(),
            quota: QuotaLimits::default(),
            ask: ApprovalPolicy::Never,
        });
        real_paths.push(path);
    }
    let agent_config = AgentConfig { workspaces, ..AgentConfig::default() };
    if let Some(bypass) = agent_config.bypasses(&stores).first() {
        let path_as_written = |workspace: &WorkspaceConfig| {
            let index = agent_config.workspaces.iter().position(|known| known == workspace);
            index.map_or_else(String::new, |index| escaped_path(&directories[index].path).to_string())
        };
        return Err(Error::Invalid(
            bypass.message(&path_as_written(bypass.inner), &path_as_written(bypass.outer)),
        ));
    }
    let real_paths: Vec<_> = real_paths.iter().map(PathBuf::as_path).collect();
    let state_directory = state_folder(&real_paths)?;
    create_private_directories(&state_directory).map_err(state_folder_error)?;
    let file = state_directory.join(FILE_NAME);
    Ok(Config {
        database: DatabaseConfig::default_in(directory_of(&file)),
        file,
        stores,
        agents: BTreeMap::from([(agent.to_owned(), agent_config)]),
        audit: AuditConfig { enabled: true },
        history: Retention::default(),
        warnings: Vec::new(),
        host_checks: Vec::new(),
    })
}

/// Says which variable decides where the folder is, but not its path: an agent may read the message.
fn state_folder_error(cause: io::Error) -> Error {
    let what = "Stead can't create its state folder in the directory that XDG_STATE_HOME names (`~/.local/state` if it \
                isn't set); set XDG_STATE_HOME to a directory that you may write to";
    Error::host(what, cause)
}

/// `/` plus the directory's name, with a number if another Workspace has that prefix.
fn free_prefix(path: &Path, workspaces: &[WorkspaceConfig]) -> Result<VfsPath> {
    let name = path.file_name().map_or(Some("host"), OsStr::to_str);
    let base = name.and_then(|name| VfsPath::parse(&format!("/{name}")).ok()).ok_or_else(|| {
        Error::Invalid(format!(
            "the name of `{}` can't be a Workspace's; rename the directory, or write a stead.toml",
            escaped_path(path)
        ))
    })?;
    let numbered = (2..).map_while(|n| VfsPath::parse(&format!("{base}-{n}")).ok());
    let free = std::iter::once(base.clone())
        .chain(numbered)
        .find(|prefix| !workspaces.iter().any(|workspace| workspace.prefix == *prefix));
    Ok(free.unwrap_or(base))
}

fn create_private_directories(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).recursive(true).create(directory)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Stead;

    #[test]
    fn a_scope_may_follow_the_directory() {
        let parse = |text: &str| ScopedDirectory::parse(OsStr::new(text));
        let scoped = |path: &str, scope| ScopedDirectory { path: path.into(), scope };
        assert_eq!(parse("src"), scoped("src", AccessScope::ReadOnly));
        assert_eq!(parse("src:rw"), scoped("src", AccessScope::ReadWrite));
        assert_eq!(parse("/a:b:wo"), scoped("/a:b", AccessScope::WriteOnly));
        assert_eq!(parse(":ro"), scoped(":ro", AccessScope::ReadOnly));
    }

    #[test]
    fn if_the_state_folder_cannot_be_created_the_error_names_its_variable_and_no_host_path() {
        let host = tempfile::tempdir().unwrap();
        fs::write(host.path().join("file"), "").unwrap();
        let directories = [ScopedDirectory { path: host.path().into(), scope: AccessScope::ReadOnly }];
        let state = host.path().join("file/stead/x");
        let message = for_directories("agent", &directories, |_| Ok(state)).unwrap_err().to_string();
        assert!(message.contains("set XDG_STATE_HOME to a directory that you may write"), "{message}");
        assert!(!message.contains(host.path().to_str().unwrap()), "{message}");
    }

    #[test]
    fn each_directory_is_a_workspace_and_the_state_is_in_none_of_them() {
        let host = tempfile::tempdir().unwrap();
        let (first, second) = (host.path().join("x/src"), host.path().join("y/src"));
        fs::create_dir_all(&first).unwrap();
        fs::create_dir_all(&second).unwrap();
        fs::write(first.join("a"), "1").unwrap();
        let state = host.path().join("x/src/state");
        let directories = [
            ScopedDirectory { path: first.clone(), scope: AccessScope::ReadOnly },
            ScopedDirectory { path: second.clone(), scope: AccessScope::ReadWrite },
        ];
        let config = for_directories("agent", &directories, |_| Ok(state.clone())).unwrap();
        let stead = Stead::open(&config, "agent").unwrap();
        let prefixes: Vec<_> =
            stead.vfs().workspaces().map(|workspace| workspace.prefix().to_string()).collect();
        assert_eq!(prefixes, ["/src", "/src-2"]);
        assert_eq!(stead.vfs().read("/src/a").unwrap().bytes, b"1");
        assert!(stead.vfs().write("/src/b", "").is_err());
        stead.vfs().write("/src-2/b", "2").unwrap();
        assert_eq!(fs::read(second.join("b")).unwrap(), b"2");
        // Even if the state folder lies inside one of the directories, its content can't be reached.
        let database = state.join(".stead/stead.db");
        assert!(database.is_file());
        let logical = format!(
            "/src{}",
            database.strip_prefix(&first).map(|relative| format!("/{}", relative.display())).unwrap()
        );
        assert!(stead.vfs().read(logical.as_str()).is_err());
    }

    #[test]
    fn a_path_that_is_no_directory_is_refused() {
        let host = tempfile::tempdir().unwrap();
        let missing = ScopedDirectory { path: host.path().join("no"), scope: AccessScope::ReadOnly };
        assert!(for_directories("agent", &[missing], |_| Ok(host.path().to_owned())).is_err());
    }
}
