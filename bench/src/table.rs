//! Tables in Markdown: a row per measurement, a column per contender, and ratios between contenders.

use std::fmt;

use crate::measure::Summary;

/// How a number of seconds is shown.
#[derive(Debug, Clone, Copy)]
pub enum Unit {
    /// As a time.
    Time,
    /// As operations per second.
    Rate,
    /// As MiB per second; one operation moves this many MiB.
    Throughput(f64),
    /// As MiB; the number is bytes, not seconds.
    Memory,
    /// As a count; the number isn't seconds.
    Count,
}

/// A title, rows of cells, and columns that say how many times as fast one contender is as another.
#[derive(Debug)]
pub struct Table {
    title: String,
    columns: Vec<String>,
    ratios: Vec<(usize, usize)>,
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    /// A table with a column for each label, and a ratio for each pair whose labels are both columns.
    pub fn new(title: impl Into<String>, columns: &[&str], pairs: &[(&str, &str)]) -> Self {
        let column_index = |label: &str| columns.iter().position(|column| *column == label);
        let ratios = pairs
            .iter()
            .filter_map(|(ours, theirs)| Some((column_index(ours)?, column_index(theirs)?)))
            .collect();
        let columns = columns.iter().map(|label| (*label).to_owned()).collect();
        Table { title: title.into(), columns, ratios, rows: Vec::new() }
    }

    /// Adds a row of medians.
    pub fn row(&mut self, name: impl Into<String>, summaries: &[Option<Summary>], unit: Unit) {
        self.cells(
            name,
            &summaries.iter().map(|summary| summary.map(|s| s.median)).collect::<Vec<_>>(),
            unit,
        );
    }

    /// Adds a row of the slowest operations.
    pub fn row_of_worst(&mut self, name: impl Into<String>, summaries: &[Option<Summary>]) {
        self.cells(
            name,
            &summaries.iter().map(|summary| summary.map(|s| s.worst)).collect::<Vec<_>>(),
            Unit::Time,
        );
    }

    /// Adds a row of texts.
    pub fn texts(&mut self, name: impl Into<String>, cells: Vec<String>) {
        self.rows.push((name.into(), cells));
    }

    fn cells(&mut self, name: impl Into<String>, seconds: &[Option<f64>], unit: Unit) {
        let absent = || "–".to_owned();
        let mut cells =
            seconds.iter().map(|s| s.map_or_else(absent, |s| with_unit(s, unit))).collect::<Vec<_>>();
        for &(ours, theirs) in &self.ratios {
            let ratio = seconds[ours].zip(seconds[theirs]).map(|(ours, theirs)| theirs / ours);
            cells.push(ratio.map_or_else(absent, |ratio| format!("{}×", digits(ratio))));
        }
        self.rows.push((name.into(), cells));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratios = self
            .ratios
            .iter()
            .map(|&(ours, theirs)| format!("{} : {}", self.columns[ours], self.columns[theirs]));
        let columns = self.columns.iter().cloned().chain(ratios).collect::<Vec<_>>();
        writeln!(f, "| {} | {} |", self.title, columns.join(" | "))?;
        writeln!(f, "|---|{}", "---:|".repeat(columns.len()))?;
        for (name, cells) in &self.rows {
            writeln!(f, "| {name} | {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}

/// A number with its unit: seconds, or what the unit says instead.
pub fn with_unit(seconds: f64, unit: Unit) -> String {
    match unit {
        Unit::Time if seconds < 1e-6 => format!("{} ns", digits(seconds * 1e9)),
        Unit::Time if seconds < 1e-3 => format!("{} µs", digits(seconds * 1e6)),
        Unit::Time if seconds < 1.0 => format!("{} ms", digits(seconds * 1e3)),
        Unit::Time => format!("{} s", digits(seconds)),
        Unit::Rate => format!("{}/s", digits(1.0 / seconds)),
        Unit::Throughput(size) => format!("{} MiB/s", digits(size / seconds)),
        Unit::Memory => format!("{} MiB", digits(seconds / f64::from(1 << 20))),
        Unit::Count => count(seconds as usize),
    }
}

/// A count, with commas between thousands.
pub fn count(things: usize) -> String {
    if things < 1_000 { things.to_string() } else { digits(things as f64) }
}

/// A number with about three significant digits, and commas between thousands.
pub fn digits(number: f64) -> String {
    match number {
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 100.0 => format!("{n:.1}"),
        n if n < 1_000.0 => format!("{n:.0}"),
        n => {
            let text = format!("{n:.0}");
            let (head, tail) = text.split_at(text.len() - 3);
            if head.len() > 3 {
                format!("{},{},{tail}", &head[..head.len() - 3], &head[head.len() - 3..])
            } else {
                format!("{head},{tail}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_significant_digits() {
        assert_eq!(
            [1.234, 12.34, 123.4, 1234.4, 1234567.0].map(digits),
            ["1.23", "12.3", "123", "1,234", "1,234,567"]
        );
        assert_eq!([7, 100, 20_000].map(count), ["7", "100", "20,000"]);
        assert_eq!(with_unit(0.000_012_34, Unit::Time), "12.3 µs");
        assert_eq!(with_unit(0.5, Unit::Throughput(64.0)), "128 MiB/s");
        assert_eq!(with_unit(0.001, Unit::Rate), "1,000/s");
        assert_eq!(with_unit(1.5 * 1024.0 * 1024.0, Unit::Memory), "1.50 MiB");
        assert_eq!(with_unit(0.0, Unit::Count), "0");
    }

    #[test]
    fn a_ratio_above_one_means_that_ours_is_faster() {
        let summary = |seconds| Some(Summary { median: seconds, worst: seconds });
        let mut table = Table::new("case", &["ours", "theirs"], &[("ours", "theirs"), ("ours", "absent")]);
        table.row("read", &[summary(1e-5), summary(2e-5)], Unit::Time);
        table.row("list", &[summary(1e-5), None], Unit::Time);
        assert_eq!(
            table.to_string(),
            "| case | ours | theirs | ours : theirs |\n|---|---:|---:|---:|\n\
             | read | 10.0 µs | 20.0 µs | 2.00× |\n| list | 10.0 µs | – | – |\n"
        );
    }
}
