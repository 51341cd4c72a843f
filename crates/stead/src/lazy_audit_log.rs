//! The audit log of a configuration, opened when the first record is written.
//!
//! A server's first answer needs no record, so it doesn't wait for the log. No later call is made without its record:
//! if the log can't be opened, the call fails.

use std::sync::{Arc, OnceLock};

use stead_core::store::{DatabaseId, StoreError, StoreResult};
use stead_core::{AuditLog, AuditRecord, ErrorKind};
use stead_stores::Audit;

use crate::error::{Error, Result};
use crate::stores::StoreOpener;

/// The function that receives messages for the operator of this process.
static OPERATOR_NOTIFIER: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that receives messages for the operator of this process, which no caller asks for: that the audit
/// was found damaged or incomplete when it was opened. Only the first call has an effect.
pub fn set_operator_notifier(notify: fn(&str)) {
    // Later calls are ignored, as documented.
    let _ = OPERATOR_NOTIFIER.set(notify);
}

/// Reports to the operator what was found wrong when the audit log was opened.
pub(crate) fn notify_audit_problems(problems: &[String]) {
    let Some(notify) = OPERATOR_NOTIFIER.get() else { return };
    for problem in problems {
        notify(&format!("the audit is damaged or incomplete: {problem}; run `stead audit verify`"));
    }
}

/// An audit log that may not be open yet.
#[derive(Debug)]
pub(crate) struct LazyAuditLog {
    opener: Arc<StoreOpener>,
}

impl LazyAuditLog {
    /// The log that `opener` opens.
    pub(crate) fn new(opener: Arc<StoreOpener>) -> Self {
        LazyAuditLog { opener }
    }

    fn log(&self) -> StoreResult<&Arc<Audit>> {
        to_store_result(self.opener.audit())
    }
}

/// Turns a failure to open the log into the error that a caller gets. It leaves out how to turn the audit off: that is
/// for the operator, not for an agent.
fn to_store_result<T>(opened: Result<Option<T>>) -> StoreResult<T> {
    let to_store_error = |cause: &Error| match cause {
        // A full disk is `NoSpace` here as everywhere else.
        Error::Store(StoreError::NoSpace) => StoreError::NoSpace,
        cause if cause.kind() == ErrorKind::Quota => StoreError::NoSpace,
        cause => StoreError::unavailable(format_args!("the audit can't be opened: {cause}")),
    };
    match opened {
        Ok(log) => Ok(log.expect("a LazyAuditLog exists only if the audit is enabled")),
        Err(Error::OpenAudit { cause }) => Err(to_store_error(&cause)),
        Err(other) => Err(to_store_error(&other)),
    }
}

impl AuditLog for LazyAuditLog {
    fn database(&self) -> DatabaseId {
        self.opener.database_id
    }

    /// If this process may only read the database, reads go on without a record: no record can be written, and
    /// `announce` refuses every change.
    fn append(&self, record: &AuditRecord) -> StoreResult<()> {
        if self.opener.is_read_only() {
            return Ok(());
        }
        self.log()?.append(record)
    }

    fn announce(&self, record: &AuditRecord) -> StoreResult<()> {
        if self.opener.is_read_only() {
            return Err(StoreError::HostDenied);
        }
        self.log()?.announce(record)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use stead_core::ErrorKind;

    use crate::{Config, Identity, Stead, Stores};

    const CONFIG: &str = r#"
        [stores.disk]
        kind = "physical"
        path = "disk"
        [stores.notes]
        kind = "virtual"
        [[agents.a.workspaces]]
        prefix = "/disk"
        scope = "rw"
        store = "disk"
        [[agents.a.workspaces]]
        prefix = "/notes"
        scope = "rw"
        store = "notes"
    "#;

    #[test]
    fn the_log_is_opened_by_the_first_record_and_has_all_records() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir(host.path().join("disk")).unwrap();
        let config = Config::parse(CONFIG, &host.path().join("stead.toml")).unwrap();
        let stores = Stores::of(&config);
        let stead = Stead::open_in(&stores, &Identity::agent("a")).unwrap();
        assert!(
            !host.path().join(".stead").exists(),
            "the state directory must not be created before it is needed"
        );
        // The first call is a change in a Store that commits its own audit records.
        stead.vfs().write("/notes/x", "1").unwrap();
        stead.vfs().write("/disk/x", "1").unwrap();
        stead.vfs().read("/disk/x").unwrap();
        drop((stead, stores));
        let audit = Stores::of(&config).audit_access().unwrap().unwrap();
        let page = audit.page(&Default::default(), None, 10).unwrap();
        let calls: Vec<_> = page.entries.iter().map(|entry| (&*entry.call, &*entry.outcome)).collect();
        assert_eq!(calls, [("read", "ok"), ("write", "ok"), ("write", "ok")]);
    }

    #[test]
    fn calls_are_refused_while_they_can_not_be_recorded() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir(host.path().join("disk")).unwrap();
        fs::write(host.path().join("disk/x"), "1").unwrap();
        let config = Config::parse(CONFIG, &host.path().join("stead.toml")).unwrap();
        // A file is where the audit directory should be.
        fs::create_dir(host.path().join(".stead")).unwrap();
        fs::write(host.path().join(".stead/audit"), "").unwrap();
        let stores = Stores::of(&config);
        let stead = Stead::open_in(&stores, &Identity::agent("a")).unwrap();
        let vfs = stead.vfs();
        for result in [
            vfs.read("/disk/x").map(drop),
            vfs.write("/disk/y", "1").map(drop),
            vfs.write("/notes/y", "1").map(drop),
            vfs.read("/notes/y").map(drop),
        ] {
            let error = result.unwrap_err();
            assert!(!error.to_string().contains(host.path().to_str().unwrap()), "{error}");
            assert_ne!(error.kind(), ErrorKind::NotFound, "{error}");
        }
        assert!(stores.open_audit().unwrap_err().to_string().contains("enabled = false"));
        assert!(!host.path().join("disk/y").exists());

        fs::remove_file(host.path().join(".stead/audit")).unwrap();
        vfs.write("/notes/y", "1").unwrap();
        assert_eq!(vfs.read("/disk/x").unwrap().bytes, b"1");
    }
}
