//! Names for threads that nobody has named.

use stead_core::{Clock, StoreError, SystemClock};

use crate::error::Result;

/// A name for a new thread, such as `session-20261117-083012-4f0c9a1e77d2`: what it is for, when it was made, and a random part
/// by which no two names are the same.
pub fn generate_thread_name(purpose: &str) -> Result<String> {
    let mut random = [0; 6];
    getrandom::fill(&mut random).map_err(|_| {
        StoreError::unavailable("the host gives no random numbers, and a new thread needs some")
    })?;
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    // `2026-11-17T08:30:12.123Z`
    let now = SystemClock.now().to_string();
    let digits: String = now.chars().filter(char::is_ascii_digit).take(14).collect();
    let (day, time) = digits.split_at(digits.len().min(8));
    Ok(format!("{purpose}-{day}-{time}-{random}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_generated_name_is_a_valid_name_of_its_own() {
        let names = [(); 2].map(|()| generate_thread_name("session").unwrap());
        assert_ne!(names[0], names[1]);
        for name in names {
            assert_eq!(stead_core::parse_thread_name(&name).unwrap(), name);
            let parts: Vec<_> = name.split('-').map(str::len).collect();
            assert_eq!(parts, ["session".len(), 8, 6, 12], "{name}");
        }
    }
}
