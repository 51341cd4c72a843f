//! The older layout of an organization's directory, `agents/{id}` and `teams/{id}` instead of `workspaces/{id}`: how steads
//! use it while it is there, and how it is migrated.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;

use stead_core::organization::{Organization, WORKSPACES_DIRECTORY};
use stead_core::store::NodeKind;
use stead_core::vfs::{ListPage, Overwrite, RemoveOptions, SymlinkRule, WalkQuery};
use stead_core::{AccessScope, Identity, Mount, Store, Vfs, VfsPath, Workspace};

use crate::config::WorkspaceConfig;
use crate::error::{Error, Result};
use crate::stead::SYSTEM_IDENTITY;
use crate::stores::Stores;

/// The directories of the older layout.
pub(crate) const OLD_DIRECTORIES: [&str; 2] = ["agents", "teams"];

/// What an organization still has in the older layout, until its migration has finished.
#[derive(Debug)]
pub(crate) struct OldLayout<'o> {
    organization: &'o Organization,
    /// Whether there is one of the older directories. The migration removes them at its end.
    exists: bool,
    /// The directory, `agents` or `teams`, that each id is in.
    directories: HashMap<String, &'static str>,
    /// The ids that have a directory in the present layout too. That one is used then.
    migrated: HashSet<String>,
}

impl<'o> OldLayout<'o> {
    /// Looks for the older layout in a Store. A Store that can't be read counts as one without it.
    pub(crate) fn of(organization: &'o Organization, store: &Arc<dyn Store>) -> Self {
        let (directories, migrated) = (HashMap::new(), HashSet::new());
        let mut layout = OldLayout { organization, exists: false, directories, migrated };
        let Ok(vfs) = whole_store(store) else { return layout };
        for directory in OLD_DIRECTORIES {
            let path = layout.path(directory);
            if !vfs.is_directory(&path).unwrap_or_default() {
                continue;
            }
            layout.exists = true;
            for name in names_in(&vfs, &path).unwrap_or_default() {
                layout.directories.entry(name).or_insert(directory);
            }
        }
        if layout.exists {
            let migrated = names_in(&vfs, &layout.path(WORKSPACES_DIRECTORY)).unwrap_or_default();
            layout.migrated.extend(migrated);
        }
        layout
    }

    fn path(&self, directory: &str) -> VfsPath {
        VfsPath::parse(&format!("/organizations/{}/{directory}", self.organization.id()))
            .expect("ids were checked")
    }

    /// Makes the Workspaces of what hasn't been migrated show the older directories. The older paths stay for all of them until
    /// the migration has finished: those of what has been migrated show the present directories.
    pub(crate) fn apply_to(&self, workspaces: &mut Vec<WorkspaceConfig>) {
        if !self.exists {
            return;
        }
        let mut under_old_paths = Vec::new();
        for workspace in workspaces.iter_mut() {
            let Some((owner, half)) = folder_parts(&workspace.prefix) else { continue };
            let is_agent = self.organization.agent_index(owner).is_some();
            let old_directory = self.directories.get(owner).copied();
            let directory = old_directory.unwrap_or(if is_agent { "agents" } else { "teams" });
            let Ok(prefix) = VfsPath::parse(&format!("/{directory}/{owner}/{half}")) else { continue };
            let mut old = workspace.clone();
            if old_directory.is_some()
                && let Ok(owner_directory) = self.path(directory).join(owner)
            {
                old.path = owner_directory.join(half).expect("the half is a name");
                old.quota_root = workspace.quota_root.as_ref().map(|_| owner_directory);
                if !self.migrated.contains(owner) {
                    *workspace = old.clone();
                }
            }
            under_old_paths.push(WorkspaceConfig { prefix, ..old });
        }
        workspaces.extend(under_old_paths);
    }
}

/// The owner and the half in the prefix of a folder's Workspace, in either layout.
pub(crate) fn folder_parts(prefix: &VfsPath) -> Option<(&str, &str)> {
    let (directory, rest) = prefix.as_str().strip_prefix('/')?.split_once('/')?;
    let is_folder = directory == WORKSPACES_DIRECTORY || OLD_DIRECTORIES.contains(&directory);
    is_folder.then_some(rest)?.split_once('/')
}

/// What [`Stores::migrate_organization`] did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MigrationReport {
    /// The directories that were moved.
    pub moved: Vec<MovedDirectory>,
    /// The directories that stay where they are, with the reason.
    pub clashes: Vec<MigrationClash>,
    /// The emptied directories that were removed.
    pub removed: Vec<VfsPath>,
}

/// A directory that was moved with everything in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MovedDirectory {
    /// Where it was in the Store.
    pub from: VfsPath,
    /// Where it is now.
    pub to: VfsPath,
    /// How many files and symlinks it has.
    pub files: u64,
    /// The size of its files in bytes.
    pub bytes: u64,
}

/// A directory that can't be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationClash {
    /// The directory.
    pub directory: VfsPath,
    /// Why it stays where it is, and what to do.
    pub reason: String,
}

