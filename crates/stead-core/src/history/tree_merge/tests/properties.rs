//! Properties of merges of random changes.

use proptest::prelude::*;

use super::*;

/// A random change of a tree. Paths are chosen by number among those that there are.
#[derive(Debug, Clone)]
enum RandomChange {
    Write(usize, usize, u8),
    Add(usize, u8, u8),
    Mkdir(usize, u8),
    Rename(usize, usize, u8),
    Remove(usize),
    Chmod(usize, bool),
}

fn random_change() -> impl Strategy<Value = RandomChange> {
    prop_oneof![
        4 => (any::<usize>(), 0_usize..8, any::<u8>()).prop_map(|(file, line, text)| RandomChange::Write(file, line, text)),
        3 => (any::<usize>(), 0_u8..6, 0_u8..3).prop_map(|(directory, name, text)| RandomChange::Add(directory, name, text)),
        2 => (any::<usize>(), 0_u8..6).prop_map(|(directory, name)| RandomChange::Mkdir(directory, name)),
        4 => (any::<usize>(), any::<usize>(), 0_u8..6).prop_map(|(node, directory, name)| RandomChange::Rename(node, directory, name)),
        2 => any::<usize>().prop_map(RandomChange::Remove),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(node, executable)| RandomChange::Chmod(node, executable)),
    ]
}

fn pick_path(tree: &Tree, number: usize, is_wanted: impl Fn(&NodeState) -> bool) -> Option<String> {
    let wanted: Vec<_> = tree.nodes.values().filter(|state| is_wanted(state)).collect();
    (!wanted.is_empty()).then(|| wanted[number % wanted.len()].path.to_string())
}

fn in_directory(tree: &Tree, number: usize, name: u8) -> String {
    let directories: Vec<_> = tree.nodes.values().filter(|state| state.kind == NodeKind::Directory).collect();
    let name = char::from(b'a' + name);
    match number % (directories.len() + 1) {
        0 => name.to_string(),
        index => format!("{}/{name}", directories[index - 1].path),
    }
}

fn change(tree: &mut Tree, change: &RandomChange) {
    match *change {
        RandomChange::Write(number, line, text) => {
            if let Some(path) = pick_path(tree, number, |state| state.kind == NodeKind::File) {
                let old = tree.text(&path).unwrap();
                let mut lines: Vec<String> = old.lines().map(str::to_owned).collect();
                match lines.get_mut(line) {
                    Some(line) => *line = format!("line {text}"),
                    None => lines.push(format!("more {text}")),
                }
                tree.write(&path, &(lines.join("\n") + "\n"));
            }
        }
        RandomChange::Add(directory, name, text) => {
            let path = in_directory(tree, directory, name);
            if tree.find(&path).is_none() {
                tree.write(&path, &format!("added {text}\n"));
            }
        }
        RandomChange::Mkdir(directory, name) => {
            let path = in_directory(tree, directory, name);
            if tree.find(&path).is_none() {
                tree.mkdir(&path);
            }
        }
        RandomChange::Rename(number, directory, name) => {
            if let Some(from) = pick_path(tree, number, |_| true) {
                let to = in_directory(tree, directory, name);
                let is_into_itself = to == from || to.starts_with(&format!("{from}/"));
                if tree.find(&to).is_none() && !is_into_itself {
                    tree.rename(&from, &to);
                }
            }
        }
        RandomChange::Remove(number) => {
            if let Some(path) = pick_path(tree, number, |_| true) {
                tree.remove(&path);
            }
        }
        RandomChange::Chmod(number, executable) => {
            if let Some(path) = pick_path(tree, number, |state| state.kind == NodeKind::File) {
                tree.chmod(&path, if executable { 0o755 } else { 0o600 });
            }
        }
    }
}

fn base_tree() -> Tree {
    let mut tree = Tree::new();
    tree.mkdir("a").mkdir("a/b").mkdir("c").mkdir("d");
    for path in ["e", "a/e", "a/b/e", "c/f", "f"] {
        tree.write(path, "1\n2\n3\n4\n5\n6\n");
    }
    tree
}

fn changed(base: &Tree, from: u64, changes: &[RandomChange]) -> Tree {
    let mut tree = base.numbered_from(from);
    changes.iter().for_each(|one| change(&mut tree, one));
    tree
}

fn changes() -> impl Strategy<Value = Vec<RandomChange>> {
    proptest::collection::vec(random_change(), 0..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A merge onto an unchanged base gives what the other side has.
    #[test]
    fn g6_a_merge_onto_an_unchanged_base_equals_the_other_side(theirs in changes()) {
        let base = base_tree();
        let theirs = changed(&base, 2_000, &theirs);
        let plan = plan(&base, &base, &theirs);
        prop_assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
        prop_assert_eq!(base.apply(&plan).listing(), theirs.listing());
    }

    /// Whichever side is merged into the other one: the same conflict or the same files.
    #[test]
    fn g8_the_direction_of_a_merge_makes_no_difference(ours in changes(), theirs in changes()) {
        let base = base_tree();
        let (ours, theirs) = (changed(&base, 1_000, &ours), changed(&base, 2_000, &theirs));
        let (there, back) = (plan(&base, &ours, &theirs), plan(&base, &theirs, &ours));
        prop_assert_eq!(there.conflicts.is_empty(), back.conflicts.is_empty(), "{:#?} {:#?}", there.conflicts, back.conflicts);
        if there.conflicts.is_empty() {
            prop_assert_eq!(ours.apply(&there).listing(), theirs.apply(&back).listing());
        }
    }

    /// After a merge the fork takes in the result: then both have the same files, and merging again does nothing.
    #[test]
    fn g28_merging_again_does_nothing(target in changes(), fork in changes()) {
        let base = base_tree();
        let (target, fork) = (changed(&base, 1_000, &target), changed(&base, 2_000, &fork));
        let first = plan(&base, &target, &fork);
        if first.conflicts.is_empty() {
            let merged = target.apply(&first);
            let taken_in = plan(&fork, &fork, &merged);
            prop_assert!(taken_in.conflicts.is_empty(), "{:#?}", taken_in.conflicts);
            let fork = fork.apply(&taken_in);
            prop_assert_eq!(fork.listing(), merged.listing());
            let again = plan(&merged, &merged, &fork);
            prop_assert!(again.targets.is_empty() && again.conflicts.is_empty(), "{:#?}", again);
        }
    }

    /// With a choice for every conflict, a merge succeeds and gives a tree; with the choice for our side, conflicts change
    /// nothing of ours.
    #[test]
    fn g24_a_choice_for_all_conflicts_resolves_them(ours in changes(), theirs in changes(), take_ours in any::<bool>()) {
        let base = base_tree();
        let (ours, theirs) = (changed(&base, 1_000, &ours), changed(&base, 2_000, &theirs));
        let choice = if take_ours { ConflictChoice::Ours } else { ConflictChoice::Theirs };
        let mut choices = TestChoices { for_all: Some(choice), ..TestChoices::default() };
        let plan = plan_with(&base, &ours, &theirs, &mut choices);
        prop_assert!(plan.conflicts.is_empty(), "{:#?}", plan.conflicts);
        let _ = ours.apply(&plan).listing();
    }

    /// What a plan without choices does beside the conflicts is a tree, too.
    #[test]
    fn g24_the_plan_beside_the_conflicts_is_a_tree(ours in changes(), theirs in changes()) {
        let base = base_tree();
        let (ours, theirs) = (changed(&base, 1_000, &ours), changed(&base, 2_000, &theirs));
        let plan = plan(&base, &ours, &theirs);
        let _ = ours.apply(&plan).listing();
    }
}
