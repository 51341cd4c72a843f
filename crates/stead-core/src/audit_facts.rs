//! Named facts of an audit record, beside its fixed fields: what an organization, a thread or an executor adds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::is_plain_identifier;

/// The longest text of a fact, in bytes.
const MAX_TEXT: usize = 4_096;
/// The longest texts of all facts together, in bytes. A record has to fit into the audit's spool on a full disk.
const MAX_TEXTS: usize = 8_192;
/// The most facts of a record.
const MAX_FACTS: usize = 32;

/// The names of a record's own fields. A fact can't have one of them.
const FIELD_NAMES: &[&str] = &[
    "instance",
    "seq",
    "at",
    "stead",
    "agent",
    "thread",
    "organization",
    "team",
    "call",
    "paths",
    "scope",
    "outcome",
    "code",
    "dry_run",
    "bytes",
    "files",
    "took_us",
    "operation",
    "version",
    "did",
    "unrecorded",
    "facts",
];

/// The facts of a record, in the order in which they were added.
///
/// Facts are shown to everyone who may read the audit: no file content, no secret and no path of the host belongs here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFacts(Vec<(FactName, FactValue)>);

impl AuditFacts {
    /// Adds a fact, or replaces the one of the same name.
    pub fn with(mut self, name: FactName, value: impl Into<FactValue>) -> Result<Self, InvalidFact> {
        let value = value.into();
        let others = self.0.iter().filter(|(known, _)| *known != name);
        let others: usize = others.map(|(_, value)| value.text_length()).sum();
        if value.text_length() > MAX_TEXT || others + value.text_length() > MAX_TEXTS {
            return Err(InvalidFact::TooLong);
        }
        match self.0.iter().position(|(known, _)| *known == name) {
            Some(index) => self.0[index].1 = value,
            None if self.0.len() >= MAX_FACTS => return Err(InvalidFact::TooMany),
            None => self.0.push((name, value)),
        }
        Ok(self)
    }

    /// Adds a fact of Stead's own, unless the facts that the caller gave leave no room for it.
    ///
    /// # Panics
    ///
    /// If the name isn't valid.
    #[must_use]
    pub fn with_if_room(self, name: &'static str, value: impl Into<FactValue>) -> Self {
        let name = FactName::new(name).expect("a valid name");
        self.clone().with(name, value).unwrap_or(self)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The facts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&FactName, &FactValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The value of a fact.
    pub fn get(&self, name: &str) -> Option<&FactValue> {
        self.0.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| value)
    }
}

impl Serialize for AuditFacts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name.as_str(), value)?;
        }
        map.end()
    }
}

/// Reads the facts of a record that is in the log. Limits are checked when a fact is added, not here.
impl<'de> Deserialize<'de> for AuditFacts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FactsVisitor;
        impl<'de> Visitor<'de> for FactsVisitor {
            type Value = AuditFacts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with texts, integers and booleans")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AuditFacts, A::Error> {
                let mut facts = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, FactValue>()? {
                    facts.push((FactName(name.into()), value));
                }
                Ok(AuditFacts(facts))
            }
        }
        deserializer.deserialize_map(FactsVisitor)
    }
}

/// The name of a fact: 1 to 64 lower-case letters, digits, `_` and `.`, such as `executor.exit_code`; the first one is a
/// letter. Not the name of a record's own field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FactName(Cow<'static, str>);

