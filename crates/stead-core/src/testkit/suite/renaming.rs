//! Renaming and copying.

use super::subject::*;
use crate::clock::Timestamp;
use crate::store::Replace::{Exchange, Overwrite, Refuse};
use crate::store::{NodeKind, NodePath, Parents, Precondition, Step, StoreError};

pub fn a_file_is_renamed(t: &Subject) {
    t.write("a", "content");
    t.apply_one(chmod(at("a"), 0o600));
    let before = t.stat("a");
    let after = t.apply_one(rename("a", "dir/b", Refuse)).attr.unwrap();
    assert!(!t.exists("a"));
    assert_eq!(t.stat("dir/b"), after);
    assert_eq!((after.node, after.mode, after.modified), (before.node, 0o600, before.modified));
    assert_eq!(t.read("dir/b"), b"content");
}

pub fn a_directory_moves_with_its_content(t: &Subject) {
    t.write("a/b/file", "1");
    t.link("a/link", "b/file");
    t.mkdir("a/empty");
    let (directory, file) = (t.node("a"), t.node("a/b/file"));
    t.rename("a", "x/y", Refuse);
    assert_eq!(t.names(""), ["x"]);
    assert_eq!(t.walk_paths(&at("x"), &Default::default()), ["y", "y/b", "y/b/file", "y/empty", "y/link"]);
    assert_eq!((t.node("x/y"), t.node("x/y/b/file")), (directory, file));
    assert_eq!(t.read("x/y/b/file"), b"1");
    t.write("a/b/file", "2");
    assert_eq!(t.read("x/y/b/file"), b"1", "the old name is free for something else");
    t.rename("x/y", "z", Refuse);
    assert_eq!(t.read("z/b/file"), b"1");
    assert_refused!(t.store.stat(&at("x/y/b/file")), StoreError::NotFound);
}

pub fn an_existing_target_is_not_replaced_by_default(t: &Subject) {
    t.write("from", "1");
    t.write("to", "2");
    t.mkdir("dir");
    t.link("link", "to");
    for to in ["to", "dir", "link"] {
        assert!(
            matches!(t.assert_step_refused(rename("from", to, Refuse)), StoreError::AlreadyExists),
            "{to}"
        );
        assert!(matches!(t.assert_step_refused(copy("from", to, Refuse)), StoreError::AlreadyExists), "{to}");
    }
}

pub fn a_file_replaces_a_file(t: &Subject) {
    t.write("from", "1");
    t.write("to", "2");
    let node = t.node("from");
    t.rename("from", "to", Overwrite);
    assert_eq!(t.names(""), ["to"]);
    assert_eq!((t.read("to"), t.node("to")), (b"1".to_vec(), node));
    t.link("link", "anywhere");
    t.rename("to", "link", Overwrite);
    assert_eq!((t.read("link"), t.stat("link").kind), (b"1".to_vec(), NodeKind::File));
    t.link("other", "anywhere");
    t.rename("other", "link", Overwrite);
    assert_eq!(t.store.read_link(&at("link")).unwrap(), b"anywhere");
    assert_eq!(t.names(""), ["link"]);
}

pub fn a_directory_replaces_an_empty_one(t: &Subject) {
    t.write("from/file", "1");
    t.mkdir("to");
    t.rename("from", "to", Overwrite);
    assert_eq!(t.walk_paths(&NodePath::root(), &Default::default()), ["to", "to/file"]);
}

pub fn kinds_do_not_replace_each_other(t: &Subject) {
    t.write("file", "1");
    t.link("link", "file");
    t.mkdir("empty");
    t.write("full/file", "1");
    for from in ["file", "link"] {
        for to in ["empty", "full"] {
            assert!(
                matches!(t.assert_step_refused(rename(from, to, Overwrite)), StoreError::IsADirectory),
                "{from} {to}"
            );
            assert!(
                matches!(t.assert_step_refused(copy(from, to, Overwrite)), StoreError::IsADirectory),
                "{from} {to}"
            );
        }
    }
    for to in ["file", "link"] {
        assert!(
            matches!(t.assert_step_refused(rename("empty", to, Overwrite)), StoreError::NotADirectory),
            "{to}"
        );
    }
    assert!(matches!(t.assert_step_refused(rename("empty", "full", Overwrite)), StoreError::NotEmpty));
    assert!(matches!(
        t.assert_step_refused(rename("full/file", "full", Overwrite)),
        StoreError::IsADirectory
    ));
}

