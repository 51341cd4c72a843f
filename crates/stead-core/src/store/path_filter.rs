//! Filters node changes by path while they are read, newest first, so that a Store needs to hold only those that a
//! query asks for.

use std::collections::HashMap;

use crate::store::{NodeChange, NodeId, NodeKind, NodeState, StorePath};

/// Picks the node changes that [`crate::store::RevisionQuery::paths`] asks for. The changes must come newest first.
#[derive(Debug)]
pub struct PathFilter<'q> {
    paths: &'q [StorePath],
    nodes: HashMap<NodeId, NodeMatch>,
}

/// What the changes seen so far tell about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeMatch {
    Matched,
    /// The node exists now, outside the paths.
    Elsewhere,
    Gone,
}

impl<'q> PathFilter<'q> {
    /// A filter for these paths. Without paths, every change passes.
    pub fn new(paths: &'q [StorePath]) -> Self {
        PathFilter { paths, nodes: HashMap::new() }
    }

    /// Whether a node change passes. `current_path` returns the current path of its node, if the node exists; it is
    /// called only for a node's first change.
    pub fn matches<E>(
        &mut self,
        change: &NodeChange,
        current_path: impl FnOnce() -> Result<Option<StorePath>, E>,
    ) -> Result<bool, E> {
        if self.paths.is_empty() {
            return Ok(true);
        }
        let is_inside = |path: &StorePath| self.paths.iter().any(|root| path.is_at_or_below(root));
        let leads_to_path = |state: &NodeState| {
            state.kind == NodeKind::Directory
                && self.paths.iter().any(|root| root.is_at_or_below(&state.path))
        };
        // A directory that was moved away is needed like one that was removed.
        let is_moved =
            |before: &NodeState| change.after.as_ref().is_some_and(|after| after.path != before.path);
        let known = match self.nodes.get(&change.node) {
            Some(known) => *known,
            None => match current_path()? {
                Some(path) if is_inside(&path) => NodeMatch::Matched,
                Some(_) => NodeMatch::Elsewhere,
                None => NodeMatch::Gone,
            },
        };
        let was_inside =
            || [&change.before, &change.after].into_iter().flatten().any(|state| is_inside(&state.path));
        let is_match = known == NodeMatch::Matched
            || was_inside()
            || change.before.as_ref().is_some_and(|before| {
                leads_to_path(before) && (known == NodeMatch::Gone || is_moved(before))
            });
        self.nodes.insert(change.node, if is_match { NodeMatch::Matched } else { known });
        Ok(is_match)
    }

    /// Whether the move of a directory brings entries of it into one of the paths, or out of one. Those entries have no
    /// change of their own, so the Store adds one for each of them.
    pub fn is_crossed_by(&self, before: &StorePath, after: &StorePath) -> bool {
        self.paths.iter().any(|root| {
            before.is_at_or_below(root) != after.is_at_or_below(root)
                || is_strictly_below(root, before)
                || is_strictly_below(root, after)
        })
    }

    /// Whether a directory with this path may contain something at or below the paths.
    pub fn may_match_below(&self, path: &StorePath) -> bool {
        self.paths.iter().any(|root| path.is_at_or_below(root) || root.is_at_or_below(path))
    }
}

fn is_strictly_below(path: &StorePath, top: &StorePath) -> bool {
    path != top && path.is_at_or_below(top)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::convert::Infallible;

    use super::*;
    use crate::Timestamp;
    use crate::store::NodeStateFields;

    fn state(path: &str, kind: NodeKind) -> Option<NodeState> {
        let path = StorePath::from_checked(path);
        let name = path.parent_and_name().unwrap().1.to_vec();
        let (parent, modified) = (NodeId::ROOT, Timestamp(0));
        Some(NodeStateFields { parent, name, path, kind, mode: 0, modified, size: 0, content: None }.into())
    }

    #[test]
    fn a_node_that_was_inside_once_matches_back_to_its_origin() {
        let paths = [StorePath::from_checked("d/in")];
        let mut filter = PathFilter::new(&paths);
        let mut matches = |node, before: &str, after: &str, current_path: Option<&str>| {
            let state = |path: &str| if path.is_empty() { None } else { state(path, NodeKind::File) };
            let change = NodeChange { node: NodeId(node), before: state(before), after: state(after) };
            filter
                .matches(&change, || Ok::<_, Infallible>(current_path.map(StorePath::from_checked)))
                .unwrap()
        };
        assert!(!matches(1, "y", "z", Some("z")), "it had left before");
        assert!(matches(1, "d/in/x", "y", Some("z")));
        assert!(matches(1, "a", "d/in/x", Some("z")));
        assert!(matches(1, "", "a", Some("z")), "where it came from");
        assert!(matches(2, "a", "b", Some("d/in")), "it is there now");
        assert!(!matches(3, "d/inside", "", None));
    }

    #[test]
    fn removed_directories_on_the_way_to_a_path_match() {
        let paths = [StorePath::from_checked("d/in/x")];
        let mut filter = PathFilter::new(&paths);
        let mut matches = |node, current_path: Option<&str>| {
            let change =
                NodeChange { node: NodeId(node), before: state("d/in", NodeKind::Directory), after: None };
            filter
                .matches(&change, || Ok::<_, Infallible>(current_path.map(StorePath::from_checked)))
                .unwrap()
        };
        assert!(matches(1, None));
        assert!(!matches(2, Some("elsewhere")));
    }

    #[test]
    fn directories_moved_away_from_the_way_to_a_path_match() {
        let paths = [StorePath::from_checked("d/in/x")];
        let mut filter = PathFilter::new(&paths);
        let mut matches = |node, before, after| {
            let state = |path| state(path, NodeKind::Directory);
            let change = NodeChange { node: NodeId(node), before: state(before), after: state(after) };
            filter.matches(&change, || Ok::<_, Infallible>(Some(StorePath::from_checked(after)))).unwrap()
        };
        assert!(matches(1, "d/in", "d/out"));
        assert!(!matches(2, "d/in", "d/in"), "only its attributes changed");
        assert!(!matches(3, "d/other", "d/out"));
    }

    #[test]
    fn a_moved_directory_crosses_the_paths_that_its_entries_enter_or_leave() {
        let paths = ["top", "top/nested"].map(StorePath::from_checked);
        let filter = PathFilter::new(&paths);
        let crosses = |before, after| {
            filter.is_crossed_by(&StorePath::from_checked(before), &StorePath::from_checked(after))
        };
        assert!(crosses("top/d", "elsewhere") && crosses("elsewhere", "top/d"));
        assert!(crosses("top/d", "top/nested/d"));
        assert!(crosses("top", "elsewhere"));
        assert!(!crosses("top/d", "top/e") && !crosses("topmost", "elsewhere"));
    }
}
