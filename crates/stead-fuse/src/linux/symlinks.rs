//! What a symlink's target means on the mount.
//!
//! A target is a path of the stead: an absolute one begins at the top of the stead. The kernel would take it for a path
//! of the host, and it follows `..` out of the mount. So the kernel gets only targets that stay inside: one that leads
//! to a Workspace, relative to the symlink. A target that leads where the agent may not go can't be read, as with a
//! tool.
//!
//! To the door, `a/..` means nothing, whatever `a` is. To the kernel, it means the parent of the directory that `a`
//! leads to, and that may be further up than it looks. So the kernel gets `..` only at the beginning of a target.

use std::path::Path;

use stead_core::path::VfsPath;
use stead_core::router::Router;

/// The target that the kernel gets; `None` if it leads outside the Workspaces.
pub(crate) fn kernel_target(router: &Router, link: &VfsPath, target: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(target).ok()?;
    let directory = link.parent()?;
    let resolved = directory.resolve_symlink_target(text).ok()?;
    let is_inside = router.route(&resolved).is_some() || router.is_synthetic(&resolved);
    if !is_inside {
        return None;
    }
    let names = || text.split('/').filter(|name| !matches!(*name, "" | "."));
    let has_inner_parent = names().skip_while(|name| *name == "..").any(|name| name == "..");
    if !text.starts_with('/') && !has_inner_parent {
        return Some(target.to_vec());
    }
    Some(relative_path(&directory, &resolved).into_bytes())
}

/// How many `..` a target begins with.
pub(crate) fn leading_parents(target: &[u8]) -> usize {
    let names = target.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.take_while(|name| *name == b"..").count()
}

/// The target to store: an absolute host path into the mount becomes a path of the stead.
pub(crate) fn stored_target(mount_point: &Path, target: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(target) else { return target.to_vec() };
    match Path::new(text).strip_prefix(mount_point) {
        Ok(below) if text.starts_with('/') => format!("/{}", below.display()).into_bytes(),
        _ => target.to_vec(),
    }
}

/// The relative path from a directory to a path.
fn relative_path(from: &VfsPath, to: &VfsPath) -> String {
    let components = |path: &VfsPath| -> Vec<String> {
        path.as_str().split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let (from, to) = (components(from), components(to));
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..".to_owned(), from.len() - common);
    let path: Vec<_> = up.chain(to[common..].iter().cloned()).collect();
    if path.is_empty() { ".".to_owned() } else { path.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> VfsPath {
        VfsPath::parse(text).unwrap()
    }

    #[test]
    fn relative_paths_between_directories() {
        let relative = |from, to| relative_path(&path(from), &path(to));
        assert_eq!(relative("/a/b", "/a/c/d"), "../c/d");
        assert_eq!(relative("/a", "/a"), ".");
        assert_eq!(relative("/a/b", "/a"), "..");
        assert_eq!(relative("/", "/x/y"), "x/y");
    }

    #[test]
    fn leading_parent_components_are_counted() {
        assert_eq!([&b"a"[..], b"../a", b"./.././..//x/..", b".."].map(leading_parents), [0, 1, 2, 1]);
    }

    #[test]
    fn the_kernel_gets_only_targets_inside_the_workspaces() {
        let mount = stead_core::Mount::new(std::sync::Arc::new(stead_core::testkit::PanickingStore));
        let workspace = stead_core::Workspace::new(path("/w"), stead_core::AccessScope::ReadWrite, mount);
        let router = Router::new([workspace]).unwrap();
        let shown_target = |link: &str, target: &str| {
            let shown_target = kernel_target(&router, &path(link), target.as_bytes());
            shown_target.map(|shown_target| String::from_utf8(shown_target).unwrap())
        };
        let same = ["a", "../a", "./a", "../../w/a", "a/b//c", "..", "../.."];
        for target in same {
            assert_eq!(shown_target("/w/d/link", target).as_deref(), Some(target));
        }
        assert_eq!(shown_target("/w/d/link", "/w/x").as_deref(), Some("../x"));
        assert_eq!(shown_target("/w/d/link", "a/../../x").as_deref(), Some("../x"));
        assert_eq!(shown_target("/w/d/link", "a/..").as_deref(), Some("."));
        for target in ["/etc/passwd", "../../../x", "../../x", "a/../../../../x"] {
            assert_eq!(shown_target("/w/d/link", target), None, "{target}");
        }
        assert_eq!(kernel_target(&router, &path("/w/link"), b"\xff"), None);
    }

    #[test]
    fn a_host_path_into_the_mount_is_stored_as_a_path_of_the_stead() {
        let stored =
            |target: &str| String::from_utf8(stored_target(Path::new("/mnt/s"), target.as_bytes())).unwrap();
        assert_eq!(stored("/mnt/s/w/a"), "/w/a");
        assert_eq!(stored("/mnt/s"), "/");
        assert_eq!(stored("/mnt/stead/w"), "/mnt/stead/w");
        assert_eq!(stored("../a"), "../a");
    }
}
