//! The path that a caller perhaps meant, where it named one that doesn't exist.
//!
//! Only what the caller could list itself is looked at, and through the same calls. So a suggestion tells nothing that a
//! listing wouldn't.

use std::time::Duration;

use crate::error::Error;
use crate::name::Name;
use crate::path::VfsPath;
use crate::store::StoreError;
use crate::vfs::call::Call;
use crate::vfs::list::{ListPage, WalkQuery, encode_cursor};
use crate::vfs::{DirectoryListing, Vfs};

/// How many entries of a directory are looked at from its start, and again from where the missing name would be.
const MAX_ENTRIES: usize = 1_000;
/// How many levels below a directory a file of the same name is looked for, and for how long.
const SEARCH_DEPTH: usize = 4;
const SEARCH_TIME: Duration = Duration::from_millis(100);
/// The most files of the same name that are compared.
const MAX_FOUND: usize = 20;
/// The largest edit distance between two names that are taken for each other.
const MAX_DISTANCE: usize = 4;

impl Vfs {
    /// The message of an error that says that a path doesn't exist, with the path that the caller perhaps meant; `None` if
    /// there is no such path. The caller could find that path with [`Vfs::list`]. Looking for it leaves no audit record.
    pub fn message_with_suggestion(&self, error: &Error) -> Option<String> {
        self.suggestion_message(error.missing_path()?)
    }

    /// The message about a path that doesn't exist, with the path that the caller perhaps meant.
    pub(crate) fn suggestion_message(&self, missing: &VfsPath) -> Option<String> {
        let lookup = |call: &Call<'_>, [missing]: [&VfsPath; 1]| Ok(call.suggestion_instead_of(missing));
        let suggestion = self.unaudited_call("suggest", [Ok(missing.clone())], lookup).ok()??;
        Some(format!("`{missing}` does not exist; did you mean `{suggestion}`?"))
    }
}

impl Call<'_> {
    fn suggestion_instead_of(&self, missing: &VfsPath) -> Option<VfsPath> {
        let (directory, names) = self.deepest_directory(missing)?;
        let mut rest = missing.components().skip(directory.depth());
        let nearest = nearest_name(rest.next()?, names.iter().map(String::as_str));
        let sibling = nearest.and_then(|name| directory.join(name).ok());
        let corrected = sibling.and_then(|sibling| rest.try_fold(sibling, |path, name| path.join(name).ok()));
        corrected
            .filter(|path| self.resolve_existing(path).is_ok())
            .or_else(|| self.same_name_below(&directory, missing))
            .or_else(|| self.same_name_below(&self.parent_in_workspace(&directory)?, missing))
    }

    /// The deepest directory above a missing path that exists, and names in it.
    fn deepest_directory(&self, missing: &VfsPath) -> Option<(VfsPath, Vec<String>)> {
        for depth in (0..missing.depth()).rev() {
            let directory = missing.ancestor(depth);
            let name = missing.components().nth(depth)?;
            match self.list(&directory, &ListPage { cursor: None, limit: MAX_ENTRIES }) {
                Ok(listing) => {
                    let mut names = path_components(&listing);
                    if listing.cursor.is_some() {
                        let cursor = cursor_before(name);
                        let near = self.list(&directory, &ListPage { cursor, limit: MAX_ENTRIES });
                        names.extend(near.iter().flat_map(path_components));
                    }
                    return Some((directory, names));
                }
                Err(Error::Store { cause: StoreError::NotFound, .. }) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// A path with the same last component as the missing one, as near to `directory` as possible.
    fn same_name_below(&self, directory: &VfsPath, missing: &VfsPath) -> Option<VfsPath> {
        let query = WalkQuery {
            depth: SEARCH_DEPTH,
            pattern: Some(format!("**/{}", globset::escape(missing.name()?))),
            limit: MAX_FOUND,
            time_limit: SEARCH_TIME,
            ..WalkQuery::default()
        };
        let found = self.walk(directory, &query).ok()?.entries;
        let paths = found.iter().filter_map(|entry| VfsPath::parse(&entry.path).ok());
        paths.filter(|path| path != missing).min_by_key(VfsPath::depth)
    }

    /// The parent of a directory, unless it is in another Workspace or none.
    fn parent_in_workspace(&self, directory: &VfsPath) -> Option<VfsPath> {
        let route = self.shared().router.route(directory)?;
        directory.parent().filter(|_| route.workspace.prefix() != directory)
    }
}

/// The names of a page that can be part of a path.
fn path_components(listing: &DirectoryListing) -> Vec<String> {
    let names = listing.entries.iter().filter_map(|entry| entry.name.as_path_component());
    names.map(str::to_owned).collect()
}

/// A cursor a little before a name: the page after it begins with the names that have the same beginning.
fn cursor_before(name: &str) -> Option<String> {
    let beginning: String = name.chars().take(name.chars().count() / 2).collect();
    Name::new(beginning.into_bytes()).map(|beginning| encode_cursor(&beginning))
}

/// The name that is most like a missing one; `None` if none is like it.
fn nearest_name<'n>(missing: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = names.filter_map(|name| Some((name_distance(missing, name)?, name)));
    near.min().map(|(_, name)| name)
}

/// How unlike two names are; `None` if they aren't alike, or are equal: a symlink that leads nowhere has the missing name.
fn name_distance(missing: &str, name: &str) -> Option<usize> {
    let (missing_folded, name_folded) = (missing.to_lowercase(), name.to_lowercase());
    if missing == name {
        return None;
    }
    if missing_folded == name_folded {
        return Some(0);
    }
    // One with another extension, or without one, is as near as one with a wrong letter.
    if !stem(&missing_folded).is_empty() && stem(&missing_folded) == stem(&name_folded) {
        return Some(1);
    }
    let length = missing_folded.chars().count();
    let allowed = (length / 3).min(MAX_DISTANCE);
    if name_folded.chars().count().abs_diff(length) > allowed {
        return None;
    }
    Some(strsim::osa_distance(&missing_folded, &name_folded)).filter(|distance| *distance <= allowed)
}

/// A name without its extension.
fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest<'n>(missing: &str, names: &[&'n str]) -> Option<&'n str> {
        nearest_name(missing, names.iter().copied())
    }

    #[test]
    fn a_name_with_a_slip_in_it_is_recognised() {
        let names = ["Makefile", "README.md", "app.py", "main.rs", "package.json"];
        for (missing, meant) in [
            ("ap.py", "app.py"),
            ("mian.rs", "main.rs"),
            ("makefile", "Makefile"),
            ("README", "README.md"),
            ("readme.txt", "README.md"),
            ("pakage.jsn", "package.json"),
        ] {
            assert_eq!(nearest(missing, &names), Some(meant), "{missing}");
        }
        for other in ["x", "ab", "lib.rs", ".py"] {
            assert_eq!(nearest(other, &names), None, "{other}");
        }
        assert_eq!(nearest("a", &["b"]), None);
        assert_eq!(nearest("app.py", &["app.py"]), None);
    }

    #[test]
    fn of_several_names_the_nearest_is_taken() {
        assert_eq!(nearest("tests.rs", &["test.rs", "tests.md", "texts.rs"]), Some("test.rs"));
        assert_eq!(nearest("Notes.md", &["note.md", "notes.md"]), Some("notes.md"));
    }
}
