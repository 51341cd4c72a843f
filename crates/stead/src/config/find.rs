//! Finds the configuration file.

use std::env;
use std::path::{Path, PathBuf};

use super::{Config, ConfigError, FILE_NAME};

impl Config {
    /// The file to read: `explicit` if given, else `./stead.toml`, else the one in the user's configuration directory.
    pub fn find(explicit: Option<&Path>) -> Result<PathBuf, ConfigError> {
        if let Some(file) = explicit {
            return Ok(file.to_owned());
        }
        let directory = user_directory(env::var_os("XDG_CONFIG_HOME").map(PathBuf::from), env::home_dir());
        let candidates = [
            Some(PathBuf::from(FILE_NAME)),
            directory.map(|directory| directory.join("stead").join(FILE_NAME)),
        ];
        candidates.into_iter().flatten().find(|file| file.is_file()).ok_or(ConfigError::NotFound)
    }
}

/// The user's configuration directory. A relative XDG_CONFIG_HOME is ignored, as its specification says.
fn user_directory(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg.filter(|xdg| xdg.is_absolute()).or_else(|| home.map(|home| home.join(".config")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
