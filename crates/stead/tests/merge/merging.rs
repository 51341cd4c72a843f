//! Clean merges: what the fork did comes into the target, and what the target did stays.

use std::sync::{Arc, Mutex};

use stead_core::edit::Occurrences;
use stead_core::monitor::{CallMonitor, StopReason};
use stead_core::store::Parents;
use stead_core::vfs::{ForkHandle, WriteOptions};

use super::*;

for_each_store! {
    fn g6_what_the_fork_changed_comes_into_the_target(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/src/main.rs", "new\n");
        write(&stead, "/forks/draft/docs/guide.md", "guide\n");
        let before = files(&stead, "/forks/draft");
        assert_eq!(read(&stead, "/code/src/main.rs"), "1\n2\n3\n4\n5\n6\n7\n");
        let result = merge_clean(&stead, "draft");
        let changed: Vec<_> =
            result.changes.iter().map(|change| format!("{} {}", change.action.as_str(), change.path)).collect();
        assert_eq!(changed, ["added /code/docs", "added /code/docs/guide.md", "changed /code/src/main.rs"]);
        assert_eq!(files(&stead, "/code"), before);
        assert_eq!(files(&stead, "/forks/draft"), before);
    }
}

for_each_store! {
    fn g8_both_sides_changes_are_combined(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        write(&stead, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
        write(&stead, "/code/target-only", "t\n");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/src/main.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
        // The fork goes on from the new base.
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    }
}

for_each_store! {
    fn g10_what_the_fork_deleted_is_deleted(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        remove(&stead, "/forks/draft/src");
        merge_clean(&stead, "draft");
        assert!(!exists(&stead, "/code/src"));
        assert!(exists(&stead, "/code/README.md"));
    }
}

for_each_store! {
    fn g12_the_same_new_file_on_both_sides_is_one_file(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/new/file", "same\n");
        write(&stead, "/code/new/file", "same\n");
        write(&stead, "/forks/draft/new/fork", "f\n");
        merge_clean(&stead, "draft");
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
        // A later change of the file is one of the same file.
        write(&stead, "/forks/draft/new/file", "changed\n");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/new/file"), "changed\n");
    }
}

for_each_store! {
    fn g14_a_file_renamed_on_one_side_gets_the_other_sides_lines(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        rename(&stead, "/forks/draft/src/main.rs", "/forks/draft/src/app.rs");
        write(&stead, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
        write(&stead, "/forks/draft/README.md", "changed\n");
        rename(&stead, "/code/README.md", "/code/INTRO.md");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/src/app.rs"), "1\n2\n3\n4\n5\n6\nseven\n");
        assert_eq!(read(&stead, "/code/INTRO.md"), "changed\n");
        assert!(!exists(&stead, "/code/src/main.rs") && !exists(&stead, "/code/README.md"));
    }
}

for_each_store! {
    fn g17_a_file_added_to_a_renamed_directory_is_in_it(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        rename(&stead, "/forks/draft/src", "/forks/draft/source");
        write(&stead, "/code/src/new.rs", "n\n");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/source/new.rs"), "n\n");
        assert!(!exists(&stead, "/code/src"));
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    }
}

for_each_store! {
    fn g21_an_execute_bit_and_a_content_are_both_taken(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        stead.vfs().write_with("/forks/draft/README.md", "read me\n", &WriteOptions::new().mode(0o755)).unwrap();
        write(&stead, "/code/README.md", "target\n");
        merge_clean(&stead, "draft");
        assert_eq!(files(&stead, "/code")["/README.md"], (0o755, b"target\n".to_vec()));
    }
}

for_each_store! {
    fn g22_bytes_that_are_not_utf_8_line_endings_and_a_missing_last_newline_stay(store) {
        let project = Project::new(store);
        let stead = project.open("coder");
        let base: &[u8] = b"\xef\xbb\xbfone\r\n\xff\xfe\r\nthree\r\nfour\r\nfive";
        stead.vfs().write("/code/f", base).unwrap();
        let stead = stead.fork("/code", "draft").unwrap();
        stead
            .vfs()
            .write("/forks/draft/f", &b"\xef\xbb\xbfONE\r\n\xff\xfe\r\nthree\r\nfour\r\nfive"[..])
            .unwrap();
        stead.vfs().write("/code/f", &b"\xef\xbb\xbfone\r\n\xff\xfe\r\nthree\r\nfour\r\nFIVE"[..]).unwrap();
        merge_clean(&stead, "draft");
        let merged = stead.vfs().read("/code/f").unwrap().bytes;
        assert_eq!(merged, b"\xef\xbb\xbfONE\r\n\xff\xfe\r\nthree\r\nfour\r\nFIVE");
    }
}

for_each_store! {
    fn g28_merging_again_does_nothing_and_the_fork_goes_on(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/a", "1\n");
        write(&stead, "/code/b", "1\n");
        merge_clean(&stead, "draft");
        let state = files(&stead, "/code");
        let again = merge_clean(&stead, "draft");
        assert!(again.operation.is_none() && again.changes.is_empty(), "{:?}", again.changes);
        assert_eq!(files(&stead, "/code"), state);
        // Also after the target has changed, and for new changes of both.
        write(&stead, "/code/b", "2\n");
        assert!(merge_clean(&stead, "draft").changes.is_empty());
        write(&stead, "/forks/draft/a", "2\n");
        stead.vfs().mkdir("/forks/draft/d", Parents::Create).unwrap();
        assert_eq!(merge_clean(&stead, "draft").changes.len(), 2);
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    }
}

for_each_store! {
    fn g28_a_fork_of_a_fork_merges_into_that_fork(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        let stead = stead.fork("/forks/draft", "detail").unwrap();
        write(&stead, "/forks/detail/README.md", "detail\n");
        merge_clean(&stead, "detail");
        assert_eq!(read(&stead, "/forks/draft/README.md"), "detail\n");
        assert_eq!(read(&stead, "/code/README.md"), "read me\n");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/README.md"), "detail\n");
    }
}

for_each_store! {
    fn g26_two_forks_are_merged_one_after_the_other(store) {
        let project = Project::new(store);
        let stead = forked(&project).fork("/code", "second").unwrap();
        write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        write(&stead, "/forks/second/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
        merge_clean(&stead, "draft");
        merge_clean(&stead, "second");
        assert_eq!(read(&stead, "/code/src/main.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
    }
}

for_each_store! {
    fn g26_writers_of_the_target_and_of_the_fork_lose_nothing_while_it_is_merged(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        let lines: String = (0..200).map(|line| format!("line {line}\n")).collect();
        write(&stead, "/code/shared", &lines);
        update(&stead, "draft");
        std::thread::scope(|scope| {
            // The sides edit lines that are far apart, so every merge is clean.
            for (prefix, first) in [("/code", 0), ("/forks/draft", 100)] {
                let stead = stead.clone();
                scope.spawn(move || {
                    for line in (first..first + 60).step_by(3) {
                        let (old, new) = (format!("line {line}\n"), format!("{prefix} {line}\n"));
                        stead.vfs().edit(&*format!("{prefix}/shared"), &old, &new, Occurrences::One).unwrap();
                    }
                });
            }
            let stead = stead.clone();
            scope.spawn(move || {
                for _ in 0..15 {
                    match stead.merge_fork("draft", &MergeOptions::default()) {
                        Ok(result) => assert!(result.conflicts.is_empty(), "{:?}", kinds(&result)),
                        // It may lose the race each time; then it says so.
                        Err(error) => assert_eq!(error.kind(), stead::ErrorKind::Conflict, "{error}"),
                    }
                }
            });
        });
        merge_clean(&stead, "draft");
        let merged = read(&stead, "/code/shared");
        for (prefix, first) in [("/code", 0), ("/forks/draft", 100)] {
            for line in (first..first + 60).step_by(3) {
                assert!(merged.contains(&format!("{prefix} {line}\n")), "{prefix} {line}");
            }
        }
        // If the last merge had nothing to do, the fork gets the target's last lines with an update.
        update(&stead, "draft");
        assert_eq!(read(&stead, "/forks/draft/shared"), merged);
    }
}

/// An agent that writes a file once in each attempt of a merge, after its sides were read.
#[derive(Debug)]
struct RacingAgent {
    stead: Stead,
    /// The file that it writes: its first lines stay, and its last line changes.
    path: &'static str,
    attempts: usize,
    state: Mutex<RaceState>,
}

#[derive(Debug, Default)]
struct RaceState {
    /// The total that the merge has reported last. Each attempt has another one.
    total: Option<u64>,
    writes: usize,
}

impl CallMonitor for RacingAgent {
    fn progress(&self, _: u64, total: Option<u64>) {
        let mut state = self.state.lock().unwrap();
        if total.is_some_and(|total| total > 0) && total != state.total && state.writes < self.attempts {
            (state.total, state.writes) = (total, state.writes + 1);
            let text = read(&self.stead, self.path);
            let (first_lines, _) = text.split_once("\n6\n").unwrap();
            write(&self.stead, self.path, &format!("{first_lines}\n6\nagent {}\n", state.writes));
        }
    }

    fn stop_reason(&self) -> Option<StopReason> {
        None
    }
}

/// Merges the fork while an agent writes, and returns how often it did.
fn merge_while_written(
    stead: &Stead,
    writer: Stead,
    path: &'static str,
    attempts: usize,
) -> (stead_core::Result<MergeResult>, usize) {
    let racing = Arc::new(RacingAgent { stead: writer, path, attempts, state: Mutex::default() });
    let vfs = stead.vfs().with_monitor(Arc::clone(&racing) as Arc<dyn CallMonitor>);
    let prefix = stead_core::VfsPath::parse("/forks/draft").unwrap();
    let workspace = stead.vfs().workspaces().find(|workspace| *workspace.prefix() == prefix).unwrap();
    let fork = ForkHandle { fork: stead.find_fork("draft").unwrap(), store: workspace.mount().store() };
    let result = vfs.merge_fork("/code", fork, &MergeOptions::default());
    let writes = racing.state.lock().unwrap().writes;
    (result, writes)
}

for_each_store! {
    fn g26_what_an_agent_writes_between_planning_and_writing_is_never_overwritten(store) {
        for (attempts, is_merged) in [(1, true), (4, true), (100, false)] {
            let project = Project::new(store);
            let stead = forked(&project);
            write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
            write(&stead, "/forks/draft/README.md", "fork\n");
            write(&stead, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\nagent\n");
            let (result, writes) =
                merge_while_written(&stead, project.open("reviewer"), "/project/src/main.rs", attempts);
            if is_merged {
                assert!(result.unwrap().done);
                assert_eq!(writes, attempts, "each write makes the merge plan again");
                let merged = format!("one\n2\n3\n4\n5\n6\nagent {attempts}\n");
                assert_eq!(read(&stead, "/code/src/main.rs"), merged);
                assert_eq!(read(&stead, "/forks/draft/src/main.rs"), merged);
                assert_eq!(read(&stead, "/code/README.md"), "fork\n");
            } else {
                // It gives up, and has changed nothing.
                assert_eq!(result.unwrap_err().kind(), stead::ErrorKind::Conflict);
                assert_eq!(read(&stead, "/code/src/main.rs"), format!("1\n2\n3\n4\n5\n6\nagent {writes}\n"));
                assert_eq!(read(&stead, "/code/README.md"), "read me\n");
                assert_eq!(read(&stead, "/forks/draft/src/main.rs"), "one\n2\n3\n4\n5\n6\n7\n");
                merge_clean(&stead, "draft");
            }
        }
    }
}

for_each_store! {
    fn g25_markers_that_a_merge_wrote_while_the_fork_was_changed_are_listed_by_the_next_update(store) {
        let project = Project::new(store);
        let stead = forked(&project);
        write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        write(&stead, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\ntarget\n");
        let (merged, writes) = merge_while_written(&stead, stead.clone(), "/forks/draft/src/main.rs", 1);
        assert!(merged.unwrap().done);
        assert_eq!((read(&stead, "/code/src/main.rs"), writes), ("one\n2\n3\n4\n5\n6\ntarget\n".into(), 1));
        // The fork has both lines, and its agent is told so, as often as it asks.
        let marked = "one\n2\n3\n4\n5\n6\n<<<<<<< target\ntarget\n||||||| base\n7\n=======\nagent 1\n>>>>>>> fork\n";
        for _ in 0..2 {
            let conflicts = kinds(&update(&stead, "draft"));
            assert_eq!(conflicts, [("/forks/draft/src/main.rs".to_owned(), "unresolved")]);
            assert_eq!(read(&stead, "/forks/draft/src/main.rs"), marked);
        }
        write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\nboth\n");
        assert_eq!(kinds(&update(&stead, "draft")), []);
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/src/main.rs"), "one\n2\n3\n4\n5\n6\nboth\n");
    }
}

for_each_store! {
    fn g1_a_fork_of_a_workspace_whose_directory_is_not_made_yet_is_merged(store) {
        let in_a_new_directory = |prefix: &str| {
            let workspace = format!("prefix = \"{prefix}\"\n    scope = \"rw\"\n    store = \"code\"");
            CONFIG.replace(&workspace, &format!("{workspace}\n    path = \"/new/dir\""))
        };
        for is_made_meanwhile in [false, true] {
            let project = Project::with_config(store, &in_a_new_directory("/code"));
            let stead = project.open("coder").fork("/code", "draft").unwrap();
            write(&stead, "/forks/draft/a.txt", "fork\n");
            if is_made_meanwhile {
                write(&stead, "/code/b.txt", "target\n");
            }
            let result = merge_clean(&stead, "draft");
            let changed: Vec<String> = result.changes.iter().map(|change| change.path.to_string()).collect();
            assert!(changed.contains(&"/code/a.txt".to_owned()), "{changed:?}");
            assert!(changed.iter().all(|path| path.starts_with("/code")), "{changed:?}");
            assert_eq!(read(&project.open("reviewer"), "/project/new/dir/a.txt"), "fork\n");
            assert!(update(&stead, "draft").conflicts.is_empty());
            assert_eq!(files(&stead, "/code"), files(&stead, "/forks/draft"));
            assert!(merge(&stead, "draft").is_unchanged(), "merging again does nothing");
            let operation = result.operation.unwrap();
            stead.vfs().undo(stead_core::vfs::UndoTarget::Operation(operation), Default::default()).unwrap();
            assert!(!exists(&stead, "/code/a.txt"));
            assert_eq!(exists(&stead, "/code/b.txt"), is_made_meanwhile);
        }
    }
}
