//! The audit's files beside the database: the key, the heads, and a directory for each running instance.
//!
//! ```text
//! database                 the identity of the database that the directory belongs to
//! key                      the secret key, readable only by its owner
//! heads                    the last heads of each instance that has ended, what recovery found missing, and the
//!                          archives; one JSON document per line
//! heads.lock               locked while `heads` changes
//! archive/                 where archives go, unless another directory is given
//! running.lock             locked while one of these directories is made or removed:
//! running/UUID/lock        locked as long as the instance runs
//! running/UUID/spool-0, -1 records on their way into the database
//! running/UUID/head        the newest signed head of the instance
//! running/UUID/tail        the end of its chain, and how many records were put into its spool
//! ```

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stead_core::{StoreError, StoreResult};
use uuid::Uuid;

use crate::audit::chain_end_file::{self, ChainEndFile, ChainEndState, SpooledCount};
use crate::audit::head::{AuditKey, SignedHead, hex};
use crate::audit::spool::{FILE_NAMES, unwritable_error};
use crate::sync::{self, SyncPoint};

/// Locked while the file `heads` changes.
const HEADS_LOCK: &str = "heads.lock";

/// Locked while an instance's directory is made or removed.
const RUNNING_LOCK: &str = "running.lock";

/// The prefix of the name of an instance's directory while it is being removed.
const ENDED_PREFIX: &str = ".ended-";

/// The audit's own directory.
#[derive(Debug, Clone)]
pub(crate) struct AuditDirectory {
    directory: PathBuf,
}

/// The directory of an instance, whose lock is held.
#[derive(Debug)]
pub(crate) struct InstanceDirectory {
    pub(crate) uuid: Uuid,
    pub(crate) directory: PathBuf,
    _lock: File,
}

/// A problem with what an instance left, which can't be seen any more after recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuditFinding {
    pub(crate) instance: Uuid,
    pub(crate) at: String,
    pub(crate) finding: String,
}

/// An archive, as the file `heads` remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RememberedArchive {
    pub(crate) archive: String,
    pub(crate) at: String,
    pub(crate) records: u64,
    #[serde(with = "hex")]
    pub(crate) hash: [u8; 32],
}

/// A line of the file `heads`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum HeadsLine {
    Head(SignedHead),
    Finding(AuditFinding),
    Archive(RememberedArchive),
}

impl AuditDirectory {
    /// The audit in this directory, which is made if it is missing.
    pub(crate) fn create(directory: &Path) -> StoreResult<Self> {
        let running = directory.join("running");
        let created = sync::make_private_dir(SyncPoint::AuditDirectory, &running);
        created.map_err(|error| unwritable_error(&error))?;
        Ok(AuditDirectory { directory: directory.to_owned() })
    }

