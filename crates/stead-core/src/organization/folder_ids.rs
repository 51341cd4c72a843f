//! Folder ids: short-lived names that discovery gives to folders, each for one agent.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::clock::{Clock, Timestamp};
use crate::organization::{FolderScope, Visibility};

/// The agent that an id was issued to. For everyone else the id doesn't exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdHolder {
    /// The organization's id.
    pub organization: Arc<str>,
    /// The agent's id.
    pub agent: Arc<str>,
}

/// The folder that an id stands for. Rights are not part of it: they are checked at each use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedFolder {
    /// The id of the agent or team whose folder it is.
    pub owner_id: Arc<str>,
    /// Which of the owner's folders it is.
    pub visibility: Visibility,
    /// The scope in which it was discovered.
    pub scope: FolderScope,
    /// The subfolder, relative to the folder; empty for the folder itself.
    pub subfolder: Arc<str>,
}

/// What an id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderLookup {
    /// This folder.
    Found(IssuedFolder),
    /// It stood for a folder until it expired.
    Expired,
    /// It was never issued to this agent, or that is too long ago.
    Unknown,
}

/// Issues and resolves folder ids.
pub trait FolderIds: fmt::Debug + Send + Sync {
    /// A fresh id for a folder. `files` are the names that the agent sees in it.
    fn issue(&self, holder: &IdHolder, folder: IssuedFolder, files: &mut dyn Iterator<Item = &str>) -> Uuid;

    /// What an id stands for. Doesn't extend its life.
    fn resolve(&self, holder: &IdHolder, id: &str) -> FolderLookup;

    /// Whether the agent saw a file of this name when the id was issued. May be wrong for folders with very many files.
    fn was_seen(&self, id: &str, file: &str) -> bool;

    /// Removes what has expired. Called regularly.
    fn expire(&self);

    /// How many ids resolve now.
    fn count(&self) -> usize;
}

/// How long an id is valid.
const LIFETIME: Duration = Duration::from_secs(30 * 60);
/// The most ids, expired ones included.
const MAX_IDS: usize = 100_000;
/// The most file names that are remembered of one folder, and of all folders together.
const MAX_NAMES_OF_FOLDER: usize = 5_000;
const MAX_NAMES: usize = 1_000_000;

/// Folder ids in the memory of one process. At its bounds, the oldest ids are forgotten first.
#[derive(Debug)]
pub struct MemoryFolderIds {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    name_hasher: RandomState,
}

#[derive(Debug, Default)]
struct State {
    by_id: HashMap<Uuid, Issued>,
    /// All ids, the oldest first.
    in_order: VecDeque<Uuid>,
    /// How many file names are remembered in all.
    names: usize,
}

#[derive(Debug)]
struct Issued {
    holder: IdHolder,
    folder: IssuedFolder,
    at: Timestamp,
    /// Hashes of the names of files, sorted.
    seen: Box<[u64]>,
}

impl Issued {
    fn age(&self, now: Timestamp) -> Duration {
        now.duration_since(self.at)
    }
}

impl MemoryFolderIds {
    /// No ids yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        MemoryFolderIds { clock, state: Mutex::default(), name_hasher: RandomState::new() }
    }
}

impl FolderIds for MemoryFolderIds {
    fn issue(&self, holder: &IdHolder, folder: IssuedFolder, files: &mut dyn Iterator<Item = &str>) -> Uuid {
        let mut seen: Vec<_> =
            files.take(MAX_NAMES_OF_FOLDER).map(|name| self.name_hasher.hash_one(name)).collect();
        seen.sort_unstable();
        let (id, at) = (Uuid::new_v4(), self.clock.now());
        let mut state = self.state.lock();
        state.names += seen.len();
        state.in_order.push_back(id);
        state.by_id.insert(id, Issued { holder: holder.clone(), folder, at, seen: seen.into() });
        while state.in_order.len() > MAX_IDS || (state.names > MAX_NAMES && state.in_order.len() > 1) {
            state.forget_oldest();
        }
        id
    }

