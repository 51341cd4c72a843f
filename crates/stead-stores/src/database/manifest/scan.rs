//! Lists and searches: which statement finds the rows that pass a filter, those of the files that were written last first.
//!
//! The rows of a category are in the order of a list by their index, and a list of all categories merges these. Where few rows
//! pass a filter that no such index helps with, they are found first and sorted.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use stead_core::Timestamp;
use stead_core::managed::{Category, FileFilter, SearchPattern};

use crate::database::error::Result;

/// From how many rows on it is worth looking for the few rows that pass a filter.
const MANY_ROWS: i64 = 50_000;
/// How many rows are sorted at most.
const FEW_ROWS: i64 = 20_000;

/// A statement that visits rows, with the path first, and its values.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

/// What a statement has of a row. Most rows are only counted, and a merge copies what it has.
const VISITED: &str = "f.path, f.modified_at, f.id";
/// The order of a list, by the columns of a result.
const NEWEST_FIRST: &str = "ORDER BY modified_at DESC, id DESC";

impl Scan {
    /// The statement for a filter. `as_of` is the rows of an earlier revision, as a subquery.
    pub(super) fn plan(
        conn: &Connection,
        workspace: String,
        filter: &FileFilter,
        as_of: Option<String>,
    ) -> Result<Scan> {
        let condition = Condition::of(filter, workspace, "f.modified_at");
        if let Some(rows) = as_of {
            let category = filter.category.map(of_category).unwrap_or_default();
            let sql =
                format!("SELECT {VISITED} FROM {rows} f WHERE {}{category} {NEWEST_FIRST}", condition.text);
            return Ok(Scan { sql, values: condition.values });
        }
        let (tag, is_common) = rarest_tag(conn, filter, &condition)?;
        let needs_search = filter.search.is_some() || filter.session.is_some();
        if let Some(tag) = tag.filter(|_| !(is_common && needs_search)) {
            return Ok(Scan::of_tag(filter, condition, tag));
        }
        if needs_search && let Some(ids) = few_ids(conn, filter, &condition)? {
            let ids = serde_json::to_string(&ids).expect("numbers can be written as JSON");
            let category = filter.category.map(of_category).unwrap_or_default();
            let sql = format!(
                "SELECT {VISITED} FROM workspace_files f WHERE f.id IN (SELECT value FROM json_each(?2)) AND f.workspace = ?1{category}
                 {NEWEST_FIRST}"
            );
            let workspace = condition.values.into_iter().next().expect("the Workspace is the first value");
            return Ok(Scan { sql, values: vec![workspace, Value::Text(ids)] });
        }
        Ok(Scan {
            sql: format!("{} {NEWEST_FIRST}", condition.by_category(filter, VISITED)),
            values: condition.values,
        })
    }

    /// The rows that have a tag, in their order, and pass the rest of the filter.
    fn of_tag(filter: &FileFilter, condition: Condition, tag: String) -> Scan {
        let Some(Value::Text(workspace)) = condition.values.into_iter().next() else {
            unreachable!("the Workspace is the first value");
        };
        let mut condition = Condition::of(filter, workspace, "t.written");
        let tag = condition.value(tag);
        let category = filter.category.map(of_category).unwrap_or_default();
        let sql = format!(
            "SELECT {VISITED} FROM workspace_file_tag t CROSS JOIN workspace_files f ON f.id = t.file
             WHERE t.workspace = ?1 AND t.tag = ?{tag} AND {}{category} ORDER BY t.written DESC, t.file DESC",
            condition.text
        );
        Scan { sql, values: condition.values }
    }
}

fn of_category(category: Category) -> String {
    format!(" AND f.category = '{category}'")
}

/// What rows `f` have to meet, except for their category, and the values; `?1` is the Workspace.
#[derive(Debug)]
struct Condition {
    text: String,
    values: Vec<Value>,
}

