//! Which managed files a list or a search is about.

use crate::clock::Timestamp;
use crate::managed::{Category, Tags};

/// A text isn't a day or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` isn't a day; write 2026-02-27, or 2026-02 for a month or 2026 for a year", .0.escape_debug())]
pub struct InvalidDate(String);

/// A range of time: from `from`, until just before `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateRange {
    /// The first time of the range.
    pub from: Timestamp,
    /// The first time after the range.
    pub until: Timestamp,
}

impl DateRange {
    /// All of time.
    pub const ALL: DateRange = DateRange { from: Timestamp(i64::MIN), until: Timestamp(i64::MAX) };

    /// The range of a day in UTC (`2026-02-27`), a month (`2026-02`) or a year (`2026`).
    pub fn parse(text: &str) -> Result<DateRange, InvalidDate> {
        let invalid = || InvalidDate(text.chars().take(40).collect());
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = |part: &str| part.parse().ok().filter(|_| is_digits(part));
        let numbers: Option<Vec<i64>> = text.split('-').map(number).collect();
        let numbers = numbers.ok_or_else(invalid)?;
        let (first, next) = match (numbers.as_slice(), text.len()) {
            (&[year], 4) => (start_of(year, 1, 1), start_of(year + 1, 1, 1)),
            (&[year, 12], 7) => (start_of(year, 12, 1), start_of(year + 1, 1, 1)),
            (&[year, month], 7) => (start_of(year, month, 1), start_of(year, month + 1, 1)),
            (&[year, month, day], 10) => {
                let from = start_of(year, month, day).ok_or_else(invalid)?;
                return Ok(DateRange { from, until: Timestamp(from.0.saturating_add(86_400_000_000_000)) });
            }
            _ => return Err(invalid()),
        };
        Ok(DateRange { from: first.ok_or_else(invalid)?, until: next.ok_or_else(invalid)? })
    }

    /// The range from the first moment of `from` to the last moment of `to`, both of them days, months or years.
    pub fn between(from: Option<&str>, to: Option<&str>) -> Result<DateRange, InvalidDate> {
        let from = from.map(DateRange::parse).transpose()?.unwrap_or(DateRange::ALL);
        let to = to.map(DateRange::parse).transpose()?.unwrap_or(DateRange::ALL);
        Ok(DateRange { from: from.from, until: to.until })
    }

    /// What both ranges have in common.
    pub fn and(self, other: DateRange) -> DateRange {
        DateRange { from: self.from.max(other.from), until: self.until.min(other.until) }
    }

    /// Whether a time is in the range.
    pub fn contains(&self, time: Timestamp) -> bool {
        self.from <= time && time < self.until
    }
}

/// The first moment of a day; `None` if there is no such day. Times are between the years 1677 and 2262: a day before them begins
/// with the first of them, and a day after them with the last one.
fn start_of(year: i64, month: i64, day: i64) -> Option<Timestamp> {
    let parse = |year| format!("{year:04}-{month:02}-{day:02}").parse::<Timestamp>().ok();
    let limit = if year < 2000 { i64::MIN } else { i64::MAX };
    // The calendar repeats after 400 years.
    parse(year).or_else(|| parse(1678 + (year - 1678).rem_euclid(400)).map(|_| Timestamp(limit)))
}

/// What a search looks for: a text anywhere in the path, the original name or a tag; with `*` or `?`, a pattern for one of them
/// as a whole. Upper and lower case letters of ASCII are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPattern {
    text: String,
    is_glob: bool,
}

impl SearchPattern {
    /// The pattern that a text means. `*` stands for any characters and `?` for one; every other character is itself.
    pub fn new(text: &str) -> Self {
        SearchPattern { text: text.to_owned(), is_glob: text.contains(['*', '?']) }
    }

    /// The text that was searched for.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the text has `*` or `?`, so that it stands for a whole path, name or tag.
    pub fn is_glob(&self) -> bool {
        self.is_glob
    }

    /// Whether the search finds this path, name or tag.
    pub fn finds(&self, text: &str) -> bool {
        let fold = |text: &str| text.chars().map(|character| character.to_ascii_lowercase()).collect();
        let (pattern, text): (Vec<char>, Vec<char>) = (fold(&self.text), fold(text));
        if self.is_glob {
            return matches_glob(&pattern, &text);
        }
        pattern.is_empty() || text.windows(pattern.len()).any(|part| part == pattern)
    }

    /// The pattern for SQL's LIKE with `\` as its escape character.
    pub fn like_pattern(&self) -> String {
        let mut pattern = String::with_capacity(self.text.len() + 2);
        if !self.is_glob {
            pattern.push('%');
        }
        for character in self.text.chars() {
            match character {
                '*' if self.is_glob => pattern.push('%'),
                '?' if self.is_glob => pattern.push('_'),
                '%' | '_' | '\\' => pattern.extend(['\\', character]),
                character => pattern.push(character),
            }
        }
        if !self.is_glob {
            pattern.push('%');
        }
        pattern
    }
}

