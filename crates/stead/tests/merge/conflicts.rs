//! Conflicted merges: they change nothing, say what is in conflict, and follow the caller's choices.

use std::sync::Arc;

use stead_core::store::Parents;

use super::*;

/// Merges, expects these conflicts, and checks that nothing has changed.
#[track_caller]
fn assert_conflicts(stead: &Stead, expected: &[(&str, &str)]) -> MergeResult {
    let before = (files(stead, "/code"), files(stead, "/forks/draft"));
    let result = merge(stead, "draft");
    let found: Vec<_> = kinds(&result);
    let expected: Vec<_> = expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect();
    assert_eq!(found, expected);
    assert!(!result.done && result.operation.is_none());
    assert_eq!((files(stead, "/code"), files(stead, "/forks/draft")), before);
    result
}

for_each_store! {
    fn g9_g24_changes_of_the_same_lines_are_described_with_their_lines(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/src/main.rs", "0\n1\n2\nfork\n4\n5\n6\n7\n");
        write(&stead, "/code/src/main.rs", "1\n2\ntarget\nmore\n4\n5\n6\n7\n");
        let result = assert_conflicts(&stead, &[("/code/src/main.rs", "content")]);
        let conflict = &result.conflicts[0];
        assert_eq!(conflict.hunks.len(), 1);
        let hunk = &conflict.hunks[0];
        assert_eq!((hunk.base.clone(), hunk.target.clone(), hunk.fork.clone()), (3..4, 3..5, 4..5));
        let sizes = [&conflict.base, &conflict.target, &conflict.fork].map(|side| side.as_ref().unwrap().size);
        assert_eq!(sizes, [14, 24, 19]);
        let hashes = [&conflict.base, &conflict.target, &conflict.fork].map(|side| side.as_ref().unwrap().hash.clone());
        let contents =
            ["1\n2\n3\n4\n5\n6\n7\n", "1\n2\ntarget\nmore\n4\n5\n6\n7\n", "0\n1\n2\nfork\n4\n5\n6\n7\n"];
        assert_eq!(hashes, contents.map(|content| Some(blake3::hash(content.as_bytes()).to_hex().to_string())));
        assert_eq!(conflict.marked, None);
        let mut with_markers = MergeOptions::default();
        with_markers.with_markers = true;
        let result = stead.merge_fork("draft", &with_markers).unwrap();
        let marked = String::from_utf8(result.conflicts[0].marked.clone().unwrap()).unwrap();
        assert_eq!(
            marked,
            "0\n1\n2\n<<<<<<< target\ntarget\nmore\n||||||| base\n3\n=======\nfork\n>>>>>>> fork\n4\n5\n6\n7\n"
        );
    }
}

for_each_store! {
    fn g11_a_deletion_and_a_change_conflict_in_both_directions(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        remove(&stead, "/forks/draft/README.md");
        write(&stead, "/code/README.md", "changed\n");
        write(&stead, "/forks/draft/src/lib.rs", "changed\n");
        remove(&stead, "/code/src/lib.rs");
        assert_conflicts(
            &stead,
            &[("/code/README.md", "deleted/changed"), ("/code/src/lib.rs", "deleted/changed")],
        );
        // Each choice makes it as one side has it.
        stead.merge_fork("draft", &options(vec![rule("", MergeChoice::TakeFork)])).unwrap();
        assert!(!exists(&stead, "/code/README.md"));
        assert_eq!(read(&stead, "/code/src/lib.rs"), "changed\n");
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    }
}

for_each_store! {
    fn g13_g16_added_and_renamed_to_one_name_conflict(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/new", "fork\n");
        write(&stead, "/code/new", "target\n");
        rename(&stead, "/forks/draft/README.md", "/forks/draft/x");
        write(&stead, "/code/x", "x\n");
        assert_conflicts(&stead, &[("/code/README.md", "name taken"), ("/code/new", "added/added")]);
        let result = stead.merge_fork("draft", &options(vec![rule("", MergeChoice::TakeTarget)])).unwrap();
        assert!(result.done && result.operation.is_none(), "the target has everything as it was");
        assert_eq!(read(&stead, "/code/new"), "target\n");
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    }
}

for_each_store! {
    fn g15_g20_renames_and_moves_that_contradict_each_other_conflict(store) {
        let project = Project::new(store);
        let stead = project.open("coder");
        for path in ["/code/a/f", "/code/b/f", "/code/file"] {
            write(&stead, path, "1\n");
        }
        let stead = stead.fork("/code", "draft").unwrap();
        rename(&stead, "/forks/draft/file", "/forks/draft/one");
        rename(&stead, "/code/file", "/code/other");
        rename(&stead, "/forks/draft/a", "/forks/draft/b/a");
        rename(&stead, "/code/b", "/code/a/b");
        let result = assert_conflicts(&stead, &[("/code/a", "cycle"), ("/code/other", "renamed/renamed")]);
        assert_eq!(result.conflicts[1].fork.as_ref().unwrap().path, "one");
        let rules = vec![rule("", MergeChoice::TakeTarget), rule("other", MergeChoice::TakeFork)];
        assert!(stead.merge_fork("draft", &options(rules)).unwrap().done);
        assert!(exists(&stead, "/code/one") && exists(&stead, "/code/a/b/f"));
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    }
}

for_each_store! {
    fn g18_changes_in_a_deleted_directory_conflict(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        remove(&stead, "/forks/draft/src");
        write(&stead, "/code/src/new.rs", "n\n");
        assert_conflicts(&stead, &[("/code/src/new.rs", "deleted/changed")]);
        assert!(stead.merge_fork("draft", &options(vec![rule("", MergeChoice::TakeTarget)])).unwrap().done);
        assert_eq!(read(&stead, "/code/src/new.rs"), "n\n");
        assert!(!exists(&stead, "/code/src/main.rs"), "what only the fork deleted is deleted");
    }
}

