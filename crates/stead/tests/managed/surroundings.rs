//! Managed Workspaces in threads, with quotas, and at earlier versions.

use std::sync::Arc;
use std::time::Duration;

use stead::managed::{CleanupRun, TagMode};
use stead::vfs::RemoveOptions;
use stead::{Clock, ErrorKind, Identity, SystemClock};
use stead_core::clock::FixedClock;

use super::*;

/// What the hygiene cycle does in a number of days.
fn clean_in(host: &Host, days: u64) -> Vec<CleanupRun> {
    let later = FixedClock::at(SystemClock.now());
    later.advance(Duration::from_secs(days * 86_400));
    let (stores, clock): (_, Arc<dyn Clock>) = (host.stores(), Arc::new(later));
    stores
        .managed_directories()
        .iter()
        .map(|directory| stores.clean_managed(directory, &clock).unwrap())
        .collect()
}

fn in_thread(host: &Host, thread: &str) -> Stead {
    Stead::open_in(&host.stores(), &Identity::agent("a").with_thread(thread)).unwrap()
}

#[test]
fn w32_each_thread_has_a_manifest_of_its_own_with_its_session() {
    let agent = "[agents.a]\nscope = \"thread\"\n";
    Host::each(&format!("{agent}{AGENT}"), |host| {
        let (one, two) = (in_thread(host, "one"), in_thread(host, "two"));
        let path = write(&one, "/w/plan.md", "x");
        assert!(path.starts_with("/w/documents/20"), "{path}");
        tag(&one, "/w", &path, TagMode::Add, "mine");
        assert_eq!(tagged(&one, "/w"), ["plan.md mine"]);
        assert_eq!(tagged(&two, "/w"), Vec::<String>::new());
        assert_eq!(host.query("SELECT session_key FROM workspace_files"), ["a/one"]);
        assert!(clean_in(host, 400).is_empty(), "the files of a thread are removed with the thread");
        drop((one, two));
        host.stores().threads().destroy(&stead::ThreadKey::new("a", "one")).unwrap();
        assert!(
            host.query("SELECT path FROM workspace_files").is_empty(),
            "the rows are gone with the thread"
        );
    });
}

#[test]
fn w90_the_files_of_a_thread_that_is_in_use_are_left_alone() {
    let agent = "[agents.a]\nscope = \"thread\"\n";
    let shared = AGENT.replace("managed = true", "managed = true\nper = \"agent\"");
    Host::each(&format!("{agent}{shared}"), |host| {
        let busy = in_thread(host, "busy");
        let idle = in_thread(host, "idle");
        write(&busy, "/w/busy", "x");
        write(&idle, "/w/idle", "x");
        drop(idle);
        let removed = |runs: Vec<CleanupRun>| runs.iter().map(|run| run.removed).sum::<u64>();
        assert_eq!(removed(clean_in(host, 8)), 1);
        assert_eq!(host.query("SELECT original_name FROM workspace_files"), ["busy"]);
        drop(busy);
        assert_eq!(removed(clean_in(host, 8)), 1, "the thread isn't in use any more");
    });
}

#[test]
fn w35_a_write_that_a_quota_refuses_registers_nothing() {
    let agent = format!("{AGENT}quota = {{ files = 2, bytes = \"100B\" }}\n");
    Host::each(&agent, |host| {
        let stead = host.open("a");
        let path = write(&stead, "/w/one.md", "four");
        let refused = |result: Result<_, stead::VfsError>| {
            assert_eq!(result.map(drop).unwrap_err().kind(), ErrorKind::Quota);
        };
        refused(stead.vfs().write("/w/big.md", "x".repeat(200)));
        refused(stead.vfs().write(&*path, "x".repeat(200)));
        refused(stead.vfs().append(&*path, "x".repeat(200)));
        write(&stead, "/w/two.md", "x");
        refused(stead.vfs().write("/w/three.md", "x"));
        let rows = "SELECT original_name || ' ' || size_bytes FROM workspace_files ORDER BY id";
        assert_eq!(host.query(rows), ["one.md 4", "two.md 1"]);
        assert!(files(&stead, "/w").sync().unwrap().counts.is_empty());
    });
}

#[test]
fn w92_a_stead_at_an_earlier_snapshot_shows_the_manifest_as_it_was() {
    Host::each(AGENT, |host| {
        let stead = host.open("a");
        let (kept, gone) = (write(&stead, "/w/kept.md", "1"), write(&stead, "/w/gone.md", "22"));
        tag(&stead, "/w", &kept, TagMode::Add, "early");
        let before = stead.snapshot(None, Some("before")).unwrap();
        tag(&stead, "/w", &kept, TagMode::Add, "late");
        stead.vfs().remove_file(&*gone, RemoveOptions::default()).unwrap();
        write(&stead, "/w/new.md", "333");
        let past = stead.as_of(stead.snapshot_revisions(&before).unwrap()).unwrap();
        assert_eq!(tagged(&past, "/w"), ["gone.md ", "kept.md early"]);
        assert_eq!(tagged(&stead, "/w"), ["kept.md early,late", "new.md "]);
        assert!(files(&past, "/w").delete(&*gone).is_err());
        assert!(files(&past, "/w").info(&*gone).unwrap().file.size == 2);
    });
}
