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
