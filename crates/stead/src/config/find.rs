//! Finds the configuration file.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stead_stores::state_folders;

use super::config_error::{SkipReason, SkippedFile};
use super::workspace_location::is_in_mounted_stead;
use super::{Config, ConfigError, FILE_NAME, directories_file};

impl Config {
    /// The file to read: `explicit` if given, else the first of these:
    ///
    /// - `stead.toml` in the current directory, or in the nearest directory above it, up to the home directory or the
    ///   end of the file system. Above the current directory, a file counts only if the user or root owns it. A file in
    ///   a mounted stead never counts.
    /// - the file of `stead mcp DIR...` for the current directory, or for the nearest directory above it
    /// - `stead/stead.toml` in the user's configuration directory
    pub fn find(explicit: Option<&Path>) -> Result<PathBuf, ConfigError> {
        if let Some(file) = explicit {
            return Ok(file.to_owned());
        }
        let directory = env::current_dir().map_err(|_| ConfigError::NoCurrentDirectory)?;
        match Search::of_user(&directory).run()? {
            Found::Above(levels) => Ok(relative_name(levels)),
            Found::Elsewhere(file) => Ok(file),
        }
    }

    /// The file that [`Config::find`] finds if this is the current directory. It must be an absolute path without
    /// symlinks.
    pub fn find_from(directory: &Path) -> Result<PathBuf, ConfigError> {
        match Search::of_user(directory).run()? {
            Found::Above(levels) => {
                Ok(directory.ancestors().nth(levels).unwrap_or(directory).join(FILE_NAME))
            }
            Found::Elsewhere(file) => Ok(file),
        }
    }

    /// Whether `stead mcp DIR...` has served this directory. It may be gone.
    pub fn has_served(directory: &Path) -> bool {
        let directory = std::path::absolute(directory);
        let (Some(folders), Ok(directory)) = (state_folders(), directory) else { return false };
        directories_file::has_served(&folders, &directory)
    }
}

/// Where a file was found.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// So many levels above the directory where the search began; 0 is that directory.
    Above(usize),
    /// In one of the user's own folders.
    Elsewhere(PathBuf),
}

/// Where to look, and for whom.
struct Search<'a> {
    /// Where the search begins: an absolute path without symlinks.
    start: &'a Path,
    user: u32,
    home: Option<PathBuf>,
    /// The user's configuration directory.
    config_directory: Option<PathBuf>,
    /// Where the state folders of `stead mcp DIR...` are.
    state_folders: Option<PathBuf>,
}

impl<'a> Search<'a> {
    fn of_user(start: &'a Path) -> Self {
        let home = env::home_dir();
        let config_directory =
            user_directory(env::var_os("XDG_CONFIG_HOME").map(PathBuf::from), home.clone());
        Search {
            start,
            user: rustix::process::geteuid().as_raw(),
            home: home.and_then(|home| home.canonicalize().ok()),
            config_directory,
            state_folders: state_folders(),
        }
    }

    fn run(&self) -> Result<Found, ConfigError> {
        let mut skipped = Vec::new();
        for (levels, directory) in self.directories().into_iter().enumerate() {
            let file = directory.join(FILE_NAME);
            if !file.is_file() {
                continue;
            }
            match self.reason_to_skip(&file, levels) {
                None => return Ok(Found::Above(levels)),
                Some(reason) => skipped.push(SkippedFile { file: relative_name(levels), reason }),
            }
        }
        if let Some(folders) = &self.state_folders
            && let Some(file) = directories_file::find(folders, self.start)?
        {
            return Ok(Found::Elsewhere(file));
        }
        let users_file =
            self.config_directory.as_ref().map(|directory| directory.join("stead").join(FILE_NAME));
        match users_file.filter(|file| file.is_file()) {
            Some(file) => Ok(Found::Elsewhere(file)),
            None => Err(ConfigError::NotFound { skipped }),
        }
    }

    /// The directories to look in, from the first one up.
    fn directories(&self) -> Vec<&'a Path> {
        let device = |directory: &Path| fs::metadata(directory).map(|metadata| metadata.dev()).ok();
        let mut directories = vec![self.start];
        let mut current = self.start;
        while let Some(parent) = current.parent()
            && self.home.as_deref() != Some(current)
            && device(parent) == device(current)
        {
            directories.push(parent);
            current = parent;
        }
        directories
    }

    /// Why a file isn't used, although it exists.
    fn reason_to_skip(&self, file: &Path, levels: usize) -> Option<SkipReason> {
        // A symlink of another user decides which directory the relative paths of the file are relative to.
        let owners = [fs::symlink_metadata(file), fs::metadata(file)];
        let is_trusted = |owner: u32| owner == self.user || owner == 0;
        if levels > 0 && !owners.iter().flatten().all(|metadata| is_trusted(metadata.uid())) {
            return Some(SkipReason::OtherOwner);
        }
        is_in_mounted_stead(file).then_some(SkipReason::InMountedStead)
    }
}

