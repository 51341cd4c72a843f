//! What a walk leaves out is what git leaves out: random trees with random ignore files, compared with `git ls-files`.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "git is a process")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use stead_core::glob::PathGlobs;
use stead_core::search::{Grep, GrepQuery, IgnoreRules, WalkOptions};
use stead_core::store::{Change, NodeKind, NodePath, PutOptions, Step, StorePath, WalkEntry};
use stead_core::{Identity, Operation, OperationId, Store, Timestamp};
use stead_stores::{Durability, MemoryStore, PhysicalOptions, PhysicalStore};

/// Files and their contents, by path.
type Tree = BTreeMap<String, String>;

fn pattern() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        8 => "[abc]{1,2}",
        4 => r"[abc]?\*[abc]?",
        2 => "[abc]?[?][abc]?",
        2 => r"\[[abc]\]|\[!a\]|\[a-b\]c?",
        2 => r"a\.[bc]|\*\.[bc]",
        1 => r"\{a,b\}",
        1 => r"\\\\[abc]|\\\\\\*|a\\\\ ",
        1 => r"\*\*",
        1 => "é|a b",
    ];
    let path = vec(prop_oneof![6 => name.boxed(), 1 => Just("**".to_owned()).boxed()], 1..4);
    let line = ("(!)?", "(/)?", path, "(/)?", "( | {2}|\t)?")
        .prop_map(|(not, start, path, end, space)| format!("{not}{start}{}{end}{space}", path.join("/")));
    prop_oneof![12 => line, 1 => Just(String::new()), 1 => Just("# a".to_owned()), 1 => Just("/".to_owned())]
}

fn ignore_file() -> impl Strategy<Value = String> {
    // The first line makes sure that a search finds something in the file.
    vec(pattern(), 1..5).prop_map(|lines| format!("# ignore\n{}\n", lines.join("\n")))
}

fn tree() -> impl Strategy<Value = Tree> {
    let name = || prop_oneof![8 => "[abc]{1,2}", 2 => r"[abc]\.[abc]", 1 => r"\{a,b\}|a b|é|\*|a "];
    let directory = || vec(name(), 0..3).prop_map(|names| names.join("/"));
    let files = btree_set((directory(), name()), 1..25);
    let ignore_files = btree_map(directory(), ignore_file(), 1..4);
    (files, ignore_files, proptest::option::of(ignore_file())).prop_map(|(files, ignore_files, exclude)| {
        let join = |directory: &str, name: &str| match directory {
            "" => name.to_owned(),
            directory => format!("{directory}/{name}"),
        };
        let mut tree = Tree::new();
        let ignore_files =
            ignore_files.into_iter().map(|(directory, content)| (join(&directory, ".gitignore"), content));
        let files = files.into_iter().map(|(directory, name)| (join(&directory, &name), "x".to_owned()));
        for (path, content) in ignore_files.chain(files) {
            // A path can't be a file and a directory.
            let is_free = |other: &String| {
                !other.starts_with(&format!("{path}/")) && !path.starts_with(&format!("{other}/"))
            };
            if tree.keys().all(is_free) {
                tree.entry(path).or_insert(content);
            }
        }
        if let Some(exclude) = exclude {
            tree.insert(".git/info/exclude".to_owned(), exclude);
        }
        tree
    })
}

fn git(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env("HOME", directory.parent().unwrap())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("GIT_DIR")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The files that git would add.
fn shown_by_git(directory: &Path) -> BTreeSet<String> {
    let listed = git(directory, &["ls-files", "-co", "--exclude-standard", "-z"]);
    let paths = listed.split(|&byte| byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| String::from_utf8(path.to_vec()).unwrap()).collect()
}

fn shown_by_walk(store: &dyn Store) -> BTreeSet<String> {
    let walk = WalkOptions { ignore: Some(IgnoreRules::new(Vec::new())), ..WalkOptions::default() };
    let mut shown = BTreeSet::new();
    let visit = &mut |entry: WalkEntry| {
        if entry.attr.kind != NodeKind::Directory {
            shown.insert(String::from_utf8(entry.path.as_bytes().to_vec()).unwrap());
        }
        ControlFlow::Continue(())
    };
    store.walk(&NodePath::root(), &walk, visit).unwrap();
    shown
}

fn shown_by_search(store: &dyn Store) -> BTreeSet<String> {
    let mut grep = Grep::new(&GrepQuery::new("."), None, PathGlobs::none()).unwrap();
    grep.ignore = Some(IgnoreRules::new(Vec::new()));
    let mut shown = BTreeSet::new();
    let visit = &mut |hits: stead_core::search::FileHits| {
        shown.insert(String::from_utf8(hits.path.as_bytes().to_vec()).unwrap());
        ControlFlow::Continue(())
    };
    store.grep(&NodePath::root(), &grep, visit).unwrap();
    shown
}

fn memory_store_with(tree: &Tree) -> MemoryStore {
    let store = MemoryStore::new();
    let operation = Operation {
        id: OperationId::fresh(Timestamp(0)),
        identity: Arc::new(Identity::agent("tester")),
        tool: "write".into(),
        at: Timestamp(0),
    };
    let put = |(path, content): (&String, &String)| {
        let at = NodePath::from_root(StorePath::from_checked(path.as_bytes()));
        Step::Write { at, content: content.clone().into_bytes().into(), options: PutOptions::default() }
    };
    store.apply(Change::new(operation, tree.iter().map(put).collect())).unwrap();
    store
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_shows_the_files_that_git_shows(tree in tree()) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        git(&root, &["init", "--quiet"]);
        for (path, content) in &tree {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let expected = shown_by_git(&root);
        let options = PhysicalOptions {
            durability: Durability::Fast,
            ..PhysicalOptions::new(directory.path().join("state"))
        };
        let physical = PhysicalStore::open(&root, options).unwrap();
        prop_assert_eq!(&shown_by_walk(&physical), &expected, "on disk");
        prop_assert_eq!(&shown_by_search(&physical), &expected, "searched on disk");
        let mut with_repository = tree.clone();
        with_repository.insert(".git/HEAD".to_owned(), "ref: refs/heads/main\n".to_owned());
        let memory = memory_store_with(&with_repository);
        prop_assert_eq!(&shown_by_walk(&memory), &expected, "in memory");
        prop_assert_eq!(&shown_by_search(&memory), &expected, "searched in memory");
    }
}
