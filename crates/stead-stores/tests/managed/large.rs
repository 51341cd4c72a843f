//! Lists and searches of a manifest of 60,000 rows, where other statements find the rows than in a small one.

use std::cmp::Reverse;

use stead_core::Timestamp;
use stead_core::managed::{DateRange, FileFilter, SearchPattern, Tags};
use stead_core::vfs::managed::FilePage;

use crate::host::{Host, Kind, listed};

#[test]
fn w54_and_w56_a_large_manifest_is_listed_and_searched_like_a_small_one() {
    let host = Host::new(Kind::Virtual);
    let files = host.files();
    host.vfs().write("/notes/code/newest.py", "x").unwrap();
    listed(&files);
    // Rows alone: a list of a Virtual Store doesn't look at the files. The times are mixed.
    let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
    conn.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 59999)
         INSERT INTO workspace_files(workspace, path, category, original_name, size_bytes, tags, created_at, modified_at, since)
         SELECT (SELECT workspace FROM managed_workspace), printf('data/d/note-%05d.csv', i), 'data',
                iif(i = 7, 'Other.txt', printf('note-%05d.csv', i)), 1, '',
                '2026-01-01T00:00:00.000Z', printf('2026-01-01T00:00:%02d.000Z', i * 7 % 60), 0 FROM n;
         UPDATE workspace_files SET tags = 'rare,x' WHERE path LIKE 'data/d/note-_0000.csv' AND path NOT LIKE '%-%1%'
           AND path NOT LIKE '%-%3%' AND path NOT LIKE '%-%5%';",
    )
    .unwrap();
    let search = |text: &str| FileFilter { search: Some(SearchPattern::new(text)), ..FileFilter::default() };
    let page = |filter: &FileFilter| files.list(filter, FilePage::default()).unwrap();
    for (text, expected) in [
        ("note-00777.", vec!["data/d/note-00777.csv"]),
        ("NEWEST", vec!["code/newest.py"]),
        ("other", vec!["data/d/note-00007.csv"]),
        ("other.t?t", vec!["data/d/note-00007.csv"]),
        ("note-0000?.csv", vec![]),
        ("xylophone", vec![]),
        ("rar", vec!["data/d/note-40000.csv", "data/d/note-20000.csv", "data/d/note-00000.csv"]),
    ] {
        let found = page(&search(text));
        let paths: Vec<_> = found.files.iter().map(|listed| listed.file.path.as_str()).collect();
        if text == "note-0000?.csv" {
            assert_eq!(
                (found.total.count, found.files.len()),
                (9, 9),
                "one of the ten has another name: {paths:?}"
            );
            let times: Vec<_> = found.files.iter().map(|listed| listed.file.modified_at).collect();
            assert!(times.is_sorted_by(|one, other| one >= other), "the newest first: {times:?}");
            continue;
        }
        assert_eq!(paths, expected, "{text}");
        assert!(!found.total.is_more);
    }
    // More than 10,000 aren't counted.
    for filter in [FileFilter::default(), search("note")] {
        let found = page(&filter);
        assert_eq!((found.files.len(), found.total.count, found.total.is_more), (50, 10_000, true));
    }
    assert_eq!(page(&FileFilter::default()).files[0].file.path, "code/newest.py");
    let tagged = FileFilter { tags: Tags::parse(["rare"]).unwrap(), ..FileFilter::default() };
    assert_eq!(page(&tagged).total.count, 3);
}

/// A row as a test knows it.
struct Known {
    id: i64,
    path: String,
    category: String,
    name: String,
    tags: Tags,
    written: Timestamp,
    session: String,
}

impl Known {
    /// Whether the row passes a filter, decided without SQL.
    fn passes(&self, filter: &FileFilter) -> bool {
        filter.category.is_none_or(|category| category.as_str() == self.category)
            && filter.written.contains(self.written)
            && filter.tags.iter().all(|tag| self.tags.contains(tag))
            && filter.session.as_ref().is_none_or(|session| *session == self.session)
            && filter.search.as_ref().is_none_or(|search| self.is_found(search))
    }

    fn is_found(&self, search: &SearchPattern) -> bool {
        let wanted = search.text().to_ascii_lowercase();
        let tags = self.tags.iter().map(str::to_owned);
        [self.path.clone(), self.name.clone()].into_iter().chain(tags).any(|text| {
            let text = text.to_ascii_lowercase();
            if search.is_glob() {
                matches(wanted.as_bytes(), text.as_bytes())
            } else {
                text.contains(&wanted)
            }
        })
    }
}

/// Whether a text matches a pattern with `*` and `?`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some((b'*', rest)), _) => (0..=text.len()).any(|skipped| matches(rest, &text[skipped..])),
        (Some((b'?', rest)), Some((_, text))) => matches(rest, text),
        (Some((wanted, rest)), Some((found, text))) => wanted == found && matches(rest, text),
        (Some(_), None) => false,
    }
}