pub fn two_entries_are_exchanged(t: &Subject) {
    t.write("a", "1");
    t.write("dir/inner", "2");
    t.link("link", "target");
    let (file, directory) = (t.node("a"), t.node("dir"));
    t.rename("a", "dir", Exchange);
    assert_eq!((t.node("dir"), t.node("a")), (file, directory));
    assert_eq!((t.read("dir"), t.read("a/inner")), (b"1".to_vec(), b"2".to_vec()));
    t.rename("link", "a/inner", Exchange);
    assert_eq!(t.read("link"), b"2");
    assert_eq!(t.store.read_link(&at("a/inner")).unwrap(), b"target");
    assert!(matches!(t.assert_step_refused(rename("a", "missing", Exchange)), StoreError::NotFound));
    t.write("outer/inner/file", "3");
    for (from, to) in [("outer", "outer/inner"), ("outer/inner", "outer"), ("outer", "outer/inner/file")] {
        assert!(
            matches!(t.assert_step_refused(rename(from, to, Exchange)), StoreError::IntoItself),
            "{from} {to}"
        );
    }
}

pub fn a_name_can_be_renamed_to_itself(t: &Subject) {
    t.write("dir/file", "1");
    t.link("link", "dir");
    for path in ["dir", "dir/file", "link"] {
        let node = t.node(path);
        t.rename(path, path, Overwrite);
        assert_eq!(t.node(path), node);
    }
    assert_eq!(t.read("dir/file"), b"1");
}

pub fn a_directory_is_not_moved_into_itself(t: &Subject) {
    t.write("a/b/file", "1");
    t.mkdir("ab");
    for to in ["a/x", "a/b/x", "a/x/y/z"] {
        assert!(matches!(t.assert_step_refused(rename("a", to, Refuse)), StoreError::IntoItself), "{to}");
        assert!(matches!(t.assert_step_refused(copy("a", to, Refuse)), StoreError::IntoItself), "{to}");
    }
    t.rename("a", "ab/a", Refuse);
    assert_eq!(t.read("ab/a/b/file"), b"1", "a name with the same beginning is another directory");
}

pub fn a_copy_is_independent_of_its_source(t: &Subject) {
    let time = Timestamp(1_500_000_000_000_000_001);
    t.write("from", "content");
    t.apply_one(Step::SetAttr { at: at("from"), mode: Some(0o750), modified: Some(time) });
    let outcome = t.apply_one(copy("from", "dir/to", Refuse));
    assert!(outcome.created);
    let (from, to) = (t.stat("from"), t.stat("dir/to"));
    assert_eq!(outcome.attr.unwrap(), to);
    assert_eq!((to.kind, to.size, to.mode, to.modified), (NodeKind::File, 7, 0o750, time));
    assert_ne!(to.node, from.node);
    t.write("from", "changed");
    t.apply_one(append("dir/to", " and more"));
    assert_eq!((t.read("from"), t.read("dir/to")), (b"changed".to_vec(), b"content and more".to_vec()));

    let large = aperiodic_bytes(900_000);
    t.write("large", &large);
    t.apply_one(copy("large", "large copy", Refuse));
    t.remove("large");
    assert!(t.read("large copy") == large);
}

