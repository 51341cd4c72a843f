//! Keys that the file may contain but that have no effect yet.
//!
//! Their values are checked as far as possible, and `config check` warns about each, so that nobody relies on a limit
//! that isn't enforced.

use super::section::Section;

/// Keys of an agent.
pub(super) fn agent(section: &Section<'_>) {
    section.table("executor");
    section.warn_no_effect("executor");
}
