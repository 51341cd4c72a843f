//! The tools for a stead's State, and the fields that they share.

pub(super) mod state_delete;
pub(super) mod state_get;
pub(super) mod state_list;
pub(super) mod state_set;

use crate::store::VersionTag;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Failure, Note, ToolContext};
use crate::vfs::State;

const KEY: Field = Field::required("key", FieldType::Text, "The key, such as jobs/next.");
const NAMESPACE: Field =
    Field::optional("namespace", FieldType::Text, "The namespace of the key; default if absent.");
const IF_MATCH: Field =
    Field::optional("if_match", FieldType::Tag, "Only if the key still has this version_tag.");

const OUT_KEY: Field = Field::required("key", FieldType::Text, "The key.");
const OUT_NAMESPACE: Field = Field::required("namespace", FieldType::Text, "The namespace of the key.");
const OUT_TAG: Field = Field::required(
    "version_tag",
    FieldType::Tag,
    "The key's version tag; pass it as if_match to change only this version.",
);
const OUT_EXPIRES_AT: Field =
    Field::optional("expires_at", FieldType::Text, "When the key expires; absent if it doesn't.");
const OUT_MODIFIED: Field = Field::required("modified", FieldType::Text, "When the value was set.");
const OUT_OPERATION: Field =
    Field::required("operation", FieldType::Text, "The operation of the change; pass it to undo.");

impl ToolContext<'_> {
    /// The State, in the namespace that the call names.
    fn state(&self, arguments: &Arguments) -> Result<State, Failure> {
        let state = self.vfs.state().ok_or_else(|| Failure::invalid("you have no State"))?;
        match arguments.optional_text("namespace") {
            Some(namespace) => {
                state.in_namespace(namespace).map_err(|error| Failure::invalid(error.to_string()))
            }
            None => Ok(state),
        }
    }

    /// The key's version tag as a note, if some tool takes it.
    fn state_tag_note(&self, tag: VersionTag) -> Option<Note> {
        self.takes_tags.then(|| Note::Tag(tag.short()))
    }
}
