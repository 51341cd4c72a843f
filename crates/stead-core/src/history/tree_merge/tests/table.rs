//! The table of what each side did and what becomes of it, each line in both directions.

use super::*;

/// What is done to a tree.
trait Edit: for<'t> FnOnce(&'t mut Tree) -> &'t mut Tree {}
impl<F: for<'t> FnOnce(&'t mut Tree) -> &'t mut Tree> Edit for F {}

/// A base, what one side did, and what the other side did.
struct Case {
    base: Tree,
    one: Tree,
    other: Tree,
}

impl Case {
    fn new(base: impl Edit, one: impl Edit, other: impl Edit) -> Self {
        let mut base_tree = Tree::new();
        base(&mut base_tree);
        let (mut one_tree, mut other_tree) = (base_tree.numbered_from(1_000), base_tree.numbered_from(2_000));
        one(&mut one_tree);
        other(&mut other_tree);
        Case { base: base_tree, one: one_tree, other: other_tree }
    }

    /// Merges each side into the other one, and checks both results.
    #[track_caller]
    fn merges_to(&self, expected: impl Edit) {
        let mut wanted = self.base.numbered_from(3_000);
        expected(&mut wanted);
        for (ours, theirs) in [(&self.one, &self.other), (&self.other, &self.one)] {
            let plan = plan(&self.base, ours, theirs);
            assert!(plan.conflicts.is_empty(), "{:#?}", plan.conflicts);
            assert_eq!(ours.apply(&plan).listing(), wanted.listing());
        }
    }

    /// Merges each side into the other one, and checks that these paths are in conflict in the same way. The third value
    /// says which side deleted, if that is the conflict: `one` or `other`.
    #[track_caller]
    fn conflicts_with(&self, expected: &[(&str, TreeConflictKind)]) {
        for (index, (ours, theirs)) in
            [(&self.other, &self.one), (&self.one, &self.other)].into_iter().enumerate()
        {
            let plan = plan(&self.base, ours, theirs);
            let mut found: Vec<_> = plan
                .conflicts
                .iter()
                .map(|conflict| {
                    let NodeSides { base, ours, theirs } = &conflict.sides;
                    let state = ours.as_ref().or(theirs.as_ref()).or(base.as_ref()).unwrap();
                    let kind = match conflict.kind {
                        // As if the first side were theirs.
                        TreeConflictKind::Deleted { by } if index == 1 => {
                            let by = match by {
                                MergeSide::Ours => MergeSide::Theirs,
                                MergeSide::Theirs => MergeSide::Ours,
                            };
                            TreeConflictKind::Deleted { by }
                        }
                        kind => kind,
                    };
                    (state.path.to_string(), kind)
                })
                .collect();
            found.sort_by(|one, other| one.0.cmp(&other.0));
            let wanted: Vec<_> = expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect();
            assert_eq!(found, wanted, "direction {index}");
        }
    }
}

fn file(tree: &mut Tree) -> &mut Tree {
    tree.write("f", "1\n2\n3\n4\n5\n")
}

fn directory(tree: &mut Tree) -> &mut Tree {
    tree.mkdir("d").write("d/f", "1\n2\n3\n").write("g", "g\n")
}

const BY_ONE: TreeConflictKind = TreeConflictKind::Deleted { by: MergeSide::Theirs };

#[test]
fn g6_a_change_of_one_side_is_taken() {
    Case::new(file, |one| one.write("f", "new\n"), |tree| tree).merges_to(|tree| tree.write("f", "new\n"));
    Case::new(file, |one| one.mkdir("d").write("d/new", "n"), |tree| tree)
        .merges_to(|tree| tree.mkdir("d").write("d/new", "n"));
    Case::new(file, |one| one.symlink("l", "f"), |tree| tree).merges_to(|tree| tree.symlink("l", "f"));
}

#[test]
fn g7_the_same_change_on_both_sides_is_nothing_to_do() {
    fn change(tree: &mut Tree) -> &mut Tree {
        tree.write("f", "new\n").chmod("f", 0o755).rename("f", "moved")
    }
    let case = Case::new(file, change, change);
    assert!(plan(&case.base, &case.one, &case.other).targets.is_empty());
    case.merges_to(change);
    fn remove(tree: &mut Tree) -> &mut Tree {
        tree.remove("d")
    }
    Case::new(directory, remove, remove).merges_to(remove);
}

