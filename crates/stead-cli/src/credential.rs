//! Takes the credential out of the environment, before anything is there that could inherit it.

use std::ffi::OsString;

/// Where a token is handed over.
pub(crate) const TOKEN_VARIABLE: &str = "STEAD_TOKEN";

/// Returns the token that the environment holds, which does not hold it any more then.
///
/// To be called first of all in `main`.
#[allow(unsafe_code)]
pub(crate) fn take() -> Option<OsString> {
    let token = std::env::var_os(TOKEN_VARIABLE)?;
    // SAFETY: no other thread runs yet that could read or change the environment meanwhile.
    unsafe { std::env::remove_var(TOKEN_VARIABLE) };
    Some(token)
}
