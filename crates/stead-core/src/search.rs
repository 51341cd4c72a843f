//! Searching by name with globs, and by content with regular expressions.
//!
//! Patterns are compiled and run here, on bytes. Stores supply the bytes.
//!
//! ```
//! use stead_core::search::GrepQuery;
//! # use stead_core::{AccessScope, Identity, Mount, Vfs, VfsPath, Workspace};
//! # use std::sync::Arc;
//! # use stead_core::testkit::ModelStore;
//! # let store = Arc::new(ModelStore::default());
//! # let notes = Workspace::new(VfsPath::parse("/notes")?, AccessScope::ReadWrite, Mount::new(store));
//! # let vfs = Vfs::builder(Identity::agent("coder")).workspace(notes).build()?;
//!
//! vfs.write("/notes/plan.md", "1. read\n2. write\n")?;
//! let query = GrepQuery { include: vec!["*.md".into()], ..GrepQuery::new("^2") };
//! let found = vfs.grep(&query, "/notes")?;
//! assert_eq!(found.files[0].path.as_str(), "/notes/plan.md");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};

use parking_lot::Mutex;

use crate::glob::PathGlobs;
use crate::hide::HiddenNames;
use crate::monitor::CallMonitor;
use crate::name::escape_text;
use crate::store::{Attr, StoreError, StorePath};

/// The longest line of a hit that is returned, in bytes; the rest is cut.
pub const MAX_HIT_LINE: usize = 2_000;
/// The longest line that is searched in one piece when content comes from a reader. Together with the searcher's own
/// buffers it has to fit into the searcher's heap limit.
const MAX_SEARCHED_LINE: usize = 4 << 20;
/// The most lines returned for one file.
const MAX_LINES_PER_FILE: usize = 10_000;

/// Which entries a walk visits.
#[derive(Debug, Clone)]
pub struct WalkOptions {
    /// How deep to go: 1 for the directory's own entries.
    pub depth: usize,
    /// Subtrees to skip, as paths relative to the start of the walk.
    pub skip: Vec<StorePath>,
    /// More subtrees to skip: the ones that are hidden.
    pub hide: Option<HiddenNames>,
    /// Visits only entries that match; all if `None`. Directories are entered whether or not they match.
    pub include: Option<PathGlobs>,
    /// When to give up, with [`crate::StoreError::Unavailable`].
    pub deadline: Option<Instant>,
    /// Where the Store adds the paths that it couldn't read.
    pub unreadable: UnreadablePaths,
    /// Whether the Store also adds the paths that it hides from every caller, such as another stead's state. A copy
    /// sets this, because the copy would lack them. The Store's own state isn't added.
    pub report_hidden: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        let unreadable = UnreadablePaths::default();
        WalkOptions {
            depth: usize::MAX,
            skip: Vec::new(),
            hide: None,
            include: None,
            deadline: None,
            unreadable,
            report_hidden: false,
        }
    }
}

impl WalkOptions {
    /// Whether the subtree at `path` is skipped. No directory on the way to it is.
    pub fn skips(&self, path: &StorePath) -> bool {
        self.skip.contains(path)
            || self.hide.as_ref().is_some_and(|hidden| hidden.hides_entry(path.as_bytes()))
    }

    /// Whether the entry at `path` is visited.
    pub fn matches(&self, path: &StorePath) -> bool {
        self.include.as_ref().is_none_or(|globs| globs.matches_bytes(path.as_bytes()))
    }

    /// The suffix that the name of every visited entry has. Most names are ruled out by it.
    pub fn name_suffix(&self) -> &[u8] {
        self.include.as_ref().map_or(&[], PathGlobs::name_suffix)
    }
}

/// The paths that a walk or a search couldn't read, and why.
///
/// One directory that the host denies doesn't end a search of all the others, and the caller learns what is missing
/// from the result. A path that vanished during the walk isn't added. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct UnreadablePaths(Arc<Mutex<Vec<(StorePath, StoreError)>>>);

impl UnreadablePaths {
    /// The most paths that are remembered; later ones are dropped.
    pub const MAX: usize = 1_000;

    /// Adds a path that the Store couldn't read, relative to the start of the walk or search.
    pub fn add(&self, path: StorePath, cause: StoreError) {
        let mut paths = self.0.lock();
        if paths.len() < UnreadablePaths::MAX {
            paths.push((path, cause));
        }
    }

    /// Removes and returns the paths so far, in no particular order.
    pub fn take(&self) -> Vec<(StorePath, StoreError)> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// How upper and lower case are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CaseSensitivity {
    /// Case matters.
    #[default]
    Sensitive,
    /// Case is ignored.
    Insensitive,
    /// Case matters only if the pattern has an upper-case letter.
    Smart,
}

