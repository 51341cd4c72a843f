//! File types by name, such as `rust` and `py`, from ripgrep's table.

use ignore::types::TypesBuilder;

use crate::glob::{Anchor, PathGlobs};
use crate::name::escape_text;

/// No file type has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` isn't a file type; use one that ripgrep knows, such as rust, py, js, ts, go, java, c, cpp, md, json or toml, or \
     a glob in its place",
    escape_text(.0)
)]
pub struct UnknownFileType(String);

/// The globs for the names of files of these types; `None` if no type is given.
pub fn file_type_globs(types: &[String]) -> Result<Option<PathGlobs>, UnknownFileType> {
    if types.is_empty() {
        return Ok(None);
    }
    let known = TypesBuilder::new().add_defaults().definitions();
    let mut globs = Vec::new();
    for name in types {
        let definition = known.iter().find(|definition| definition.name() == name);
        let definition = definition.ok_or_else(|| UnknownFileType(name.chars().take(64).collect()))?;
        globs.extend_from_slice(definition.globs());
    }
    let globs = PathGlobs::new(globs, Anchor::AnyDirectory).expect("the table's globs are valid");
    Ok(Some(globs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(types: &[&str]) -> Result<Option<PathGlobs>, UnknownFileType> {
        file_type_globs(&types.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_type_matches_the_names_of_its_files_in_any_directory() {
        let rust = globs(&["rust"]).unwrap().unwrap();
        assert!(rust.matches("src/main.rs") && !rust.matches("src/main.py"));
        let both = globs(&["rust", "py"]).unwrap().unwrap();
        assert!(both.matches("a.rs") && both.matches("deep/b.py") && !both.matches("c.md"));
        assert!(globs(&[]).unwrap().is_none());
    }

    #[test]
    fn every_type_of_the_table_can_be_used() {
        for definition in TypesBuilder::new().add_defaults().definitions() {
            assert!(globs(&[definition.name()]).is_ok(), "{}", definition.name());
        }
    }

    #[test]
    fn an_unknown_type_is_an_error_that_names_some() {
        let error = globs(&["rustt\u{1b}"]).unwrap_err().to_string();
        assert!(error.contains("rustt") && error.contains("py") && !error.contains('\u{1b}'), "{error}");
    }
}
