//! The names of Stead's own files, which no caller can reach in a host directory or in a fork of one.

use stead_core::StoreError;
use stead_core::name::case_fold;

/// Names that are reserved in every directory: the state directory, and the configuration, with which an agent could
/// widen its own access at the next start.
const RESERVED_NAMES: [&str; 2] = [STATE_DIR_NAME, "stead.toml"];
/// The name of every state directory.
pub(crate) const STATE_DIR_NAME: &str = ".stead";

/// Whether a name is reserved on some file system. Some file systems treat names as equal that differ only in case, or
/// in invisible characters: there, a file with such a name would be opened as Stead's own.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    if name.is_ascii() {
        return RESERVED_NAMES.iter().any(|reserved| name.eq_ignore_ascii_case(reserved.as_bytes()));
    }
    std::str::from_utf8(name).is_ok_and(|name| RESERVED_NAMES.contains(&&*case_fold(name)))
}

/// The error of a step that would make something with a reserved name.
pub(crate) fn reserved_name_error() -> StoreError {
    StoreError::invalid_name("`.stead`, `stead.toml` and Stead's database are reserved")
}
