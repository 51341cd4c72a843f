//! Open files: drafts, commits, other writers, and truncation under a kernel's reads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::store::{ChangeFeed, NodePath, StoreError, StorePath};

fn read_all(file: &OpenFile) -> String {
    let mut buffer = vec![0; usize::try_from(file.size()).unwrap()];
    assert_eq!(file.read_at(0, &mut buffer).unwrap(), buffer.len());
    String::from_utf8(buffer).unwrap()
}

#[test]
fn writes_become_one_change_at_sync_and_close() {
    let (vfs, store) = read_write_vfs();
    vfs.write("/a", "0123456789").unwrap();
    let cursor = store.changes_since(None, 0).unwrap().cursor;
    let file = vfs.open("/a", OpenOptions::read_write()).unwrap();
    let other = vfs.open("/a", OpenOptions::read()).unwrap();
    file.write_at(2, b"ab").unwrap();
    file.write_at(4, b"cd").unwrap();
    file.set_size(8).unwrap();
    assert_eq!(read_all(&other), "01abcd67");
    assert_eq!(text(&vfs, "/a"), "0123456789");
    assert!(store.changes_since(Some(cursor), 9).unwrap().changes.is_empty());
    file.sync().unwrap();
    assert_eq!(text(&vfs, "/a"), "01abcd67");
    assert_eq!(store.changes_since(Some(cursor), 9).unwrap().changes.len(), 1);
    file.write_at(0, b"X").unwrap();
    drop(file);
    assert_eq!(read_all(&other), "X1abcd67");
    drop(other);
    assert_eq!(text(&vfs, "/a"), "X1abcd67");
}

#[test]
fn an_open_file_outlives_its_name() {
    let (vfs, _) = read_write_vfs();
    vfs.write("/a", "old").unwrap();
    vfs.write("/b", "other").unwrap();
    let file = vfs.open("/a", OpenOptions::read_write()).unwrap();
    vfs.rename("/b", "/a", Overwrite::Replace).unwrap();
    file.write_at(3, b"er").unwrap();
    file.sync().unwrap();
    assert_eq!(read_all(&file), "older");
    assert_eq!(text(&vfs, "/a"), "other");
    file.close().unwrap();
    assert_eq!(text(&vfs, "/a"), "other");
    let file = vfs.open("/a", OpenOptions::read_write()).unwrap();
    vfs.rename("/a", "/c", Overwrite::Refuse).unwrap();
    file.write_at(0, b"OTHER").unwrap();
    file.close().unwrap();
    assert_eq!(text(&vfs, "/c"), "OTHER");
    assert!(!vfs.exists("/a").unwrap());
}

#[test]
fn opening_creates_truncates_and_enforces_its_mode() {
    let (vfs, _) = read_write_vfs();
    assert_eq!(kind(vfs.open("/a", OpenOptions::write())), ErrorKind::NotFound);
    let file = vfs.open("/a", OpenOptions::write().create()).unwrap();
    file.write_at(2, b"x").unwrap();
    assert_eq!(kind(file.read_at(0, &mut [0])), ErrorKind::Invalid);
    file.close().unwrap();
    assert_eq!(vfs.read("/a").unwrap().bytes, b"\0\0x");
    let file = vfs.open("/a", OpenOptions::read_write().truncate()).unwrap();
    assert_eq!(file.size(), 0);
    file.close().unwrap();
    assert_eq!(vfs.read("/a").unwrap().bytes, b"");
    assert_eq!(kind(vfs.open("/a", OpenOptions::read()).unwrap().write_at(0, b"x")), ErrorKind::Invalid);
    assert_eq!(kind(vfs.open("/a", OpenOptions::default())), ErrorKind::Invalid);
    assert_eq!(kind(vfs.open("/", OpenOptions::read())), ErrorKind::Invalid);
}

