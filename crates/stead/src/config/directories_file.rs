//! The `stead.toml` that `stead mcp DIR...` writes into its state folder, and how a command finds it from one of the
//! directories.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stead_core::{AccessScope, VfsPath};
use stead_stores::{state_folder_name, state_folders};

use super::config_error::SteadChoice;
use super::{ConfigError, FILE_NAME, STATE_DIRECTORY_NAME, directory_of};
use crate::stores::create_private_directory;

const HEADER: &str = "\
# What `stead mcp DIR...` serves. It writes this file, so changes made here may be lost. For settings of your own, write a
# stead.toml in the directory (`stead init`): it wins over this file.

";

/// The content of the file: the part of a `stead.toml` that such a stead needs.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DirectoriesFile {
    stores: BTreeMap<String, StoreTable>,
    agents: BTreeMap<String, AgentTable>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoreTable {
    kind: String,
    path: PathBuf,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AgentTable {
    history: bool,
    workspaces: Vec<WorkspaceTable>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WorkspaceTable {
    prefix: String,
    scope: String,
    store: String,
}

impl DirectoriesFile {
    /// A file with one agent that has no directory yet.
    pub(super) fn new(agent: &str) -> Self {
        let table = AgentTable { history: true, workspaces: Vec::new() };
        DirectoriesFile { stores: BTreeMap::new(), agents: BTreeMap::from([(agent.to_owned(), table)]) }
    }

    /// Gives the agent a directory. The Store has the name of the prefix.
    pub(super) fn add(&mut self, agent: &str, prefix: &VfsPath, path: &str, scope: AccessScope) {
        let store = prefix.as_str().trim_start_matches('/').to_owned();
        self.stores.insert(store.clone(), StoreTable { kind: "physical".to_owned(), path: path.into() });
        if let Some(agent) = self.agents.get_mut(agent) {
            let (prefix, scope) = (prefix.to_string(), scope.name().to_owned());
            agent.workspaces.push(WorkspaceTable { prefix, scope, store });
        }
    }

    /// The text of the file.
    pub(super) fn to_text(&self) -> String {
        let tables = toml::to_string(self).expect("tables of texts are valid TOML");
        format!("{HEADER}{tables}")
    }

    /// Writes the file, unless it says the same already. Other agents in it stay as they are.
    pub(super) fn write(mut self, file: &Path) -> io::Result<()> {
        if DirectoriesFile::read(file)?.is_some_and(|current| current.includes(&self)) {
            return Ok(());
        }
        let folder = directory_of(file);
        fs::DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
        // Agents can't reach the state directory, even if the folder is inside one of their directories.
        let state_directory = folder.join(STATE_DIRECTORY_NAME);
        create_private_directory(&state_directory)?;
        // Two servers that start at the same time must not lose each other's agent.
        let lock = private_file(&state_directory.join("stead.toml.lock"))?;
        lock.lock()?;
        if let Some(current) = DirectoriesFile::read(file)?.filter(|current| current.stores == self.stores) {
            for (name, agent) in current.agents {
                self.agents.entry(name).or_insert(agent);
            }
        }
        let partial = state_directory.join("stead.toml.new");
        let mut output = private_file(&partial)?;
        output.write_all(self.to_text().as_bytes())?;
        output.sync_all()?;
        fs::rename(&partial, file)
    }

    /// The file's content; `None` if there is no such file, or it is damaged.
    fn read(file: &Path) -> io::Result<Option<Self>> {
        use io::ErrorKind::{InvalidData, NotADirectory, NotFound};
        match fs::read_to_string(file) {
            Ok(text) => Ok(toml::from_str(&text).ok()),
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidData) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn includes(&self, other: &DirectoriesFile) -> bool {
        self.stores == other.stores
            && other.agents.iter().all(|(name, agent)| self.agents.get(name) == Some(agent))
    }

    /// The stead of this file, if it is in the folder where a server on its directories keeps its state: not if the folder
    /// was copied or renamed.
    fn stead_in(&self, folder: &Path) -> Option<SteadChoice> {
        let directories = self.directories();
        let is_own = folder.file_name()? == state_folder_name(&directories).as_str();
        let directories = directories.into_iter().map(Path::to_owned).collect();
        is_own.then(|| SteadChoice { file: folder.join(FILE_NAME), directories })
    }

    fn directories(&self) -> Vec<&Path> {
        let mut directories: Vec<_> = self.stores.values().map(|store| store.path.as_path()).collect();
        directories.sort_unstable();
        directories.dedup();
        directories
    }
}

/// Opens a file for writing from its beginning that only its owner may read.
fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Whether a file is where `stead mcp DIR...` writes its own.
pub(super) fn is_in_state_folder(file: &Path) -> bool {
    state_folders().is_some_and(|folders| file.ancestors().nth(2) == Some(&folders))
}

/// Whether `stead mcp DIR...` has served this directory, which may be gone.
pub(super) fn has_served(folders: &Path, directory: &Path) -> bool {
    let has_directory = |stead: &SteadChoice| stead.directories.iter().any(|known| known == directory);
    ServedSteads::read(folders).is_ok_and(|served| served.steads.iter().any(has_directory))
}

/// The file of the stead that has this directory, or else the nearest directory above it. The directory must be an
/// absolute path without symlinks.
///
/// If several steads have it, the one that has no other directory is meant.
pub(super) fn find(folders: &Path, directory: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let unreadable = |file: PathBuf, error: &io::Error| ConfigError::Unreadable { file, kind: error.kind() };
    let served = ServedSteads::read(folders).map_err(|error| unreadable(folders.to_owned(), &error))?;
    for directory in directory.ancestors() {
        let has_directory = |stead: &&SteadChoice| stead.directories.iter().any(|known| known == directory);
        let matching: Vec<_> = served.steads.iter().filter(has_directory).collect();
        match (matching.iter().find(|stead| stead.directories.len() == 1), matching.as_slice()) {
            (Some(stead), _) | (None, [stead]) => return Ok(Some(stead.file.clone())),
            (None, []) => {}
            (None, _) => {
                return Err(ConfigError::SeveralSteads { choices: matching.into_iter().cloned().collect() });
            }
        }
        let folder = folders.join(state_folder_name(&[directory]));
        if let Some((file, error)) = served.unreadable.iter().find(|(file, _)| file.starts_with(&folder)) {
            return Err(unreadable(file.clone(), error));
        }
    }
    Ok(None)
}

/// The steads of `stead mcp DIR...` that have their state in some folders.
struct ServedSteads {
    /// Ordered by their directories.
    steads: Vec<SteadChoice>,
    /// The files that can't be read, so that it is unknown what they serve.
    unreadable: Vec<(PathBuf, io::Error)>,
}

impl ServedSteads {
    fn read(folders: &Path) -> io::Result<Self> {
        let mut served = ServedSteads { steads: Vec::new(), unreadable: Vec::new() };
        let entries = match fs::read_dir(folders) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(served),
            entries => entries?,
        };
        for folder in entries.flatten().map(|entry| entry.path()) {
            let file = folder.join(FILE_NAME);
            match DirectoriesFile::read(&file) {
                Ok(content) => served.steads.extend(content.and_then(|content| content.stead_in(&folder))),
                Err(error) => served.unreadable.push((file, error)),
            }
        }
        served.steads.sort_by(|a, b| a.directories.cmp(&b.directories));
        Ok(served)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Writes what `stead mcp` writes for these directories, and returns the file.
    fn served(folders: &Path, directories: &[&str]) -> PathBuf {
        let mut content = DirectoriesFile::new("agent");
        for (index, directory) in directories.iter().enumerate() {
            let prefix = VfsPath::parse(&format!("/{index}")).unwrap();
            content.add("agent", &prefix, directory, AccessScope::ReadOnly);
        }
        let paths: Vec<_> = directories.iter().map(Path::new).collect();
        let file = folders.join(state_folder_name(&paths)).join(FILE_NAME);
        content.write(&file).unwrap();
        file
    }

    #[test]
    fn a_stead_is_found_from_its_directory_and_from_below() {
        let folders = tempfile::tempdir().unwrap();
        let find = |directory: &str| find(folders.path(), Path::new(directory)).unwrap();
        assert_eq!(find("/code"), None);
        let (code, app) = (served(folders.path(), &["/code"]), served(folders.path(), &["/code/app"]));
        assert_eq!(find("/code"), Some(code.clone()));
        assert_eq!(find("/code/other/src"), Some(code));
        assert_eq!(find("/code/app/src"), Some(app));
        assert_eq!(find("/codes"), None);
        assert_eq!(find("/"), None);
    }

    #[test]
    fn of_several_steads_with_a_directory_the_one_that_has_no_other_is_meant() {
        let folders = tempfile::tempdir().unwrap();
        let find = |directory: &str| find(folders.path(), Path::new(directory));
        let with_notes = served(folders.path(), &["/code", "/notes"]);
        assert_eq!(find("/code"), Ok(Some(with_notes.clone())));
        let with_docs = served(folders.path(), &["/code", "/docs"]);
        let error = find("/code/src").unwrap_err();
        let ConfigError::SeveralSteads { choices } = &error else { panic!("{error}") };
        assert_eq!(choices.iter().map(|choice| &choice.file).collect::<Vec<_>>(), [&with_docs, &with_notes]);
        let text = error.to_string();
        assert!(text.contains(&format!("stead --config {} ", with_docs.display())), "{text}");
        let alone = served(folders.path(), &["/code"]);
        assert_eq!(find("/code/src"), Ok(Some(alone)));
        assert_eq!(find("/docs"), Ok(Some(with_docs)));
    }

    #[test]
    fn a_state_folder_that_was_copied_or_damaged_is_not_found() {
        let folders = tempfile::tempdir().unwrap();
        let file = served(folders.path(), &["/code"]);
        let copy = folders.path().join("0123");
        fs::create_dir(&copy).unwrap();
        fs::copy(&file, copy.join(FILE_NAME)).unwrap();
        assert_eq!(find(folders.path(), Path::new("/code")), Ok(Some(file.clone())));
        fs::write(&file, "stores = 1").unwrap();
        assert_eq!(find(folders.path(), Path::new("/code")), Ok(None));
    }

    #[test]
    fn what_cannot_be_read_is_reported_and_not_taken_for_missing() {
        let folders = tempfile::tempdir().unwrap();
        let file = served(folders.path(), &["/code"]);
        // Even the superuser can't read a directory as a file.
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let unreadable = |file: &Path, kind| Err(ConfigError::Unreadable { file: file.to_owned(), kind });
        let kind = io::ErrorKind::IsADirectory;
        assert_eq!(find(folders.path(), Path::new("/code/src")), unreadable(&file, kind));
        assert_eq!(find(folders.path(), Path::new("/other")), Ok(None), "it is about another directory");
        let no_folder = folders.path().join("file");
        fs::write(&no_folder, "").unwrap();
        assert_eq!(
            find(&no_folder, Path::new("/code")),
            unreadable(&no_folder, io::ErrorKind::NotADirectory)
        );
    }
}