#[test]
fn g8_changes_of_different_lines_are_both_taken() {
    Case::new(
        file,
        |one| one.write("f", "one\n2\n3\n4\n5\n"),
        |other| other.write("f", "1\n2\n3\n4\nfive\n"),
    )
    .merges_to(|tree| tree.write("f", "one\n2\n3\n4\nfive\n"));
    // Changes that touch are a conflict, as they are in git.
    Case::new(
        file,
        |one| one.write("f", "1\ntwo\n3\n4\n5\n"),
        |other| other.write("f", "1\n2\nthree\n4\n5\n"),
    )
    .conflicts_with(&[("f", TreeConflictKind::Content)]);
}

#[test]
fn g9_changes_of_the_same_lines_are_a_content_conflict() {
    Case::new(
        file,
        |one| one.write("f", "1\n2\none\n4\n5\n"),
        |other| other.write("f", "1\n2\nother\n4\n5\n"),
    )
    .conflicts_with(&[("f", TreeConflictKind::Content)]);
    // Symlinks are taken whole.
    Case::new(
        |base| base.symlink("l", "a"),
        |one| one.remove("l").symlink("l", "b"),
        |other| other.remove("l").symlink("l", "c"),
    )
    .conflicts_with(&[("l", TreeConflictKind::Content)]);
}

#[test]
fn g10_a_deletion_of_one_side_is_taken() {
    Case::new(file, |one| one.remove("f"), |tree| tree).merges_to(|tree| tree.remove("f"));
    Case::new(directory, |one| one.remove("d"), |tree| tree).merges_to(|tree| tree.remove("d"));
}

#[test]
fn g11_a_deletion_and_a_change_are_a_conflict() {
    Case::new(file, |one| one.remove("f"), |other| other.write("f", "new\n"))
        .conflicts_with(&[("f", BY_ONE)]);
    Case::new(file, |one| one.remove("f"), |other| other.rename("f", "moved"))
        .conflicts_with(&[("moved", BY_ONE)]);
    Case::new(file, |one| one.remove("f"), |other| other.chmod("f", 0o755)).conflicts_with(&[("f", BY_ONE)]);
}

#[test]
fn g12_the_same_file_added_on_both_sides_is_one_file() {
    fn add(tree: &mut Tree) -> &mut Tree {
        tree.write("new", "n\n")
    }
    let case = Case::new(file, add, add);
    assert!(plan(&case.base, &case.one, &case.other).targets.is_empty());
    case.merges_to(add);
    // Directories of one name become one, with what each side put into them.
    Case::new(
        file,
        |one| one.mkdir("d").mkdir("d/e").write("d/e/one", "1").write("d/both", "b"),
        |other| other.mkdir("d").mkdir("d/e").write("d/e/other", "2").write("d/both", "b"),
    )
    .merges_to(|tree| {
        tree.mkdir("d").mkdir("d/e").write("d/e/one", "1").write("d/e/other", "2").write("d/both", "b")
    });
}

#[test]
fn g13_different_files_added_under_one_name_are_a_conflict() {
    Case::new(file, |one| one.write("new", "1\n"), |other| other.write("new", "2\n"))
        .conflicts_with(&[("new", TreeConflictKind::AddedAdded)]);
    Case::new(
        file,
        |one| one.mkdir("d").write("d/new", "1\n"),
        |other| other.mkdir("d").write("d/new", "2\n"),
    )
    .conflicts_with(&[("d/new", TreeConflictKind::AddedAdded)]);
}

#[test]
fn g13_a_file_and_a_directory_added_under_one_name_are_a_conflict() {
    let case =
        Case::new(file, |one| one.mkdir("new").write("new/f", "1\n"), |other| other.write("new", "2\n"));
    for (ours, theirs) in [(&case.one, &case.other), (&case.other, &case.one)] {
        let found = plan(&case.base, ours, theirs).conflicts;
        assert_eq!(found.iter().map(|found| found.kind).collect::<Vec<_>>(), [TreeConflictKind::AddedAdded]);
        for (choice, expected) in [(ConflictChoice::Ours, ours), (ConflictChoice::Theirs, theirs)] {
            let mut choices = TestChoices { for_all: Some(choice), ..TestChoices::default() };
            let plan = plan_with(&case.base, ours, theirs, &mut choices);
            assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
            assert_eq!(ours.apply(&plan).listing(), expected.listing());
        }
    }
}

