//! `stead.toml`: the Stores, and which agent sees what of them.
//!
//! Parsing depends only on the file's text and on the records of organizations that it names. It reports all mistakes at
//! once, each with its line and with what was probably meant.
//!
//! ```
//! use std::path::Path;
//! use stead::Config;
//!
//! let text = r#"
//!     [stores.notes]
//!     kind = "memory"
//!
//!     [agents.coder]
//!     [[agents.coder.workspaces]]
//!     prefix = "/notes"
//!     scope = "rw"
//!     store = "notes"
//! "#;
//! let config = Config::parse(text, Path::new("/srv/stead.toml"))?;
//! assert!(config.agents.contains_key("coder"));
//! let error = Config::parse("[store.notes]", Path::new("/srv/stead.toml")).unwrap_err();
//! assert!(error.to_string().contains("stores"), "it says what was probably meant");
//! # Ok::<(), stead::config::ConfigError>(())
//! ```

mod agents;
mod amount;
mod config_error;
mod directories;
mod directories_file;
mod find;
mod host_check;
mod keys;
mod line_index;
mod managed_mounts;
mod nearest;
mod organizations;
mod overlap;
mod reserved_keys;
mod section;
mod shared_directory;
mod stores;
mod thread_directories;
mod threads;
mod ttl;
mod workspace_location;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stead_core::hide::{HideGlobs, is_hidden_by_default};
use stead_core::managed::Ttl;
use stead_core::store::QuotaLimits;
use stead_core::tools::ToolChoice;
use stead_core::{AccessScope, ApprovalPolicy, RootMode, VfsPath};
use stead_stores::database::Retention;
use stead_stores::{DisplacedRetention, Durability};
use toml::de::DeTable;

pub use config_error::{ConfigDiagnostic, ConfigError, ConfigProblems, SkipReason, SkippedFile, SteadChoice};
pub use directories::ScopedDirectory;
pub use host_check::HostReport;
pub use keys::json_schema;
pub use nearest::nearest;
pub use organizations::{
    AmbiguousAgent, OrganizationConfig, RecordKind, RecordsInUse, Reread, UnusedFile, UnusedRecords,
};
pub use stead_core::organization::Membership;
pub(crate) use thread_directories::{ThreadBarrier, thread_directory};
pub use threads::{DEFAULT_IDLE_TIMEOUT, FilesPer, SteadScope, ThreadSource};

use crate::current_records::{FileFingerprint, RecordFingerprints};
use host_check::HostCheck;
use organizations::ParsedOrganizations;
use section::{Document, Section};

/// The name of the configuration file.
pub const FILE_NAME: &str = "stead.toml";

/// The name of the state directory, beside the configuration file.
pub const STATE_DIRECTORY_NAME: &str = ".stead";

/// A valid configuration: every Store that a Workspace names exists, and every path, scope and amount was parsed.
#[derive(Debug, Clone)]
pub struct Config {
    file: PathBuf,
    follows_file: bool,
    /// The database of the Virtual Stores.
    pub database: DatabaseConfig,
    /// The Stores, by name.
    pub stores: BTreeMap<String, StoreConfig>,
    /// The agents outside organizations, by name. [`Config::agent`] also finds those of organizations.
    pub agents: BTreeMap<String, AgentConfig>,
    /// The organizations.
    pub organizations: Vec<OrganizationConfig>,
    /// Whether calls are recorded in the audit.
    pub audit: AuditConfig,
    /// How long versions are kept.
    pub history: Retention,
    /// Whether the file was read, and not only a text parsed.
    was_read: bool,
    /// The file as it was before it was read; `None` if it wasn't read or is missing.
    fingerprint: Option<FileFingerprint>,
    /// The files with the records of all organizations, in the order of the configuration file.
    record_files: Vec<PathBuf>,
    /// Of two configurations, the one with the higher number was read later.
    read_number: u64,
    unused_records: Vec<UnusedRecords>,
    record_fingerprints: RecordFingerprints,
    warnings: Vec<ConfigDiagnostic>,
    host_checks: Vec<HostCheck>,
}

/// `[database]`
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseConfig {
    /// The SQLite file.
    pub path: PathBuf,
    /// What an acknowledged change survives.
    pub durability: Durability,
}

/// `[audit]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditConfig {
    /// Whether every call is recorded.
    pub enabled: bool,
}

/// `[stores.NAME]`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreConfig {
    /// A directory of the host.
    Physical {
        /// The directory.
        path: PathBuf,
        /// How much displaced content is kept for undo; `None` keeps none.
        displaced_retention: Option<DisplacedRetention>,
    },
    /// A namespace in the database.
    Virtual {
        /// The namespace.
        namespace: Vec<String>,
    },
    /// Memory: gone when the process ends.
    Memory,
}

