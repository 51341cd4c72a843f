//! Routing: finds the Workspace that a path belongs to, and the path inside that Workspace's Mount.
//!
//! The longest prefix wins, compared by whole components. Nothing here touches a Store.
//!
//! ```
//! use stead_core::{AccessScope, Mount, Router, VfsPath, Workspace};
//! # use std::sync::Arc;
//! # use stead_core::testkit::ModelStore;
//! # let store = Arc::new(ModelStore::default());
//!
//! let mount = Mount::new(store);
//! let outer = Workspace::new(VfsPath::parse("/home")?, AccessScope::ReadOnly, mount.clone());
//! let inner = Workspace::new(VfsPath::parse("/home/src")?, AccessScope::ReadWrite, mount);
//! let router = Router::new([outer, inner])?;
//! let path = VfsPath::parse("/home/src/main.rs")?;
//! let route = router.route(&path).expect("a Workspace contains it");
//! assert_eq!((route.workspace.prefix().as_str(), route.relative_path), ("/home/src", "main.rs"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::workspace::{ApprovalPolicy, Workspace};

/// The Workspaces of one stead. Routers share Workspaces: a clone copies none.
#[derive(Debug, Clone, Default)]
pub struct Router {
    /// Sorted by prefix.
    workspaces: Vec<Arc<Workspace>>,
    /// The same Workspaces, found by their prefixes.
    by_prefix: HashSet<ByPrefix>,
    /// Bit `d` is set if some prefix has `d` components; `route` tries no other lengths.
    depths: u128,
    /// The scopes that usable Workspaces have.
    scopes: Vec<AccessScope>,
    /// Whether a usable Workspace asks a person about something.
    asks: bool,
    /// The usable Workspaces that are managed, sorted by prefix.
    managed: Vec<Arc<Workspace>>,
    /// The Workspace that holds the stead's State. No path leads to it.
    state: Option<Arc<Workspace>>,
}

/// A Workspace that stands for its prefix in a table.
#[derive(Debug, Clone)]
struct ByPrefix(Arc<Workspace>);

impl Borrow<str> for ByPrefix {
    fn borrow(&self) -> &str {
        self.0.prefix().as_str()
    }
}

impl PartialEq for ByPrefix {
    fn eq(&self, other: &Self) -> bool {
        self.0.prefix() == other.0.prefix()
    }
}

impl Eq for ByPrefix {}

impl Hash for ByPrefix {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.prefix().as_str().hash(state);
    }
}

/// Two Workspaces have the same prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two Workspaces have the prefix `{0}`; give each its own")]
pub struct DuplicatePrefix(pub VfsPath);

/// The Workspace a path belongs to, and the rest of the path.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Route<'a, 'p> {
    /// The Workspace.
    pub workspace: &'a Workspace,
    /// The path below its prefix, without a leading `/`; empty for the Workspace itself.
    pub relative_path: &'p str,
}

