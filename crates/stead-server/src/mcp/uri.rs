//! The URIs of resources: `stead:///notes/plan.md` is the file `/notes/plan.md`.

use percent_encoding::percent_decode_str;
pub(super) use stead_core::tools::file_uri as of_path;

/// The URI of the Filesystem Map.
pub(super) const MAP: &str = "stead://map";
/// The URI template of all files.
pub(super) const TEMPLATE: &str = "stead:///{+path}";

const SCHEME: &str = "stead://";

/// The path of the file that a URI names; `None` if it doesn't name a file.
pub(super) fn path_of(uri: &str) -> Option<String> {
    let path = uri.strip_prefix(SCHEME)?;
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return None;
    }
    Some(percent_decode_str(path).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_the_round_trip_through_its_uri() {
        for path in ["/notes/plan.md", "/a b/ü?#%.txt", "/"] {
            assert_eq!(path_of(&of_path(path)).as_deref(), Some(path));
        }
        assert_eq!(of_path("/a b/ü"), "stead:///a%20b/%C3%BC");
    }

    #[test]
    fn a_uri_that_names_no_file_has_no_path() {
        for uri in [MAP, "file:///etc/passwd", "stead://host/x", "stead:///a?b", "stead:///%ff", ""] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
    }
}
