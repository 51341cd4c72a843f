//! An audit log in memory, which a test can make fail.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::audit::{AuditLog, AuditRecord};
use crate::store::{DatabaseId, StoreError, StoreResult};

/// Holds its records in memory only.
#[derive(Debug)]
pub struct MemoryAuditLog {
    database: DatabaseId,
    records: Mutex<Vec<AuditRecord>>,
    is_full: AtomicBool,
}

impl MemoryAuditLog {
    /// An empty log.
    pub fn new() -> Self {
        let database = DatabaseId::fresh();
        MemoryAuditLog { database, records: Mutex::default(), is_full: AtomicBool::new(false) }
    }

    /// Removes and returns the records since the last call.
    pub fn take(&self) -> Vec<AuditRecord> {
        std::mem::take(&mut *self.records.lock())
    }

    /// Makes every later `append` and `announce` fail, or succeed again.
    pub fn set_full(&self, full: bool) {
        self.is_full.store(full, Ordering::Relaxed);
    }
}

impl Default for MemoryAuditLog {
    fn default() -> Self {
        MemoryAuditLog::new()
    }
}

impl AuditLog for MemoryAuditLog {
    fn database(&self) -> DatabaseId {
        self.database
    }

    fn append(&self, record: &AuditRecord) -> StoreResult<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(StoreError::unavailable("the log is full"));
        }
        self.records.lock().push(record.clone());
        Ok(())
    }

    fn announce(&self, record: &AuditRecord) -> StoreResult<()> {
        self.append(record)
    }
}