impl Router {
    /// A router over these Workspaces.
    #[expect(
        clippy::mutable_key_type,
        reason = "only the prefix is hashed and compared, and it never changes"
    )]
    pub fn new<W: Into<Arc<Workspace>>>(
        workspaces: impl IntoIterator<Item = W>,
    ) -> Result<Self, DuplicatePrefix> {
        let mut workspaces: Vec<Arc<Workspace>> = workspaces.into_iter().map(Into::into).collect();
        workspaces.sort_by(|one, other| one.prefix().cmp(other.prefix()));
        if let Some(pair) = workspaces.windows(2).find(|pair| pair[0].prefix() == pair[1].prefix()) {
            return Err(DuplicatePrefix(pair[0].prefix().clone()));
        }
        let depths = workspaces.iter().fold(0, |depths, workspace| depths | 1 << workspace.prefix().depth());
        let by_prefix = workspaces.iter().cloned().map(ByPrefix).collect();
        // An organization can have tens of thousands of Workspaces. What a call asks about all of them is known once.
        let (mut scopes, mut asks, mut managed) = (Vec::new(), false, Vec::new());
        for workspace in workspaces.iter().filter(|workspace| workspace.barrier().is_none()) {
            if !scopes.contains(&workspace.scope()) {
                scopes.push(workspace.scope());
            }
            asks |= workspace.approval_policy() != ApprovalPolicy::Never;
            managed.extend(workspace.managed().map(|_| Arc::clone(workspace)));
        }
        Ok(Router { workspaces, by_prefix, depths, scopes, asks, managed, state: None })
    }

    /// The same router with the Workspace of the stead's State, which is kept apart: no path is routed to it, and it isn't
    /// among the Workspaces.
    pub(crate) fn with_state(self, state: Option<Arc<Workspace>>) -> Self {
        Router { state, ..self }
    }

    /// The Workspace of the stead's State, if there is one. Its prefix is `state:`.
    pub fn state(&self) -> Option<&Arc<Workspace>> {
        self.state.as_ref()
    }

    /// The usable Workspaces, without barriers, sorted by prefix.
    pub fn workspaces(&self) -> impl Iterator<Item = &Arc<Workspace>> {
        self.workspaces.iter().filter(|workspace| workspace.barrier().is_none())
    }

    /// Whether a usable Workspace has this scope.
    pub fn has_scope(&self, scope: AccessScope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether a usable Workspace asks a person about something.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// The usable Workspaces that are managed, sorted by prefix.
    pub fn managed(&self) -> impl Iterator<Item = &Arc<Workspace>> {
        self.managed.iter()
    }

    /// All Workspaces, including barriers, sorted by prefix.
    pub fn workspaces_and_barriers(&self) -> impl Iterator<Item = &Arc<Workspace>> {
        self.workspaces.iter()
    }

    /// The Workspace with the longest prefix of this path; `None` if no Workspace contains it.
    pub fn route<'a, 'p>(&'a self, path: &'p VfsPath) -> Option<Route<'a, 'p>> {
        if path.is_state() {
            return None;
        }
        let text = path.as_str();
        let mut end = text.len();
        let mut depth = path.depth();
        loop {
            if self.depths & (1 << depth) != 0 {
                let prefix = if depth == 0 { "/" } else { &text[..end] };
                if let Some(ByPrefix(workspace)) = self.by_prefix.get(prefix) {
                    let relative_path = text[end.min(text.len())..].trim_start_matches('/');
                    let relative_path = if depth == 0 { &text[1..] } else { relative_path };
                    return Some(Route { workspace, relative_path });
                }
            }
            if depth == 0 {
                return None;
            }
            depth -= 1;
            end = text[..end].rfind('/').unwrap_or(0);
        }
    }

    /// The Workspaces strictly below a path, sorted by prefix.
    pub fn nested<'a>(&'a self, path: &VfsPath) -> impl Iterator<Item = &'a Workspace> + use<'a> {
        // In byte order, everything below `/a` lies from `/a/` up to `/a0`, `0` being the byte after `/`.
        let base = if path.is_root() { "" } else { path.as_str() };
        let (low, high) = (format!("{base}/"), format!("{base}0"));
        let start = self.workspaces.partition_point(|workspace| *workspace.prefix().as_str() <= *low);
        let length =
            self.workspaces[start..].partition_point(|workspace| *workspace.prefix().as_str() < *high);
        self.workspaces[start..start + length].iter().map(|workspace| &**workspace)
    }

    /// The names directly in this directory that lead to Workspaces below it, without those that lead only to what is excluded
    /// from a fork.
    pub fn child_names(&self, path: &VfsPath) -> BTreeSet<&str> {
        let shown = self.nested(path).filter(|nested| !nested.is_absent());
        shown.filter_map(|nested| nested.prefix().strip_prefix(path)?.split('/').next()).collect()
    }

    /// The names directly in this directory that nothing shows, whatever the Store has there: they are excluded from a fork.
    pub(crate) fn absent_names(&self, path: &VfsPath) -> BTreeSet<&str> {
        let absent = self.nested(path).filter(|nested| nested.is_absent());
        let own =
            absent.filter_map(|absent| absent.prefix().strip_prefix(path).filter(|name| !name.contains('/')));
        let shown = self.child_names(path);
        own.filter(|name| !shown.contains(name)).collect()
    }

    /// Whether Workspaces below a path are shown.
    pub(crate) fn leads_to_workspace(&self, path: &VfsPath) -> bool {
        self.nested(path).any(|nested| !nested.is_absent())
    }

    /// Whether a directory exists only because Workspaces lie below it. Without a Workspace at `/`, the root is one
    /// too.
    pub fn is_synthetic(&self, path: &VfsPath) -> bool {
        self.route(path).is_none() && (path.is_root() || self.nested(path).next().is_some())
    }

    /// The Workspaces whose scope allows this access.
    pub fn allowing(&self, access: Access) -> WorkspaceNames {
        self.workspaces()
            .filter(|workspace| workspace.scope().allows(access))
            .map(|workspace| workspace.prefix())
            .collect()
    }
}

/// The prefixes of some Workspaces, for a message: the first eight, and how many more there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkspaceNames {
    /// The first ones.
    pub first: Vec<VfsPath>,
    /// How many more there are.
    pub more: usize,
}

impl WorkspaceNames {
    const MAX_FIRST: usize = 8;

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}

impl<'a> FromIterator<&'a VfsPath> for WorkspaceNames {
    fn from_iter<I: IntoIterator<Item = &'a VfsPath>>(prefixes: I) -> Self {
        let mut prefixes = prefixes.into_iter();
        let first = prefixes.by_ref().take(WorkspaceNames::MAX_FIRST).cloned().collect();
        WorkspaceNames { first, more: prefixes.count() }
    }
}

