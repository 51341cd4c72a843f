//! What ignore files leave out of a walk or a search: `.gitignore`, `.ignore` and `.git/info/exclude`.
//!
//! Rules are found on the way down. A Store says which names a directory has and reads the ignore files among them; what
//! they leave out is decided here. So no directory is read twice, and one that is left out is never entered.
//!
//! The precedence is ripgrep's: `.ignore` before `.gitignore` before `.git/info/exclude`, and of each the deepest file that
//! says something about a path. In a git repository, git's rules from above the repository don't apply. No repository is
//! needed for a `.gitignore` to count, since few Stores hold one.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::hide::HiddenNames;
use crate::search::UnreadablePaths;
use crate::store::{NodeKind, StoreError, StorePath, StoreResult};

/// The largest ignore file that is applied, in bytes. Compiling a file costs far more than reading it.
pub const MAX_IGNORE_FILE: u64 = 128 << 10;

const GITIGNORE: &[u8] = b".gitignore";
const IGNORE: &[u8] = b".ignore";
const GIT: &[u8] = b".git";
const EXCLUDE: &[u8] = b".git/info/exclude";

/// Whether ignore files are respected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IgnoreFiles {
    /// What they ignore is left out, and so is `.git`.
    #[default]
    Respected,
    /// Everything is shown.
    Disregarded,
}

/// Why an entry is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutReason {
    /// An ignore file says so.
    Ignored,
    /// It is called `.git`.
    Git,
}

/// What a walk or a search has left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LeftOut {
    /// Something that an ignore file names.
    pub ignored: bool,
    /// A `.git`.
    pub git: bool,
}

impl LeftOut {
    /// Whether nothing was left out.
    pub fn is_empty(self) -> bool {
        self == LeftOut::default()
    }

    /// What either of two walks has left out.
    pub fn or(self, other: LeftOut) -> LeftOut {
        LeftOut { ignored: self.ignored || other.ignored, git: self.git || other.git }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.ignored, self.git) {
            (true, true) => "ignored files and .git",
            (true, false) => "ignored files",
            (false, true) => ".git",
            (false, false) => "nothing",
        })
    }
}

/// The rules for one walk or search. Paths are relative to its start, unless something else is said.
///
/// Clones share what was left out.
#[derive(Debug, Clone, Default)]
pub struct IgnoreRules {
    /// The path from the Workspace's root to the start.
    start: StorePath,
    /// The rules from above the start.
    above: DirectoryRules,
    /// The path that the caller names: neither it nor what leads to it is left out.
    named: StorePath,
    /// The paths from the Workspace's root that other Workspaces cover. An ignore file there isn't this Workspace's.
    covered: Vec<StorePath>,
    /// Names that are hidden from the caller, below the Workspace's root.
    hide: Option<HiddenNames>,
    unreadable: UnreadablePaths,
    left_out: Arc<LeftOutFlags>,
}

#[derive(Debug, Default)]
struct LeftOutFlags {
    ignored: AtomicBool,
    git: AtomicBool,
}

/// The rules that hold in one directory: its own, and those from above. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct DirectoryRules(Option<Arc<RuleLevel>>);

/// The ignore files of one directory.
#[derive(Debug)]
struct RuleLevel {
    /// The length of the directory's path from the Workspace's root, with the `/` after it.
    path_length: usize,
    ignore: Gitignore,
    gitignore: Gitignore,
    exclude: Gitignore,
    is_repository: bool,
    above: DirectoryRules,
}

impl IgnoreRules {
    /// The rules for a walk from the root of a Workspace, `covered` being the paths below it that other Workspaces cover.
    pub fn new(covered: Vec<StorePath>) -> Self {
        IgnoreRules { covered, ..IgnoreRules::default() }
    }

    /// The same rules for a path that the caller names outright: neither it nor the directories that lead to it are left
    /// out. If the rules say otherwise, those that do so don't apply below it.
    pub fn naming(self, named: StorePath) -> Self {
        IgnoreRules { named, ..self }
    }

    /// The rules for a walk from `start`, a path from the Workspace's root. `above` are the rules in its parent.
    pub fn starting_at(self, start: StorePath, above: &DirectoryRules) -> Self {
        let is_left_out = self.find_reason(above, &start, NodeKind::Directory).is_some();
        let above = if is_left_out { DirectoryRules::default() } else { above.clone() };
        IgnoreRules { start, above, ..self }
    }

