//! Quotas of a stead and of its Workspaces.

use super::*;
use crate::store::QuotaLimits;

/// A `Vfs` with two Workspaces in one Store and one in another, and 10 bytes for all of them together.
fn with_ten_bytes() -> Vfs {
    let (store, other) = (Arc::new(ModelStore::new()), Arc::new(ModelStore::new()));
    let setup = vfs_with([workspace("/", ReadWrite, &store)]);
    setup.mkdir("/one", Parents::Create).unwrap();
    setup.mkdir("/two", Parents::Create).unwrap();
    let workspace_at = |prefix: &str, mount_path: &str| {
        Workspace::new(path(prefix), ReadWrite, Mount::at(store.clone(), &path(mount_path)))
    };
    let workspaces =
        [workspace_at("/one", "/one"), workspace_at("/two", "/two"), workspace("/other", ReadWrite, &other)];
    let limits = QuotaLimits { bytes: Some(10), ..QuotaLimits::default() };
    let builder = Vfs::builder(Identity::agent("tester")).quota(limits);
    workspaces.into_iter().fold(builder, VfsBuilder::workspace).build().unwrap()
}

#[test]
fn a_stead_has_one_quota_over_all_its_workspaces() {
    let vfs = with_ten_bytes();
    vfs.write("/one/a", "1234").unwrap();
    vfs.write("/two/a", "123").unwrap();
    vfs.write("/other/a", "123").unwrap();
    for path in ["/one/b", "/two/b", "/other/b"] {
        assert_eq!(kind(vfs.write(path, "1")), ErrorKind::Quota, "{path}");
    }
}

#[test]
fn a_move_between_workspaces_of_a_stead_uses_no_extra_quota() {
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
fn a_quota_error_names_the_destination() {
    let vfs = with_ten_bytes();
    vfs.write("/one/a", "123456").unwrap();
    for to in ["/one/b", "/two/b", "/other/b"] {
        let error = vfs.copy("/one/a", to, Overwrite::Refuse).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{to}` was not written: this would use 12 bytes")), "{error}");
    }
}

#[test]
fn an_edit_is_checked_against_the_quota_before_memory_is_allocated() {
    let store = Arc::new(ModelStore::new());
    let new = "z".repeat(1 << 20);
    let edit_error = |vfs: &Vfs| {
        vfs.write("/w/a", vec![b'y'; 1 << 20]).unwrap();
        vfs.edit("/w/a", "y", &new, Occurrences::All).unwrap_err()
    };
    for limits in [
        QuotaLimits { file_bytes: Some(2 << 20), ..QuotaLimits::default() },
        QuotaLimits { bytes: Some(4 << 20), ..QuotaLimits::default() },
    ] {
        let with_workspace_quota = vfs_with([workspace("/w", ReadWrite, &store).with_quota(limits)]);
        assert_eq!(edit_error(&with_workspace_quota).kind(), ErrorKind::Quota);
        let with_stead_quota = Vfs::builder(Identity::agent("tester")).quota(limits);
        let with_stead_quota =
            with_stead_quota.workspace(workspace("/w", ReadWrite, &store)).build().unwrap();
        assert_eq!(edit_error(&with_stead_quota).kind(), ErrorKind::Quota);
    }
    let limits = QuotaLimits { file_bytes: Some(2 << 20), ..QuotaLimits::default() };
    let write_only = vfs_with([workspace("/w", WriteOnly, &store).with_quota(limits)]);
    let error = write_only.append("/w/a", vec![b'y'; 2 << 20]).unwrap_err();
    assert_eq!(error.to_string(), "`/w/a` would be too large; at most 2097152 bytes are allowed");
    let limits = Limits { max_file_size: 2 << 20, ..Limits::default() };
    let with_size_limit = Vfs::builder(Identity::agent("tester")).limits(limits);
    let with_size_limit = with_size_limit.workspace(workspace("/w", ReadWrite, &store)).build().unwrap();
    assert!(edit_error(&with_size_limit).to_string().ends_with("at most 2097152 are allowed"));
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
