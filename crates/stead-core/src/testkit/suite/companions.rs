//! Companion rows: committed with a change, filled from its steps, and read by kind and key.

use super::subject::*;
use crate::store::{
    Change, CompanionRecord, CompanionRecords, CompanionRow, NodePath, Parents, Precondition, PutOptions,
    RecordKind, RecordQuery, Replace, Step, StoreError, StorePath, StoredRecord, Subtree, VersionTag,
};

fn kind() -> RecordKind {
    RecordKind::new("manifest").unwrap()
}

fn put(key: &str, data: &str) -> CompanionRow {
    CompanionRow::put(kind(), key, data).unwrap()
}

fn removal(key: &str) -> CompanionRow {
    CompanionRow::remove(kind(), key).unwrap()
}

fn with_rows(steps: Vec<Step>, rows: impl IntoIterator<Item = CompanionRow>) -> Change {
    Change { records: rows.into_iter().map(CompanionRecord::Row).collect(), ..change(steps) }
}

impl Subject {
    /// The rows, if the Store keeps any.
    fn rows(&self) -> Option<&dyn CompanionRecords> {
        self.store.companion_records()
    }

    #[track_caller]
    fn row(&self, key: &str) -> Option<StoredRecord> {
        self.rows().expect("the Store keeps rows").record(&kind(), key).expect("rows can be read")
    }

    /// `key=data` for each row of a query.
    #[track_caller]
    fn listed(&self, query: &RecordQuery) -> Vec<String> {
        let rows =
            self.rows().expect("the Store keeps rows").records(&kind(), query).expect("rows can be read");
        rows.iter().map(|row| format!("{}={}", row.key, row.data)).collect()
    }
}

fn all() -> RecordQuery {
    RecordQuery::first(usize::MAX)
}

pub fn a_store_that_keeps_no_rows_refuses_a_change_with_one(t: &Subject) {
    if t.rows().is_some() {
        return;
    }
    let refused = t.assert_unchanged(|| t.store.apply(with_rows(vec![write("a", "1")], [put("k", "1")])));
    assert_refused!(refused, StoreError::Unsupported(_));
}