/// `[agents.NAME]`
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentConfig {
    /// The purpose of the agent.
    pub description: Option<String>,
    /// The Workspaces that the agent sees.
    pub workspaces: Vec<WorkspaceConfig>,
    /// The limits on all of its Workspaces together.
    pub quota: QuotaLimits,
    /// The tools that the agent is offered, and which of them need a person's approval.
    pub tools: ToolChoice,
    /// Whether the agent's stead has a State.
    pub state: bool,
    /// Which agent of which organization this is, if it is one.
    pub membership: Option<Membership>,
    /// Whose files its Workspaces show.
    pub scope: SteadScope,
    /// How long a thread of the agent may be unused before it is destroyed.
    pub idle_timeout: Duration,
    /// Who names the threads.
    pub thread_source: ThreadSource,
}

impl Default for AgentConfig {
    fn default() -> Self {
        AgentConfig {
            description: None,
            workspaces: Vec::new(),
            quota: QuotaLimits::default(),
            tools: ToolChoice::default(),
            state: false,
            membership: None,
            scope: SteadScope::default(),
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            thread_source: ThreadSource::default(),
        }
    }
}

/// `[[agents.NAME.workspaces]]`
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkspaceConfig {
    /// Its logical path.
    pub prefix: VfsPath,
    /// Its Access Scope.
    pub scope: AccessScope,
    /// Whose files it shows: the agent's, or those of the thread that the agent works in.
    pub per: FilesPer,
    /// Whose fork takes its changes until they are reviewed; `None` if they are made in the Workspace itself.
    pub fork: Option<FilesPer>,
    /// The name of the Store behind it.
    pub store: String,
    /// The path inside that Store.
    pub path: VfsPath,
    /// The purpose of the Workspace.
    pub description: Option<String>,
    /// Globs of files that agents may not change; `None` means the default ones.
    pub protect: Option<Vec<String>>,
    /// Globs of names that are hidden from agents: the Workspace's own, or else those of the file; `None` means the
    /// default ones.
    pub hide: Option<Vec<String>>,
    /// Globs of files without history.
    pub scratch: Vec<String>,
    /// The limits on the Workspace.
    pub quota: QuotaLimits,
    /// The directory of the Store that the limits count; `None` for `path`.
    pub quota_root: Option<VfsPath>,
    /// Which calls need a person's approval.
    pub ask: ApprovalPolicy,
    /// The name for people, which refusals have.
    pub title: Option<String>,
    /// Whether the permission bits of its directory can be changed.
    pub root_mode: RootMode,
    /// How long its files live, if it is managed.
    pub managed: Option<Ttl>,
}

impl WorkspaceConfig {
    /// Whether its `hide` globs, or the default ones, hide a path relative to its prefix from agents.
    pub fn hides(&self, path: &str) -> bool {
        hides(self.hide.as_deref(), path)
    }
}

/// Whether these globs hide a path from agents; `None` means the default ones.
fn hides(globs: Option<&[String]>, path: &str) -> bool {
    match globs {
        Some(globs) => HideGlobs::new(globs).is_ok_and(|globs| globs.hides(path)),
        None => is_hidden_by_default(path),
    }
}

impl AgentConfig {
    /// Removes the protection from the agent's Workspaces and hides nothing in them, for acts of a person in the agent's
    /// place.
    pub fn without_protection(mut self) -> Self {
        for workspace in &mut self.workspaces {
            (workspace.protect, workspace.hide) = (Some(Vec::new()), Some(Vec::new()));
        }
        self
    }
}

impl Config {
    /// Reads the file that [`Config::find`] returns.
    pub fn discover(explicit: Option<&Path>) -> Result<Config, ConfigError> {
        Config::load(&Config::find(explicit)?)
    }

    /// Reads a file, and checks on the host that no Workspace gives access to what another one withholds, and that no two
    /// Stores contradict each other.
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        Config::read(file)?.without_contradictions()
    }

    /// The same configuration, if nothing in it contradicts anything else.
    fn without_contradictions(self) -> Result<Config, ConfigError> {
        let problems = self.contradictions();
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(ConfigProblems { file: self.file, problems, warnings: self.warnings }.into())
        }
    }

    /// Reads a file and parses it. Checks nothing else on the host, so it doesn't wait for a directory that doesn't
    /// answer.
    pub fn read(file: &Path) -> Result<Config, ConfigError> {
        let fingerprint = FileFingerprint::of(file);
        Ok(Config { was_read: true, fingerprint, ..Config::read_parsed(file)?.into_valid()? })
    }

    fn read_parsed(file: &Path) -> Result<ParsedConfig, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::Unreadable { file: file.to_owned(), kind: error.kind() })?;
        Ok(ParsedConfig::parse(&text, file)?)
    }

    /// Parses the text of a file. Relative paths in it are relative to the directory of `file`. Reads the records of
    /// organizations that are in files of their own.
    pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
        Ok(ParsedConfig::parse(text, file)?.into_valid()?)
    }

    /// The file it was read from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether this configuration was read later than another one.
    pub(crate) fn is_newer_than(&self, other: &Config) -> bool {
        self.read_number > other.read_number
    }

    /// The fingerprint that its file had before it was read; `None` if it wasn't read from a file.
    pub fn file_fingerprint(&self) -> Option<FileFingerprint> {
        self.fingerprint.clone()
    }

    /// The file whose changes a running server follows. `None` for [`Config::for_directories`]: the scopes of such a
    /// server are those that it was started with.
    pub fn file_to_follow(&self) -> Option<&Path> {
        self.follows_file.then_some(&*self.file)
    }

    /// The directory of the parts of the audit that are not in the database.
    pub fn audit_directory(&self) -> PathBuf {
        self.state_directory().join("audit")
    }

    /// The directory of Stead's own files.
    pub fn state_directory(&self) -> PathBuf {
        directory_of(&self.file).join(STATE_DIRECTORY_NAME)
    }

    /// What is valid but probably not intended: keys without effect, an empty file.
    pub fn warnings(&self) -> &[ConfigDiagnostic] {
        &self.warnings
    }
}

