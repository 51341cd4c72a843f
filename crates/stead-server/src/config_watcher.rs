//! Reloads the configuration and the list of forks when they change, while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stead::config::{ConfigError, UnusedFile, UnusedRecords};
use stead::{Config, FileFingerprint};
use tokio::task::JoinHandle;

use crate::in_place::in_place;
use crate::stderr::print_to_stderr;
use crate::stead_registry::SteadRegistry;

/// How often the configuration file and the forks are checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often they are checked if there are organizations. What their records take away is gone at once; this is how soon
/// what they give is there.
const RECORDS_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// After how many checks a missing file is reported. For a moment it may only be in the middle of being replaced.
const CHECKS_UNTIL_MISSING: u32 = 2;
/// How long a reload may take before what it takes away is withdrawn without the rest.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the audit waits to be opened after the start, so that the first answer comes sooner.
const STARTUP_DELAY: Duration = Duration::from_millis(50);

/// Checks the configuration file and the forks for changes. Never returns.
///
/// An invalid file is refused as a whole: the server goes on with the last good configuration and prints the reason to
/// standard error. Records of organizations are followed all the same, each organization's for itself. If the host doesn't answer while a new configuration is opened, what it takes away is gone all the
/// same, and the rest of it waits.
pub(crate) async fn watch_config(steads: Arc<SteadRegistry>) {
    let file = steads.config().file_to_follow().map(Path::to_owned);
    let mut last_fingerprints = fingerprints_of(file.as_deref(), &steads.config());
    // The file may have changed since it was read.
    if let (Some((_, newest)), Some(read)) =
        (last_fingerprints.first_mut(), steads.config().file_fingerprint())
    {
        *newest = Some(read);
    }
    tokio::time::sleep(STARTUP_DELAY).await;
    if let Err(error) = in_place(|| steads.open_audit()).await {
        print_to_stderr(format_args!("stead: all calls are refused until this is fixed: {error}"));
    }
    let has_records = steads.config().record_files().next().is_some();
    let poll_interval = if has_records { RECORDS_POLL_INTERVAL } else { POLL_INTERVAL };
    let mut watcher = ConfigWatcher {
        steads,
        file,
        last_fingerprints,
        unused_records: Vec::new(),
        refusal: None,
        checks_without_file: 0,
        pending: None,
        hanging: None,
    };
    let mut interval = tokio::time::interval(poll_interval);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick comes at once, and the configuration has only just been read.
    interval.tick().await;
    loop {
        interval.tick().await;
        watcher.check().await;
    }
}

struct ConfigWatcher {
    steads: Arc<SteadRegistry>,
    /// `None` if only forks are looked for.
    file: Option<PathBuf>,
    last_fingerprints: ConfigFingerprints,
    /// The records that can't be used, as they were last reported.
    unused_records: Vec<UnusedRecords>,
    /// Why the file isn't used, as it was last reported.
    refusal: Option<String>,
    /// How many checks in a row have not found the file.
    checks_without_file: u32,
    /// A new configuration that waits until `hanging` ends.
    pending: Option<NewConfig>,
    /// A reload or a refresh that hasn't ended in time.
    hanging: Option<JoinHandle<()>>,
}

/// A configuration to use from now on.
#[derive(Clone)]
struct NewConfig {
    config: Config,
    /// Whether the file itself is the old one, and only records of organizations are new.
    is_of_records: bool,
}

impl ConfigWatcher {
    /// Reloads the configuration if the file has changed, and looks for new forks otherwise. Returns after
    /// [`ANSWER_TIMEOUT`] even if the host doesn't answer.
    async fn check(&mut self) {
        self.hanging = self.hanging.take().filter(|work| !work.is_finished());
        if let Some(config) = in_place(|| self.changed_config()).await {
            if self.hanging.is_some() {
                self.withdraw(&config.config).await;
            }
            self.pending = Some(config);
        }
        if self.hanging.is_some() {
            return;
        }
        let (steads, config) = (Arc::clone(&self.steads), self.pending.take());
        let new_config = config.clone();
        let mut work = tokio::task::spawn_blocking(move || match new_config {
            Some(config) => reload(&steads, &config),
            None => steads.refresh(),
        });
        if tokio::time::timeout(ANSWER_TIMEOUT, &mut work).await.is_err() {
            self.hanging = Some(work);
            if let Some(new) = config {
                self.withdraw(&new.config).await;
            }
        }
    }