impl fmt::Display for WorkspaceNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, prefix) in self.first.iter().enumerate() {
            write!(f, "{}`{prefix}`", if index == 0 { "" } else { ", " })?;
        }
        match (self.first.is_empty(), self.more) {
            (true, _) => f.write_str("none"),
            (false, 0) => Ok(()),
            (false, more) => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scope::AccessScope;
    use crate::testkit::PanickingStore;
    use crate::workspace::Mount;

    fn router(prefixes: &[&str]) -> Router {
        Router::new(prefixes.iter().map(|prefix| workspace(prefix))).unwrap()
    }

    fn workspace(prefix: &str) -> Workspace {
        let mount = Mount::new(Arc::new(PanickingStore));
        Workspace::new(VfsPath::parse(prefix).unwrap(), AccessScope::ReadOnly, mount)
    }

    fn route_of(router: &Router, path: &str) -> Option<(String, String)> {
        let path = VfsPath::parse(path).unwrap();
        let route = router.route(&path)?;
        Some((route.workspace.prefix().as_str().to_owned(), route.relative_path.to_owned()))
    }

    #[test]
    fn the_longest_prefix_wins_by_whole_components() {
        let router = router(&["/home", "/home/src", "/home/src/deep/er"]);
        let assert_route = |path, prefix: &str, relative_path: &str| {
            assert_eq!(route_of(&router, path), Some((prefix.into(), relative_path.into())))
        };
        assert_route("/home", "/home", "");
        assert_route("/home/b", "/home", "b");
        assert_route("/home/src/a", "/home/src", "a");
        assert_route("/home/src/deep/x", "/home/src", "deep/x");
        assert_route("/home/src/deep/er/x/y", "/home/src/deep/er", "x/y");
        assert_eq!(route_of(&router, "/homework"), None);
        assert_eq!(route_of(&router, "/"), None);
    }

    #[test]
    fn the_root_may_be_a_workspace() {
        let router = router(&["/", "/a"]);
        assert_eq!(route_of(&router, "/"), Some(("/".into(), "".into())));
        assert_eq!(route_of(&router, "/b/c"), Some(("/".into(), "b/c".into())));
        assert_eq!(route_of(&router, "/a/c"), Some(("/a".into(), "c".into())));
    }

    #[test]
    fn two_workspaces_with_one_prefix_are_refused() {
        let error = Router::new([workspace("/a"), workspace("/a/")]).unwrap_err();
        assert_eq!(error, DuplicatePrefix(VfsPath::parse("/a").unwrap()));
    }

    #[test]
    fn directories_between_workspaces_are_synthetic() {
        let router = router(&["/home/src", "/home/docs/x", "/tmp", "/home-2"]);
        let names = |path| {
            router.child_names(&VfsPath::parse(path).unwrap()).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("/"), "home home-2 tmp");
        assert_eq!(names("/home"), "docs src");
        assert_eq!(names("/tmp"), "");
        let synthetic = |path| router.is_synthetic(&VfsPath::parse(path).unwrap());
        assert!(synthetic("/") && synthetic("/home") && synthetic("/home/docs"));
        assert!(!synthetic("/tmp") && !synthetic("/other") && !synthetic("/home/src"));
    }

    #[test]
    fn routers_share_their_workspaces() {
        let first = router(&["/b", "/a"]);
        let second = Router::new(first.workspaces_and_barriers().cloned().chain([Arc::new(workspace("/c"))]));
        let second = second.unwrap();
        for (one, other) in first.workspaces().zip(second.workspaces()) {
            assert!(Arc::ptr_eq(one, other), "{}", one.prefix());
        }
    }

    #[test]
    fn a_list_for_a_message_names_eight_workspaces_and_counts_the_rest() {
        let names = |count| {
            let prefixes: Vec<_> = (0..count).map(|n| VfsPath::parse(&format!("/w{n}")).unwrap()).collect();
            prefixes.iter().collect::<WorkspaceNames>().to_string()
        };
        assert_eq!((names(0), names(1), names(2)), ("none".into(), "`/w0`".into(), "`/w0`, `/w1`".into()));
        assert_eq!(names(8), "`/w0`, `/w1`, `/w2`, `/w3`, `/w4`, `/w5`, `/w6`, `/w7`");
        assert_eq!(names(1000), format!("{} and 992 more", names(8)));
    }

    proptest! {
        #[test]
        fn routing_agrees_with_trying_every_prefix(
            prefixes in proptest::collection::btree_set("(/[ab]{1,2}){0,4}", 0..8),
            path in "(/[ab]{1,2}){0,6}",
        ) {
            let router = Router::new(prefixes.iter().map(|prefix| workspace(prefix))).unwrap();
            let path = VfsPath::parse(&path).unwrap();
            let parsed = prefixes.iter().map(|prefix| VfsPath::parse(prefix).unwrap());
            let expected = parsed.filter(|prefix| path.strip_prefix(prefix).is_some()).max_by_key(VfsPath::depth);
            let route = router.route(&path);
            prop_assert_eq!(route.map(|route| route.workspace.prefix()), expected.as_ref());
            if let (Some(route), Some(prefix)) = (route, &expected) {
                prop_assert_eq!(Some(route.relative_path), path.strip_prefix(prefix));
            }
            let nested: Vec<_> = router.nested(&path).map(|nested| nested.prefix().clone()).collect();
            let mut expected_nested: Vec<_> = prefixes.iter().map(|prefix| VfsPath::parse(prefix).unwrap())
                .filter(|prefix| *prefix != path && prefix.strip_prefix(&path).is_some()).collect();
            expected_nested.sort();
            prop_assert_eq!(nested, expected_nested);
        }
    }
}
