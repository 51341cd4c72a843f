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

mod file_types;
mod grep;
mod ignore_rules;
mod long_line_splitter;
mod utf_8_reader;

pub use file_types::{UnknownFileType, file_type_globs};
pub use grep::{FileHits, Grep, GrepSearcher, HitLine, Hits, LineRole, MAX_HIT_LINE};
pub use ignore_rules::{DirectoryRules, IgnoreFiles, IgnoreRules, LeftOut, LeftOutReason, MAX_IGNORE_FILE};

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::glob::PathGlobs;
use crate::hide::HiddenNames;
use crate::name::escape_text;
use crate::store::{NodeKind, StoreError, StorePath};

/// Which entries a walk visits.
#[derive(Debug, Clone)]
pub struct WalkOptions {
    /// How deep to go: 1 for the directory's own entries.
    pub depth: usize,
    /// Subtrees to skip, as paths relative to the start of the walk.
    pub skip: Vec<StorePath>,
    /// More subtrees to skip: the ones that are hidden.
    pub hide: Option<HiddenNames>,
    /// Visits only entries that match; all if `None`. Directories are entered whether or not they match, unless nothing
    /// below them can.
    pub include: Option<PathGlobs>,
    /// Leaves out what these rules ignore, with everything below it.
    pub ignore: Option<IgnoreRules>,
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
            ignore: None,
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

    /// Whether an entry below the directory at `path` may be visited.
    pub fn enters(&self, path: &StorePath) -> bool {
        path.depth() < self.depth
            && self.include.as_ref().is_none_or(|globs| globs.may_match_below(path.as_bytes()))
    }

    /// Whether the entry at `path` is left out by the rules of its directory. If the walk would have visited it or
    /// entered it, that is noted.
    pub fn leaves_out(&self, rules: &DirectoryRules, path: &StorePath, kind: NodeKind) -> bool {
        let Some(ignore) = &self.ignore else { return false };
        ignore.leaves_out(rules, (path, kind), || self.would_visit(path, kind))
    }

    fn would_visit(&self, path: &StorePath, kind: NodeKind) -> bool {
        self.matches(path) || kind == NodeKind::Directory && self.enters(path)
    }

    /// Notes that an entry was left out, if the walk would have visited it or entered it.
    pub fn note_left_out(&self, path: &StorePath, kind: NodeKind, reason: LeftOutReason) {
        if let Some(ignore) = &self.ignore
            && self.would_visit(path, kind)
        {
            ignore.note(reason);
        }
    }

    /// Whether a name has to be loaded: it may be visited, or it may be an ignore file.
    pub fn loads_name(&self, name: &[u8]) -> bool {
        name.ends_with(self.name_suffix()) || (self.ignore.is_some() && IgnoreRules::is_ignore_file(name))
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

/// Whether a match may span several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Multiline {
    /// A match lies within one line.
    #[default]
    Off,
    /// A match may span lines; `.` matches no line ending.
    On,
    /// A match may span lines, and `.` matches line endings too.
    DotAll,
}

/// A content search as the caller requests it.
#[derive(Debug, Clone)]
pub struct GrepQuery {
    /// The patterns; a line matches if one of them does.
    pub patterns: Vec<String>,
    /// How the patterns are interpreted.
    pub syntax: PatternSyntax,
    /// Whether a match may span several lines.
    pub multiline: Multiline,
    /// A match begins and ends at the edge of a word.
    pub words: bool,
    /// Finds the lines that don't match.
    pub invert: bool,
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
    /// Only files of one of these types, such as `rust`; see [`file_type_globs`].
    pub file_types: Vec<String>,
    /// Whether ignore files are respected. The file or directory that the search starts at is always searched.
    pub ignore_files: IgnoreFiles,
    /// The most hits (lines, or files).
    pub max_results: usize,
    /// What to return for each file.
    pub output: GrepOutput,
    /// Whether each line says where its matches are.
    pub spans: bool,
    /// How long the search may take.
    pub time_limit: Duration,
}

impl GrepQuery {
    /// A query for this pattern, with defaults for the rest.
    pub fn new(pattern: impl Into<String>) -> Self {
        GrepQuery {
            patterns: vec![pattern.into()],
            syntax: PatternSyntax::Regex,
            multiline: Multiline::Off,
            words: false,
            invert: false,
            case: CaseSensitivity::Sensitive,
            before: 0,
            after: 0,
            include: Vec::new(),
            exclude: Vec::new(),
            file_types: Vec::new(),
            ignore_files: IgnoreFiles::Respected,
            max_results: 1_000,
            output: GrepOutput::Lines,
            spans: false,
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
