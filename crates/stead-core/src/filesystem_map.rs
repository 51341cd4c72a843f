//! The Filesystem Map: the text about its Workspaces that goes into an agent's system prompt.
//!
//! The same Workspaces always give the same text, so that prompt caches stay valid. Prefixes and scopes come first,
//! because some hosts cut the text. It contains nothing about the host, and nothing that the agent has no access to.
//!
//! ```
//! use stead_core::filesystem_map::filesystem_map;
//! use stead_core::{AccessScope, Identity, Mount, Toolbox, Vfs, VfsPath, Workspace};
//! # use std::sync::Arc;
//! # use stead_core::testkit::ModelStore;
//! # let store = Arc::new(ModelStore::default());
//!
//! let docs = Workspace::new(VfsPath::parse("/docs")?, AccessScope::ReadOnly, Mount::new(store));
//! let vfs = Vfs::builder(Identity::agent("coder")).workspace(docs).build()?;
//! assert!(filesystem_map(&Toolbox::new(vfs)).contains("/docs"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt::Write;

use crate::name::escape_text;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::QuotaLimits;
use crate::tools::{OfferedWhen, Toolbox};
use crate::vfs::Vfs;
use crate::workspace::{ApprovalPolicy, Workspace};

/// The largest size of the map, in bytes.
pub const MAX_MAP_BYTES: usize = 8 << 10;
/// The prefixes and scopes are within this many bytes: some hosts cut off everything after 2,000 characters.
const ESSENTIAL_BYTES: usize = 1_500;
/// The longest description of one Workspace in the map, in characters.
const MAX_DESCRIPTION: usize = 300;
/// How many of its protected globs the map names for one Workspace.
const MAX_NAMED_GLOBS: usize = 2;
/// The bytes reserved for the line that counts the entries that don't fit.
const REMAINDER_LINE_BYTES: usize = 64;
/// How many Workspaces one sentence names, and how long the sentence may be in bytes.
const MAX_NAMED_WORKSPACES: usize = 12;
const MAX_SENTENCE_BYTES: usize = 800;

/// The map of the Workspaces that these tools work in. If there is a State, one line names it.
pub fn filesystem_map(tools: &Toolbox) -> String {
    let map = workspaces_map(tools);
    let state_tools = tools.offered().filter(|tool| tool.offered == OfferedWhen::WithState);
    let state_tools: Vec<_> = state_tools.map(|tool| format!("`{}`", tool.name)).collect();
    if state_tools.is_empty() {
        return map;
    }
    let state = format!(
        "\nYou also have a State: keys with JSON values that are yours alone ({}).\n",
        state_tools.join(", ")
    );
    map + &state
}

fn workspaces_map(tools: &Toolbox) -> String {
    let workspaces: Vec<_> = tools.vfs().workspaces().collect();
    if workspaces.is_empty() {
        return "# Filesystem Map\n\nYou have no Workspaces, so you have no file access.\n".to_owned();
    }
    let discovery = match tools.discovers_folders() {
        true => {
            "Call `list_folders` first: it discovers folders and their files, with the ids that other tools take. "
        }
        false => "",
    };
    let mut text = format!(
        "# Filesystem Map\n\n{discovery}Your files are in these Workspaces. Paths are absolute; a path outside them is denied. \
         The longest prefix decides.\n\n",
    );
    let lines: Vec<_> = workspaces
        .iter()
        .map(|workspace| workspace_line(workspace, enclosing_prefix(workspace, tools.vfs())))
        .collect();
    let full_lines = workspaces.iter().zip(&lines).map(|(workspace, line)| {
        let details = short_description(workspace).into_iter().chain(rules(workspace));
        [line.clone()].into_iter().chain(details).collect::<Vec<_>>().join(". ")
    });
    let full_lines: Vec<_> = full_lines.collect();
    let max_bytes = ESSENTIAL_BYTES - REMAINDER_LINE_BYTES;
    let total_bytes: usize = full_lines.iter().map(|line| line.len() + 1).sum();
    if text.len() + total_bytes <= max_bytes {
        push_lines(&mut text, max_bytes, full_lines.into_iter());
        return text;
    }
    // All prefixes and scopes come first, then the rules and the descriptions.
    push_lines(&mut text, max_bytes, lines.into_iter());
    let rules = rule_lines(&workspaces);
    let descriptions: Vec<_> = workspaces
        .iter()
        .filter_map(|workspace| Some(format!("- {}: {}", workspace.prefix(), short_description(workspace)?)))
        .collect();
    for (title, lines) in [("Their rules", rules), ("What they are for", descriptions)] {
        if !lines.is_empty() {
            let _ = write!(text, "\n{title}:\n\n");
            push_lines(&mut text, MAX_MAP_BYTES - REMAINDER_LINE_BYTES, lines.into_iter());
        }
    }
    text
}

