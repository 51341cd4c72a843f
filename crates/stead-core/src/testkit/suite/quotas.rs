//! Quotas: every change under a quota root counts, by any caller, and the limit is never exceeded.

use super::subject::{Subject, at, change, mkdir, remove, rename, write};
use crate::error::ErrorKind;
use crate::store::{
    Applied, Change, Content, DisplacedContent, Parents, PutOptions, QuotaLimits, QuotaRoot, Replace,
    RevisionQuery, Step, StoreError, StorePath, StoreResult, Subtree, Usage,
};

fn quota_root(path: &str, bytes: Option<u64>, files: Option<u64>) -> QuotaRoot {
    let limits = QuotaLimits { bytes, files, file_bytes: None };
    QuotaRoot::new(StorePath::from_checked(path), limits)
}

fn apply_under(t: &Subject, quotas: &[QuotaRoot], steps: Vec<Step>) -> StoreResult<Applied> {
    t.store.apply(Change { quotas: quotas.to_vec(), ..change(steps) })
}

#[track_caller]
fn assert_usage(t: &Subject, path: &str, bytes: u64, files: u64) {
    let usage = t.store.usage(&StorePath::from_checked(path)).unwrap();
    assert_eq!(usage, Usage { bytes, files }, "below `{path}`");
}

pub fn usage_counts_files_and_their_bytes(t: &Subject) {
    assert_usage(t, "", 0, 0);
    assert_usage(t, "not/there", 0, 0);
    t.write("a/one", "12345");
    t.write("a/b/two", "123");
    t.link("a/link", "one");
    assert_usage(t, "", 8, 3);
    assert_usage(t, "a", 8, 3);
    assert_usage(t, "a/b", 3, 1);
}

pub fn a_quota_may_be_reached_but_not_exceeded(t: &Subject) {
    let quota = [quota_root("w", Some(10), None)];
    t.mkdir("w");
    apply_under(t, &quota, vec![write("w/a", "1234567890")]).unwrap();
    let error = t.assert_unchanged(|| apply_under(t, &quota, vec![write("w/b", "1")])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Quota);
    assert!(matches!(error, StoreError::OverQuota { used: 10, wanted: 11, allowed: 10, .. }), "{error:?}");
    // The quota doesn't limit other directories.
    apply_under(t, &quota, vec![write("x", "1234567890123")]).unwrap();
    assert_usage(t, "w", 10, 1);
}

pub fn an_overwrite_counts_the_difference(t: &Subject) {
    let quota = [quota_root("w", Some(10), Some(1))];
    t.mkdir("w");
    apply_under(t, &quota, vec![write("w/a", "1234567890")]).unwrap();
    apply_under(t, &quota, vec![write("w/a", "0987654321")]).unwrap();
    apply_under(t, &quota, vec![write("w/a", "12")]).unwrap();
    assert_usage(t, "w", 2, 1);
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![write("w/a", "12345678901")])).is_err());
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![write("w/b", "")])).is_err());
}

pub fn a_quota_counts_existing_files(t: &Subject) {
    t.write("w/old", "12345678");
    let quota = [quota_root("w", Some(10), None)];
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![write("w/new", "123")])).is_err());
    apply_under(t, &quota, vec![write("w/new", "12")]).unwrap();
    assert_usage(t, "w", 10, 2);
}

pub fn a_quota_applies_to_a_directory_that_is_created_later(t: &Subject) {
    let quota = [quota_root("not/yet", Some(4), None)];
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![write("not/yet/a", "12345")])).is_err());
    apply_under(t, &quota, vec![write("not/yet/a", "1234")]).unwrap();
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![write("not/yet/b", "1")])).is_err());
}

pub fn a_quota_counts_changes_made_without_it(t: &Subject) {
    let quota = [quota_root("w", Some(10), None)];
    apply_under(t, &quota, vec![write("w/a", "12345")]).unwrap();
    t.write("w/deep/b", "1234");
    assert_usage(t, "w", 9, 2);
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![write("w/c", "12")])).is_err());
    t.remove("w/deep");
    apply_under(t, &quota, vec![write("w/c", "12")]).unwrap();
    assert_usage(t, "w", 7, 2);
}

pub fn moved_and_copied_files_count_at_their_destination(t: &Subject) {
    let quota = [quota_root("w", Some(10), None)];
    apply_under(t, &quota, vec![mkdir("w")]).unwrap();
    t.write("big/a", "123456");
    t.write("big/b/c", "123456");
    let rename_step = |from: &str, to: &str| rename(from, to, Replace::Refuse);
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![rename_step("big", "w/big")])).is_err());
    let copy = |from: &str, to: &str| Step::Copy {
        from: at(from),
        to: at(to),
        replace: Replace::Refuse,
        parents: Parents::Create,
        protected: None,
        displaced: DisplacedContent::Keep,
    };
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![copy("big", "w/big")])).is_err());
    apply_under(t, &quota, vec![copy("big/b", "w/b")]).unwrap();
    assert_usage(t, "w", 6, 1);
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![rename_step("big/b", "w/b2")])).is_err());
    apply_under(t, &quota, vec![rename_step("w/b", "away")]).unwrap();
    assert_usage(t, "w", 0, 0);
    apply_under(t, &quota, vec![rename_step("big/b", "w/b2")]).unwrap();
    assert_usage(t, "w", 6, 1);
    assert_usage(t, "", 18, 3);
}

pub fn the_steps_of_a_change_count_together(t: &Subject) {
    let quota = [quota_root("w", Some(10), None)];
    apply_under(t, &quota, vec![write("w/a", "1234567890")]).unwrap();
    // The second step fits only because the first one removes a file.
    apply_under(t, &quota, vec![remove("w/a", Subtree::File), write("w/b", "0987654321")]).unwrap();
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![write("x", ""), write("w/c", "1")])).is_err());
    assert_usage(t, "w", 10, 1);
}

