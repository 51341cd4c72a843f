//! `snapshot`: a name for now.

use crate::scope::Access;
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "snapshot",
    title: "Take a snapshot",
    description: "Names the present state of a Workspace, or of all, for restore and read_version. Take one before you \
                  change much.",
    needs: &[Access::History],
    offered: Offered::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::ADDS,
    input: &[
        Field::optional("path", Takes::Path, "The Workspace; all if absent."),
        Field::optional("label", Takes::Text, "The name; a number if absent."),
    ],
    output: &[
        Field::needed("snapshot", Takes::Text, "The name to pass to restore and read_version."),
        Field::needed("version", Takes::from(0), "The version that it names."),
    ],
    longest: None,
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (path, label) = (arguments.optional_text("path"), arguments.optional_text("label"));
    match path {
        Some(path) => desk.judge(path, Access::History)?,
        None => desk.vfs.judge(None, Access::History)?,
    }
    let made = desk.moments()?.snapshot(desk.vfs, path, label)?;
    Ok(Reply::text(format!("The state at {} is now called {}.", made.at, made.name.escape_debug()))
        .fact("snapshot", made.name)
        .fact("version", made.version.0))
}
