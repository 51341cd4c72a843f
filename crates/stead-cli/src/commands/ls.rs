use std::cmp::Reverse;

use clap::ArgAction;
use stead::vfs::{DirEntry, DirectoryListing, ListPage, PathEntry, WalkQuery, WalkResult};
use stead::{Name, NodeKind, StoreError, Timestamp, Vfs, VfsError, VfsPath};

use crate::command_error::{CommandError, CommandResult};
use crate::session::{AsOfArg, Colour, IgnoreArg, Session};
use crate::{human, json};

/// List directories
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The directories to list
    #[arg(value_name = "PATH", default_value = "/")]
    paths: Vec<String>,
    /// Show kind, mode, size in bytes and time
    #[arg(short, long)]
    long: bool,
    /// With -l, show sizes as 3.4 MiB
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Sort by time, newest first
    #[arg(short = 't', overrides_with = "by_size")]
    by_time: bool,
    /// Sort by size, largest first
    #[arg(short = 'S', overrides_with = "by_time")]
    by_size: bool,
    /// Reverse the order
    #[arg(short, long)]
    reverse: bool,
    /// Also list everything below
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Show at most this many entries
    #[arg(long, value_name = "N", value_parser = human::parse_positive)]
    limit: Option<usize>,
    /// Continue a listing with --limit at this cursor
    #[arg(long, value_name = "CURSOR", conflicts_with_all = ["recursive", "by_time", "by_size", "reverse"])]
    cursor: Option<String>,
    #[command(flatten)]
    ignore: IgnoreArg,
    #[command(flatten)]
    at: AsOfArg,
    /// For the habit: names that begin with a dot are always listed
    #[arg(short, long, hide = true)]
    all: bool,
    /// For the habit: there is always one name per line
    #[arg(short = '1', hide = true)]
    one_per_line: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl Args {
    /// Whether the entries are sorted otherwise than by name.
    fn is_sorted(&self) -> bool {
        self.by_time || self.by_size || self.reverse
    }

    /// How many entries are fetched: all, if the first ones are known only after sorting.
    fn fetch_limit(&self) -> usize {
        if self.is_sorted() { usize::MAX } else { self.limit.unwrap_or(usize::MAX) }
    }

    /// Sorts entries that come sorted by name.
    fn sort<T>(&self, entries: &mut [T], time_and_size: impl Fn(&T) -> (Option<Timestamp>, u64)) {
        if self.by_time {
            entries.sort_by_key(|entry| Reverse(time_and_size(entry).0));
        } else if self.by_size {
            entries.sort_by_key(|entry| Reverse(time_and_size(entry).1));
        }
        if self.reverse {
            entries.reverse();
        }
    }

    fn size_text(&self, kind: NodeKind, size: u64) -> String {
        match kind {
            NodeKind::File if self.human_readable => human::size(size),
            NodeKind::File => size.to_string(),
            _ => "-".into(),
        }
    }
}

/// What is shown for the target of a symlink that leads out of the Workspaces.
const OUTSIDE: &str = "(outside your Workspaces)";

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let several = args.paths.len() > 1;
    session.for_each(&args.paths, |session, path| {
        if several && !args.recursive && !session.wants_json() {
            session.print_line(format_args!("{}:", human::escape_text(path)))?;
        }
        session.compound("ls", &stead, (&args.at, path), |session, stead| match args.recursive {
            true => list_recursive(stead.vfs(), path, &args, session),
            false => list_directory(stead.vfs(), path, &args, session),
        })
    })
}

fn list_directory(vfs: &Vfs, path: &str, args: &Args, session: &mut Session) -> Result<(), CommandError> {
    let page = ListPage { cursor: args.cursor.clone(), limit: args.fetch_limit() };
    let mut listing = match vfs.list(path, &page) {
        // A file is listed as a single entry.
        Err(VfsError::Store { cause: StoreError::NotADirectory, .. }) if vfs.is_file(path)? => {
            single_entry_listing(vfs, path)?
        }
        listing => listing?,
    };
    args.sort(&mut listing.entries, |entry| (entry.modified, entry.size));
    listing.entries.truncate(args.limit.unwrap_or(usize::MAX));
    let shown = listing.entries.len();
    if session.wants_json() {
        return session.print_json(&json::listing(&listing));
    }
    if args.long {
        print_long(vfs, &listing, args, session)?;
    } else {
        for entry in &listing.entries {
            let name = coloured_name(entry.kind, &entry.name.to_string(), session);
            session.print_line(format_args!("{name}{}", human::kind_suffix(entry.kind)))?;
        }
    }
    if let Some(cursor) = &listing.cursor {
        session.say(format_args!("{shown} of {}; continue with --cursor {cursor}", listing.total));
    } else if args.is_sorted() && args.limit == Some(shown) && (shown as u64) < listing.total {
        session.say(format_args!("{shown} of {}; raise --limit to see more.", listing.total));
    }
    Ok(())
}

