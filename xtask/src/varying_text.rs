//! The parts of a program's output that differ from run to run: ids, times, durations and secrets.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What a varying part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    /// An operation id, a version tag, or another name of digits.
    Id,
    /// A date with a time.
    Time,
    /// How long something took.
    Duration,
    /// A token of a client.
    Secret,
}

/// Each group is one kind. Spaces before a duration align a column, so they belong to it.
static VARIABLES: LazyLock<Regex> = LazyLock::new(|| {
    let id = "[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{8,}";
    let time = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?";
    let duration = r" +\d+(?:\.\d+)? (?:µs|ms|s)";
    let secret = "stead_[A-Za-z0-9_-]{43}";
    Regex::new(&format!(
        r"(?P<secret>{secret})|\b(?P<time>{time})|(?P<duration>{duration})\b|\b(?P<id>{id})\b"
    ))
    .expect("the pattern is valid")
});

/// The text with each varying part replaced.
pub(crate) fn replace(text: &str, mut replacement: impl FnMut(Variable, &str) -> String) -> String {
    let replace = |found: &Captures<'_>| replacement(kind(found), &found[0]);
    VARIABLES.replace_all(text, replace).into_owned()
}

/// The text with a fixed mark for each varying part, to compare two runs.
pub(crate) fn without_variables(text: &str) -> String {
    replace(text, |kind, _| format!(" <{kind:?}>"))
}

/// The varying parts in order.
pub(crate) fn variables(text: &str) -> Vec<&str> {
    VARIABLES.find_iter(text).map(|found| found.as_str()).collect()
}

fn kind(found: &Captures<'_>) -> Variable {
    if found.name("secret").is_some() {
        Variable::Secret
    } else if found.name("time").is_some() {
        Variable::Time
    } else if found.name("duration").is_some() {
        Variable::Duration
    } else {
        Variable::Id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_one_command_are_equal_without_their_variables() {
        let first =
            "2026-11-15 06:25:59.225  coder  mv  ok     325 µs  /a (01a1ddfe-db70-73d0-973f-51da99d87c0a)";
        let second =
            "2027-01-01 23:59:00.001  coder  mv  ok  1.2 ms  /a (00000000-0000-7000-8000-000000000000)";
        assert_ne!(first, second);
        assert_eq!(without_variables(first), without_variables(second));
        assert_eq!(variables(first).len(), 3);
    }

    #[test]
    fn words_and_small_numbers_are_compared() {
        for (one, other) in [("v1", "v2"), ("4 B", "5 B"), ("added", "faded"), ("/notes/12", "/notes/13")] {
            assert_ne!(without_variables(one), without_variables(other));
        }
    }

    #[test]
    fn a_token_is_one_secret() {
        let token = "stead_Wj4BcLSyZZZFkvYedSDGlZFbAExajDODM-HRmJhEaRE";
        assert_eq!(without_variables(token), " <Secret>");
    }
}
