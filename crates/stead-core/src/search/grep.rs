//! A compiled content search, and how it runs over one content after another.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};

use crate::glob::PathGlobs;
use crate::hide::HiddenNames;
use crate::monitor::CallMonitor;
use crate::search::long_line_splitter::{CutOffsets, LongLineSplitter};
use crate::search::utf_8_reader::Utf8Reader;
use crate::search::{
    CaseSensitivity, DirectoryRules, GrepOutput, GrepQuery, IgnoreRules, LeftOutReason, Multiline,
    PatternError, PatternSyntax, UnreadablePaths,
};
use crate::store::{Attr, NodeKind, StoreError, StorePath};
use crate::text_encoding::TextEncoding;

/// The longest line of a hit that is returned, in bytes; the rest is cut.
pub const MAX_HIT_LINE: usize = 2_000;
/// The largest file in which a pattern can span lines, in bytes: such a file is searched in memory.
const MAX_MULTILINE_FILE: u64 = 16 << 20;
/// The byte order mark of UTF-8. It is no part of the first line.
const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";
/// The most lines returned for one file.
const MAX_LINES_PER_FILE: usize = 10_000;

/// A compiled content search, which Stores run.
#[derive(Debug, Clone)]
pub struct Grep {
    matcher: RegexMatcher,
    /// Searches only files whose path, relative to the start of the search, matches.
    pub include: Option<PathGlobs>,
    /// Skips files whose path matches.
    pub exclude: PathGlobs,
    /// Searches only files of these types.
    pub file_types: Option<PathGlobs>,
    /// Leaves out what these rules ignore, unless it is the start of the search.
    pub ignore: Option<IgnoreRules>,
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
    multiline: bool,
    invert: bool,
    spans: bool,
    lines_per_file: usize,
}

impl Grep {
    /// Compiles a query. The globs match paths relative to the start of the search.
    pub fn new(
        query: &GrepQuery,
        include: Option<PathGlobs>,
        exclude: PathGlobs,
    ) -> Result<Self, PatternError> {
        let multiline = query.multiline != Multiline::Off;
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(query.syntax == PatternSyntax::Literal)
            .case_insensitive(query.case == CaseSensitivity::Insensitive)
            .case_smart(query.case == CaseSensitivity::Smart)
            .word(query.words)
            .multi_line(true)
            .dot_matches_new_line(query.multiline == Multiline::DotAll)
            .line_terminator((!multiline).then_some(b'\n'))
            .ban_byte(Some(b'\0'))
            .size_limit(16 << 20)
            .dfa_size_limit(16 << 20)
            .build_many(&query.patterns)
            .map_err(|error| PatternError::from_engine_message(&error.to_string()))?;
        // One line more than wanted shows that there are more.
        let lines_per_file = query.max_results.min(MAX_LINES_PER_FILE) + 1;
        Ok(Grep {
            matcher,
            include,
            exclude,
            file_types: None,
            ignore: None,
            skip: Vec::new(),
            hide: None,
            deadline: Instant::now() + query.time_limit,
            monitor: None,
            unreadable: UnreadablePaths::default(),
            before: query.before,
            after: query.after,
            output: query.output,
            multiline,
            invert: query.invert,
            spans: query.spans && !query.invert,
            lines_per_file,
        })
    }

    /// Whether the file at `path`, relative to the start of the search, should be searched.
    pub fn matches(&self, path: &StorePath) -> bool {
        let path = path.as_bytes();
        self.include.as_ref().is_none_or(|globs| globs.matches_bytes(path))
            && self.file_types.as_ref().is_none_or(|globs| globs.matches_bytes(path))
            && !self.exclude.matches_bytes(path)
    }

    /// Whether the subtree at `path` is skipped. No directory on the way to it is.
    pub fn skips(&self, path: &StorePath) -> bool {
        self.skip.contains(path)
            || self.hide.as_ref().is_some_and(|hidden| hidden.hides_entry(path.as_bytes()))
    }

    /// Whether the entry at `path` is left out by the rules of its directory. If the search would have read or entered
    /// it, that is noted.
    pub fn leaves_out(&self, rules: &DirectoryRules, path: &StorePath, kind: NodeKind) -> bool {
        let Some(ignore) = &self.ignore else { return false };
        ignore.leaves_out(rules, (path, kind), || self.would_visit(path, kind))
    }

    fn would_visit(&self, path: &StorePath, kind: NodeKind) -> bool {
        kind == NodeKind::Directory || kind == NodeKind::File && self.matches(path)
    }

    /// Notes that an entry was left out, if the search would have read or entered it.
    pub fn note_left_out(&self, path: &StorePath, kind: NodeKind, reason: LeftOutReason) {
        if let Some(ignore) = &self.ignore
            && self.would_visit(path, kind)
        {
            ignore.note(reason);
        }
    }

