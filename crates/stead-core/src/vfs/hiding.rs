//! Hidden names at the door ([`crate::hide`]): for every call they don't exist, except for a mount, which lists them and
//! doesn't open them.

use std::ops::ControlFlow;

use crate::error::{Error, Result, Visibility};
use crate::hide::HiddenNames;
use crate::path::VfsPath;
use crate::router::Route;
use crate::scope::Access;
use crate::search::WalkOptions;
use crate::store::{HiddenRule, StoreError, StorePath};
use crate::vfs::call::Call;
use crate::vfs::resolve::ResolvedPath;
use crate::vfs::{IntoPath, Vfs};

/// What hidden names are for the calls through a `Vfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum HiddenFiles {
    /// They don't exist, and can't be created.
    #[default]
    Absent,
    /// They are listed with their attributes, and can be created, renamed among themselves and removed. Existing ones
    /// can't be opened. If they were absent for programs, a program that records which files there are, such as git,
    /// would take them for removed.
    Listed,
}

impl Vfs {
    /// How many names below a directory are hidden from the caller, in all Workspaces that it may read there. A hidden
    /// directory counts once. For reports of what a transfer leaves out.
    pub fn count_hidden(&self, path: impl IntoPath) -> Result<u64> {
        self.call("count_hidden", [path.into_path()], |call, [path]| {
            let mut count = 0;
            for region in call.regions(path)? {
                let Some(hidden) = region.root.hidden_names() else { continue };
                let mut tops = HiddenTops::new([hidden]);
                let walk = WalkOptions { skip: region.skip, ..WalkOptions::default() };
                let walked = region.root.store().walk(&region.root.node_path, &walk, &mut |entry| {
                    tops.covers(&entry.path);
                    match call.check_not_stopped() {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    }
                });
                match walked {
                    Ok(()) | Err(StoreError::NotFound | StoreError::NotADirectory) => count += tops.count,
                    Err(cause) => return Err(region.root.store_error(cause)),
                }
            }
            call.check_not_stopped()?;
            Ok(count)
        })
    }
}

impl Call<'_> {
    /// Refuses access to a hidden name, whether or not something has the name.
    pub(super) fn check_not_hidden(
        &self,
        path: &VfsPath,
        route: Route<'_, '_>,
        access: Access,
    ) -> Result<()> {
        let Route { workspace, relative_path } = route;
        if self.vfs.hidden_files == HiddenFiles::Listed || !workspace.hide().hides(relative_path) {
            return Ok(());
        }
        match access {
            // A nested Workspace is reached through a hidden directory, and nothing else in that directory is.
            Access::Read if self.shared().router.nested(path).next().is_some() => Ok(()),
            Access::Read | Access::History => Err(Error::Store {
                path: path.clone(),
                visibility: Visibility::Visible,
                cause: StoreError::NotFound,
            }),
            Access::Write | Access::MoveOut | Access::Restore => {
                Err(Error::HiddenName { path: path.clone(), workspace: workspace.prefix().clone() })
            }
        }
    }
}

impl ResolvedPath<'_> {
    /// What is hidden below this path.
    pub(super) fn hidden_names(&self) -> Option<HiddenNames> {
        HiddenNames::below(self.workspace.hide(), self.relative_path())
    }

    /// Refuses to open an existing file with a hidden name.
    pub(super) fn check_openable(&self) -> Result<()> {
        if self.workspace.hide().hides(self.relative_path()) {
            let workspace = self.workspace.prefix().clone();
            return Err(Error::HiddenName { path: self.path.clone(), workspace });
        }
        Ok(())
    }
}

/// The rule for a step that must not touch anything hidden at one of these paths.
pub(super) fn hidden_stay_untouched<const N: usize>(places: [&ResolvedPath<'_>; N]) -> Option<HiddenRule> {
    let hidden: Vec<_> = places.into_iter().filter_map(ResolvedPath::hidden_names).collect();
    (!hidden.is_empty()).then_some(HiddenRule::Untouched(hidden))
}

/// The tops of the hidden subtrees that a walk visits.
pub(super) struct HiddenTops {
    places: Vec<HiddenNames>,
    last: Option<StorePath>,
    /// How many there are so far.
    pub(super) count: u64,
}

impl HiddenTops {
    /// For a walk from a directory, which is or will be at these places.
    pub(super) fn new(places: impl IntoIterator<Item = HiddenNames>) -> Self {
        HiddenTops { places: places.into_iter().collect(), last: None, count: 0 }
    }

    /// Whether the next entry of the walk is hidden at one of the places.
    pub(super) fn covers(&mut self, path: &StorePath) -> bool {
        if self.last.as_ref().is_some_and(|top| path.is_at_or_below(top)) {
            return true;
        }
        let is_top = self.places.iter().any(|hidden| hidden.hides_entry(path.as_bytes()));
        if is_top {
            self.count += 1;
            self.last = Some(path.clone());
        }
        is_top
    }
}
