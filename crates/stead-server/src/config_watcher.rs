//! Keeps what is served the same as what is configured, while it is served.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stead::Config;
use stead::config::ConfigError;

use crate::in_place::in_place;
use crate::stead_registry::SteadRegistry;

/// How often is looked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// When what can wait is done: whoever has started a server waits for its first answer.
const STARTUP_DELAY: Duration = Duration::from_millis(50);

/// Looks for changes of the configuration file and of forks, for as long as it is polled.
///
/// A file that makes no sense is refused as a whole: what was served before stays, and standard error says why.
pub(crate) async fn keep_current(steads: Arc<SteadRegistry>) {
    let file = steads.config().file().to_owned();
    let mut known = fingerprint_of(&file);
    tokio::time::sleep(STARTUP_DELAY).await;
    if let Err(error) = in_place(|| steads.open_audit()).await {
        eprintln!("stead: no call is made until this is mended: {error}");
    }
    let mut pace = tokio::time::interval(POLL_INTERVAL);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick comes at once, and what was just read is new enough.
    pace.tick().await;
    loop {
        pace.tick().await;
        in_place(|| {
            let state = fingerprint_of(&file);
            // A file that is gone for a moment is being replaced.
            if state.is_some() && state != known {
                known = state;
                reload(&steads, &file);
            } else {
                steads.refresh();
            }
        })
        .await;
    }
}

fn reload(steads: &SteadRegistry, file: &Path) {
    let usable = |config: Config| match config.check_usable() {
        Ok(()) => steads.replace(&config),
        Err(problems) => Err(ConfigError::from(problems).into()),
    };
    let reloaded = Config::load(file).map_err(stead::Error::from).and_then(usable);
    match reloaded {
        Ok(()) => eprintln!("stead: the configuration has changed, and is used from now on"),
        Err(error) => eprintln!("stead: the configuration has changed, and is not used:\n{error}"),
    }
}

/// What tells one state of a file from another, also where it was replaced within a second.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ConfigFileFingerprint {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

fn fingerprint_of(file: &Path) -> Option<ConfigFileFingerprint> {
    let of = |metadata: Metadata| ConfigFileFingerprint {
        inode: metadata.ino(),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    };
    file.metadata().ok().map(of)
}