    /// The rules from above the start.
    pub fn above(&self) -> &DirectoryRules {
        &self.above
    }

    /// The names in a directory that decide about its rules.
    pub const NAMES: [&[u8]; 3] = [IGNORE, GITIGNORE, GIT];

    /// Whether a directory's ignore files have this name. A walk that loads only some names has to load these too.
    pub fn is_ignore_file(name: &[u8]) -> bool {
        matches!(name, GITIGNORE | IGNORE)
    }

    /// The rules in a directory, given those in its parent, its entries, and a way to read a file of at most
    /// [`MAX_IGNORE_FILE`] bytes.
    pub fn enter<'n>(
        &self,
        above: &DirectoryRules,
        directory: &StorePath,
        entries: impl IntoIterator<Item = (&'n [u8], NodeKind)>,
        mut read: impl FnMut(&StorePath) -> StoreResult<Vec<u8>>,
    ) -> DirectoryRules {
        let is_way_to_named = !directory.is_empty() && self.named.is_at_or_below(directory);
        let above = match is_way_to_named && self.find_reason(above, directory, NodeKind::Directory).is_some()
        {
            true => DirectoryRules::default(),
            false => above.clone(),
        };
        let (mut has_ignore, mut has_gitignore, mut git) = (false, false, None);
        for (name, kind) in entries {
            match name {
                IGNORE => has_ignore = kind == NodeKind::File,
                GITIGNORE => has_gitignore = kind == NodeKind::File,
                GIT => git = Some(kind),
                _ => {}
            }
        }
        if !has_ignore && !has_gitignore && git.is_none() {
            return above;
        }
        let mut matcher = |exists: bool, name: &[u8]| {
            let path = directory.child(name);
            match exists && !self.is_covered(&path) {
                true => self.compile(&path, read(&path)),
                false => Gitignore::empty(),
            }
        };
        let directory_in_workspace = self.path_in_workspace(directory.as_bytes());
        DirectoryRules(Some(Arc::new(RuleLevel {
            path_length: directory_in_workspace.len() + usize::from(!directory_in_workspace.is_empty()),
            ignore: matcher(has_ignore, IGNORE),
            gitignore: matcher(has_gitignore, GITIGNORE),
            exclude: matcher(git == Some(NodeKind::Directory), EXCLUDE),
            is_repository: git.is_some(),
            above,
        })))
    }

    /// Whether the entry at `path` is left out by the rules of its directory. That is noted if the caller would have
    /// visited it otherwise.
    pub(super) fn leaves_out(
        &self,
        rules: &DirectoryRules,
        (path, kind): (&StorePath, NodeKind),
        would_visit: impl FnOnce() -> bool,
    ) -> bool {
        let reason = self.decide(rules, path, kind);
        if let Some(reason) = reason
            && would_visit()
        {
            self.note(reason);
        }
        reason.is_some()
    }

    /// Why the entry at `path` is left out; `None` if it isn't. `rules` are those of its directory.
    pub fn decide(&self, rules: &DirectoryRules, path: &StorePath, kind: NodeKind) -> Option<LeftOutReason> {
        let is_way_to_named = !self.named.is_empty() && self.named.is_at_or_below(path);
        if is_way_to_named { None } else { self.find_reason(rules, path, kind) }
    }

    /// Why the rules leave out an entry, named by the caller or not.
    fn find_reason(&self, rules: &DirectoryRules, path: &StorePath, kind: NodeKind) -> Option<LeftOutReason> {
        let (_, name) = path.parent_and_name()?;
        if name == GIT {
            return Some(LeftOutReason::Git);
        }
        rules.0.as_ref()?;
        let path = self.path_in_workspace(path.as_bytes());
        rules.ignores(&path, kind == NodeKind::Directory).then_some(LeftOutReason::Ignored)
    }

    /// Notes that something the caller asked for was left out.
    pub fn note(&self, reason: LeftOutReason) {
        match reason {
            LeftOutReason::Ignored => self.left_out.ignored.store(true, Ordering::Relaxed),
            LeftOutReason::Git => self.left_out.git.store(true, Ordering::Relaxed),
        }
    }

