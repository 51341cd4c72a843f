//! Version tags, and changes that are applied only if their precondition holds.

use std::collections::HashSet;

use super::subject::*;
use crate::edit::Occurrences;
use crate::store::{
    Content, IfMissing, Precondition, PutOptions, Replace, Step, StoreError, Subtree, VersionTag,
};

/// A tag that no node has.
const UNKNOWN_TAG: VersionTag = VersionTag(0xdead_beef_dead_beef_dead_beef_dead_beef);

fn with_precondition(expect: Precondition) -> PutOptions {
    PutOptions { expect, ..PutOptions::default() }
}

pub fn a_tag_changes_with_every_write(t: &Subject) {
    let mut tags = HashSet::new();
    for round in 0..40 {
        let attr = t.write("file", if round % 2 == 0 { "A" } else { "B" });
        assert_eq!(t.stat("file").tag, attr.tag);
        assert_eq!(t.store.read(&at("file"), 9).unwrap().attr.tag, attr.tag);
        assert!(tags.insert(attr.tag), "round {round} has the tag of an earlier one");
    }
    for step in [append("file", "A"), edit("file", "BA", "AB"), edit("file", "AB", "BA")] {
        let attr = t.apply_one(step).attr.unwrap();
        assert_eq!(t.stat("file").tag, attr.tag);
        assert!(tags.insert(attr.tag));
    }
}

pub fn an_outcome_reports_the_tag_before(t: &Subject) {
    assert_eq!(t.apply_one(append("file", "A")).before, None);
    for step in [append("file", "B"), edit("file", "AB", "BA"), chmod(at("file"), 0o600)] {
        let tag = t.stat("file").tag;
        assert_eq!(t.apply_one(step).before, Some(tag));
    }
    let tag = t.stat("file").tag;
    let write = write_with(at("file"), b"C".to_vec(), PutOptions::default());
    assert_eq!(t.apply_one(write).before, Some(tag));
}

pub fn a_tag_changes_with_every_write_in_place(t: &Subject) {
    t.write("file", "A");
    let path = crate::store::NodePath::of_node(t.node("file"));
    let mut tags = HashSet::from([t.stat("file").tag]);
    for round in 0..40 {
        let mut draft = t.draft_of(&path);
        draft.write_at(0, if round % 2 == 0 { b"B" } else { b"A" }).unwrap();
        let content = Content::Sealed(draft.seal().unwrap());
        let attr = t.apply_one(write_with(path.clone(), content, PutOptions::default())).attr.unwrap();
        assert_eq!(t.stat("file").tag, attr.tag);
        assert!(tags.insert(attr.tag), "round {round} has the tag of an earlier one");
    }
}

pub fn a_tag_stays_while_its_file_is_unchanged(t: &Subject) {
    let tag = t.write("dir/file", "1").tag;
    t.write("dir/other", "2");
    t.read("dir/file");
    t.open("dir/file");
    t.rename("dir", "moved", Replace::Refuse);
    assert_eq!(t.stat("moved/file").tag, tag);
    t.remove("moved/other");
    assert_eq!(t.stat("moved/file").tag, tag);
}

pub fn two_files_never_share_a_tag(t: &Subject) {
    let tags: HashSet<_> = (0..50).map(|number| t.write(&format!("{number}"), "same").tag).collect();
    assert_eq!(tags.len(), 50);
    let before = t.stat("0").tag;
    t.remove("0");
    assert_ne!(t.write("0", "same").tag, before, "a file that was created again has to get another tag");
}

pub fn a_write_checks_its_precondition(t: &Subject) {
    let put_step = |path: &str, expect| write_with(at(path), b"new".to_vec(), with_precondition(expect));
    check_put_preconditions(t, &put_step);
}

pub fn an_append_checks_its_precondition(t: &Subject) {
    let put_step = |path: &str, expect| append_with(at(path), b"new".to_vec(), with_precondition(expect));
    check_put_preconditions(t, &put_step);
}