impl FactName {
    /// Checks a name.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Result<Self, InvalidFact> {
        let name = name.into();
        if is_plain_identifier(&name) && !FIELD_NAMES.contains(&&*name) {
            Ok(FactName(name))
        } else {
            Err(InvalidFact::Name)
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FactName {
    type Err = InvalidFact;

    fn from_str(text: &str) -> Result<Self, InvalidFact> {
        FactName::new(text.to_owned())
    }
}

impl fmt::Display for FactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FactValue {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A text of at most 4 KiB.
    Text(String),
}

impl FactValue {
    fn text_length(&self) -> usize {
        match self {
            FactValue::Text(text) => text.len(),
            FactValue::Bool(_) | FactValue::Integer(_) => 0,
        }
    }
}

impl From<bool> for FactValue {
    fn from(value: bool) -> Self {
        FactValue::Bool(value)
    }
}

impl From<i64> for FactValue {
    fn from(value: i64) -> Self {
        FactValue::Integer(value)
    }
}

impl From<String> for FactValue {
    fn from(value: String) -> Self {
        FactValue::Text(value)
    }
}

impl From<&str> for FactValue {
    fn from(value: &str) -> Self {
        FactValue::Text(value.to_owned())
    }
}

impl fmt::Display for FactValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactValue::Bool(value) => value.fmt(f),
            FactValue::Integer(value) => value.fmt(f),
            FactValue::Text(value) => f.write_str(value),
        }
    }
}

/// Why something can't be a fact of an audit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFact {
    /// The name has other characters or a wrong length, or a field of the record has it.
    #[error(
        "this can't name a fact; use 1 to 64 lower-case letters, digits, `_` and `.`, the first one a letter, and no \
         name of a field that every audit record has"
    )]
    Name,
    /// The text is too long, or all texts together are.
    #[error(
        "the text of a fact can't be longer than {MAX_TEXT} bytes, and all texts of a record together than {MAX_TEXTS}; shorten it"
    )]
    TooLong,
    /// The record has too many facts.
    #[error("an audit record can't have more than {MAX_FACTS} facts; leave some out")]
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> FactName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_plain_and_not_the_name_of_a_field() {
        for good in ["exit", "executor.exit_code", "a1", &"x".repeat(64)] {
            assert_eq!(good.parse::<FactName>().unwrap().as_str(), good);
        }
        for bad in ["", "Exit", "1a", ".a", "a b", "a\"", "ä", "version", "outcome", &"x".repeat(65)] {
            assert_eq!(bad.parse::<FactName>(), Err(InvalidFact::Name), "{bad}");
        }
    }

    #[test]
    fn facts_keep_their_order_and_a_name_has_one_value() {
        let facts = AuditFacts::default().with(name("b"), 1).unwrap().with(name("a"), true).unwrap();
        let facts = facts.with(name("b"), "two").unwrap();
        let shown: Vec<_> = facts.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["b=two", "a=true"]);
        assert_eq!(facts.get("a"), Some(&FactValue::Bool(true)));
        assert_eq!(facts.get("c"), None);
    }

    #[test]
    fn facts_are_bounded() {
        let long = AuditFacts::default().with(name("long"), "x".repeat(MAX_TEXT + 1));
        assert_eq!(long, Err(InvalidFact::TooLong));
        let add = |facts: AuditFacts, index: usize| facts.with(name(&format!("n{index}")), index as i64);
        let many = (0..MAX_FACTS).try_fold(AuditFacts::default(), add).unwrap();
        assert_eq!(add(many.clone(), MAX_FACTS), Err(InvalidFact::TooMany));
        assert!(add(many, 0).is_ok());
        let add =
            |facts: AuditFacts, index: usize| facts.with(name(&format!("n{index}")), "x".repeat(MAX_TEXT));
        let full = (0..MAX_TEXTS / MAX_TEXT).try_fold(AuditFacts::default(), add).unwrap();
        assert_eq!(add(full.clone(), MAX_FACTS), Err(InvalidFact::TooLong));
        assert!(add(full, 0).is_ok());
    }

    #[test]
    fn facts_are_read_from_an_object_in_its_order() {
        let read = |text: &str| serde_json::from_str::<AuditFacts>(text);
        let facts = read(r#"{"z":"t","exit":-1,"ok":false}"#).unwrap();
        let expected = AuditFacts::default().with(name("z"), "t").unwrap();
        let expected = expected.with(name("exit"), -1).unwrap().with(name("ok"), false).unwrap();
        assert_eq!(facts, expected);
        assert_eq!(serde_json::to_string(&facts).unwrap(), r#"{"z":"t","exit":-1,"ok":false}"#);
        assert!(read(r#"{"nested":{}}"#).is_err());
    }
}
