//! Merges in the history: the log, undo, blame, and what the fork has after an undo.

use stead::VfsPath;
use stead_core::vfs::{LogQuery, Overwrite, PointInTime, RestoreOptions, UndoOptions, UndoTarget};

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

#[test]
fn g23_a_merge_is_undone_although_it_brought_changes_into_the_fork_that_nobody_sees_there() {
    let text = CONFIG.replace(
        "prefix = \"/code\"\n    scope = \"rw\"\n    store = \"code\"",
        "prefix = \"/code\"\n    scope = \"rw\"\n    store = \"code\"\n    path = \"/part\"",
    );
    let project = Project::with_config(TargetStore::Virtual, &text);
    let whole = project.open("reviewer");
    write(&whole, "/project/part/f", "1\n");
    write(&whole, "/project/outside/f", "1\n");
    let stead = project.open("coder").fork("/code", "draft").unwrap();
    write(&stead, "/forks/draft/f", "2\n");
    write(&whole, "/project/outside/f", "2\n");
    let before = files(&whole, "/project");
    let result = merge_clean(&stead, "draft");
    let after = files(&whole, "/project");
    let undo =
        stead.vfs().undo(UndoTarget::Operation(result.operation.unwrap()), UndoOptions::default()).unwrap();
    assert!(undo.done, "{:?}", undo.conflicts);
    assert!(!format!("{undo:?}").contains("outside"), "{undo:?}");
    assert_eq!(files(&whole, "/project"), before);
    // A later change outside isn't in conflict with the fork.
    write(&whole, "/project/outside/f", "3\n");
    merge_clean(&stead, "draft");
    assert_eq!(read(&whole, "/project/outside/f"), "3\n");
    assert_eq!(files(&whole, "/project").len(), after.len());
}

/// The version of the fork as it is now.
fn version(stead: &Stead) -> PointInTime {
    let query = LogQuery { path: Some("/forks/draft".try_into().unwrap()), limit: 1, ..LogQuery::default() };
    stead.vfs().log(&query).unwrap()[0].revision.into()
}

/// Restores the fork, or some paths in it.
fn restore(stead: &Stead, version: &PointInTime, paths: &[&str]) {
    let paths = paths.iter().map(|path| VfsPath::parse(&format!("/forks/draft/{path}")).unwrap()).collect();
    let options = RestoreOptions { paths, ..RestoreOptions::default() };
    let result = stead.vfs().restore("/forks/draft", version.clone(), &options).unwrap();
    assert!(result.done && result.left_out.is_empty(), "{result:?}");
}

/// A fork with changes of its own, and its version before an update brought it changes of every kind.
fn updated(project: &Project) -> (Stead, Stead, PointInTime) {
    let coder = forked(project);
    let reviewer = project.open("reviewer");
    write(&coder, "/code/replaced", "1\n2\n3\n4\n5\n6\n7\n");
    write(&coder, "/code/moved", "m\n");
    assert!(update(&coder, "draft").conflicts.is_empty());
    write(&coder, "/forks/draft/src/main.rs", "1\ntwo\n3\n4\n5\n6\n7\n");
    write(&coder, "/forks/draft/replaced", "1\ntwo\n3\n4\n5\n6\n7\n");
    write(&coder, "/forks/draft/moved", "mine\n");
    let version = version(&coder);
    write(&reviewer, "/project/src/main.rs", "1\n2\n3\n4\n5\n6\nWORK\n");
    write(&reviewer, "/project/added", "WORK\n");
    remove(&reviewer, "/project/README.md");
    rename(&reviewer, "/project/moved", "/project/WORK");
    // Many programs save a file by replacing it.
    write(&reviewer, "/project/temporary", "1\n2\n3\n4\n5\n6\nWORK\n");
    remove(&reviewer, "/project/replaced");
    rename(&reviewer, "/project/temporary", "/project/replaced");
    assert!(update(&coder, "draft").conflicts.is_empty());
    assert_eq!(read(&coder, "/forks/draft/src/main.rs"), "1\ntwo\n3\n4\n5\n6\nWORK\n");
    (coder, reviewer, version)
}

for_each_store! {
    fn g28_a_fork_that_was_restored_to_before_an_update_takes_back_no_work_of_others(store) {
        for (whole, updates_again) in [(true, false), (true, true), (false, false), (false, true)] {
            let project = Project::new(store);
            let (coder, reviewer, version) = updated(&project);
            let paths = ["src", "added", "README.md", "moved", "WORK", "replaced"];
            restore(&coder, &version, if whole { &[] } else { &paths });
            assert_eq!(read(&coder, "/forks/draft/src/main.rs"), "1\ntwo\n3\n4\n5\n6\n7\n");
            assert_eq!(read(&coder, "/forks/draft/replaced"), "1\ntwo\n3\n4\n5\n6\n7\n");
            assert_eq!(read(&coder, "/forks/draft/moved"), "mine\n");
            // What the fork has not touched is live in a host directory.
            let is_live = store == TargetStore::Physical;
            assert_eq!(exists(&coder, "/forks/draft/README.md"), !is_live);
            assert_eq!(exists(&coder, "/forks/draft/added"), is_live);
            if updates_again {
                assert!(update(&coder, "draft").conflicts.is_empty());
                assert_eq!(read(&coder, "/forks/draft/src/main.rs"), "1\ntwo\n3\n4\n5\n6\nWORK\n");
            }
            merge_clean(&coder, "draft");
            for path in ["src/main.rs", "replaced"] {
                assert_eq!(read(&reviewer, &format!("/project/{path}")), "1\ntwo\n3\n4\n5\n6\nWORK\n");
            }
            assert_eq!(read(&reviewer, "/project/added"), "WORK\n");
            assert_eq!(read(&reviewer, "/project/WORK"), "mine\n");
            assert!(!exists(&reviewer, "/project/README.md") && !exists(&reviewer, "/project/moved"));
            assert_eq!(files(&coder, "/forks/draft"), files(&coder, "/code"));
            assert!(merge_clean(&coder, "draft").changes.is_empty());
        }
    }
}