    /// What was left out so far.
    pub fn left_out(&self) -> LeftOut {
        LeftOut {
            ignored: self.left_out.ignored.load(Ordering::Relaxed),
            git: self.left_out.git.load(Ordering::Relaxed),
        }
    }

    /// The ignore files that could not be read.
    pub fn unreadable(&self) -> &UnreadablePaths {
        &self.unreadable
    }

    fn path_in_workspace<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        match (self.start.is_empty(), path.is_empty()) {
            (true, _) => Cow::Borrowed(path),
            (false, true) => Cow::Owned(self.start.as_bytes().to_vec()),
            (false, false) => Cow::Owned([self.start.as_bytes(), b"/", path].concat()),
        }
    }

    fn is_covered(&self, path: &StorePath) -> bool {
        let path = self.start.join(path);
        self.covered.iter().any(|covered| path.is_at_or_below(covered))
            || self.hide.as_ref().is_some_and(|hidden| hidden.hides(path.as_bytes()))
    }

    /// Doesn't read ignore files that are hidden. The names are those below the Workspace's root.
    pub fn hiding(self, hide: Option<HiddenNames>) -> Self {
        IgnoreRules { hide, ..self }
    }

    /// The matcher for an ignore file's content. One that can't be read has no rules.
    fn compile(&self, path: &StorePath, content: StoreResult<Vec<u8>>) -> Gitignore {
        match content.and_then(|content| compile_lines(&content)) {
            Ok(matcher) => matcher,
            // It isn't there, it isn't a file, or git wouldn't follow it.
            Err(
                StoreError::NotFound
                | StoreError::NotADirectory
                | StoreError::IsADirectory
                | StoreError::Special(_)
                | StoreError::Link(_),
            ) => Gitignore::empty(),
            Err(error) => {
                self.unreadable.add(path.clone(), error);
                Gitignore::empty()
            }
        }
    }
}

impl DirectoryRules {
    /// Whether an entry with this name may be left out. `false` is certain.
    pub fn may_leave_out(&self, name: &[u8]) -> bool {
        self.0.is_some() || name == GIT
    }

    /// Whether the rules ignore a path from the Workspace's root.
    fn ignores(&self, path: &[u8], is_directory: bool) -> bool {
        let (mut ignore, mut gitignore, mut exclude) = (None, None, None);
        let mut is_in_repository = true;
        let levels = std::iter::successors(self.0.as_deref(), |level| level.above.0.as_deref());
        for level in levels {
            let relative_path = String::from_utf8_lossy(&path[level.path_length..]);
            let verdict = |matcher: &Gitignore| match matcher.matched(&*relative_path, is_directory) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            };
            ignore = ignore.or_else(|| verdict(&level.ignore));
            if is_in_repository {
                gitignore = gitignore.or_else(|| verdict(&level.gitignore));
                exclude = exclude.or_else(|| verdict(&level.exclude));
                is_in_repository = !level.is_repository;
            }
        }
        ignore.or(gitignore).or(exclude).unwrap_or(false)
    }
}

/// Compiles the lines of an ignore file. A line that isn't a valid pattern matches nothing, as in git.
fn compile_lines(content: &[u8]) -> StoreResult<Gitignore> {
    let size = content.len() as u64;
    if size > MAX_IGNORE_FILE {
        return Err(StoreError::TooLarge { size, limit: MAX_IGNORE_FILE });
    }
    let text = String::from_utf8_lossy(content);
    // The paths that are matched are relative already; with this root, nothing is stripped from them.
    let mut builder = GitignoreBuilder::new(".");
    builder.allow_unclosed_class(false);
    for line in text.strip_prefix('\u{feff}').unwrap_or(&text).lines() {
        let _ = builder.add_line(None, &to_pattern(line));
    }
    let too_complex = |_| StoreError::Invalid("its patterns are too complex together".into());
    builder.build().map_err(too_complex)
}