impl Condition {
    /// The condition of a filter. `time` is the column that says when a file was last written.
    fn of(filter: &FileFilter, workspace: String, time: &str) -> Self {
        let mut condition =
            Condition { text: "f.workspace = ?1".to_owned(), values: vec![Value::Text(workspace)] };
        condition.add_range(filter, time);
        for tag in filter.tags.iter() {
            let number = condition.value(format!(",{tag},"));
            condition.add(&format!("instr(',' || f.tags || ',', ?{number}) > 0"));
        }
        if let Some(session) = &filter.session {
            let number = condition.value(session.as_str());
            condition.add(&format!("f.session_key = ?{number}"));
        }
        if let Some(search) = &filter.search {
            let pattern = search.like_pattern();
            let in_tags = if search.is_glob() { format!("%,{pattern},%") } else { pattern.clone() };
            let (pattern, in_tags) = (condition.value(pattern), condition.value(in_tags));
            let other_name = other_name(search, "f.");
            condition.add(&format!(
                r"(f.path LIKE ?{pattern} ESCAPE '\' OR ({other_name}f.original_name LIKE ?{pattern} ESCAPE '\')
                   OR (f.tags <> '' AND ',' || f.tags || ',' LIKE ?{in_tags} ESCAPE '\'))"
            ));
        }
        condition
    }

    fn add_range(&mut self, filter: &FileFilter, time: &str) {
        if filter.written.from > Timestamp(i64::MIN) {
            let number = self.value(filter.written.from.to_string());
            self.add(&format!("{time} >= ?{number}"));
        }
        if filter.written.until < Timestamp(i64::MAX) {
            let number = self.value(filter.written.until.to_string());
            self.add(&format!("{time} < ?{number}"));
        }
    }

    fn add(&mut self, part: &str) {
        self.text.push_str(" AND ");
        self.text.push_str(part);
    }

    /// Adds a value, and returns its number.
    fn value(&mut self, value: impl Into<String>) -> usize {
        self.values.push(Value::Text(value.into()));
        self.values.len()
    }

    /// A query of the categories that the filter is about, each by its index.
    fn by_category(&self, filter: &FileFilter, columns: &str) -> String {
        let one = |category| {
            format!("SELECT {columns} FROM workspace_files f WHERE {}{}", self.text, of_category(category))
        };
        match filter.category {
            Some(category) => one(category),
            None => Category::ALL.map(one).join(" UNION ALL "),
        }
    }
}

/// The part of a condition that leaves out names that end their path: what is found in the name is found in the path.
fn other_name(search: &SearchPattern, table: &str) -> String {
    if search.is_glob() {
        return String::new();
    }
    // As in the index `workspace_files_renamed`.
    format!("substr({table}path, -length({table}original_name)) <> {table}original_name AND ")
}

/// The tag of the filter that the fewest files have, and whether many files have it.
fn rarest_tag(
    conn: &Connection,
    filter: &FileFilter,
    condition: &Condition,
) -> Result<(Option<String>, bool)> {
    let mut rarest: Option<(i64, String)> = None;
    for tag in filter.tags.iter() {
        let count: i64 = conn
            .prepare_cached(&format!(
                "SELECT count(*) FROM
                   (SELECT 1 FROM workspace_file_tag WHERE workspace = ?1 AND tag = ?2 LIMIT {FEW_ROWS})"
            ))?
            .query_row((&condition.values[0], tag), |row| row.get(0))?;
        if rarest.as_ref().is_none_or(|(fewest, _)| count < *fewest) {
            rarest = Some((count, tag.to_owned()));
        }
    }
    let is_common = rarest.as_ref().is_some_and(|(count, _)| *count >= FEW_ROWS);
    Ok((rarest.map(|(_, tag)| tag), is_common))
}

/// The numbers of the rows that pass a search or are of a session, if they are few. `None` means that it is better to go through the
/// rows in their order: there are few rows, or many of them pass. Of a search alone, rows of another category may be among them.
fn few_ids(conn: &Connection, filter: &FileFilter, condition: &Condition) -> Result<Option<Vec<i64>>> {
    let mut range =
        Condition { text: "f.workspace = ?1".to_owned(), values: vec![condition.values[0].clone()] };
    range.add_range(filter, "f.modified_at");
    let counted: i64 = conn
        .prepare_cached(&format!(
            "SELECT count(*) FROM (SELECT 1 FROM ({}) LIMIT {MANY_ROWS})",
            range.by_category(filter, "1")
        ))?
        .query_row(params_from_iter(&range.values), |row| row.get(0))?;
    if counted < MANY_ROWS {
        return Ok(None);
    }
    let is_search_alone = range.values.len() == 1 && filter.tags.is_empty() && filter.session.is_none();
    let (sql, values) = match &filter.search {
        Some(search) if is_search_alone => {
            let pattern = Value::Text(search.like_pattern());
            (search_by_indexes(filter.category, search), vec![condition.values[0].clone(), pattern])
        }
        // The rows lie together in the table, and reading them in that order costs a third of reading them by an index.
        _ => {
            let category = filter.category.map(of_category).unwrap_or_default();
            let sql =
                format!("SELECT f.id FROM workspace_files f NOT INDEXED WHERE {}{category}", condition.text);
            (sql, condition.values.clone())
        }
    };
    let mut statement = conn.prepare_cached(&format!("{sql} LIMIT {}", FEW_ROWS + 1))?;
    let ids = statement.query_map(params_from_iter(&values), |row| row.get(0))?;
    let ids: Vec<i64> = ids.collect::<rusqlite::Result<_>>()?;
    Ok(Some(ids).filter(|ids| ids.len() as i64 <= FEW_ROWS))
}

/// A query that reads what a search looks at from the indexes alone, which are a quarter of the size of the table. It may find a row
/// twice.
fn search_by_indexes(category: Option<Category>, search: &SearchPattern) -> String {
    // The directory of a category has the category's name.
    let directory =
        category.map(|name| format!(" AND path >= '{name}/' AND path < '{name}0'")).unwrap_or_default();
    let other_name = other_name(search, "");
    format!(
        r"SELECT id FROM workspace_files WHERE workspace = ?1{directory} AND path LIKE ?2 ESCAPE '\'
          UNION ALL SELECT id FROM workspace_files WHERE workspace = ?1 AND {other_name}original_name LIKE ?2 ESCAPE '\'
          UNION ALL SELECT file FROM workspace_file_tag WHERE workspace = ?1 AND tag LIKE ?2 ESCAPE '\'"
    )
}
