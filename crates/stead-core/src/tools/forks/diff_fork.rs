//! `diff_fork`: how a fork differs from its base.

use super::FORK;
use crate::history::diff::ContentDiff;
use crate::scope::Access;
use crate::tools::page::{PagedText, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::{DiffOptions, Difference, DifferenceKind};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "diff_fork",
    title: "Compare a fork",
    description: "Shows what a fork has changed: each path with its status, line counts and a unified diff.",
    required_access: &[Access::History],
    offered: OfferedWhen::WithForks,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[FORK, Field::optional("names_only", FieldType::Flag, "Leave the diffs out.")],
    output: &[
        Field::required("added", FieldType::integer_from(0), "How many paths are new."),
        Field::required("changed", FieldType::integer_from(0), "How many are changed."),
        Field::required("moved", FieldType::integer_from(0), "How many are renamed."),
        Field::required("removed", FieldType::integer_from(0), "How many are removed."),
        Field::required("truncated", FieldType::Flag, "Whether the text leaves something out."),
    ],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let options = DiffOptions { text: true, ..DiffOptions::default() };
    let differences = context.require_forks()?.diff(context.vfs, arguments.text("fork"), options)?;
    let names_only = arguments.flag("names_only");
    let mut page = PagedText::new(ReplyBounds::PAGE);
    let mut is_truncated = false;
    if differences.is_empty() {
        page.push_line("There are no differences.");
    }
    for difference in &differences {
        is_truncated |= !page.push_line(&heading(difference));
        if let (false, Some(ContentDiff::Text(text))) = (names_only, &difference.content) {
            for line in text.lines() {
                is_truncated |= !page.push_line(line);
            }
        }
    }
    let count = |kind| differences.iter().filter(|difference| difference.difference == kind).count();
    Ok(Reply::text(page.into_text().trim_end())
        .fact("added", count(DifferenceKind::Added))
        .fact("changed", count(DifferenceKind::Changed))
        .fact("moved", count(DifferenceKind::Moved))
        .fact("removed", count(DifferenceKind::Removed))
        .fact("truncated", is_truncated))
}

/// The status of a path, its former path, and how many lines were added and removed.
fn heading(difference: &Difference) -> String {
    let from = difference.from.as_ref().map_or(String::new(), |from| format!("{from} to "));
    let counts = match &difference.content {
        Some(ContentDiff::Text(text)) => {
            let count = |mark| text.lines().filter(|line| line.starts_with(mark)).count();
            format!(" (+{} -{})", count('+'), count('-'))
        }
        Some(ContentDiff::Binary) => " (binary)".to_owned(),
        None => String::new(),
    };
    format!("{} {from}{}{counts}", difference.difference.as_str(), difference.path)
}
