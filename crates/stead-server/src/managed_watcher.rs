//! Registers what other programs do to managed host directories, while a server runs.
//!
//! The host reports changed paths, and sync looks at these alone. Where the host can't watch a directory, or has lost reports, a
//! sync of the whole directory takes their place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use stead::managed::Category;
use stead::vfs::managed::ChangedFiles;
use stead::{Clock, Config, ManagedDirectory, Stores, SystemClock};
use tokio::sync::mpsc;

use crate::stead_registry::SteadRegistry;

/// How long reports are collected before they are acted on.
const COLLECT: Duration = Duration::from_millis(100);
/// How often the watcher looks whether the configuration has changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a directory that can't be watched is synced, and watching it is tried again.
const SYNC_INTERVAL: Duration = Duration::from_secs(60);
/// With more changed paths than this, the whole directory is synced.
const MAX_PATHS: usize = 10_000;

type Report = notify::Result<notify::Event>;

/// The directories that changed, by their index, and what changed there.
type Changes = BTreeMap<usize, ChangedFiles>;

/// Watches the managed host directories of the configuration until it is dropped.
pub(crate) async fn watch_managed(steads: Arc<SteadRegistry>) {
    loop {
        let (reports, mut receiver) = mpsc::unbounded_channel::<Report>();
        let config = steads.config();
        let stores = steads.stores();
        let started = tokio::task::spawn_blocking(move || Watch::start(&stores, reports)).await;
        let Ok(mut watch) = started else { return };
        let mut last_sync = Instant::now();
        let mut changed = watch.everything();
        while is_same(&config, &steads.config()) {
            if !changed.is_empty() {
                let (stores, work) = (steads.stores(), std::mem::take(&mut changed));
                // A panic was printed to stderr; a later sync finds what this one has not registered.
                let synced = tokio::task::spawn_blocking(move || {
                    watch.sync(&stores, work);
                    watch
                })
                .await;
                let Ok(returned) = synced else { break };
                watch = returned;
            }
            let report = tokio::time::timeout(CHECK_INTERVAL, receiver.recv()).await;
            if let Ok(Some(report)) = report {
                tokio::time::sleep(COLLECT).await;
                watch.collect(report, &mut changed);
                while let Ok(report) = receiver.try_recv() {
                    watch.collect(report, &mut changed);
                }
            }
            if last_sync.elapsed() >= SYNC_INTERVAL {
                last_sync = Instant::now();
                watch.add_unwatched(&mut changed);
            }
        }
    }
}

/// Whether this is still the configuration whose directories are watched.
fn is_same(watched: &Arc<Config>, now: &Arc<Config>) -> bool {
    Arc::ptr_eq(watched, now)
}

/// The watched directories.
struct Watch {
    /// `None` if the host has no way to watch.
    watcher: Option<RecommendedWatcher>,
    directories: Vec<Watched>,
}

struct Watched {
    directory: ManagedDirectory,
    /// Where it is on the host, without symlinks: reports name such paths.
    host_path: PathBuf,
    is_watched: bool,
}

impl Watch {
    fn start(stores: &Stores, reports: mpsc::UnboundedSender<Report>) -> Self {
        let send = move |report: Report| {
            // Nobody listens any more: the server ends.
            let _ = reports.send(report);
        };
        let watcher = notify::recommended_watcher(send)
            .inspect_err(|error| tracing::warn!("managed directories can't be watched: {error}"))
            .ok();
        let directories = stores.managed_directories().into_iter().filter_map(|directory| {
            let host_path = directory.host_path.clone()?;
            let host_path = host_path.canonicalize().unwrap_or(host_path);
            Some(Watched { directory, host_path, is_watched: false })
        });
        let mut watch = Watch { watcher, directories: directories.collect() };
        for index in 0..watch.directories.len() {
            watch.watch(index);
        }
        watch
    }

