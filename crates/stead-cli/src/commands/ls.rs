use serde_json::json;
use stead::vfs::{DirEntry, DirectoryListing, ListPage, WalkQuery, WalkResult};
use stead::{Name, NodeKind, StoreError, Vfs, VfsError, VfsPath};

use crate::command_error::{CommandError, CommandResult};
use crate::session::{AsOfArg, Colour, IgnoreArg, Session};
use crate::{human, json};

/// List directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directories to list
    #[arg(value_name = "PATH", default_value = "/")]
    paths: Vec<String>,
    /// Show kind, mode, size and time
    #[arg(short, long)]
    long: bool,
    /// Also list everything below
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Show at most this many entries
    #[arg(long, value_name = "N", value_parser = human::parse_positive)]
    limit: Option<usize>,
    /// Continue a listing with --limit at this cursor
    #[arg(long, value_name = "CURSOR", conflicts_with = "recursive")]
    cursor: Option<String>,
    #[command(flatten)]
    ignore: IgnoreArg,
    #[command(flatten)]
    at: AsOfArg,
}

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
    let page = ListPage { cursor: args.cursor.clone(), limit: args.limit.unwrap_or(usize::MAX) };
    let listing = match vfs.list(path, &page) {
        // A file is listed as a single entry.
        Err(VfsError::Store { cause: StoreError::NotADirectory, .. }) if vfs.is_file(path)? => {
            single_entry_listing(vfs, path)?
        }
        listing => listing?,
    };
    if session.wants_json() {
        let entries: Vec<_> = listing.entries.iter().map(json::entry).collect();
        return session.print_json(&json!({
            "path": listing.path.to_string(),
            "entries": entries,
            "total": listing.total,
            "cursor": listing.cursor,
        }));
    }
    if args.long {
        print_long(vfs, &listing, session)?;
    } else {
        for entry in &listing.entries {
            let name = coloured_name(entry.kind, &entry.name.to_string(), session);
            session.print_line(format_args!("{name}{}", human::kind_suffix(entry.kind)))?;
        }
    }
    if let Some(cursor) = &listing.cursor {
        let shown = listing.entries.len();
        session.say(format_args!("{shown} of {}; continue with --cursor {cursor}", listing.total));
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

fn print_long(vfs: &Vfs, listing: &DirectoryListing, session: &mut Session) -> Result<(), CommandError> {
    let sizes: Vec<_> = listing.entries.iter().map(size_text).collect();
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

fn size_text(entry: &DirEntry) -> String {
    if entry.kind == NodeKind::File { human::size(entry.size) } else { "-".into() }
}

/// The target of a symlink, or a question mark if it can't be read: a listing doesn't fail because of it.
///
/// A target outside the Workspaces isn't shown: it may be a path of the host, and an agent couldn't use it.
fn symlink_target(vfs: &Vfs, directory: &VfsPath, entry: &DirEntry) -> String {
    let path = entry.name.as_path_component().and_then(|name| directory.join(name).ok());
    let Some(target) = path.and_then(|path| vfs.read_link(&path).ok()) else { return "?".into() };
    let router = vfs.router();
    let is_inside = |path: &VfsPath| router.route(path).is_some() || router.is_synthetic(path);
    match directory.resolve_symlink_target(&target) {
        Ok(path) if is_inside(&path) => stead::name::escape_name(target.as_bytes()).to_string(),
        _ => "(outside your Workspaces)".into(),
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
        limit: limit.saturating_add(1),
        ignore_files: args.ignore.ignore_files(),
        ..WalkQuery::default()
    };
    let WalkResult { mut entries, unreadable, left_out } = vfs.walk(path, &query)?;
    let truncated = entries.len() > limit;
    entries.truncate(limit);
    if session.wants_json() {
        let entries: Vec<_> = entries.iter().map(json::path_entry).collect();
        return session.print_json(&json!({
            "entries": entries,
            "truncated": truncated,
            "unread": json::unreadable(&unreadable),
            "left_out": json::left_out(left_out),
        }));
    }
    for entry in &entries {
        let name = coloured_name(entry.kind, &entry.path, session);
        let suffix = human::kind_suffix(entry.kind);
        if args.long {
            let mode = human::mode(entry.kind, entry.mode);
            let size = if entry.kind == NodeKind::File { human::size(entry.size) } else { "-".into() };
            let time = human::time(entry.modified);
            session.print_line(format_args!("{mode}  {size:>10}  {time:16}  {name}{suffix}"))?;
        } else {
            session.print_line(format_args!("{name}{suffix}"))?;
        }
    }
    if truncated {
        session.say(format_args!("There are more than {limit}; raise --limit to see them."));
    }
    session.say_left_out(left_out);
    session.warn_unreadable(&unreadable);
    Ok(())
}
