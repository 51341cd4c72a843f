//! Draws a recorded session as an SVG.
//!
//! The lines appear one after the other, by CSS alone. Where animation is off, all of them are there. The picture has
//! its own background, so it looks the same on a light page and on a dark one.

use std::fmt::Write;

use super::recording::{LineKind, RecordedLine};

/// The longest line, in characters. Longer ones are wrapped.
const COLUMNS: usize = 92;
/// Pixels. Every line is stretched to this width per character, whatever the width of the reader's font.
const CHARACTER_WIDTH: f64 = 8.4;
const LINE_HEIGHT: f64 = 20.0;
const MARGIN: f64 = 24.0;

const STYLE: &str = "\
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:14px}
text{fill:#c9d1d9;animation:appear .2s both}
.heading{fill:#8b949e;font-style:italic}
.call,.command{fill:#f0f6fc;font-weight:600}
.denied{fill:#ff9492}
.added{fill:#7ee787}
.removed{fill:#ffa198}
@keyframes appear{from{opacity:0}to{opacity:1}}
@media (prefers-reduced-motion:reduce){text{animation:none}}";

/// The picture of a session.
pub(super) fn draw(lines: &[RecordedLine]) -> String {
    let mut body = String::new();
    let (mut y, mut seconds) = (MARGIN + 14.0, 0.5);
    for line in lines {
        if line.kind == LineKind::Heading && !body.is_empty() {
            y += LINE_HEIGHT * 0.6;
        }
        seconds += pause_before(line.kind);
        for part in wrap(&format!("{}{}", prefix(line.kind), line.text)) {
            let _ = writeln!(
                body,
                r#"<text class="{}" x="{MARGIN}" y="{y:.0}" textLength="{:.1}" style="animation-delay:{seconds:.1}s">{}</text>"#,
                class(line.kind),
                part.chars().count() as f64 * CHARACTER_WIDTH,
                escape(&part),
            );
            y += LINE_HEIGHT;
        }
    }
    let (width, height) = (COLUMNS as f64 * CHARACTER_WIDTH + 2.0 * MARGIN, y - LINE_HEIGHT + MARGIN);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img">
<title>An agent reads, is denied, and edits. A person sees the log and the difference, and undoes the edit.</title>
<style>
{STYLE}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
{body}</svg>
"##
    )
}

/// Seconds that pass before a line appears.
fn pause_before(kind: LineKind) -> f64 {
    match kind {
        LineKind::Heading => 0.4,
        LineKind::Call | LineKind::Command => 1.6,
        LineKind::Answer | LineKind::Added | LineKind::Removed | LineKind::Denied => 0.2,
    }
}

fn prefix(kind: LineKind) -> &'static str {
    match kind {
        LineKind::Heading => "",
        LineKind::Call => "> ",
        LineKind::Command => "$ ",
        LineKind::Answer | LineKind::Added | LineKind::Removed | LineKind::Denied => "  ",
    }
}

fn class(kind: LineKind) -> &'static str {
    match kind {
        LineKind::Heading => "heading",
        LineKind::Call => "call",
        LineKind::Command => "command",
        LineKind::Answer => "answer",
        LineKind::Added => "added",
        LineKind::Removed => "removed",
        LineKind::Denied => "denied",
    }
}

/// Breaks a line between words. The lines after the first are indented.
fn wrap(line: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = line.to_owned();
    while rest.chars().count() > COLUMNS {
        let end = rest.char_indices().nth(COLUMNS).map_or(rest.len(), |(index, _)| index);
        // Not in the indentation: the line would not become shorter.
        let indentation = rest.len() - rest.trim_start().len();
        let Some(space) = rest[..end].rfind(' ').filter(|space| *space > indentation) else { break };
        let next = format!("  {}", &rest[space + 1..]);
        rest.truncate(space);
        lines.push(std::mem::replace(&mut rest, next));
    }
    lines.push(rest);
    lines
}

/// The text as it stands in an SVG. Renderers collapse ordinary spaces, so columns are aligned with no-break spaces.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: LineKind, text: &str) -> RecordedLine {
        RecordedLine { kind, text: text.to_owned() }
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let long = "word ".repeat(40);
        let lines = wrap(long.trim());
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:?}");
        assert_eq!(lines.join(" ").split_whitespace().count(), 40);
        assert_eq!(wrap(&"x".repeat(COLUMNS + 1)).len(), 1);
    }

    #[test]
    fn markup_in_output_is_text_in_the_picture() {
        let picture = draw(&[line(LineKind::Answer, "<b> & </svg>")]);
        assert!(picture.contains("&lt;b&gt;\u{a0}&amp;\u{a0}&lt;/svg&gt;"), "{picture}");
        assert_eq!(picture.matches("</svg>").count(), 1);
    }

    #[test]
    fn nothing_is_hidden_where_animation_is_off() {
        let picture = draw(&[line(LineKind::Command, "stead log")]);
        let hidden = picture.matches("opacity:0").count();
        assert_eq!(hidden, 1, "only the animation's first frame hides a line");
        assert!(picture.contains("@keyframes appear{from{opacity:0}"));
    }
}
