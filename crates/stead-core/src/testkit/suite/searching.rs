//! Searching inside files.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use super::subject::*;
use crate::glob::{Anchor, PathGlobs};
use crate::search::{FileHits, Grep, GrepOutput, GrepQuery, Hits, IgnoreRules, LeftOut, LineRole, Multiline};
use crate::store::{NodePath, StoreError, StorePath};
use crate::text_encoding::TextEncoding;

/// A search without globs.
pub(crate) fn grep(pattern: &str, configure: impl FnOnce(&mut GrepQuery)) -> Grep {
    let mut query = GrepQuery::new(pattern);
    configure(&mut query);
    Grep::new(&query, None, PathGlobs::none()).unwrap()
}

#[track_caller]
fn grep_hits(t: &Subject, start: &NodePath, grep: &Grep) -> BTreeMap<String, Hits> {
    let mut all = BTreeMap::new();
    let visit = &mut |FileHits { path, hits, attr }: FileHits| {
        if let Some(attr) = attr {
            let found = if path.is_empty() { start.clone() } else { start.join(path.as_bytes()) };
            assert_eq!(attr, t.store.stat(&found).unwrap());
        }
        assert!(all.insert(path.to_string(), hits).is_none(), "{path} was reported twice");
        ControlFlow::Continue(())
    };
    t.store.grep(start, grep, visit).unwrap();
    all
}

fn matching_paths(t: &Subject, start: &NodePath, grep: &Grep) -> Vec<String> {
    grep_hits(t, start, grep).into_keys().collect()
}

fn create_sample_files(t: &Subject) {
    t.write("src/main.rs", "fn main() {\n    needle();\n}\n");
    t.write("src/lib.rs", "// needle\n\n// another needle\n");
    t.write("src/deep/er/mod.rs", "no such thing\n");
    t.write("notes.md", "needle without a newline at the end");
    t.write("twin.md", "needle without a newline at the end");
    t.write("binary", "needle\0needle\n");
    t.write("empty", "");
    t.link("link.md", "notes.md");
    let mut large = b"filler\n".repeat(100_000);
    large.extend(b"the needle at the end\n");
    t.write("large.txt", large);
}

pub fn a_search_finds_lines(t: &Subject) {
    create_sample_files(t);
    let all = grep_hits(t, &NodePath::root(), &grep("needle", |_| ()));
    let paths: Vec<_> = all.keys().map(String::as_str).collect();
    assert_eq!(paths, ["large.txt", "notes.md", "src/lib.rs", "src/main.rs", "twin.md"]);
    let lines = |path: &str| {
        all[path].lines.iter().map(|line| (line.number, line.text.clone(), line.role)).collect::<Vec<_>>()
    };
    assert_eq!(lines("src/main.rs"), [(2, "    needle();".to_owned(), LineRole::Match)]);
    assert_eq!(all["src/lib.rs"].count, 2);
    assert_eq!(lines("src/lib.rs")[1], (3, "// another needle".to_owned(), LineRole::Match));
    assert_eq!(lines("large.txt"), [(100_001, "the needle at the end".to_owned(), LineRole::Match)]);
    assert!(grep_hits(t, &NodePath::root(), &grep("nowhere to be found", |_| ())).is_empty());
}

pub fn a_search_finds_text_in_every_encoding(t: &Subject) {
    let utf_16 = |text: &str| TextEncoding::Utf16Le.encode(text).unwrap().into_owned();
    t.write("latin-1", b"one\ncaf\xe9 needle\n");
    t.write("utf-16", utf_16("\u{feff}one\r\ncaf\u{e9} needle\r\n"));
    // Large enough to be searched as a stream.
    let filler = "filler\n".repeat(1_300_000);
    t.write("large-latin-1", [filler.as_bytes(), b"caf\xe9 needle\n"].concat());
    t.write("large-utf-16", utf_16(&format!("\u{feff}{filler}caf\u{e9} needle\n")));
    let hits = grep_hits(t, &NodePath::root(), &grep("caf\u{e9} n.*e", |_| ()));
    let lines =
        hits.iter().flat_map(|(path, hits)| hits.lines.iter().map(move |line| (&**path, line.number)));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [("large-latin-1", 1_300_001), ("large-utf-16", 1_300_001), ("latin-1", 2), ("utf-16", 2)]
    );
    assert!(hits.values().all(|hits| hits.lines[0].text == "caf\u{e9} needle"));
}

pub fn a_search_shows_context_lines(t: &Subject) {
    t.write("file", "1\n2\nneedle\n4\n5\n");
    let grep = grep("needle", |query| (query.before, query.after) = (1, 2));
    let hits = grep_hits(t, &NodePath::root(), &grep).remove("file").unwrap();
    let lines: Vec<_> = hits.lines.iter().map(|line| (line.number, &*line.text)).collect();
    assert_eq!(lines, [(2, "2"), (3, "needle"), (4, "4"), (5, "5")]);
}

pub fn a_search_counts_or_names_files(t: &Subject) {
    create_sample_files(t);
    let counts = grep_hits(t, &at("src"), &grep("needle", |query| query.output = GrepOutput::Counts));
    let counts: Vec<_> = counts.iter().map(|(path, hits)| (&**path, hits.count, hits.lines.len())).collect();
    assert_eq!(counts, [("lib.rs", 2, 0), ("main.rs", 1, 0)]);
    let files = grep_hits(t, &at("src"), &grep("needle", |query| query.output = GrepOutput::Files));
    assert!(files.values().all(|hits| hits.lines.is_empty() && hits.count > 0));
    assert_eq!(files.into_keys().collect::<Vec<_>>(), ["lib.rs", "main.rs"]);
}