    fn resolve(&self, holder: &IdHolder, id: &str) -> FolderLookup {
        let (Ok(id), now) = (Uuid::try_parse(id), self.clock.now()) else { return FolderLookup::Unknown };
        match self.state.lock().by_id.get(&id).filter(|issued| issued.holder == *holder) {
            Some(issued) if issued.age(now) <= LIFETIME => FolderLookup::Found(issued.folder.clone()),
            // For as long again, the agent gets to know that the id has expired.
            Some(issued) if issued.age(now) <= 2 * LIFETIME => FolderLookup::Expired,
            _ => FolderLookup::Unknown,
        }
    }

    fn was_seen(&self, id: &str, file: &str) -> bool {
        let Ok(id) = Uuid::try_parse(id) else { return false };
        let hash = self.name_hasher.hash_one(file);
        let state = self.state.lock();
        state.by_id.get(&id).is_some_and(|issued| issued.seen.binary_search(&hash).is_ok())
    }

    fn expire(&self) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        while let Some(oldest) = state.in_order.front().map(|id| &state.by_id[id])
            && oldest.age(now) > 2 * LIFETIME
        {
            state.forget_oldest();
        }
    }

    fn count(&self) -> usize {
        let now = self.clock.now();
        self.state.lock().by_id.values().filter(|issued| issued.age(now) <= LIFETIME).count()
    }
}