#[test]
fn w49_to_w58_and_w93_every_filter_of_a_large_manifest_finds_what_a_look_at_each_row_finds() {
    let host = Host::new(Kind::Virtual);
    let files = host.files();
    host.vfs().write("/notes/code/newest.py", "x").unwrap();
    listed(&files);
    let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
    // Half of the files have one tag, a third another, and three of them a third one. The times are mixed, and some are equal.
    conn.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 59999),
           c(number, category) AS (VALUES (0, 'code'), (1, 'documents'), (2, 'data'), (3, 'images'), (4, 'downloads'), (5, 'temp'))
         INSERT INTO workspace_files(workspace, path, category, original_name, size_bytes, created_at, modified_at, session_key, since)
         SELECT (SELECT workspace FROM managed_workspace), printf('%s/d%d/note-%05d.csv', category, i / 200, i), category,
                iif(i % 5000 = 7, printf('Other-%d.txt', i), printf('note-%05d.csv', i)), 1, '2026-01-01T00:00:00.000Z',
                strftime('%Y-%m-%dT%H:%M:%S.000Z', '2026-01-01', ((i * 7919 % 5000) * 1000) || ' seconds'),
                iif(i % 30000 = 5, 'helper', 'coder'), 0
         FROM n JOIN c ON c.number = i % 6;
         UPDATE workspace_files SET tags = 'common' WHERE id % 2 = 0;
         UPDATE workspace_files SET tags = iif(tags = '', 'third', tags || ',third') WHERE id % 3 = 0;
         UPDATE workspace_files SET tags = iif(tags = '', 'rare', tags || ',rare') WHERE id % 20000 = 6;",
    )
    .unwrap();
    let mut statement = conn
        .prepare(
            "SELECT id, path, category, original_name, tags, modified_at, session_key FROM workspace_files",
        )
        .unwrap();
    let rows = statement.query_map([], |row| {
        Ok(Known {
            id: row.get(0)?,
            path: row.get(1)?,
            category: row.get(2)?,
            name: row.get(3)?,
            tags: Tags::from_stored(&row.get::<_, String>(4)?),
            written: row.get::<_, String>(5)?.parse().unwrap(),
            session: row.get(6)?,
        })
    });
    let mut known: Vec<Known> = rows.unwrap().map(Result::unwrap).collect();
    known.sort_by_key(|row| Reverse((row.written, row.id)));

    let day = |text: &str| DateRange::parse(text).unwrap();
    let mut filters = vec![FileFilter::default()];
    for parts in 0..(3 * 2 * 2 * 5 * 7) {
        let category: [Option<&str>; 3] = [None, Some("data"), Some("temp")];
        let written = [None, Some(day("2026-02-03"))];
        let session = [None, Some("helper")];
        let all: [&[&str]; 5] = [&[], &["common"], &["rare"], &["common", "third"], &["third", "rare"]];
        let searched = [
            None,
            Some("note"),
            Some("OTHER-"),
            Some("rar"),
            Some("xylophone"),
            Some("note-0?0*"),
            Some("*.TXT"),
        ];
        filters.push(FileFilter {
            category: category[parts % 3].map(|name| name.parse().unwrap()),
            written: written[parts / 3 % 2].unwrap_or(DateRange::ALL),
            session: session[parts / 6 % 2].map(str::to_owned),
            tags: Tags::parse(all[parts / 12 % 5]).unwrap(),
            search: searched[parts / 60].map(SearchPattern::new),
        });
    }
    // What SQL's LIKE would take for a pattern.
    for literal in ["note_00", "note-0%7", "%", "\\", "n_te-0?0*", "*.t%t"] {
        filters.push(FileFilter { search: Some(SearchPattern::new(literal)), ..FileFilter::default() });
    }
    for filter in &filters {
        let expected: Vec<&Known> = known.iter().filter(|row| row.passes(filter)).collect();
        for (offset, limit) in [(0, 50), (40, 30), (expected.len() as u64, 5)] {
            let page = files.list(filter, FilePage { offset, limit }).unwrap();
            let ids: Vec<i64> = page.files.iter().map(|listed| listed.file.id).collect();
            let wanted: Vec<i64> =
                expected.iter().skip(offset as usize).take(limit as usize).map(|row| row.id).collect();
            assert_eq!(ids, wanted, "{filter:?} from {offset}");
            let counted = (offset + limit).max(10_000);
            let total = (page.total.count, page.total.is_more);
            assert_eq!(
                total,
                ((expected.len() as u64).min(counted), expected.len() as u64 > counted),
                "{filter:?} from {offset}"
            );
        }
    }
}