impl DatabaseConfig {
    /// The default database.
    fn default_in(directory: &Path) -> Self {
        DatabaseConfig {
            path: directory.join(STATE_DIRECTORY_NAME).join("stead.db"),
            durability: Durability::Full,
        }
    }
}

/// The directory that relative paths in a configuration file are relative to.
fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A configuration file without syntax errors, with everything that is wrong with it.
struct ParsedConfig {
    file: PathBuf,
    tables: ConfigTables,
    /// The mistakes in the file itself. Those in files of records are with their organizations.
    problems: Vec<ConfigDiagnostic>,
    warnings: Vec<ConfigDiagnostic>,
    host_checks: Vec<HostCheck>,
}

impl ParsedConfig {
    fn parse(text: &str, file: &Path) -> Result<ParsedConfig, ConfigProblems> {
        let document = Document::new(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            document.add_problem(&error.span().unwrap_or_default(), error.message().replace('\n', " "));
        }
        // After a syntax error, the rest of the file isn't reliable, so syntax errors are reported alone.
        let tables = errors.is_empty().then(|| read_tables(&document, table.get_ref(), directory_of(file)));
        let (problems, warnings, host_checks) = document.finish();
        let file = file.to_owned();
        match tables {
            Some(tables) => Ok(ParsedConfig { file, tables, problems, warnings, host_checks }),
            None => Err(ConfigProblems { file, problems, warnings }),
        }
    }

    /// The configuration, if nothing is wrong with it or with any records.
    fn into_valid(mut self) -> Result<Config, ConfigProblems> {
        let organizations = std::mem::take(&mut self.tables.organizations);
        let (record_files, fingerprints) = (organizations.files(), organizations.fingerprints.clone());
        let organizations = organizations.into_valid(&self.tables.agents, &mut self.problems);
        self.problems.sort();
        match self.problems.is_empty() {
            true => {
                self.tables.organizations.fingerprints = fingerprints;
                Ok(self.into_config(organizations, record_files))
            }
            false => {
                let ParsedConfig { file, problems, warnings, .. } = self;
                Err(ConfigProblems { file, problems, warnings })
            }
        }
    }

    fn into_config(self, organizations: Vec<OrganizationConfig>, record_files: Vec<PathBuf>) -> Config {
        let ParsedConfig { file, tables, warnings, host_checks, .. } = self;
        Config {
            file,
            follows_file: true,
            database: tables.database,
            stores: tables.stores,
            agents: tables.agents,
            organizations,
            was_read: false,
            fingerprint: None,
            record_files,
            read_number: next_read_number(),
            unused_records: Vec::new(),
            record_fingerprints: tables.organizations.fingerprints,
            audit: tables.audit,
            history: tables.history,
            warnings,
            host_checks,
        }
    }
}

fn next_read_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

struct ConfigTables {
    database: DatabaseConfig,
    stores: BTreeMap<String, StoreConfig>,
    agents: BTreeMap<String, AgentConfig>,
    organizations: ParsedOrganizations,
    audit: AuditConfig,
    history: Retention,
}

fn read_tables(document: &Document<'_>, table: &DeTable<'_>, directory: &Path) -> ConfigTables {
    if table.is_empty() {
        let message = "the file is empty: it has no Store and no agent; `stead init` writes one that works";
        document.add_warning(&(0..0), message);
    }
    let top = document.root_section(table);
    let database = stores::database(&top, directory);
    let stores = stores::stores(&top, directory);
    let hide = agents::hide_globs(&top);
    let ttl = ttl::read(&top);
    let agents = agents::agents(document, &top, (&stores.names, &stores.valid), hide.as_deref(), ttl);
    let organizations = organizations::read(&top, directory, &stores.names, hide.as_deref(), ttl);
    let audit = read_audit(&top);
    let history = amount::read_history(&top);
    top.reject_unknown_keys();
    ConfigTables { database, stores: stores.valid, agents, organizations, audit, history }
}

fn read_audit(top: &Section<'_>) -> AuditConfig {
    let Some(section) = top.table("audit") else { return AuditConfig { enabled: true } };
    let enabled = section.boolean("enabled").is_none_or(|enabled| enabled.value);
    section.reject_unknown_keys();
    AuditConfig { enabled }
}
