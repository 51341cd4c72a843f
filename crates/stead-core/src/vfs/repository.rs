//! What would make a directory a git repository that obeys an agent.
//!
//! Git takes any directory for a repository that holds `HEAD`, `objects` and `refs` (or `HEAD` and `commondir`), whatever
//! its name. When a person next uses git there, it does what the `config` and the `hooks` beside them say, outside of every
//! boundary. The `protect` globs keep those of a `.git` directory. Here it is the same for all others: what git obeys can't
//! be changed in such a directory, and a directory that holds it can't be made into one, in whatever order.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::name::folded;
use crate::store::{Place, Store, StorePath};
use crate::vfs::resolve::Spot;

/// One change at a time to such names in one directory: of two at once, neither would see what the other makes.
static TURNS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];
/// How long one waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turn of a call that may change such a name.
pub(super) type Turn = MutexGuard<'static, ()>;

/// A name that git looks for in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Head,
    Objects,
    Refs,
    /// Makes git look for the rest in another directory.
    CommonDir,
    /// Its configuration, or the directory of its hooks, or something in that.
    Obeyed,
}

/// A change of a name that git would look for, in a directory that it may take for a repository.
#[derive(Debug)]
pub(super) struct Part {
    directory: StorePath,
    name: Name,
}

impl Part {
    /// What a place is to the repository that its directory may be; `None` for nearly all.
    pub(super) fn of(spot: &Spot<'_>) -> Option<Self> {
        let (directory, name) = spot.place.path.split()?;
        let name = match &*folded(&String::from_utf8_lossy(name)) {
            "head" => Name::Head,
            "objects" => Name::Objects,
            "refs" => Name::Refs,
            "commondir" => Name::CommonDir,
            "config" | "config.worktree" | "hooks" => Name::Obeyed,
            _ => {
                let directory = StorePath::from_checked(directory);
                let (above, hooks) = directory.split()?;
                if folded(&String::from_utf8_lossy(hooks)) != "hooks" {
                    return None;
                }
                return Some(Part { directory: StorePath::from_checked(above), name: Name::Obeyed });
            }
        };
        Some(Part { directory: StorePath::from_checked(directory), name })
    }

    /// Waits until no other call is about to change such a name in the same directory; `None` after a while.
    pub(super) fn turn(&self) -> Option<Turn> {
        let hash = blake3::hash(self.directory.as_bytes());
        TURNS[usize::from(hash.as_bytes()[0]) % TURNS.len()].try_lock_for(PATIENCE)
    }

    /// Whether git would obey an agent there if the name were changed, or made.
    pub(super) fn is_kept_from_agents(&self, store: &dyn Store) -> bool {
        let there = |name: &str| {
            let place = Place::path(self.directory.child(name.as_bytes()));
            store.stat(&place).is_ok()
        };
        judge(self.name, there)
    }
}

/// The rule, given which names are there.
fn judge(name: Name, there: impl Fn(&str) -> bool) -> bool {
    let own = match name {
        Name::Head => "HEAD",
        Name::Objects => "objects",
        Name::Refs => "refs",
        Name::CommonDir => "commondir",
        Name::Obeyed => "",
    };
    // What is there already makes nothing new of its directory.
    if matches!(name, Name::Head | Name::Objects | Name::Refs) && there(own) {
        return false;
    }
    let will_be = |name: &str| name == own || there(name);
    let is_repository = will_be("HEAD") && (will_be("commondir") || (will_be("objects") && will_be("refs")));
    let is_obeyed = name == Name::Obeyed
        || ["commondir", "config", "config.worktree", "hooks"].iter().any(|name| will_be(name));
    is_repository && is_obeyed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: Name, there: &[&str]) -> bool {
        judge(name, |name| there.contains(&name))
    }

    #[test]
    fn in_whatever_order_the_last_one_is_refused() {
        let parts = [
            (Name::Head, "HEAD"),
            (Name::Objects, "objects"),
            (Name::Refs, "refs"),
            (Name::Obeyed, "config"),
        ];
        for (last, name) in parts {
            let others: Vec<_> = parts.iter().map(|(_, name)| *name).filter(|other| *other != name).collect();
            assert!(judged(last, &others), "{name}");
            for missing in &others {
                let fewer: Vec<_> = others.iter().copied().filter(|other| other != missing).collect();
                assert!(!judged(last, &fewer), "{name} without {missing}");
            }
        }
        assert!(judged(Name::CommonDir, &["HEAD"]));
        assert!(judged(Name::Head, &["commondir"]));
        assert!(judged(Name::Head, &["objects", "refs", "hooks"]));
    }

    #[test]
    fn what_is_no_repository_and_what_git_itself_changes_is_free() {
        assert!(!judged(Name::Obeyed, &[]));
        assert!(!judged(Name::Obeyed, &["HEAD", "objects"]));
        assert!(!judged(Name::Head, &["objects", "refs"]), "nothing in it is obeyed");
        for name in [Name::Head, Name::Objects, Name::Refs] {
            assert!(!judged(name, &["HEAD", "objects", "refs", "config", "hooks"]), "{name:?}");
        }
    }
}
