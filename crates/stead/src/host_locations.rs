//! The host paths of Workspaces, to refuse an import or export that would copy a directory into itself.

use std::path::{Path, PathBuf};

use stead_core::VfsPath;
use stead_stores::resolve_existing_prefix;

/// The Workspaces that are host directories, as the configuration has them. Empty for a stead that was put together by
/// [`crate::Stead::builder`].
#[derive(Debug, Clone, Default)]
pub(crate) struct HostLocations {
    /// Each Workspace's prefix, and its host directory. Symlinks in it are resolved only when it is needed.
    directories: Vec<(VfsPath, PathBuf)>,
}

impl HostLocations {
    /// Adds the Workspace at `prefix`, which shows `path` in the host directory `root`.
    pub(crate) fn add(&mut self, prefix: &VfsPath, root: &Path, path: &VfsPath) {
        self.directories.push((prefix.clone(), root.join(&path.as_str()[1..])));
    }

    /// Whether the host directory contains the host path of the logical `path`.
    pub(crate) fn directory_contains(&self, directory: &Path, path: &VfsPath) -> bool {
        let directory = resolve_existing_prefix(directory);
        self.host_paths(path).any(|host_path| host_path.starts_with(&directory))
    }

    /// Whether the host directory contains a Workspace that is below the logical `path`.
    pub(crate) fn directory_contains_nested(&self, directory: &Path, path: &VfsPath) -> bool {
        let directory = resolve_existing_prefix(directory);
        self.nested_directories(path).any(|host_path| host_path.starts_with(&directory))
    }

    /// Whether the host path `directory` lies inside the logical `path`, including the Workspaces nested in it.
    pub(crate) fn contains_host_path(&self, directory: &Path, path: &VfsPath) -> bool {
        let directory = resolve_existing_prefix(directory);
        let nested = self.nested_directories(path);
        self.host_paths(path).chain(nested).any(|host_path| directory.starts_with(host_path))
    }

    /// The host directories of the Workspaces at a logical path and below it.
    fn nested_directories<'a>(&'a self, path: &'a VfsPath) -> impl Iterator<Item = PathBuf> + 'a {
        let nested = self.directories.iter().filter(|(prefix, _)| prefix.strip_prefix(path).is_some());
        nested.map(|(_, directory)| resolve_existing_prefix(directory))
    }

    /// The host paths that a logical path has in every Workspace around it, also where a nested Workspace hides them.
    fn host_paths<'a>(&'a self, path: &'a VfsPath) -> impl Iterator<Item = PathBuf> + 'a {
        self.directories
            .iter()
            .filter_map(|(prefix, directory)| Some((directory, path.strip_prefix(prefix)?)))
            .map(|(directory, relative_path)| resolve_existing_prefix(directory).join(relative_path))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_directory_inside_a_workspace_is_found() {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(host.path().join("code/app")).unwrap();
        std::os::unix::fs::symlink("code", host.path().join("alias")).unwrap();
        let path = |text: &str| VfsPath::parse(text).unwrap();
        let mut locations = HostLocations::default();
        locations.add(&path("/desk/project"), &host.path().join("code"), &path("/app"));

        let contains_host_path = |directory: &str, from: &str| {
            locations.contains_host_path(&host.path().join(directory), &path(from))
        };
        assert!(contains_host_path("code/app/out", "/desk/project"));
        assert!(contains_host_path("alias/app/out/deeper", "/desk"));
        assert!(contains_host_path("code/app/src/out", "/desk/project/src"));
        assert!(!contains_host_path("code/app/out", "/desk/project/src"));
        assert!(!contains_host_path("code/out", "/desk/project"));
        assert!(!contains_host_path("code/app/out", "/elsewhere"));

        let contains =
            |directory: &str, to: &str| locations.directory_contains(&host.path().join(directory), &path(to));
        assert!(contains("alias", "/desk/project/copy"));
        assert!(contains("code/app", "/desk/project"));
        assert!(!contains("code/app/src", "/desk/project/copy"));

        let contains_nested = |directory: &str, to: &str| {
            locations.directory_contains_nested(&host.path().join(directory), &path(to))
        };
        assert!(contains_nested("alias", "/desk") && contains_nested("code/app", "/"));
        assert!(!contains_nested("code/app/src", "/desk") && !contains_nested("code", "/elsewhere"));
    }
}