/// A line of an ignore file as the matcher takes it. Unlike the matcher, git takes braces literally and cuts nothing but
/// spaces from the end of a line.
fn to_pattern(line: &str) -> String {
    let mut pattern = String::with_capacity(line.len());
    let (mut is_in_class, mut is_escaped, mut end) = (false, false, 0);
    for character in line.chars() {
        let is_special = !is_escaped;
        is_escaped = is_special && character == '\\';
        match character {
            '[' if is_special => is_in_class = true,
            ']' if is_special => is_in_class = false,
            '{' | '}' if is_special && !is_in_class => pattern.push('\\'),
            _ => {}
        }
        pattern.push(character);
        if character != ' ' || !is_special {
            end = pattern.len();
        }
    }
    pattern.truncate(end);
    match pattern.chars().next_back() {
        Some(last) if last != ' ' && last.is_whitespace() => {
            pattern.pop();
            format!("{pattern}[{last}]")
        }
        _ => pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules in a directory with these ignore files.
    fn enter(
        rules: &IgnoreRules,
        above: &DirectoryRules,
        directory: &str,
        files: &[(&str, &str)],
    ) -> DirectoryRules {
        let names = files.iter().map(|(name, _)| match name.split_once('/') {
            Some((directory, _)) => (directory.as_bytes(), NodeKind::Directory),
            None => (name.as_bytes(), NodeKind::File),
        });
        let directory = StorePath::from_checked(directory);
        rules.enter(above, &directory, names, |path| {
            let file = files.iter().find(|(name, _)| directory.child(name.as_bytes()) == *path);
            file.map(|(_, content)| content.as_bytes().to_vec()).ok_or(StoreError::NotFound)
        })
    }

    fn ignores(files: &[(&str, &str)], path: &str, kind: NodeKind) -> bool {
        let rules = IgnoreRules::new(Vec::new());
        let top = enter(&rules, &DirectoryRules::default(), "", files);
        rules.decide(&top, &StorePath::from_checked(path), kind) == Some(LeftOutReason::Ignored)
    }

    #[test]
    fn patterns_mean_what_they_mean_in_git() {
        for (pattern, path, expected) in [
            ("*.o", "deep/a.o", true),
            ("/a.o", "deep/a.o", false),
            ("deep/*.o", "deep/a.o", true),
            ("**/x/*.o", "deep/x/a.o", true),
            ("{a,b}", "a", false),
            ("{a,b}", "{a,b}", true),
            ("[{]", "{", true),
            ("a[", "a[", false),
            ("\u{feff}bom", "bom", true),
            ("crlf\r\nother", "crlf", true),
            (r"\#hash", "#hash", true),
            ("# comment", "# comment", false),
            ("a  ", "a", true),
            (r"a\  ", "a ", true),
            ("a\t", "a", false),
            ("a\t", "a\t", true),
            ("a*\n!ab", "ab", false),
            ("!ab\na*", "ab", true),
        ] {
            assert_eq!(
                ignores(&[(".gitignore", pattern)], path, NodeKind::File),
                expected,
                "{pattern} {path}"
            );
        }
        assert!(ignores(&[(".gitignore", "out/")], "out", NodeKind::Directory));
        assert!(!ignores(&[(".gitignore", "out/")], "out", NodeKind::File));
        assert!(!ignores(&[(".gitignore", "out/")], "out", NodeKind::Symlink));
    }

    #[test]
    fn an_ignore_file_counts_before_a_gitignore_and_that_before_an_exclude() {
        let ignored = |files: &[_]| ignores(files, "a", NodeKind::File);
        assert!(ignored(&[(".git/info/exclude", "a")]));
        assert!(!ignored(&[(".gitignore", "!a"), (".git/info/exclude", "a")]));
        assert!(ignored(&[(".ignore", "a"), (".gitignore", "!a")]));
    }

    #[test]
    fn a_deeper_file_counts_before_one_above() {
        let rules = IgnoreRules::new(Vec::new());
        let top = enter(&rules, &DirectoryRules::default(), "", &[(".gitignore", "*.log\n/top")]);
        let deep = enter(&rules, &top, "deep", &[(".gitignore", "!keep.log\n/own")]);
        let ignores =
            |path: &str| rules.decide(&deep, &StorePath::from_checked(path), NodeKind::File).is_some();
        assert!(ignores("deep/a.log") && ignores("deep/own"));
        assert!(!ignores("deep/keep.log") && !ignores("deep/top") && !ignores("deep/x/own"));
    }

    #[test]
    fn the_rules_above_a_repository_end_at_it_unless_they_are_not_git_s() {
        let rules = IgnoreRules::new(Vec::new());
        let above = [(".gitignore", "*.log"), (".ignore", "*.tmp")];
        let top = enter(&rules, &DirectoryRules::default(), "", &above);
        let repository = enter(&rules, &top, "repo", &[(".git/HEAD", "")]);
        let ignores = |path: &str| rules.decide(&repository, &StorePath::from_checked(path), NodeKind::File);
        assert_eq!(ignores("repo/a.log"), None);
        assert_eq!(ignores("repo/a.tmp"), Some(LeftOutReason::Ignored));
        assert_eq!(ignores("repo/.git"), Some(LeftOutReason::Git));
    }

    #[test]
    fn a_path_that_is_named_is_shown_with_its_content() {
        let rules = IgnoreRules::new(Vec::new()).naming(StorePath::from_checked("out/debug"));
        let top = enter(&rules, &DirectoryRules::default(), "", &[(".gitignore", "out/\n*.log")]);
        let decide = |rules_in: &DirectoryRules, path: &str, kind| {
            rules.decide(rules_in, &StorePath::from_checked(path), kind)
        };
        assert_eq!(decide(&top, "out", NodeKind::Directory), None);
        let out = enter(&rules, &top, "out", &[]);
        assert_eq!(decide(&out, "out/debug", NodeKind::Directory), None);
        let debug = enter(&rules, &out, "out/debug", &[(".gitignore", "*.d")]);
        assert_eq!(decide(&debug, "out/debug/a.log", NodeKind::File), None);
        assert_eq!(decide(&debug, "out/debug/a.d", NodeKind::File), Some(LeftOutReason::Ignored));
    }

    #[test]
    fn rules_from_above_the_start_apply_to_paths_below_it() {
        let above = |content| {
            let rules = IgnoreRules::new(Vec::new());
            let top = enter(&rules, &DirectoryRules::default(), "", &[(".gitignore", content)]);
            rules.starting_at(StorePath::from_checked("src"), &top)
        };
        let ignores = |rules: &IgnoreRules, path: &str| {
            rules.decide(rules.above(), &StorePath::from_checked(path), NodeKind::File).is_some()
        };
        let rules = above("/src/gen\n/gen2");
        assert!(ignores(&rules, "gen") && !ignores(&rules, "gen2"));
        // The start is named by the caller, so a rule that ignores it doesn't apply.
        assert!(!ignores(&above("src\n*.log"), "a.log"));
    }

    #[test]
    fn an_ignore_file_that_another_workspace_covers_is_not_read() {
        let rules = IgnoreRules::new([".gitignore", "deep/.git"].map(StorePath::from_checked).into());
        let names = [(GITIGNORE, NodeKind::File), (GIT, NodeKind::Directory)];
        let read = |path: &StorePath| -> StoreResult<Vec<u8>> { panic!("{path} was read") };
        let top = DirectoryRules::default();
        let rules_in = rules.enter(&top, &StorePath::empty(), [names[0]], read);
        assert_eq!(rules.decide(&rules_in, &StorePath::from_checked("a"), NodeKind::File), None);
        rules.enter(&top, &StorePath::from_checked("deep"), [names[1]], read);
    }

    #[test]
    fn an_ignore_file_that_is_too_large_is_reported_and_has_no_rules() {
        let rules = IgnoreRules::new(Vec::new());
        let content = "a\n".repeat(MAX_IGNORE_FILE as usize);
        let top = enter(&rules, &DirectoryRules::default(), "", &[(".gitignore", &content)]);
        assert_eq!(rules.decide(&top, &StorePath::from_checked("a"), NodeKind::File), None);
        let unreadable = rules.unreadable().take();
        assert!(matches!(&*unreadable, [(_, StoreError::TooLarge { .. })]), "{unreadable:?}");
    }

    #[test]
    fn names_that_are_not_utf_8_are_matched_too() {
        let rules = IgnoreRules::new(Vec::new());
        let top = enter(&rules, &DirectoryRules::default(), "", &[(".gitignore", "*.o")]);
        let directory = StorePath::from_checked(&b"d\xff\xff"[..]);
        let below = rules.enter(&top, &directory, [(GITIGNORE, NodeKind::File)], |_| Ok(b"/x".to_vec()));
        for (name, expected) in [(&b"\xfe.o"[..], true), (b"\xfe.c", false), (b"x", true)] {
            let reason = rules.decide(&below, &directory.child(name), NodeKind::File);
            assert_eq!(reason.is_some(), expected, "{name:?}");
        }
    }
}
