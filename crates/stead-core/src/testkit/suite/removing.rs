//! Removing, and protected names in a directory that is removed, moved or copied.

use std::sync::Arc;

use super::subject::*;
use crate::glob::{Anchor, PathGlobs};
use crate::store::{
    DisplacedContent, HiddenRule, IfMissing, NodePath, Parents, Precondition, ProtectedNames, Replace, Side,
    Step, StepOutcome, StoreError, Subtree,
};

pub fn a_file_is_removed(t: &Subject) {
    t.write("dir/file", "1");
    assert_eq!(t.apply_one(remove("dir/file", Subtree::File)), StepOutcome::default());
    assert!(!t.exists("dir/file") && t.exists("dir"));
    assert_refused!(t.store.read(&at("dir/file"), 9), StoreError::NotFound);
    t.write("dir/file", "2");
    t.apply_one(remove("dir/file", Subtree::Any));
    assert!(t.names("dir").is_empty());
}

pub fn a_directory_is_removed_with_its_content(t: &Subject) {
    for path in ["dir/a", "dir/b/c", "dir/b/d/e", "directory", "other/a"] {
        t.write(path, path);
    }
    t.link("dir/link", "../other");
    t.apply_one(remove("dir", Subtree::Directory));
    assert_eq!(t.names(""), ["directory", "other"]);
    assert_eq!(t.read("other/a"), b"other/a", "removing a symlink must not remove its target");
    t.mkdir("dir");
    assert!(t.names("dir").is_empty(), "a new directory of the same name is empty");
}

pub fn a_directory_is_removed_as_empty_only_if_it_is(t: &Subject) {
    t.mkdir("a/b");
    assert!(matches!(t.assert_step_refused(remove("a", Subtree::EmptyDirectory)), StoreError::NotEmpty));
    t.apply_one(remove("a/b", Subtree::EmptyDirectory));
    t.apply_one(remove("a", Subtree::EmptyDirectory));
    assert!(t.names("").is_empty());
}

pub fn only_the_expected_kind_is_removed(t: &Subject) {
    t.write("dir/file", "1");
    t.link("link", "dir");
    assert!(matches!(t.assert_step_refused(remove("dir", Subtree::File)), StoreError::IsADirectory));
    for path in ["dir/file", "link"] {
        for subtree in [Subtree::EmptyDirectory, Subtree::Directory] {
            assert!(
                matches!(t.assert_step_refused(remove(path, subtree)), StoreError::NotADirectory),
                "{path}"
            );
        }
    }
    t.apply_one(remove("link", Subtree::File));
    assert_eq!(t.names("dir"), ["file"]);
}

pub fn removing_a_missing_path_can_be_allowed(t: &Subject) {
    t.write("file", "1");
    let remove_if_present = |path| remove_with(at(path), Subtree::Any, Precondition::Any, IfMissing::Ignore);
    assert_eq!(t.apply_one(remove_if_present("missing")), StepOutcome::default());
    assert_eq!(t.apply_one(remove_if_present("missing/deeper")), StepOutcome::default());
    assert!(
        matches!(t.assert_step_refused(remove_if_present("file/x")), StoreError::NotADirectory),
        "only a missing path is ignored"
    );
    t.apply_one(remove_if_present("file"));
    assert!(!t.exists("file"));
}

pub fn the_root_cannot_be_removed_or_renamed(t: &Subject) {
    t.write("file", "1");
    let root = t.store.stat(&NodePath::root()).unwrap().node;
    for path in [NodePath::root(), NodePath::of_node(root)] {
        let steps = [
            remove_with(path.clone(), Subtree::Any, Precondition::Any, IfMissing::Fail),
            remove_with(path.clone(), Subtree::Directory, Precondition::Any, IfMissing::Ignore),
            rename_with(path, at("elsewhere"), Replace::Refuse, Parents::Create, Precondition::Any),
        ];
        for step in steps {
            let error = t.assert_step_refused(step);
            assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
        }
    }
}

fn protected_names(root: &str) -> Option<ProtectedNames> {
    let globs = PathGlobs::new([".git/hooks/**", ".git/config"], Anchor::AnyDirectory).unwrap();
    Some(ProtectedNames {
        globs: Arc::new(globs),
        roots: vec![root.to_owned()],
        side: Side::From,
        hidden: None,
    })
}

/// Protects nothing and leaves untouched what is hidden at these paths.
fn untouched(globs: &[&str], roots: &[&str], side: Side) -> Option<ProtectedNames> {
    let hidden = HiddenRule::Untouched(roots.iter().filter_map(|root| hidden(globs, root)).collect());
    Some(ProtectedNames {
        globs: Arc::new(PathGlobs::none()),
        roots: roots.iter().map(|root| (*root).to_owned()).collect(),
        side,
        hidden: Some(Box::new(hidden)),
    })
}

