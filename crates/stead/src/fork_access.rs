//! What a fork may show: no more than its maker can see now of the part of the Store that the fork was made from.
//!
//! A fork has content of its base. So what a configuration withdraws from the maker of a fork, it withdraws from the owner
//! of the fork too, whether that is the same agent or another one.

use stead_core::hide::DEFAULT_HIDE;
use stead_core::store::Fork;
use stead_core::{Access, VfsPath};
use stead_stores::ForkRecord;

use crate::config::{Config, StoreConfig, WorkspaceConfig};
use crate::stores::is_directory_at;

/// The fork as it may be shown under this configuration, or `None` if it may not be shown.
///
/// It may be shown while its maker is configured, and while the agent whose Workspace the content comes from has a
/// Workspace that shows the same part of the same Store for reading. What this Workspace withholds, the fork withholds:
/// nested Workspaces are excluded, the stricter approval policy applies, and what its `hide` globs hide is hidden.
pub(crate) fn shown_fork(config: &Config, record: &ForkRecord) -> Option<Fork> {
    if !config.has_agent(&record.fork.created_by) {
        return None;
    }
    let origin = config.agent(&record.origin)?;
    let workspaces = &origin.workspaces;
    // A fork of an organization's folder may be from before the migration, when the folder was at another place.
    let base = match &origin.membership {
        Some(membership) => membership.organization.in_present_layout(&record.fork.path),
        None => record.fork.path.clone(),
    };
    let is_readable = |workspace: &&WorkspaceConfig| {
        workspace.scope.allows(Access::History) && is_over_base(config, workspace, record)
    };
    let with_top = |workspace| Some((workspace, shown_at(workspaces, workspace, &base)?));
    let mut showing = workspaces.iter().filter(is_readable).filter_map(with_top);
    let is_base = |(workspace, _): &(&WorkspaceConfig, VfsPath)| workspace.prefix == record.fork.base_prefix;
    let first = showing.next()?;
    let (workspace, top) = if is_base(&first) { first } else { showing.find(is_base).unwrap_or(first) };

    let mut fork = record.fork.clone();
    fork.approval_policy = fork.approval_policy.max(workspace.ask);
    let hide = workspace.hide.clone().unwrap_or_else(|| DEFAULT_HIDE.map(str::to_owned).to_vec());
    if hide != fork.hide {
        // Of two globs that match a name, the later one decides.
        fork.hide.extend(hide);
    }
    for nested in workspaces.iter().filter_map(|nested| nested.prefix.strip_prefix(&top)) {
        let Ok(path) = VfsPath::root().join(nested) else { continue };
        if !path.is_root() && !fork.excluded.iter().any(|outer| path.strip_prefix(outer).is_some()) {
            fork.excluded.push(path);
        }
    }
    fork.excluded.sort();
    Some(fork)
}

/// Whether a Workspace shows the Store that the fork's content comes from.
pub(crate) fn is_over_base(config: &Config, workspace: &WorkspaceConfig, record: &ForkRecord) -> bool {
    match (config.stores.get(&workspace.store), &record.directory) {
        (Some(StoreConfig::Virtual { namespace }), None) => *namespace == record.namespace,
        (Some(store), Some(location)) => is_directory_at(config, store, location),
        _ => false,
    }
}

