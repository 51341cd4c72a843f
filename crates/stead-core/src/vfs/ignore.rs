//! The ignore rules with which a walk or a search starts.

use crate::hide::HiddenNames;
use crate::name::Name;
use crate::search::{DirectoryRules, IgnoreFiles, IgnoreRules, MAX_IGNORE_FILE};
use crate::store::StorePath;
use crate::vfs::Unreadable;
use crate::vfs::call::Call;
use crate::vfs::list::{WalkRegion, store_path_below};

impl Call<'_> {
    /// The rules for a walk of a region; `None` if ignore files are to be disregarded, or the region is a file.
    ///
    /// `named` is the path below the region's root that the caller names outright. The ignore files above the root are
    /// read here, up to the root of the Workspace, which the caller may read as a whole.
    pub(super) fn ignore_rules(
        &self,
        region: &WalkRegion<'_>,
        ignore_files: IgnoreFiles,
        named: String,
        unreadable: &mut Vec<Unreadable>,
    ) -> Option<IgnoreRules> {
        if ignore_files == IgnoreFiles::Disregarded || !region.is_directory {
            return None;
        }
        let (root, prefix) = (&region.root, region.root.workspace.prefix());
        let nested = self.shared().router.nested(prefix);
        let covered = nested.filter_map(|nested| store_path_below(nested.prefix(), prefix)).collect();
        let start = StorePath::from_checked(root.relative_path());
        let hide = HiddenNames::below(root.workspace.hide(), "");
        let rules = IgnoreRules::new(covered).hiding(hide).naming(start.clone());
        let mut above = DirectoryRules::default();
        let mut directory = StorePath::empty();
        for name in start.components() {
            above = enter(region, &rules, &above, &directory);
            directory = directory.child(name);
        }
        unreadable.extend(rules.unreadable().take().into_iter().map(|(path, cause)| Unreadable {
            path: if prefix.is_root() { format!("/{path}") } else { format!("{prefix}/{path}") },
            reason: cause.to_string(),
        }));
        // A glob may begin with names that no path has, such as `..`.
        let is_path = named.split('/').all(|name| Name::new(name.as_bytes()).is_some());
        let named = if is_path { StorePath::from_checked(named) } else { StorePath::empty() };
        Some(rules.starting_at(start, &above).naming(named))
    }
}

/// The rules in a directory above a region's root; its path is relative to the Workspace's root.
fn enter(
    region: &WalkRegion<'_>,
    rules: &IgnoreRules,
    above: &DirectoryRules,
    directory: &StorePath,
) -> DirectoryRules {
    const NAMES: [&[u8]; 3] = IgnoreRules::NAMES;
    let mount = region.root.workspace.mount();
    let node_path = |path: &StorePath| mount.node_path("").join(path.as_bytes());
    let attrs = region.root.store().stat_many(&NAMES.map(|name| node_path(&directory.child(name))));
    let found = NAMES.into_iter().zip(attrs).filter_map(|(name, attr)| Some((name, attr.ok()?.kind)));
    rules.enter(above, directory, found, |path| {
        Ok(region.root.store().read(&node_path(path), MAX_IGNORE_FILE)?.bytes)
    })
}
