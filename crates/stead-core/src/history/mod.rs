//! History as pure functions: planning an undo or a restore, diff, merge and blame.
//!
//! Nothing here changes a Store. A Store returns its revisions ([`crate::store::History::revisions`]); `undo` computes from them
//! what each node should become, `steps` turns that into steps in an order that a Store can apply, and the door applies
//! them.
//!
//! ```
//! use stead_core::history::merge::merge;
//!
//! let base = b"one\ntwo\nthree\n";
//! assert_eq!(merge(base, b"ONE\ntwo\nthree\n", b"one\ntwo\nTHREE\n").as_deref(), Some(&b"ONE\ntwo\nTHREE\n"[..]));
//! assert_eq!(merge(base, b"1\ntwo\nthree\n", b"I\ntwo\nthree\n"), None, "both changed the same line");
//! ```

pub mod blame;
pub mod diff;
pub mod hunks;
pub mod line_diff;
pub mod merge;
mod steps;
pub mod text_merge;
pub mod tree_merge;
mod undo;

pub use steps::RevertAction;
pub use undo::{
    DesiredState, DraftedText, NodeConflict, PlannedContent, PlannedNode, RevertMode, RevertPlan, plan_revert,
};

pub(crate) use steps::{RevertChange, RevertSteps, StoreView, order_steps};
