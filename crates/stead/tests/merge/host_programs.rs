//! What only a host directory has: programs that change it beside Stead.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stead::ArchiveLookup;
use stead_core::monitor::{CallMonitor, StopReason};
use stead_core::vfs::{ForkHandle, UndoOptions, UndoTarget, WriteOptions};

use super::*;

fn host_text(project: &Project, path: &str) -> String {
    fs::read_to_string(project.host(path)).unwrap()
}

#[test]
fn g8_lines_of_a_host_program_and_of_the_fork_are_combined() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
    fs::write(project.host("src/main.rs"), "1\n2\n3\n4\n5\n6\nseven\n").unwrap();
    merge_clean(&stead, "draft");
    assert_eq!(host_text(&project, "src/main.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
    assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
}

#[test]
fn g8_a_program_that_saves_by_replacing_the_file_has_changed_it() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
    fs::write(project.host("src/new"), "1\n2\n3\n4\n5\n6\nseven\n").unwrap();
    fs::rename(project.host("src/new"), project.host("src/main.rs")).unwrap();
    merge_clean(&stead, "draft");
    assert_eq!(host_text(&project, "src/main.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
}

#[test]
fn g9_g24_a_conflict_with_a_host_program_leaves_its_file_alone() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/README.md", "fork\n");
    write(&stead, "/forks/draft/src/lib.rs", "only the fork\n");
    fs::write(project.host("README.md"), "host\n").unwrap();
    let before = fs::metadata(project.host("README.md")).unwrap();
    let fork = files(&stead, "/forks/draft");
    for _ in 0..2 {
        let result = merge(&stead, "draft");
        assert!(!result.done);
        assert_eq!(kinds(&result), [("/code/README.md".to_owned(), "content")]);
    }
    let after = fs::metadata(project.host("README.md")).unwrap();
    assert_eq!((before.ino(), before.ctime_nsec()), (after.ino(), after.ctime_nsec()));
    assert_eq!(host_text(&project, "src/lib.rs"), "a\nb\nc\n");
    assert_eq!(files(&stead, "/forks/draft"), fork);
}

#[test]
fn g10_g11_a_file_that_a_host_program_removed() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/README.md", "changed\n");
    remove(&stead, "/forks/draft/src/lib.rs");
    fs::remove_file(project.host("README.md")).unwrap();
    fs::remove_file(project.host("src/lib.rs")).unwrap();
    let result = merge(&stead, "draft");
    // Both deleted `lib.rs`, so there is nothing to do about it.
    assert_eq!(kinds(&result), [("/code/README.md".to_owned(), "deleted/changed")]);
    assert!(!project.host("README.md").exists());
    let take = |choice| stead.merge_fork("draft", &options(vec![rule("README.md", choice)])).unwrap();
    assert!(take(MergeChoice::TakeFork).done);
    assert_eq!(host_text(&project, "README.md"), "changed\n");
    assert!(merge_clean(&stead, "draft").changes.is_empty());
}

#[test]
fn g12_g13_a_host_program_adds_a_file_at_a_name_that_the_fork_added() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/same", "s\n");
    write(&stead, "/forks/draft/other", "fork\n");
    fs::write(project.host("same"), "s\n").unwrap();
    fs::write(project.host("other"), "host\n").unwrap();
    assert_eq!(kinds(&merge(&stead, "draft")), [("/code/other".to_owned(), "added/added")]);
    assert_eq!(host_text(&project, "other"), "host\n");
    let result = stead.merge_fork("draft", &options(vec![rule("other", MergeChoice::TakeTarget)])).unwrap();
    assert!(result.done && result.operation.is_none());
    assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
}

