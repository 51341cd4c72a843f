//! What a power cut may lose of the changes that a Store has acknowledged.
//!
//! ```
//! use stead_stores::Durability;
//!
//! let durability: Durability = "full".parse()?;
//! assert_eq!(durability, Durability::Full);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::str::FromStr;

/// How many of a Store's acknowledged changes survive a power cut. Neither setting loses anything if the process is
/// killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// All of them: a change is on the disk before it is acknowledged.
    #[default]
    Full,
    /// All but the newest ones. The changes that survive are complete, and are a prefix of the acknowledged changes.
    Fast,
}

/// The text is neither `full` nor `fast`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` isn't a valid durability; use `full` or `fast`")]
pub struct InvalidDurability(String);

impl FromStr for Durability {
    type Err = InvalidDurability;

    fn from_str(text: &str) -> Result<Self, InvalidDurability> {
        match text {
            "full" => Ok(Durability::Full),
            "fast" => Ok(Durability::Fast),
            other => Err(InvalidDurability(stead_core::name::escape_name(other.as_bytes()).to_string())),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Full => "full",
            Durability::Fast => "fast",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_durability_is_parsed_as_it_is_displayed() {
        for durability in [Durability::Full, Durability::Fast] {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        assert_eq!(Durability::default(), Durability::Full);
        assert!("FULL\n".parse::<Durability>().unwrap_err().to_string().contains("\\u{a}"));
    }
}