/// A listing with a file as its only entry.
fn single_entry_listing(vfs: &Vfs, path: &str) -> Result<DirectoryListing, CommandError> {
    let stat = vfs.stat(path)?;
    let name = stat.path.name().and_then(|name| Name::new(name.as_bytes())).expect("a file has a name");
    let entry = DirEntry {
        name,
        kind: stat.kind,
        size: stat.size,
        mode: stat.mode,
        modified: stat.modified,
        tag: stat.tag,
        workspace: None,
    };
    Ok(DirectoryListing { path: stat.path, entries: vec![entry], total: 1, cursor: None })
}

fn print_long(
    vfs: &Vfs,
    listing: &DirectoryListing,
    args: &Args,
    session: &mut Session,
) -> Result<(), CommandError> {
    let sizes: Vec<_> = listing.entries.iter().map(|entry| args.size_text(entry.kind, entry.size)).collect();
    let width = sizes.iter().map(String::len).max().unwrap_or(0);
    for (entry, size) in listing.entries.iter().zip(sizes) {
        let mode = human::mode(entry.kind, entry.mode);
        let time = human::time(entry.modified);
        let name = coloured_name(entry.kind, &entry.name.to_string(), session);
        let suffix = match (entry.workspace, entry.kind) {
            (Some(scope), _) => format!("/  {}", session.paint(Colour::Green, scope)),
            (None, NodeKind::Symlink) => format!(" -> {}", symlink_target(vfs, &listing.path, entry)),
            (None, kind) => human::kind_suffix(kind).to_owned(),
        };
        session.print_line(format_args!("{mode}  {size:>width$}  {time:16}  {name}{suffix}"))?;
    }
    Ok(())
}

/// The target of a symlink, or a question mark if it can't be read: a listing doesn't fail because of it.
///
/// A target outside the Workspaces isn't shown: it may be a path of the host, and an agent couldn't use it. A hidden one
/// isn't shown either.
fn symlink_target(vfs: &Vfs, directory: &VfsPath, entry: &DirEntry) -> String {
    let path = entry.name.as_path_component().and_then(|name| directory.join(name).ok());
    let Some(target) = path.and_then(|path| vfs.read_link(&path).ok()) else { return "?".into() };
    let router = vfs.router();
    let Ok(path) = directory.resolve_symlink_target(&target) else { return OUTSIDE.into() };
    match router.route(&path) {
        Some(route) if route.workspace.hide().hides(route.relative_path) => "(a hidden name)".into(),
        None if !router.is_synthetic(&path) => OUTSIDE.into(),
        _ => stead::name::escape_name(target.as_bytes()).to_string(),
    }
}

fn coloured_name(kind: NodeKind, name: &str, session: &Session) -> String {
    match kind {
        NodeKind::Directory => session.paint(Colour::Blue, name),
        NodeKind::Symlink => session.paint(Colour::Cyan, name),
        NodeKind::File | NodeKind::Special(_) => name.to_owned(),
    }
}

fn list_recursive(vfs: &Vfs, path: &str, args: &Args, session: &mut Session) -> Result<(), CommandError> {
    let limit = args.limit.unwrap_or(usize::MAX);
    let query = WalkQuery {
        limit: args.fetch_limit().saturating_add(1),
        ignore_files: args.ignore.ignore_files(),
        ..WalkQuery::default()
    };
    let WalkResult { mut entries, unreadable, left_out } = vfs.walk(path, &query)?;
    let truncated = entries.len() > limit;
    args.sort(&mut entries, |entry| (entry.modified, entry.size));
    entries.truncate(limit);
    if session.wants_json() {
        return session.print_json(&json::walk(None, &entries, truncated, &unreadable, left_out));
    }
    for entry in &entries {
        print_path_entry(entry, args, session)?;
    }
    if truncated {
        session.say(format_args!("There are more than {limit}; raise --limit to see them."));
    }
    session.say_left_out(left_out);
    session.warn_unreadable(&unreadable);
    Ok(())
}

fn print_path_entry(entry: &PathEntry, args: &Args, session: &mut Session) -> Result<(), CommandError> {
    let name = coloured_name(entry.kind, &entry.path, session);
    let suffix = human::kind_suffix(entry.kind);
    if !args.long {
        return session.print_line(format_args!("{name}{suffix}"));
    }
    let mode = human::mode(entry.kind, entry.mode);
    let size = args.size_text(entry.kind, entry.size);
    let time = human::time(entry.modified);
    session.print_line(format_args!("{mode}  {size:>10}  {time:16}  {name}{suffix}"))
}