#[test]
fn g14_g25_a_file_that_a_host_program_renamed_keeps_its_name_and_gets_the_forks_lines() {
    for updates in [false, true] {
        let project = Project::new(TargetStore::Physical);
        let stead = forked(&project);
        write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        fs::create_dir(project.host("deep")).unwrap();
        fs::rename(project.host("src/main.rs"), project.host("deep/app.rs")).unwrap();
        fs::write(project.host("deep/app.rs"), "1\n2\n3\n4\n5\n6\nseven\n").unwrap();
        if updates {
            assert!(update(&stead, "draft").conflicts.is_empty());
            assert!(!exists(&stead, "/forks/draft/src/main.rs"));
            assert_eq!(read(&stead, "/forks/draft/deep/app.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
            assert_eq!(host_text(&project, "deep/app.rs"), "1\n2\n3\n4\n5\n6\nseven\n");
        }
        merge_clean(&stead, "draft");
        assert_eq!(host_text(&project, "deep/app.rs"), "one\n2\n3\n4\n5\n6\nseven\n");
        assert!(!project.host("src/main.rs").exists());
        assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    }
}

#[test]
fn g14_a_directory_that_a_host_program_renamed_keeps_its_name() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
    fs::rename(project.host("src"), project.host("source")).unwrap();
    merge_clean(&stead, "draft");
    assert_eq!(host_text(&project, "source/main.rs"), "one\n2\n3\n4\n5\n6\n7\n");
    assert!(!project.host("src").exists());
    assert_eq!(files(&stead, "/forks/draft"), files(&stead, "/code"));
    // The untouched part is live at its new place.
    fs::write(project.host("source/lib.rs"), "live\n").unwrap();
    assert_eq!(read(&stead, "/forks/draft/source/lib.rs"), "live\n");
}

#[test]
fn g17_a_directory_that_the_fork_renamed_stays_live_at_its_new_place() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    rename(&stead, "/forks/draft/src", "/forks/draft/source");
    fs::write(project.host("src/by-program"), "p\n").unwrap();
    let operation = merge_clean(&stead, "draft").operation.unwrap();
    assert_eq!(host_text(&project, "source/by-program"), "p\n");
    fs::write(project.host("source/later"), "l\n").unwrap();
    assert_eq!(read(&stead, "/forks/draft/source/later"), "l\n");
    // After an undo it is live where it was.
    stead.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
    assert_eq!(host_text(&project, "src/later"), "l\n");
    assert_eq!(read(&stead, "/forks/draft/source/later"), "l\n");
    merge_clean(&stead, "draft");
    assert_eq!(host_text(&project, "source/later"), "l\n");
}

#[test]
fn g21_a_program_makes_executable_what_the_fork_wrote() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/README.md", "fork\n");
    stead.vfs().write_with("/forks/draft/src/lib.rs", "a\nb\nc\n", &WriteOptions::new().mode(0o755)).unwrap();
    fs::set_permissions(project.host("README.md"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(project.host("src/lib.rs"), "host\n").unwrap();
    merge_clean(&stead, "draft");
    let mode = |path| fs::metadata(project.host(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("README.md"), mode("src/lib.rs")), (0o755, 0o755));
    assert_eq!(
        (&*host_text(&project, "README.md"), &*host_text(&project, "src/lib.rs")),
        ("fork\n", "host\n")
    );
}

#[test]
fn g19_g22_symlinks_are_taken_whole() {
    let project = Project::new(TargetStore::Physical);
    let stead = project.open("coder");
    write(&stead, "/code/a", "a\n");
    for link in ["one", "two", "three"] {
        symlink("a", project.host(link)).unwrap();
    }
    let stead = stead.fork("/code", "draft").unwrap();
    for link in ["one", "two", "three"] {
        remove(&stead, &format!("/forks/draft/{link}"));
        stead.vfs().symlink(&*format!("/forks/draft/{link}"), "b").unwrap();
    }
    let replace = |link: &str, target: &str| {
        fs::remove_file(project.host(link)).unwrap();
        symlink(target, project.host(link)).unwrap();
    };
    replace("two", "c");
    replace("three", "b");
    assert_eq!(kinds(&merge(&stead, "draft")), [("/code/two".to_owned(), "content")]);
    assert!(stead.merge_fork("draft", &options(vec![rule("two", MergeChoice::TakeFork)])).unwrap().done);
    for link in ["one", "two", "three"] {
        assert_eq!(fs::read_link(project.host(link)).unwrap(), PathBuf::from("b"), "{link}");
    }
}

/// Writes to a file each time that it is asked, as a program that doesn't wait for the merge.
#[derive(Debug)]
struct RacingProgram {
    file: PathBuf,
    writes: AtomicUsize,
}

const RACING_WRITES: usize = 5;

impl CallMonitor for RacingProgram {
    fn progress(&self, _: u64, _: Option<u64>) {}

    fn stop_reason(&self) -> Option<StopReason> {
        let write = self.writes.fetch_add(1, Ordering::Relaxed);
        if write < RACING_WRITES {
            fs::write(&self.file, format!("1\n2\n3\n4\n5\n6\nhost {write}\n")).unwrap();
        }
        None
    }
}

#[test]
fn g26_what_a_program_writes_between_planning_and_writing_is_never_overwritten() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
    write(&stead, "/forks/draft/README.md", "fork\n");
    // So that there are lines to be merged, which asks the monitor after the directory was read.
    fs::write(project.host("src/main.rs"), "1\n2\n3\n4\n5\n6\nhost\n").unwrap();
    let program = Arc::new(RacingProgram { file: project.host("src/main.rs"), writes: AtomicUsize::new(0) });
    let vfs = stead.vfs().with_monitor(Arc::clone(&program) as Arc<dyn CallMonitor>);
    let prefix = stead_core::VfsPath::parse("/forks/draft").unwrap();
    let workspace = stead.vfs().workspaces().find(|workspace| *workspace.prefix() == prefix).unwrap();
    let fork = ForkHandle { fork: stead.find_fork("draft").unwrap(), store: workspace.mount().store() };
    let result = vfs.merge_fork("/code", fork, &MergeOptions::default()).unwrap();
    assert!(result.done, "{:?}", kinds(&result));
    assert!(program.writes.load(Ordering::Relaxed) > RACING_WRITES, "every write has to come before the end");
    let merged = format!("one\n2\n3\n4\n5\n6\nhost {}\n", RACING_WRITES - 1);
    assert_eq!(host_text(&project, "src/main.rs"), merged);
    assert_eq!(host_text(&project, "README.md"), "fork\n");
    assert_eq!(read(&stead, "/forks/draft/src/main.rs"), merged);
}