/// How the pattern is interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PatternSyntax {
    /// As a regular expression.
    #[default]
    Regex,
    /// As literal text.
    Literal,
}

/// What a search returns for each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrepOutput {
    /// Only that it matches.
    Files,
    /// The lines that match.
    #[default]
    Lines,
    /// How many lines match.
    Counts,
}

/// A content search as the caller requests it.
#[derive(Debug, Clone)]
pub struct GrepQuery {
    /// The pattern.
    pub pattern: String,
    /// How the pattern is interpreted.
    pub syntax: PatternSyntax,
    /// How upper and lower case are compared.
    pub case: CaseSensitivity,
    /// Lines shown before each hit.
    pub before: usize,
    /// Lines shown after each hit.
    pub after: usize,
    /// Only files that match one of these globs; a glob without `/` matches the name in any directory.
    pub include: Vec<String>,
    /// Skips files that match one of these globs.
    pub exclude: Vec<String>,
    /// The most hits (lines, or files).
    pub max_results: usize,
    /// What to return for each file.
    pub output: GrepOutput,
    /// How long the benchmarks may take.
    pub time_limit: Duration,
}

impl GrepQuery {
    /// A query for this pattern, with defaults for the rest.
    pub fn new(pattern: impl Into<String>) -> Self {
        GrepQuery {
            pattern: pattern.into(),
            syntax: PatternSyntax::Regex,
            case: CaseSensitivity::Sensitive,
            before: 0,
            after: 0,
            include: Vec::new(),
            exclude: Vec::new(),
            max_results: 1_000,
            output: GrepOutput::Lines,
            time_limit: Duration::from_secs(10),
        }
    }
}

/// The pattern can't be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern isn't valid: {0}")]
pub struct PatternError(String);

impl PatternError {
    /// Takes over the regex engine's message line by line, with control characters escaped.
    fn from_engine_message(message: &str) -> Self {
        let lines: Vec<_> = message.lines().map(|line| escape_text(line).to_string()).collect();
        PatternError(lines.join("\n"))
    }
}

/// A compiled content search, which Stores run.
#[derive(Debug, Clone)]
pub struct Grep {
    matcher: RegexMatcher,
    /// Searches only files whose path, relative to the start of the search, matches.
    pub include: Option<PathGlobs>,
    /// Skips files whose path matches.
    pub exclude: PathGlobs,
    /// Subtrees to skip, as paths relative to the start of the search.
    pub skip: Vec<StorePath>,
    /// More subtrees to skip: the ones that are hidden.
    pub hide: Option<HiddenNames>,
    /// When to stop.
    pub deadline: Instant,
    /// The caller's monitor, which may ask the search to stop earlier.
    pub monitor: Option<Arc<dyn CallMonitor>>,
    /// Where the Store adds the paths that it couldn't read.
    pub unreadable: UnreadablePaths,
    before: usize,
    after: usize,
    output: GrepOutput,
    lines_per_file: usize,
}

impl Grep {
    /// Compiles a query. The globs match paths relative to the start of the search.
    pub fn new(
        query: &GrepQuery,
        include: Option<PathGlobs>,
        exclude: PathGlobs,
    ) -> Result<Self, PatternError> {
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(query.syntax == PatternSyntax::Literal)
            .case_insensitive(query.case == CaseSensitivity::Insensitive)
            .case_smart(query.case == CaseSensitivity::Smart)
            .multi_line(true)
            .line_terminator(Some(b'\n'))
            .ban_byte(Some(b'\0'))
            .size_limit(16 << 20)
            .dfa_size_limit(16 << 20)
            .build(&query.pattern)
            .map_err(|error| PatternError::from_engine_message(&error.to_string()))?;
        // One line more than wanted shows that there are more.
        let lines_per_file = query.max_results.min(MAX_LINES_PER_FILE) + 1;
        Ok(Grep {
            matcher,
            include,
            exclude,
            skip: Vec::new(),
            hide: None,
            deadline: Instant::now() + query.time_limit,
            monitor: None,
            unreadable: UnreadablePaths::default(),
            before: query.before,
            after: query.after,
            output: query.output,
            lines_per_file,
        })
    }

    /// Whether the file at `path`, relative to the start of the search, should be searched.
    pub fn matches(&self, path: &StorePath) -> bool {
        let path = path.as_bytes();
        self.include.as_ref().is_none_or(|globs| globs.matches_bytes(path))
            && !self.exclude.matches_bytes(path)
    }