impl State {
    fn forget_oldest(&mut self) {
        if let Some(id) = self.in_order.pop_front()
            && let Some(issued) = self.by_id.remove(&id)
        {
            self.names -= issued.seen.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::FixedClock;

    fn holder(agent: &str) -> IdHolder {
        IdHolder { organization: "acme".into(), agent: agent.into() }
    }

    fn folder(owner: &str) -> IssuedFolder {
        let subfolder = "".into();
        IssuedFolder {
            owner_id: owner.into(),
            visibility: Visibility::Shared,
            scope: FolderScope::OrgShared,
            subfolder,
        }
    }

    fn ids() -> (Arc<FixedClock>, MemoryFolderIds) {
        let clock = Arc::new(FixedClock::at(Timestamp::from_secs(1_790_000_000)));
        (Arc::clone(&clock), MemoryFolderIds::new(clock))
    }

    fn issue(ids: &MemoryFolderIds, agent: &str, owner: &str) -> String {
        ids.issue(&holder(agent), folder(owner), &mut std::iter::empty()).to_string()
    }

    #[test]
    fn f55_to_f57_and_f72_ids_are_random_uuids_of_version_4_without_duplicates() {
        let (_, ids) = ids();
        let issued: std::collections::HashSet<_> = (0..1_000).map(|_| issue(&ids, "a", "team")).collect();
        assert_eq!(issued.len(), 1_000);
        assert!(issued.iter().all(|id| Uuid::parse_str(id).unwrap().get_version_num() == 4));
        for id in &issued {
            assert_eq!(ids.resolve(&holder("a"), id), FolderLookup::Found(folder("team")));
        }
    }

    #[test]
    fn f58_to_f60_and_f62_an_id_is_valid_for_30_minutes_however_often_it_is_used() {
        let (clock, ids) = ids();
        let id = issue(&ids, "a", "team");
        let resolve_after = |seconds| {
            clock.advance(Duration::from_secs(seconds));
            ids.resolve(&holder("a"), &id)
        };
        for seconds in [0, 29 * 60, 60] {
            assert_eq!(resolve_after(seconds), FolderLookup::Found(folder("team")));
        }
        assert_eq!(resolve_after(1), FolderLookup::Expired);
        assert_eq!(resolve_after(30 * 60 - 1), FolderLookup::Expired);
        assert_eq!(resolve_after(1), FolderLookup::Unknown, "it is forgotten after as long again");
    }

    #[test]
    fn f61_f67_and_f68_an_id_of_another_agent_or_organization_is_unknown() {
        let (_, ids) = ids();
        let id = issue(&ids, "a", "team");
        let other_organization = IdHolder { organization: "globex".into(), ..holder("a") };
        for other in [holder("b"), other_organization] {
            assert_eq!(ids.resolve(&other, &id), FolderLookup::Unknown);
        }
        for never in ["", "x", "00000000-0000-4000-8000-000000000000"] {
            assert_eq!(ids.resolve(&holder("a"), never), FolderLookup::Unknown);
        }
    }

    #[test]
    fn f64_expired_ids_are_removed_without_being_used() {
        let (clock, ids) = ids();
        for _ in 0..10 {
            issue(&ids, "a", "team");
        }
        assert_eq!(ids.count(), 10);
        clock.advance(LIFETIME + Duration::from_secs(1));
        assert_eq!(ids.count(), 0);
        clock.advance(LIFETIME);
        ids.expire();
        assert!(ids.state.lock().by_id.is_empty());
    }

    #[test]
    fn f65_a_million_discoveries_leave_ids_and_memory_bounded_and_the_oldest_go_first() {
        let (_, ids) = ids();
        let names: Vec<_> = (0..20).map(|index| format!("file-{index}")).collect();
        // What is held, and what is allocated for it.
        let sizes = || {
            let state = ids.state.lock();
            let seen: usize = state.by_id.values().map(|issued| issued.seen.len()).sum();
            assert_eq!((state.by_id.len(), state.names), (state.in_order.len(), seen));
            assert!(state.by_id.len() <= MAX_IDS && state.names <= MAX_NAMES);
            ([state.by_id.len(), seen], [state.by_id.capacity(), state.in_order.capacity()])
        };
        let issue = || ids.issue(&holder("a"), folder("team"), &mut names.iter().map(String::as_str));
        let first = issue().to_string();
        let resolve = |id: &str| ids.resolve(&holder("a"), id);
        let is_found = |id: &str| resolve(id) == FolderLookup::Found(folder("team"));
        // The names of files reach their bound before the ids do.
        let bound = MAX_NAMES / names.len();
        for _ in 1..bound {
            issue();
        }
        assert!(is_found(&first));
        issue();
        assert_eq!(resolve(&first), FolderLookup::Unknown, "the oldest one is forgotten first");
        let at_bound = sizes();
        let mut issued = VecDeque::new();
        for _ in bound + 1..1_000_000 {
            issued.push_back(issue());
            if issued.len() > bound + 1 {
                issued.pop_front();
            }
        }
        let (held, allocated) = sizes();
        assert_eq!(held, at_bound.0);
        assert!(allocated.iter().zip(at_bound.1).all(|(&now, then)| now <= 2 * then), "{allocated:?}");
        // Those of the newest discoveries are in it, and no other.
        assert_eq!(resolve(&issued.pop_front().unwrap().to_string()), FolderLookup::Unknown);
        assert!(issued.iter().all(|id| is_found(&id.to_string())));
    }

    #[test]
    fn f70_ids_issued_and_used_by_many_threads_are_neither_lost_nor_crossed() {
        let (_, ids) = ids();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let ids = &ids;
                scope.spawn(move || {
                    let (agent, owner) = (format!("agent-{thread}"), format!("team-{thread}"));
                    for _ in 0..2_000 {
                        let id = issue(ids, &agent, &owner);
                        assert_eq!(ids.resolve(&holder(&agent), &id), FolderLookup::Found(folder(&owner)));
                        assert_eq!(ids.resolve(&holder("agent-x"), &id), FolderLookup::Unknown);
                    }
                });
            }
        });
        assert_eq!(ids.count(), 16_000);
    }

    #[test]
    fn f99_the_names_that_an_agent_saw_are_remembered() {
        let (_, ids) = ids();
        let id = ids.issue(&holder("a"), folder("team"), &mut ["a.md", "b.md"].into_iter()).to_string();
        assert!(ids.was_seen(&id, "b.md") && !ids.was_seen(&id, "c.md"));
    }
}
