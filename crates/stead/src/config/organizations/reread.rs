//! Reads a configuration again while one is in use.
//!
//! Each organization is decided for itself: what is wrong with the records of one, or with the configuration file, changes
//! nothing for another one, whose records are followed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_core::organization::Organization;

use super::json_records::NoRecords;
use super::{IdClash, OrganizationConfig, ParsedOrganization, RecordPositions, from_files, id_clashes};
use crate::config::config_error::{ConfigDiagnostic, ConfigProblems};
use crate::config::section::Document;
use crate::config::{Config, ConfigError, ParsedConfig, next_read_number};
use crate::current_records::FileFingerprint;

/// An organization whose records can't be used as they are in its files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnusedRecords {
    /// The id of the organization; `None` if it isn't known, because its records have not been valid so far.
    pub organization: Option<String>,
    /// What is in use in place of its records.
    pub in_use: RecordsInUse,
    /// What is wrong with its records.
    pub problems: ConfigProblems,
}

/// What is in use while the records of an organization can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordsInUse {
    /// Its last valid records: something in its files is wrong.
    LastValid,
    /// Nothing, so that nobody has rights by it: a file is missing or can't be read, or no records have been valid so far.
    Nothing,
}

impl fmt::Display for UnusedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.organization {
            Some(id) => write!(f, "the records of the organization `{id}` ")?,
            None => write!(f, "the records of an organization ")?,
        }
        match self.in_use {
            RecordsInUse::LastValid => write!(f, "aren't valid, so its last valid ones stay in use:")?,
            RecordsInUse::Nothing => write!(f, "can't be used, so its agents have no rights:")?,
        }
        write!(f, "\n{}", self.problems)
    }
}

/// Why a configuration file that was read again isn't used.
#[derive(Debug)]
pub enum UnusedFile {
    /// It is empty. It is probably in the middle of being written.
    Empty(Box<Config>),
    /// It can't be read, or it isn't valid.
    Invalid(ConfigError),
}

/// What reading a configuration again has brought.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reread {
    /// The configuration of the file. If that can't be used: the one in use, with those records that can be used.
    pub config: Config,
    /// Why the file isn't used; `None` if it is.
    pub unused_file: Option<UnusedFile>,
}

/// A configuration file that isn't valid.
struct InvalidFile {
    problems: ConfigProblems,
    /// Its organizations, as far as they could be read.
    organizations: Vec<ParsedOrganization>,
}

impl Config {
    /// Reads a file like [`Config::load`], except that records of organizations may be missing or wrong. Those
    /// organizations are left out: see [`Config::unused_records`].
    pub fn load_usable(file: &Path) -> Result<Config, ConfigError> {
        let fingerprint = FileFingerprint::of(file);
        let config = Self::read_parsed(file)?.usable_after(&[]).map_err(|invalid| invalid.problems)?;
        Config { was_read: true, fingerprint, ..config }.without_contradictions()
    }

    /// The organizations whose records can't be used as they are in their files.
    pub fn unused_records(&self) -> &[UnusedRecords] {
        &self.unused_records
    }

    /// Reads the file and all records again, while this configuration is in use.
    pub(crate) fn read_again(&self) -> Reread {
        let fingerprint = FileFingerprint::of(&self.file);
        let parsed = Self::read_parsed(&self.file);
        let (organizations, unused_file) = match parsed.map(|parsed| parsed.usable_after(&self.organizations))
        {
            Ok(Ok(config)) if !config.is_empty() => {
                let config = Config { was_read: true, fingerprint, ..config };
                return Reread { config, unused_file: None };
            }
            Ok(Ok(empty)) => (Vec::new(), UnusedFile::Empty(Box::new(empty))),
            Ok(Err(invalid)) => (invalid.organizations, UnusedFile::Invalid(invalid.problems.into())),
            Err(error) => (Vec::new(), UnusedFile::Invalid(error)),
        };
        let config = self.with_records_again(&organizations, fingerprint);
        Reread { config, unused_file: Some(unused_file) }
    }

