//! Files as resources: `stead:///notes/plan.md` is the file `/notes/plan.md`.

use percent_encoding::percent_decode_str;
pub(super) use stead_core::tools::file_uri as of_path;

/// The Filesystem Map.
pub(super) const MAP: &str = "stead://map";
/// Every file.
pub(super) const TEMPLATE: &str = "stead:///{+path}";

const SCHEME: &str = "stead://";

/// The path of a resource, if it is a file's.
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
    fn a_path_comes_back_as_it_was() {
        for path in ["/notes/plan.md", "/a b/ü?#%.txt", "/"] {
            assert_eq!(path_of(&of_path(path)).as_deref(), Some(path));
        }
        assert_eq!(of_path("/a b/ü"), "stead:///a%20b/%C3%BC");
    }

    #[test]
    fn what_is_no_file_has_no_path() {
        for uri in [MAP, "file:///etc/passwd", "stead://host/x", "stead:///a?b", "stead:///%ff", ""] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
    }
}
