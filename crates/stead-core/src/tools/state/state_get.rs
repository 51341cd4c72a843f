//! `state_get`: reads the value of a key.

use super::{KEY, NAMESPACE, OUT_EXPIRES_AT, OUT_KEY, OUT_MODIFIED, OUT_NAMESPACE, OUT_TAG};
use crate::error::ErrorKind;
use crate::path::VfsPath;
use crate::tools::page::PAGE_BYTES;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "state_get",
    title: "Read a key of the State",
    description: "Reads the value of a key of your State: a JSON text, and its version_tag. The State is yours alone and \
                  stays between sessions. A long value comes in parts.",
    required_access: &[],
    offered: OfferedWhen::WithState,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        KEY,
        NAMESPACE,
        Field::optional("offset", FieldType::integer_from(1), "The byte to begin with; 0 if absent."),
    ],
    output: &[
        OUT_KEY,
        OUT_NAMESPACE,
        Field::required("size", FieldType::integer_from(0), "The bytes of the whole value."),
        OUT_TAG,
        OUT_MODIFIED,
        OUT_EXPIRES_AT,
        Field::optional(
            "next_offset",
            FieldType::integer_from(1),
            "What to pass as offset for the next part; absent after the last one.",
        ),
    ],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (state, key) = (context.state(arguments)?, arguments.text("key"));
    let Some(found) = state.get(key)? else {
        let path = VfsPath::of_state_key(state.namespace(), key);
        let hint = if context.lists_keys { "; `state_list` shows the keys" } else { "" };
        let message = format!("`{path}` does not exist{hint}");
        return Err(Failure::new(ErrorKind::NotFound, message));
    };
    let offset = arguments.number("offset").unwrap_or(0) as usize;
    let part = part_from(&found.value, offset).ok_or_else(|| {
        let size = found.value.len();
        Failure::new(
            ErrorKind::Invalid,
            format!("the value has {size} bytes; byte {offset} isn't the start of a part"),
        )
    })?;
    let next = offset + part.len();
    let next = (next < found.value.len()).then_some(next);
    Ok(Reply::content(part)
        .note(next.map(|next| Note::More(format!("offset {next}"))))
        .note(context.state_tag_note(found.version_tag))
        .note(found.expires_at.map(Note::Expires))
        .fact("key", key)
        .fact("namespace", state.namespace())
        .fact("size", found.value.len())
        .fact("version_tag", String::from(found.version_tag))
        .fact("modified", found.modified.to_string())
        .optional_fact("expires_at", found.expires_at.map(|time| time.to_string()))
        .optional_fact("next_offset", next))
}

/// The part of a value from this byte on that fits one reply; `None` if no part begins there.
fn part_from(value: &str, offset: usize) -> Option<&str> {
    let rest = value.get(offset..).filter(|rest| !rest.is_empty() || offset == 0)?;
    let end = (0..=PAGE_BYTES.min(rest.len())).rev().find(|&end| rest.is_char_boundary(end))?;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s17_a_long_value_comes_in_parts_that_end_at_whole_characters() {
        let value = format!("\"{}\"", "é".repeat(PAGE_BYTES));
        let (mut offset, mut joined) = (0, String::new());
        while offset < value.len() {
            let part = part_from(&value, offset).unwrap();
            assert!(!part.is_empty() && part.len() <= PAGE_BYTES);
            joined.push_str(part);
            offset += part.len();
        }
        assert_eq!(joined, value);
        assert_eq!((part_from("1", 1), part_from("\"é\"", 2), part_from("1", 9)), (None, None, None));
    }
}