    /// The configuration, if its file or records have changed and can be used.
    fn changed_config(&mut self) -> Option<NewConfig> {
        let file = self.file.as_deref()?;
        let is_missing = FileFingerprint::of(file).is_none();
        self.checks_without_file = if is_missing { self.checks_without_file.saturating_add(1) } else { 0 };
        if self.checks_without_file == CHECKS_UNTIL_MISSING {
            print_to_stderr(
                "stead: the configuration file is gone or can't be read, so the last configuration stays in use; \
                 to take all access away, stop the server",
            );
        }
        let fingerprints = fingerprints_of(Some(file), &self.steads.config());
        if self.last_fingerprints == fingerprints {
            return None;
        }
        self.last_fingerprints = fingerprints;
        let reread = self.steads.read_config_again();
        if self.unused_records != reread.config.unused_records() {
            self.unused_records = reread.config.unused_records().to_vec();
            self.unused_records.iter().for_each(|unused| print_to_stderr(format_args!("stead: {unused}")));
        }
        self.report_refusal(reread.unused_file.as_ref().filter(|_| !is_missing));
        let new = NewConfig { config: reread.config, is_of_records: reread.unused_file.is_some() };
        match reread.unused_file {
            None if self.unused_records.is_empty() => Some(new),
            Some(UnusedFile::Empty(empty)) if !is_missing => {
                Some(NewConfig { config: *empty, is_of_records: false })
            }
            _ => (!self.steads.is_in_use(&new.config)).then_some(new),
        }
    }

    /// Says why the file isn't used, once for each reason.
    fn report_refusal(&mut self, unused: Option<&UnusedFile>) {
        let refusal = match unused {
            Some(UnusedFile::Invalid(error)) => Some(error.to_string()),
            Some(UnusedFile::Empty(_)) | None => None,
        };
        if let Some(reason) = refusal.as_ref().filter(|_| self.refusal != refusal) {
            print_refusal(reason);
        }
        self.refusal = refusal;
    }

    async fn withdraw(&self, config: &Config) {
        print_to_stderr(
            "stead: a directory doesn't answer, so the changed configuration isn't in use yet; agents that lose access \
             by it have none until then",
        );
        in_place(|| self.steads.withdraw(config)).await;
    }
}

/// The configuration file and the files with the records of organizations, each as it is on the host.
type ConfigFingerprints = Vec<(PathBuf, Option<FileFingerprint>)>;

fn fingerprints_of(file: Option<&Path>, config: &Config) -> ConfigFingerprints {
    let records = file.iter().flat_map(|_| config.record_files());
    let files = file.into_iter().chain(records);
    files.map(|file| (file.to_owned(), FileFingerprint::of(file))).collect()
}

fn reload(steads: &SteadRegistry, NewConfig { config, is_of_records }: &NewConfig) {
    let checked = config.check_usable().map_err(|problems| stead::Error::from(ConfigError::from(problems)));
    match checked.and_then(|()| steads.replace(config)) {
        Ok(()) if *is_of_records => {
            print_to_stderr("stead: the changed records of organizations are now in use")
        }
        Ok(()) => print_to_stderr("stead: the changed configuration is now in use"),
        Err(error) => {
            print_refusal(&error.to_string());
            if let Err(error) = steads.reinstate(config) {
                print_to_stderr(format_args!("stead: the old configuration can't be used either: {error}"));
            }
        }
    }
}

fn print_refusal(reason: &str) {
    print_to_stderr(format_args!(
        "stead: the changed configuration isn't valid, so the old one stays in use:\n{reason}"
    ));
}
