use stead::NodeKind;
use stead::vfs::{PathEntry, WalkQuery, WalkResult};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{AsOfArg, Colour, IgnoreArg, Session};
use crate::{human, json};

/// Show everything below a directory as a tree
///
/// What .gitignore, .ignore and .git/info/exclude name is left out, and so is .git, unless PATH names it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory
    #[arg(default_value = "/")]
    path: String,
    /// How many levels to show
    #[arg(short = 'L', long, alias = "level", value_name = "N", value_parser = human::parse_positive)]
    depth: Option<usize>,
    /// Show only directories
    #[arg(short, long)]
    directories: bool,
    /// Taken for the sake of `tree -a`: names that begin with a dot are always shown
    #[arg(short, long, hide = true)]
    all: bool,
    /// Show at most this many entries
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = human::parse_positive)]
    limit: usize,
    #[command(flatten)]
    ignore: IgnoreArg,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let query = WalkQuery {
        depth: args.depth.unwrap_or(usize::MAX),
        limit: args.limit.saturating_add(1),
        kind: args.directories.then_some(NodeKind::Directory),
        ignore_files: args.ignore.ignore_files(),
        ..WalkQuery::default()
    };
    let walk = session.compound("tree", &stead, (&args.at, &args.path), |_, stead| {
        let top = stead.vfs().stat(&args.path)?.path;
        Ok((stead.vfs().walk(&top, &query)?, top))
    });
    let (WalkResult { mut entries, unreadable, left_out }, top) = walk?;
    let truncated = entries.len() > args.limit;
    entries.truncate(args.limit);
    if session.wants_json() {
        let document = json::walk(Some(top.as_str()), &entries, truncated, &unreadable, left_out);
        session.print_json(&document)?;
        return Ok(Exit::OK);
    }
    session.use_pager();
    session.print_line(&top)?;
    let top = if top.is_root() { String::new() } else { top.to_string() };
    draw(&top, &entries, session)?;
    if truncated {
        session.say(format_args!("There are more than {}; raise --limit to see them.", args.limit));
    }
    session.say_left_out(left_out);
    session.warn_unreadable(&unreadable);
    Ok(Exit::OK)
}

fn draw(top: &str, entries: &[PathEntry], session: &mut Session) -> Result<(), CommandError> {
    let components: Vec<Vec<&str>> = entries
        .iter()
        .map(|entry| {
            entry.path.strip_prefix(top).unwrap_or(&entry.path).trim_start_matches('/').split('/').collect()
        })
        .collect();
    let last_flags = last_in_directory(&components.iter().map(Vec::len).collect::<Vec<_>>());
    // For each level of the current path, whether its entry is the last one in its directory.
    let mut ancestor_flags = Vec::new();
    for ((entry, names), is_last) in entries.iter().zip(&components).zip(last_flags) {
        ancestor_flags.truncate(names.len() - 1);
        let mut line: String =
            ancestor_flags.iter().map(|&is_last| if is_last { "    " } else { "\u{2502}   " }).collect();
        line.push_str(if is_last { "\u{2514}\u{2500}\u{2500} " } else { "\u{251c}\u{2500}\u{2500} " });
        let name = names.last().copied().unwrap_or_default();
        let suffix = human::kind_suffix(entry.kind);
        let name = if suffix == "/" { session.paint(Colour::Blue, name) } else { name.to_owned() };
        session.print_line(format_args!("{line}{name}{suffix}"))?;
        ancestor_flags.resize(names.len() - 1, false);
        ancestor_flags.push(is_last);
    }
    Ok(())
}

/// For entries in the order of a walk, given by their depths: whether each is the last one in its directory.
fn last_in_directory(depths: &[usize]) -> Vec<bool> {
    let deepest = depths.iter().copied().max().unwrap_or(0);
    // Going backwards: whether an entry of that depth has come since the last shallower one.
    let mut has_later = vec![false; deepest + 1];
    let mut last_flags: Vec<_> = depths
        .iter()
        .rev()
        .map(|&depth| {
            let is_last = !has_later[depth];
            has_later[depth] = true;
            has_later[depth + 1..].fill(false);
            is_last
        })
        .collect();
    last_flags.reverse();
    last_flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_of_each_directory_is_found() {
        //          a     a/x    a/y    a/y/z  b
        let expected = [false, false, true, true, true];
        assert_eq!(last_in_directory(&[1, 2, 2, 3, 1]), expected);
        assert_eq!(last_in_directory(&[]), [false; 0]);
    }
}
