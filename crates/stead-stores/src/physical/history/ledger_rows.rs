//! Reads the rows of a ledger one after the other, page by page.

use stead_core::store::StoreResult;

use crate::ledger::{Ledger, ROWS_PER_PAGE, StoredLedgerRow};

/// The rows of a ledger, newest first.
pub(super) struct LedgerRows<'a> {
    ledger: &'a dyn Ledger,
    before: (i64, i64),
    page: std::vec::IntoIter<StoredLedgerRow>,
}

impl<'a> LedgerRows<'a> {
    pub(super) fn new(ledger: &'a dyn Ledger) -> Self {
        LedgerRows { ledger, before: (i64::MAX, i64::MAX), page: Vec::new().into_iter() }
    }

    /// The next row, if there is one.
    pub(super) fn next(&mut self) -> StoreResult<Option<StoredLedgerRow>> {
        if self.page.len() == 0 {
            self.page = self.ledger.rows(self.before, ROWS_PER_PAGE)?.into_iter();
        }
        let stored_row = self.page.next();
        if let Some(stored_row) = &stored_row {
            self.before = (stored_row.revision, stored_row.row.seq);
        }
        Ok(stored_row)
    }
}