    /// Whether the subtree at `path` is skipped. No directory on the way to it is.
    pub fn skips(&self, path: &StorePath) -> bool {
        self.skip.contains(path)
            || self.hide.as_ref().is_some_and(|hidden| hidden.hides_entry(path.as_bytes()))
    }

    /// Whether the deadline has passed or the monitor wants the search to stop.
    pub fn should_stop(&self) -> bool {
        Instant::now() >= self.deadline
            || self.monitor.as_ref().is_some_and(|monitor| monitor.stop_reason().is_some())
    }

    /// A searcher for one thread.
    pub fn searcher(&self) -> GrepSearcher<'_> {
        let searcher = SearcherBuilder::new()
            .line_number(self.output == GrepOutput::Lines)
            .before_context(self.before)
            .after_context(self.after)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(16 << 20))
            .build();
        GrepSearcher { grep: self, searcher }
    }
}

/// Runs one [`Grep`] over several contents, one after another.
#[derive(Debug)]
pub struct GrepSearcher<'a> {
    grep: &'a Grep,
    searcher: Searcher,
}

impl GrepSearcher<'_> {
    /// Searches a content in memory. `None` if it has no hit or is binary.
    pub fn search(&mut self, content: &[u8]) -> Option<Hits> {
        // One scan over the whole buffer rules out most files before any line is split off.
        if self.grep.matcher.shortest_match(content).ok()?.is_none() || memchr::memchr(0, content).is_some() {
            return None;
        }
        let (hits, cuts) = (Hits::default(), CutOffsets::default());
        let mut collector = HitCollector { grep: self.grep, hits, binary: false, cuts };
        self.searcher.search_slice(&self.grep.matcher, content, &mut collector).ok()?;
        collector.finish()
    }

    /// Searches a content from a reader. A line that is too long for memory is searched in pieces, so neither the line
    /// nor the text after it is missed.
    pub fn search_reader(&mut self, content: impl Read) -> Option<Hits> {
        let cuts = CutOffsets::default();
        let content =
            LongLineSplitter { grep: self.grep, content, line_length: 0, offset: 0, cuts: Rc::clone(&cuts) };
        let mut collector = HitCollector { grep: self.grep, hits: Hits::default(), binary: false, cuts };
        // Hits before a failure still count: a file that vanishes halfway doesn't fail the search.
        let _ = self.searcher.search_reader(&self.grep.matcher, content, &mut collector);
        collector.finish()
    }
}

/// The hits in one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Hits {
    /// The number of matching lines, up to where the search of this file stopped.
    pub count: usize,
    /// The lines, if the query asks for lines.
    pub lines: Vec<HitLine>,
}

/// The hits in one file, with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHits {
    /// The path relative to the start of the search; empty if the search started at the file itself.
    pub path: StorePath,
    /// The file's attributes, if the Store had them without extra work.
    pub attr: Option<Attr>,
    /// The hits.
    pub hits: Hits,
}

/// One line of a search result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HitLine {
    /// The line number, from 1.
    pub number: u64,
    /// The text without the line ending, cut at [`MAX_HIT_LINE`] bytes; invalid UTF-8 is replaced.
    pub text: String,
    /// Whether the line matches, or is context of a match.
    pub role: LineRole,
}

/// Why a line is in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRole {
    /// The line matches.
    Match,
    /// The line is before or after a matching line.
    Context,
}

/// Where long lines were split, as byte offsets in the stream that the searcher reads.
type CutOffsets = Rc<RefCell<Vec<u64>>>;

/// A reader that splits lines longer than [`MAX_SEARCHED_LINE`], and ends when the search should stop.
struct LongLineSplitter<'a, R> {
    grep: &'a Grep,
    content: R,
    line_length: usize,
    offset: u64,
    cuts: CutOffsets,
}

impl<R: Read> Read for LongLineSplitter<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if buffer.is_empty() || self.grep.should_stop() {
            return Ok(0);
        }
        if self.line_length == MAX_SEARCHED_LINE {
            self.cuts.borrow_mut().push(self.offset);
            (buffer[0], self.line_length) = (b'\n', 0);
            self.offset += 1;
            return Ok(1);
        }
        let max_length = buffer.len().min(MAX_SEARCHED_LINE - self.line_length);
        let count = self.content.read(&mut buffer[..max_length])?;
        self.line_length = match memchr::memrchr(b'\n', &buffer[..count]) {
            Some(end) => count - end - 1,
            None => self.line_length + count,
        };
        self.offset += count as u64;
        Ok(count)
    }
}

struct HitCollector<'a> {
    grep: &'a Grep,
    hits: Hits,
    binary: bool,
    cuts: CutOffsets,
}

