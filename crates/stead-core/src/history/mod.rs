//! What can be done with the past: take it back, compare it, say who wrote which line.
//!
//! Everything here is a function of values. A Store tells its deeds ([`crate::Store::deeds`]); `undo` makes out of them
//! what would have to be done, `steps` brings that into an order in which a Store can do it, and the door does it.

pub mod blame;
pub mod diff;
pub mod merge;
mod steps;
mod undo;

pub use steps::RevertAction;
pub use undo::{
    DesiredState, NodeConflict, PlannedContent, PlannedNode, RevertMode, RevertPlan, plan_revert,
};

pub(crate) use steps::{RevertSteps, StoreView, order_steps};