/// Everything below a directory, as one hash, with counts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TreeDigest {
    hash: blake3::Hash,
    files: u64,
    bytes: u64,
}

impl Stores {
    /// Moves what an organization has in the older layout to the present one. A dry run changes nothing and reports the
    /// same. All moves are one operation.
    ///
    /// Contents are compared by their hashes before the emptied directories are removed.
    pub fn migrate_organization(
        &self,
        id: &str,
        dry_run: bool,
        progress: &mut dyn FnMut(&VfsPath),
    ) -> Result<MigrationReport> {
        let config = self.config();
        let organization = config.organizations.iter().find(|config| config.organization.id() == id);
        let organization = organization
            .ok_or_else(|| Error::Invalid(format!("there is no organization `{}`", id.escape_debug())))?;
        let store = self.get(&organization.store)?;
        let mut builder = Vfs::builder(Identity::agent(SYSTEM_IDENTITY)).workspace(whole_workspace(&store));
        if let Some(log) = self.audit() {
            builder = builder.audit(log);
        }
        // A symlink in place of one of these directories would lead the files elsewhere.
        let vfs = builder.build()?.operation("org migrate").with_symlinks(SymlinkRule::Refuse);
        let base = VfsPath::parse(&format!("/organizations/{id}")).map_err(stead_core::Error::from)?;
        Migration { vfs, base, dry_run, report: MigrationReport::default() }.run(progress)
    }
}

struct Migration {
    vfs: Vfs,
    /// The organization's directory.
    base: VfsPath,
    dry_run: bool,
    report: MigrationReport,
}

impl Migration {
    fn run(mut self, progress: &mut dyn FnMut(&VfsPath)) -> Result<MigrationReport> {
        let mut names: Vec<(&str, String)> = Vec::new();
        for directory in OLD_DIRECTORIES {
            let found = names_in(&self.vfs, &self.join(&[directory])?)?;
            names.extend(found.into_iter().map(|name| (directory, name)));
        }
        for (directory, name) in &names {
            let from = self.join(&[directory, name])?;
            progress(&from);
            let is_shared = names.iter().filter(|(_, other)| other == name).count() > 1;
            let reason = if is_shared {
                Some(
                    "an agent and a team have this id; give one of them another id and rename its directory"
                        .to_owned(),
                )
            } else {
                self.move_directory(&from, name)?
            };
            if let Some(reason) = reason {
                self.report.clashes.push(MigrationClash { directory: from, reason });
            }
        }
        self.remove_emptied(&names)?;
        Ok(self.report)
    }

    fn join(&self, parts: &[&str]) -> Result<VfsPath> {
        let joined = parts.iter().try_fold(self.base.clone(), |path, part| path.join(part));
        Ok(joined.map_err(stead_core::Error::from)?)
    }

    /// Moves a directory. Returns why it has to stay, if so.
    fn move_directory(&mut self, from: &VfsPath, name: &str) -> Result<Option<String>> {
        let to = self.join(&[WORKSPACES_DIRECTORY, name])?;
        if !self.vfs.is_directory(from)? {
            return Ok(Some("it isn't a directory; move it by hand".to_owned()));
        }
        if self.vfs.exists(&to)? && digest(&self.vfs, &to)?.files > 0 {
            return Ok(Some(format!("`{to}` exists and has files; merge the two by hand")));
        }
        let before = digest(&self.vfs, from)?;
        if !self.dry_run {
            if self.vfs.exists(&to)? {
                // Empty folders, made at an agent's first use.
                let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
                self.vfs.remove_directory(&to, recursive)?;
            }
            self.vfs.mkdir(&self.join(&[WORKSPACES_DIRECTORY])?, stead_core::store::Parents::Create)?;
            self.vfs.rename(from, &to, Overwrite::Refuse)?;
            let after = digest(&self.vfs, &to)?;
            if after != before {
                return Err(Error::Invalid(format!(
                    "`{from}` was moved to `{to}`, but something changed there meanwhile; stop what writes there, and \
                     compare it with a backup"
                )));
            }
        }
        let TreeDigest { files, bytes, .. } = before;
        self.report.moved.push(MovedDirectory { from: from.clone(), to, files, bytes });
        Ok(None)
    }

    /// Removes the directories of the older layout that have nothing left in them.
    fn remove_emptied(&mut self, names: &[(&str, String)]) -> Result<()> {
        for directory in OLD_DIRECTORIES {
            let path = self.join(&[directory])?;
            if !self.vfs.exists(&path)? {
                continue;
            }
            let stays = self.report.clashes.iter().any(|clash| clash.directory.strip_prefix(&path).is_some());
            let is_empty = match self.dry_run {
                true => !stays && names.iter().any(|(of, _)| *of == directory),
                false => names_in(&self.vfs, &path)?.is_empty(),
            };
            // Somebody may write there at the same moment. What isn't empty stays.
            let remove = || self.vfs.remove_directory(&path, RemoveOptions::default()).is_ok();
            if is_empty && (self.dry_run || remove()) {
                self.report.removed.push(path);
            }
        }
        Ok(())
    }
}