#[test]
fn g14_a_renamed_file_gets_the_changed_content() {
    Case::new(directory, |one| one.rename("d/f", "moved"), |other| other.write("d/f", "new\n"))
        .merges_to(|tree| tree.rename("d/f", "moved").write("moved", "new\n"));
    // Also if both changed other lines of it.
    Case::new(
        file,
        |one| one.rename("f", "moved").write("moved", "one\n2\n3\n4\n5\n"),
        |other| other.write("f", "1\n2\n3\n4\nfive\n"),
    )
    .merges_to(|tree| tree.rename("f", "moved").write("moved", "one\n2\n3\n4\nfive\n"));
}

#[test]
fn g15_two_different_renames_are_a_conflict() {
    let case = Case::new(file, |one| one.rename("f", "a"), |other| other.rename("f", "b"));
    for (ours, theirs) in [(&case.one, &case.other), (&case.other, &case.one)] {
        let found = plan(&case.base, ours, theirs).conflicts;
        assert_eq!(
            found.iter().map(|found| found.kind).collect::<Vec<_>>(),
            [TreeConflictKind::RenamedRenamed]
        );
    }
}

#[test]
fn g16_a_name_that_is_taken_is_a_conflict() {
    // Both sides move another file to one name.
    let case = Case::new(directory, |one| one.rename("d/f", "x"), |other| other.rename("g", "x"));
    for (ours, theirs) in [(&case.one, &case.other), (&case.other, &case.one)] {
        let found = plan(&case.base, ours, theirs).conflicts;
        assert_eq!(found.iter().map(|found| found.kind).collect::<Vec<_>>(), [TreeConflictKind::NameTaken]);
        for (choice, kept) in [(ConflictChoice::Ours, ours), (ConflictChoice::Theirs, theirs)] {
            let mut choices = TestChoices { for_all: Some(choice), ..TestChoices::default() };
            let plan = plan_with(&case.base, ours, theirs, &mut choices);
            assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
            assert_eq!(ours.apply(&plan).text("x"), kept.text("x"));
        }
    }
    // One side renames to a name that the other one has added.
    let case = Case::new(file, |one| one.rename("f", "x"), |other| other.write("x", "added\n"));
    for (ours, theirs) in [(&case.one, &case.other), (&case.other, &case.one)] {
        let found = plan(&case.base, ours, theirs).conflicts;
        assert_eq!(found.iter().map(|found| found.kind).collect::<Vec<_>>(), [TreeConflictKind::NameTaken]);
    }
}

#[test]
fn g17_what_is_added_to_a_renamed_directory_is_in_it() {
    Case::new(
        directory,
        |one| one.rename("d", "e"),
        |other| other.write("d/new", "n\n").write("d/f", "changed\n"),
    )
    .merges_to(|tree| tree.rename("d", "e").write("e/new", "n\n").write("e/f", "changed\n"));
}

#[test]
fn g18_what_is_added_to_or_changed_in_a_deleted_directory_is_a_conflict() {
    Case::new(directory, |one| one.remove("d"), |other| other.write("d/new", "n\n"))
        .conflicts_with(&[("d/new", BY_ONE)]);
    Case::new(directory, |one| one.remove("d"), |other| other.write("d/f", "n\n"))
        .conflicts_with(&[("d/f", BY_ONE)]);
    let case = Case::new(
        |base| base.mkdir("d").mkdir("d/e").write("d/e/f", "1\n"),
        |one| one.remove("d"),
        |other| other.write("d/e/new", "n\n"),
    );
    case.conflicts_with(&[("d/e/new", BY_ONE)]);
    for (ours, theirs) in [(&case.one, &case.other), (&case.other, &case.one)] {
        for (choice, has_new) in [
            (ConflictChoice::Ours, ours.find("d/e/new").is_some()),
            (ConflictChoice::Theirs, theirs.find("d/e/new").is_some()),
        ] {
            let mut choices = TestChoices { for_all: Some(choice), ..TestChoices::default() };
            let plan = plan_with(&case.base, ours, theirs, &mut choices);
            assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
            assert_eq!(ours.apply(&plan).find("d/e/new").is_some(), has_new);
        }
    }
}