fn check_put_preconditions(t: &Subject, put_step: &dyn Fn(&str, Precondition) -> Step) {
    t.apply_one(put_step("absent", Precondition::Absent));
    let tag = t.write("file", "old").tag;
    assert!(matches!(
        t.assert_step_refused(put_step("file", Precondition::Absent)),
        StoreError::AlreadyExists
    ));
    assert!(matches!(
        t.assert_step_refused(put_step("file", Precondition::Tag(UNKNOWN_TAG))),
        StoreError::Conflict
    ));
    assert!(matches!(
        t.assert_step_refused(put_step("file", Precondition::TagOrAbsent(UNKNOWN_TAG))),
        StoreError::Conflict
    ));
    assert!(matches!(
        t.assert_step_refused(put_step("missing", Precondition::Tag(tag))),
        StoreError::Conflict
    ));
    assert!(matches!(
        t.assert_step_refused(put_step("new/parents/too", Precondition::Tag(tag))),
        StoreError::Conflict
    ));
    assert_eq!(t.stat("file").tag, tag, "a refused change does not touch the file");

    let second_tag = t.apply_one(put_step("file", Precondition::Tag(tag))).attr.unwrap().tag;
    assert!(
        matches!(t.assert_step_refused(put_step("file", Precondition::Tag(tag))), StoreError::Conflict),
        "an outdated tag has to be refused"
    );
    let third_tag = t.apply_one(put_step("file", Precondition::TagOrAbsent(second_tag))).attr.unwrap().tag;
    t.apply_one(put_step("made", Precondition::TagOrAbsent(second_tag)));
    assert!(t.exists("made"));

    // The short form of a tag is compared like the tag.
    assert!(matches!(
        t.assert_step_refused(put_step("file", Precondition::ShortTag(second_tag.short()))),
        StoreError::Conflict
    ));
    assert!(matches!(
        t.assert_step_refused(put_step("none", Precondition::ShortTag(third_tag.short()))),
        StoreError::Conflict
    ));
    t.apply_one(put_step("file", Precondition::ShortTag(third_tag.short())));
    assert!(matches!(
        t.assert_step_refused(put_step("file", Precondition::ShortTag(third_tag.short()))),
        StoreError::Conflict
    ));
}

pub fn an_edit_checks_its_precondition(t: &Subject) {
    let tag = t.write("file", "a").tag;
    let edit = |path, old, expect| edit_with(at(path), old, "b", Occurrences::One, expect);
    assert!(matches!(
        t.assert_step_refused(edit("file", "a", Precondition::Tag(UNKNOWN_TAG))),
        StoreError::Conflict
    ));
    assert!(
        matches!(
            t.assert_step_refused(edit("file", "no such text", Precondition::Tag(UNKNOWN_TAG))),
            StoreError::Conflict
        ),
        "the precondition is checked before the text"
    );
    assert!(matches!(
        t.assert_step_refused(edit("missing", "a", Precondition::Tag(tag))),
        StoreError::NotFound
    ));
    assert!(matches!(
        t.assert_step_refused(edit("file", "a", Precondition::ShortTag(UNKNOWN_TAG.short()))),
        StoreError::Conflict
    ));
    t.apply_one(edit("file", "a", Precondition::ShortTag(tag.short())));
    assert_eq!(t.read("file"), b"b");
}

pub fn a_removal_checks_its_precondition(t: &Subject) {
    let tag = t.write("file", "a").tag;
    let remove =
        |path, tag, if_missing| remove_with(at(path), Subtree::File, Precondition::Tag(tag), if_missing);
    assert!(matches!(
        t.assert_step_refused(remove("file", UNKNOWN_TAG, IfMissing::Fail)),
        StoreError::Conflict
    ));
    assert!(matches!(t.assert_step_refused(remove("missing", tag, IfMissing::Fail)), StoreError::NotFound));
    t.apply_one(remove("missing", tag, IfMissing::Ignore));
    t.apply_one(remove("file", tag, IfMissing::Fail));
    assert!(!t.exists("file"));
}

pub fn the_kind_is_checked_before_the_precondition(t: &Subject) {
    t.write("dir/file", "1");
    let options = || with_precondition(Precondition::Tag(UNKNOWN_TAG));
    assert!(matches!(
        t.assert_step_refused(write_with(at("dir"), b"1".to_vec(), options())),
        StoreError::IsADirectory
    ));
    assert!(matches!(
        t.assert_step_refused(append_with(at("dir"), b"1".to_vec(), options())),
        StoreError::IsADirectory
    ));
    let edit = edit_with(at("dir"), "a", "b", Occurrences::One, Precondition::Tag(UNKNOWN_TAG));
    assert!(matches!(t.assert_step_refused(edit), StoreError::IsADirectory));
    let remove = remove_with(at("dir"), Subtree::File, Precondition::Tag(UNKNOWN_TAG), IfMissing::Fail);
    assert!(matches!(t.assert_step_refused(remove), StoreError::IsADirectory));
}
