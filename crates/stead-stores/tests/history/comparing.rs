//! Diff and blame.

use std::sync::Arc;

use stead_core::history::diff::ContentDiff;
use stead_core::vfs::{DiffOptions, Difference, DifferenceKind, LogQuery, Overwrite, RemoveOptions};
use stead_core::{Occurrences, Store};

use crate::vfs_for;

crate::on_every_store! {
    versions_are_compared_by_file_and_by_line
    the_log_compares_each_change_with_the_state_before_it
    blame_names_the_agent_that_wrote_each_line
    texts_in_other_encodings_are_compared_by_line
}

fn versions_are_compared_by_file_and_by_line(store: &Arc<dyn Store>) {
    let a = vfs_for(store, "a");
    a.write("/w/same", "same").unwrap();
    a.write("/w/text", "1\n2\n3\n").unwrap();
    a.write("/w/gone", "gone\n").unwrap();
    a.write("/w/dir/f", "f\n").unwrap();
    let older = crate::newest(store);
    a.edit("/w/text", "2", "two", Occurrences::One).unwrap();
    a.remove_file("/w/gone", RemoveOptions::default()).unwrap();
    a.rename("/w/dir", "/w/moved", Overwrite::Refuse).unwrap();
    a.write("/w/new", b"\0binary".to_vec()).unwrap();
    a.write("/w/brief", "x").unwrap();
    a.remove_file("/w/brief", RemoveOptions::default()).unwrap();
    let newer = crate::newest(store);

    let differences = a.diff("/w", older, newer, DiffOptions::default()).unwrap();
    let lines: Vec<_> = differences
        .iter()
        .map(|difference| format!("{} {}", difference.difference.as_str(), difference.path))
        .collect();
    assert_eq!(lines, ["removed /w/gone", "moved /w/moved", "added /w/new", "changed /w/text"]);
    let content_of =
        |kind| differences.iter().find(|difference| difference.difference == kind).unwrap().content.clone();
    assert_eq!(
        content_of(DifferenceKind::Changed),
        Some(ContentDiff::Text("@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n".into()))
    );
    assert_eq!(content_of(DifferenceKind::Added), Some(ContentDiff::Binary));
    assert_eq!(content_of(DifferenceKind::Removed), Some(ContentDiff::Text("@@ -1 +0,0 @@\n-gone\n".into())));

    let reversed = a.diff("/w", newer, older, DiffOptions::default()).unwrap();
    let lines: Vec<_> = reversed
        .iter()
        .map(|difference| format!("{} {}", difference.difference.as_str(), difference.path))
        .collect();
    assert_eq!(lines, ["moved /w/dir", "added /w/gone", "removed /w/new", "changed /w/text"]);
    assert!(a.diff("/w", newer, newer, DiffOptions::default()).unwrap().is_empty());
}

fn the_log_compares_each_change_with_the_state_before_it(store: &Arc<dyn Store>) {
    let a = vfs_for(store, "a");
    a.write("/w/f", "1\n2\n").unwrap();
    a.edit("/w/f", "2", "two", Occurrences::One).unwrap();
    a.rename("/w/f", "/w/g", Overwrite::Refuse).unwrap();
    a.write("/w/g", "other\n").unwrap();
    a.remove_file("/w/g", RemoveOptions::default()).unwrap();
    let query = LogQuery { diff: Some(DiffOptions::default()), ..LogQuery::default() };
    let line = |difference: &Difference| match &difference.content {
        Some(ContentDiff::Text(text)) => format!("{} {text}", difference.difference.as_str()),
        Some(ContentDiff::Binary) => format!("{} binary", difference.difference.as_str()),
        None => difference.difference.as_str().to_owned(),
    };
    let log = a.log(&query).unwrap();
    // A fork has other changes before these.
    let lines: Vec<_> = log[..5].iter().rev().flat_map(|entry| &entry.differences).map(line).collect();
    assert_eq!(
        lines,
        [
            "added @@ -0,0 +1,2 @@\n+1\n+2\n",
            "changed @@ -1,2 +1,2 @@\n 1\n-2\n+two\n",
            "moved",
            "changed @@ -1,2 +1 @@\n-1\n-two\n+other\n",
            "removed @@ -1 +0,0 @@\n-other\n",
        ]
    );
    let without = a.log(&LogQuery::default()).unwrap();
    assert!(without.iter().all(|entry| entry.differences.is_empty()), "{without:?}");
}

fn blame_names_the_agent_that_wrote_each_line(store: &Arc<dyn Store>) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    a.write("/w/f", "one\ntwo\nthree\n").unwrap();
    b.edit("/w/f", "two", "zwei", Occurrences::One).unwrap();
    a.append("/w/f", "four\n").unwrap();
    a.rename("/w/f", "/w/g", Overwrite::Refuse).unwrap();
    let lines = a.blame("/w/g").unwrap();
    let authors_and_lines: Vec<_> = lines
        .iter()
        .map(|line| {
            let agent = &line.operation.as_ref().unwrap().identity.agent;
            format!("{agent} {}", String::from_utf8_lossy(&line.line).trim_end())
        })
        .collect();
    assert_eq!(authors_and_lines, ["a one", "b zwei", "a three", "a four"]);
}

fn texts_in_other_encodings_are_compared_by_line(store: &Arc<dyn Store>) {
    let a = vfs_for(store, "a");
    a.write("/w/f", b"caf\xe9\none\n".to_vec()).unwrap();
    let older = crate::newest(store);
    a.edit("/w/f", "one", "zw\u{f6}lf", Occurrences::One).unwrap();
    let lines: Vec<_> = a.blame("/w/f").unwrap().into_iter().map(|line| line.line).collect();
    assert_eq!(lines, ["caf\u{e9}\n".as_bytes(), "zw\u{f6}lf\n".as_bytes()]);
    let differences = a.diff("/w", older, crate::newest(store), DiffOptions::default()).unwrap();
    let expected = "@@ -1,2 +1,2 @@\n caf\u{e9}\n-one\n+zw\u{f6}lf\n";
    assert_eq!(differences[0].content, Some(ContentDiff::Text(expected.into())));
}