pub fn a_search_includes_and_excludes(t: &Subject) {
    create_sample_files(t);
    let globs = |pattern: &str| PathGlobs::new([pattern], Anchor::AnyDirectory).unwrap();
    let query = GrepQuery::new("needle");
    let include = Grep::new(&query, Some(globs("*.rs")), PathGlobs::none()).unwrap();
    assert_eq!(matching_paths(t, &NodePath::root(), &include), ["src/lib.rs", "src/main.rs"]);
    let exclude = Grep::new(&query, None, globs("*.{rs,txt}")).unwrap();
    assert_eq!(matching_paths(t, &NodePath::root(), &exclude), ["notes.md", "twin.md"]);
    let both = Grep::new(&query, Some(globs("src/**")), globs("lib.rs")).unwrap();
    assert_eq!(matching_paths(t, &NodePath::root(), &both), ["src/main.rs"]);
    let below = Grep::new(&query, Some(globs("/main.rs")), PathGlobs::none()).unwrap();
    assert_eq!(
        matching_paths(t, &at("src"), &below),
        ["main.rs"],
        "globs have to be relative to the directory of the search"
    );
}

pub fn a_search_skips_subtrees(t: &Subject) {
    create_sample_files(t);
    let mut grep = grep("needle", |_| ());
    grep.skip = ["src", "large.txt"].map(StorePath::from_checked).into();
    assert_eq!(matching_paths(t, &NodePath::root(), &grep), ["notes.md", "twin.md"]);
}

pub fn a_search_leaves_hidden_files_out(t: &Subject) {
    create_sample_files(t);
    let mut grep = grep("needle", |_| ());
    grep.hide = hidden(&["/src", "large.*", "twin.md"], "");
    assert_eq!(matching_paths(t, &NodePath::root(), &grep), ["notes.md"]);
    grep.hide = hidden(&["src/lib.rs"], "src");
    assert_eq!(matching_paths(t, &at("src"), &grep), ["main.rs"], "globs see the path in the Workspace");
}

pub fn a_search_leaves_out_what_ignore_files_name(t: &Subject) {
    t.write(".gitignore", "*.o\nout/");
    for path in ["a.o", "b", "deep/a.o", "deep/b", "out/b", ".git/b"] {
        t.write(path, "needle");
    }
    let search = |start: &NodePath, configure: fn(&mut Grep)| {
        let mut grep = grep("needle", |_| ());
        configure(&mut grep);
        let ignore = grep.ignore.insert(IgnoreRules::new(Vec::new())).clone();
        (matching_paths(t, start, &grep).join(" "), ignore.left_out())
    };
    let left_out = |ignored, git| LeftOut { ignored, git };
    assert_eq!(search(&NodePath::root(), |_| ()), ("b deep/b".into(), left_out(true, true)));
    let mut ignoring = grep("needle", |_| ());
    ignoring.ignore = Some(IgnoreRules::new(Vec::new()));
    assert_eq!(matching_paths(t, &at("a.o"), &ignoring).len(), 1, "the start is always searched");
    assert_eq!(search(&at("deep"), |_| ()), ("a.o b".into(), left_out(false, false)));
    let skip = |grep: &mut Grep| {
        grep.skip = [".git", "out"].map(StorePath::from_checked).into();
        grep.exclude = PathGlobs::new(["*.o"], Anchor::AnyDirectory).unwrap();
    };
    assert_eq!(search(&NodePath::root(), skip), ("b deep/b".into(), left_out(false, false)));
}

pub fn a_search_finds_matches_that_span_lines(t: &Subject) {
    t.write("small", "one\ntwo\n");
    let mut large = b"filler\n".repeat(2_000_000);
    large.extend(b"one\ntwo\n");
    t.write("large", &large);
    large.extend(b"filler\n".repeat(1_000_000));
    t.write("too-large", &large);
    let grep = grep("e\nt", |query| query.multiline = Multiline::On);
    let hits = grep_hits(t, &NodePath::root(), &grep);
    assert_eq!(hits.keys().collect::<Vec<_>>(), ["large", "small"]);
    let numbers = |path: &str| hits[path].lines.iter().map(|line| line.number).collect::<Vec<_>>();
    assert_eq!((numbers("small"), numbers("large")), (vec![1, 2], vec![2_000_001, 2_000_002]));
    let unreadable = grep.unreadable.take();
    assert!(
        matches!(&*unreadable, [(path, StoreError::TooLarge { .. })] if path.to_string() == "too-large"),
        "{unreadable:?}"
    );
}

pub fn a_search_of_one_file_works(t: &Subject) {
    create_sample_files(t);
    for start in [at("notes.md"), NodePath::of_node(t.node("notes.md"))] {
        assert_eq!(matching_paths(t, &start, &grep("needle", |_| ())), [""]);
    }
    assert!(matching_paths(t, &at("empty"), &grep("needle", |_| ())).is_empty());
    assert!(matching_paths(t, &at("binary"), &grep("needle", |_| ())).is_empty());
}

pub fn a_search_stops_on_break(t: &Subject) {
    create_sample_files(t);
    let mut visited = 0;
    let visit = &mut |_| {
        visited += 1;
        if visited == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    t.store.grep(&NodePath::root(), &grep("needle", |_| ()), visit).unwrap();
    assert_eq!(visited, 2);
}

pub fn a_search_past_its_time_limit_fails(t: &Subject) {
    create_sample_files(t);
    let expired = grep("needle", |query| query.time_limit = Duration::ZERO);
    let result = t.store.grep(&NodePath::root(), &expired, &mut |_| ControlFlow::Continue(()));
    assert_refused!(result, StoreError::Unavailable { .. });
}
