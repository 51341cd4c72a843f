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

    /// Whether a node change passes. `now` returns the current path of its node, if the node exists; it is called only
    /// for a node's first change.
    pub fn matches<E>(
        &mut self,
        line: &NodeChange,
        now: impl FnOnce() -> Result<Option<StorePath>, E>,
    ) -> Result<bool, E> {
        if self.paths.is_empty() {
            return Ok(true);
        }
        let inside = |path: &StorePath| self.paths.iter().any(|top| path.is_at_or_below(top));
        let leads = |state: &NodeState| {
            state.kind == NodeKind::Directory && self.paths.iter().any(|top| top.is_at_or_below(&state.path))
        };
        let seen = match self.nodes.get(&line.node) {
            Some(seen) => *seen,
            None => match now()? {
                Some(path) if inside(&path) => NodeMatch::Matched,
                Some(_) => NodeMatch::Elsewhere,
                None => NodeMatch::Gone,
            },
        };
        let was_inside =
            || [&line.before, &line.after].into_iter().flatten().any(|state| inside(&state.path));
        let wanted = seen == NodeMatch::Matched
            || was_inside()
            || (seen == NodeMatch::Gone && line.before.as_ref().is_some_and(leads));
        self.nodes.insert(line.node, if wanted { NodeMatch::Matched } else { seen });
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::convert::Infallible;

    use super::*;
    use crate::Timestamp;

    fn state(path: &str, kind: NodeKind) -> Option<NodeState> {
        let path = StorePath::from_checked(path);
        let name = path.parent_and_name().unwrap().1.to_vec();
        let (parent, modified) = (NodeId::ROOT, Timestamp(0));
        Some(NodeState { parent, name, path, kind, mode: 0, modified, size: 0, content: None })
    }

    #[test]
    fn what_was_there_once_is_followed_back_to_where_it_came_from() {
        let below = [StorePath::from_checked("d/in")];
        let mut sieve = PathFilter::new(&below);
        let mut takes = |node, before: &str, after: &str, now: Option<&str>| {
            let state = |path: &str| if path.is_empty() { None } else { state(path, NodeKind::File) };
            let line = NodeChange { node: NodeId(node), before: state(before), after: state(after) };
            sieve.matches(&line, || Ok::<_, Infallible>(now.map(StorePath::from_checked))).unwrap()
        };
        assert!(!takes(1, "y", "z", Some("z")), "it had left before");
        assert!(takes(1, "d/in/x", "y", Some("z")));
        assert!(takes(1, "a", "d/in/x", Some("z")));
        assert!(takes(1, "", "a", Some("z")), "where it came from");
        assert!(takes(2, "a", "b", Some("d/in")), "it is there now");
        assert!(!takes(3, "d/inside", "", None));
    }

    #[test]
    fn directories_on_the_way_are_wanted_where_they_are_gone() {
        let below = [StorePath::from_checked("d/in/x")];
        let mut sieve = PathFilter::new(&below);
        let mut takes = |node, now: Option<&str>| {
            let line =
                NodeChange { node: NodeId(node), before: state("d/in", NodeKind::Directory), after: None };
            sieve.matches(&line, || Ok::<_, Infallible>(now.map(StorePath::from_checked))).unwrap()
        };
        assert!(takes(1, None));
        assert!(!takes(2, Some("elsewhere")));
    }
}
