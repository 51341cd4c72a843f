//! What reading costs in a fork of a fork of a fork.

use std::path::Path;

use stead::search::GrepQuery;

use super::code_base::{SourceFile, source_files};
use super::forkable::{FileChange, Forkable};
use super::stead_side::{SteadSide, StoreKind};
use crate::Result;
use crate::case::Effort;
use crate::contender::Durability;
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit, count};

const FILES: usize = 10_000;
const DEPTH: usize = 3;
/// How many files each fork changes.
const CHANGES: usize = 10;
/// How many calls one round makes.
const COUNT: usize = 500;
/// A word in few files.
const PATTERN: &str = "unwrap_unchecked";

/// A row per Store and call.
pub fn run(data: &Path, effort: Effort) -> Result<Table> {
    let files = source_files(FILES)?;
    let columns = ["in the base", "in the third fork"];
    let title = format!("a fork of a fork of a fork of {} files", count(FILES));
    let mut table = Table::new(title, &columns, &[("in the third fork", "in the base")]);
    for (name, kind) in [("Virtual", StoreKind::Virtual), ("Physical", StoreKind::Physical)] {
        eprintln!("  depth: {name}");
        let mut side = SteadSide::create(&data.join(name), kind, Durability::Fast, files.iter().cloned())?;
        let deepest = nested_forks(&mut side, &files)?;
        let prefixes = ["/code".to_owned(), deepest];
        let mut random = fastrand::Rng::with_seed(3);
        let mut measure = |row: &str, calls: usize, call: &dyn Fn(&str, &str) -> Result| -> Result {
            let summaries = in_turns(&prefixes, effort.rounds(), |prefix, _| {
                let paths: Vec<_> = (0..calls).map(|_| &files[random.usize(..files.len())].0).collect();
                Ok(Some(timed(calls, || paths.into_iter().try_for_each(|path| call(prefix, path)))?))
            })?;
            table.row(format!("{name}: {row}"), &summaries, Unit::Time);
            Ok(())
        };
        let vfs = side.stead().vfs();
        measure("stat", COUNT, &|prefix, path| Ok(vfs.stat(&*format!("{prefix}/{path}")).map(drop)?))?;
        measure("read", COUNT, &|prefix, path| Ok(vfs.read(&*format!("{prefix}/{path}")).map(drop)?))?;
        measure("list a directory", COUNT, &|prefix, path| {
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            side.list(&format!("{prefix}/{directory}")).map(drop)
        })?;
        let query = GrepQuery { max_results: usize::MAX, ..GrepQuery::new(PATTERN) };
        let expected = files.iter().filter(|(_, content)| contains(content, PATTERN)).count();
        measure("grep of all files", 1, &|prefix, _| {
            let found = vfs.grep(&query, prefix)?;
            match found.files.len() {
                count if (1..=expected).contains(&count) && !found.timed_out => Ok(()),
                count => Err(format!("grep found {count} files of {expected}").into()),
            }
        })?;
    }
    Ok(table)
}

fn contains(content: &[u8], word: &str) -> bool {
    content.windows(word.len()).any(|window| window == word.as_bytes())
}

/// Makes forks of forks with some changes each, and returns the prefix of the last one.
fn nested_forks(side: &mut SteadSide, files: &[SourceFile]) -> Result<String> {
    let mut random = fastrand::Rng::with_seed(4);
    let mut prefix = "/code".to_owned();
    for depth in 1..=DEPTH {
        let name = format!("deep-{depth}");
        side.fork_of(&prefix, &name)?;
        prefix = format!("/forks/{name}");
        let changes: Vec<_> = (0..CHANGES)
            .map(|_| {
                let (path, content) = files[random.usize(..files.len())].clone();
                FileChange { path, moved_to: None, content: [content, b"// changed\n".to_vec()].concat() }
            })
            .collect();
        side.change_fork(&name, &changes)?;
    }
    Ok(prefix)
}
