//! Reads `[ttl]`: how long managed files of each category live.

use stead_core::managed::{Category, Ttl};

use super::section::Section;

/// Reads the times to live. Categories that the file doesn't name keep their defaults.
pub(super) fn read(top: &Section<'_>) -> Ttl {
    let Some(section) = top.table("ttl") else { return Ttl::default() };
    let mut ttl = Ttl::default();
    for (category, name) in Category::ALL.into_iter().zip(Category::NAMES) {
        let Some(days) = section.days(name) else { continue };
        match ttl.with(category, days.value) {
            Ok(changed) => ttl = changed,
            Err(error) => section.reject_value(&days, error),
        }
    }
    section.reject_unknown_keys();
    ttl
}
