//! Keeps an agent from making a directory into a git repository that runs what the agent wrote.
//!
//! Git treats any directory that has `HEAD`, `objects` and `refs` (or `HEAD` and `commondir`) as a repository, whatever
//! the directory's name. When a person next uses git there, git follows the `config` and runs the `hooks` beside them,
//! outside of every boundary. The `protect` globs cover these names in a `.git` directory. This module covers them in
//! all other directories: in a repository, the names that git obeys can't be changed, and a directory that has such a
//! name can't be made into a repository, in whatever order the names are created.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::name::{case_fold, escape_name};
use crate::search::WalkOptions;
use crate::store::{StoreError, StorePath, StoreResult};
use crate::vfs::resolve::ResolvedPath;

/// The names that git looks for in a repository.
const GIT_NAMES: [&str; 7] = ["HEAD", "objects", "refs", COMMON_DIR, "config", "config.worktree", "hooks"];
/// The file that makes git look for the rest of a repository in another directory.
const COMMON_DIR: &str = "commondir";
/// The names among them whose content git obeys.
const OBEYED_NAMES: [&str; 4] = [COMMON_DIR, "config", "config.worktree", "hooks"];

/// A name that git looks for, in a directory that git may treat as a repository.
#[derive(Debug)]
pub(super) struct GitName {
    directory: StorePath,
    name: &'static str,
}

/// Whether a change may create or change such a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RepositoryVerdict<T> {
    /// It may not: git would obey the agent.
    Refused,
    /// It may, as long as these names in the same directory are still free when the change is applied.
    Allowed(Vec<T>),
}

impl GitName {
    /// The components of a path that git looks for in a repository; none for nearly all paths. Directories count,
    /// because a change creates missing ones.
    pub(super) fn all_in(resolved: &ResolvedPath<'_>) -> Vec<Self> {
        let mut git_names = Vec::new();
        let mut rest = resolved.node_path.path.as_bytes();
        while !rest.is_empty() {
            let slash = memchr::memrchr(b'/', rest);
            let name = &rest[slash.map_or(0, |slash| slash + 1)..];
            rest = &rest[..slash.unwrap_or(0)];
            if let Some(name) = known_git_name(name) {
                git_names.push(GitName { directory: StorePath::from_checked(rest), name });
            }
        }
        git_names
    }

    /// The path of the name, spelled as git spells it.
    pub(super) fn path(&self) -> StorePath {
        self.directory.child(self.name.as_bytes())
    }

    /// Whether the name may be created or changed. `exists` says which paths exist.
    pub(super) fn verdict(&self, exists: impl Fn(StorePath) -> bool) -> RepositoryVerdict<StorePath> {
        let path = |name: &str| self.directory.child(name.as_bytes());
        match repository_verdict(self.name, |name| exists(path(name))) {
            RepositoryVerdict::Refused => RepositoryVerdict::Refused,
            RepositoryVerdict::Allowed(free) => {
                RepositoryVerdict::Allowed(free.into_iter().map(path).collect())
            }
        }
    }
}

/// Refuses a directory that contains a repository with names that git obeys: it must not come from a Workspace that
/// protects nothing into one that does.
pub(super) fn check_no_repository(from: &ResolvedPath<'_>) -> StoreResult<()> {
    let mut names: HashMap<StorePath, Vec<&'static str>> = HashMap::new();
    // What is hidden is neither copied nor moved.
    let walk = WalkOptions { hide: from.hidden_names(), ..WalkOptions::default() };
    from.store().walk(&from.node_path, &walk, &mut |found| {
        if let Some((directory, name)) = found.path.parent_and_name()
            && let Some(name) = known_git_name(name)
        {
            names.entry(StorePath::from_checked(directory)).or_default().push(name);
        }
        ControlFlow::Continue(())
    })?;
    for (directory, names) in names {
        let (name, rest) = names.split_last().expect("every listed directory has a name in it");
        if repository_verdict(name, |other| rest.contains(&other)) == RepositoryVerdict::Refused {
            let path = directory.child(name.as_bytes());
            return Err(StoreError::Protected { path: escape_name(path.as_bytes()).to_string() });
        }
    }
    Ok(())
}

