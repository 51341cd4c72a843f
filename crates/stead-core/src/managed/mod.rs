//! The rules of managed Workspaces: where a file goes, which files are tracked, and when they expire.
//!
//! A managed Workspace sorts files that are written directly below its prefix into directories by category and day, keeps a row
//! about each of them in a manifest, and removes those whose time to live is over. Everything in this module is a function of
//! values; [`crate::vfs::managed`] applies the rules, and a Store keeps the rows ([`Manifest`]).
//!
//! ```
//! use stead_core::Timestamp;
//! use stead_core::managed::{Category, Ttl, routed_path};
//!
//! let now: Timestamp = "2026-02-27T23:30:00-02:00".parse()?;
//! assert_eq!(routed_path("scraper.py", None, now), "code/2026-02-28/scraper.py");
//! assert_eq!(routed_path("notes.txt", Some(Category::Data), now), "data/2026-02-28/notes.txt");
//! assert_eq!(Ttl::default().days(Category::Temp), Some(7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod category;
mod filter;
mod manifest;
mod merge;
mod place;
mod reconcile;
mod tags;
mod ttl;

pub use category::{Category, UnknownCategory};
pub use filter::{DateRange, FileFilter, InvalidDate, SearchPattern};
pub use manifest::{
    CleanupRun, ManagedFile, Manifest, ManifestEdit, ManifestRepair, ManifestRow, PastRemoval, RepairCounts,
    ScannedRow,
};
pub use merge::{FileOrigin, ForkedRow, ForkedRows, RowState};
pub use place::{Place, RESERVED_DIRECTORIES, ROOT_FILES, category_of, is_routable, routed_path};
pub use reconcile::{FoundFile, Reconciled, reconcile};
pub use tags::{InvalidTag, PIN_TAG, TagMode, Tags};
pub use ttl::{InvalidTtl, MAX_TTL_DAYS, Ttl};
