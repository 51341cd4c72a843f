//! Merges in the history: the log, undo, blame, and what the fork has after an undo.

use stead_core::vfs::{LogQuery, UndoOptions, UndoTarget};

use super::*;

for_each_store! {
    fn g23_a_merge_is_one_operation_of_the_merger_and_the_log_names_the_fork(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/new", "n\n");
        write(&stead, "/forks/draft/README.md", "changed\n");
        let operation = merge_clean(&stead, "draft").operation.unwrap();
        let query = LogQuery { path: Some("/code".try_into().unwrap()), limit: 1, ..LogQuery::default() };
        let entry = stead.vfs().log(&query).unwrap().remove(0);
        assert_eq!(entry.operation.id, operation);
        assert_eq!(entry.operation.identity.agent, "coder");
        assert_eq!(entry.operation.tool, "merge");
        assert_eq!(entry.merged_fork.as_deref(), Some("coder/draft"));
        assert_eq!(entry.changes.len(), 2);
    }
}

for_each_store! {
    fn g23_a_merge_is_undone_byte_for_byte_and_the_undo_too(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        write(&stead, "/forks/draft/deep/new", "n\n");
        rename(&stead, "/forks/draft/src/lib.rs", "/forks/draft/moved.rs");
        remove(&stead, "/forks/draft/README.md");
        write(&stead, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
        let before = files(&stead, "/code");
        let fork_before = files(&stead, "/forks/draft");
        let operation = merge_clean(&stead, "draft").operation.unwrap();
        let after = files(&stead, "/code");
        let undo = stead.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
        assert_eq!(files(&stead, "/code"), before);
        assert_eq!(files(&stead, "/forks/draft"), fork_before, "the fork has its changes as before");
        stead.vfs().undo(UndoTarget::Operation(undo.operation.unwrap()), UndoOptions::default()).unwrap();
        assert_eq!(files(&stead, "/code"), after);
    }
}

for_each_store! {
    fn g23_an_undone_merge_can_be_made_again(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/README.md", "changed\n");
        let operation = merge_clean(&stead, "draft").operation.unwrap();
        stead.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
        assert_eq!(read(&stead, "/code/README.md"), "read me\n");
        write(&stead, "/forks/draft/more", "m\n");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/README.md"), "changed\n");
        assert!(exists(&stead, "/code/more"));
    }
}

for_each_store! {
    fn g23_g28_a_merge_that_was_undone_and_made_again_is_the_base_of_the_next_one(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        let operation = merge_clean(&stead, "draft").operation.unwrap();
        stead.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
        merge_clean(&stead, "draft");
        write(&stead, "/forks/draft/src/main.rs", "eins\n2\n3\n4\n5\n6\n7\n");
        write(&stead, "/code/src/main.rs", "one\n2\n3\n4\n5\n6\nsieben\n");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/src/main.rs"), "eins\n2\n3\n4\n5\n6\nsieben\n");
    }
}

for_each_store! {
    fn g23_line_authors_are_kept_after_the_fork_is_gone(store) {
        let project = Project::new(store);
        let reviewer = project.open("reviewer");
        write(&reviewer, "/project/f", "one\ntwo\nthree\nfour\nfive\n");
        let coder = project.open("coder").fork("/code", "draft").unwrap();
        write(&coder, "/forks/draft/f", "one\ntwo\nthree\nFOUR\nfive\n");
        write(&coder, "/forks/draft/f", "one\ntwo\nthree\nFOUR\nfive\nsix\n");
        write(&coder, "/forks/draft/whole", "by coder\n");
        write(&reviewer, "/project/f", "ONE\ntwo\nthree\nfour\nfive\n");
        let reviewer = project.open("reviewer");
        merge_clean(&reviewer, "coder/draft");
        let reviewer = reviewer.discard("coder/draft").unwrap();
        let authors = |path: &str| -> Vec<String> {
            let lines = reviewer.vfs().blame(path).unwrap();
            lines
                .into_iter()
                .map(|line| {
                    let agent =
                        line.operation.map_or("-".to_owned(), |operation| operation.identity.agent.clone());
                    format!("{agent} {}", String::from_utf8(line.line).unwrap().trim_end())
                })
                .collect()
        };
        assert_eq!(
            authors("/project/f"),
            ["reviewer ONE", "reviewer two", "reviewer three", "coder FOUR", "reviewer five", "coder six"]
        );
        assert_eq!(authors("/project/whole"), ["coder by coder"]);
    }
}

fn undo(stead: &Stead, result: &stead::vfs::MergeResult) {
    let operation = UndoTarget::Operation(result.operation.unwrap());
    stead.vfs().undo(operation, UndoOptions::default()).unwrap();
}

/// What a fork has changed, as its paths.
fn changed(stead: &Stead, fork: &str) -> Vec<String> {
    let differences = stead.diff_fork(fork, stead::vfs::DiffOptions::default()).unwrap();
    differences.into_iter().map(|difference| difference.path.to_string()).collect()
}

// A merge that was made again after an undo counts: otherwise later merges would take the work of others for changes that the
// fork had undone.
for_each_store! {
    fn g28_after_merge_undo_and_merge_an_unchanged_fork_has_nothing_to_merge(store) {
        let project = Project::new(store);
        let coder = forked(&project);
        write(&coder, "/forks/draft/README.md", "changed\n");
        write(&coder, "/forks/draft/new", "n\n");
        remove(&coder, "/forks/draft/src/lib.rs");
        for _ in 0..2 {
            let merged = merge_clean(&coder, "draft");
            undo(&coder, &merged);
            assert_eq!(changed(&coder, "draft").len(), 3, "the fork has its changes again");
        }
        merge_clean(&coder, "draft");
        assert_eq!(changed(&coder, "draft"), Vec::<String>::new());
        let reviewer = project.open("reviewer");
        write(&reviewer, "/project/README.md", "read me\n");
        remove(&reviewer, "/project/new");
        write(&reviewer, "/project/src/lib.rs", "a\nb\nc\n");
        let before = files(&reviewer, "/project");
        let merged = merge_clean(&coder, "draft");
        assert!(merged.changes.is_empty(), "{:?}", merged.changes);
        assert_eq!(files(&reviewer, "/project"), before, "the reviewer's work stays");
        // And the fork's next change is merged, not in conflict.
        write(&coder, "/forks/draft/src/main.rs", "1\n");
        merge_clean(&coder, "draft");
        assert_eq!(read(&reviewer, "/project/src/main.rs"), "1\n");
        assert_eq!(read(&reviewer, "/project/README.md"), "read me\n");
    }
}

for_each_store! {
    fn g28_after_update_undo_and_update_what_the_target_takes_back_stays_taken_back(store) {
        let project = Project::new(store);
        let coder = forked(&project);
        write(&coder, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        write(&coder, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
        for _ in 0..2 {
            let updated = update(&coder, "draft");
            undo(&coder, &updated);
        }
        update(&coder, "draft");
        assert_eq!(read(&coder, "/forks/draft/src/main.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
        write(&project.open("reviewer"), "/project/src/main.rs", "1\n2\n3\n4\n5\n6\n7\n");
        merge_clean(&coder, "draft");
        assert_eq!(read(&coder, "/code/src/main.rs"), "one\n2\n3\n4\n5\n6\n7\n");
    }
}

for_each_store! {
    fn g28_the_undo_of_an_earlier_merge_leaves_a_later_one(store) {
        let project = Project::new(store);
        let coder = forked(&project);
        write(&coder, "/forks/draft/first", "1\n");
        let first = merge_clean(&coder, "draft");
        write(&coder, "/forks/draft/second", "2\n");
        merge_clean(&coder, "draft");
        undo(&coder, &first);
        assert!(!exists(&coder, "/code/first") && exists(&coder, "/code/second"));
        merge_clean(&coder, "draft");
        assert!(exists(&coder, "/code/first") && exists(&coder, "/code/second"));
        assert_eq!(changed(&coder, "draft"), Vec::<String>::new());
    }
}

for_each_store! {
    fn g12_g28_what_both_sides_added_alike_belongs_to_the_base_after_a_merge_or_an_update(store) {
        for brings_together in [merge as fn(&Stead, &str) -> stead::vfs::MergeResult, update] {
            let project = Project::new(store);
            let coder = forked(&project);
            for path in ["/forks/draft/both", "/code/both", "/forks/draft/dir/both", "/code/dir/both"] {
                write(&coder, path, "same\n");
            }
            let result = brings_together(&coder, "draft");
            assert!(result.done && result.changes.is_empty(), "{result:?}");
            assert_eq!(changed(&coder, "draft"), Vec::<String>::new());
            // So a later removal is one.
            remove(&coder, "/forks/draft/both");
            write(&coder, "/forks/draft/dir/both", "changed\n");
            assert_eq!(changed(&coder, "draft"), ["/forks/draft/both", "/forks/draft/dir/both"]);
            merge_clean(&coder, "draft");
            assert!(!exists(&coder, "/code/both"));
            assert_eq!(read(&coder, "/code/dir/both"), "changed\n");
            assert_eq!(changed(&coder, "draft"), Vec::<String>::new());
        }
    }
}