/// Whether a pattern with `*` and `?` stands for the whole text.
fn matches_glob(pattern: &[char], text: &[char]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    // After the last `*`, and where in the text the part that it stands for ends.
    let mut star: Option<(usize, usize)> = None;
    while in_text < text.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                star = Some((at, in_text));
            }
            Some(&character) if character == '?' || character == text[in_text] => {
                at += 1;
                in_text += 1;
            }
            _ => {
                let Some((after, end)) = star else { return false };
                star = Some((after, end + 1));
                (at, in_text) = (after, end + 1);
            }
        }
    }
    pattern[at..].iter().all(|character| *character == '*')
}

/// Which managed files are wanted. The default is all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFilter {
    /// Only files of this category.
    pub category: Option<Category>,
    /// Only files that were last written in this range.
    pub written: DateRange,
    /// Only files that have all of these tags.
    pub tags: Tags,
    /// Only files that were created in this session.
    pub session: Option<String>,
    /// Only files that this finds.
    pub search: Option<SearchPattern>,
}

impl Default for FileFilter {
    fn default() -> Self {
        FileFilter {
            category: None,
            written: DateRange::ALL,
            tags: Tags::default(),
            session: None,
            search: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> (String, String) {
        let range = DateRange::parse(text).unwrap();
        (range.from.to_string(), range.until.to_string())
    }

    #[test]
    fn w51_a_date_is_a_day_a_month_or_a_year() {
        let midnight = |day: &str| format!("{day}T00:00:00.000Z");
        let days = |from, until| (midnight(from), midnight(until));
        assert_eq!(range("2026-02-27"), days("2026-02-27", "2026-02-28"));
        assert_eq!(range("2026-02"), days("2026-02-01", "2026-03-01"));
        assert_eq!(range("2026-12"), days("2026-12-01", "2027-01-01"));
        assert_eq!(range("2026"), days("2026-01-01", "2027-01-01"));
        for text in
            ["", "x", "2026-13", "2026-02-30", "26-02-27", "2026-2-7", "2026-02-27T10", "-026", "2026-"]
        {
            assert!(DateRange::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn w51_days_before_and_after_all_times_are_days() {
        let range = DateRange::between(Some("0001-01-01"), Some("9999-12-31")).unwrap();
        assert_eq!(range, DateRange::ALL);
        for text in ["9999", "9999-12", "9999-02-28", "2263-01-01", "9996-02-29"] {
            let later = DateRange::parse(text).unwrap();
            assert_eq!((later.from, later.until), (Timestamp(i64::MAX), Timestamp(i64::MAX)), "{text}");
        }
        assert!(DateRange::parse("9999-02-29").is_err() && DateRange::parse("9999-13").is_err());
    }

    #[test]
    fn w51_a_range_includes_both_of_its_ends() {
        let range = DateRange::between(Some("2026-02-27"), Some("2026-03")).unwrap();
        let contains = |text: &str| range.contains(text.parse().unwrap());
        assert!(contains("2026-02-27T00:00:00Z") && contains("2026-03-31T23:59:59.999Z"));
        assert!(!contains("2026-02-26T23:59:59.999Z") && !contains("2026-04-01"));
        assert_eq!(DateRange::between(None, None).unwrap(), DateRange::ALL);
        let march = range.and(DateRange::parse("2026-03").unwrap());
        assert_eq!(march, DateRange::parse("2026-03").unwrap());
    }

    #[test]
    fn w56_a_search_finds_a_part_of_a_name_and_a_pattern_the_whole_of_it() {
        let finds = |pattern, text| SearchPattern::new(pattern).finds(text);
        assert!(finds("PORT", "my-report.md") && finds("", "x") && finds("x", "x") && !finds("xx", "x"));
        assert!(finds("*.md", "a.MD") && finds("r?port*", "report.md") && finds("*", "") && finds("a*", "a"));
        assert!(finds("*a*b*", "xaxxbx") && finds("*ab", "aab") && finds("?\u{e4}", "x\u{e4}"));
        for (pattern, text) in [("report*", "a-report"), ("?", ""), ("?", "ab"), ("*a", "ab"), ("a?", "a")] {
            assert!(!finds(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn w57_percent_underscore_and_backslash_are_literal() {
        assert_eq!(SearchPattern::new(r"50%_\x").like_pattern(), r"%50\%\_\\x%");
        assert_eq!(SearchPattern::new(r"*_?.p%").like_pattern(), r"%\__.p\%");
        assert_eq!(SearchPattern::new("plain").like_pattern(), "%plain%");
    }
}
