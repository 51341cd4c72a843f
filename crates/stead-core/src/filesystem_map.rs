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
use crate::tools::Toolbox;
use crate::vfs::Vfs;
use crate::workspace::{ApprovalPolicy, Workspace};

/// The largest size of the map, in bytes.
pub const MAX_MAP_BYTES: usize = 8 << 10;
/// The prefixes and scopes are within this many bytes: some hosts cut off everything after 2,000 characters.
const ESSENTIAL_BYTES: usize = 1_500;
/// The longest description of one Workspace in the map, in characters.
const MAX_DESCRIPTION: usize = 300;
/// The bytes reserved for the line that counts the entries that don't fit.
const REMAINDER_LINE_BYTES: usize = 64;
/// How many Workspaces one sentence names, and how long the sentence may be in bytes.
const MAX_NAMED_WORKSPACES: usize = 12;
const MAX_SENTENCE_BYTES: usize = 800;

/// The map of the Workspaces that these tools work in.
pub fn filesystem_map(tools: &Toolbox) -> String {
    let workspaces: Vec<_> = tools.vfs().workspaces().collect();
    if workspaces.is_empty() {
        return "# Filesystem Map\n\nYou have no Workspaces, so you have no file access.\n".to_owned();
    }
    let mut text = String::from(
        "# Filesystem Map\n\nYour files are in these Workspaces. Paths are absolute; a path outside them is denied. \
         The longest prefix decides.\n\n",
    );
    let lines: Vec<_> = workspaces
        .iter()
        .map(|workspace| {
            (
                workspace_line(workspace, enclosing_prefix(workspace, &workspaces)),
                short_description(workspace),
            )
        })
        .collect();
    let whole = |(line, about): &(String, Option<String>)| match about {
        Some(about) => format!("{line}. {about}"),
        None => line.clone(),
    };
    let room = ESSENTIAL_BYTES - REMAINDER_LINE_BYTES;
    let together: usize = lines.iter().map(|parts| whole(parts).len() + 1).sum();
    if text.len() + together <= room {
        push_lines(&mut text, room, lines.iter().map(whole));
        return text;
    }
    // All prefixes and scopes come first, then the descriptions.
    push_lines(&mut text, room, lines.iter().map(|(line, _)| line.clone()));
    let about = workspaces.iter().zip(&lines);
    let about: Vec<_> = about
        .filter_map(|(workspace, (_, about))| Some(format!("- {}: {}", workspace.prefix(), about.as_ref()?)))
        .collect();
    if !about.is_empty() {
        text.push_str("\nWhat they are for:\n\n");
        push_lines(&mut text, MAX_MAP_BYTES - REMAINDER_LINE_BYTES, about.into_iter());
    }
    text
}

/// Adds lines until `room` bytes are used, then one line that counts the rest.
fn push_lines(text: &mut String, room: usize, lines: impl ExactSizeIterator<Item = String>) {
    let mut left = lines.len();
    for line in lines {
        if text.len() + line.len() >= room {
            let _ = writeln!(text, "- and {left} more; list / to see all Workspaces");
            return;
        }
        let _ = writeln!(text, "{line}");
        left -= 1;
    }
}

/// The Workspaces in one sentence, for hosts that show a model only its tools.
pub(crate) fn workspaces_sentence(vfs: &Vfs) -> String {
    let workspaces: Vec<_> = vfs.workspaces().collect();
    let mut named = Vec::new();
    let mut length = 0;
    for workspace in workspaces.iter().take(MAX_NAMED_WORKSPACES) {
        let name = format!("{} {}", workspace.prefix(), workspace.scope().short_name());
        length += name.len() + 2;
        if length > MAX_SENTENCE_BYTES {
            break;
        }
        named.push(name);
    }
    let more = match workspaces.len() - named.len() {
        0 => String::new(),
        more if named.is_empty() => format!("{more}; list / to see them"),
        more => format!(" and {more} more"),
    };
    format!("Workspaces: {}{more}.", named.join(", "))
}

/// The prefix of the innermost Workspace around this one; `None` if there is none.
fn enclosing_prefix<'a>(inner: &Workspace, workspaces: &[&'a Workspace]) -> Option<&'a VfsPath> {
    let around = workspaces.iter().map(|workspace| workspace.prefix());
    let around =
        around.filter(|prefix| *prefix != inner.prefix() && inner.prefix().strip_prefix(prefix).is_some());
    around.max_by_key(|prefix| prefix.as_str().len())
}