    /// Whether a file of this size can be searched. One that can't is added to `unreadable`.
    pub fn accepts_size(&self, path: &StorePath, size: u64) -> bool {
        let is_accepted = !self.multiline || size <= MAX_MULTILINE_FILE;
        if !is_accepted {
            let error = StoreError::TooLarge { size, limit: MAX_MULTILINE_FILE };
            self.unreadable.add(path.clone(), error);
        }
        is_accepted
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
            .multi_line(self.multiline)
            .invert_match(self.invert)
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
    /// Searches the text of a content in memory, whatever its encoding. `None` if it has no hit or is binary.
    pub fn search(&mut self, content: &[u8]) -> Option<Hits> {
        match TextEncoding::of_content(content) {
            TextEncoding::Utf8 => self.search_utf_8(content.strip_prefix(UTF_8_MARK).unwrap_or(content)),
            encoding => self.search_utf_8(encoding.decode(content).as_bytes()),
        }
    }

    fn search_utf_8(&mut self, content: &[u8]) -> Option<Hits> {
        // One scan over the whole buffer rules out most files before any line is split off.
        let has_hit = || Some(self.grep.invert || self.grep.matcher.shortest_match(content).ok()?.is_some());
        if !has_hit()? || memchr::memchr(0, content).is_some() {
            return None;
        }
        let (hits, cuts) = (Hits::default(), CutOffsets::default());
        let mut collector = HitCollector { grep: self.grep, hits, binary: false, cuts };
        self.searcher.search_slice(&self.grep.matcher, content, &mut collector).ok()?;
        collector.finish()
    }

    /// Searches the text of a content from a reader, whatever its encoding. A line that is too long for memory is searched in pieces, so neither the line
    /// nor the text after it is missed.
    pub fn search_reader(&mut self, content: impl Read) -> Option<Hits> {
        if self.grep.multiline {
            let mut whole = Vec::new();
            content.take(MAX_MULTILINE_FILE).read_to_end(&mut whole).ok()?;
            return self.search(&whole);
        }
        let cuts = CutOffsets::default();
        let content = LongLineSplitter::new(Utf8Reader::new(content), self.grep, &cuts);
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
    /// Where the matches are in `text`, in bytes, if the query asks for that.
    pub spans: Vec<Range<usize>>,
}

/// Why a line is in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRole {
    /// The line matches.
    Match,
    /// The line is before or after a matching line.
    Context,
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

    fn push(&mut self, number: Option<u64>, bytes: &[u8], role: LineRole, spans: &[Range<usize>]) {
        if self.grep.output == GrepOutput::Lines {
            let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let text = String::from_utf8_lossy(&line[..line.len().min(MAX_HIT_LINE)]).into_owned();
            let in_text = |span: &Range<usize>| {
                let span = span.start..span.end.min(text.len());
                text.get(span.clone()).is_some_and(|part| !part.is_empty()).then_some(span)
            };
            let spans = spans.iter().filter_map(in_text).collect();
            self.hits.lines.push(HitLine { number: number.unwrap_or(0), text, role, spans });
        }
    }

    /// Where the pattern matches in the text of a hit, if the query asks for that.
    fn find_spans(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        if self.grep.spans {
            // The matcher's error type has no values.
            let _ = self.grep.matcher.find_iter(text, |found| {
                spans.push(found.start()..found.end());
                true
            });
        }
        spans
    }

    fn finish(self) -> Option<Hits> {
        (self.hits.count > 0 && !self.binary).then_some(self.hits)
    }
}

impl Sink for HitCollector<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, hit: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let mut number = self.line_number_in_file(hit.line_number(), hit.absolute_byte_offset());
        let spans = self.find_spans(hit.bytes());
        let mut begin = 0;
        // One line, unless the pattern spans lines.
        for line in hit.lines() {
            self.hits.count += 1;
            let text_end = begin + line.strip_suffix(b"\n").unwrap_or(line).len();
            let in_line = |span: &Range<usize>| {
                span.start.clamp(begin, text_end) - begin..span.end.clamp(begin, text_end) - begin
            };
            self.push(number, line, LineRole::Match, &spans.iter().map(in_line).collect::<Vec<_>>());
            number = number.map(|number| number + 1);
            begin += line.len();
        }
        Ok(match self.grep.output {
            GrepOutput::Files => false,
            GrepOutput::Lines => self.hits.count < self.grep.lines_per_file,
            GrepOutput::Counts => true,
        })
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if *context.kind() != SinkContextKind::Other {
            let number = self.line_number_in_file(context.line_number(), context.absolute_byte_offset());
            self.push(number, context.bytes(), LineRole::Context, &[]);
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
    fn text_in_every_encoding_is_found() {
        let text = "\u{feff}one\r\ntwo caf\u{e9} needle\r\n";
        for (encoding, text) in [
            (TextEncoding::Utf8, text),
            (TextEncoding::Windows1252, &text[3..]),
            (TextEncoding::Utf16Le, text),
            (TextEncoding::Utf16Be, text),
            (TextEncoding::Utf16Le, &text[3..]),
        ] {
            let content = encoding.encode(text).unwrap();
            for pattern in ["needle", "caf\u{e9}", r"^two caf. needle\r$", "(?i:CAF\u{c9})"] {
                let grep = grep(|query| (query.patterns, query.spans) = (vec![pattern.into()], true));
                let hits = grep.searcher().search(&content).unwrap();
                assert_eq!(texts(&hits), [(2, "two caf\u{e9} needle")], "{pattern} in {encoding}");
                assert_eq!(grep.searcher().search_reader(&*content), Some(hits));
            }
            assert_eq!(
                grep(|query| query.patterns = vec!["^one".into()]).searcher().search(&content).unwrap().count,
                1
            );
        }
        let with_nul = TextEncoding::Utf16Le.encode("\u{feff}needle\0needle\n").unwrap();
        assert_eq!(grep(|_| ()).searcher().search(&with_nul), None);
        assert_eq!(grep(|_| ()).searcher().search_reader(&*with_nul), None);
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
        let literal =
            grep(|query| (query.patterns, query.syntax) = (vec!["a.b".into()], PatternSyntax::Literal));
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
        let slow_elsewhere = grep(|query| query.patterns = vec!["(a*)*b".into()]);
        assert_eq!(slow_elsewhere.searcher().search("a".repeat(100_000).as_bytes()), None);
    }

    fn texts(hits: &Hits) -> Vec<(u64, &str)> {
        hits.lines.iter().map(|line| (line.number, &*line.text)).collect()
    }

    #[test]
    fn a_multiline_pattern_finds_matches_that_span_lines() {
        let pattern = |multiline, pattern: &str| {
            grep(|query| (query.multiline, query.patterns) = (multiline, vec![pattern.into()]))
        };
        let text = b"fn main(\n    a: u8,\n) {\n}\n";
        assert_eq!(pattern(Multiline::Off, r"main\(.*a").searcher().search(text), None);
        assert_eq!(pattern(Multiline::On, r"main\(.*a").searcher().search(text), None);
        let hits = pattern(Multiline::On, r"main\(\s*a").searcher().search(text).unwrap();
        assert_eq!(texts(&hits), [(1, "fn main("), (2, "    a: u8,")]);
        assert_eq!(hits.count, 2);
        let dot_all = pattern(Multiline::DotAll, r"main\(.*\) \{");
        assert_eq!(texts(&dot_all.searcher().search(text).unwrap()).len(), 3);
        assert_eq!(dot_all.searcher().search_reader(&text[..]), dot_all.searcher().search(text));
    }

    #[test]
    fn a_file_too_large_for_a_multiline_search_is_reported() {
        let multiline = grep(|query| query.multiline = Multiline::On);
        let path = StorePath::from_checked("large");
        assert!(
            multiline.accepts_size(&path, MAX_MULTILINE_FILE) && grep(|_| ()).accepts_size(&path, u64::MAX)
        );
        assert!(!multiline.accepts_size(&path, MAX_MULTILINE_FILE + 1));
        assert!(
            matches!(&*multiline.unreadable.take(), [(found, StoreError::TooLarge { .. })] if *found == path)
        );
    }

    #[test]
    fn several_patterns_whole_words_and_inverted_matches_are_found() {
        let text = b"needle\nneedles\nhay\n";
        let several = grep(|query| query.patterns = vec!["needles".into(), "ha.".into()]);
        assert_eq!(texts(&several.searcher().search(text).unwrap()), [(2, "needles"), (3, "hay")]);
        let words = grep(|query| query.words = true);
        assert_eq!(texts(&words.searcher().search(text).unwrap()), [(1, "needle")]);
        let invert = grep(|query| query.invert = true);
        assert_eq!(texts(&invert.searcher().search(text).unwrap()), [(3, "hay")]);
        assert_eq!(texts(&invert.searcher().search(b"no\n").unwrap()), [(1, "no")]);
    }

    #[test]
    fn a_line_says_where_its_matches_are_if_asked() {
        let spans = |configure: fn(&mut GrepQuery), text: &[u8]| {
            let grep = grep(|query| {
                query.spans = true;
                configure(query);
            });
            let hits = grep.searcher().search(text).unwrap();
            let pairs =
                |line: HitLine| line.spans.iter().map(|span| (span.start, span.end)).collect::<Vec<_>>();
            hits.lines.into_iter().map(pairs).collect::<Vec<_>>()
        };
        assert_eq!(spans(|_| (), "é needle needle\r\n".as_bytes()), [[(3, 9), (10, 16)]]);
        let across = |query: &mut GrepQuery| {
            (query.multiline, query.patterns) = (Multiline::On, vec![r"one\ntwo".into()]);
        };
        assert_eq!(spans(across, b"x one\ntwo y\n"), [[(2, 5)], [(0, 3)]]);
        let long_line = format!("{}needle", "x".repeat(MAX_HIT_LINE));
        assert_eq!(spans(|_| (), long_line.as_bytes()), [[(0, 0); 0]]);
        assert!(grep(|_| ()).searcher().search(b"needle").unwrap().lines[0].spans.is_empty());
    }
}
