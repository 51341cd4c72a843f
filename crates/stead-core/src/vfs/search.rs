//! Searching across Workspaces: by name (glob) and by content (grep).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::error::Result;
use crate::glob::{Anchor, PathGlobs};
use crate::path::VfsPath;
use crate::search::{
    Grep, GrepOutput, GrepQuery, HitLine, IgnoreFiles, LeftOut, LineRole, UnreadablePaths, file_type_globs,
};
use crate::store::StoreError;
use crate::vfs::call::Call;
use crate::vfs::list::sort_key;
use crate::vfs::{IntoPath, PathEntry, Unreadable, Vfs, WalkQuery, WalkResult};

/// A search by name.
#[derive(Debug, Clone)]
pub struct GlobQuery {
    /// The glob. It is relative to the path of the search, or to `/` if it begins with `/`.
    pub pattern: String,
    /// The most entries.
    pub limit: usize,
    /// Whether ignore files are respected. The directories that the pattern names without wildcards are always searched.
    pub ignore_files: IgnoreFiles,
}

impl GlobQuery {
    /// A query for this pattern, with defaults for the rest.
    pub fn new(pattern: impl Into<String>) -> Self {
        GlobQuery { pattern: pattern.into(), limit: 1_000, ignore_files: IgnoreFiles::Respected }
    }
}

/// The result of a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GlobResult {
    /// The nodes that match, sorted by path.
    pub entries: Vec<PathEntry>,
    /// Whether there are more than were asked for.
    pub truncated: bool,
    /// What could not be read; sorted by path.
    pub unreadable: Vec<Unreadable>,
    /// What was left out because it is ignored.
    pub left_out: LeftOut,
}

/// The result of a content search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GrepResult {
    /// The files with matches, sorted by path.
    pub files: Vec<FileMatch>,
    /// Whether there are more than were asked for.
    pub truncated: bool,
    /// Whether the time limit was reached. What was found until then is here.
    pub timed_out: bool,
    /// What could not be read; sorted by path.
    pub unreadable: Vec<Unreadable>,
    /// What was left out because it is ignored.
    pub left_out: LeftOut,
}

/// The matches in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileMatch {
    /// Its logical path. Characters that could mislead a reader are escaped.
    pub path: String,
    /// How many lines match.
    pub count: usize,
    /// The lines, if lines were asked for.
    pub lines: Vec<HitLine>,
}

impl Vfs {
    /// Finds the paths below `path` that match a glob.
    ///
    /// A pattern can't lead above `path`: no path contains `..`, so a pattern with `..` matches nothing.
    pub fn glob(&self, query: &GlobQuery, path: impl IntoPath) -> Result<GlobResult> {
        self.call("glob", [path.into_path()], |call, [path]| {
            let limit = query.limit.max(1);
            let query = WalkQuery {
                pattern: Some(query.pattern.clone()),
                limit: limit.saturating_add(1),
                ignore_files: query.ignore_files,
                time_limit: Duration::from_secs(10),
                ..WalkQuery::default()
            };
            let WalkResult { mut entries, unreadable, left_out } = call.walk(path, &query)?;
            let truncated = entries.len() > limit;
            entries.truncate(limit);
            Ok(GlobResult { entries, truncated, unreadable, left_out })
        })
    }

    /// Finds the files whose content matches: the file at `path`, or those below it.
    ///
    /// Workspaces below `path` that may not be read, or only with approval, are left out.
    pub fn grep(&self, query: &GrepQuery, path: impl IntoPath) -> Result<GrepResult> {
        self.call("grep", [path.into_path()], |call, [path]| call.grep(query, path))
    }
}

impl Call<'_> {
    fn grep(&self, query: &GrepQuery, path: &VfsPath) -> Result<GrepResult> {
        let globs = |patterns: &[String]| PathGlobs::new(patterns, Anchor::AnyDirectory);
        let include = if query.include.is_empty() { None } else { Some(globs(&query.include)?) };
        let mut grep = Grep::new(query, include, globs(&query.exclude)?)?;
        grep.file_types = file_type_globs(&query.file_types)?;
        let mut first_results = FirstResults { query, files: BTreeMap::new(), results: 0, truncated: false };
        let (mut timed_out, mut unreadable, mut left_out) = (false, Vec::new(), LeftOut::default());
        for region in self.regions(path)? {
            let mut grep = grep.clone();
            grep.include = grep.include.map(|globs| globs.with_base(&region.base));
            grep.exclude = grep.exclude.with_base(&region.base);
            grep.skip.clone_from(&region.skip);
            grep.hide = region.root.hidden_names();
            grep.ignore = self.ignore_rules(&region, query.ignore_files, String::new(), &mut unreadable);
            grep.unreadable = UnreadablePaths::default();
            grep.monitor.clone_from(&self.vfs.monitor);
            let searched = region.root.store().grep(&region.root.node_path, &grep, &mut |file| {
                first_results.add(region.logical_path(&file.path), file.hits.count, file.hits.lines);
                ControlFlow::Continue(())
            });
            self.report_progress(first_results.results as u64, None)?;
            region.collect_unreadable(&grep.unreadable, &mut unreadable);
            if let Some(ignore) = &grep.ignore {
                region.collect_unreadable(ignore.unreadable(), &mut unreadable);
                left_out = left_out.or(ignore.left_out());
            }
            match searched {
                // The search of the last file may have been cut short.
                Ok(()) => timed_out |= grep.should_stop(),
                Err(StoreError::Unavailable { .. }) if grep.should_stop() => timed_out = true,
                Err(StoreError::NotFound) if self.is_synthetic_directory(&region.root) => {}
                Err(cause) => region.note_or_fail(cause, &mut unreadable)?,
            }
        }
        unreadable.sort();
        Ok(GrepResult { timed_out, unreadable, left_out, ..first_results.finish() })
    }
}

/// The first results by path, in whatever order they arrive, so that the same search always gives the same answer.
struct FirstResults<'a> {
    query: &'a GrepQuery,
    files: BTreeMap<Vec<u8>, FileMatch>,
    results: usize,
    truncated: bool,
}

impl FirstResults<'_> {
    fn result_count(&self, file: &FileMatch) -> usize {
        if self.query.output == GrepOutput::Lines { file.count } else { 1 }
    }

    fn add(&mut self, path: String, count: usize, lines: Vec<HitLine>) {
        let file = FileMatch { path, count, lines };
        self.results += self.result_count(&file);
        self.files.insert(sort_key(&file.path), file);
        while let Some((_, last)) = self.files.last_key_value() {
            let weight = self.result_count(last);
            if self.results - weight < self.query.max_results {
                break;
            }
            self.files.pop_last();
            self.results -= weight;
            self.truncated = true;
        }
    }

    fn finish(mut self) -> GrepResult {
        let excess = self.results.saturating_sub(self.query.max_results);
        if excess > 0
            && let Some(mut last) = self.files.last_entry()
        {
            let file = last.get_mut();
            let kept_count = file.count - excess;
            let mut matches = 0;
            file.lines.retain(|line| {
                matches += usize::from(line.role == LineRole::Match);
                matches <= kept_count
            });
            file.count = kept_count;
            self.truncated = true;
        }
        let files = self.files.into_values().collect();
        GrepResult { files, truncated: self.truncated, ..GrepResult::default() }
    }
}
