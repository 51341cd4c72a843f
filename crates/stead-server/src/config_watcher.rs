//! Reloads the configuration and the list of forks when they change, while the server runs.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stead::Config;
use stead::config::ConfigError;

use crate::in_place::in_place;
use crate::stderr::print_to_stderr;
use crate::stead_registry::SteadRegistry;

/// How often the configuration file and the forks are checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the audit waits to be opened after the start, so that the first answer comes sooner.
const STARTUP_DELAY: Duration = Duration::from_millis(50);

/// Checks the configuration file and the forks for changes. Never returns.
///
/// An invalid file is refused as a whole: the server goes on with the last good configuration and prints the reason to
/// standard error.
pub(crate) async fn watch_config(steads: Arc<SteadRegistry>) {
    let file = steads.config().file().to_owned();
    let mut last_fingerprint = fingerprint_of(&file);
    tokio::time::sleep(STARTUP_DELAY).await;
    if let Err(error) = in_place(|| steads.open_audit()).await {
        print_to_stderr(format_args!("stead: all calls are refused until this is fixed: {error}"));
    }
    let mut interval = tokio::time::interval(POLL_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick comes at once, and the configuration has only just been read.
    interval.tick().await;
    loop {
        interval.tick().await;
        in_place(|| {
            let fingerprint = fingerprint_of(&file);
            // A file that is missing is probably being replaced.
            if fingerprint.is_some() && fingerprint != last_fingerprint {
                last_fingerprint = fingerprint;
                reload(&steads, &file);
            } else {
                steads.refresh();
            }
        })
        .await;
    }
}

fn reload(steads: &SteadRegistry, file: &Path) {
    let replace_if_usable = |config: Config| match config.check_usable() {
        Ok(()) => steads.replace(&config),
        Err(problems) => Err(ConfigError::from(problems).into()),
    };
    let result = Config::load(file).map_err(stead::Error::from).and_then(replace_if_usable);
    match result {
        Ok(()) => print_to_stderr("stead: the changed configuration is now in use"),
        Err(error) => print_to_stderr(format_args!(
            "stead: the changed configuration isn't valid, so the old one stays in use:\n{error}"
        )),
    }
}

/// Tells two states of a file apart, even if it was replaced within the same second.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ConfigFileFingerprint {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

fn fingerprint_of(file: &Path) -> Option<ConfigFileFingerprint> {
    let from_metadata = |metadata: Metadata| ConfigFileFingerprint {
        inode: metadata.ino(),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    };
    file.metadata().ok().map(from_metadata)
}
