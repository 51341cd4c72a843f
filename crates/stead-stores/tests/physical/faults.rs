//! A crash before any action of any change: when the Store is opened again, the change is complete or absent.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stead_core::store::{
    Content, DraftBase, Maintenance, NodePath, Parents, Precondition, PutOptions, Replace, Step, Subtree,
};
use stead_core::{Edit, Occurrences, Store, Timestamp};
use stead_stores::{DisplacedRetention, PhysicalStore};

use super::*;

fn set_up(bench: &Bench) {
    let store = &bench.store;
    write(store, "file", "old content");
    write(store, "script", "#!/bin/sh");
    std::fs::set_permissions(bench.host_path("script"), std::fs::Permissions::from_mode(0o750)).unwrap();
    write(store, "dir/a", "a");
    write(store, "dir/sub/b", "b");
    write(store, "other/c", "c");
    write(store, "log", &"line\n".repeat(1_000));
    apply(store, Step::Mkdir { at: at("empty"), parents: Parents::Create, mode: None }).unwrap();
    let target = b"file".to_vec();
    let expect = Precondition::Any;
    apply(store, Step::Symlink { at: at("link"), target, parents: Parents::Create, expect }).unwrap();
    write(store, "big", &"0123456789".repeat(300_000));
}

/// Crashes before the n-th action, for every n until the change succeeds, with and without retention of displaced content.
fn die_before_every_action(name: &str, steps: impl Fn(&PhysicalStore) -> Vec<Step>) {
    for retention in [Some(DisplacedRetention::default()), None] {
        die_before_every_action_with(name, retention, &steps);
    }
}

fn die_before_every_action_with(
    name: &str,
    retention: Option<DisplacedRetention>,
    steps: &dyn Fn(&PhysicalStore) -> Vec<Step>,
) {
    let (before, after) = {
        let bench = Bench::with(|options| options.displaced_retention = retention);
        set_up(&bench);
        let before = tree(&bench.store);
        bench.store.apply(change(steps(&bench.store))).unwrap_or_else(|error| panic!("{name}: {error}"));
        (before, tree(&bench.store))
    };
    for death in 0.. {
        let bench = Bench::with(|options| options.displaced_retention = retention);
        set_up(&bench);
        let texts_before = history::revision_texts(&bench.store);
        let Bench { temp, root: _, store } = bench;
        drop(store);
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let doomed = open(temp.path(), |options| {
            options.displaced_retention = retention;
            options.faults = Some(Arc::new(move |_| counter.fetch_add(1, Ordering::SeqCst) == death));
        });
        let steps = steps(&doomed);
        let result = doomed.apply(change(steps));
        let died = count.load(Ordering::SeqCst) > death;
        assert_eq!(result.is_err(), died, "{name}, crash {death}: {result:?}");
        if died {
            assert!(
                doomed.stat(&NodePath::root()).is_err(),
                "{name}: the Store still answers after its crash"
            );
        }
        drop(doomed);
        let store = open(temp.path(), |options| options.displaced_retention = retention);
        let current = tree(&store);
        assert!(
            current == before || current == after,
            "{name}, crash {death}: neither the old nor the new tree: {:?}",
            current.keys()
        );
        assert!(died || current == after, "{name}: the change was acknowledged, but is lost");
        assert_eq!(
            store.verify(&mut |_| ()).unwrap().problems,
            Vec::<String>::new(),
            "{name}, crash {death}"
        );
        assert_eq!(
            staging_counts(temp.path()).0,
            1,
            "{name}, crash {death}: the staging directory of the crashed Store was not removed"
        );
        let texts_after = history::revision_texts(&store);
        let added = texts_after.len() - texts_before.len();
        // A change that changed nothing may have been made or not.
        assert!(
            before == after || added == usize::from(current == after),
            "{name}, crash {death}: {added} new revisions"
        );
        assert!(added <= 1);
        let is_unchanged = if retention.is_some() {
            texts_after[added..] == texts_before
        } else {
            history::without_content(&texts_after[added..]) == history::without_content(&texts_before)
        };
        assert!(is_unchanged, "{name}, crash {death}: the earlier revisions have changed");
        if added == 1 && retention.is_some() {
            assert_eq!(history::tree_before_last_revision(&store), before, "{name}, crash {death}");
        }
        if !died {
            assert!(death > 0, "{name} has no action to crash at");
            return;
        }
    }
}

