//! `undo`: undoes the caller's own operations.

use super::{DRY_RUN, REVERT_OUTPUT, revert_reply};
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::{OnConflict, UndoOptions, UndoTarget};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "undo",
    title: "Undo",
    description: "Undoes your last operations, or one by its id. Later changes by others stay; if there is a \
                  conflict, nothing is changed and the conflicts are listed. An undo can be undone.",
    required_access: &[Access::Restore],
    offered: OfferedWhen::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE,
    input: &[
        Field::optional("last", FieldType::Integer { min: 1, max: 1_000 }, "How many; 1 if absent."),
        Field::optional("operation", FieldType::Text, "Only this operation, by its id."),
        DRY_RUN,
        Field::optional("skip_conflicts", FieldType::Flag, "Leave conflicts as they are, undo the rest."),
    ],
    output: &REVERT_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let target = match (arguments.optional_text("operation"), arguments.number("last")) {
        (Some(_), Some(_)) => return Err(Failure::invalid("pass `operation` or `last`, not both")),
        (Some(id), None) => UndoTarget::Operation(
            id.parse().map_err(|error| Failure::invalid(format!("`operation`: {error}")))?,
        ),
        (None, last) => UndoTarget::Last(last.unwrap_or(1) as usize),
    };
    let on_conflict = if arguments.flag("skip_conflicts") { OnConflict::Skip } else { OnConflict::Refuse };
    let options = UndoOptions { dry_run: arguments.flag("dry_run"), on_conflict };
    Ok(revert_reply(&context.vfs.undo(target, options)?, ("undo", "Undone"), on_conflict))
}