#[test]
fn g19_another_kind_of_node_and_a_change_are_a_conflict() {
    Case::new(
        file,
        |one| one.remove("f").mkdir("f").write("f/inside", "i\n"),
        |other| other.write("f", "new\n"),
    )
    .conflicts_with(&[("f", TreeConflictKind::Kind)]);
    Case::new(file, |one| one.remove("f").symlink("f", "elsewhere"), |other| other.write("f", "new\n"))
        .conflicts_with(&[("f", TreeConflictKind::Kind)]);
    // Without a change of the other side, the new kind is taken.
    fn replace(tree: &mut Tree) -> &mut Tree {
        tree.remove("f").mkdir("f").write("f/inside", "i\n")
    }
    Case::new(file, replace, |tree| tree).merges_to(replace);
}

#[test]
fn g19_a_choice_takes_one_kind_or_the_other() {
    let case = Case::new(
        file,
        |one| one.remove("f").mkdir("f").write("f/inside", "i\n"),
        |other| other.write("f", "new\n"),
    );
    for (ours, theirs) in [(&case.one, &case.other), (&case.other, &case.one)] {
        for (choice, expected) in [(ConflictChoice::Ours, ours), (ConflictChoice::Theirs, theirs)] {
            let mut choices = TestChoices { for_all: Some(choice), ..TestChoices::default() };
            let plan = plan_with(&case.base, ours, theirs, &mut choices);
            assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
            assert_eq!(ours.apply(&plan).listing(), expected.listing());
        }
    }
}

#[test]
fn g20_directories_moved_into_each_other_are_a_conflict() {
    let case = Case::new(
        |base| base.mkdir("a").mkdir("b"),
        |one| one.rename("a", "b/a"),
        |other| other.rename("b", "a/b"),
    );
    for (ours, theirs) in [(&case.one, &case.other), (&case.other, &case.one)] {
        let found = plan(&case.base, ours, theirs).conflicts;
        assert_eq!(found.iter().map(|found| found.kind).collect::<Vec<_>>(), [TreeConflictKind::Cycle]);
        for (choice, expected) in [(ConflictChoice::Ours, ours), (ConflictChoice::Theirs, theirs)] {
            let mut choices = TestChoices { for_all: Some(choice), ..TestChoices::default() };
            let plan = plan_with(&case.base, ours, theirs, &mut choices);
            assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
            assert_eq!(ours.apply(&plan).listing(), expected.listing());
        }
    }
}

#[test]
fn g21_an_execute_bit_and_a_content_are_both_taken() {
    Case::new(file, |one| one.chmod("f", 0o755), |other| other.write("f", "new\n"))
        .merges_to(|tree| tree.write("f", "new\n").chmod("f", 0o755));
    Case::new(file, |one| one.chmod("f", 0o755), |other| other.chmod("f", 0o600))
        .merges_to(|tree| tree.chmod("f", 0o700));
}

#[test]
fn g21_a_merge_of_modes_allows_nothing_that_one_side_took_away() {
    Case::new(file, |one| one.chmod("f", 0o777), |other| other.chmod("f", 0o600))
        .merges_to(|tree| tree.chmod("f", 0o700));
    Case::new(file, |one| one.chmod("f", 0o444), |other| other.chmod("f", 0o640))
        .merges_to(|tree| tree.chmod("f", 0o440));
    Case::new(file, |one| one.chmod("f", 0o744), |other| other.chmod("f", 0o664))
        .merges_to(|tree| tree.chmod("f", 0o764));
}

#[test]
fn g22_binary_content_is_taken_whole_or_in_conflict() {
    fn binary(base: &mut Tree) -> &mut Tree {
        base.write("b", "\0\n1\n2\n3\n4\n")
    }
    Case::new(binary, |one| one.write("b", "\0\n1\n2\n3\nfour\n"), |tree| tree)
        .merges_to(|tree| tree.write("b", "\0\n1\n2\n3\nfour\n"));
    Case::new(
        binary,
        |one| one.write("b", "\0\none\n2\n3\n4\n"),
        |other| other.write("b", "\0\n1\n2\n3\nfour\n"),
    )
    .conflicts_with(&[("b", TreeConflictKind::Content)]);
}

