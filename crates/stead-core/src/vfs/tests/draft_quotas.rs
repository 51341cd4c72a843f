//! Quotas limit what is written through open files, before it is committed.

use super::*;
use crate::store::{QuotaLimits, Usage};
use crate::vfs::node_api::NodeApi;

const TEN_BYTES: QuotaLimits = QuotaLimits { bytes: Some(10), files: None, file_bytes: None };

fn vfs_with_ten_bytes(store: &Arc<ModelStore>) -> Vfs {
    vfs_with([workspace("/w", ReadWrite, store).with_quota(TEN_BYTES)])
}

fn create(vfs: &Vfs, path: &str) -> OpenFile {
    vfs.open(path, OpenOptions::read_write().create()).unwrap()
}

fn usage(vfs: &Vfs) -> Usage {
    NodeApi::new(vfs).tightest_quota(&path("/w")).unwrap().unwrap().1
}

#[test]
fn a_write_over_the_quota_is_refused_and_earlier_writes_stay() {
    let store = Arc::new(ModelStore::new());
    let vfs = vfs_with_ten_bytes(&store);
    let file = create(&vfs, "/w/a");
    file.write_at(0, b"12345678").unwrap();
    assert_eq!(kind(file.write_at(8, b"901")), ErrorKind::Quota);
    assert_eq!(kind(file.append(b"901")), ErrorKind::Quota);
    assert_eq!(kind(file.set_size(11)), ErrorKind::Quota);
    assert_eq!(file.size(), 8);
    file.write_at(8, b"90").unwrap();
    file.write_at(0, b"over").unwrap();
    file.close().unwrap();
    assert_eq!(text(&vfs, "/w/a"), "over567890");
}

#[test]
fn a_partial_write_takes_what_fits_the_quota() {
    let store = Arc::new(ModelStore::new());
    let vfs = vfs_with_ten_bytes(&store);
    let file = create(&vfs, "/w/a");
    assert_eq!(file.write_some_at(0, b"1234567").unwrap(), 7);
    assert_eq!(file.write_some_at(5, b"xxxxxxxxx").unwrap(), 5);
    assert_eq!(kind(file.write_some_at(10, b"more")), ErrorKind::Quota);
    assert_eq!(kind(file.write_some_at(12, b"beyond")), ErrorKind::Quota);
    assert_eq!(file.write_some_at(8, b"yy").unwrap(), 2);
    file.close().unwrap();
    assert_eq!(text(&vfs, "/w/a"), "12345xxxyy");
}

#[test]
fn open_files_share_one_quota() {
    let store = Arc::new(ModelStore::new());
    let vfs = vfs_with_ten_bytes(&store);
    let (first, second) = (create(&vfs, "/w/one"), create(&vfs, "/w/two"));
    first.append(b"123456").unwrap();
    assert_eq!(kind(second.append(b"12345")), ErrorKind::Quota);
    second.append(b"1234").unwrap();
    assert_eq!(usage(&vfs).bytes, 10, "`df` has to count bytes that are not committed yet");
    // A tool's write can't use what an open file has reserved.
    assert_eq!(kind(vfs.write("/w/three", "1")), ErrorKind::Quota);
    vfs.write("/w/three", "").unwrap();
    first.close().unwrap();
    second.close().unwrap();
    assert_eq!((text(&vfs, "/w/one"), text(&vfs, "/w/two")), ("123456".into(), "1234".into()));
    assert_eq!(usage(&vfs).bytes, 10);
}