    /// The audit in this directory, to be read. The directory may be missing.
    pub(crate) fn existing(directory: &Path) -> Self {
        AuditDirectory { directory: directory.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    fn running_dir(&self) -> PathBuf {
        self.directory.join("running")
    }

    /// Returns the key, which is made if there is none.
    pub(crate) fn key(&self) -> StoreResult<AuditKey> {
        if let Some(key) = self.existing_key()? {
            return Ok(key);
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)
            .map_err(|_| StoreError::unavailable("the host has no random numbers for the audit's key"))?;
        let written = self.write_key(&secret);
        written.map_err(|error| unwritable_error(&error))?;
        // Of several processes, the first one has made the key, and all sign with that one.
        self.existing_key()?
            .ok_or_else(|| StoreError::unavailable("the audit's key was removed while it was created"))
    }

    fn write_key(&self, secret: &[u8; 32]) -> io::Result<()> {
        let temporary = self.directory.join(format!("key-{}", Uuid::now_v7()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(format!("{}\n", hex::text(secret)).as_bytes())?;
        sync::sync_all(SyncPoint::AuditKey, &file)?;
        let linked = fs::hard_link(&temporary, self.directory.join("key"));
        fs::remove_file(&temporary)?;
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => sync::sync_directory(SyncPoint::AuditKeyName, &self.directory),
        }
    }

    /// Returns the key, if there is one.
    pub(crate) fn existing_key(&self) -> StoreResult<Option<AuditKey>> {
        let text = match fs::read_to_string(self.directory.join("key")) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unwritable_error(&error)),
        };
        let secret = hex::bytes(text.trim_end());
        let secret =
            secret.ok_or_else(|| StoreError::Corrupt("the audit's key file isn't a valid key".into()))?;
        Ok(Some(AuditKey::from_bytes(&secret)))
    }

    /// Makes and locks the directory of an instance that starts, with the file that holds the end of its chain.
    pub(crate) fn begin_instance(
        &self,
        key: &AuditKey,
    ) -> StoreResult<(InstanceDirectory, ChainEndFile, SpooledCount)> {
        let begin = || -> io::Result<_> {
            let _guard = self.lock(RUNNING_LOCK)?;
            let uuid = Uuid::now_v7();
            let directory = self.running_dir().join(uuid.to_string());
            DirBuilder::new().mode(0o700).create(&directory)?;
            let lock = File::create_new(directory.join("lock"))?;
            lock.lock()?;
            let (chain_end_file, spooled_count) = chain_end_file::create_file(&directory, &key.public())?;
            // Before the database has a row of the instance: an instance that only the database knows would look as if
            // its files had been removed.
            sync::sync_directory(SyncPoint::AuditInstance, &directory)?;
            sync::sync_directory(SyncPoint::AuditInstanceName, &self.running_dir())?;
            Ok((InstanceDirectory { uuid, directory, _lock: lock }, chain_end_file, spooled_count))
        };
        begin().map_err(|error| unwritable_error(&error))
    }

    /// Returns the instances that no longer run and that no process has recovered yet, locked. Other processes may look
    /// for them at the same time. What an interrupted creation or removal left is removed.
    pub(crate) fn abandoned_instances(&self) -> StoreResult<Vec<InstanceDirectory>> {
        let abandoned = || -> io::Result<Vec<InstanceDirectory>> {
            if !self.running_dir().exists() {
                return Ok(Vec::new());
            }
            let _guard = self.lock(RUNNING_LOCK)?;
            let mut abandoned = Vec::new();
            for directory in self.instance_dirs()? {
                let lock = OpenOptions::new().read(true).write(true).open(directory.join("lock"));
                match (uuid_of(&directory), lock) {
                    (Some(uuid), Ok(lock)) => match lock.try_lock() {
                        Ok(()) => abandoned.push(InstanceDirectory { uuid, directory, _lock: lock }),
                        Err(TryLockError::WouldBlock) => {}
                        Err(TryLockError::Error(error)) => return Err(error),
                    },
                    // Under `running.lock`, no process makes or removes it now. The one that did was killed, and the
                    // directory holds nothing.
                    (_, Err(error)) if error.kind() == ErrorKind::NotFound => fs::remove_dir_all(directory)?,
                    (_, Err(error)) => return Err(error),
                    // The process that removed it was killed.
                    (None, Ok(_)) if is_ended(&directory) => fs::remove_dir_all(directory)?,
                    (None, Ok(_)) => {}
                }
            }
            Ok(abandoned)
        };
        abandoned().map_err(|error| unwritable_error(&error))
    }

    fn instance_dirs(&self) -> io::Result<Vec<PathBuf>> {
        match fs::read_dir(self.running_dir()) {
            Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Ends an instance: appends its last heads and the findings to `heads`, and removes its directory.
    pub(crate) fn end_instance(
        &self,
        instance: InstanceDirectory,
        heads: &[SignedHead],
        findings: &[AuditFinding],
    ) -> StoreResult<()> {
        let heads = heads.iter().cloned().map(HeadsLine::Head);
        self.append_lines(
            &heads.chain(findings.iter().cloned().map(HeadsLine::Finding)).collect::<Vec<_>>(),
        )?;
        let end = || -> io::Result<()> {
            let _guard = self.lock(RUNNING_LOCK)?;
            // Renamed first: a half-removed directory must not look like one from which someone removed files.
            let ended_directory = self.running_dir().join(format!("{ENDED_PREFIX}{}", instance.uuid));
            fs::rename(&instance.directory, &ended_directory)?;
            fs::remove_dir_all(ended_directory)
        };
        end().map_err(|error| unwritable_error(&error))
    }

    /// Appends lines to the file `heads`, and syncs it.
    pub(crate) fn append_lines(&self, lines: &[HeadsLine]) -> StoreResult<()> {
        if lines.is_empty() {
            return Ok(());
        }
        // The newline before each line ends a line that a power cut may have torn.
        let text: String = lines.iter().map(|line| format!("\n{}\n", json_line(line))).collect();
        let append = || -> io::Result<()> {
            let _guard = self.lock(HEADS_LOCK)?;
            let path = self.directory.join("heads");
            let mut heads = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
            heads.write_all(text.as_bytes())?;
            sync::sync_all(SyncPoint::AuditLastHead, &heads)?;
            sync::sync_directory(SyncPoint::AuditLastHeadName, &self.directory)
        };
        append().map_err(|error| unwritable_error(&error))
    }

    fn lock(&self, name: &str) -> io::Result<File> {
        let path = self.directory.join(name);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        lock.lock()?;
        Ok(lock)
    }

    /// Removes the heads of these instances from the file `heads`.
    pub(crate) fn forget_heads(&self, instances: &HashSet<Uuid>) -> StoreResult<()> {
        let _guard = self.lock(HEADS_LOCK).map_err(|error| unwritable_error(&error))?;
        // A line that can't be understood stays as it is: it may show that the file was damaged or changed.
        let remains = |line: &&str| match serde_json::from_str(line) {
            Ok(HeadsLine::Head(head)) => !instances.contains(&head.instance),
            Ok(HeadsLine::Finding(_) | HeadsLine::Archive(_)) | Err(_) => !line.is_empty(),
        };
        let text = self.text()?;
        let text: String = text.lines().filter(remains).map(|line| format!("{line}\n")).collect();
        let write = || -> io::Result<()> {
            let new_path = self.directory.join("heads-new");
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new_path)?;
            file.write_all(text.as_bytes())?;
            sync::sync_all(SyncPoint::AuditRemainingHeads, &file)?;
            fs::rename(new_path, self.directory.join("heads"))?;
            sync::sync_directory(SyncPoint::AuditRemainingHeadsName, &self.directory)
        };
        write().map_err(|error| unwritable_error(&error))
    }

    /// The directory of an archive as the database stores it: empty for the audit's own archive directory.
    pub(crate) fn archive_directory_key(&self, directory: &Path) -> StoreResult<String> {
        let absolute = |path: &Path| std::path::absolute(path).map_err(|error| unwritable_error(&error));
        let directory = absolute(directory)?;
        let is_default = directory == absolute(&self.archive_directory(""))?;
        Ok(if is_default { String::new() } else { directory.to_string_lossy().into_owned() })
    }

    /// The directory that the database stores as `key`.
    pub(crate) fn archive_directory(&self, key: &str) -> PathBuf {
        if key.is_empty() { self.directory.join("archive") } else { key.into() }
    }

    /// The instances that run or have not been recovered.
    pub(crate) fn running_instances(&self) -> StoreResult<HashSet<Uuid>> {
        let directories = self.instance_dirs().map_err(|error| unwritable_error(&error))?;
        Ok(directories.iter().filter_map(|directory| uuid_of(directory)).collect())
    }

    /// The last heads of instances that have ended.
    pub(crate) fn ended_heads(&self) -> StoreResult<Vec<SignedHead>> {
        let head = |line| match line {
            HeadsLine::Head(head) => Some(head),
            HeadsLine::Finding(_) | HeadsLine::Archive(_) => None,
        };
        Ok(self.lines()?.into_iter().filter_map(head).collect())
    }

    /// All valid lines of the file `heads`.
    pub(crate) fn lines(&self) -> StoreResult<Vec<HeadsLine>> {
        Ok(self.text()?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// The content of the file `heads`.
    fn text(&self) -> StoreResult<String> {
        match fs::read_to_string(self.directory.join("heads")) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            text => text.map_err(|error| unwritable_error(&error)),
        }
    }

    /// The newest heads of the instances that run or have not been recovered.
    pub(crate) fn running_heads(&self) -> StoreResult<Vec<SignedHead>> {
        let directories = self.instance_dirs().map_err(|error| unwritable_error(&error))?;
        let heads = directories.into_iter().filter_map(|directory| {
            uuid_of(&directory)?;
            read_head(&directory)
        });
        Ok(heads.collect())
    }

    /// The chain ends of the instances that run or have not been recovered.
    pub(crate) fn running_chain_ends(&self) -> StoreResult<Vec<(Uuid, ChainEndState)>> {
        let directories = self.instance_dirs().map_err(|error| unwritable_error(&error))?;
        let chain_end =
            |directory: PathBuf| Some((uuid_of(&directory)?, chain_end_file::read_state(&directory).ok()??));
        Ok(directories.into_iter().filter_map(chain_end).collect())
    }
}

impl InstanceDirectory {
    /// The newest head that the instance has written outside the database.
    pub(crate) fn head(&self) -> Option<SignedHead> {
        read_head(&self.directory)
    }

    /// Whether the instance has a spool file.
    pub(crate) fn has_spool(&self) -> bool {
        self.directory.join(FILE_NAMES[0]).exists()
    }

    /// Replaces the instance's newest head outside the database.
    pub(crate) fn write_head(&self, head: &SignedHead) -> StoreResult<()> {
        let write = || -> io::Result<()> {
            let (new_path, path) = (self.directory.join("head-new"), self.directory.join("head"));
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new_path)?;
            file.write_all(json_line(head).as_bytes())?;
            sync::sync_all(SyncPoint::AuditHead, &file)?;
            fs::rename(new_path, path)
        };
        write().map_err(|error| unwritable_error(&error))
    }
}

fn read_head(directory: &Path) -> Option<SignedHead> {
    serde_json::from_str(&fs::read_to_string(directory.join("head")).ok()?).ok()
}

fn json_line(line: &impl Serialize) -> String {
    serde_json::to_string(line).expect("texts and numbers can be written as JSON")
}

fn is_ended(directory: &Path) -> bool {
    directory.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(ENDED_PREFIX))
}

fn uuid_of(directory: &Path) -> Option<Uuid> {
    Uuid::parse_str(directory.file_name()?.to_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_incomplete_instances_are_removed_and_those_of_running_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let audit_directory = AuditDirectory::create(directory.path()).unwrap();
        let key = audit_directory.key().unwrap();
        let (running, _, _) = audit_directory.begin_instance(&key).unwrap();
        let killed = audit_directory.begin_instance(&key).unwrap().0.uuid;
        for incomplete in [".new-0", "0197c0de-0000-7000-8000-000000000000"] {
            let incomplete = audit_directory.running_dir().join(incomplete);
            fs::create_dir(&incomplete).unwrap();
            fs::write(incomplete.join("spool-0"), "").unwrap();
        }
        let ended_directory =
            audit_directory.running_dir().join(format!("{ENDED_PREFIX}0197c0de-0000-7000-8000-000000000000"));
        fs::create_dir(&ended_directory).unwrap();
        fs::write(ended_directory.join("lock"), "").unwrap();

        let abandoned: Vec<Uuid> =
            audit_directory.abandoned_instances().unwrap().iter().map(|instance| instance.uuid).collect();

        assert_eq!(abandoned, [killed]);
        let mut remaining: Vec<Uuid> = audit_directory.running_instances().unwrap().into_iter().collect();
        remaining.sort();
        assert_eq!(remaining, [running.uuid, killed]);
        assert_eq!(fs::read_dir(audit_directory.running_dir()).unwrap().count(), 2);
    }
}