#[test]
fn g22_a_nul_makes_content_binary_in_the_first_8_000_bytes_only() {
    // Both ends are changed, so that lines would merge.
    let text = |nul_at: usize, first: &str, last: &str| {
        let padding = "padding\n".repeat(nul_at.div_ceil(8));
        let mut bytes = format!("{first}\n{padding}\n").into_bytes();
        bytes.truncate(nul_at);
        bytes.extend(format!("\0\nmiddle\nmiddle\n{last}\n").bytes());
        String::from_utf8(bytes).unwrap()
    };
    let case = |nul_at| {
        Case::new(
            |base| base.write("b", &text(nul_at, "1", "9")),
            |one| one.write("b", &text(nul_at, "a", "9")),
            |other| other.write("b", &text(nul_at, "1", "z")),
        )
    };
    assert_eq!(text(8_000, "1", "9").find('\0'), Some(8_000));
    case(7_999).conflicts_with(&[("b", TreeConflictKind::Content)]);
    case(8_000).merges_to(|tree| tree.write("b", &text(8_000, "a", "z")));
}

#[test]
fn a_file_that_was_replaced_by_another_one_counts_as_changed() {
    // As programs save a file: a new one is renamed over it.
    Case::new(
        file,
        |one| one.remove("f").write("f", "one\n2\n3\n4\n5\n"),
        |other| other.write("f", "1\n2\n3\n4\nfive\n"),
    )
    .merges_to(|tree| tree.write("f", "one\n2\n3\n4\nfive\n"));
    // The same for a directory.
    Case::new(
        directory,
        |one| one.remove("d").mkdir("d").write("d/f", "1\n2\n3\n").write("d/new", "n\n"),
        |other| other.write("d/f", "changed\n"),
    )
    .merges_to(|tree| tree.write("d/f", "changed\n").write("d/new", "n\n"));
}

#[test]
fn names_that_are_exchanged_are_exchanged() {
    Case::new(
        directory,
        |one| one.rename("g", "tmp").rename("d/f", "g").rename("tmp", "d/f"),
        |other| other.write("g", "changed\n"),
    )
    .merges_to(|tree| {
        tree.rename("g", "tmp").rename("d/f", "g").rename("tmp", "d/f").write("d/f", "changed\n")
    });
}

#[test]
fn g24_what_is_left_out_stays_as_our_side_has_it() {
    let case = Case::new(
        directory,
        |one| one.remove("d").write("g", "one\n").write("new", "n\n"),
        |other| other.write("h", "h\n"),
    );
    let mut choices = TestChoices { left_out: vec!["g", "d/f"], ..TestChoices::default() };
    let plan = plan_with(&case.base, &case.other, &case.one, &mut choices);
    assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
    let merged = case.other.apply(&plan);
    assert_eq!(merged.text("g").as_deref(), Some("g\n"));
    assert_eq!(merged.text("new").as_deref(), Some("n\n"));
    assert_eq!(merged.text("d/f").as_deref(), Some("1\n2\n3\n"), "the directory stays with it");
    assert_eq!(plan.left_out.len(), 3);
}

#[test]
fn g25_a_conflict_can_be_written_between_markers() {
    let case = Case::new(
        file,
        |one| one.write("f", "1\n2\nfork\n4\n5\n").write("new", "a\n"),
        |other| other.write("f", "1\n2\ntarget\n4\n5\n").write("new", "b\n"),
    );
    let mut choices = TestChoices { for_all: Some(ConflictChoice::Markers), ..TestChoices::default() };
    let plan = plan_with(&case.base, &case.other, &case.one, &mut choices);
    assert!(plan.conflicts.is_empty());
    assert_eq!(plan.marked.len(), 2);
    let merged = case.other.apply(&plan);
    let expected = "1\n2\n<<<<<<< target\ntarget\n||||||| base\n3\n=======\nfork\n>>>>>>> fork\n4\n5\n";
    assert_eq!(merged.text("f").as_deref(), Some(expected));
    let expected = "<<<<<<< target\nb\n||||||| base\n=======\na\n>>>>>>> fork\n";
    assert_eq!(merged.text("new").as_deref(), Some(expected));
}