#[test]
fn g28_after_a_merge_the_base_is_what_the_directory_has() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    let mut lines = ["1", "2", "3", "4", "5", "6", "7"];
    for (ours, theirs) in [("one", "seven"), ("eins", "sieben"), ("un", "sept")] {
        let text = |lines: &[&str]| lines.join("\n") + "\n";
        write(
            &stead,
            "/forks/draft/src/main.rs",
            &text(&{
                let mut fork = lines;
                fork[0] = ours;
                fork
            }),
        );
        fs::write(
            project.host("src/main.rs"),
            text(&{
                let mut host = lines;
                host[6] = theirs;
                host
            }),
        )
        .unwrap();
        merge_clean(&stead, "draft");
        (lines[0], lines[6]) = (ours, theirs);
        assert_eq!(host_text(&project, "src/main.rs"), text(&lines));
        assert_eq!(read(&stead, "/forks/draft/src/main.rs"), text(&lines));
        let again = merge_clean(&stead, "draft");
        assert!(again.operation.is_none() && again.changes.is_empty());
    }
    // A program's change after a merge is the target's change, not one to be taken back.
    fs::write(project.host("src/main.rs"), "program\n").unwrap();
    assert!(merge_clean(&stead, "draft").changes.is_empty());
    assert_eq!(host_text(&project, "src/main.rs"), "program\n");
}

#[test]
fn g28_what_a_program_adds_to_a_directory_of_the_fork_comes_with_an_update() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/made/by-fork", "f\n");
    merge_clean(&stead, "draft");
    fs::create_dir(project.host("made/sub")).unwrap();
    fs::write(project.host("made/sub/by-program"), "p\n").unwrap();
    assert!(update(&stead, "draft").conflicts.is_empty());
    assert_eq!(read(&stead, "/forks/draft/made/sub/by-program"), "p\n");
    assert!(merge_clean(&stead, "draft").changes.is_empty());
}

#[test]
fn g23_a_merge_with_a_programs_changes_is_undone_byte_for_byte_and_made_again() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
    rename(&stead, "/forks/draft/src/lib.rs", "/forks/draft/lib.rs");
    write(&stead, "/forks/draft/lib.rs", "a\nb\nc\nd\n");
    remove(&stead, "/forks/draft/README.md");
    write(&stead, "/forks/draft/new/file", "n\n");
    fs::write(project.host("src/main.rs"), "1\n2\n3\n4\n5\n6\nseven\n").unwrap();
    let (before, fork) = (files(&stead, "/code"), files(&stead, "/forks/draft"));
    let operation = merge_clean(&stead, "draft").operation.unwrap();
    let after = files(&stead, "/code");
    assert!(stead.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap().done);
    assert_eq!(files(&stead, "/code"), before);
    assert_eq!(files(&stead, "/forks/draft"), fork);
    merge_clean(&stead, "draft");
    assert_eq!(files(&stead, "/code"), after);
    assert_eq!(files(&stead, "/forks/draft"), after);
}

