//! Whether all that a file holds was written by the caller.
//!
//! A WRITE_ONLY caller may edit and move what it wrote itself: that tells nothing which it did not know. It may add to a
//! file of another, and write into a part of it; the newest version is its own then, and the content is not. So the
//! versions are gone through from the newest on, until one is found that left nothing of what was there before it.

use crate::error::{Error, Result, Sight};
use crate::identity::Identity;
use crate::path::VfsPath;
use crate::store::{Deed, DeedQuery, Expect, Keep, Kind, Line, NodeId, Past, State, Version, VersionTag};
use crate::vfs::call::Call;
use crate::vfs::resolve::{Spot, Stop};

/// What changes are called that may leave something of what was there before.
const ADDING: [&str; 3] = ["append", "append_file", "open"];
/// What changes are called that leave the content as it is.
const ATTRIBUTES: &str = "set_attributes";
/// How many versions of a file are read at once.
const AT_ONCE: usize = 16;
/// How many versions of a file are gone through at the most.
const MOST: usize = 1_024;

/// What a change does to the content of a file that the caller may not look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    /// Nothing of what was there.
    Nothing,
    /// Perhaps something.
    Something,
}

/// What one version says of who wrote the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// All of it is the caller's.
    Own,
    /// It is, if what was there before is.
    AsBefore,
    /// Some of it is not.
    NotOwn,
}

impl Call<'_> {
    /// The state of a file that the caller has written all of; everything else is denied in one and the same way.
    pub(super) fn check_own(&self, spot: &Spot<'_>) -> Result<VersionTag> {
        self.own_state(spot).ok_or_else(|| not_own(spot))
    }

    /// Compares the version tag that a change expects, where the caller may not look. An answer to it tells something about
    /// the file, so there it is given for a file of the caller's own only; every other file is denied as an edit is.
    pub(super) fn check_expected(&self, spot: &Spot<'_>, expect: Expect) -> Result<(), Stop> {
        match expect {
            Expect::Tag(_) | Expect::ShortTag(_) if spot.sight() == Sight::Blind => {
                let own = self.check_own(spot)?;
                Ok(expect.check(Some(own))?)
            }
            _ => Ok(()),
        }
    }

    fn own_state(&self, spot: &Spot<'_>) -> Option<VersionTag> {
        let store = spot.store();
        if spot.is_secret || spot.keep() == Keep::Scratch || !store.about().history {
            return None;
        }
        let attr = store.stat(&spot.place).ok().filter(|attr| attr.kind == Kind::File)?;
        // What the version after the one that is looked at found there.
        let mut found: Option<Past> = None;
        let (mut upto, mut left) = (Version::NOW, MOST);
        loop {
            let query = DeedQuery { upto, limit: AT_ONCE, at: Some(spot.place.clone()), ..DeedQuery::all() };
            let deeds = store.deeds(&query).ok()?;
            if upto == Version::NOW {
                let now = deeds.now.get(&attr.node).filter(|now| now.tag == attr.tag)?;
                found = Some(now.state.as_ref()?.content.clone()?);
            }
            let last = deeds.deeds.last()?.version;
            for deed in &deeds.deeds {
                let line = line_of(deed, attr.node)?;
                // Where a program of the host has changed it in between, nothing records who did.
                if line.after.as_ref()?.content != found {
                    return None;
                }
                match says(deed, line, self.vfs.identity()) {
                    Says::Own => return Some(attr.tag),
                    Says::NotOwn => return None,
                    Says::AsBefore => found = Some(line.before.as_ref()?.content.clone()?),
                }
            }
            left = left.checked_sub(deeds.deeds.len())?;
            upto = Version(last.0 - 1);
        }
    }

    /// Says what a change does to content, where the caller may not look: who wrote a file is found by it later.
    pub(super) fn leaves(&self, spot: &Spot<'_>, leaves: Leaves) {
        if spot.sight() == Sight::Blind {
            self.called_as(leaves);
        }
    }

    /// Calls a change of attributes by its name, where the caller may not look.
    pub(super) fn sets_attributes(&self, spot: &Spot<'_>) {
        if spot.sight() == Sight::Blind {
            self.renamed.set(Some(ATTRIBUTES));
        }
    }

    /// Calls a change by a name that tells what it leaves, unless the name that it has does.
    pub(super) fn called_as(&self, leaves: Leaves) {
        let adds = ADDING.contains(&&*self.tool());
        match (leaves, adds) {
            (Leaves::Something, false) => self.renamed.set(Some("append")),
            (Leaves::Nothing, true) => self.renamed.set(Some("write")),
            (Leaves::Something, true) | (Leaves::Nothing, false) => {}
        }
    }
}

/// The one denial, whatever is there or not.
pub(super) fn not_own(spot: &Spot<'_>) -> Error {
    let workspace: VfsPath = spot.workspace.prefix().clone();
    Error::NotYourOwn { path: spot.shown.clone(), workspace }
}

fn line_of(deed: &Deed, node: NodeId) -> Option<&Line> {
    deed.lines.iter().find(|line| line.node == node)
}

fn says(deed: &Deed, line: &Line, caller: &Identity) -> Says {
    let Identity { agent, thread, organization, .. } = &*deed.operation.identity;
    if (agent, thread, organization) != (&caller.agent, &caller.thread, &caller.organization) {
        return Says::NotOwn;
    }
    let place = |state: &State| (state.parent, state.name.clone());
    let tool = &*deed.operation.tool;
    match (&line.before, &line.after) {
        // Whether it was there before must not be told by what may be done with it afterwards.
        (None, Some(_)) if ADDING.contains(&tool) => Says::NotOwn,
        (None, Some(_)) => Says::Own,
        // Only what is one's own, or may be read, can be moved.
        (Some(before), Some(after)) if place(before) != place(after) => Says::Own,
        (Some(_), Some(_)) if ADDING.contains(&tool) || tool == ATTRIBUTES => Says::AsBefore,
        // Also where it wrote what was there already: it must not learn that its guess was right.
        (Some(_), Some(_)) => Says::Own,
        (_, None) => Says::NotOwn,
    }
}