for_each_store! {
    fn g28_a_restore_of_one_file_to_before_an_update_leaves_the_others_updated(store) {
        let project = Project::new(store);
        let (coder, reviewer, version) = updated(&project);
        restore(&coder, &version, &["src/main.rs"]);
        let differences = coder.diff_fork("draft", stead::vfs::DiffOptions::default()).unwrap();
        let mut changed: Vec<String> = differences.iter().map(|one| one.path.to_string()).collect();
        changed.sort();
        assert_eq!(changed, ["/forks/draft/WORK", "/forks/draft/replaced", "/forks/draft/src/main.rs"]);
        merge_clean(&coder, "draft");
        assert_eq!(read(&reviewer, "/project/src/main.rs"), "1\ntwo\n3\n4\n5\n6\nWORK\n");
        assert_eq!(read(&reviewer, "/project/added"), "WORK\n");
        assert_eq!(files(&coder, "/forks/draft"), files(&coder, "/code"));
    }
}

for_each_store! {
    fn g28_a_restore_to_before_an_update_can_be_undone(store) {
        let project = Project::new(store);
        let (coder, reviewer, version) = updated(&project);
        restore(&coder, &version, &[]);
        let undone = coder.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(undone.done, "{undone:?}");
        assert_eq!(read(&coder, "/forks/draft/src/main.rs"), "1\ntwo\n3\n4\n5\n6\nWORK\n");
        assert!(update(&coder, "draft").operation.is_none(), "the update counts again");
        // What the fork deletes now is deleted.
        remove(&coder, "/forks/draft/added");
        merge_clean(&coder, "draft");
        assert!(!exists(&reviewer, "/project/added"));
    }
}

for_each_store! {
    fn g28_a_fork_that_was_restored_to_before_a_merge_takes_back_no_work_of_others(store) {
        let project = Project::new(store);
        let coder = forked(&project);
        let reviewer = project.open("reviewer");
        write(&coder, "/forks/draft/README.md", "first\n");
        write(&coder, "/forks/draft/src/main.rs", "1\ntwo\n3\n4\n5\n6\n7\n");
        let version = version(&coder);
        write(&reviewer, "/project/src/main.rs", "1\n2\n3\n4\n5\n6\nWORK\n");
        write(&reviewer, "/project/added", "WORK\n");
        merge_clean(&coder, "draft");
        write(&reviewer, "/project/README.md", "WORK\n");
        restore(&coder, &version, &[]);
        assert_eq!(exists(&coder, "/forks/draft/added"), store == TargetStore::Physical);
        merge_clean(&coder, "draft");
        assert_eq!(read(&reviewer, "/project/src/main.rs"), "1\ntwo\n3\n4\n5\n6\nWORK\n");
        assert_eq!(read(&reviewer, "/project/added"), "WORK\n");
        assert_eq!(read(&reviewer, "/project/README.md"), "WORK\n");
        assert_eq!(files(&coder, "/forks/draft"), files(&coder, "/code"));
    }
}

for_each_store! {
    fn g23_an_undone_merge_of_what_the_fork_has_replaced_can_be_made_again(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        let before = files(&stead, "/code");
        // Many programs save a file by replacing it.
        for (path, content) in [("src/main.rs", "1\ntwo\n3\n4\n5\n6\n7\n"), ("README.md", "changed\n")] {
            write(&stead, "/forks/draft/temporary", content);
            let path = format!("/forks/draft/{path}");
            stead.vfs().rename("/forks/draft/temporary", &*path, Overwrite::Replace).unwrap();
        }
        // A directory in the place of another one.
        write(&stead, "/code/dir/old", "old\n");
        assert!(update(&stead, "draft").conflicts.is_empty());
        let with_directory = files(&stead, "/code");
        remove(&stead, "/forks/draft/dir");
        write(&stead, "/forks/draft/dir/new", "new\n");
        let fork = files(&stead, "/forks/draft");
        for _ in 0..3 {
            merge_clean(&stead, "draft");
            assert_eq!(files(&stead, "/code"), fork);
            let undone = stead.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
            assert!(undone.done, "{undone:?}");
            assert_eq!(files(&stead, "/code"), with_directory);
        }
        // What somebody else changes meanwhile is merged with it.
        write(&project.open("reviewer"), "/project/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/src/main.rs"), "1\ntwo\n3\n4\n5\n6\nseven\n");
        assert_eq!(read(&stead, "/code/README.md"), "changed\n");
        assert!(exists(&stead, "/code/dir/new") && !exists(&stead, "/code/dir/old"));
        assert_ne!(files(&stead, "/code"), before);
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
        assert!(merge_clean(&stead, "draft").changes.is_empty());
    }
}
