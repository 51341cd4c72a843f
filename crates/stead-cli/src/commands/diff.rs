use stead::vfs::{DiffOptions, Difference, IntoPath, LogQuery, PointInTime, check_exists};
use stead::{OperationIdPrefix, Snapshot, Stead};

use super::difference::{DiffStyle, print_differences};
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::human;
use crate::session::Session;

/// Show the differences between two versions, snapshots or times, or between a fork and its base
///
/// A version is given as its number, a snapshot's label or #number, or a time (2h, yesterday, 2026-11-15 08:30). Without
/// versions, shows what has changed since the last snapshot or, if there is none, since the beginning of today.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Workspace, or a path in one [default: all Workspaces]
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    /// The first version [default: the last snapshot, or today]
    #[arg(value_name = "A")]
    from: Option<String>,
    /// The second version
    #[arg(value_name = "B", default_value = "now")]
    to: String,
    /// Compare this fork with its base as it was when the fork was made
    #[arg(long, value_name = "FORK", value_parser = crate::commands::parse_fork, conflicts_with_all = ["prefix", "from", "operation"])]
    fork: Option<String>,
    /// Show what this operation changed; the beginning of its id is enough
    #[arg(long, value_name = "ID", conflicts_with_all = ["prefix", "from"])]
    operation: Option<OperationIdPrefix>,
    /// Show how many lines were added and removed in each file
    #[arg(long, conflicts_with_all = ["name_only", "name_status"])]
    stat: bool,
    /// Show only the paths that differ
    #[arg(long, conflicts_with = "name_status")]
    name_only: bool,
    /// Show only the paths that differ, and how: A added, M changed, R moved, D removed
    #[arg(long)]
    name_status: bool,
    /// Show this many lines around each difference
    #[arg(short = 'U', long, value_name = "N", default_value_t = 3)]
    unified: usize,
    /// For the habit: a patch is shown unless another form is asked for
    #[arg(short, long, hide = true, conflicts_with_all = ["stat", "name_only", "name_status"])]
    patch: bool,
}

/// What a comparison without versions begins with.
enum Baseline {
    Snapshot(Snapshot),
    Today,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead_for_fork(args.fork.as_deref().unwrap_or_default())?;
    session.use_pager();
    let style = match (args.stat, args.name_only, args.name_status) {
        (true, ..) => DiffStyle::Stat,
        (_, true, _) => DiffStyle::NameOnly,
        (.., true) => DiffStyle::NameStatus,
        _ => DiffStyle::Patch,
    };
    let options = DiffOptions { text: style.needs_content(), context: args.unified };
    let (differences, baseline) = match (&args.fork, &args.operation) {
        (Some(fork), _) => (stead.diff_fork(fork, options)?, None),
        (None, Some(prefix)) => (operation_differences(&stead, prefix, options)?, None),
        (None, None) => version_differences(&stead, &args, options)?,
    };
    if let Some(baseline) = baseline {
        session.say(match baseline {
            Baseline::Snapshot(Snapshot { id, label, at, .. }) => {
                let label = label.map_or(String::new(), |label| format!(" `{}`", human::escape_text(&label)));
                format!("Compared with the last snapshot: #{id}{label} of {}.", human::time(Some(at)))
            }
            Baseline::Today => "There is no snapshot, so this is what has changed today.".to_owned(),
        });
    }
    print_differences(&differences, style, session)?;
    if differences.is_empty() {
        session.say("There are no differences.");
    }
    Ok(Exit::OK)
}

/// The differences between two versions and, if none is given, what the comparison began with.
fn version_differences(
    stead: &Stead,
    args: &Args,
    options: DiffOptions,
) -> Result<(Vec<Difference>, Option<Baseline>), CommandError> {
    let prefix = args.prefix.as_deref().unwrap_or("/");
    stead.single_record("diff", Some(prefix), CommandError::kind, |stead| {
        let (from, baseline) = match &args.from {
            Some(from) => (stead.resolve_point(prefix, from)?, None),
            None => baseline(stead, prefix).map(|(point, baseline)| (point, Some(baseline)))?,
        };
        let to = stead.resolve_point(prefix, &args.to)?;
        let is_up_to_now = matches!(to, PointInTime::Now);
        let differences = stead.vfs().diff(prefix, from, to, options)?;
        if differences.is_empty() && is_up_to_now {
            check_exists(stead.vfs(), &prefix.into_path().map_err(stead::Error::from)?)?;
        }
        Ok((differences, baseline))
    })
}

/// The last snapshot that includes a path, or the beginning of today if there is none.
fn baseline(stead: &Stead, prefix: &str) -> Result<(PointInTime, Baseline), CommandError> {
    for snapshot in stead.snapshots(Some(prefix))? {
        // A snapshot of all Workspaces may leave out the Store of this one.
        if let Ok(point) = stead.resolve_point(prefix, &format!("#{}", snapshot.id)) {
            return Ok((point, Baseline::Snapshot(snapshot)));
        }
    }
    Ok((stead.resolve_point(prefix, "today")?, Baseline::Today))
}

/// What one operation changed, as far as the caller can see it.
fn operation_differences(
    stead: &Stead,
    prefix: &OperationIdPrefix,
    options: DiffOptions,
) -> Result<Vec<Difference>, CommandError> {
    stead.single_record("diff", None, CommandError::kind, |stead| {
        let id = stead.find_operation(prefix)?;
        let query =
            LogQuery { operation: Some(id), limit: usize::MAX, diff: Some(options), ..LogQuery::default() };
        let entries = stead.vfs().log(&query)?;
        if entries.is_empty() {
            return Err(stead::VfsError::NotInHistory(format!("operation {id}")).into());
        }
        // The oldest change first, as the operation made them.
        Ok(entries.into_iter().rev().flat_map(|entry| entry.differences).collect())
    })
}