/// The name of the file so many levels above the current directory: `../../stead.toml`.
fn relative_name(levels: usize) -> PathBuf {
    std::iter::repeat_n("..", levels).chain([FILE_NAME]).collect()
}

/// The user's configuration directory. A relative XDG_CONFIG_HOME is ignored, as its specification says.
fn user_directory(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg.filter(|xdg| xdg.is_absolute()).or_else(|| home.map(|home| home.join(".config")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A user's home, in a directory of the test.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = Home(tempfile::tempdir().unwrap());
            fs::create_dir_all(home.path("code/app/src")).unwrap();
            home
        }

        fn path(&self, relative: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(relative)
        }

        fn file(&self, relative: &str) {
            fs::create_dir_all(self.path(relative).parent().unwrap()).unwrap();
            fs::write(self.path(relative), "").unwrap();
        }

        /// Searches from `start`, as the user who has this home.
        fn search(&self, start: &str) -> Result<Found, ConfigError> {
            self.search_as(rustix::process::geteuid().as_raw(), start)
        }

        fn search_as(&self, user: u32, start: &str) -> Result<Found, ConfigError> {
            let start = self.path(start);
            let search = Search {
                start: &start,
                user,
                home: Some(self.path("")),
                config_directory: Some(self.path(".config")),
                state_folders: Some(self.path(".local/state/stead")),
            };
            search.run()
        }
    }

    #[test]
    fn the_users_directory_follows_xdg() {
        let home = || Some(PathBuf::from("/home/ann"));
        assert_eq!(user_directory(Some("/xdg".into()), home()), Some("/xdg".into()));
        assert_eq!(user_directory(Some("relative".into()), home()), Some("/home/ann/.config".into()));
        assert_eq!(user_directory(None, home()), Some("/home/ann/.config".into()));
        assert_eq!(user_directory(None, None), None);
    }

    #[test]
    fn a_named_file_is_taken_as_it_is() {
        assert_eq!(Config::find(Some(Path::new("other.toml"))), Ok("other.toml".into()));
    }

    #[test]
    fn the_nearest_file_above_wins_and_the_users_own_file_comes_last() {
        let home = Home::new();
        assert_eq!(home.search("code/app/src"), Err(ConfigError::NotFound { skipped: Vec::new() }));
        home.file(".config/stead/stead.toml");
        let users_file = Found::Elsewhere(home.path(".config/stead/stead.toml"));
        assert_eq!(home.search("code/app/src"), Ok(users_file));
        home.file("stead.toml");
        assert_eq!(home.search("code/app/src"), Ok(Found::Above(3)));
        home.file("code/stead.toml");
        assert_eq!(home.search("code/app/src"), Ok(Found::Above(2)));
        assert_eq!(home.search("code"), Ok(Found::Above(0)));
        assert_eq!(relative_name(2), Path::new("../../stead.toml"));
        assert_eq!(relative_name(0), Path::new("stead.toml"));
    }

    #[test]
    fn nothing_above_the_home_directory_is_found() {
        let home = Home::new();
        home.file("stead.toml");
        let start = home.path("code/app");
        let search = Search {
            start: &start,
            user: rustix::process::geteuid().as_raw(),
            home: Some(home.path("code")),
            config_directory: None,
            state_folders: None,
        };
        assert_eq!(search.run(), Err(ConfigError::NotFound { skipped: Vec::new() }));
    }

    #[test]
    fn a_file_of_another_user_is_used_only_in_the_current_directory() {
        let home = Home::new();
        home.file("code/stead.toml");
        let owner = fs::metadata(home.path("code/stead.toml")).unwrap().uid();
        if owner == 0 {
            // Root's files are trusted, so the file has to belong to someone else.
            std::os::unix::fs::chown(home.path("code/stead.toml"), Some(4242), None).unwrap();
        }
        let user = owner + 1;
        assert_eq!(home.search_as(user, "code"), Ok(Found::Above(0)));
        let error = home.search_as(user, "code/app").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("`../stead.toml` isn't used, because it belongs to another user"), "{text}");
        // Something else that is found is used without a word about it.
        home.file(".config/stead/stead.toml");
        assert!(matches!(home.search_as(user, "code/app"), Ok(Found::Elsewhere(_))));
    }

    #[test]
    fn a_symlink_of_another_user_to_the_users_own_file_is_not_used() {
        if !rustix::process::geteuid().is_root() {
            // Only root can make a symlink that belongs to someone else.
            return;
        }
        let home = Home::new();
        home.file("mine/stead.toml");
        std::os::unix::fs::symlink(home.path("mine/stead.toml"), home.path("code/stead.toml")).unwrap();
        std::os::unix::fs::lchown(home.path("code/stead.toml"), Some(4242), None).unwrap();
        assert!(
            matches!(home.search("code/app"), Err(ConfigError::NotFound { skipped }) if skipped.len() == 1)
        );
    }
}