impl HitCollector<'_> {
    /// The line number in the file: the searcher also counted the splits of long lines.
    fn line_number_in_file(&self, searcher_number: Option<u64>, offset: u64) -> Option<u64> {
        let cuts = self.cuts.borrow().iter().filter(|cut| **cut < offset).count();
        searcher_number.map(|number| number - cuts as u64)
    }

    fn push(&mut self, number: Option<u64>, bytes: &[u8], role: LineRole) {
        if self.grep.output == GrepOutput::Lines {
            let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let text = String::from_utf8_lossy(&line[..line.len().min(MAX_HIT_LINE)]).into_owned();
            self.hits.lines.push(HitLine { number: number.unwrap_or(0), text, role });
        }
    }

    fn finish(self) -> Option<Hits> {
        (self.hits.count > 0 && !self.binary).then_some(self.hits)
    }
}

impl Sink for HitCollector<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, hit: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.hits.count += 1;
        let number = self.line_number_in_file(hit.line_number(), hit.absolute_byte_offset());
        self.push(number, hit.bytes(), LineRole::Match);
        Ok(match self.grep.output {
            GrepOutput::Files => false,
            GrepOutput::Lines => self.hits.count < self.grep.lines_per_file,
            GrepOutput::Counts => true,
        })
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if *context.kind() != SinkContextKind::Other {
            let number = self.line_number_in_file(context.line_number(), context.absolute_byte_offset());
            self.push(number, context.bytes(), LineRole::Context);
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.binary = true;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grep(configure: impl FnOnce(&mut GrepQuery)) -> Grep {
        let mut query = GrepQuery::new("needle");
        configure(&mut query);
        Grep::new(&query, None, PathGlobs::none()).unwrap()
    }

    #[test]
    fn lines_come_with_numbers_and_context() {
        let grep = grep(|query| (query.before, query.after) = (1, 1));
        let hits = grep.searcher().search(b"a\nb\r\nneedle 1\r\nc\nd\n").unwrap();
        let lines: Vec<_> = hits.lines.iter().map(|line| (line.number, &*line.text, line.role)).collect();
        let (hit, context) = (LineRole::Match, LineRole::Context);
        assert_eq!(lines, [(2, "b", context), (3, "needle 1", hit), (4, "c", context)]);
        assert_eq!(hits.count, 1);
    }

    #[test]
    fn binary_content_is_skipped() {
        assert_eq!(grep(|_| ()).searcher().search(b"needle\0"), None);
        assert_eq!(grep(|_| ()).searcher().search_reader(&b"needle\n\0"[..]), None);
    }

    #[test]
    fn a_reader_and_a_slice_give_the_same_hits() {
        let text = "x needle\nneedle\nno\n".repeat(50_000);
        let grep = grep(|query| query.output = GrepOutput::Counts);
        let expected = grep.searcher().search(text.as_bytes()).unwrap();
        assert_eq!(expected.count, 100_000);
        assert_eq!(grep.searcher().search_reader(text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_line_too_long_for_memory_hides_no_hit() {
        let long = "x".repeat(40 << 20);
        let text = format!("needle\n{long}needle{long}\nneedle\n");
        let hits = grep(|_| ()).searcher().search_reader(text.as_bytes()).unwrap();
        let numbers: Vec<_> = hits.lines.iter().map(|line| line.number).collect();
        assert_eq!((numbers, hits.count), (vec![1, 2, 3], 3));
    }

    #[test]
    fn literal_patterns_and_case_options_are_respected() {
        let literal = grep(|query| (query.pattern, query.syntax) = ("a.b".into(), PatternSyntax::Literal));
        assert_eq!(literal.searcher().search(b"axb"), None);
        assert!(literal.searcher().search(b"a.b").is_some());
        let smart = grep(|query| query.case = CaseSensitivity::Smart);
        assert!(smart.searcher().search(b"NEEDLE").is_some());
        assert_eq!(grep(|_| ()).searcher().search(b"NEEDLE"), None);
    }

    #[test]
    fn a_pathological_pattern_is_refused_or_quick() {
        let query = GrepQuery::new("(((a{1000}){1000}){1000})");
        assert!(Grep::new(&query, None, PathGlobs::none()).is_err());
        let with_escape = GrepQuery::new("(\u{1b}[2J");
        let message = Grep::new(&with_escape, None, PathGlobs::none()).unwrap_err().to_string();
        assert!(!message.contains('\u{1b}') && message.contains("unclosed"), "{message}");
        let slow_elsewhere = grep(|query| query.pattern = "(a*)*b".into());
        assert_eq!(slow_elsewhere.searcher().search("a".repeat(100_000).as_bytes()), None);
    }
}