pub fn the_size_of_one_file_is_limited(t: &Subject) {
    let limits = QuotaLimits { file_bytes: Some(5), ..QuotaLimits::default() };
    let quota = [QuotaRoot { limits, ..quota_root("w", None, None) }];
    apply_under(t, &quota, vec![write("w/a", "12345")]).unwrap();
    let error = t.assert_unchanged(|| apply_under(t, &quota, vec![write("w/b", "123456")])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Quota);
    // The limit doesn't apply outside the quota root.
    apply_under(t, &quota, vec![write("b", "123456")]).unwrap();
    let rename_step = rename("b", "w/b", Replace::Refuse);
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![rename_step])).is_err());
}

pub fn an_existing_file_may_be_renamed_whatever_its_size(t: &Subject) {
    t.write("w/a", "123456");
    t.write("w/d/a", "123456");
    let limits = QuotaLimits { file_bytes: Some(5), ..QuotaLimits::default() };
    let quota = [QuotaRoot { limits, ..quota_root("w", None, None) }];
    apply_under(t, &quota, vec![rename("w/a", "w/b", Replace::Refuse)]).unwrap();
    apply_under(t, &quota, vec![rename("w/d", "w/e", Replace::Refuse)]).unwrap();
    assert_eq!(t.read("w/e/a"), t.read("w/b"));
}

pub fn a_removed_file_may_be_restored_whatever_its_size(t: &Subject) {
    if !t.store.history().is_some_and(|history| history.retains_content()) {
        return;
    }
    t.write("w/a", "123456");
    let limits = QuotaLimits { file_bytes: Some(5), ..QuotaLimits::default() };
    let quota = [QuotaRoot { limits, ..quota_root("w", None, None) }];
    apply_under(t, &quota, vec![remove("w/a", Subtree::File)]).unwrap();
    let query = RevisionQuery { limit: 1, ..RevisionQuery::all() };
    let mut removal = t.history().revisions(&query).unwrap().revisions.remove(0);
    let content = removal
        .changes
        .remove(0)
        .before
        .and_then(|state| state.content.clone())
        .expect("the content was retained");
    let restore_step = |path: &str| Step::Write {
        at: at(path),
        content: Content::Stored(content.clone()),
        options: PutOptions::default(),
    };
    apply_under(t, &quota, vec![restore_step("w/a")]).unwrap();
    assert_eq!(t.read("w/a"), b"123456");
    let longer = Step::Append {
        at: at("w/a"),
        content: Content::Stored(content.clone()),
        options: PutOptions::default(),
    };
    assert!(
        t.assert_unchanged(|| apply_under(t, &quota, vec![longer])).is_err(),
        "content that never existed has to count"
    );
    // The limit on the total still applies.
    let quota = [quota_root("w", Some(10), None)];
    assert!(t.assert_unchanged(|| apply_under(t, &quota, vec![restore_step("w/b")])).is_err());
}

pub fn several_roots_count_together(t: &Subject) {
    let shared_root =
        QuotaRoot { other_roots: vec![StorePath::from_checked("x")], ..quota_root("w", Some(10), Some(2)) };
    let quota = std::slice::from_ref(&shared_root);
    t.mkdir("w");
    t.mkdir("x");
    apply_under(t, quota, vec![write("w/a", "123456")]).unwrap();
    apply_under(t, quota, vec![write("x/b", "1234")]).unwrap();
    for path in ["w/c", "x/c"] {
        assert!(t.assert_unchanged(|| apply_under(t, quota, vec![write(path, "")])).is_err());
    }
    let error = t.assert_unchanged(|| apply_under(t, quota, vec![write("x/b", "12345")])).unwrap_err();
    assert!(matches!(error, StoreError::OverQuota { used: 10, wanted: 11, .. }), "{error:?}");
    apply_under(t, quota, vec![rename("w/a", "x/a", Replace::Refuse)]).unwrap();
    let limits = QuotaLimits { file_bytes: Some(5), ..shared_root.limits };
    let narrower = [QuotaRoot { limits, ..shared_root.clone() }];
    apply_under(t, &narrower, vec![rename("x/a", "w/a", Replace::Refuse)]).unwrap();
    assert_usage(t, "w", 6, 1);
    assert_usage(t, "x", 4, 1);
}

pub fn quotas_may_be_nested(t: &Subject) {
    let (outer, inner) = (quota_root("w", Some(10), None), quota_root("w/in", Some(6), None));
    apply_under(t, &[outer.clone(), inner.clone()], vec![write("w/in/a", "123456")]).unwrap();
    assert!(
        t.assert_unchanged(|| apply_under(t, std::slice::from_ref(&inner), vec![write("w/in/b", "1")]))
            .is_err()
    );
    assert!(
        t.assert_unchanged(|| apply_under(t, std::slice::from_ref(&outer), vec![write("w/b", "12345")]))
            .is_err()
    );
    apply_under(t, &[outer], vec![write("w/b", "1234")]).unwrap();
    assert_usage(t, "w", 10, 2);
    assert_usage(t, "w/in", 6, 1);
    t.remove("w/in");
    assert_usage(t, "w", 4, 1);
}

pub fn concurrent_writers_do_not_exceed_a_quota(t: &Subject) {
    let quota = [quota_root("w", Some(100), None)];
    t.mkdir("w");
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let quota = &quota;
                scope.spawn(move || {
                    (0..10)
                        .filter(|n| {
                            apply_under(t, quota, vec![write(&format!("w/{writer}-{n}"), "12345")]).is_ok()
                        })
                        .count()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum::<usize>()
    });
    assert_eq!(written, 20);
    assert_usage(t, "w", 100, 20);
}