    /// Watches a directory and those of its categories.
    fn watch(&mut self, index: usize) {
        let Some(watcher) = &mut self.watcher else { return };
        let watched = &mut self.directories[index];
        let mut result = watcher.watch(&watched.host_path, RecursiveMode::NonRecursive);
        for category in Category::NAMES {
            let path = watched.host_path.join(category);
            // A symlink isn't followed: sync doesn't follow it either.
            if result.is_ok() && path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
                result = watcher.watch(&path, RecursiveMode::Recursive);
            }
        }
        if let Err(error) = &result {
            let (store, path) = (&watched.directory.store, &watched.directory.path);
            tracing::debug!(store, %path, "a managed directory can't be watched, so it is synced each minute: {error}");
        }
        watched.is_watched = result.is_ok();
    }

    /// That everything may have changed: before the watch began, or because reports were lost.
    fn everything(&self) -> Changes {
        (0..self.directories.len()).map(|index| (index, ChangedFiles::Any)).collect()
    }

    fn add_unwatched(&self, changed: &mut Changes) {
        for (index, _) in self.directories.iter().enumerate().filter(|(_, watched)| !watched.is_watched) {
            changed.insert(index, ChangedFiles::Any);
        }
    }

    fn collect(&self, report: Report, changed: &mut Changes) {
        match report {
            Ok(event) if event.need_rescan() => changed.extend(self.everything()),
            Ok(event) if is_of_content(event.kind) => {
                for path in &event.paths {
                    self.collect_path(path, changed);
                }
            }
            Ok(_) => {}
            Err(_) => changed.extend(self.everything()),
        }
    }

    fn collect_path(&self, path: &Path, changed: &mut Changes) {
        for (index, watched) in self.directories.iter().enumerate() {
            let Ok(relative_path) = path.strip_prefix(&watched.host_path) else { continue };
            // What isn't UTF-8 isn't tracked.
            let Some(relative_path) = relative_path.to_str() else { continue };
            match relative_path.split_once('/') {
                // The directory of a category has come or gone, and has to be watched.
                None if relative_path.is_empty() || Category::NAMES.contains(&relative_path) => {
                    changed.insert(index, ChangedFiles::Any);
                }
                Some((first, _)) if Category::NAMES.contains(&first) => {
                    let files = changed.entry(index).or_insert_with(|| ChangedFiles::Paths(BTreeSet::new()));
                    if let ChangedFiles::Paths(paths) = files {
                        paths.insert(relative_path.to_owned());
                        if paths.len() > MAX_PATHS {
                            *files = ChangedFiles::Any;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Syncs what has changed. What fails is logged, and the hygiene cycle tries again.
    fn sync(&mut self, stores: &Stores, changed: Changes) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        for (index, changed) in changed {
            if changed == ChangedFiles::Any {
                // Before the sync, so that it covers what is reported to nobody.
                self.watch(index);
            }
            let directory = &self.directories[index].directory;
            let (store, path) = (&directory.store, &directory.path);
            match stores.sync_managed(directory, &changed, &clock) {
                Ok(counts) if counts.is_empty() => {}
                Ok(counts) => {
                    tracing::debug!(store, %path, ?counts, "changes by other programs were registered");
                }
                Err(error) => {
                    tracing::debug!(store, %path, "changes by other programs could not be registered: {error}");
                }
            }
        }
    }
}

/// Whether a report is about a file's content or its name, rather than about a read or its attributes.
fn is_of_content(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use notify::Event;
    use notify::event::{AccessKind, CreateKind, Flag};

    use super::*;

    /// A managed host directory with a file that sync has not found, and a watch of it that the host refuses.
    fn unwatched() -> (tempfile::TempDir, Stores, Watch) {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(host.path().join("files/code")).unwrap();
        std::fs::write(host.path().join("files/code/x.py"), "x").unwrap();
        let text = "[stores.s]\nkind = \"physical\"\npath = \"files\"\n[[agents.a.workspaces]]\nprefix = \"/w\"\n\
                    scope = \"rw\"\nstore = \"s\"\nmanaged = true\n";
        let config = Config::parse(text, &host.path().join("stead.toml")).unwrap();
        let stores = Stores::of(&config);
        let directory = stores.managed_directories().remove(0);
        let host_path = directory.host_path.clone().unwrap();
        let directories = vec![Watched { directory, host_path, is_watched: false }];
        (host, stores, Watch { watcher: None, directories })
    }

    fn event(kind: EventKind, path: PathBuf) -> Report {
        Ok(Event::new(kind).add_path(path))
    }

    #[test]
    fn lost_reports_and_errors_are_followed_by_a_sync_of_everything() {
        let (_host, _stores, watch) = unwatched();
        let everything = watch.everything();
        for report in [
            Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)),
            Err(notify::Error::generic("the host has no memory left")),
        ] {
            let mut changed = Changes::new();
            watch.collect(report, &mut changed);
            assert_eq!(changed, everything);
        }
    }

    #[test]
    fn only_changes_in_the_directories_of_categories_count() {
        let (host, _stores, watch) = unwatched();
        let (created, at) =
            (EventKind::Create(CreateKind::Any), |path: &str| host.path().join("files").join(path));
        let mut changed = Changes::new();
        for path in ["root.py", "memory/x.md", "codes/x.py", "../elsewhere"] {
            watch.collect(event(created, at(path)), &mut changed);
        }
        watch.collect(event(EventKind::Access(AccessKind::Read), at("code/x.py")), &mut changed);
        assert!(changed.is_empty());
        watch.collect(event(created, at("code/d/x.py")), &mut changed);
        assert_eq!(changed, Changes::from([(0, ChangedFiles::Paths(["code/d/x.py".to_owned()].into()))]));
        watch.collect(event(created, at("data")), &mut changed);
        assert_eq!(changed, watch.everything());
    }

    #[test]
    fn w44a_a_directory_that_cant_be_watched_is_synced_as_a_whole() {
        let (_host, stores, mut watch) = unwatched();
        let mut changed = Changes::new();
        watch.add_unwatched(&mut changed);
        assert_eq!(changed, watch.everything());
        watch.sync(&stores, changed);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let again = stores.sync_managed(&watch.directories[0].directory, &ChangedFiles::Any, &clock).unwrap();
        assert!(again.is_empty(), "the file was registered before: {again:?}");
        let stead = stead::Stead::open_in(&stores, &stead::Identity::agent("a")).unwrap();
        let files = stead.vfs().managed(None).unwrap();
        assert!(files.info("/w/code/x.py").is_ok());
    }
}