for_each_store! {
    fn g19_another_kind_of_node_conflicts_with_a_change(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        remove(&stead, "/forks/draft/README.md");
        write(&stead, "/forks/draft/README.md/inside", "i\n");
        write(&stead, "/code/README.md", "changed\n");
        assert_conflicts(&stead, &[("/code/README.md", "kind")]);
        assert!(
            stead.merge_fork("draft", &options(vec![rule("README.md", MergeChoice::TakeFork)])).unwrap().done
        );
        assert_eq!(read(&stead, "/code/README.md/inside"), "i\n");
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    }
}

for_each_store! {
    fn g24_choices_apply_to_all_a_glob_or_a_path_and_content_can_be_given(store) {
        let project = Project::new(store);
        let stead = project.open("coder");
        for path in ["a.txt", "b.txt", "c.md", "d.md"] {
            write(&stead, &format!("/code/{path}"), "base\n");
        }
        let stead = stead.fork("/code", "draft").unwrap();
        for path in ["a.txt", "b.txt", "c.md", "d.md"] {
            write(&stead, &format!("/forks/draft/{path}"), "fork\n");
            write(&stead, &format!("/code/{path}"), "target\n");
        }
        let rules = vec![
            rule("", MergeChoice::TakeTarget),
            rule("*.txt", MergeChoice::TakeFork),
            rule("c.md", MergeChoice::Content(Arc::new(b"given\n".to_vec()))),
            rule("d.md", MergeChoice::LeaveOut),
        ];
        let result = stead.merge_fork("draft", &options(rules)).unwrap();
        assert!(result.done, "{:?}", kinds(&result));
        let texts = ["a.txt", "b.txt", "c.md", "d.md"].map(|path| read(&stead, &format!("/code/{path}")));
        assert_eq!(texts, ["fork\n", "fork\n", "given\n", "target\n"]);
        assert_eq!(result.left_out.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/code/d.md"]);
        // What was left out stays in the fork, and is still in conflict.
        assert_eq!(read(&stead, "/forks/draft/d.md"), "fork\n");
        assert_eq!(read(&stead, "/forks/draft/c.md"), "given\n");
        assert_conflicts(&stead, &[("/code/d.md", "content")]);
    }
}

for_each_store! {
    fn g24_a_dry_run_changes_nothing_and_says_the_same(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/new", "n\n");
        let before = files(&stead, "/code");
        let mut dry_run = MergeOptions::default();
        dry_run.dry_run = true;
        let planned = stead.merge_fork("draft", &dry_run).unwrap();
        assert!(!planned.done);
        assert_eq!(files(&stead, "/code"), before);
        assert_eq!(merge_clean(&stead, "draft").changes, planned.changes);
    }
}

for_each_store! {
    fn g18_what_is_added_to_an_empty_directory_that_the_fork_removed_is_a_conflict_at_its_path(store) {
        for has_removed_file in [false, true] {
            let project = Project::new(store);
            let stead = project.open("coder");
            stead.vfs().mkdir("/code/e", Parents::Create).unwrap();
            if has_removed_file {
                write(&stead, "/code/e/old", "o\n");
            }
            let stead = stead.fork("/code", "draft").unwrap();
            if has_removed_file {
                remove(&stead, "/forks/draft/e/old");
            }
            remove(&stead, "/forks/draft/e");
            write(&stead, "/code/e/new", "work\n");
            assert_conflicts(&stead, &[("/code/e/new", "deleted/changed")]);
            assert_eq!(kinds(&update(&stead, "draft")), [("/forks/draft/e/new".to_owned(), "deleted/changed")]);
            assert!(!exists(&stead, "/forks/draft/e"));
            for (choice, is_kept) in [(MergeChoice::TakeTarget, true), (MergeChoice::TakeFork, false)] {
                let mut plan = options(vec![rule("", choice)]);
                plan.dry_run = true;
                let planned = stead.merge_fork("draft", &plan).unwrap();
                assert!(planned.conflicts.is_empty(), "{:?}", planned.conflicts);
                let removes = |change: &stead::vfs::MergeChange| change.path.as_str() == "/code/e/new";
                assert_eq!(planned.changes.iter().any(removes), !is_kept, "{:?}", planned.changes);
            }
            stead.merge_fork("draft", &options(vec![rule("", MergeChoice::TakeFork)])).unwrap();
            assert!(!exists(&stead, "/code/e"));
            assert_eq!(files(&stead, "/code"), files(&stead, "/forks/draft"));
        }
    }
}

for_each_store! {
    fn g24_a_deletion_that_is_left_out_because_of_what_was_added_stays_in_the_fork(store) {
        let project = Project::new(store);
        let stead = project.open("coder");
        write(&stead, "/code/d/one", "1\n");
        let stead = stead.fork("/code", "draft").unwrap();
        remove(&stead, "/forks/draft/d");
        write(&stead, "/code/d/new", "work\n");
        let result = stead.merge_fork("draft", &options(vec![rule("d/new", MergeChoice::LeaveOut)])).unwrap();
        assert!(result.done && !result.took_everything(), "{:?}", kinds(&result));
        assert!(exists(&stead, "/code/d/new") && !exists(&stead, "/code/d/one"));
        // The fork still has no such directory, and is asked about it again.
        assert!(!exists(&stead, "/forks/draft/d"));
        assert_conflicts(&stead, &[("/code/d/new", "deleted/changed")]);
        stead.merge_fork("draft", &options(vec![rule("", MergeChoice::TakeFork)])).unwrap();
        assert!(!exists(&stead, "/code/d"));
    }
}