    /// This configuration with the records as they are now, where they are valid. `parsed` are the organizations of the
    /// file, which isn't valid as a whole.
    fn with_records_again(
        &self,
        parsed: &[ParsedOrganization],
        fingerprint: Option<FileFingerprint>,
    ) -> Config {
        // Before the files are read, so that what changes from here on is found by the next comparison.
        let record_fingerprints = self.record_files().map(FileFingerprint::of).collect();
        let mut unused_records = Vec::new();
        let read_again = |previous: &OrganizationConfig| match previous.record_files.is_empty() {
            true => previous.with_records_in(parsed),
            false => previous.with_records_of_files(&self.file, &mut unused_records),
        };
        let mut organizations: Vec<_> = self.organizations.iter().map(read_again).map(Some).collect();
        let previous: Vec<_> = self.organizations.iter().map(Some).collect();
        let resolved = resolve_clashes(&mut organizations, &previous, self, &mut unused_records);
        let organizations = match resolved {
            Ok(()) => organizations.into_iter().flatten().collect(),
            Err(_) => self.organizations.clone(),
        };
        let read_number = next_read_number();
        Config {
            organizations,
            record_fingerprints,
            fingerprint,
            read_number,
            unused_records,
            ..self.clone()
        }
    }
}

impl ParsedConfig {
    /// The configuration, if the file itself is valid. Organizations whose records can't be used have those of `previous`, or
    /// are left out.
    fn usable_after(mut self, previous: &[OrganizationConfig]) -> Result<Config, InvalidFile> {
        let record_files = self.tables.organizations.files();
        let parsed = std::mem::take(&mut self.tables.organizations.all);
        if !self.problems.is_empty() {
            let ParsedConfig { file, problems, warnings, .. } = self;
            let problems = ConfigProblems { file, problems, warnings };
            return Err(InvalidFile { problems, organizations: parsed });
        }
        let previous: Vec<_> = parsed.iter().map(|parsed| parsed.find_in(previous)).collect();
        let mut unused_records = Vec::new();
        let usable = |(parsed, previous): (&ParsedOrganization, &Option<&OrganizationConfig>)| match parsed
            .no_records
        {
            None => parsed.config.clone(),
            Some(reason) => {
                let problems = parsed.record_problems.clone();
                instead_of_records(*previous, reason, &self.file, problems, &mut unused_records)
            }
        };
        let mut organizations: Vec<_> = parsed.iter().zip(&previous).map(usable).collect();
        let config = self.into_config(Vec::new(), record_files);
        match resolve_clashes(&mut organizations, &previous, &config, &mut unused_records) {
            Ok(()) => {
                let organizations = organizations.into_iter().flatten().collect();
                Ok(Config { organizations, unused_records, ..config })
            }
            Err(clash) => {
                let problem = ConfigDiagnostic::at(parsed[clash.index].position, &clash.message);
                let Config { file, warnings, .. } = config;
                let problems = ConfigProblems { file, problems: vec![problem], warnings };
                Err(InvalidFile { problems, organizations: parsed })
            }
        }
    }
}

impl ParsedOrganization {
    /// The same organization in another configuration, if it is there: with the same files of records or, if the records are
    /// in the configuration file, with the same id.
    fn find_in<'c>(&self, organizations: &'c [OrganizationConfig]) -> Option<&'c OrganizationConfig> {
        let id = self.config.as_ref().map(|config| config.organization.id());
        organizations.iter().find(|config| match self.record_files.is_empty() {
            true => config.record_files.is_empty() && Some(config.organization.id()) == id,
            false => config.record_files == self.record_files,
        })
    }
}

impl OrganizationConfig {
    /// With the records that its section in the configuration file has now, if nothing is wrong with that section.
    fn with_records_in(&self, parsed: &[ParsedOrganization]) -> OrganizationConfig {
        let is_same = |parsed: &&ParsedOrganization| {
            !parsed.is_section_wrong && parsed.find_in(std::slice::from_ref(self)).is_some()
        };
        let found = parsed.iter().find(is_same).and_then(|parsed| parsed.config.as_ref());
        found
            .map_or_else(|| self.clone(), |found| self.with_records(Organization::clone(&found.organization)))
    }