#[test]
fn writes_are_committed_when_the_last_two_handles_are_dropped_at_once() {
    let (vfs, _) = read_write_vfs();
    for round in 0..2_000 {
        vfs.write("/a", "..").unwrap();
        let [first, second] = [(); 2].map(|()| vfs.open("/a", OpenOptions::read_write()).unwrap());
        first.write_at(0, b"1").unwrap();
        second.write_at(1, b"2").unwrap();
        // Both threads spin, so that they drop their files within nanoseconds of each other.
        let ready = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for file in [first, second] {
                scope.spawn(|| {
                    ready.fetch_add(1, Ordering::AcqRel);
                    while ready.load(Ordering::Acquire) < 2 {
                        std::hint::spin_loop();
                    }
                    drop(file);
                });
            }
        });
        assert_eq!(text(&vfs, "/a"), "12", "round {round}");
    }
}

#[test]
fn a_concurrent_stat_does_not_prevent_the_commit_of_the_last_close() {
    let (vfs, store) = read_write_vfs();
    let store: Arc<dyn Store> = store;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = vfs.stat("/a");
                if let Ok(attr) = store.stat(&NodePath::from_root(StorePath::from_checked("a"))) {
                    let open_nodes = &vfs.shared.open_nodes;
                    open_nodes.overlay_attr(&store, attr, open_nodes.commit_mark());
                }
            }
        });
        for round in 0..5_000 {
            let file = vfs.open("/a", OpenOptions::write().create().truncate()).unwrap();
            file.write_at(0, round.to_string().as_bytes()).unwrap();
            drop(file);
            if text(&vfs, "/a") != round.to_string() {
                stop.store(true, Ordering::Relaxed);
                panic!("the write of round {round} is lost");
            }
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn writes_into_a_file_changed_by_another_stay_within_the_size_limit() {
    let (other_vfs, store) = read_write_vfs();
    other_vfs.write("/a", "12").unwrap();
    let limits = Limits { max_file_size: 4, ..Limits::default() };
    let builder = Vfs::builder(Identity::agent("tester")).limits(limits);
    let vfs = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
    let file = vfs.open("/a", OpenOptions::read_write()).unwrap();
    file.append(b"34").unwrap();
    other_vfs.append("/a", "xyz").unwrap();
    assert_eq!(kind(file.sync()), ErrorKind::TooLarge);
    assert_eq!(text(&other_vfs, "/a"), "12xyz");
    other_vfs.write("/a", "1").unwrap();
    file.sync().unwrap();
    assert_eq!(text(&other_vfs, "/a"), "134", "the written bytes have to wait for another attempt to commit");
}

/// Appends to an open file while another `Vfs` appends, with every Store call failing in turn: in the end, both appends
/// are there.
fn assert_committed_at_the_next_attempt(appended: &str) {
    let expected = format!("12xyz{appended}");
    let attempt = |fault: Fault| {
        let store = store_with(&[("/a", "12")]);
        let faulty = Arc::new(FaultyStore::new(store.clone(), fault));
        let mount = Mount::new(faulty.clone());
        let vfs = vfs_with([Workspace::new(path("/"), ReadWrite, mount)]);
        let Ok(file) = vfs.open("/a", OpenOptions::read_write()) else { return (faulty.calls(), None) };
        if file.append(appended.as_bytes()).is_err() {
            return (faulty.calls(), None);
        }
        vfs_with([workspace("/", ReadWrite, &store)]).append("/a", "xyz").unwrap();
        let first = file.sync();
        file.sync().unwrap();
        let content = text(&vfs_with([workspace("/", ReadWrite, &store)]), "/a");
        (faulty.calls(), Some((first.is_ok(), content)))
    };
    let (calls, outcome) = attempt(Fault::Never);
    assert!(outcome == Some((true, expected.clone())));
    let faults = (1..=calls).map(|call| (call, attempt(Fault::Before(call)).1));
    let failed: Vec<_> = faults.filter_map(|(call, outcome)| Some((call, outcome?))).collect();
    assert!(failed.iter().any(|(_, (is_ok, _))| !is_ok), "no attempt failed");
    for (call, (_, content)) in failed {
        assert!(content == expected, "call {call} failed, and {} bytes are there", content.len());
    }
}

#[test]
fn writes_are_committed_at_the_next_attempt_whatever_failed_first() {
    assert_committed_at_the_next_attempt("34");
}

#[test]
fn large_writes_are_committed_at_the_next_attempt_whatever_failed_first() {
    assert_committed_at_the_next_attempt(&"3456".repeat(1 << 19));
}

#[test]
fn truncated_bytes_can_be_read_until_the_reader_knows_of_the_truncation() {
    const PAGE: usize = 4096;
    let pages = |from: u8, to: u8| (from..to).flat_map(|page| [b'0' + page; PAGE]).collect::<Vec<u8>>();
    let (vfs, _) = read_write_vfs();
    vfs.write("/a", pages(0, 4)).unwrap();
    let file = vfs.open("/a", OpenOptions::read_write()).unwrap();
    let read = |page: usize, count: usize| {
        let mut buffer = vec![b'?'; count * PAGE];
        let read = file.read_with_cut_off((page * PAGE) as u64, &mut buffer).unwrap();
        buffer.truncate(read);
        buffer
    };
    file.cut_under_readers(0).unwrap();
    assert!(file.size() == 0 && read(0, 9) == pages(0, 4) && read(2, 1) == pages(2, 3));
    assert_eq!(file.forget_cut_off(), Some(0), "a part of the cut-off bytes was read");
    assert_eq!((file.forget_cut_off(), read(0, 1).len()), (None, 0));

    file.write_at(0, &pages(5, 8)).unwrap();
    let end = PAGE as u64 + 96;
    file.cut_under_readers(end).unwrap();
    assert_eq!(read(1, 1).len(), 96, "the page with the new end has to be readable up to the end");
    assert_eq!(file.forget_cut_off(), None);
    file.cut_under_readers(96).unwrap();
    file.sync().unwrap();
    let (last, zeros) = (&pages(5, 6)[..96], &[0; PAGE - 96][..]);
    assert!(
        read(0, 2) == [last, zeros, &pages(6, 7)[..96]].concat(),
        "cut-off bytes that were never committed have to be readable"
    );
    assert_eq!(file.forget_cut_off(), Some(96));

    vfs.write("/b", pages(0, 2)).unwrap();
    let file = vfs.open("/b", OpenOptions::read_write()).unwrap();
    file.cut_under_readers(0).unwrap();
    file.sync().unwrap();
    let mut buffer = vec![0; PAGE];
    file.read_with_cut_off(PAGE as u64, &mut buffer).unwrap();
    assert!(
        text(&vfs, "/b").is_empty() && buffer == pages(1, 2),
        "the cut-off bytes have to be readable after the cut is committed, too"
    );
    file.forget_cut_off();
    file.cut_under_readers(9).unwrap();
    assert_eq!((file.size(), file.forget_cut_off()), (9, None), "after an extension nothing is cut off");
}

#[test]
fn a_write_past_the_largest_offset_is_too_large() {
    let (vfs, _) = read_write_vfs();
    let file = vfs.open("/a", OpenOptions::write().create()).unwrap();
    let results = [file.write_some_at(u64::MAX, b"x").map(drop), file.write_at(u64::MAX, b"x")];
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error.store_error(), Some(StoreError::TooLarge { .. })), "{error}");
    }
}

#[test]
fn an_open_file_is_named_by_the_path_that_its_caller_used() {
    let (inbox, target) = (store_with(&[]), store_with(&[("/secret", "x")]));
    store_link(&inbox, "/link", "/rw/secret");
    let vfs = vfs_with([workspace("/wo", WriteOnly, &inbox), workspace("/rw", ReadWrite, &target)]);
    let file = vfs.open("/wo/link", OpenOptions::write().create()).unwrap();
    assert_eq!(*file.path(), path("/wo/link"));
    let error = file.read_at(0, &mut [0]).unwrap_err().to_string();
    assert_eq!(error, "`/wo/link` was not opened for reading");
    let error = file.read_with_cut_off(0, &mut [0]).unwrap_err().to_string();
    assert_eq!(error, "`/wo/link` was not opened for reading");
}
