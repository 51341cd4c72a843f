//! Updates: the target's changes come into the fork.

use stead_core::vfs::{UndoOptions, UndoTarget};

use super::*;

for_each_store! {
    fn g25_the_targets_changes_come_into_the_fork(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        write(&stead, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
        write(&stead, "/code/new", "n\n");
        rename(&stead, "/code/README.md", "/code/INTRO.md");
        remove(&stead, "/code/src/lib.rs");
        let target = files(&stead, "/code");
        let result = update(&stead, "draft");
        assert!(result.done && result.conflicts.is_empty());
        assert_eq!(files(&stead, "/code"), target, "an update never changes the target");
        assert_eq!(read(&stead, "/forks/draft/src/main.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
        assert_eq!(read(&stead, "/forks/draft/INTRO.md"), "read me\n");
        assert!(exists(&stead, "/forks/draft/new") && !exists(&stead, "/forks/draft/src/lib.rs"));
        // Only the fork's own change differs now, and comes into the target.
        let differences = stead.diff_fork("draft", stead::vfs::DiffOptions::default()).unwrap();
        assert_eq!(
            differences.iter().map(|one| one.path.to_string()).collect::<Vec<_>>(),
            ["/forks/draft/src/main.rs"]
        );
        assert!(update(&stead, "draft").operation.is_none(), "a second update has nothing to do");
        assert_eq!(merge_clean(&stead, "draft").changes.len(), 1);
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    }
}

for_each_store! {
    fn g25_conflicts_are_written_between_markers_and_block_the_merge_until_they_are_gone(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/src/main.rs", "1\n2\nfork\n4\n5\n6\n7\n");
        write(&stead, "/code/src/main.rs", "1\n2\ntarget\n4\n5\n6\n7\n");
        let result = update(&stead, "draft");
        assert_eq!(kinds(&result), [("/forks/draft/src/main.rs".to_owned(), "content")]);
        let marked = "1\n2\n<<<<<<< target\ntarget\n||||||| base\n3\n=======\nfork\n>>>>>>> fork\n4\n5\n6\n7\n";
        assert_eq!(read(&stead, "/forks/draft/src/main.rs"), marked);
        let refused = merge(&stead, "draft");
        assert!(!refused.done);
        assert_eq!(kinds(&refused), [("/code/src/main.rs".to_owned(), "unresolved")]);
        assert_eq!(read(&stead, "/code/src/main.rs"), "1\n2\ntarget\n4\n5\n6\n7\n");
        // The agent resolves it with an ordinary edit.
        write(&stead, "/forks/draft/src/main.rs", "1\n2\ntarget and fork\n4\n5\n6\n7\n");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/src/main.rs"), "1\n2\ntarget and fork\n4\n5\n6\n7\n");
    }
}

for_each_store! {
    fn g24_a_file_with_markers_can_be_left_out_or_given(store) {
        for (choice, expected) in [
            (MergeChoice::LeaveOut, "1\n2\ntarget\n4\n5\n6\n7\n"),
            (MergeChoice::Content(std::sync::Arc::new(b"given\n".to_vec())), "given\n"),
        ] {
            let project = Project::new(store);
            let stead = forked(&project);
            write(&stead, "/forks/draft/src/main.rs", "1\n2\nfork\n4\n5\n6\n7\n");
            write(&stead, "/forks/draft/other", "fork\n");
            write(&stead, "/code/src/main.rs", "1\n2\ntarget\n4\n5\n6\n7\n");
            update(&stead, "draft");
            // To take a side would bring the markers into the target.
            for side in [MergeChoice::TakeFork, MergeChoice::TakeTarget] {
                let refused = stead.merge_fork("draft", &options(vec![rule("src/main.rs", side)])).unwrap();
                assert_eq!(kinds(&refused), [("/code/src/main.rs".to_owned(), "unresolved")]);
            }
            let merged = stead.merge_fork("draft", &options(vec![rule("src/main.rs", choice)])).unwrap();
            assert!(merged.done && merged.conflicts.is_empty(), "{:?}", merged.conflicts);
            assert_eq!(read(&stead, "/code/src/main.rs"), expected);
            assert_eq!(read(&stead, "/code/other"), "fork\n");
        }
    }
}

for_each_store! {
    fn g25_other_conflicts_are_listed_and_never_lost(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        remove(&stead, "/forks/draft/README.md");
        write(&stead, "/code/README.md", "changed\n");
        write(&stead, "/forks/draft/bin", "\0fork");
        write(&stead, "/code/bin", "\0target");
        write(&stead, "/code/new", "n\n");
        for _ in 0..2 {
            let result = update(&stead, "draft");
            let expected = [("/forks/draft/README.md", "deleted/changed"), ("/forks/draft/bin", "added/added")];
            assert_eq!(kinds(&result), expected.map(|(path, kind)| (path.to_owned(), kind)));
            assert!(!exists(&stead, "/forks/draft/README.md") && exists(&stead, "/forks/draft/new"));
        }
        // The target's changes are still there to be decided about.
        let conflicts = merge(&stead, "draft");
        let expected = [("/code/README.md", "deleted/changed"), ("/code/bin", "added/added")];
        assert_eq!(kinds(&conflicts), expected.map(|(path, kind)| (path.to_owned(), kind)));
        stead.merge_fork("draft", &options(vec![rule("", MergeChoice::TakeTarget)])).unwrap();
        assert_eq!(read(&stead, "/code/README.md"), "changed\n");
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
        assert!(update(&stead, "draft").conflicts.is_empty());
    }
}

for_each_store! {
    fn g25_an_update_can_be_undone_and_made_again(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/own", "o\n");
        write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        write(&stead, "/code/new", "n\n");
        write(&stead, "/code/README.md", "changed\n");
        write(&stead, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
        let before = files(&stead, "/forks/draft");
        let operation = update(&stead, "draft").operation.unwrap();
        let after = files(&stead, "/forks/draft");
        assert_eq!(read(&stead, "/forks/draft/src/main.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
        stead.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
        assert_eq!(files(&stead, "/forks/draft"), before);
        // The undone update doesn't count: a merge doesn't undo the target's changes.
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/README.md"), "changed\n");
        assert_eq!(read(&stead, "/code/src/main.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
        assert!(exists(&stead, "/code/new") && exists(&stead, "/code/own"));
        assert_eq!(files(&stead, "/forks/draft"), after);
    }
}

for_each_store! {
    fn g25_update_then_merge_equals_merge(store) {
        let results = [true, false].map(|updates| {
            let project = Project::new(store);
            let stead = forked(&project);
            write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
            rename(&stead, "/forks/draft/src/lib.rs", "/forks/draft/lib.rs");
            write(&stead, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
            write(&stead, "/code/src/lib.rs", "a\nb\nC\n");
            if updates {
                update(&stead, "draft");
            }
            merge_clean(&stead, "draft");
            files(&stead, "/code")
        });
        assert_eq!(results[0], results[1]);
    }
}
