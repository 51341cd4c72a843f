//! Reads the records of an organization from `org.json`, `teams.json` and `agents.json`.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ast::{Array, Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use stead_core::organization::{
    AgentRecord, OrganizationRecords, RecordField, RecordRef, TeamRecord, ToolRule,
};

use super::{Position, RecordPositions};
use crate::config::config_error::ConfigDiagnostic;
use crate::config::line_index::LineIndex;
use crate::config::section::{Document, Severity};
use crate::error::io_error_text;

/// The largest file of records that is read, in bytes.
const MAX_FILE_SIZE: u64 = 64 << 20;

/// The three files in a directory: the organization's, the teams' and the agents'.
pub(super) fn files(directory: &Path) -> [PathBuf; 3] {
    ["org.json", "teams.json", "agents.json"].map(|name| directory.join(name))
}

/// Why there are no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRecords {
    /// A file is missing, or the host doesn't let it be read.
    Unreadable,
    /// Something in the files is wrong.
    Invalid,
}

/// Reads the records. Reports what is wrong with them in the document; `unreadable` makes the diagnostic of a file that can't be
/// read.
pub(super) fn read(
    document: &Document<'_>,
    [organization, teams, agents]: &[PathBuf; 3],
    positions: &mut RecordPositions,
    unreadable: impl Fn(&Path, &str) -> ConfigDiagnostic,
) -> Result<OrganizationRecords, NoRecords> {
    let mut reason = NoRecords::Invalid;
    let texts = [organization, teams, agents].map(|file| match read_file(file) {
        Ok(text) => Some(text),
        Err((why, message)) => {
            document.add_diagnostic(Severity::Problem, unreadable(file, &message));
            reason = if why == NoRecords::Unreadable { why } else { reason };
            None
        }
    });
    let [Some(organization_text), Some(teams_text), Some(agents_text)] = &texts else {
        return Err(reason);
    };
    let organization = RecordFile::new(document, organization, organization_text);
    let teams = RecordFile::new(document, teams, teams_text);
    let agents = RecordFile::new(document, agents, agents_text);
    all_records(&organization, &teams, &agents, positions).ok_or(NoRecords::Invalid)
}

fn all_records(
    organization: &RecordFile<'_>,
    teams: &RecordFile<'_>,
    agents: &RecordFile<'_>,
    positions: &mut RecordPositions,
) -> Option<OrganizationRecords> {
    let records = organization.organization(positions);
    let teams = teams.entries("teams", RecordRef::Team, positions, |id, entry| {
        let (name, tools) = (teams.text(entry, "name")?, teams.tools(entry)?);
        Some(TeamRecord { id, name, leadership: teams.boolean(entry, "leadership")?, tools })
    });
    let agents = agents.entries("agents", RecordRef::Agent, positions, |id, entry| {
        let (name, tools) = (agents.text(entry, "name")?, agents.tools(entry)?);
        Some(AgentRecord { id, name, team_id: agents.text(entry, "teamId")?, tools })
    });
    Some(OrganizationRecords { teams: teams?, agents: agents?, ..records? })
}

/// The text of a file, or why there is none, with a message.
fn read_file(file: &Path) -> Result<String, (NoRecords, String)> {
    let read = || {
        // A pipe or a device could keep the reader waiting, or never end.
        if !std::fs::metadata(file)?.is_file() {
            return Err(std::io::Error::other("not a file"));
        }
        let mut text = String::new();
        let size = std::fs::File::open(file)?.take(MAX_FILE_SIZE + 1).read_to_string(&mut text)?;
        match size as u64 > MAX_FILE_SIZE {
            true => Err(std::io::ErrorKind::FileTooLarge.into()),
            false => Ok(text),
        }
    };
    read().map_err(|error| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let cause = match error.kind() {
            std::io::ErrorKind::Other => "it isn't a regular file".to_owned(),
            kind => io_error_text(kind),
        };
        let reason = match error.kind() {
            std::io::ErrorKind::InvalidData | std::io::ErrorKind::FileTooLarge => NoRecords::Invalid,
            _ => NoRecords::Unreadable,
        };
        (reason, format!("the records `{name}` of the organization can't be read: {cause}"))
    })
}

/// A file of records while it is read.
struct RecordFile<'f> {
    document: &'f Document<'f>,
    file: Arc<Path>,
    lines: LineIndex<'f>,
    text: &'f str,
}