pub fn a_directory_with_a_hidden_name_is_not_removed_moved_or_copied(t: &Subject) {
    t.write("project/src/main.rs", "1");
    t.write("project/src/.env", "1");
    let globs = [".env"];
    let (expect, displaced) = (Precondition::Any, DisplacedContent::Keep);
    let remove = |path: &str| Step::Remove {
        at: at(path),
        subtree: Subtree::Any,
        expect,
        if_missing: IfMissing::Fail,
        protected: untouched(&globs, &[path], Side::From),
        displaced,
    };
    let rename = |protected| Step::Rename {
        from: at("project"),
        to: at("moved"),
        replace: Replace::Refuse,
        parents: Parents::Create,
        expect,
        protected,
    };
    let copy = Step::Copy {
        from: at("project"),
        to: at("copy"),
        replace: Replace::Refuse,
        parents: Parents::Create,
        protected: untouched(&globs, &["project", "copy"], Side::To),
        displaced,
    };
    let from = untouched(&globs, &["project"], Side::From);
    for step in [remove("project"), rename([from, None]), copy] {
        let refused = t.assert_step_refused(step);
        assert!(matches!(refused, StoreError::ContainsHidden), "{refused:?}");
    }
    // What is hidden before and after may move.
    let not_revealed = |globs: &[&str], to: &str| {
        let before = hidden(globs, "project").unwrap();
        let rule = HiddenRule::NotRevealed { before, after: hidden(globs, to).unwrap() };
        untouched(globs, &[], Side::From)
            .map(|names| ProtectedNames { hidden: Some(Box::new(rule)), ..names })
    };
    let refused = t.assert_step_refused(rename([not_revealed(&["project/**/.env"], "moved"), None]));
    assert!(matches!(refused, StoreError::ContainsHidden), "{refused:?}");
    t.apply_one(rename([not_revealed(&globs, "moved"), None]));
    assert_eq!(t.read("moved/src/.env"), b"1");
    t.remove("moved/src/.env");
    t.apply_one(remove("moved"));
}

pub fn an_exchange_reveals_no_hidden_name(t: &Subject) {
    t.write("one/file", "1");
    t.write("two/file", "2");
    let exchange = |globs: &[&str]| {
        let rule = HiddenRule::SameAtBoth([hidden(globs, "one").unwrap(), hidden(globs, "two").unwrap()]);
        let protected = untouched(globs, &[], Side::From);
        let protected = protected.map(|names| ProtectedNames { hidden: Some(Box::new(rule)), ..names });
        let (replace, parents, expect) = (Replace::Exchange, Parents::Required, Precondition::Any);
        Step::Rename {
            from: at("one"),
            to: at("two"),
            replace,
            parents,
            expect,
            protected: [protected, None],
        }
    };
    for glob in ["one/file", "two/file"] {
        let refused = t.assert_step_refused(exchange(&[glob]));
        assert!(matches!(refused, StoreError::ContainsHidden), "{refused:?}");
    }
    t.apply_one(exchange(&["file"]));
    assert_eq!(t.read("one/file"), b"2");
}

fn remove_unless_protected(path: &str) -> Step {
    let (subtree, expect) = (Subtree::Any, Precondition::Any);
    Step::Remove {
        at: at(path),
        subtree,
        expect,
        if_missing: IfMissing::Fail,
        protected: protected_names(path),
        displaced: DisplacedContent::Keep,
    }
}

pub fn a_directory_with_a_protected_name_is_not_removed(t: &Subject) {
    t.write("project/src/main.rs", "1");
    t.write("project/.git/hooks/pre-commit", "1");
    match t.assert_step_refused(remove_unless_protected("project")) {
        StoreError::Protected { path } => assert_eq!(path, ".git/hooks/pre-commit"),
        other => panic!("{other:?}"),
    }
    match t.assert_step_refused(remove_unless_protected("project/.git")) {
        StoreError::Protected { path } => assert_eq!(path, "hooks/pre-commit"),
        other => panic!("{other:?}"),
    }
    t.apply_one(remove_unless_protected("project/src"));
    t.remove("project/.git/hooks/pre-commit");
    t.apply_one(remove_unless_protected("project"));
    assert!(!t.exists("project"));
}

pub fn a_directory_with_a_protected_name_is_not_moved(t: &Subject) {
    t.write("project/.git/config", "1");
    let rename = |from: &str, to: &str, protected| Step::Rename {
        from: at(from),
        to: at(to),
        replace: Replace::Refuse,
        parents: Parents::Create,
        expect: Precondition::Any,
        protected,
    };
    let rename_step = rename("project", "moved", [protected_names("project"), None]);
    assert!(
        matches!(t.assert_step_refused(rename_step), StoreError::Protected { path } if path == ".git/config")
    );
    t.apply_one(rename("project", "moved", [None, None]));
    assert_eq!(t.read("moved/.git/config"), b"1");
}

pub fn an_exchange_moves_no_protected_name(t: &Subject) {
    t.write("project/.git/config", "1");
    t.write("plain/file", "2");
    let exchange = |from: &str, to: &str, protected| Step::Rename {
        from: at(from),
        to: at(to),
        replace: Replace::Exchange,
        parents: Parents::Required,
        expect: Precondition::Any,
        protected,
    };
    for (from, to) in [("project", "plain"), ("plain", "project")] {
        let refused = t.assert_step_refused(exchange(from, to, [protected_names(from), protected_names(to)]));
        assert!(matches!(refused, StoreError::Protected { path } if path == ".git/config"), "{from} {to}");
    }
    t.apply_one(exchange("plain", "project", [None, None]));
    assert_eq!(t.read("plain/.git/config"), b"1");
}

pub fn a_rename_or_copy_does_not_create_a_protected_name(t: &Subject) {
    t.write("work/config", "planted");
    t.mkdir("project");
    let rename = Step::Rename {
        from: at("work"),
        to: at("project/.git"),
        replace: Replace::Refuse,
        parents: Parents::Create,
        expect: Precondition::Any,
        protected: [protected_names("work"), protected_names("project/.git")],
    };
    assert!(matches!(t.assert_step_refused(rename), StoreError::Protected { path } if path == "config"));
    let copy = |protected| Step::Copy {
        from: at("work"),
        to: at("project/.git"),
        replace: Replace::Refuse,
        parents: Parents::Create,
        protected,
        displaced: DisplacedContent::Keep,
    };
    assert!(
        matches!(t.assert_step_refused(copy(protected_names("project/.git"))), StoreError::Protected { path } if path == "config")
    );
    t.apply_one(copy(None));
    assert_eq!(t.read("project/.git/config"), b"planted");
}
