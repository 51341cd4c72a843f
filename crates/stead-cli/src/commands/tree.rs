use serde_json::json;
use stead::vfs::{PathEntry, WalkQuery, WalkResult};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{AsOfArg, Colour, Session};
use crate::{human, json};

/// Show everything below a directory as a tree
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory
    #[arg(default_value = "/")]
    path: String,
    /// How many levels to show
    #[arg(short, long, value_name = "N")]
    depth: Option<usize>,
    /// Show at most this many entries
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = human::parse_positive)]
    limit: usize,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let query = WalkQuery {
        depth: args.depth.unwrap_or(usize::MAX),
        limit: args.limit.saturating_add(1),
        ..WalkQuery::default()
    };
    let walked = session.compound("tree", &stead, (&args.at, &args.path), |_, stead| {
        let top = stead.vfs().stat(&args.path)?.path;
        Ok((stead.vfs().walk(&top, &query)?, top))
    });
    let (WalkResult { entries: mut found, unreadable: unread }, top) = walked?;
    let truncated = found.len() > args.limit;
    found.truncate(args.limit);
    if session.wants_json() {
        let entries: Vec<_> = found.iter().map(json::walked).collect();
        session.print_json(&json!({
            "path": top.to_string(),
            "entries": entries,
            "truncated": truncated,
            "unread": json::unread(&unread),
        }))?;
        return Ok(Exit::OK);
    }
    session.print_line(&top)?;
    let top = if top.is_root() { String::new() } else { top.to_string() };
    draw(&top, &found, session)?;
    if truncated {
        session.say(format_args!("There are more than {}; raise --limit to see them.", args.limit));
    }
    session.warn_unreadable(&unread);
    Ok(Exit::OK)
}

fn draw(top: &str, found: &[PathEntry], session: &mut Session) -> Result<(), CommandError> {
    let components: Vec<Vec<&str>> = found
        .iter()
        .map(|entry| {
            entry.path.strip_prefix(top).unwrap_or(&entry.path).trim_start_matches('/').split('/').collect()
        })
        .collect();
    let lasts = last_in_directory(&components.iter().map(Vec::len).collect::<Vec<_>>());
    // For each level of the current path, whether its entry is the last one in its directory.
    let mut open = Vec::new();
    for ((entry, names), is_last) in found.iter().zip(&components).zip(lasts) {
        open.truncate(names.len() - 1);
        let mut line: String = open.iter().map(|&last| if last { "    " } else { "\u{2502}   " }).collect();
        line.push_str(if is_last { "\u{2514}\u{2500}\u{2500} " } else { "\u{251c}\u{2500}\u{2500} " });
        let name = names.last().copied().unwrap_or_default();
        let mark = human::kind_suffix(entry.kind);
        let name = if mark == "/" { session.paint(Colour::Blue, name) } else { name.to_owned() };
        session.print_line(format_args!("{line}{name}{mark}"))?;
        open.resize(names.len() - 1, false);
        open.push(is_last);
    }
    Ok(())
}

/// For entries in the order of a walk, given by their depths: whether each is the last one in its directory.
fn last_in_directory(depths: &[usize]) -> Vec<bool> {
    let deepest = depths.iter().copied().max().unwrap_or(0);
    // Going backwards: whether an entry of that depth has come since the last shallower one.
    let mut followed = vec![false; deepest + 1];
    let mut lasts: Vec<_> = depths
        .iter()
        .rev()
        .map(|&depth| {
            let is_last = !followed[depth];
            followed[depth] = true;
            followed[depth + 1..].fill(false);
            is_last
        })
        .collect();
    lasts.reverse();
    lasts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_each_directory_is_known() {
        //          a     a/x    a/y    a/y/z  b
        let lasts = [false, false, true, true, true];
        assert_eq!(last_in_directory(&[1, 2, 2, 3, 1]), lasts);
        assert_eq!(last_in_directory(&[]), [false; 0]);
    }
}
