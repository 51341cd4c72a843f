//! Quotas of a stead and of its Workspaces.

use super::*;
use crate::store::QuotaLimits;

/// A `Vfs` with two Workspaces in one Store and one in another, and 10 bytes for all of them together.
fn with_ten_bytes() -> Vfs {
    let (store, other) = (Arc::new(ModelStore::new()), Arc::new(ModelStore::new()));
    let open = door([workspace("/", ReadWrite, &store)]);
    open.mkdir("/one", Parents::Create).unwrap();
    open.mkdir("/two", Parents::Create).unwrap();
    let place = |prefix: &str, below: &str| {
        Workspace::new(path(prefix), ReadWrite, Mount::at(store.clone(), &path(below)))
    };
    let workspaces = [place("/one", "/one"), place("/two", "/two"), workspace("/other", ReadWrite, &other)];
    let limits = QuotaLimits { bytes: Some(10), ..QuotaLimits::default() };
    let builder = Vfs::builder(Identity::agent("tester")).quota(limits);
    workspaces.into_iter().fold(builder, VfsBuilder::workspace).build().unwrap()
}

#[test]
fn a_stead_has_one_quota_wherever_its_places_are() {
    let vfs = with_ten_bytes();
    vfs.write("/one/a", "1234").unwrap();
    vfs.write("/two/a", "123").unwrap();
    vfs.write("/other/a", "123").unwrap();
    for path in ["/one/b", "/two/b", "/other/b"] {
        assert_eq!(kind(vfs.write(path, "1")), ErrorKind::Quota, "{path}");
    }
}

#[test]
fn a_move_between_places_of_a_stead_takes_nothing_more() {
    let vfs = with_ten_bytes();
    vfs.write("/one/a", "1234567890").unwrap();
    vfs.rename("/one/a", "/two/a", Overwrite::Refuse).unwrap();
    vfs.rename("/two/a", "/other/a", Overwrite::Refuse).unwrap();
    vfs.rename("/other/a", "/one/d/a", Overwrite::Refuse).unwrap();
    vfs.rename("/one/d", "/other/d", Overwrite::Refuse).unwrap();
    assert_eq!(text(&vfs, "/other/d/a"), "1234567890");
    assert_eq!(kind(vfs.write("/two/b", "1")), ErrorKind::Quota);
}

#[test]
fn what_does_not_fit_is_said_of_where_it_was_to_go() {
    let vfs = with_ten_bytes();
    vfs.write("/one/a", "123456").unwrap();
    for to in ["/one/b", "/two/b", "/other/b"] {
        let error = vfs.copy("/one/a", to, Overwrite::Refuse).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{to}` was not written: this would use 12 bytes")), "{error}");
    }
}

#[test]
fn an_edit_is_judged_by_the_quota_before_memory_is_taken() {
    let store = Arc::new(ModelStore::new());
    let new = "z".repeat(1 << 20);
    let refused = |vfs: &Vfs| {
        vfs.write("/w/a", vec![b'y'; 1 << 20]).unwrap();
        vfs.edit("/w/a", "y", &new, Occurrences::All).unwrap_err()
    };
    for limits in [
        QuotaLimits { file_bytes: Some(2 << 20), ..QuotaLimits::default() },
        QuotaLimits { bytes: Some(4 << 20), ..QuotaLimits::default() },
    ] {
        let own = door([workspace("/w", ReadWrite, &store).with_quota(limits)]);
        assert_eq!(refused(&own).kind(), ErrorKind::Quota);
        let whole = Vfs::builder(Identity::agent("tester")).quota(limits);
        let whole = whole.workspace(workspace("/w", ReadWrite, &store)).build().unwrap();
        assert_eq!(refused(&whole).kind(), ErrorKind::Quota);
    }
    let limits = QuotaLimits { file_bytes: Some(2 << 20), ..QuotaLimits::default() };
    let blind = door([workspace("/w", WriteOnly, &store).with_quota(limits)]);
    let large = blind.append("/w/a", vec![b'y'; 2 << 20]).unwrap_err();
    assert_eq!(large.to_string(), "`/w/a` would be too large; at most 2097152 bytes are allowed");
    let limits = Limits { max_file_size: 2 << 20, ..Limits::default() };
    let narrow = Vfs::builder(Identity::agent("tester")).limits(limits);
    let narrow = narrow.workspace(workspace("/w", ReadWrite, &store)).build().unwrap();
    assert!(refused(&narrow).to_string().ends_with("at most 2097152 are allowed"));
}

#[test]
fn many_workspaces_with_quotas_cost_little_to_build_and_to_change() {
    // Quadratic work on so many would take minutes in a debug build.
    const COUNT: usize = 20_000;
    let (store, other) = (Arc::new(ModelStore::new()), Arc::new(ModelStore::new()));
    let limits = QuotaLimits { bytes: Some(10), ..QuotaLimits::default() };
    let workspaces = (0..COUNT).map(|number| {
        let prefix = path(&format!("/all/w{number}"));
        let mount = if number == 7 { Mount::new(other.clone()) } else { Mount::at(store.clone(), &prefix) };
        let scope = if number % 2 == 0 { WriteOnly } else { ReadWrite };
        Workspace::new(prefix, scope, mount).with_quota(limits)
    });
    let began = std::time::Instant::now();
    let builder = Vfs::builder(Identity::agent("tester")).quota(limits);
    let builder = builder.workspace(Workspace::new(path("/all"), ReadWrite, Mount::new(store.clone())));
    let vfs = workspaces.fold(builder, VfsBuilder::workspace).build().unwrap();
    vfs.write("/all/w7/a", "123456").unwrap();
    for number in [8, 9] {
        let refused = vfs.write(format!("/all/w{number}/a"), "12345").unwrap_err().to_string();
        // The stead's quota counts what is in WRITE_ONLY Workspaces.
        assert!(refused.contains("10 bytes") && !refused.contains("11 bytes"), "{refused}");
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}