pub fn a_copy_replaces_a_file(t: &Subject) {
    t.write("from", "1");
    t.write("to", "2");
    t.apply_one(chmod(at("to"), 0o700));
    let time = Timestamp::from_secs(1_300_000_000);
    t.apply_one(Step::SetAttr { at: at("from"), mode: None, modified: Some(time) });
    let outcome = t.apply_one(copy("from", "to", Overwrite));
    assert!(!outcome.created);
    assert_eq!(t.stat("to"), outcome.attr.unwrap());
    assert_eq!((t.read("to"), t.stat("to").mode, t.stat("to").modified), (b"1".to_vec(), 0o700, time));
    assert_eq!(t.read("from"), b"1");
    t.link("link", "from");
    t.apply_one(copy("link", "to", Overwrite));
    assert_eq!(t.store.read_link(&at("to")).unwrap(), b"from");
    t.apply_one(copy("from", "to", Overwrite));
    assert_eq!((t.stat("to").kind, t.read("to")), (NodeKind::File, b"1".to_vec()));
    assert_eq!(t.store.read_link(&at("link")).unwrap(), b"from");
}

pub fn a_directory_is_copied_with_its_content(t: &Subject) {
    let time = Timestamp::from_secs(1_400_000_000);
    t.write("a/b/file", "1");
    t.write("a/large", aperiodic_bytes(700_000));
    t.link("a/link", "b/file");
    t.mkdir("a/empty");
    t.apply_one(Step::SetAttr { at: at("a/b/file"), mode: Some(0o755), modified: Some(time) });
    t.apply_one(Step::SetAttr { at: at("a/empty"), mode: Some(0o700), modified: Some(time) });
    let outcome = t.apply_one(copy("a", "x/y", Refuse));
    assert!(outcome.created);
    assert_eq!(outcome.attr.unwrap().kind, NodeKind::Directory);
    assert_eq!(t.walk_paths(&at("x/y"), &Default::default()), ["b", "b/file", "empty", "large", "link"]);
    assert_eq!(t.read("x/y/b/file"), b"1");
    assert!(t.read("x/y/large") == aperiodic_bytes(700_000));
    assert_eq!(t.store.read_link(&at("x/y/link")).unwrap(), b"b/file");
    assert_eq!((t.stat("x/y/b/file").mode, t.stat("x/y/b/file").modified), (0o755, time));
    assert_eq!((t.stat("x/y/empty").mode, t.stat("x/y/empty").modified), (0o700, time));
    t.write("a/b/file", "2");
    t.remove("a/empty");
    assert_eq!(t.read("x/y/b/file"), b"1");
    assert!(t.exists("x/y/empty"));
}

pub fn a_directory_is_not_copied_over_an_existing_entry(t: &Subject) {
    t.write("a/file", "1");
    t.mkdir("empty");
    t.write("file", "1");
    t.link("link", "a");
    for to in ["empty", "file", "link"] {
        for replace in [Refuse, Overwrite] {
            assert!(
                matches!(t.assert_step_refused(copy("a", to, replace)), StoreError::AlreadyExists),
                "{to}"
            );
        }
    }
}

pub fn a_copy_onto_itself_is_refused(t: &Subject) {
    t.write("file", "1");
    assert!(matches!(t.assert_step_refused(copy("file", "file", Refuse)), StoreError::AlreadyExists));
    assert!(matches!(t.assert_step_refused(copy("file", "file", Overwrite)), StoreError::Invalid(_)));
    t.write("other", "1");
    assert!(matches!(t.assert_step_refused(copy("file", "other", Exchange)), StoreError::Invalid(_)));
}

pub fn a_rename_checks_the_precondition_on_its_source(t: &Subject) {
    t.write("from", "1");
    t.write("to", "2");
    let old_tag = t.stat("from").tag;
    t.write("from", "11");
    let rename_expecting =
        |tag| rename_with(at("from"), at("to"), Overwrite, Parents::Create, Precondition::Tag(tag));
    assert!(matches!(t.assert_step_refused(rename_expecting(old_tag)), StoreError::Conflict));
    t.apply_one(rename_expecting(t.stat("from").tag));
    assert_eq!(t.read("to"), b"11");
    let missing = rename_with(at("from"), at("to"), Overwrite, Parents::Create, Precondition::Tag(old_tag));
    assert!(matches!(t.assert_step_refused(missing), StoreError::NotFound));
}
