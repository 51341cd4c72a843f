//! An audit log in memory, which a test can make fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::audit::{AuditLog, AuditLogId, AuditRecord};
use crate::store::{StoreError, StoreResult};

/// Holds its records in memory only.
#[derive(Debug)]
pub struct MemoryAuditLog {
    id: AuditLogId,
    records: Mutex<Vec<AuditRecord>>,
    is_full: AtomicBool,
}

impl MemoryAuditLog {
    /// An empty log.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = AuditLogId(NEXT.fetch_add(1, Ordering::Relaxed));
        MemoryAuditLog { id, records: Mutex::default(), is_full: AtomicBool::new(false) }
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
    fn id(&self) -> AuditLogId {
        self.id
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