impl<'f> RecordFile<'f> {
    fn new(document: &'f Document<'f>, file: &Path, text: &'f str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        RecordFile { document, file: file.into(), lines: LineIndex::new(text), text }
    }

    fn position(&self, byte: usize) -> Position {
        let (line, column) = self.lines.line_and_column(byte);
        Position { file: Some(Arc::clone(&self.file)), line, column }
    }

    /// Reports a mistake at a byte. Returns `None`, for the reader to return.
    fn problem<T>(&self, byte: usize, message: &str) -> Option<T> {
        let diagnostic = self.position(byte).diagnostic(message);
        self.document.add_diagnostic(Severity::Problem, diagnostic);
        None
    }

    fn warn(&self, byte: usize, message: &str) {
        let diagnostic = self.position(byte).diagnostic(message);
        self.document.add_diagnostic(Severity::Warning, diagnostic);
    }

    fn parse(&self) -> Option<Value<'f>> {
        let options = ParseOptions {
            allow_comments: false,
            allow_loose_object_property_names: false,
            allow_trailing_commas: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        match parse_to_ast(self.text, &CollectOptions::default(), &options) {
            Ok(parsed) => match parsed.value {
                Some(value) => self.has_unique_keys(&value).then_some(value),
                None => self.problem(0, "the file is empty"),
            },
            Err(error) => {
                self.problem(error.range().start, &format!("this isn't valid JSON: {}", error.kind()))
            }
        }
    }

    /// Reports every key that an object has twice. Readers of JSON don't agree which of the two values counts.
    fn has_unique_keys(&self, value: &Value<'_>) -> bool {
        match value {
            Value::Array(Array { elements, .. }) => {
                // Without stopping at the first, so that all of them are reported.
                elements.iter().filter(|element| !self.has_unique_keys(element)).count() == 0
            }
            Value::Object(Object { properties, .. }) => {
                let (mut keys, mut is_unique) = (HashSet::new(), true);
                for property in properties {
                    let key = property.name.as_str();
                    if !keys.insert(key) {
                        let message =
                            format!("the key `{}` occurs twice here; keep one of them", key.escape_debug());
                        self.problem::<()>(property.start(), &message);
                        is_unique = false;
                    }
                    is_unique &= self.has_unique_keys(&property.value);
                }
                is_unique
            }
            _ => true,
        }
    }

    fn organization(&self, positions: &mut RecordPositions) -> Option<OrganizationRecords> {
        let value = self.parse()?;
        let Some(object) = value.as_object() else {
            return self.problem(value.start(), "`org.json` has to be an object");
        };
        self.insert_positions(positions, RecordRef::Organization, object);
        let (id, name) = (self.id(object, None), self.text(object, "name"));
        let (tools, listed_teams) = (self.organization_tools(object), self.listed_teams(object));
        Some(OrganizationRecords {
            id: id?,
            name: name?,
            tools: tools?,
            listed_teams: listed_teams?,
            ..OrganizationRecords::default()
        })
    }

