//! `copy_file_by_id`: copies a file between folders.

use super::transfer::{TRANSFER_INPUT, TRANSFER_OUTPUT, TransferKind, transfer};
use crate::scope::Access;
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "copy_file_by_id",
    title: "Copy a file between folders",
    description: "Copies a file between folders that list_folders found, or within one. A file at the destination is replaced only with \
                  overwrite.",
    required_access: &[Access::Read, Access::Write],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &TRANSFER_INPUT,
    output: &TRANSFER_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    transfer(context, arguments, TransferKind::Copy)
}