/// The name that git, or a file system that ignores case, takes this one for.
fn known_git_name(name: &[u8]) -> Option<&'static str> {
    if name.is_ascii() {
        return GIT_NAMES.into_iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name));
    }
    let name = case_fold(&String::from_utf8_lossy(name));
    GIT_NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(&name))
}

/// The rule itself, given which names exist in the directory.
fn repository_verdict(name: &'static str, exists: impl Fn(&str) -> bool) -> RepositoryVerdict<&'static str> {
    let (exists_already, is_obeyed) = (exists(name), OBEYED_NAMES.contains(&name));
    // An existing name adds nothing to its directory.
    if exists_already && !is_obeyed {
        return RepositoryVerdict::Allowed(Vec::new());
    }
    let will_exist = |other: &str| other == name || exists(other);
    let missing = if !will_exist("HEAD") {
        Some(vec!["HEAD"])
    } else if will_exist(COMMON_DIR) {
        None
    } else {
        ["objects", "refs"].into_iter().find(|other| !will_exist(other)).map(|other| vec![COMMON_DIR, other])
    };
    match missing {
        // The change that creates the last missing name will see that this one exists.
        Some(_) if exists_already => RepositoryVerdict::Allowed(Vec::new()),
        Some(missing) => RepositoryVerdict::Allowed(missing),
        None if is_obeyed || OBEYED_NAMES.iter().any(|other| exists(other)) => RepositoryVerdict::Refused,
        None => RepositoryVerdict::Allowed(OBEYED_NAMES.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(name: &'static str, existing: &[&str]) -> RepositoryVerdict<&'static str> {
        repository_verdict(name, |name| existing.contains(&name))
    }

    #[test]
    fn the_name_that_completes_a_repository_is_refused_in_any_order() {
        let names = ["HEAD", "objects", "refs", "config"];
        for last in names {
            let others: Vec<_> = names.into_iter().filter(|other| *other != last).collect();
            assert_eq!(verdict(last, &others), RepositoryVerdict::Refused, "{last}");
            for missing in &others {
                let fewer: Vec<_> = others.iter().copied().filter(|other| other != missing).collect();
                assert!(
                    matches!(verdict(last, &fewer), RepositoryVerdict::Allowed(_)),
                    "{last} without {missing}"
                );
            }
        }
        assert_eq!(verdict("commondir", &["HEAD"]), RepositoryVerdict::Refused);
        assert_eq!(verdict("HEAD", &["commondir"]), RepositoryVerdict::Refused);
        assert_eq!(verdict("HEAD", &["objects", "refs", "hooks"]), RepositoryVerdict::Refused);
    }

    #[test]
    fn of_two_names_created_at_once_each_needs_the_other_to_be_missing() {
        let names = ["HEAD", "objects", "refs", "config"];
        for one in names {
            for other in names.into_iter().filter(|other| *other != one) {
                let rest: Vec<_> = names.into_iter().filter(|name| *name != one && *name != other).collect();
                let needs = |name, other| match verdict(name, &rest) {
                    RepositoryVerdict::Allowed(free) => free.contains(&other),
                    RepositoryVerdict::Refused => false,
                };
                assert!(needs(one, other) && needs(other, one), "{one} and {other} beside {rest:?}");
            }
        }
    }

    #[test]
    fn names_outside_a_repository_and_names_that_git_itself_changes_are_allowed() {
        assert_eq!(verdict("config", &[]), RepositoryVerdict::Allowed(vec!["HEAD"]));
        assert_eq!(verdict("config", &["config"]), RepositoryVerdict::Allowed(Vec::new()), "nothing new");
        assert!(matches!(verdict("hooks", &["HEAD", "objects"]), RepositoryVerdict::Allowed(_)));
        assert_eq!(verdict("HEAD", &["objects", "refs"]), RepositoryVerdict::Allowed(OBEYED_NAMES.to_vec()));
        for name in ["HEAD", "objects", "refs"] {
            let existing = ["HEAD", "objects", "refs", "config", "hooks"];
            assert_eq!(verdict(name, &existing), RepositoryVerdict::Allowed(Vec::new()), "{name}");
        }
    }

    #[test]
    fn git_names_are_recognized_in_any_case() {
        assert_eq!(known_git_name(b"HeAd"), Some("HEAD"));
        assert_eq!(known_git_name("re\u{200d}fs".as_bytes()), Some("refs"));
        assert_eq!(known_git_name(b"heads"), None);
    }
}
