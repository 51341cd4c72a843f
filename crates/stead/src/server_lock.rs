//! The lock that tells a process whether servers and mounts use the same database: each of them holds it shared.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::config::Config;
use crate::stores::{create_private_directory, resolved_database};

/// The suffix of the lock's file, which is beside the database.
pub(crate) const SERVER_LOCK_SUFFIX: &str = "-servers";

/// A lock on a configuration's database. It is released when it is dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct ServerLock {
    _file: File,
}

/// Another process holds the lock in a way that excludes this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another process uses the database")]
pub struct DatabaseInUse;

impl ServerLock {
    /// Takes the lock for a server or a mount, which may run beside others. Fails while a process has excluded them.
    ///
    /// Returns `None` if there is nothing to protect yet, or if the host can't lock the file: then a server runs all the
    /// same.
    pub fn share(config: &Config) -> Result<Option<ServerLock>, DatabaseInUse> {
        if config.organizations.is_empty() && !config.database.path.exists() {
            return Ok(None);
        }
        lock(config, File::try_lock_shared)
    }

    /// Excludes servers and mounts until the lock is dropped. Fails if one is running.
    pub fn exclude_servers(config: &Config) -> Result<Option<ServerLock>, DatabaseInUse> {
        lock(config, File::try_lock)
    }
}

fn lock(
    config: &Config,
    try_lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> Result<Option<ServerLock>, DatabaseInUse> {
    let path = lock_file(config);
    if config.database.path.parent() == Some(&config.state_directory()) {
        // If it can't be created, neither can the file.
        let _ = create_private_directory(&config.state_directory());
    }
    let opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
    let Ok(file) = opened else { return Ok(None) };
    match try_lock(&file) {
        Ok(()) => Ok(Some(ServerLock { _file: file })),
        Err(TryLockError::WouldBlock) => Err(DatabaseInUse),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn lock_file(config: &Config) -> PathBuf {
    let mut name = OsString::from(resolved_database(config));
    name.push(SERVER_LOCK_SUFFIX);
    name.into()
}