#[test]
fn g2_g28_a_pinned_fork_is_merged_with_the_snapshot_as_its_base() {
    let project = Project::new(TargetStore::Physical);
    let stead = project.open("coder");
    write(&stead, "/code/f", "1\n2\n3\n4\n5\n6\n7\n");
    write(&stead, "/code/gone", "g\n");
    let stead = stead.fork_pinned("/code", "draft").unwrap();
    // The program writes before the fork has changed the file.
    fs::write(project.host("f"), "1\n2\n3\n4\n5\n6\nseven\n").unwrap();
    write(&stead, "/forks/draft/f", "one\n2\n3\n4\n5\n6\n7\n");
    remove(&stead, "/forks/draft/gone");
    merge_clean(&stead, "draft");
    assert_eq!(host_text(&project, "f"), "one\n2\n3\n4\n5\n6\nseven\n");
    assert!(!project.host("gone").exists());
    assert_eq!(read(&stead, "/forks/draft/f"), "one\n2\n3\n4\n5\n6\nseven\n");
    assert!(merge_clean(&stead, "draft").changes.is_empty());
}

#[test]
fn g5_without_its_directory_a_fork_can_be_compared_and_not_merged() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    write(&stead, "/forks/draft/README.md", "fork\n");
    fs::remove_dir_all(project.host("")).unwrap();
    let error = stead.merge_fork("draft", &MergeOptions::default()).unwrap_err().to_string();
    assert!(!error.contains(HOST_DIRECTORY) && !error.contains("tmp"), "{error}");
    let differences = stead.diff_fork("draft", stead::vfs::DiffOptions::default()).unwrap();
    assert_eq!(differences.len(), 1);
}

#[test]
fn g23_the_database_is_whole_after_merges_of_a_directory() {
    let project = Project::new(TargetStore::Physical);
    let stead = forked(&project);
    rename(&stead, "/forks/draft/src", "/forks/draft/source");
    write(&stead, "/forks/draft/source/main.rs", "new\n");
    fs::write(project.host("README.md"), "host\n").unwrap();
    merge_clean(&stead, "draft");
    fs::rename(project.host("source"), project.host("again")).unwrap();
    update(&stead, "draft");
    let stores = stead::Stores::of(&project.config);
    for (name, report) in stores.verify(&mut |_, _| ()).unwrap() {
        assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
    }
    // What was found in the directory is no one's change, so the audit has no record of it, and misses none.
    let audit = stores.audit_access().unwrap().unwrap();
    let verified = audit.verify(&ArchiveLookup::default(), &mut |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    // With the fork, what was stored for it goes.
    drop(stead.discard("draft").unwrap());
    for (name, report) in stores.verify(&mut |_, _| ()).unwrap() {
        assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
    }
}

#[test]
fn g25_an_update_brings_what_programs_changed_since_the_snapshot_into_a_pinned_fork() {
    let project = Project::new(TargetStore::Physical);
    let host = |path: &str, text: &str| std::fs::write(project.host(path), text).unwrap();
    std::fs::create_dir_all(project.host("gone/deep")).unwrap();
    for path in ["same", "changed", "both", "removed", "gone/deep/file", "kind"] {
        host(path, "1\n2\n3\n4\n5\n");
    }
    let stead = project.open("coder").fork_pinned("/code", "pinned").unwrap();
    write(&stead, "/forks/pinned/both", "one\n2\n3\n4\n5\n");
    write(&stead, "/forks/pinned/own", "own\n");
    host("changed", "changed\n");
    host("both", "1\n2\n3\n4\nfive\n");
    std::fs::remove_file(project.host("removed")).unwrap();
    std::fs::remove_dir_all(project.host("gone")).unwrap();
    std::fs::remove_file(project.host("kind")).unwrap();
    std::fs::create_dir_all(project.host("kind/new")).unwrap();
    host("kind/new/file", "new\n");
    let before = files(&stead, "/forks/pinned");
    assert!(before.contains_key("/removed") && before.contains_key("/gone/deep/file"), "{before:?}");
    let result = update(&stead, "pinned");
    assert!(result.done && result.conflicts.is_empty(), "{:?}", kinds(&result));
    let mut expected = files(&stead, "/code");
    let both = expected.get_mut("/both").unwrap();
    both.1 = b"one\n2\n3\n4\nfive\n".to_vec();
    expected.insert("/own".to_owned(), (0o644, b"own\n".to_vec()));
    assert_eq!(files(&stead, "/forks/pinned"), expected);
    assert!(update(&stead, "pinned").operation.is_none(), "a second update has nothing to do");
    // The rest is still as it was in the snapshot, whatever happens after the update.
    host("same", "later\n");
    assert_eq!(read(&stead, "/forks/pinned/same"), "1\n2\n3\n4\n5\n");
    merge_clean(&stead, "pinned");
    assert_eq!(read(&stead, "/code/same"), "later\n");
    assert_eq!(read(&stead, "/code/both"), "one\n2\n3\n4\nfive\n");
    assert_eq!(read(&stead, "/code/own"), "own\n");
}
