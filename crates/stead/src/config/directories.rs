//! `stead mcp DIR...`: host directories as the Workspaces of one agent, without a file that someone has to write.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use stead_core::hide::is_hidden_by_default;
use stead_core::{AccessScope, VfsPath};
use stead_stores::state_folder_of;

use super::directories_file::DirectoriesFile;
use super::{Config, FILE_NAME, StoreConfig, directories_file};
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

impl ScopedDirectory {
    /// Why serving the directory itself gives an agent more than serving one above it does.
    fn warning(&self) -> Option<String> {
        let path = self.path.to_str()?.trim_start_matches('/');
        let is_in_git = path.split('/').any(|name| name.eq_ignore_ascii_case(".git"));
        let reason = if is_hidden_by_default(path) {
            "by default it is hidden from agents, since it usually holds keys or passwords"
        } else if is_in_git && self.scope != AccessScope::ReadOnly {
            "by default agents can't change git's hooks and configuration, which may run programs"
        } else {
            return None;
        };
        Some(format!("`{}` is served, although {reason}", escaped_path(&self.path)))
    }
}

impl Config {
    /// A configuration with these directories as Workspaces of one agent, each at `/` plus the directory's name, with
    /// history.
    ///
    /// Stead's own state is in the user's state folder, in a subfolder whose name depends on the directories, and never
    /// inside them. A `stead.toml` there says what is served, so that [`Config::find`] finds it from the directories.
    pub fn for_directories(agent: &str, directories: &[ScopedDirectory]) -> Result<Config> {
        let (file, config) = describe(agent, directories, user_state_folder)?;
        file.write(config.file()).map_err(state_folder_error)?;
        Ok(config)
    }

    /// Fails if [`Config::for_directories`] would refuse these directories. Otherwise returns them as absolute paths
    /// without symlinks, ordered by path. Writes nothing.
    pub fn resolve_directories(directories: &[ScopedDirectory]) -> Result<Vec<ScopedDirectory>> {
        let (_, config) = describe("agent", directories, user_state_folder)?;
        Ok(config.scoped_directories("agent"))
    }

    /// The directories that an agent has in a configuration of [`Config::for_directories`]. `None` if this is another
    /// configuration, or has no such agent.
    pub fn served_directories(&self, agent: &str) -> Option<Vec<ScopedDirectory>> {
        let is_own = directories_file::is_in_state_folder(&self.file) && self.agents.contains_key(agent);
        is_own.then(|| self.scoped_directories(agent))
    }

    /// A configuration of [`Config::for_directories`] as the person has it who owns the directories: all of them are
    /// READ_WRITE, because the scopes in the file are those of the server that was started last. Another configuration is
    /// returned unchanged.
    pub fn for_owner(mut self) -> Config {
        if directories_file::is_in_state_folder(&self.file) {
            let workspaces = self.agents.values_mut().flat_map(|agent| &mut agent.workspaces);
            workspaces.for_each(|workspace| workspace.scope = AccessScope::ReadWrite);
        }
        self
    }

    /// Warns of directories that an agent wouldn't see, or couldn't change, if a directory above them was served.
    pub fn directory_warnings(&self, agent: &str) -> Vec<String> {
        self.scoped_directories(agent).iter().filter_map(ScopedDirectory::warning).collect()
    }

    /// The host directories of an agent's Workspaces.
    fn scoped_directories(&self, agent: &str) -> Vec<ScopedDirectory> {
        let workspaces = self.agents.get(agent).map_or(&[][..], |agent| &agent.workspaces);
        let directory = |store: &str| match self.stores.get(store) {
            Some(StoreConfig::Physical { path, .. }) => Some(path.clone()),
            _ => None,
        };
        let scoped = workspaces.iter().filter_map(|workspace| {
            Some(ScopedDirectory { path: directory(&workspace.store)?, scope: workspace.scope })
        });
        scoped.collect()
    }
}

fn user_state_folder(directories: &[&Path]) -> Result<PathBuf> {
    state_folder_of(directories)
        .ok_or_else(|| Error::Invalid("there is no home directory for the state; set XDG_STATE_HOME".into()))
}