#[test]
fn truncated_closed_and_dropped_files_free_their_quota() {
    let store = Arc::new(ModelStore::new());
    let vfs = vfs_with_ten_bytes(&store);
    let (first, second) = (create(&vfs, "/w/one"), create(&vfs, "/w/two"));
    first.append(b"1234567890").unwrap();
    assert_eq!(kind(second.append(b"1")), ErrorKind::Quota);
    first.set_size(4).unwrap();
    second.append(b"123456").unwrap();
    first.sync().unwrap();
    assert_eq!(usage(&vfs).bytes, 10, "committed bytes have to be counted once");
    // A removed file uses its quota until it is closed.
    vfs.remove_file("/w/two", RemoveOptions::default()).unwrap();
    assert_eq!(kind(first.append(b"1")), ErrorKind::Quota);
    drop(second);
    assert_eq!(usage(&vfs).bytes, 4);
    first.append(b"567890").unwrap();
}

#[test]
fn overwriting_an_open_file_counts_the_difference() {
    let store = Arc::new(ModelStore::new());
    let vfs = vfs_with_ten_bytes(&store);
    vfs.write("/w/a", "1234567890").unwrap();
    let file = vfs.open("/w/a", OpenOptions::write().truncate()).unwrap();
    file.append(b"0987654321").unwrap();
    assert_eq!(kind(file.append(b"x")), ErrorKind::Quota);
    file.close().unwrap();
    assert_eq!(text(&vfs, "/w/a"), "0987654321");
}

#[test]
fn usage_by_others_is_counted() {
    let store = Arc::new(ModelStore::new());
    let vfs = vfs_with_ten_bytes(&store);
    let file = create(&vfs, "/w/a");
    file.append(b"12").unwrap();
    let other_vfs = vfs_with([workspace("/", ReadWrite, &store)]);
    other_vfs.write("/b", "1234567").unwrap();
    assert_eq!(kind(file.append(b"345678")), ErrorKind::Quota);
    other_vfs.write("/b", "12").unwrap();
    file.append(b"345678").unwrap();
    file.close().unwrap();
    assert_eq!(text(&vfs, "/w/a"), "12345678");
}

#[test]
fn the_stead_and_single_files_have_limits_too() {
    let (store, other) = (Arc::new(ModelStore::new()), Arc::new(ModelStore::new()));
    let limits = QuotaLimits { file_bytes: Some(8), ..TEN_BYTES };
    let vfs = Vfs::builder(Identity::agent("tester")).quota(limits);
    let vfs = vfs.workspace(workspace("/w", ReadWrite, &store));
    let vfs = vfs.workspace(workspace("/x", ReadWrite, &other)).build().unwrap();
    let (first, second) = (create(&vfs, "/w/a"), create(&vfs, "/x/a"));
    assert_eq!(kind(first.append(b"123456789")), ErrorKind::Quota);
    first.append(b"12345678").unwrap();
    assert_eq!(kind(second.append(b"123")), ErrorKind::Quota);
    second.append(b"12").unwrap();
}

#[test]
fn usage_is_not_revealed_in_a_write_only_workspace() {
    let store = Arc::new(ModelStore::new());
    let vfs = vfs_with([workspace("/w", WriteOnly, &store).with_quota(TEN_BYTES)]);
    let file = vfs.open("/w/a", OpenOptions::write().create()).unwrap();
    file.append(b"1234567").unwrap();
    let error = file.append(b"89012").unwrap_err().to_string();
    assert!(error.contains("at most 10 bytes are allowed") && !error.contains('7'), "{error}");
}

#[test]
fn open_files_written_concurrently_all_become_changes() {
    let store = Arc::new(ModelStore::new());
    let limits = QuotaLimits { bytes: Some(1000), ..QuotaLimits::default() };
    let vfs = vfs_with([workspace("/w", ReadWrite, &store).with_quota(limits)]);
    let written: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let vfs = &vfs;
                scope.spawn(move || {
                    let file = create(vfs, &format!("/w/{writer}"));
                    let mut written = 0;
                    for _ in 0..300 {
                        written += file.append(b"x").map_or(0, |_| 1);
                        file.sync().unwrap();
                    }
                    file.close().unwrap();
                    written
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(written, 1000, "exactly the bytes that fit into the quota have to be written");
    assert_eq!(usage(&vfs).bytes, 1000);
}
