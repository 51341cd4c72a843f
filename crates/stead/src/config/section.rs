//! A table of the file while it is read: a key that [`keys`](super::keys) doesn't list is reported as unknown.
//!
//! Reading goes on after a problem, so that all problems are reported at once.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::config_error::ConfigDiagnostic;
use super::host_check::{HostCheck, HostCheckKind};
use super::keys::{self, Key, TableKeys, ValueKind};
use super::line_index::LineIndex;
use super::nearest::{nearest, quoted_list};

/// The file's text, and the problems, warnings and host checks collected while reading it.
pub(super) struct Document<'t> {
    lines: LineIndex<'t>,
    problems: RefCell<Vec<ConfigDiagnostic>>,
    warnings: RefCell<Vec<ConfigDiagnostic>>,
    host_checks: RefCell<Vec<HostCheck>>,
}

impl<'t> Document<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Document {
            lines: LineIndex::new(text),
            problems: RefCell::default(),
            warnings: RefCell::default(),
            host_checks: RefCell::default(),
        }
    }

    /// Reports a mistake.
    pub(super) fn add_problem(&self, span: &Range<usize>, message: impl Into<String>) {
        self.problems.borrow_mut().push(ConfigDiagnostic::at(self.position(span), &message.into()));
    }

    /// Reports a mistake or a warning that has its position already, such as one in another file.
    pub(super) fn add_diagnostic(&self, severity: Severity, diagnostic: ConfigDiagnostic) {
        match severity {
            Severity::Problem => self.problems.borrow_mut().push(diagnostic),
            Severity::Warning => self.warnings.borrow_mut().push(diagnostic),
        }
    }

    /// Does something, and returns the mistakes that it reported apart from the others.
    pub(super) fn collect_problems<T>(&self, act: impl FnOnce() -> T) -> (T, Vec<ConfigDiagnostic>) {
        let others = self.problems.borrow().len();
        let result = act();
        (result, self.problems.borrow_mut().split_off(others))
    }

    /// Reports mistakes that were collected.
    pub(super) fn add_problems(&self, problems: impl IntoIterator<Item = ConfigDiagnostic>) {
        self.problems.borrow_mut().extend(problems);
    }

    /// Reports something that has no effect.
    pub(super) fn add_warning(&self, span: &Range<usize>, message: impl Into<String>) {
        self.warnings.borrow_mut().push(ConfigDiagnostic::at(self.position(span), &message.into()));
    }

    /// Adds a check to make on the host later, with the position in the file that it is about.
    fn add_host_check(&self, span: &Range<usize>, kind: HostCheckKind) {
        let (line, column) = self.position(span);
        self.host_checks.borrow_mut().push(HostCheck { line, column, kind });
    }

    /// The line where a span begins.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        self.position(span).0
    }

    pub(super) fn position(&self, span: &Range<usize>) -> (usize, usize) {
        self.lines.line_and_column(span.start)
    }

    /// The whole file as a section.
    pub(super) fn root_section<'d>(&'d self, table: &'d DeTable<'d>) -> Section<'d> {
        Section { document: self, table, name: String::new(), span: 0..0, keys: &keys::ROOT }
    }

    /// The problems and warnings, by line, and the host checks.
    pub(super) fn finish(self) -> (Vec<ConfigDiagnostic>, Vec<ConfigDiagnostic>, Vec<HostCheck>) {
        let (mut problems, mut warnings) = (self.problems.into_inner(), self.warnings.into_inner());
        problems.sort();
        warnings.sort();
        (problems, warnings, self.host_checks.into_inner())
    }
}

/// Whether a configuration can be used despite what a diagnostic says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// It can't.
    Problem,
    /// It can.
    Warning,
}

/// One table of the file.
pub(super) struct Section<'d> {
    document: &'d Document<'d>,
    table: &'d DeTable<'d>,
    /// Its name in messages, such as `stores.code`; empty for the whole file.
    name: String,
    /// Its span in the file: of its key, or, in a list of tables, of the table.
    span: Range<usize>,
    keys: &'static TableKeys,
}

/// A value and its position in the file.
#[derive(Debug, Clone)]
pub(super) struct WithSpan<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

impl<'d> Section<'d> {
    /// Reports that something is missing from the table, or that the table as a whole is wrong.
    pub(super) fn add_problem(&self, message: impl Into<String>) {
        self.document.add_problem(&self.span, message);
    }

    /// Reports that a value is wrong.
    pub(super) fn reject_value<T>(&self, value: &WithSpan<T>, message: impl ToString) {
        self.document.add_problem(&value.span, message.to_string());
    }

