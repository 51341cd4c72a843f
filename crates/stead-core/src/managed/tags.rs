//! The tags of a managed file.

use std::fmt;

/// The tag of a file that cleanup leaves alone.
pub const PIN_TAG: &str = "pin";
/// The longest tag, in bytes.
const MAX_TAG: usize = 64;
/// The most tags of one file.
const MAX_TAGS: usize = 32;

/// What a list of tags does to the tags of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TagMode {
    /// Adds them.
    #[default]
    Add,
    /// Removes them.
    Remove,
    /// Puts them in place of those that the file has.
    Set,
}

impl TagMode {
    /// The names of the modes.
    pub const NAMES: [&'static str; 3] = ["add", "remove", "set"];

    /// The mode with this name.
    pub fn parse(name: &str) -> Option<TagMode> {
        [TagMode::Add, TagMode::Remove, TagMode::Set].into_iter().find(|mode| mode.as_str() == name)
    }

    /// The name of the mode.
    pub fn as_str(self) -> &'static str {
        TagMode::NAMES[self as usize]
    }
}

/// A text can't be a tag, or a file would have too many.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTag {
    /// The tag is empty.
    #[error("a tag can't be empty")]
    Empty,
    /// The tag contains a control character.
    #[error("the tag `{}` contains a control character", .0.escape_debug())]
    ControlCharacter(String),
    /// The tag is too long.
    #[error("a tag can have {MAX_TAG} bytes at most")]
    TooLong,
    /// There are too many tags.
    #[error("a file can have {MAX_TAGS} tags at most")]
    TooMany,
}

/// Tags, each of them once, in the order in which they were added. No tag contains a comma or spaces at its ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tags(Vec<String>);

impl Tags {
    /// Checks tags. A text with commas is a list of several; spaces around a tag don't count, and nothing between two commas is
    /// no tag.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Tags, InvalidTag> {
        let mut tags = Tags::default();
        for text in texts {
            for tag in text.as_ref().split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
                if tag.contains(char::is_control) {
                    return Err(InvalidTag::ControlCharacter(tag.chars().take(MAX_TAG).collect()));
                }
                if tag.len() > MAX_TAG {
                    return Err(InvalidTag::TooLong);
                }
                if !tags.contains(tag) {
                    tags.0.push(tag.to_owned());
                }
            }
        }
        if tags.0.len() > MAX_TAGS { Err(InvalidTag::TooMany) } else { Ok(tags) }
    }

    /// The tags that a manifest has stored, which are checked already.
    pub fn from_stored(text: &str) -> Tags {
        Tags(text.split(',').filter(|tag| !tag.is_empty()).map(str::to_owned).collect())
    }

    /// These tags after `other` was added to, removed from or set in place of them.
    pub fn changed(&self, mode: TagMode, other: &Tags) -> Result<Tags, InvalidTag> {
        let tags = match mode {
            TagMode::Set => other.clone(),
            TagMode::Remove => self.without(other),
            TagMode::Add => {
                let added = other.0.iter().filter(|tag| !self.contains(tag));
                Tags(self.0.iter().chain(added).cloned().collect())
            }
        };
        if tags.0.len() > MAX_TAGS { Err(InvalidTag::TooMany) } else { Ok(tags) }
    }

    /// These tags except `other`.
    pub fn without(&self, other: &Tags) -> Tags {
        Tags(self.0.iter().filter(|tag| !other.contains(tag)).cloned().collect())
    }

    /// Whether this is one of them. Upper and lower case differ.
    pub fn contains(&self, tag: &str) -> bool {
        self.0.iter().any(|own| own == tag)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tags, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Display for Tags {
    /// The tags with commas between them, as a manifest stores them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tags(texts: &[&str]) -> Tags {
        Tags::parse(texts).unwrap()
    }

    #[test]
    fn w74_tags_are_trimmed_added_once_and_removed() {
        let first = tags(&[" draft, urgent ", "draft"]);
        assert_eq!(first.to_string(), "draft,urgent");
        let twice = first.changed(TagMode::Add, &tags(&["urgent", "new"])).unwrap();
        assert_eq!(twice.to_string(), "draft,urgent,new");
        assert_eq!(
            twice.changed(TagMode::Remove, &tags(&["draft", "no such"])).unwrap().to_string(),
            "urgent,new"
        );
        assert_eq!(twice.changed(TagMode::Set, &tags(&["only"])).unwrap().to_string(), "only");
        assert!(twice.changed(TagMode::Set, &tags(&[])).unwrap().is_empty());
        assert!(!tags(&["important"]).contains("port"));
    }

    #[test]
    fn w74_what_cant_be_a_tag_is_refused() {
        assert_eq!(Tags::parse(["a\nb"]), Err(InvalidTag::ControlCharacter("a\nb".into())));
        assert_eq!(Tags::parse(["x".repeat(65)]), Err(InvalidTag::TooLong));
        let many: Vec<_> = (0..33).map(|number| number.to_string()).collect();
        assert_eq!(Tags::parse(&many), Err(InvalidTag::TooMany));
        let (first, rest) = many.split_at(20);
        let first = Tags::parse(first).unwrap();
        assert_eq!(first.changed(TagMode::Add, &Tags::parse(rest).unwrap()), Err(InvalidTag::TooMany));
        assert!(tags(&["", " , ,"]).is_empty());
    }

    proptest! {
        #[test]
        fn w74_stored_tags_read_as_they_were(texts in prop::collection::vec("[a-z ,]{0,12}", 0..6)) {
            let tags = Tags::parse(&texts).unwrap();
            prop_assert_eq!(Tags::from_stored(&tags.to_string()), tags.clone());
            prop_assert_eq!(tags.changed(TagMode::Add, &tags).unwrap(), tags.clone());
            prop_assert!(tags.changed(TagMode::Remove, &tags).unwrap().is_empty());
        }
    }
}