/// The file that describes these directories, and the same as a configuration. Writes nothing.
fn describe(
    agent: &str,
    directories: &[ScopedDirectory],
    state_folder: impl FnOnce(&[&Path]) -> Result<PathBuf>,
) -> Result<(DirectoriesFile, Config)> {
    let mut resolved = directories
        .iter()
        .map(|directory| Ok((resolve(&directory.path)?, directory)))
        .collect::<Result<Vec<_>>>()?;
    // The same directories have the same prefixes, in whatever order they are given.
    resolved.sort_by(|(a, first), (b, second)| a.cmp(b).then(first.scope.name().cmp(second.scope.name())));
    resolved.dedup_by(|(a, first), (b, second)| a == b && first.scope == second.scope);
    let (mut file, mut prefixes) = (DirectoriesFile::new(agent), Vec::new());
    for (path, directory) in &resolved {
        let prefix = free_prefix(path, &prefixes)?;
        let text = path.to_str().ok_or_else(|| {
            Error::Invalid(format!(
                "the path of `{}` isn't valid UTF-8, so a stead.toml can't name it; rename the directory",
                escaped_path(&directory.path)
            ))
        })?;
        file.add(agent, &prefix, text, directory.scope);
        prefixes.push(prefix);
    }
    let mut paths: Vec<_> = resolved.iter().map(|(path, _)| path.as_path()).collect();
    paths.dedup();
    let state_folder = state_folder(&paths)?;
    let mut config = Config::parse(&file.to_text(), &state_folder.join(FILE_NAME))?;
    // Another server on the same directories may change the file. This one keeps the scopes that it was started with.
    config.follows_file = false;
    if let Some(agent_config) = config.agents.get(agent)
        && let Some(bypass) = agent_config.bypasses(&config.stores).first()
    {
        let path_as_written = |prefix: &VfsPath| {
            let index = prefixes.iter().position(|known| known == prefix);
            index.map_or_else(String::new, |index| escaped_path(&resolved[index].1.path).to_string())
        };
        let message =
            bypass.message(&path_as_written(&bypass.inner.prefix), &path_as_written(&bypass.outer.prefix));
        return Err(Error::Invalid(message));
    }
    Ok((file, config))
}

/// The path of a directory without symlinks.
fn resolve(directory: &Path) -> Result<PathBuf> {
    if let Some(path) = without_mistaken_scope(directory) {
        let (directory, path) = (escaped_path(directory), escaped_path(path));
        return Err(Error::Invalid(format!(
            "`{directory}` doesn't exist; to serve `{path}`, write `{path}:ro` (read only), `{path}:rw` (read and write) or \
             `{path}:wo` (write only)"
        )));
    }
    fs::canonicalize(directory)
        .and_then(|path| if path.is_dir() { Ok(path) } else { Err(io::ErrorKind::NotADirectory.into()) })
        .map_err(|cause| {
            let moved = cause.kind() == io::ErrorKind::NotFound && Config::has_served(directory);
            let hint = if moved {
                " any more (if it was moved: move it back, or give its new path, where a new history begins)"
            } else {
                ""
            };
            Error::host(format!("`{}` can't be used{hint}", escaped_path(directory)), cause)
        })
}

/// The part of a path before its last `:`, if only that part is a directory.
fn without_mistaken_scope(directory: &Path) -> Option<&Path> {
    let bytes = directory.as_os_str().as_bytes();
    let colon = bytes.iter().rposition(|&byte| byte == b':')?;
    let path = Path::new(OsStr::from_bytes(&bytes[..colon]));
    (!bytes[colon..].contains(&b'/') && !directory.exists() && path.is_dir()).then_some(path)
}

/// Says which variable decides where the folder is, but not its path: an agent may read the message.
fn state_folder_error(cause: io::Error) -> Error {
    let what = "Stead can't write to its state folder in the directory that XDG_STATE_HOME names (`~/.local/state` if it \
                isn't set); set XDG_STATE_HOME to a directory that you may write to";
    Error::host(what, cause)
}

