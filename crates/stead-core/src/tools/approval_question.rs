//! The question for a person before a call: which agent wants to use which tool, on which paths, and what would change.
//!
//! Everything in it comes from the call, and no Store is read. Only the question about a merge also has the diff of what the merge
//! would change, as far as the agent may see it, because the call has only the name of the fork.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::error::ErrorKind;
use crate::history::diff::{ContentDiff, diff_content};
use crate::identity::Identity;
use crate::name::escape_text;
use crate::path::VfsPath;
use crate::tools::forks::merge_fork;
use crate::tools::schema::FieldType;
use crate::tools::toolbox::{ApprovalAnswer, ApprovalGrant};
use crate::tools::{Arguments, Failure, Tool, ToolContext};
use crate::vfs::{ApprovalItem, CallEnd, ForkState, MergeResult};

/// The most paths that a question names one by one.
const MAX_NAMED_PATHS: usize = 100;
/// The most lines that describe the change.
const MAX_LINES: usize = 30;
/// The most characters of such a line.
const MAX_LINE: usize = 160;
/// The longest texts that are compared by line, in bytes.
const MAX_COMPARED: usize = 16 << 10;

/// The question for a person before the call can continue. Nothing has happened yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalQuestion {
    /// The question: a sentence that names the agent, the tool and the paths, and lines that describe the change.
    pub text: String,
    /// The sentence alone.
    pub(super) sentence: String,
    items: Vec<ApprovalItem>,
    /// For a merge: what the fork had changed when this was asked.
    fork_state: Option<ForkState>,
}

/// What a merge would do, for the person who is asked about it.
pub(super) struct MergePreview {
    text: String,
    fork_state: Option<ForkState>,
}

impl MergePreview {
    /// `None` if the call isn't a merge, or if it can't be planned: the call then fails for the same reason.
    pub(super) fn of(tool: &Tool, context: &ToolContext<'_>, arguments: &Arguments) -> Option<Self> {
        if tool.name != merge_fork::TOOL.name {
            return None;
        }
        let mut planned = None;
        let vfs = context.vfs.with_approval();
        // The call itself has the record, once the question is answered.
        let _ = vfs.single_record(
            tool.name,
            None,
            |_| CallEnd::Pending,
            |vfs| -> Result<(), Failure> {
                planned = Some(merge_fork::plan(&ToolContext { vfs, ..*context }, arguments)?);
                Err(Failure::new(ErrorKind::Unavailable, "a plan changes nothing"))
            },
        );
        planned.map(|result| MergePreview { text: describe_merge(&result), fork_state: result.fork_state })
    }
}

/// The changes of a merge with their diffs, and the conflicts that it would have.
fn describe_merge(result: &MergeResult) -> String {
    let mut lines = ChangeLines::default();
    for change in &result.changes {
        let from = change.from.as_ref().map_or(String::new(), |from| format!("{from} to "));
        lines.push(&format!("{} {from}{}", change.action.as_str(), change.path));
        let side = |content: &Option<Arc<Vec<u8>>>| content.clone().unwrap_or_default();
        if let Some(content) = &change.content
            && (content.before.is_some() || content.after.is_some())
        {
            match diff_content(&side(&content.before), &side(&content.after), 1) {
                ContentDiff::Text(text) => text.lines().for_each(|line| lines.push(line)),
                ContentDiff::Binary => lines.push("(binary)"),
            }
        }
    }
    for conflict in &result.conflicts {
        lines.push(&format!("conflict {}: {}", conflict.path, conflict.kind.as_str()));
    }
    lines.into_text()
}

