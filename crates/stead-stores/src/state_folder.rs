//! Finds the state directory for host directories that no configuration mentions. It lies in the user's state folder,
//! under a name that is derived from the paths of the directories, and never inside them.

use std::env;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns the folder for these directories; the state directory is `.stead` in it.
///
/// The directories must be absolute paths without symlinks. `None` if the user has no home directory and
/// `XDG_STATE_HOME` is not set to an absolute path.
pub fn state_folder_of(directories: &[&Path]) -> Option<PathBuf> {
    Some(state_folders()?.join(state_folder_name(directories)))
}

/// Returns the user's directory that contains the folders of [`state_folder_of`]. `None` as there.
pub fn state_folders() -> Option<PathBuf> {
    let user_dir = user_state_dir(env::var_os("XDG_STATE_HOME").map(PathBuf::from), env::home_dir())?;
    Some(user_dir.join("stead"))
}

/// Returns the user's directory for state. A relative `XDG_STATE_HOME` is ignored, as the XDG specification says.
fn user_state_dir(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg.filter(|xdg| xdg.is_absolute()).or_else(|| home.map(|home| home.join(".local/state")))
}

/// Returns the name of the folder for these directories: a hash of their paths, which doesn't depend on their order.
pub fn state_folder_name(directories: &[&Path]) -> String {
    let mut directories = directories.to_vec();
    directories.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for directory in directories {
        let bytes = directory.as_os_str().as_bytes();
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_folder_follows_xdg() {
        let home = || Some(PathBuf::from("/home/ann"));
        assert_eq!(user_state_dir(Some("/xdg".into()), home()), Some("/xdg".into()));
        assert_eq!(user_state_dir(Some("relative".into()), home()), Some("/home/ann/.local/state".into()));
        assert_eq!(user_state_dir(None, None), None);
    }

    #[test]
    fn the_folder_depends_on_the_paths_of_the_directories_and_not_on_their_order() {
        let (one, two) = (Path::new("/srv/one"), Path::new("/srv/two"));
        assert_eq!(state_folder_name(&[one, two]), state_folder_name(&[two, one]));
        assert_ne!(state_folder_name(&[one]), state_folder_name(&[two]));
        assert_ne!(state_folder_name(&[one]), state_folder_name(&[one, two]));
    }
}