/// `/` plus the directory's name, with a number if another Workspace has that prefix.
fn free_prefix(path: &Path, taken: &[VfsPath]) -> Result<VfsPath> {
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
        .find(|prefix| !taken.iter().any(|known| known == prefix));
    Ok(free.unwrap_or(base))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Stead;

    fn scoped(path: impl Into<PathBuf>, scope: AccessScope) -> ScopedDirectory {
        ScopedDirectory { path: path.into(), scope }
    }

    /// Like [`Config::for_directories`], with its state in a folder of the test.
    fn serve(agent: &str, directories: &[ScopedDirectory], state: &Path) -> Result<Config> {
        let (file, config) = describe(agent, directories, |_| Ok(state.to_owned()))?;
        file.write(config.file()).map_err(state_folder_error)?;
        Ok(config)
    }

    #[test]
    fn a_scope_may_follow_the_directory() {
        let parse = |text: &str| ScopedDirectory::parse(OsStr::new(text));
        assert_eq!(parse("src"), scoped("src", AccessScope::ReadOnly));
        assert_eq!(parse("src:rw"), scoped("src", AccessScope::ReadWrite));
        assert_eq!(parse("/a:b:wo"), scoped("/a:b", AccessScope::WriteOnly));
        assert_eq!(parse(":ro"), scoped(":ro", AccessScope::ReadOnly));
    }

    #[test]
    fn a_directory_that_is_hidden_or_protected_by_default_is_warned_of() {
        let warning = |path: &str, scope| scoped(path, scope).warning();
        let (read_only, read_write) = (AccessScope::ReadOnly, AccessScope::ReadWrite);
        for path in ["/home/ann/.ssh", "/home/ann/.aws/sso", "/home/ann/.SSH"] {
            assert!(warning(path, read_only).unwrap().starts_with(&format!("`{path}` is served")), "{path}");
        }
        for path in ["/code/app/.git/hooks", "/code/app/.git"] {
            assert!(warning(path, read_write).unwrap().contains("hooks"), "{path}");
            assert_eq!(warning(path, read_only), None);
        }
        assert_eq!(warning("/home/ann/code", read_write), None);
    }

    #[test]
    fn a_scope_that_does_not_exist_is_refused_with_those_that_do() {
        let host = tempfile::tempdir().unwrap();
        let project = host.path().join("proj").to_str().unwrap().to_owned();
        fs::create_dir(&project).unwrap();
        fs::create_dir(host.path().join("odd:xx")).unwrap();
        let refusal = |text: &str| {
            let directory = ScopedDirectory::parse(OsStr::new(text));
            serve("agent", &[directory], &host.path().join("state"))
                .map(drop)
                .map_err(|error| error.to_string())
        };
        for scope in ["xx", "rx", "RW", "", "rw:rw"] {
            let message = refusal(&format!("{project}:{scope}")).unwrap_err();
            assert!(message.contains("doesn't exist; to serve"), "{message}");
            assert!(
                message.contains(":ro`") && message.contains(":rw`") && message.contains(":wo`"),
                "{message}"
            );
        }
        assert_eq!(refusal(&format!("{}/odd:xx", host.path().display())), Ok(()));
        assert!(refusal(&format!("{project}/none:xx")).unwrap_err().contains("can't be used"));
    }

    #[test]
    fn if_the_state_folder_cannot_be_created_the_error_names_its_variable_and_no_host_path() {
        let host = tempfile::tempdir().unwrap();
        fs::write(host.path().join("file"), "").unwrap();
        let directories = [scoped(host.path(), AccessScope::ReadOnly)];
        let message =
            serve("agent", &directories, &host.path().join("file/stead/x")).unwrap_err().to_string();
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
        let directories = [scoped(&first, AccessScope::ReadOnly), scoped(&second, AccessScope::ReadWrite)];
        let config = serve("agent", &directories, &state).unwrap();
        let stead = Stead::open(&config, "agent").unwrap();
        let prefixes: Vec<_> =
            stead.vfs().workspaces().map(|workspace| workspace.prefix().to_string()).collect();
        assert_eq!(prefixes, ["/src", "/src-2"]);
        assert_eq!(stead.vfs().read("/src/a").unwrap().bytes, b"1");
        assert!(stead.vfs().write("/src/b", "").is_err());
        stead.vfs().write("/src-2/b", "2").unwrap();
        assert_eq!(fs::read(second.join("b")).unwrap(), b"2");
        // Even if the state folder lies inside one of the directories, its content can't be reached.
        for own in ["state/.stead/stead.db", "state/stead.toml"] {
            assert!(first.join(own).is_file(), "{own}");
            assert!(stead.vfs().read(format!("/src/{own}").as_str()).is_err(), "{own}");
        }
    }

    #[test]
    fn a_path_that_is_no_directory_is_refused() {
        let host = tempfile::tempdir().unwrap();
        let missing = scoped(host.path().join("no"), AccessScope::ReadOnly);
        assert!(serve("agent", &[missing], host.path()).is_err());
    }

    #[test]
    fn the_prefixes_do_not_depend_on_the_order_of_the_directories() {
        let host = tempfile::tempdir().unwrap();
        let directories = ["y/src", "x/src"].map(|name| {
            fs::create_dir_all(host.path().join(name)).unwrap();
            scoped(host.path().join(name), AccessScope::ReadOnly)
        });
        let reversed = [directories[1].clone(), directories[0].clone(), directories[1].clone()];
        let file_of = |directories: &[ScopedDirectory]| {
            describe("agent", directories, |_| Ok("/state".into())).unwrap().0
        };
        assert_eq!(file_of(&directories), file_of(&reversed));
    }

    #[test]
    fn the_file_describes_the_same_stead_and_offers_its_history() {
        let host = tempfile::tempdir().unwrap();
        let (code, state) = (host.path().join("my code"), host.path().join("state"));
        fs::create_dir(&code).unwrap();
        let served = serve("agent", &[scoped(&code, AccessScope::ReadWrite)], &state).unwrap();
        let loaded = Config::load(&state.join(FILE_NAME)).unwrap();
        assert_eq!((&served.stores, &served.agents), (&loaded.stores, &loaded.agents));
        assert!(loaded.agents["agent"].tools.history);
        assert!(loaded.warnings().is_empty(), "{:?}", loaded.warnings());
        // A running server keeps its scopes, whatever another one writes to the file.
        assert_eq!((served.file_to_follow(), loaded.file_to_follow()), (None, Some(loaded.file())));
    }

    #[test]
    fn the_newest_scopes_of_an_agent_win_and_other_agents_stay() {
        let host = tempfile::tempdir().unwrap();
        let (code, state) = (host.path().join("code"), host.path().join("state"));
        fs::create_dir(&code).unwrap();
        serve("writer", &[scoped(&code, AccessScope::ReadWrite)], &state).unwrap();
        serve("reader", &[scoped(&code, AccessScope::ReadWrite)], &state).unwrap();
        let own = serve("reader", &[scoped(&code, AccessScope::ReadOnly)], &state).unwrap();
        assert_eq!(own.agents.keys().collect::<Vec<_>>(), ["reader"], "a server serves only its own agent");
        let loaded = Config::load(&state.join(FILE_NAME)).unwrap();
        let scope = |agent: &str| loaded.agents[agent].workspaces[0].scope;
        assert_eq!((scope("reader"), scope("writer")), (AccessScope::ReadOnly, AccessScope::ReadWrite));
    }

    #[test]
    fn a_file_that_says_the_same_already_is_not_written_again() {
        let host = tempfile::tempdir().unwrap();
        let (code, state) = (host.path().join("code"), host.path().join("state"));
        fs::create_dir(&code).unwrap();
        let serve = || serve("agent", &[scoped(&code, AccessScope::ReadWrite)], &state).unwrap();
        serve();
        let with_comment = format!("{}# mine\n", fs::read_to_string(state.join(FILE_NAME)).unwrap());
        fs::write(state.join(FILE_NAME), &with_comment).unwrap();
        serve();
        assert_eq!(fs::read_to_string(state.join(FILE_NAME)).unwrap(), with_comment);
        // What can't be read as such a file is replaced.
        fs::write(state.join(FILE_NAME), "half a li").unwrap();
        serve();
        assert!(Config::load(&state.join(FILE_NAME)).is_ok());
    }
}
