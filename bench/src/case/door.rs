//! What the checks of a `Vfs` (the door) add to a Store's call, and what routing costs among few and among many
//! Workspaces.

use std::path::Path;
use std::sync::Arc;

use stead_core::testkit::PanickingStore;
use stead_core::{AccessScope, Identity, Mount, Router, Vfs, VfsPath, Workspace};

use crate::Result;
use crate::case::Effort;
use crate::contender::{Contender, Durability, SteadStore};
use crate::content::{SMALL, renumber, text};
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit};

const FILES: usize = 1_000;
const COUNT: usize = 500;

/// A table for calls, and one for routing alone.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![calls(data, effort)?, routing(effort)?])
}

/// Two ways to the same Store. Each has files of its own, so that neither changes what the other has read.
enum CallRoute<'a> {
    Store(&'a SteadStore),
    Door(Vfs),
}

impl CallRoute<'_> {
    fn fill(&self, store: &SteadStore) -> Result {
        store.fill(&mut (0..FILES).map(|number| (self.path(number), text(number, SMALL))))
    }

    /// The path in the Store.
    fn path(&self, number: usize) -> String {
        let name = match self {
            CallRoute::Store(_) => "store",
            CallRoute::Door(_) => "door",
        };
        format!("{name}/{:02}/{number}", number / 100)
    }

    fn stat(&self, number: usize) -> Result {
        let path = self.path(number);
        match self {
            CallRoute::Store(store) => store.size(&path).map(drop),
            CallRoute::Door(vfs) => Ok(vfs.stat(&*format!("/project/{path}")).map(drop)?),
        }
    }

    fn read(&self, number: usize) -> Result {
        let path = self.path(number);
        match self {
            CallRoute::Store(store) => store.read(&path).map(drop),
            CallRoute::Door(vfs) => Ok(vfs.read(&*format!("/project/{path}")).map(drop)?),
        }
    }

    fn write(&self, number: usize) -> Result {
        let path = self.path(number);
        let mut content = text(0, SMALL);
        renumber(&mut content, fastrand::usize(..1_000_000_000_000));
        match self {
            CallRoute::Store(store) => store.overwrite(&path, &content),
            CallRoute::Door(vfs) => Ok(vfs.write(&*format!("/project/{path}"), content).map(drop)?),
        }
    }
}

fn calls(data: &Path, effort: Effort) -> Result<Table> {
    let pair = ("through the door", "the Store alone");
    let mut table = Table::new("4 KiB files", &["the Store alone", "through the door"], &[pair]);
    for (name, open) in [
        ("Virtual", SteadStore::in_database as fn(&Path, Durability) -> Result<SteadStore>),
        ("Physical", SteadStore::on_disk),
    ] {
        let directory = data.join(name);
        std::fs::create_dir(&directory)?;
        let store = open(&directory, Durability::Fast)?;
        let workspace = Workspace::new(
            VfsPath::parse("/project")?,
            AccessScope::ReadWrite,
            Mount::new(store.store().clone()),
        );
        let vfs = Vfs::builder(Identity::agent("bench")).workspace(workspace).build()?;
        let routes = [CallRoute::Store(&store), CallRoute::Door(vfs)];
        routes.iter().try_for_each(|route| route.fill(&store))?;
        type Call = fn(&CallRoute<'_>, usize) -> Result;
        let operations: [(&str, Call); 3] = [
            ("stat", |route, number| route.stat(number)),
            ("read", |route, number| route.read(number)),
            ("overwrite", |route, number| route.write(number)),
        ];
        for (operation, call) in operations {
            let measured = in_turns(&routes, effort.rounds(), |route, _| {
                let sample =
                    timed(COUNT, || (0..COUNT).try_for_each(|_| call(route, fastrand::usize(..FILES))))?;
                Ok(Some(sample))
            })?;
            table.row(format!("{name}: {operation}"), &measured, Unit::Time);
        }
    }
    Ok(table)
}

/// Routes paths deep below a Workspace. No Store is called.
fn routing(effort: Effort) -> Result<Table> {
    const PATHS: usize = 100_000;
    let routers = [router(10)?, router(1_000)?];
    let mut table = Table::new(
        "routing",
        &["10 Workspaces", "1,000 Workspaces"],
        &[("10 Workspaces", "1,000 Workspaces")],
    );
    let measured = in_turns(&routers, effort.rounds(), |(router, paths), _| {
        let sample = timed(PATHS, || {
            for path in paths.iter().cycle().take(PATHS) {
                std::hint::black_box(router.route(path)).ok_or("a path belongs to no Workspace")?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("a path of 5 components", &measured, Unit::Time);
    Ok(table)
}

/// A router with this many Workspaces, every tenth of them nested in the one before, and a path below each Workspace.
fn router(workspaces: usize) -> Result<(Router, Vec<VfsPath>)> {
    let prefixes = (0..workspaces).map(|index| match index % 10 {
        9 => format!("/agents/{}/nested", index - 1),
        _ => format!("/agents/{index}"),
    });
    let prefixes = prefixes.collect::<Vec<_>>();
    let workspace = |prefix: &String| -> Result<Workspace> {
        Ok(Workspace::new(
            VfsPath::parse(prefix)?,
            AccessScope::ReadWrite,
            Mount::new(Arc::new(PanickingStore)),
        ))
    };
    let router = Router::new(prefixes.iter().map(workspace).collect::<Result<Vec<_>>>()?)?;
    let path = |prefix: &String| Ok(VfsPath::parse(&format!("{prefix}/src/store/mod.rs"))?);
    Ok((router, prefixes.iter().map(path).collect::<Result<Vec<_>>>()?))
}