fn workspace_line(workspace: &Workspace, around: Option<&VfsPath>) -> String {
    let (prefix, scope) = (workspace.prefix(), workspace.scope());
    let mut line = format!("- {prefix}: {} ({})", scope.name(), scope.short_name());
    if let Some(around) = around {
        let _ = write!(line, ", overrides {around}");
    }
    line.push_str(match workspace.approval_policy() {
        ApprovalPolicy::Never => "",
        ApprovalPolicy::Changes => ", a person is asked before changes",
        ApprovalPolicy::Everything => ", a person is asked first",
    });
    line
}

/// The Workspace's description on one line, cut to [`MAX_DESCRIPTION`] characters.
fn short_description(workspace: &Workspace) -> Option<String> {
    let words: Vec<_> = workspace.description()?.split_whitespace().collect();
    let short: String = words.join(" ").chars().take(MAX_DESCRIPTION).collect();
    Some(escape_text(&short).to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::identity::Identity;
    use crate::scope::AccessScope;
    use crate::testkit::PanickingStore;
    use crate::workspace::Mount;

    fn tools(workspaces: Vec<Workspace>) -> Toolbox {
        let builder = Vfs::builder(Identity::agent("a"));
        Toolbox::new(
            workspaces.into_iter().fold(builder, |builder, one| builder.workspace(one)).build().unwrap(),
        )
    }

    fn workspace(prefix: &str, scope: AccessScope) -> Workspace {
        Workspace::new(VfsPath::parse(prefix).unwrap(), scope, Mount::new(Arc::new(PanickingStore)))
    }

    #[test]
    fn each_workspace_is_told_with_its_scope_and_its_purpose() {
        let map = filesystem_map(&tools(vec![
            workspace("/home", AccessScope::ReadOnly).with_description("the house\nrules"),
            workspace("/home/src", AccessScope::ReadWrite).with_approval_policy(ApprovalPolicy::Changes),
            workspace("/out", AccessScope::WriteOnly),
        ]));
        assert_eq!(
            map,
            "# Filesystem Map\n\
             \n\
             Your files are in these Workspaces. Paths are absolute; a path outside them is denied. The longest prefix \
             decides.\n\
             \n\
             - /home: READ_ONLY (RO). the house rules\n\
             - /home/src: READ_WRITE (RW), overrides /home, a person is asked before changes\n\
             - /out: WRITE_ONLY (WO)\n"
        );
    }

    #[test]
    fn without_workspaces_there_is_no_file_access() {
        assert!(
            filesystem_map(&tools(vec![])).ends_with("You have no Workspaces, so you have no file access.\n")
        );
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let many = (0..1_000).map(|n| {
            workspace(&format!("/w{n:04}"), AccessScope::ReadOnly).with_description("x".repeat(1_000))
        });
        let map = filesystem_map(&tools(many.collect()));
        assert!(map.len() <= MAX_MAP_BYTES, "{}", map.len());
        let told = map.lines().filter(|line| line.contains(": READ_ONLY (RO)")).count();
        assert!(map.contains(&format!("- and {} more; list /", 1_000 - told)), "{map}");
        let about = map.lines().filter(|line| line.ends_with("xxx")).count();
        assert!(
            about > 10
                && map.ends_with(&format!("- and {} more; list / to see all Workspaces\n", 1_000 - about))
        );
    }

    #[test]
    fn prefixes_and_scopes_come_before_what_hosts_cut_off() {
        let some = (0..20).map(|n| {
            workspace(&format!("/w{n:04}"), AccessScope::ReadWrite)
                .with_description("the house rules ".repeat(30))
        });
        let map = filesystem_map(&tools(some.collect()));
        let essentials = map.get(..1_500).unwrap();
        for n in 0..20 {
            assert!(essentials.contains(&format!("- /w{n:04}: READ_WRITE (RW)\n")), "{essentials}");
            assert!(map.contains(&format!("- /w{n:04}: the house rules")), "{map}");
        }
    }

    #[test]
    fn workspaces_in_a_sentence_are_named_up_to_twelve() {
        let some = |count: usize| {
            let of = |n| workspace(&format!("/w{n}"), AccessScope::ALL[n % 3]);
            workspaces_sentence(tools((0..count).map(of).collect()).vfs())
        };
        let letters = AccessScope::ALL.map(AccessScope::short_name);
        assert_eq!(some(2), format!("Workspaces: /w0 {}, /w1 {}.", letters[0], letters[1]));
        assert!(!some(12).contains("more"));
        assert_eq!(some(14).matches("/w").count(), 12);
        assert!(some(14).ends_with(" and 2 more."), "{}", some(14));
    }
}