/// The logical path where a Workspace shows this path of its Store; `None` if the path is outside of the Workspace or in
/// one nested in it.
fn shown_at(workspaces: &[WorkspaceConfig], workspace: &WorkspaceConfig, path: &VfsPath) -> Option<VfsPath> {
    let top = workspace.prefix.join(path.strip_prefix(&workspace.path)?).ok()?;
    let containing = workspaces.iter().filter(|other| top.strip_prefix(&other.prefix).is_some());
    let nearest = containing.max_by_key(|other| other.prefix.depth())?;
    (nearest.prefix == workspace.prefix).then_some(top)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use stead_core::ApprovalPolicy;
    use stead_core::Timestamp;
    use stead_core::store::QuotaLimits;
    use stead_stores::{Database, DatabaseOptions};

    use super::*;

    fn workspace(agent: &str, prefix: &str, settings: &str) -> String {
        format!("[[agents.{agent}.workspaces]]\nprefix = \"{prefix}\"\nstore = \"notes\"\n{settings}\n")
    }

    fn config(workspaces: &[String]) -> Config {
        let stores = "[stores.notes]\nkind = \"virtual\"\n[stores.other]\nkind = \"virtual\"\n";
        let text = format!("{stores}{}", workspaces.concat());
        Config::parse(&text, Path::new("stead.toml")).unwrap()
    }

    /// A fork of `/notes/part`, which `ann` has at `/base`.
    fn record() -> ForkRecord {
        use stead_core::store::Forks;
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path().join("db"), DatabaseOptions::default()).unwrap();
        let fork = Fork {
            owner: "bob".into(),
            name: "draft".parse().unwrap(),
            created_by: "ann".into(),
            base_prefix: VfsPath::parse("/base").unwrap(),
            path: VfsPath::parse("/part").unwrap(),
            protect: Vec::new(),
            hide: vec!["old-secret".into()],
            scratch: Vec::new(),
            quota: QuotaLimits::default(),
            approval_policy: ApprovalPolicy::Changes,
            excluded: vec![VfsPath::parse("/old").unwrap()],
            created: Timestamp(0),
            pinned_at: None,
            lease: None,
            place: VfsPath::root(),
            scope: stead_core::AccessScope::ReadWrite,
            parts: Vec::new(),
            made_by: None,
        };
        let notes = database.store(["notes"]).unwrap();
        Forks::fork(&notes, std::sync::Arc::new(notes.clone()), &fork).unwrap();
        database.fork_records("bob").unwrap().remove(0)
    }

    const RO_PART: &str = "scope = \"ro\"\npath = \"/part\"";

    #[test]
    fn a_fork_is_shown_while_its_maker_can_read_the_same_part_of_the_store() {
        let bob = workspace("bob", "/b", "scope = \"rw\"\npath = \"/elsewhere\"");
        let is_shown = |workspaces: &[String]| shown_fork(&config(workspaces), &record()).is_some();
        for settings in [RO_PART, "scope = \"rw\"\npath = \"/part\"", "scope = \"ro\""] {
            for prefix in ["/base", "/renamed"] {
                assert!(is_shown(&[workspace("ann", prefix, settings), bob.clone()]), "{prefix} {settings}");
            }
        }
        let other_store = workspace("ann", "/base", RO_PART).replace("\"notes\"", "\"other\"");
        for ann in [
            workspace("ann", "/base", "scope = \"wo\"\npath = \"/part\""),
            workspace("ann", "/base", "scope = \"rw\"\npath = \"/part/deeper\""),
            workspace("ann", "/base", "scope = \"rw\"\npath = \"/partly\""),
            workspace("someone", "/base", RO_PART),
            other_store,
        ] {
            assert!(!is_shown(&[ann.clone(), bob.clone()]), "{ann}");
        }
        // A nested Workspace is in front of the part.
        let whole = workspace("ann", "/all", "scope = \"ro\"");
        let in_front = workspace("ann", "/all/part", "scope = \"wo\"\npath = \"/part\"");
        assert!(!is_shown(&[whole, in_front, bob]));
    }

    #[test]
    fn a_fork_withholds_what_its_base_withholds_by_now() {
        let nested = |prefix: &str| workspace("ann", prefix, "scope = \"ro\"\npath = \"/x\"");
        let base =
            workspace("ann", "/base", &format!("{RO_PART}\nask = \"everything\"\nhide = [\"new-secret\"]"));
        let config = config(&[
            base,
            nested("/base/new"),
            nested("/base/new/inner"),
            nested("/base/old/inner"),
            nested("/elsewhere"),
        ]);
        let fork = shown_fork(&config, &record()).unwrap();
        let excluded: Vec<_> = fork.excluded.iter().map(VfsPath::as_str).collect();
        assert_eq!(excluded, ["/new", "/old"]);
        assert_eq!(fork.approval_policy, ApprovalPolicy::Everything);
        assert_eq!(fork.hide, ["old-secret", "new-secret"]);
        // It never gives back what it withheld from the beginning.
        let hides_nothing = workspace("ann", "/base", &format!("{RO_PART}\nhide = []"));
        let plain = shown_fork(&self::config(&[hides_nothing]), &record()).unwrap();
        assert_eq!(plain.hide, ["old-secret"]);
        assert_eq!(
            (plain.excluded, plain.approval_policy),
            (record().fork.excluded, ApprovalPolicy::Changes)
        );
    }
}
