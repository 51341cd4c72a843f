//! The names of files in folders: which are valid, and which media types they suggest.

use super::short_text;
use crate::error::ErrorKind;
use crate::name::escape_hint;
use crate::tools::Failure;

/// Refuses what isn't the name of a file in a folder, or of a subfolder.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    let is_valid = name.split('/').all(is_part) && !name.chars().any(|c| c == '\\' || c.is_control());
    if is_valid {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "'{}' isn't a valid name; use one such as notes.md or reports/weekly.md: parts separated by single `/`, none \
         of them empty, `.` or `..`, without `\\` and control characters{}",
        short_text(name),
        escape_hint(name).unwrap_or_default()
    )))
}

/// How many parts a name has.
pub(super) fn depth(name: &str) -> usize {
    name.split('/').filter(|part| !part.is_empty()).count()
}

/// The failure for a name that is too deep to be created.
pub(super) fn too_deep(name: &str, depth: usize, max_depth: usize) -> Failure {
    Failure::new(
        ErrorKind::Invalid,
        format!(
            "'{}' is too deep: with {depth} parts below the shared or private folder, it has more than the {max_depth} \
             that are allowed, counting the file's own name",
            short_text(name)
        ),
    )
}

/// The media type that the end of a name suggests, if it is one of the common ones.
pub(super) fn media_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit('/').next()?.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "md" => "text/markdown",
        "txt" => "text/plain",
        "json" => "application/json",
        "js" => "text/javascript",
        "ts" => "text/typescript",
        "yaml" | "yml" => "application/yaml",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        "csv" => "text/csv",
        "html" => "text/html",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f101_and_f109_only_relative_names_without_dots_backslashes_and_control_characters_are_valid() {
        for valid in [
            "a.md",
            "reports/weekly.md",
            "%2e%2e/x",
            ".hidden",
            "...",
            "a b",
            "ü\u{1f600}.md",
            "it's \"50%\"",
        ] {
            assert!(check_name(valid).is_ok(), "{valid}");
        }
        for invalid in [
            "",
            ".",
            "..",
            "/x",
            "x/",
            "a//b",
            "../x",
            "a/../../x",
            "a/./b",
            "/etc/passwd",
            "..\\x",
            "a\\b",
            "a\0b",
            "a\nb",
            "/",
        ] {
            let failure = check_name(invalid).unwrap_err();
            assert!(failure.message.contains("isn't a valid name; use one such as"), "{failure}");
            assert!(!failure.message.contains(['\0', '\n']), "{failure}");
        }
    }

    #[test]
    fn f42_to_f44_media_types_follow_from_the_extension_whatever_its_case() {
        for (name, media_type_of_name) in [
            ("a.md", Some("text/markdown")),
            ("a.TXT", Some("text/plain")),
            ("d.x/a.json", Some("application/json")),
            ("a.js", Some("text/javascript")),
            ("a.b.Ts", Some("text/typescript")),
            ("a.yml", Some("application/yaml")),
            ("a.jpeg", Some("image/jpeg")),
            ("a.svg", Some("image/svg+xml")),
            ("a.unknown", None),
            ("md", None),
            ("d.md/a", None),
        ] {
            assert_eq!(media_type(name), media_type_of_name, "{name}");
        }
    }
}