/// One line for all Workspaces that have the same rules.
fn rule_lines(workspaces: &[&Workspace]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for workspace in workspaces {
        let rules = rules(workspace).join(". ");
        match groups.iter_mut().find(|(known, _)| *known == rules) {
            Some((_, prefixes)) => prefixes.push(workspace.prefix().as_str()),
            None => groups.push((rules, vec![workspace.prefix().as_str()])),
        }
    }
    let line = |(rules, prefixes): (String, Vec<&str>)| {
        let named = &prefixes[..prefixes.len().min(MAX_NAMED_WORKSPACES)];
        match prefixes.len() - named.len() {
            _ if prefixes.len() == workspaces.len() => format!("- all: {rules}"),
            0 => format!("- {}: {rules}", named.join(", ")),
            more => format!("- {} and {more} more: {rules}", named.join(", ")),
        }
    };
    groups.into_iter().filter(|(rules, _)| !rules.is_empty()).map(line).collect()
}

/// Adds lines until `max_bytes` bytes are used, then one line that counts the rest.
fn push_lines(text: &mut String, max_bytes: usize, lines: impl ExactSizeIterator<Item = String>) {
    let mut remaining = lines.len();
    for line in lines {
        if text.len() + line.len() >= max_bytes {
            let _ = writeln!(text, "- and {remaining} more; list / to see all Workspaces");
            return;
        }
        let _ = writeln!(text, "{line}");
        remaining -= 1;
    }
}

/// The Workspaces in one sentence, for hosts that show a model only its tools.
pub(crate) fn workspaces_sentence(vfs: &Vfs) -> String {
    let workspaces: Vec<_> = vfs.workspaces().collect();
    let mut names = Vec::new();
    let mut length = 0;
    for workspace in workspaces.iter().take(MAX_NAMED_WORKSPACES) {
        let name = format!("{} {}", workspace.prefix(), workspace.scope().short_name());
        length += name.len() + 2;
        if length > MAX_SENTENCE_BYTES {
            break;
        }
        names.push(name);
    }
    let more = match workspaces.len() - names.len() {
        0 => String::new(),
        more if names.is_empty() => format!("{more}; list / to see them"),
        more => format!(" and {more} more"),
    };
    format!("Workspaces: {}{more}.", names.join(", "))
}

/// The prefix of the innermost Workspace around this one; `None` if there is none.
fn enclosing_prefix<'a>(inner: &Workspace, vfs: &'a Vfs) -> Option<&'a VfsPath> {
    let mut around = inner.prefix().ancestors().skip(1);
    around.find_map(|path| {
        let outer = vfs.router().route(&path)?.workspace;
        outer.barrier().is_none().then(|| outer.prefix())
    })
}

fn workspace_line(workspace: &Workspace, enclosing: Option<&VfsPath>) -> String {
    let (prefix, scope) = (workspace.prefix(), workspace.scope());
    let mut line = format!("- {prefix}: {} ({})", scope.name(), scope.short_name());
    if let Some(enclosing) = enclosing {
        let _ = write!(line, ", overrides {enclosing}");
    }
    line.push_str(match workspace.approval_policy() {
        ApprovalPolicy::Never => "",
        ApprovalPolicy::Changes => ", a person is asked before changes",
        ApprovalPolicy::Everything => ", a person is asked first",
    });
    line
}

/// What is hidden and protected in the Workspace, and how much it may hold.
fn rules(workspace: &Workspace) -> Vec<String> {
    let mut rules = Vec::new();
    if !workspace.hide().is_empty() {
        rules.push("Some names are hidden".to_owned());
    }
    if !workspace.scope().allows(Access::Write) {
        return rules;
    }
    if workspace.managed().is_some() {
        rules.push(
            "A new file directly in it is put into category/day, and the answer names its path".to_owned(),
        );
    }
    let protected = workspace.protect().patterns();
    if !protected.is_empty() {
        let named: Vec<_> = protected.iter().take(MAX_NAMED_GLOBS).map(|glob| short_text(glob)).collect();
        let more = match protected.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        rules.push(format!("Read-only: {}{more}", named.join(", ")));
    }
    let QuotaLimits { bytes, files, file_bytes } = workspace.quota();
    let limits = [
        bytes.map(byte_amount),
        files.map(|files| format!("{files} files")),
        file_bytes.map(|bytes| format!("{} per file", byte_amount(bytes))),
    ];
    let limits: Vec<_> = limits.into_iter().flatten().collect();
    if !limits.is_empty() {
        rules.push(format!("At most {}", limits.join(", ")));
    }
    rules
}

/// A number of bytes in the largest unit that it is a multiple of.
fn byte_amount(bytes: u64) -> String {
    let units = [
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1_000, "kB"),
    ];
    match units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

/// The Workspace's description on one line, cut to [`MAX_DESCRIPTION`] characters.
fn short_description(workspace: &Workspace) -> Option<String> {
    workspace.description().map(short_text)
}

