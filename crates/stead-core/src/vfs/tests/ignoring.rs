//! What ignore files leave out of globs, searches and walks.

use super::*;
use crate::search::{IgnoreFiles, LeftOut};

fn globbed(vfs: &Vfs, pattern: &str, path: &str) -> (String, LeftOut) {
    let result = vfs.glob(&GlobQuery::new(pattern), path).unwrap();
    assert_eq!(result.unreadable, []);
    (joined(&result.entries), result.left_out)
}

fn joined(entries: &[PathEntry]) -> String {
    let files = entries.iter().filter(|entry| entry.kind != NodeKind::Directory);
    files.map(|entry| &*entry.path).collect::<Vec<_>>().join(" ")
}

fn grepped(vfs: &Vfs, path: &str) -> (String, LeftOut) {
    let result = vfs.grep(&GrepQuery::new("."), path).unwrap();
    (result.files.iter().map(|file| &*file.path).collect::<Vec<_>>().join(" "), result.left_out)
}

fn walked(vfs: &Vfs, path: &str, ignore_files: IgnoreFiles) -> (String, LeftOut) {
    let result = vfs.walk(path, &WalkQuery { ignore_files, ..WalkQuery::default() }).unwrap();
    (joined(&result.entries), result.left_out)
}

fn left_out(ignored: bool, git: bool) -> LeftOut {
    LeftOut { ignored, git }
}

const PROJECT: [(&str, &str); 8] = [
    ("/.git/info/exclude", "*.swp"),
    ("/.git/info/other", "git"),
    ("/.gitignore", "/target\n*.log\n!keep.log"),
    ("/a.swp", "x"),
    ("/keep.log", "x"),
    ("/src/a.log", "x"),
    ("/src/a.rs", "x"),
    ("/target/debug/a.log", "x"),
];

#[test]
fn ignored_files_are_left_out_of_every_kind_of_search() {
    let vfs = vfs_with([workspace("/p", ReadOnly, &store_with(&PROJECT))]);
    let expected = ("/p/.gitignore /p/keep.log /p/src/a.rs".to_owned(), left_out(true, true));
    assert_eq!(globbed(&vfs, "**", "/"), expected);
    assert_eq!(grepped(&vfs, "/"), expected);
    assert_eq!(walked(&vfs, "/", IgnoreFiles::Respected), expected);
    let (all, nothing) = walked(&vfs, "/", IgnoreFiles::Disregarded);
    assert_eq!((all.split(' ').count(), nothing), (8, LeftOut::default()));
    let query = GrepQuery { ignore_files: IgnoreFiles::Disregarded, ..GrepQuery::new(".") };
    assert_eq!(vfs.grep(&query, "/p").unwrap().files.len(), 8);
}

#[test]
fn hidden_ignore_files_have_no_effect_and_hidden_names_are_not_reported_as_left_out() {
    let files =
        [("/.gitignore", "token\nlogs/"), ("/token", "secret"), ("/sub/.gitignore", "*"), ("/sub/a", "x")];
    let base = || workspace("/p", ReadOnly, &store_with(&files));
    let hides_secrets = vfs_with([base().with_hide(["token"]).unwrap()]);
    let expected = ("/p/.gitignore".to_owned(), left_out(true, false));
    assert_eq!(grepped(&hides_secrets, "/p"), expected, "`sub` has files that are ignored");
    let hides_rules = vfs_with([base().with_hide(["sub/.gitignore", "token"]).unwrap()]);
    for (vfs, path) in [(&hides_rules, "/p"), (&hides_rules, "/p/sub")] {
        let (found, left_out) = grepped(vfs, path);
        assert!(found.ends_with("/p/sub/a") && !found.contains("/p/sub/.gitignore"), "{found}");
        assert_eq!(left_out, LeftOut::default(), "{path}");
    }
}

#[test]
fn the_rules_of_a_workspace_hold_below_its_root() {
    let vfs = vfs_with([workspace("/p", ReadOnly, &store_with(&PROJECT))]);
    assert_eq!(grepped(&vfs, "/p/src"), ("/p/src/a.rs".to_owned(), left_out(true, false)));
    assert_eq!(globbed(&vfs, "*.log", "/p/src"), (String::new(), left_out(true, false)));
    // Nothing that matches is left out here.
    assert_eq!(globbed(&vfs, "*.rs", "/p/src"), ("/p/src/a.rs".to_owned(), LeftOut::default()));
    assert_eq!(globbed(&vfs, "src/*.rs", "/p"), ("/p/src/a.rs".to_owned(), LeftOut::default()));
}

