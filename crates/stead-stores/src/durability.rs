//! What an acknowledged change survives.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How durable a change is once it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// It survives a power cut.
    #[default]
    Full,
    /// It survives the end of the process, however sudden; a power cut may take the last moments.
    Fast,
}

/// The text names no durability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no durability; it is `full` or `fast`")]
pub struct UnknownDurability(String);

impl FromStr for Durability {
    type Err = UnknownDurability;
    fn from_str(text: &str) -> Result<Self, UnknownDurability> {
        match text {
            "full" => Ok(Durability::Full),
            "fast" => Ok(Durability::Fast),
            _ => Err(UnknownDurability(text.escape_debug().to_string())),
        }
    }
}