fn short_text(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let short: String = words.join(" ").chars().take(MAX_DESCRIPTION).collect();
    escape_text(&short).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::identity::Identity;
    use crate::scope::AccessScope;
    use crate::testkit::PanickingStore;
    use crate::workspace::Mount;

    fn toolbox(workspaces: Vec<Workspace>) -> Toolbox {
        let builder = Vfs::builder(Identity::agent("a"));
        Toolbox::new(
            workspaces
                .into_iter()
                .fold(builder, |builder, workspace| builder.workspace(workspace))
                .build()
                .unwrap(),
        )
    }

    fn workspace(prefix: &str, scope: AccessScope) -> Workspace {
        Workspace::new(VfsPath::parse(prefix).unwrap(), scope, Mount::new(Arc::new(PanickingStore)))
    }

    #[test]
    fn a_workspace_overrides_the_innermost_one_around_it() {
        let prefixes = ["/", "/a", "/a/b/c", "/ab"];
        let map =
            filesystem_map(&toolbox(prefixes.map(|prefix| workspace(prefix, AccessScope::ReadOnly)).into()));
        for line in [
            "- /: READ_ONLY (RO).",
            "- /a: READ_ONLY (RO), overrides /.",
            "- /a/b/c: READ_ONLY (RO), overrides /a.",
            "- /ab: READ_ONLY (RO), overrides /.",
        ] {
            assert!(map.contains(line), "{line}: {map}");
        }
    }

    #[test]
    fn each_workspace_is_listed_with_its_scope_its_purpose_and_its_rules() {
        let map = filesystem_map(&toolbox(vec![
            workspace("/home", AccessScope::ReadOnly).with_description("the house\nrules"),
            workspace("/home/src", AccessScope::ReadWrite).with_approval_policy(ApprovalPolicy::Changes),
            workspace("/out", AccessScope::WriteOnly)
                .with_hide::<&str>([])
                .and_then(|out| out.with_protect(["*.lock"]))
                .unwrap()
                .with_quota(QuotaLimits { bytes: Some(20 << 20), files: Some(7), file_bytes: Some(1_001) }),
        ]));
        assert_eq!(
            map,
            "# Filesystem Map\n\
             \n\
             Your files are in these Workspaces. Paths are absolute; a path outside them is denied. The longest prefix \
             decides.\n\
             \n\
             - /home: READ_ONLY (RO). the house rules. Some names are hidden\n\
             - /home/src: READ_WRITE (RW), overrides /home, a person is asked before changes. Some names are hidden. \
             Read-only: .git/hooks/**, .git/config and 8 more\n\
             - /out: WRITE_ONLY (WO). Read-only: *.lock. At most 20 MiB, 7 files, 1001 bytes per file\n"
        );
    }

    #[test]
    fn without_workspaces_there_is_no_file_access() {
        assert!(
            filesystem_map(&toolbox(vec![]))
                .ends_with("You have no Workspaces, so you have no file access.\n")
        );
    }

    #[test]
    fn workspaces_that_do_not_fit_are_counted() {
        let workspaces = (0..1_000).map(|n| {
            workspace(&format!("/w{n:04}"), AccessScope::ReadOnly).with_description("x".repeat(1_000))
        });
        let map = filesystem_map(&toolbox(workspaces.collect()));
        assert!(map.len() <= MAX_MAP_BYTES, "{}", map.len());
        let listed = map.lines().filter(|line| line.contains(": READ_ONLY (RO)")).count();
        assert!(map.contains(&format!("- and {} more; list /", 1_000 - listed)), "{map}");
        let described = map.lines().filter(|line| line.ends_with("xxx")).count();
        assert!(
            described > 10
                && map
                    .ends_with(&format!("- and {} more; list / to see all Workspaces\n", 1_000 - described))
        );
    }

    #[test]
    fn prefixes_and_scopes_come_before_the_part_that_hosts_cut_off() {
        let workspaces = (0..20).map(|n| {
            workspace(&format!("/w{n:04}"), AccessScope::ReadWrite)
                .with_description("the house rules ".repeat(30))
        });
        let map = filesystem_map(&toolbox(workspaces.collect()));
        let essentials = map.get(..1_500).unwrap();
        for n in 0..20 {
            assert!(essentials.contains(&format!("- /w{n:04}: READ_WRITE (RW)\n")), "{essentials}");
            assert!(map.contains(&format!("- /w{n:04}: the house rules")), "{map}");
        }
        assert!(map.contains("\n- all: Some names are hidden. Read-only: "), "{map}");
    }

    #[test]
    fn workspaces_in_a_sentence_are_named_up_to_twelve() {
        let sentence = |count: usize| {
            let nth_workspace = |n| workspace(&format!("/w{n}"), AccessScope::ALL[n % 3]);
            workspaces_sentence(toolbox((0..count).map(nth_workspace).collect()).vfs())
        };
        let letters = AccessScope::ALL.map(AccessScope::short_name);
        assert_eq!(sentence(2), format!("Workspaces: /w0 {}, /w1 {}.", letters[0], letters[1]));
        assert!(!sentence(12).contains("more"));
        assert_eq!(sentence(14).matches("/w").count(), 12);
        assert!(sentence(14).ends_with(" and 2 more."), "{}", sentence(14));
    }
}
