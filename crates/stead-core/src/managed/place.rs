//! Which place a path has in a managed Workspace, and where a bare name goes.
//!
//! Paths are relative to the Workspace's prefix, with `/` between components and none at either end.

use crate::clock::Timestamp;
use crate::managed::Category;

/// Directories that management leaves alone: they have lives of their own.
pub const RESERVED_DIRECTORIES: [&str; 4] = ["memory", "knowledge", "skills", "sessions"];

/// Files that stay directly below the prefix: an agent's own instructions are found by these names.
pub const ROOT_FILES: [&str; 3] = ["AGENTS.md", "USER.md", "TOOLS.md"];

/// The place of a path in a managed Workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The prefix itself.
    Prefix,
    /// A name directly below the prefix.
    Root,
    /// Inside the directory of a category. Only files here are tracked.
    InCategory(Category),
    /// Inside a reserved directory.
    Reserved,
    /// Inside any other directory.
    Elsewhere,
}

impl Place {
    /// The place of a path.
    pub fn of(relative_path: &str) -> Place {
        match relative_path.split_once('/') {
            None if relative_path.is_empty() => Place::Prefix,
            None => Place::Root,
            Some((first, _)) => match first.parse() {
                Ok(category) => Place::InCategory(category),
                Err(_) if RESERVED_DIRECTORIES.contains(&first) => Place::Reserved,
                Err(_) => Place::Elsewhere,
            },
        }
    }
}

/// The category of a path inside the directory of a category; `None` for any other path, which isn't tracked.
pub fn category_of(relative_path: &str) -> Option<Category> {
    match Place::of(relative_path) {
        Place::InCategory(category) => Some(category),
        _ => None,
    }
}

/// Whether a file with this name, directly below the prefix, is put into the directory of a category.
///
/// Not if the name is one of [`ROOT_FILES`]. A file with the name of a category or of a reserved directory is: in its own place, it
/// would keep that directory from being made.
pub fn is_routable(name: &str) -> bool {
    !ROOT_FILES.contains(&name) && Place::of(name) == Place::Root
}

/// Where a file with this name goes: `category/YYYY-MM-DD/name`, with the day in UTC. `hint` overrides the category that the
/// name says.
pub fn routed_path(name: &str, hint: Option<Category>, now: Timestamp) -> String {
    let category = hint.unwrap_or_else(|| Category::of_name(name));
    format!("{category}/{}/{name}", day_of(now))
}

/// The day of a time in UTC, as `YYYY-MM-DD`.
pub(super) fn day_of(time: Timestamp) -> String {
    time.to_string()[..10].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn w1_a_bare_name_goes_to_its_category_and_the_day() {
        assert_eq!(routed_path("scraper.py", None, at("2026-02-27T12:00:00Z")), "code/2026-02-27/scraper.py");
    }

    #[test]
    fn w10_a_hint_overrides_the_category_of_the_name() {
        let routed = routed_path("notes.txt", Some(Category::Data), at("2026-02-27"));
        assert_eq!(routed, "data/2026-02-27/notes.txt");
    }

    #[test]
    fn w12_the_day_is_that_of_utc_also_when_it_is_another_day_elsewhere() {
        for (time, day) in [
            ("2026-02-27T23:59:59.999Z", "2026-02-27"),
            ("2026-02-28T00:00:00Z", "2026-02-28"),
            // Half past midnight in Tokyo, and still the day before in UTC.
            ("2026-02-28T00:30:00+09:00", "2026-02-27"),
            ("2026-02-27T20:00:00-08:00", "2026-02-28"),
        ] {
            assert_eq!(routed_path("x", None, at(time)), format!("temp/{day}/x"), "{time}");
        }
    }

    #[test]
    fn w15_a_path_with_a_directory_is_never_routed() {
        for path in ["code/x.py", "drafts/x.py", "a/b/c", "memory/x.md"] {
            assert!(!is_routable(path), "{path}");
        }
    }

    #[test]
    fn w16_reserved_directories_are_neither_routed_nor_tracked() {
        for directory in RESERVED_DIRECTORIES {
            assert_eq!(Place::of(&format!("{directory}/2026-01-01/x.py")), Place::Reserved);
            assert_eq!(category_of(&format!("{directory}/x.py")), None);
            assert!(!is_routable(&format!("{directory}/x.py")));
        }
    }

    #[test]
    fn w17_the_files_of_an_agents_instructions_stay_at_the_root() {
        for name in ROOT_FILES {
            assert!(!is_routable(name), "{name}");
        }
        assert!(is_routable("agents.txt"));
    }

    #[test]
    fn w38_only_what_is_inside_a_category_is_tracked() {
        assert_eq!(category_of("code/2026-01-01/x.py"), Some(Category::Code));
        assert_eq!(category_of("images/x.png"), Some(Category::Images));
        for path in ["", "code", "x.py", "drafts/code/x.py", "codes/x.py", "Code/x.py", "memory/code/x.py"] {
            assert_eq!(category_of(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn w1_every_routed_path_is_in_the_category_it_names_and_is_not_routed_again(
            name in "[a-zA-Z0-9._ -]{1,20}", hint in prop::option::of(0..6_usize), seconds in 0..4_000_000_000_i64,
        ) {
            let hint = hint.map(|index| Category::ALL[index]);
            let routed = routed_path(&name, hint, Timestamp::from_secs(seconds));
            let expected = hint.unwrap_or_else(|| Category::of_name(&name));
            prop_assert_eq!(category_of(&routed), Some(expected));
            prop_assert!(!is_routable(&routed));
            let end = format!("/{name}");
            prop_assert!(routed.ends_with(&end));
            prop_assert_eq!(routed.matches('/').count(), 2);
        }
    }
}
