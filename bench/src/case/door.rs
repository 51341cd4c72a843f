//! What the door adds: routing among few and among many Workspaces.

use std::path::Path;
use std::sync::Arc;

use stead_core::testkit::Untouchable;
use stead_core::{AccessScope, Mount, Router, VfsPath, Workspace};

use crate::Result;
use crate::case::Effort;
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit};

/// One table.
pub fn run(_: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![routing(effort)?])
}

/// Routes paths that lead somewhere, deep below a Workspace. No Store is touched.
fn routing(effort: Effort) -> Result<Table> {
    const COUNT: usize = 100_000;
    let routers = [router(10)?, router(1_000)?];
    let mut table = Table::new(
        "routing",
        &["10 Workspaces", "1,000 Workspaces"],
        &[("10 Workspaces", "1,000 Workspaces")],
    );
    let routed = in_turns(&routers, effort.rounds(), |(router, paths), _| {
        let sample = timed(COUNT, || {
            for path in paths.iter().cycle().take(COUNT) {
                std::hint::black_box(router.route(path)).ok_or("a path leads nowhere")?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("a path of 5 components", &routed, Unit::Time);
    Ok(table)
}

/// So many Workspaces, every tenth of them nested in the one before, and a path below each.
fn router(workspaces: usize) -> Result<(Router, Vec<VfsPath>)> {
    let prefixes = (0..workspaces).map(|index| match index % 10 {
        9 => format!("/agents/{}/nested", index - 1),
        _ => format!("/agents/{index}"),
    });
    let prefixes = prefixes.collect::<Vec<_>>();
    let workspace = |prefix: &String| -> Result<Workspace> {
        Ok(Workspace::new(VfsPath::parse(prefix)?, AccessScope::ReadWrite, Mount::new(Arc::new(Untouchable))))
    };
    let router = Router::new(prefixes.iter().map(workspace).collect::<Result<Vec<_>>>()?)?;
    let path = |prefix: &String| Ok(VfsPath::parse(&format!("{prefix}/src/store/mod.rs"))?);
    Ok((router, prefixes.iter().map(path).collect::<Result<Vec<_>>>()?))
}