    /// With the records that its files have now, or with what is used in their place.
    fn with_records_of_files(&self, file: &Path, unused: &mut Vec<UnusedRecords>) -> OrganizationConfig {
        let Ok(files) = <&[PathBuf; 3]>::try_from(&*self.record_files) else { return self.clone() };
        let document = Document::new("");
        let unreadable = |file: &Path, message: &str| ConfigDiagnostic::at((1, 1), message).in_file(file);
        let settings = self.organization.settings().clone();
        let mut positions = RecordPositions::default();
        let (read, problems) =
            document.collect_problems(|| from_files(&document, files, settings, &mut positions, unreadable));
        match read {
            Ok(organization) => self.with_records(organization),
            Err(reason) => {
                instead_of_records(Some(self), reason, file, problems, unused).unwrap_or_else(|| self.clone())
            }
        }
    }

    /// With other records. The settings stay: those that come with the records may be of a file that isn't used.
    fn with_records(&self, records: Organization) -> OrganizationConfig {
        let organization = Arc::new(records.with_settings(self.organization.settings().clone()));
        OrganizationConfig { organization, ..self.clone() }
    }
}

/// What is used in place of an organization's records, which can't be used. Notes it in `unused`.
fn instead_of_records(
    previous: Option<&OrganizationConfig>,
    reason: NoRecords,
    file: &Path,
    problems: Vec<ConfigDiagnostic>,
    unused: &mut Vec<UnusedRecords>,
) -> Option<OrganizationConfig> {
    let (instead, in_use) = match (previous, reason) {
        (Some(previous), NoRecords::Invalid) => (Some(previous.clone()), RecordsInUse::LastValid),
        (Some(previous), NoRecords::Unreadable) => {
            let organization = Arc::new(previous.organization.without_members());
            (Some(OrganizationConfig { organization, ..previous.clone() }), RecordsInUse::Nothing)
        }
        (None, _) => (None, RecordsInUse::Nothing),
    };
    unused.push(unused_records(previous, in_use, file, problems));
    instead
}

fn unused_records(
    previous: Option<&OrganizationConfig>,
    in_use: RecordsInUse,
    file: &Path,
    problems: Vec<ConfigDiagnostic>,
) -> UnusedRecords {
    let organization = previous.map(|previous| previous.organization.id().to_owned());
    let problems = ConfigProblems { file: file.to_owned(), problems, warnings: Vec::new() };
    UnusedRecords { organization, in_use, problems }
}

/// Gives organizations that have taken an id that isn't free their last valid records back. If the id is no news, or the organization is, the
/// configuration file is what is wrong, and the clash is returned.
fn resolve_clashes(
    organizations: &mut [Option<OrganizationConfig>],
    previous: &[Option<&OrganizationConfig>],
    config: &Config,
    unused: &mut Vec<UnusedRecords>,
) -> Result<(), IdClash> {
    let known_ids: Vec<_> =
        previous.iter().map(|previous| previous.map(|config| config.organization.id())).collect();
    loop {
        let clashes = id_clashes(organizations, &known_ids, &config.agents);
        if clashes.is_empty() {
            return Ok(());
        }
        for clash in clashes {
            let (organization, previous) = (&mut organizations[clash.index], previous[clash.index]);
            let id = organization.as_ref().map(|config| config.organization.id());
            let Some(previous) = previous.filter(|previous| Some(previous.organization.id()) != id) else {
                return Err(clash);
            };
            let problem = ConfigDiagnostic::at((1, 1), &clash.message);
            let problem = match previous.record_files.first() {
                Some(file) => problem.in_file(file),
                None => problem,
            };
            unused.push(unused_records(Some(previous), RecordsInUse::LastValid, &config.file, vec![problem]));
            *organization = Some(previous.clone());
        }
    }
}
