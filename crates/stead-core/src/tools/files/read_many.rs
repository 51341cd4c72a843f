//! `read_many`: several texts in one call.

use serde_json::json;

use crate::error::Error;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Block, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::{LineRange, Rest};

/// How many files one call reads.
const MOST_FILES: usize = 100;
/// How many bytes one call returns.
const MOST_BYTES: usize = 256 << 10;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "read_many",
    title: "Read several files",
    description: "Reads several text files at once, which is faster than one call each. Each file comes back in a \
                  block of its own, in the order of paths, the first line of the block being its path. All of them \
                  share 256 KiB: what does not fit is marked as truncated; read on with read_file. A file that \
                  can't be read says why in its place and does not keep the others from being read.",
    needs: &[Access::Read],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::LOOKS,
    input: &[Field::needed("paths", Takes::Texts { most: MOST_FILES }, "The paths, at most 100.")],
    output: &[Field::needed(
        "files",
        Takes::List(&[
            Field::needed("path", Takes::Path, "The path as it was asked for."),
            Field::optional("version_tag", Takes::Tag, "The state that was read."),
            Field::optional("size", Takes::from(0), "The file's size in bytes."),
            Field::optional("truncated", Takes::Flag, "Whether there is more than was returned."),
            Field::optional("next_offset", Takes::from(1), "The offset to go on with in read_file."),
            Field::optional(
                "next_byte_offset",
                Takes::from(0),
                "The byte_offset to go on with in read_file, in a line too long for one call.",
            ),
            Field::optional("error", Takes::Text, "Why it can't be read."),
            Field::optional("code", Takes::Text, "The error's code."),
        ]),
        "What became of each file, in the order of paths.",
    )],
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    if desk.vfs.is_asking() {
        // A person is asked about all of them at once, before any is read. What else is wrong is told file by file.
        let paths: Vec<_> = arguments.texts("paths").filter_map(|path| VfsPath::parse(path).ok()).collect();
        if let Err(ask @ Error::Ask { .. }) = desk.vfs.ask_about(&paths, Access::Read) {
            return Err(ask.into());
        }
    }
    let (mut blocks, mut files, mut left) = (Vec::new(), Vec::new(), MOST_BYTES);
    for path in arguments.texts("paths") {
        // With no room left, a line still tells whether the file is there and can be read.
        let range = LineRange { max_bytes: left.max(1), ..LineRange::default() };
        match desk.vfs.read_lines(path, range) {
            Ok(read) => {
                let truncated = !matches!(read.rest, Rest::End { .. }) || read.text.len() > left;
                let text = if left == 0 { "" } else { read.text.as_str() };
                // A line that does not fit goes on at a byte: by lines it would begin at the same place again.
                let (next, byte) = match read.rest {
                    _ if left == 0 => (Some(1), None),
                    Rest::More { next } => (Some(next), None),
                    Rest::Cut { at } => (None, Some(at)),
                    Rest::End { .. } => (None, None),
                };
                blocks.push(Block::Text(format!("{}\n{text}", read.path)));
                left = left.saturating_sub(read.text.len());
                let mut file = json!({
                    "path": path,
                    "version_tag": String::from(read.tag),
                    "size": read.size,
                    "truncated": truncated,
                });
                if let (true, Some(next)) = (truncated, next) {
                    file["next_offset"] = next.into();
                }
                if let (true, Some(byte)) = (truncated, byte) {
                    file["next_byte_offset"] = byte.into();
                }
                files.push(file);
            }
            // A symlink has led to where a person has to agree.
            Err(ask @ Error::Ask { .. }) if desk.vfs.is_asking() => return Err(ask.into()),
            Err(error) => {
                let failure = Failure::from(error);
                blocks.push(Block::Text(format!("{}\n[{}]", path.escape_debug(), failure.message)));
                files.push(json!({ "path": path, "error": failure.message, "code": failure.kind.code() }));
            }
        }
    }
    Ok(Reply { blocks, ..Reply::default() }.fact("files", files))
}
