//! Formats values for people, and makes text safe for a terminal.

use std::path::Path;
use std::time::Duration;

use stead::store::SpecialKind;
use stead::{NodeKind, Timestamp, name, time_text};

/// A size in a few characters: `12 B`, `3.4 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // A value that would be shown as 1024 becomes 1.0 of the next unit.
    while value >= 1023.95 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A time to the minute, in the zone of this machine, as times are read from arguments.
pub(crate) fn time(time: Option<Timestamp>) -> String {
    time.map_or("-".into(), time_text::format_minute)
}

/// A duration in a few characters: `12 µs`, `3.4 ms`, `56 s`.
pub(crate) fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        _ => format!("{} min", micros / 60_000_000),
    }
}

/// A length of time in a few characters, as configurations have it: `45s`, `12m`, `3h 5m`, `2d 4h`.
pub(crate) fn time_span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m"),
        (0, _, 0) => format!("{hours}h"),
        (0, ..) => format!("{hours}h {minutes}m"),
        (_, 0, _) => format!("{days}d"),
        _ => format!("{days}d {hours}h"),
    }
}

/// Kind and mode in the form of `ls -l`: `drwxr-xr-x`.
pub(crate) fn mode(kind: NodeKind, mode: u32) -> String {
    let letter = match kind {
        NodeKind::File => '-',
        NodeKind::Directory => 'd',
        NodeKind::Symlink => 'l',
        NodeKind::Special(SpecialKind::Fifo) => 'p',
        NodeKind::Special(SpecialKind::Socket) => 's',
        NodeKind::Special(SpecialKind::Device) => 'c',
    };
    let bits = (0..9).rev().map(|bit| {
        let name = ['x', 'w', 'r'][bit as usize % 3];
        if mode & (1 << bit) != 0 { name } else { '-' }
    });
    std::iter::once(letter).chain(bits).collect()
}

/// The character that `ls -F` puts after a name to show its kind: `/`, `@`.
pub(crate) fn kind_suffix(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::File => "",
        NodeKind::Directory => "/",
        NodeKind::Symlink => "@",
        NodeKind::Special(SpecialKind::Fifo) => "|",
        NodeKind::Special(SpecialKind::Socket) => "=",
        NodeKind::Special(SpecialKind::Device) => "",
    }
}

/// A number with the right noun: "1 file", "2 files".
pub(crate) fn count(number: u64, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}

/// Escapes what could control a terminal, except tabs.
pub(crate) fn escape_text(text: &str) -> String {
    let parts: Vec<_> = text.split('\t').map(|part| name::escape_text(part).to_string()).collect();
    parts.join("\t")
}

/// Escapes what could control a terminal, except line breaks.
pub(crate) fn escape_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| name::escape_text(line).to_string()).collect();
    lines.join("\n")
}

/// A path of the host with unsafe characters escaped.
pub(crate) fn host_path(path: &Path) -> String {
    name::escape_name(path.as_os_str().as_encoded_bytes()).to_string()
}

/// Parses a number that must be at least 1, for clap.
pub(crate) fn parse_positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it has to be at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("it has to be a whole number".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1024), "1.0 KiB");
        assert_eq!(size((1 << 20) - 1), "1.0 MiB");
        assert_eq!(size(3_565_158), "3.4 MiB");
        assert_eq!(size(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn durations_stay_short() {
        let formatted = [7, 999, 3_449, 56_789, 1_234_567, 123_456_789].map(duration);
        assert_eq!(formatted, ["7 µs", "999 µs", "3.4 ms", "56 ms", "1.2 s", "2 min"]);
    }

    #[test]
    fn time_spans_stay_short() {
        let spans =
            [0, 59, 60, 3_599, 3_600, 11_100, 86_400, 187_300].map(Duration::from_secs).map(time_span);
        assert_eq!(spans, ["0s", "59s", "1m", "59m", "1h", "3h 5m", "1d", "2d 4h"]);
    }

    #[test]
    fn modes_look_as_in_ls() {
        assert_eq!(mode(NodeKind::Directory, 0o755), "drwxr-xr-x");
        assert_eq!(mode(NodeKind::File, 0o604), "-rw----r--");
        let special = |kind| mode(NodeKind::Special(kind), 0o644).remove(0);
        assert_eq!(
            [SpecialKind::Fifo, SpecialKind::Socket, SpecialKind::Device].map(special),
            ['p', 's', 'c']
        );
        assert_eq!(time(None), "-");
    }

    #[test]
    fn a_line_of_a_file_cannot_control_a_terminal() {
        assert_eq!(escape_text("a\tb\x1b[31mc\\d"), "a\tb\\u{1b}[31mc\\d");
    }
}