impl ApprovalQuestion {
    pub(super) fn new(
        tool: &Tool,
        identity: &Identity,
        items: Vec<ApprovalItem>,
        change: &str,
        merge: Option<MergePreview>,
    ) -> Self {
        let mut seen = BTreeSet::new();
        let paths = items.iter().map(|item| &item.path).filter(|path| seen.insert(*path));
        let paths: Vec<&VfsPath> = paths.collect();
        let named_paths: Vec<_> =
            paths.iter().take(MAX_NAMED_PATHS).map(|path| quoted(path.as_str())).collect();
        let more = match paths.len().saturating_sub(MAX_NAMED_PATHS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (agent, tool, paths) = (quoted(&identity.agent), tool.name, named_paths.join(", "));
        let sentence = format!("May the agent {agent} use `{tool}` on {paths}{more}?");
        let (diff, fork_state) = merge.map_or_else(Default::default, |merge| (merge.text, merge.fork_state));
        let parts = [&*sentence, change, &*diff].into_iter().filter(|part| !part.is_empty());
        let text = parts.collect::<Vec<_>>().join("\n");
        ApprovalQuestion { text, sentence, items, fork_state }
    }

    /// The person approves.
    pub fn approve(self) -> ApprovalAnswer {
        ApprovalAnswer::Approved(ApprovalGrant::items(self.items, self.fork_state))
    }
}

/// A text in backticks. A backtick in it would look like its end, so it is escaped.
fn quoted(text: &str) -> String {
    format!("`{}`", escape_text(text).to_string().replace('`', "\\u{60}"))
}

/// What a call would change, in a few lines: the old text after `-`, the new one after `+`, and the other parameters by
/// name. The paths aren't repeated.
pub(super) fn describe_change(tool: &Tool, arguments: &Arguments) -> String {
    let mut lines = ChangeLines::default();
    for field in tool.input {
        match (field.name, &field.field_type, arguments.value(field.name)) {
            (_, FieldType::Path, _) | ("paths" | "new_string" | "replace_all", ..) | (.., None) => {}
            ("old_string", _, Some(Value::String(old))) => {
                let new = arguments.optional_text("new_string").unwrap_or_default();
                lines.push_replacement(old, new, arguments.flag("replace_all"));
            }
            ("more_edits", ..) => {
                for edit in arguments.objects("more_edits") {
                    let text = |name| edit.get(name).and_then(Value::as_str).unwrap_or_default();
                    let replaces_all = edit.get("replace_all") == Some(&Value::Bool(true));
                    lines.push_replacement(text("old_string"), text("new_string"), replaces_all);
                }
            }
            ("content", _, Some(Value::String(content))) => lines.push_text('+', content),
            (name, _, Some(value)) => lines.push(&format!("{name}: {value}")),
        }
    }
    lines.into_text()
}

/// Lines that describe a change, up to a limit.
#[derive(Debug, Default)]
struct ChangeLines {
    text: String,
    count: usize,
}

impl ChangeLines {
    fn push(&mut self, line: &str) {
        self.count += 1;
        if self.count > MAX_LINES {
            return;
        }
        let shown: String = line.chars().take(MAX_LINE).collect();
        let cut = if shown.len() < line.len() { "…" } else { "" };
        // Tabs are harmless, and code is easier to read with them.
        let parts: Vec<_> = shown.split('\t').map(|part| escape_text(part).to_string()).collect();
        let _ = writeln!(self.text, "{}{cut}", parts.join("\t"));
    }

    /// Adds the lines of a text after a sign.
    fn push_text(&mut self, sign: char, text: &str) {
        for line in text.lines() {
            // What isn't shown is only counted, and a line is cut anyway.
            let start = line.char_indices().nth(MAX_LINE).map_or(line, |(end, _)| &line[..end]);
            let cut = if start.len() < line.len() { "…" } else { "" };
            self.push(&format!("{sign}{start}{cut}"));
        }
    }

    /// Adds the lines that a replacement removes and adds.
    fn push_replacement(&mut self, old: &str, new: &str, replaces_all: bool) {
        if replaces_all {
            self.push("every occurrence:");
        }
        if old.len().max(new.len()) > MAX_COMPARED {
            self.push_text('-', old);
            self.push_text('+', new);
            return;
        }
        for change in TextDiff::from_lines(old, new).iter_all_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            self.push_text(sign, change.value());
        }
    }

    fn into_text(mut self) -> String {
        if self.count > MAX_LINES {
            let _ = writeln!(self.text, "… and {} more lines", self.count - MAX_LINES);
        }
        self.text.truncate(self.text.trim_end().len());
        self.text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::tool;

    fn change(name: &str, arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        let tool = tool(name).unwrap();
        describe_change(tool, &Arguments::check(tool, arguments).unwrap())
    }

    #[test]
    fn an_edit_is_shown_as_a_difference() {
        let edit = json!({ "path": "/a", "old_string": "one\ntwo\n", "new_string": "one\n2\n" });
        assert_eq!(change("edit_file", edit), " one\n-two\n+2");
        let several = json!({
            "path": "/a", "old_string": "a", "new_string": "b", "replace_all": true,
            "more_edits": [{ "old_string": "c", "new_string": "" }],
        });
        assert_eq!(change("edit_file", several), "every occurrence:\n-a\n+b\n-c");
    }

    #[test]
    fn other_parameters_are_shown_by_name() {
        let delete = json!({ "path": "/d", "recursive": true });
        assert_eq!(change("delete_directory", delete), "recursive: true");
        assert_eq!(change("write_file", json!({ "path": "/a", "content": "x\ny" })), "+x\n+y");
        assert_eq!(change("move_file", json!({ "source": "/a", "destination": "/b" })), "");
        assert_eq!(change("read_many", json!({ "paths": ["/a"], "byte_limit": 7 })), "byte_limit: 7");
    }

    #[test]
    fn a_long_change_is_cut_and_forges_no_line() {
        let content = format!("\u{1b}[2J\rMay I?\n{}\n{}", "x".repeat(1_000), "y\n".repeat(1_000));
        let text = change("write_file", json!({ "path": "/a", "content": content }));
        assert_eq!(text.lines().count(), MAX_LINES + 1);
        assert!(text.ends_with("\n… and 972 more lines") && text.len() < 1_000, "{text}");
        assert!(!text.contains(['\u{1b}', '\r']) && text.lines().next().unwrap().starts_with('+'), "{text}");
        let long = "x\n".repeat(20_000);
        let edit = json!({ "path": "/a", "old_string": long, "new_string": "" });
        assert!(change("edit_file", edit).starts_with("-x\n-x\n"));
    }
}