/// A Workspace that shows all of a Store, for what Stead does itself.
pub(crate) fn whole_workspace(store: &Arc<dyn Store>) -> Workspace {
    let mount = Mount::new(Arc::clone(store));
    let workspace = Workspace::new(VfsPath::root(), AccessScope::ReadWrite, mount);
    let nothing: [&str; 0] = [];
    let workspace = workspace.with_hide(nothing).and_then(|workspace| workspace.with_protect(nothing));
    workspace.expect("an empty list of globs is valid")
}

fn whole_store(store: &Arc<dyn Store>) -> Result<Vfs> {
    Ok(Vfs::builder(Identity::agent(SYSTEM_IDENTITY)).workspace(whole_workspace(store)).build()?)
}

/// The names in a directory; none if there is no such directory.
fn names_in(vfs: &Vfs, directory: &VfsPath) -> Result<Vec<String>> {
    if !vfs.is_directory(directory)? {
        return Ok(Vec::new());
    }
    let listing = vfs.list(directory, &ListPage::all())?;
    Ok(listing.entries.iter().map(|entry| entry.name.to_string()).collect())
}

fn digest(vfs: &Vfs, directory: &VfsPath) -> Result<TreeDigest> {
    let walked = vfs.walk(directory, &WalkQuery::default())?;
    if let Some(unreadable) = walked.unreadable.first() {
        return Err(Error::Invalid(format!("`{}` can't be read: {}", unreadable.path, unreadable.reason)));
    }
    let (mut hasher, mut files, mut bytes) = (blake3::Hasher::new(), 0, 0);
    for entry in &walked.entries {
        let relative_path = entry.path.strip_prefix(directory.as_str()).unwrap_or(&entry.path);
        hasher.update(format!("{relative_path}\0{:?}\0{}\0", entry.kind, entry.size).as_bytes());
        match entry.kind {
            NodeKind::File => {
                files += 1;
                bytes += entry.size;
                hash_file(vfs, &entry.path, &mut hasher)?;
            }
            NodeKind::Symlink => {
                files += 1;
                hasher.update(vfs.read_link(entry.path.as_str())?.as_bytes());
            }
            _ => {}
        }
    }
    Ok(TreeDigest { hash: hasher.finalize(), files, bytes })
}

fn hash_file(vfs: &Vfs, path: &str, hasher: &mut blake3::Hasher) -> Result<()> {
    let mut reader = vfs.reader(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = reader
            .read(&mut buffer)
            .map_err(|cause| Error::Host { what: format!("`{path}` can't be read"), cause })?;
        if count == 0 {
            return Ok(());
        }
        hasher.update(&buffer[..count]);
    }
}

#[cfg(test)]
mod tests {
    use stead_core::testkit::InterferingStore;

    use super::*;
    use crate::MemoryStore;

    fn run(vfs: Vfs) -> Result<MigrationReport> {
        let base = VfsPath::parse("/organizations/acme").unwrap();
        Migration { vfs, base, dry_run: false, report: MigrationReport::default() }.run(&mut |_| ())
    }

    #[test]
    fn f158_content_that_differs_after_the_move_is_an_error_and_the_emptied_directories_stay() {
        let path =
            |directory: &str, name: &str| format!("/organizations/acme/{directory}/marcus/private/{name}");
        let same_size: fn(&Vfs, &str) = |vfs, path| drop(vfs.write(path, "MINE").unwrap());
        let removed: fn(&Vfs, &str) =
            |vfs, path| drop(vfs.remove_file(path, RemoveOptions::default()).unwrap());
        let added: fn(&Vfs, &str) = |vfs, path| drop(vfs.write(&*format!("{path}.new"), "").unwrap());
        for (change, expected) in [(same_size, Some("MINE")), (removed, None), (added, Some("mine"))] {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let vfs = whole_store(&store).unwrap();
            vfs.write(&*path("agents", "a.md"), "mine").unwrap();
            vfs.write(&*path("agents", "b.md"), "other").unwrap();
            // As soon as the directory is at its new place, a program changes something there.
            let (watched, moved) = (whole_store(&store).unwrap(), path(WORKSPACES_DIRECTORY, "a.md"));
            let was_changed = std::sync::atomic::AtomicBool::new(false);
            let interfere = move || {
                if watched.exists(&*moved).unwrap()
                    && !was_changed.swap(true, std::sync::atomic::Ordering::Relaxed)
                {
                    change(&watched, &moved);
                }
            };
            let interfering: Arc<dyn Store> =
                Arc::new(InterferingStore { store: Arc::clone(&store), interfere: Box::new(interfere) });
            let error = run(whole_store(&interfering).unwrap()).unwrap_err().to_string();
            assert!(error.contains("something changed there meanwhile"), "{error}");
            let text = |name: &str| {
                let read = vfs.read(&*path(WORKSPACES_DIRECTORY, name)).ok()?;
                Some(String::from_utf8(read.bytes).unwrap())
            };
            assert_eq!((text("a.md").as_deref(), text("b.md").as_deref()), (expected, Some("other")));
            assert!(vfs.is_directory("/organizations/acme/agents").unwrap(), "nothing is removed");
        }
    }
}