    /// The entries of a list, or of an object that has them by id. Reports what is wrong in all of them.
    fn entries<T>(
        &self,
        what: &str,
        record: fn(usize) -> RecordRef,
        positions: &mut RecordPositions,
        mut read: impl FnMut(String, &Object<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.parse()?;
        let entries: Vec<(Option<&str>, &Value<'_>)> = match &value {
            Value::Array(Array { elements, .. }) => elements.iter().map(|entry| (None, entry)).collect(),
            Value::Object(Object { properties, .. }) => {
                properties.iter().map(|entry| (Some(entry.name.as_str()), &entry.value)).collect()
            }
            other => {
                let message =
                    format!("`{what}.json` has to be a list, or an object with the ids as its keys");
                return self.problem(other.start(), &message);
            }
        };
        let read_entry = |(index, (key, entry)): (usize, (Option<&str>, &Value<'_>))| {
            let Some(object) = entry.as_object() else {
                return self
                    .problem(entry.start(), &format!("entry {index} of `{what}` has to be an object"));
            };
            let id = self.id(object, key)?;
            self.insert_positions(positions, record(index), object);
            read(id, object)
        };
        let entries: Vec<_> = entries.into_iter().enumerate().map(read_entry).collect();
        entries.into_iter().collect()
    }

    fn insert_positions(&self, positions: &mut RecordPositions, record: RecordRef, object: &Object<'_>) {
        positions.insert(record, None, self.position(object.start()));
        for (field, name) in
            [(RecordField::Id, "id"), (RecordField::TeamId, "teamId"), (RecordField::Teams, "teams")]
        {
            if let Some(property) = object.get(name) {
                positions.insert(record, Some(field), self.position(property.value.start()));
            }
        }
        let rule = ["toolWhitelist", "tools", "toolBlacklist"].into_iter().find_map(|name| object.get(name));
        if let Some(property) = rule {
            positions.insert(record, Some(RecordField::Tools), self.position(property.value.start()));
        }
    }

    /// The id of a record: its field `id`, or the key that it is found by.
    fn id(&self, object: &Object<'_>, key: Option<&str>) -> Option<String> {
        match (self.text(object, "id")?, key) {
            (Some(id), Some(key)) if id != key => {
                let message = format!(
                    "the `id` of this record is `{}`, but its key is `{}`",
                    id.escape_debug(),
                    key.escape_debug()
                );
                self.problem(object.start(), &message)
            }
            (Some(id), _) => Some(id),
            (None, Some(key)) => Some(key.to_owned()),
            (None, None) => self.problem(object.start(), "the field `id` is missing"),
        }
    }

    /// The value of a field that isn't null.
    fn value<'v, 'a>(&self, object: &'v Object<'a>, name: &str) -> Option<&'v Value<'a>> {
        let property = object.get(name)?;
        Some(&property.value).filter(|value| value.as_null_keyword().is_none())
    }

    /// An optional text. The outer `None` means that it is wrong, and that this was reported.
    fn text(&self, object: &Object<'_>, name: &str) -> Option<Option<String>> {
        match self.value(object, name) {
            None => Some(None),
            Some(Value::StringLit(text)) => Some(Some(text.value.to_string())),
            Some(other) => self.problem(other.start(), &format!("`{name}` has to be text")),
        }
    }

    fn boolean(&self, object: &Object<'_>, name: &str) -> Option<bool> {
        match self.value(object, name) {
            None => Some(false),
            Some(Value::BooleanLit(boolean)) => Some(boolean.value),
            Some(other) => self.problem(other.start(), &format!("`{name}` has to be true or false")),
        }
    }

    /// An optional list of texts. Where `in_objects` is given, an element may be an object that has the text under this
    /// name.
    fn texts(
        &self,
        object: &Object<'_>,
        name: &str,
        in_objects: Option<&str>,
    ) -> Option<Option<Vec<String>>> {
        let Some(value) = self.value(object, name) else { return Some(None) };
        let expected = format!("`{name}` has to be a list of texts");
        let Some(list) = value.as_array() else { return self.problem(value.start(), &expected) };
        let text = |element: &Value<'_>| match (element, in_objects) {
            (Value::StringLit(text), _) => Some(text.value.to_string()),
            (Value::Object(object), Some(field)) => match self.text(object, field)? {
                Some(text) => Some(text),
                None => self.problem(object.start(), &format!("the field `{field}` is missing")),
            },
            (other, _) => self.problem(other.start(), &expected),
        };
        list.elements.iter().map(text).collect::<Option<Vec<_>>>().map(Some)
    }

    fn listed_teams(&self, object: &Object<'_>) -> Option<Option<Vec<String>>> {
        self.texts(object, "teams", Some("id"))
    }

    /// The tools of a team or an agent, also in the older form of a list of what is excluded.
    fn tools(&self, object: &Object<'_>) -> Option<ToolRule> {
        let whitelist = self.texts(object, "toolWhitelist", None)?;
        let blacklist = self.texts(object, "toolBlacklist", None)?;
        if blacklist.is_some() {
            self.warn_deprecated(object, "toolBlacklist");
        }
        Some(ToolRule {
            whitelist: whitelist.map(|names| names.into_iter().collect()),
            blacklist: blacklist.into_iter().flatten().collect(),
        })
    }

    /// The tools of the organization, also in the older form of a list of definitions.
    fn organization_tools(&self, object: &Object<'_>) -> Option<ToolRule> {
        let mut rule = self.tools(object)?;
        let definitions = self.texts(object, "tools", Some("name"))?;
        if let Some(names) = definitions {
            self.warn_deprecated(object, "tools");
            rule.whitelist.get_or_insert_with(|| names.into_iter().collect());
        }
        Some(rule)
    }

    fn warn_deprecated(&self, object: &Object<'_>, name: &str) {
        let start = object.get(name).map_or(0, |property| property.start());
        self.warn(
            start,
            &format!("`{name}` is deprecated; list the tools that are allowed as `toolWhitelist`"),
        );
    }
}
