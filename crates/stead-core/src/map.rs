//! The Filesystem Map: what an agent is told of its Workspaces, for its system prompt.
//!
//! It is a function of the Workspaces and the tools that are offered, and the same text for the same ones, so that
//! prompt caches hold. Nothing of the host stands in it, and nothing of what the agent does not have.

use std::fmt::Write;

use crate::name::harmless;
use crate::path::VfsPath;
use crate::scope::AccessScope;
use crate::tools::Toolbox;
use crate::workspace::{Ask, Workspace};

/// The longest map, in bytes.
pub const MAX_MAP: usize = 8 << 10;
/// The longest description of one Workspace that is told, in characters.
const MAX_DESCRIPTION: usize = 300;
/// What is kept free for the line that counts what does not fit.
const RESERVE: usize = 96;

/// The map of these tools' Workspaces.
pub fn map(tools: &Toolbox) -> String {
    let workspaces: Vec<_> = tools.vfs().workspaces().collect();
    if workspaces.is_empty() {
        return "# Filesystem Map\n\nYou have no Workspaces, so you have no file access.\n".to_owned();
    }
    let mut text = String::from(
        "# Filesystem Map\n\nYour files lie in these Workspaces. Paths are absolute; a path in none of them is denied. \
         Where one Workspace lies inside another, the longer prefix decides.\n\n",
    );
    let legend = legend(tools, &workspaces);
    let room = MAX_MAP - text.len() - legend.len() - RESERVE;
    let mut lines = String::new();
    for (index, workspace) in workspaces.iter().enumerate() {
        let line = line(workspace, overridden(workspace, &workspaces));
        if lines.len() + line.len() > room {
            let _ = writeln!(lines, "- and {} more Workspaces; list / to see them", workspaces.len() - index);
            break;
        }
        lines.push_str(&line);
    }
    text.push_str(&lines);
    text.push_str(&legend);
    text
}

/// The Workspace around this one, if there is one.
fn overridden<'a>(inner: &Workspace, workspaces: &[&'a Workspace]) -> Option<&'a VfsPath> {
    let around = workspaces.iter().map(|workspace| workspace.prefix());
    let around = around.filter(|prefix| *prefix != inner.prefix() && inner.prefix().below(prefix).is_some());
    around.max_by_key(|prefix| prefix.as_str().len())
}

fn line(workspace: &Workspace, around: Option<&VfsPath>) -> String {
    let (prefix, scope) = (workspace.prefix(), workspace.scope());
    let mut line = format!("- {prefix}: {} ({})", scope.name(), scope.letters());
    if let Some(around) = around {
        let _ = write!(line, ", overrides {around}");
    }
    line.push_str(match workspace.ask() {
        Ask::Never => "",
        Ask::Changes => ", a person is asked before changes",
        Ask::Everything => ", a person is asked first",
    });
    if let Some(description) = workspace.description() {
        let words: Vec<_> = description.split_whitespace().collect();
        let short: String = words.join(" ").chars().take(MAX_DESCRIPTION).collect();
        let _ = write!(line, ". {}", harmless(&short));
    }
    line.push('\n');
    line
}

/// The tools that work in Workspaces of each scope that there is.
fn legend(tools: &Toolbox, workspaces: &[&Workspace]) -> String {
    let mut text = String::from("\n");
    for scope in AccessScope::ALL {
        if !workspaces.iter().any(|workspace| workspace.scope() == scope) {
            continue;
        }
        let names: Vec<_> =
            tools.offered().filter(|tool| tool.works_in(scope)).map(|tool| tool.name).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let _ = writeln!(text, "Tools for {} ({}): {names}", scope.name(), scope.letters());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::identity::Identity;
    use crate::testkit::Untouchable;
    use crate::vfs::Vfs;
    use crate::workspace::Mount;

    fn tools(workspaces: Vec<Workspace>) -> Toolbox {
        let builder = Vfs::builder(Identity::agent("a"));
        Toolbox::new(
            workspaces.into_iter().fold(builder, |builder, one| builder.workspace(one)).build().unwrap(),
        )
    }

    fn workspace(prefix: &str, scope: AccessScope) -> Workspace {
        Workspace::new(VfsPath::parse(prefix).unwrap(), scope, Mount::new(Arc::new(Untouchable)))
    }

    #[test]
    fn each_workspace_is_told_with_its_scope_its_purpose_and_its_tools() {
        let map = map(&tools(vec![
            workspace("/home", AccessScope::ReadOnly).with_description("the house\nrules"),
            workspace("/home/src", AccessScope::ReadWrite).with_ask(Ask::Changes),
            workspace("/out", AccessScope::WriteOnly),
        ]));
        assert_eq!(
            map,
            "# Filesystem Map\n\
             \n\
             Your files lie in these Workspaces. Paths are absolute; a path in none of them is denied. Where one \
             Workspace lies inside another, the longer prefix decides.\n\
             \n\
             - /home: READ_ONLY (RO). the house rules\n\
             - /home/src: READ_WRITE (RW), overrides /home, a person is asked before changes\n\
             - /out: WRITE_ONLY (WO)\n\
             \n\
             Tools for READ_ONLY (RO): copy_file, glob, grep, list_directory, read_file, read_many, stat\n\
             Tools for READ_WRITE (RW): append_file, copy_file, create_directory, delete_directory, delete_file, \
             edit_file, glob, grep, list_directory, move_file, read_file, read_many, stat, write_file\n\
             Tools for WRITE_ONLY (WO): append_file, copy_file, create_directory, delete_directory, delete_file, \
             edit_file, move_file, write_file\n"
        );
    }

    #[test]
    fn without_workspaces_there_is_no_file_access() {
        assert!(map(&tools(vec![])).ends_with("You have no Workspaces, so you have no file access.\n"));
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let many = (0..1_000).map(|n| {
            workspace(&format!("/w{n:04}"), AccessScope::ReadOnly).with_description("x".repeat(1_000))
        });
        let map = map(&tools(many.collect()));
        assert!(map.len() <= MAX_MAP, "{}", map.len());
        let told = map.lines().filter(|line| line.starts_with("- /w")).count();
        assert!(map.contains(&format!("- and {} more Workspaces", 1_000 - told)), "{map}");
        assert!(map.ends_with("read_many, stat\n"));
    }
}