    /// Adds a check to make on the host, about this value.
    pub(super) fn add_host_check<T>(&self, value: &WithSpan<T>, kind: HostCheckKind) {
        self.document.add_host_check(&value.span, kind);
    }

    /// Where the table is in the file.
    pub(super) fn position(&self) -> (usize, usize) {
        self.document.position(&self.span)
    }

    /// The file that the table is in.
    pub(super) fn document(&self) -> &'d Document<'d> {
        self.document
    }

    fn qualified_name(&self, name: &str) -> String {
        if self.name.is_empty() { name.to_owned() } else { format!("{}.{name}", self.name) }
    }

    /// Narrows the section to the keys of one kind of table.
    pub(super) fn use_keys(&mut self, keys: &'static TableKeys) {
        self.keys = keys;
    }

    /// The description of a key that the reader asks for.
    fn key(&self, name: &str) -> &'static Key {
        self.keys
            .key(name)
            .unwrap_or_else(|| panic!("`{name}` isn't listed as a key of `{}`", self.keys.header))
    }

    fn key_span(&self, key: &str) -> Range<usize> {
        self.table.get_key_value(key).map_or(0..0, |(key, _)| key.span())
    }

    /// The value of a key, converted by `read`. If `read` returns `None`, reports that the value has to be `expected`.
    fn read<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&'d DeValue<'d>) -> Option<T>,
    ) -> Option<WithSpan<T>> {
        self.key(key);
        let found = self.table.get(key)?;
        match read(found.get_ref()) {
            Some(value) => Some(WithSpan { value, span: found.span() }),
            None => {
                let kind = type_name_of(found.get_ref());
                self.document.add_problem(&found.span(), format!("`{key}` has to be {expected}, not {kind}"));
                None
            }
        }
    }

    pub(super) fn text(&self, key: &'static str) -> Option<WithSpan<&'d str>> {
        self.read(key, "text", |value| value.as_str())
    }

    pub(super) fn number(&self, key: &'static str) -> Option<WithSpan<u64>> {
        self.read(key, "a number of at least 0", |value| {
            let integer = value.as_integer()?;
            u64::from_str_radix(integer.as_str(), integer.radix()).ok()
        })
    }

    /// A number of days, or `"never"`, which is `None`. A number that is too large for a number of days is the largest one.
    pub(super) fn days(&self, key: &'static str) -> Option<WithSpan<Option<i64>>> {
        self.read(key, "a number of days or \"never\"", |value| match value.as_str() {
            Some("never") => Some(None),
            Some(_) => None,
            None => {
                let integer = value.as_integer()?;
                Some(Some(i64::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i64::MAX)))
            }
        })
    }

    pub(super) fn boolean(&self, key: &'static str) -> Option<WithSpan<bool>> {
        self.read(key, "true or false", |value| value.as_bool())
    }

    /// A list of texts, each with its position.
    pub(super) fn texts(&self, key: &'static str) -> Option<WithSpan<Vec<WithSpan<&'d str>>>> {
        self.read(key, "a list of texts", |value| {
            let with_span = |item: &'d Spanned<DeValue<'d>>| {
                item.get_ref().as_str().map(|value| WithSpan { value, span: item.span() })
            };
            value.as_array()?.iter().map(with_span).collect()
        })
    }

    /// A text that has to be there; `explanation` explains it in the message.
    pub(super) fn required(&self, key: &'static str, explanation: &str) -> Option<WithSpan<&'d str>> {
        if !self.table.contains_key(key) {
            if self.has_similar_key(key) {
                return None;
            }
            self.add_problem(format!("`{}` needs `{key}`: {explanation}", self.name));
            return None;
        }
        self.text(key)
    }

    /// A text that has to be one of the key's choices.
    pub(super) fn one_of(&self, key: &'static str) -> Option<WithSpan<&'d str>> {
        let found = self.text(key)?;
        let ValueKind::OneOf(choices) = self.key(key).value else {
            panic!("`{key}` isn't listed as a choice");
        };
        if choices.contains(&found.value) {
            return Some(found);
        }
        self.reject_choice(key, &found, choices);
        None
    }

    /// Reports that a value isn't one of the key's choices.
    pub(super) fn reject_choice(&self, key: &str, found: &WithSpan<&str>, choices: &[&str]) {
        let hint = match nearest(found.value, choices.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it takes {}", quoted_list(choices.iter().copied())),
        };
        self.reject_value(found, format!("`{key}` can't be `{}`; {hint}", found.value.escape_debug()));
    }

    /// A table under a key.
    pub(super) fn table(&self, key: &'static str) -> Option<Section<'d>> {
        let table = self.read(key, "a table", |value| value.as_table())?;
        let span = self.key_span(key);
        Some(self.subsection(self.qualified_name(key), table.value, span, self.inner_keys(key)))
    }

    /// The named tables under a key, such as `[stores.code]`.
    pub(super) fn named_tables(&self, key: &'static str) -> Vec<(String, Section<'d>)> {
        let Some(tables) = self.table(key) else { return Vec::new() };
        let mut named = Vec::new();
        for (name, value) in tables.table {
            match value.get_ref().as_table() {
                Some(table) => {
                    let title = tables.qualified_name(name.get_ref());
                    let section = self.subsection(title, table, name.span(), tables.keys);
                    named.push((name.get_ref().to_string(), section));
                }
                None => {
                    let message = format!(
                        "`{}` has to be a table: [{}]",
                        name.get_ref(),
                        tables.qualified_name(name.get_ref())
                    );
                    self.document.add_problem(&name.span(), message);
                }
            }
        }
        // In the order of the file, so that of two duplicates the later one is reported.
        named.sort_by_key(|(_, section)| section.span.start);
        named
    }

    /// The list of tables under a key, such as `[[agents.coder.workspaces]]`.
    pub(super) fn tables(&self, key: &'static str) -> Vec<Section<'d>> {
        let expected = format!("a list of tables: [[{}]]", self.qualified_name(key));
        let found = self.read(key, &expected, |value| {
            let with_span = |item: &'d Spanned<DeValue<'d>>| {
                item.get_ref().as_table().map(|value| WithSpan { value, span: item.span() })
            };
            value.as_array()?.iter().map(with_span).collect::<Option<Vec<_>>>()
        });
        let found = found.map(|found| found.value).unwrap_or_default();
        found
            .into_iter()
            .map(|table| {
                self.subsection(self.qualified_name(key), table.value, table.span, self.inner_keys(key))
            })
            .collect()
    }

    /// The keys of the table or tables under a key. Where there are several kinds, the reader chooses one.
    fn inner_keys(&self, key: &str) -> &'static TableKeys {
        match self.key(key).value {
            ValueKind::Table(keys)
            | ValueKind::BooleanOrTable(keys)
            | ValueKind::TableList(keys)
            | ValueKind::NamedTables(&[keys, ..]) => keys,
            _ => &keys::NONE,
        }
    }

    fn subsection(
        &self,
        name: String,
        table: &'d DeTable<'d>,
        span: Range<usize>,
        keys: &'static TableKeys,
    ) -> Section<'d> {
        Section { document: self.document, table, name, span, keys }
    }

    /// Warns that a key has no effect yet, if it is present.
    pub(super) fn warn_no_effect(&self, key: &str) {
        if self.table.contains_key(key) {
            let message = format!("`{}` has no effect in this version", self.qualified_name(key));
            self.document.add_warning(&self.key_span(key), message);
        }
    }

    /// Whether a key is present and its value is a boolean.
    pub(super) fn is_bool(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| value.get_ref().as_bool().is_some())
    }

    /// Whether a key is present and its value is a list without items.
    pub(super) fn is_empty_list(&self, key: &str) -> bool {
        let list = self.table.get(key).and_then(|value| value.get_ref().as_array());
        list.is_some_and(|list| list.is_empty())
    }

    /// Reports something about a value that is probably not intended.
    pub(super) fn warn_value<T>(&self, value: &WithSpan<T>, message: impl ToString) {
        self.document.add_warning(&value.span, message.to_string());
    }

    /// Whether a key is present.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether a key is present that is this one or a misspelling of it. Then it isn't reported as missing as well.
    pub(super) fn has_similar_key(&self, key: &str) -> bool {
        self.table.iter().any(|(key_in_file, _)| nearest(key_in_file.get_ref(), [key]).is_some())
    }

    /// Ends the reading: reports every key that the table doesn't have.
    pub(super) fn reject_unknown_keys(&self) {
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if self.keys.key(name).is_some() {
                continue;
            }
            let hint = match nearest(name, self.keys.names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it takes {}", quoted_list(self.keys.names())),
            };
            let owner = if self.name.is_empty() { "the file".into() } else { format!("`{}`", self.name) };
            let message = format!("`{}` isn't a known key of {owner}; {hint}", name.escape_debug());
            self.document.add_problem(&key.span(), message);
        }
    }
}

fn type_name_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
