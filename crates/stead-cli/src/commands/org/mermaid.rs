//! Writes a flowchart as text for Mermaid, the language of pictures that common forges render.
//!
//! The ids of nodes are the caller's. Texts are always quoted, and escaped so that they can't end the quotes, begin a
//! comment, or be read as HTML or Markdown.

use std::fmt::Write as _;

use stead::AccessScope;
use stead::name::escape_text;

/// How many edges Mermaid draws unless its `maxEdges` is raised.
pub(super) const MAX_EDGES: usize = 500;

/// A flowchart while it is written.
pub(super) struct Flowchart {
    text: String,
    depth: usize,
    edges: usize,
}

impl Flowchart {
    pub(super) fn new() -> Self {
        Flowchart { text: "flowchart LR\n".to_owned(), depth: 1, edges: 0 }
    }

    /// A frame with a title around what `draw` draws.
    pub(super) fn frame(&mut self, id: &str, title: &str, draw: impl FnOnce(&mut Flowchart)) {
        self.line(format_args!("subgraph {id}[\"{}\"]", escaped(title)));
        self.depth += 1;
        draw(self);
        self.depth -= 1;
        self.line(format_args!("end"));
    }

    /// An agent, or a team without a frame.
    pub(super) fn actor(&mut self, id: &str, name: &str) {
        self.line(format_args!("{id}([\"{}\"])", escaped(name)));
    }

    /// A folder.
    pub(super) fn folder(&mut self, id: &str, name: &str) {
        self.line(format_args!("{id}[(\"{}\")]", escaped(name)));
    }

    /// An arrow with the Access Scope: solid for READ_WRITE, dotted for READ_ONLY.
    pub(super) fn arrow(&mut self, from: &str, scope: AccessScope, to: &str) {
        let (arrow, label) = match scope {
            AccessScope::ReadWrite => ("-->", "RW"),
            AccessScope::ReadOnly => ("-.->", "RO"),
            AccessScope::WriteOnly => ("==>", "WO"),
        };
        self.line(format_args!("{from} {arrow}|{label}| {to}"));
        self.edges += 1;
    }

    /// The text, and the number of arrows.
    pub(super) fn finish(self) -> (String, usize) {
        (self.text, self.edges)
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{:indent$}{line}", "", indent = self.depth * 4);
    }
}

/// A text for a place between quotes. What isn't a letter, a digit or harmless becomes `#`, its number, and `;`.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    let mut is_start = true;
    for character in escape_text(text).to_string().chars() {
        // At the start of a label, a dash, or a bracket after digits, would begin a Markdown list.
        let is_harmless = match character {
            ' ' => true,
            '-' | ',' | '(' | ')' => !is_start,
            other => other.is_ascii_alphanumeric() || !other.is_ascii(),
        };
        if is_harmless {
            escaped.push(character);
        } else {
            let _ = write!(escaped, "#{};", u32::from(character));
        }
        is_start &= character == ' ' || character.is_ascii_digit();
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_leave_its_quotes_or_be_read_as_markup() {
        assert_eq!(escaped("Marcus (HR) - Shared"), "Marcus (HR) - Shared");
        assert_eq!(escaped("\"]; end"), "#34;#93;#59; end");
        assert_eq!(escaped("a\nb"), "a#92;u#123;a#125;b");
        assert_eq!(escaped("<b>&#35;%%"), "#60;b#62;#38;#35;35#59;#37;#37;");
        assert_eq!(escaped("1. one"), "1#46; one");
        assert_eq!(escaped("1) one (two)"), "1#41; one (two)");
        assert_eq!(escaped(" - one - two"), " #45; one - two");
        assert_eq!(escaped("`*_Ünï 😀"), "#96;#42;#95;Ünï 😀");
    }

    #[test]
    fn a_frame_indents_what_is_in_it() {
        let mut chart = Flowchart::new();
        chart.frame("a", "A", |chart| chart.actor("b", "B"));
        chart.folder("c", "C");
        chart.arrow("b", AccessScope::ReadWrite, "c");
        chart.arrow("a", AccessScope::ReadOnly, "c");
        let (text, edges) = chart.finish();
        assert_eq!(edges, 2);
        insta::assert_snapshot!(text, @r#"
        flowchart LR
            subgraph a["A"]
                b(["B"])
            end
            c[("C")]
            b -->|RW| c
            a -.->|RO| c
        "#);
    }
}
