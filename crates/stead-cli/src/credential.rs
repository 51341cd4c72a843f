//! Removes the token from the environment, before a child process could inherit it.

use std::ffi::OsString;

/// The environment variable that holds a token.
pub(crate) const TOKEN_VARIABLE: &str = "STEAD_TOKEN";

/// Removes the token from the environment and returns it.
///
/// Must be called first in `main`, before another thread runs.
#[allow(unsafe_code)]
pub(crate) fn take() -> Option<OsString> {
    let token = std::env::var_os(TOKEN_VARIABLE)?;
    // SAFETY: no other thread runs yet, so none can read or change the environment at the same time.
    unsafe { std::env::remove_var(TOKEN_VARIABLE) };
    Some(token)
}