#[test]
fn a_path_that_is_named_outright_is_searched() {
    let vfs = vfs_with([workspace("/p", ReadOnly, &store_with(&PROJECT))]);
    for path in ["/p/target", "/p/target/debug", "/p/target/debug/a.log"] {
        assert_eq!(grepped(&vfs, path), ("/p/target/debug/a.log".to_owned(), LeftOut::default()), "{path}");
    }
    assert_eq!(grepped(&vfs, "/p/src/a.log").0, "/p/src/a.log");
    assert_eq!(grepped(&vfs, "/p/.git").0, "/p/.git/info/exclude /p/.git/info/other");
    for (pattern, expected) in [
        ("target/**", "/p/target/debug/a.log"),
        ("/p/target/debug/*", "/p/target/debug/a.log"),
        (".git/info/o*", "/p/.git/info/other"),
        ("src/a.log", "/p/src/a.log"),
        ("../*", ""),
    ] {
        assert_eq!(globbed(&vfs, pattern, "/p"), (expected.to_owned(), LeftOut::default()), "{pattern}");
    }
}

#[test]
fn each_workspace_has_its_own_rules() {
    let outer = store_with(&[("/.gitignore", "*.log\nsrc"), ("/a.log", "x"), ("/b", "x")]);
    let nested = store_with(&[("/.gitignore", "b"), ("/a.log", "x"), ("/b", "x")]);
    let vfs = vfs_with([workspace("/p", ReadOnly, &outer), workspace("/p/src", ReadOnly, &nested)]);
    let expected = "/p/.gitignore /p/b /p/src/.gitignore /p/src/a.log".to_owned();
    assert_eq!(grepped(&vfs, "/p"), (expected.clone(), left_out(true, false)));
    assert_eq!(globbed(&vfs, "**", "/").0, expected);
}

#[test]
fn an_ignore_file_that_the_caller_may_not_read_has_no_effect() {
    let outer = store_with(&[("/.gitignore", "*.log"), ("/.git/info/exclude", "*.log"), ("/a.log", "x")]);
    let secret = store_with(&[("/.gitignore", "*"), ("/info/exclude", "*")]);
    let vfs = vfs_with([
        workspace("/p", ReadOnly, &outer),
        workspace("/p/.gitignore", WriteOnly, &secret),
        workspace("/p/.git", WriteOnly, &secret),
    ]);
    assert_eq!(grepped(&vfs, "/p"), ("/p/a.log".to_owned(), LeftOut::default()));
    let outer = store_with(&[("/d/.gitignore", "*.log"), ("/d/e/a.log", "x"), ("/d/e/b", "x")]);
    let vfs = vfs_with([workspace("/p", ReadOnly, &outer), workspace("/p/d/.gitignore", WriteOnly, &secret)]);
    assert_eq!(grepped(&vfs, "/p/d/e"), ("/p/d/e/a.log /p/d/e/b".to_owned(), LeftOut::default()));
}

#[test]
fn an_ignore_file_of_absurd_size_is_reported() {
    let content = "*.log\n".repeat(50_000);
    let store = store_with(&[("/d/.gitignore", &content), ("/d/e/a.log", "x")]);
    let vfs = vfs_with([workspace("/p", ReadOnly, &store)]);
    for path in ["/p", "/p/d", "/p/d/e"] {
        let result = vfs.glob(&GlobQuery::new("**/*.log"), path).unwrap();
        assert_eq!(joined(&result.entries), "/p/d/e/a.log");
        let unreadable = result.unreadable.iter().map(|found| &*found.path).collect::<Vec<_>>();
        assert_eq!(unreadable, ["/p/d/.gitignore"], "{path}");
    }
}

#[test]
fn a_symlink_is_followed_before_it_is_known_what_is_ignored() {
    let store = store_with(&PROJECT);
    store_link(&store, "/link", "src");
    let vfs = vfs_with([workspace("/p", ReadOnly, &store)]);
    assert_eq!(grepped(&vfs, "/p/link"), ("/p/src/a.rs".to_owned(), left_out(true, false)));
}

#[test]
fn a_limit_counts_what_is_shown() {
    let vfs = vfs_with([workspace("/p", ReadOnly, &store_with(&PROJECT))]);
    let result = vfs.glob(&GlobQuery { limit: 2, ..GlobQuery::new("**/*.*") }, "/p").unwrap();
    assert_eq!((joined(&result.entries), result.truncated), ("/p/.gitignore /p/keep.log".to_owned(), true));
    let result = vfs.glob(&GlobQuery { limit: 3, ..GlobQuery::new("**/*.*") }, "/p").unwrap();
    assert_eq!((result.entries.len(), result.truncated), (3, false));
}

#[test]
fn a_search_can_be_limited_to_types_of_files() {
    let vfs = vfs_with([workspace("/p", ReadOnly, &store_with(&PROJECT))]);
    let query = |file_type: &str| GrepQuery { file_types: vec![file_type.into()], ..GrepQuery::new("x") };
    let result = vfs.grep(&query("rust"), "/").unwrap();
    assert_eq!(result.files.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["/p/src/a.rs"]);
    assert_eq!(kind(vfs.grep(&query("no-such-type"), "/")), ErrorKind::Invalid);
}
