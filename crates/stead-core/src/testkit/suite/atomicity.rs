//! A change of several steps is applied completely, or not at all.

use super::subject::*;
use crate::store::{
    Content, DisplacedContent, NodePath, Parents, Precondition, PutOptions, Replace, Step, StoreError,
    Subtree,
};

fn create_sample_tree(t: &Subject) {
    t.write("file", "file");
    t.write("other", "other");
    t.write("large", aperiodic_bytes(600_000));
    t.write("dir/a", "a");
    t.write("dir/sub/b", "b");
    t.mkdir("empty");
    t.link("link", "file");
    t.apply_one(chmod(at("file"), 0o755));
}

pub fn steps_happen_in_order_and_see_each_other(t: &Subject) {
    let applied = t
        .apply(vec![
            mkdir("dir"),
            write("dir/a", "one"),
            append("dir/a", " two"),
            edit("dir/a", "one", "1"),
            rename("dir/a", "dir/b", Replace::Refuse),
            copy("dir/b", "c", Replace::Refuse),
            remove("dir", Subtree::Directory),
        ])
        .unwrap();
    assert_eq!(applied.outcomes.len(), 7);
    assert!(applied.outcomes[0].created && applied.outcomes[1].created && !applied.outcomes[2].created);
    assert_eq!(applied.outcomes[3].replaced, 1);
    assert_eq!(applied.outcomes[6].attr, None);
    assert_eq!(applied.outcomes[5].attr, Some(t.stat("c")));
    assert_eq!(t.walk_paths(&NodePath::root(), &Default::default()), ["c"]);
    assert_eq!(t.read("c"), b"1 two");
}

pub fn a_change_may_have_no_steps(t: &Subject) {
    t.write("file", "1");
    assert_eq!(t.apply(Vec::new()).unwrap().outcomes, []);
    assert_eq!(t.read("file"), b"1");
}

/// Steps that succeed on [`create_sample_tree`], each of them alone.
fn sample_steps() -> Vec<Step> {
    vec![
        write("new", "1"),
        write("new/deep/file", "1"),
        write("file", "overwritten"),
        write("large", "overwritten"),
        append("new", "1"),
        append("file", "more"),
        append("large", aperiodic_bytes(300_000)),
        edit("file", "file", "edited"),
        mkdir("made"),
        mkdir("made/deep"),
        mkdir_with(at("dir/made"), Parents::Required),
        symlink("new", "x"),
        symlink("new/deep", "x"),
        symlink("link", "elsewhere"),
        remove("file", Subtree::File),
        remove("link", Subtree::File),
        remove("empty", Subtree::EmptyDirectory),
        remove("dir", Subtree::Directory),
        rename("file", "new", Replace::Refuse),
        rename("file", "new/deep", Replace::Refuse),
        rename("file", "other", Replace::Overwrite),
        rename("dir", "moved", Replace::Refuse),
        rename("dir", "empty", Replace::Overwrite),
        rename("link", "other", Replace::Overwrite),
        rename("file", "dir", Replace::Exchange),
        copy("file", "new", Replace::Refuse),
        copy("file", "other", Replace::Overwrite),
        copy("dir", "new/deep", Replace::Refuse),
        copy("link", "new", Replace::Refuse),
        chmod(at("file"), 0o600),
        chmod(at("dir"), 0o700),
        Step::SetAttr { at: at("other"), mode: Some(0o640), modified: Some(crate::Timestamp::from_secs(5)) },
    ]
}

pub fn a_failing_last_step_undoes_the_one_before(t: &Subject) {
    create_sample_tree(t);
    let before = t.snapshot();
    for step in sample_steps() {
        let description = format!("{step:?}");
        let result = t.apply(vec![step, edit("missing", "a", "b")]);
        assert_refused!(result, StoreError::NotFound);
        assert_eq!(t.snapshot(), before, "{description} was not undone");
    }
}

pub fn each_of_these_steps_succeeds_alone(t: &Subject) {
    for number in 0..sample_steps().len() {
        create_sample_tree(t);
        t.apply_one(sample_steps().swap_remove(number));
        for name in t.names("") {
            t.remove(&name);
        }
    }
}

pub fn many_steps_are_undone_together(t: &Subject) {
    create_sample_tree(t);
    let steps = || {
        vec![
            rename("dir", "moved", Replace::Refuse),
            write("moved/a", "changed"),
            write("dir", "a file where the directory was"),
            copy("moved", "dir2", Replace::Refuse),
            remove("moved", Subtree::Directory),
            rename("dir2", "moved", Replace::Refuse),
            append("large", "tail"),
            edit("file", "file", "edited"),
            rename("file", "other", Replace::Exchange),
            remove("other", Subtree::File),
            symlink("other", "moved"),
            mkdir("other2/a/b"),
            rename("large", "other2/a/b/large", Replace::Refuse),
            chmod(at("other2/a/b/large"), 0o600),
            write("other2/a/b/large", "small"),
        ]
    };
    let failing = || {
        let expect = Precondition::Absent;
        write_with(at("other2"), b"1".to_vec(), PutOptions { expect, ..PutOptions::default() })
    };
    let result = t.assert_unchanged(|| t.apply(steps().into_iter().chain([failing()]).collect()));
    assert_refused!(result, StoreError::IsADirectory);
    t.apply(steps()).unwrap();
    assert_eq!(t.read("moved/a"), b"changed");
    assert_eq!(t.read("other2/a/b/large"), b"small");
}

pub fn a_failed_change_can_be_repeated(t: &Subject) {
    t.write("file", "1");
    let tag = t.stat("file").tag;
    let steps = |last: &str| {
        let options = PutOptions { expect: Precondition::Tag(tag), ..PutOptions::default() };
        vec![write("a/b", "1"), write_with(at("file"), b"2".to_vec(), options), mkdir(last)]
    };
    assert_refused!(t.apply(vec![mkdir("x"), write("x", "1")]), StoreError::IsADirectory);
    assert!(!t.exists("x"));
    t.apply(steps("c")).unwrap();
    assert_eq!(t.read("file"), b"2");
}

pub fn a_draft_in_a_failed_change_leaves_nothing(t: &Subject) {
    create_sample_tree(t);
    let node = NodePath::of_node(t.node("large"));
    let mut new = t.draft();
    new.write_at(0, &aperiodic_bytes(500_000)).unwrap();
    let mut old = t.draft_of(&node);
    old.write_at(100_000, b"changed").unwrap();
    let commit_step = |path, mut draft: Box<dyn crate::store::Draft>| {
        let options = PutOptions { displaced: DisplacedContent::Keep, ..PutOptions::default() };
        write_with(path, Content::Sealed(draft.seal().unwrap()), options)
    };
    let steps = vec![commit_step(at("new"), new), commit_step(node, old), remove("missing", Subtree::File)];
    assert_refused!(t.assert_unchanged(|| t.apply(steps)), StoreError::NotFound);
}