#[test]
fn single_steps_are_applied_completely_or_not_at_all() {
    die_before_every_action("write", |_| vec![write_step("file", "new content")]);
    die_before_every_action("create", |_| vec![write_step("fresh", "new content")]);
    die_before_every_action("create deep", |_| vec![write_step("x/y/z/fresh", "new content")]);
    die_before_every_action("edit", |_| {
        let edit = Edit::new("old", "new", Occurrences::One).unwrap();
        vec![Step::Edit {
            at: at("file"),
            edit,
            expect: Precondition::Any,
            displaced: DisplacedContent::Keep,
        }]
    });
    die_before_every_action("append", |_| vec![append_step("log", b"one more\n")]);
    die_before_every_action("append much", |_| vec![append_step("log", &b"one more\n".repeat(500_000))]);
    die_before_every_action("mkdir", |_| {
        vec![Step::Mkdir { at: at("m/n"), parents: Parents::Create, mode: Some(0o700) }]
    });
    die_before_every_action("symlink", |_| {
        let target = b"elsewhere".to_vec();
        vec![Step::Symlink { at: at("link"), target, parents: Parents::Create, expect: Precondition::Any }]
    });
    die_before_every_action("remove file", |_| vec![remove_step("file", Subtree::File)]);
    die_before_every_action("remove empty", |_| vec![remove_step("empty", Subtree::EmptyDirectory)]);
    die_before_every_action("remove tree", |_| vec![remove_step("dir", Subtree::Directory)]);
    die_before_every_action("rename", |_| vec![rename_step("file", "renamed", Replace::Refuse)]);
    die_before_every_action("rename over", |_| vec![rename_step("file", "script", Replace::Overwrite)]);
    die_before_every_action("rename over a directory", |_| {
        vec![rename_step("dir", "empty", Replace::Overwrite)]
    });
    die_before_every_action("rename with parents", |_| vec![rename_step("dir", "p/q/dir", Replace::Refuse)]);
    die_before_every_action("exchange", |_| vec![rename_step("dir", "file", Replace::Exchange)]);
    die_before_every_action("copy file", |_| vec![copy_step("script", "copied", Replace::Refuse)]);
    die_before_every_action("copy over", |_| vec![copy_step("script", "file", Replace::Overwrite)]);
    die_before_every_action("copy tree", |_| vec![copy_step("dir", "p/copy", Replace::Refuse)]);
    die_before_every_action("attributes", |_| {
        let modified = Some(Timestamp::from_secs(1_000));
        vec![Step::SetAttr { at: at("file"), mode: Some(0o600), modified }]
    });
}

#[test]
fn writing_into_a_file_is_applied_completely_or_not_at_all() {
    let write_draft = |store: &PhysicalStore, change: &dyn Fn(&mut dyn stead_core::store::Draft)| {
        let mut draft = store.draft(DraftBase::File(&at("big"))).unwrap();
        change(&mut *draft);
        let content = Content::Sealed(draft.seal().unwrap());
        vec![Step::Write {
            at: at("big"),
            content,
            options: PutOptions { mode: Some(0o600), ..PutOptions::default() },
        }]
    };
    die_before_every_action("patch", |store| {
        write_draft(store, &|draft| {
            draft.write_at(10, b"ten").unwrap();
            draft.write_at(2_000_000, &[b'x'; 1_500_000]).unwrap();
        })
    });
    die_before_every_action("cut", |store| {
        write_draft(store, &|draft| {
            draft.set_size(1_000).unwrap();
            draft.write_at(2_000, b"behind a gap").unwrap();
        })
    });
}

#[test]
fn several_steps_are_applied_completely_or_not_at_all() {
    die_before_every_action("everything", |store| {
        let mut draft = store.draft(DraftBase::File(&at("big"))).unwrap();
        draft.write_at(5, b"five").unwrap();
        let content = Content::Sealed(draft.seal().unwrap());
        vec![
            write_step("file", "new content"),
            write_step("n/e/w", "new"),
            append_step("log", b"one more\n"),
            Step::Write { at: at("big"), content, options: PutOptions::default() },
            rename_step("script", "file", Replace::Overwrite),
            copy_step("dir", "copy", Replace::Refuse),
            remove_step("other", Subtree::Directory),
            rename_step("dir", "other", Replace::Refuse),
            rename_step("other", "log", Replace::Exchange),
            Step::SetAttr { at: at("big"), mode: Some(0o600), modified: Some(Timestamp::from_secs(7)) },
            write_step("n/e/w", "newer"),
            remove_step("link", Subtree::File),
            rename_step("file", "deep/er/file", Replace::Refuse),
        ]
    });
}

#[test]
fn a_step_that_fails_rolls_back_the_steps_before_it() {
    let bench = Bench::new();
    set_up(&bench);
    let before = tree(&bench.store);
    let nodes: Vec<_> = ["dir/sub/b", "dir", "file", "script", "empty"]
        .map(|path| (path, bench.store.stat(&at(path)).unwrap().node))
        .into();
    let failing = || remove_step("nothing", Subtree::Any);
    let firsts: Vec<fn() -> Step> = vec![
        || write_step("file", "new"),
        || write_step("x/y", "new"),
        || append_step("log", b"more"),
        || remove_step("dir", Subtree::Directory),
        || remove_step("file", Subtree::File),
        || rename_step("dir", "gone/dir", Replace::Refuse),
        || rename_step("file", "script", Replace::Overwrite),
        || rename_step("dir", "empty", Replace::Overwrite),
        || rename_step("file", "dir", Replace::Exchange),
        || copy_step("dir", "copy", Replace::Refuse),
        || copy_step("script", "file", Replace::Overwrite),
        || Step::SetAttr { at: at("file"), mode: Some(0o600), modified: None },
    ];
    for (index, first) in firsts.iter().enumerate() {
        assert!(bench.store.apply(change(vec![first(), failing()])).is_err());
        for (path, node) in &nodes {
            let found_node = bench.store.stat(&NodePath::of_node(*node)).map(|attr| attr.node);
            assert_eq!(found_node.ok(), Some(*node), "the node of {path} after step kind {index}");
        }
        assert_eq!(tree(&bench.store), before, "the tree after step kind {index}");
    }
    let steps = firsts.iter().take(3).map(|first| first()).chain([failing()]).collect();
    assert!(bench.store.apply(change(steps)).is_err());
    assert_eq!(tree(&bench.store), before);
    let stores: Vec<_> = std::fs::read_dir(bench.temp.path().join("state/physical")).unwrap().collect();
    assert_eq!(stores.len(), 1);
    assert_eq!(staging_counts(bench.temp.path()), (1, 0));
}