pub fn a_row_is_committed_with_its_change_and_filled_from_its_step(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    assert_eq!(t.row("k"), None);
    let steps = vec![write("dir/a", "12345")];
    let applied = t.store.apply(with_rows(steps, [put("k", r#"{"tags":["x"]}"#).filled_from(0)])).unwrap();
    let attr = t.stat("dir/a");
    let row = t.row("k").expect("the row was committed");
    assert_eq!((&*row.key, &*row.data), ("k", r#"{"tags":["x"]}"#));
    assert_eq!(row.path, Some(StorePath::from_checked("dir/a")));
    assert_eq!((row.node, row.size, row.tag), (Some(attr.node), Some(5), Some(attr.tag)));
    assert!(row.revision.is_some());
    assert_eq!(row.revision, applied.revision);
}

pub fn a_row_is_filled_from_the_step_that_it_names(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    t.write("old", "old");
    t.write("gone", "gone");
    let steps = vec![
        write("a", "1"),
        append("a", "23"),
        rename("old", "new", Replace::Refuse),
        copy("a", "b", Replace::Refuse),
        mkdir("dir"),
        remove("gone", Subtree::Any),
    ];
    let rows = (0..steps.len()).map(|step| put(&step.to_string(), "null").filled_from(step));
    t.store.apply(with_rows(steps, rows)).unwrap();
    let filled = |step: usize| {
        let row = t.row(&step.to_string()).unwrap();
        (row.path.unwrap().to_string(), row.node, row.size)
    };
    for (step, path, size) in [(1, "a", 3), (2, "new", 3), (3, "b", 3), (4, "dir", 0)] {
        assert_eq!(filled(step), (path.to_owned(), Some(t.node(path)), Some(size)));
    }
    assert_eq!(filled(0), ("a".to_owned(), Some(t.node("a")), Some(1)), "as the step left it");
    assert_eq!(filled(5), ("gone".to_owned(), None, None), "nothing is left there");
}

pub fn a_row_names_a_step_that_the_change_has(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    let refused = t
        .assert_unchanged(|| t.store.apply(with_rows(vec![write("a", "1")], [put("k", "1").filled_from(1)])));
    assert_refused!(refused, StoreError::Invalid(_));
    assert_eq!(t.row("k"), None);
}

pub fn a_row_is_filled_with_the_path_from_the_root(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    let directory = t.mkdir("one/two").node;
    let below = NodePath { base: directory, path: StorePath::from_checked("a") };
    let step = write_with(below.clone(), b"1".to_vec(), PutOptions::default());
    t.store.apply(with_rows(vec![step], [put("k", "1").filled_from(0)])).unwrap();
    assert_eq!(t.row("k").unwrap().path, Some(StorePath::from_checked("one/two/a")));
    let node = t.node("one/two/a");
    let removed =
        remove_with(NodePath::of_node(node), Subtree::Any, Precondition::Any, crate::store::IfMissing::Fail);
    t.store.apply(with_rows(vec![removed], [put("k", "2").filled_from(0)])).unwrap();
    let row = t.row("k").unwrap();
    assert_eq!((row.path, row.node), (Some(StorePath::from_checked("one/two/a")), None));
}

pub fn a_row_is_replaced_and_removed(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    for (text, data) in [("1", "1"), ("22", "2"), ("333", "3")] {
        t.store.apply(with_rows(vec![write("a", text)], [put("k", data).filled_from(0)])).unwrap();
        let row = t.row("k").unwrap();
        assert_eq!((&*row.data, row.size), (data, Some(text.len() as u64)));
        assert_eq!(t.listed(&all()), [format!("k={data}")]);
    }
    // The last one of a change counts.
    t.store.apply(with_rows(vec![write("a", "4")], [removal("k"), put("k", "4"), put("j", "1")])).unwrap();
    assert_eq!(t.listed(&all()), ["j=1", "k=4"]);
    t.store.apply(with_rows(vec![remove("a", Subtree::Any)], [removal("k"), removal("never")])).unwrap();
    assert_eq!(t.row("k"), None);
    assert_eq!(t.listed(&all()), ["j=1"]);
    t.store.apply(with_rows(vec![write("a", "5")], [put("k", "5")])).unwrap();
    assert_eq!(t.listed(&all()), ["j=1", "k=5"]);
}

pub fn a_failed_change_leaves_the_rows_as_they_were(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    t.store.apply(with_rows(vec![write("a", "1")], [put("k", "1").filled_from(0), put("j", "1")])).unwrap();
    let before = (t.row("k"), t.row("j"));
    let failing: [Vec<Step>; 3] = [
        vec![write("a", "2"), remove("none", Subtree::Any)],
        vec![write("a/below", "2")],
        vec![write_with(
            at("a"),
            b"2".to_vec(),
            PutOptions { expect: Precondition::Tag(VersionTag(1)), ..PutOptions::default() },
        )],
    ];
    for steps in failing {
        let rows = [put("k", "2").filled_from(0), removal("j"), put("new", "2")];
        t.assert_unchanged(|| t.store.apply(with_rows(steps, rows))).unwrap_err();
        assert_eq!((t.row("k"), t.row("j"), t.row("new")), (before.0.clone(), before.1.clone(), None));
    }
    t.store.apply(with_rows(vec![write("a", "3")], [put("k", "3"), removal("j")])).unwrap();
    assert_eq!(t.listed(&all()), ["k=3"]);
}

pub fn rows_come_without_steps_too(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    t.write("a", "1");
    let before = t.snapshot();
    t.store.apply(with_rows(Vec::new(), [put("lease", "1")])).unwrap();
    // A step that changes nothing makes no revision, and the row is committed all the same.
    let nothing = mkdir_with(at("dir"), Parents::Create);
    t.mkdir("dir");
    t.store.apply(with_rows(vec![nothing], [put("k", "1").filled_from(0)])).unwrap();
    assert_eq!(t.listed(&all()), ["k=1", "lease=1"]);
    assert_eq!(t.row("k").unwrap().node, Some(t.node("dir")));
    t.remove("dir");
    assert_eq!(t.snapshot(), before);
    t.store.apply(with_rows(Vec::new(), [removal("lease"), put("k", "2")])).unwrap();
    assert_eq!(t.listed(&all()), ["k=2"]);
}

pub fn rows_are_listed_by_key_and_by_path(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    for (key, path) in [("3", "dir/a"), ("1", "dir/sub/b"), ("2", "dir-other"), ("4", "dir")] {
        let step = if path == "dir" { chmod(at("dir"), 0o750) } else { write(path, "x") };
        t.store.apply(with_rows(vec![step], [put(key, "0").filled_from(0)])).unwrap();
    }
    t.store.apply(with_rows(Vec::new(), [put("5", "0")])).unwrap();
    let keys = |query: &RecordQuery| {
        let rows = t.rows().unwrap().records(&kind(), query).unwrap();
        rows.into_iter().map(|row| row.key).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(&all()), "1 2 3 4 5");
    let mut below = all();
    below.below = Some(StorePath::from_checked("dir"));
    assert_eq!(keys(&below), "1 3 4");
    below.below = Some(StorePath::from_checked("dir/sub"));
    assert_eq!(keys(&below), "1");
    below.below = Some(StorePath::empty());
    assert_eq!(keys(&below), "1 2 3 4");
    let mut page = RecordQuery::first(2);
    assert_eq!(keys(&page), "1 2");
    page.after = Some("2".into());
    assert_eq!(keys(&page), "3 4");
}

pub fn rows_of_different_kinds_are_apart(t: &Subject) {
    let Some(rows) = t.rows() else { return };
    let other = RecordKind::new("lease").unwrap();
    let leased = CompanionRow::put(other.clone(), "k", "2").unwrap();
    t.store.apply(with_rows(vec![write("a", "1")], [put("k", "1"), leased])).unwrap();
    t.store.apply(with_rows(Vec::new(), [removal("k")])).unwrap();
    assert_eq!(t.row("k"), None);
    assert_eq!(rows.record(&other, "k").unwrap().unwrap().data, "2");
    assert_eq!(rows.records(&RecordKind::new("none").unwrap(), &all()).unwrap(), []);
}

pub fn rows_are_no_files_and_have_no_past(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    t.store.apply(with_rows(vec![write("a", "1")], [put("k", "1").filled_from(0)])).unwrap();
    t.store.apply(with_rows(vec![write("a", "2")], [put("k", "2").filled_from(0)])).unwrap();
    assert_eq!(t.names(""), ["a"]);
    if let Some(history) = t.store.history()
        && let Ok(past) = history.as_of(history.latest_revision().unwrap())
    {
        assert!(past.companion_records().is_none());
    }
    if let Some(maintenance) = t.store.maintenance() {
        maintenance.destroy().expect("the Store can be destroyed");
        assert_eq!(t.row("k"), None, "its rows are gone with it");
    }
}

pub fn rows_written_at_once_are_all_there(t: &Subject) {
    if t.rows().is_none() {
        return;
    }
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for round in 0..5 {
                    let rows =
                        [put(&format!("{writer}"), &format!("{round}")).filled_from(0), put("all", "0")];
                    let step = write(&format!("{writer}/{round}"), "x");
                    t.store.apply(with_rows(vec![step], rows)).unwrap();
                }
            });
        }
    });
    assert_eq!(t.listed(&all()), ["0=4", "1=4", "2=4", "3=4", "all=0"]);
}
