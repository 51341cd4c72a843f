//! What the audit adds to a call, and what it costs to have many records.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stead_core::{
    AccessScope, AuditLog, AuditOutcome, AuditRecord, Clock, Identity, Mount, Store, SystemClock, Timestamp,
    Vfs, VfsPath, Workspace,
};
use stead_stores::{
    ArchiveLookup, Audit, AuditAccess, AuditQuery, Database, DatabaseOptions, PhysicalOptions, PhysicalStore,
};

use crate::Result;
use crate::case::Effort;
use crate::contender::Durability;
use crate::content::{SMALL, renumber, text};
use crate::measure::{CpuTimeScope, Sample, Summary, cpu_timed, in_turns, timed};
use crate::table::{Table, Unit, count};

const FILES: usize = 1_000;
const COUNT: usize = 500;

/// A table for calls, and one for many records.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![calls(data, effort)?, many_records(data, effort)?])
}

/// Compares the same calls on two equal sets of Workspaces, one with an audit log and one without.
fn calls(data: &Path, effort: Effort) -> Result<Table> {
    let pair = ("with audit", "without");
    let mut table = Table::new("4 KiB files, through the door", &["without", "with audit"], &[pair]);
    for durability in [Durability::Fast, Durability::Full] {
        let name = format!("{durability:?}");
        let vfs_pair = [
            open_vfs(&data.join(format!("{name}-off")), durability, false)?,
            open_vfs(&data.join(&name), durability, true)?,
        ];
        type Call = fn(&Vfs, usize) -> Result;
        let reads: [(&str, Call); 4] = [
            ("Virtual: stat", |vfs, number| Ok(vfs.stat(path("virtual", number)).map(drop)?)),
            ("Virtual: read", |vfs, number| Ok(vfs.read(path("virtual", number)).map(drop)?)),
            ("Physical: stat", |vfs, number| Ok(vfs.stat(path("physical", number)).map(drop)?)),
            ("Physical: read", |vfs, number| Ok(vfs.read(path("physical", number)).map(drop)?)),
        ];
        let write: (&str, Call) = ("Virtual: overwrite", |vfs, number| {
            let mut content = text(0, SMALL);
            renumber(&mut content, fastrand::usize(..1_000_000_000_000));
            Ok(vfs.write(path("virtual", number), content).map(drop)?)
        });
        let suffix = if durability == Durability::Full { ", surviving a power cut" } else { "" };
        let calls =
            if durability == Durability::Full { vec![write] } else { [&reads[..], &[write]].concat() };
        for (label, call) in calls {
            let measured = in_turns(&vfs_pair, effort.rounds(), |vfs, _| {
                Ok(Some(timed(COUNT, || (0..COUNT).try_for_each(|_| call(vfs, fastrand::usize(..FILES))))?))
            })?;
            table.row(format!("{label}{suffix}"), &measured, Unit::Time);
            if durability == Durability::Full {
                continue;
            }
            for (scope, name) in
                [(CpuTimeScope::Caller, "of the caller"), (CpuTimeScope::AllThreads, "of all threads")]
            {
                let measured = in_turns(&vfs_pair, effort.rounds(), |vfs, _| {
                    let calls = || (0..COUNT).try_for_each(|_| call(vfs, fastrand::usize(..FILES)));
                    Ok(Some(cpu_timed(scope, COUNT, calls)?))
                })?;
                table.row(format!("{label}, processor time {name}"), &measured, Unit::Time);
            }
        }
    }
    Ok(table)
}

fn path(workspace: &str, number: usize) -> String {
    format!("/{workspace}/{:02}/{number}", number / 100)
}

fn database(directory: &Path, durability: Durability) -> Result<Database> {
    let options = DatabaseOptions { durability: durability.into(), ..DatabaseOptions::default() };
    Ok(Database::open(directory.join("stead.db"), options)?)
}

fn open_vfs(directory: &Path, durability: Durability, audited: bool) -> Result<Vfs> {
    for name in ["root", "state"] {
        std::fs::create_dir_all(directory.join(name))?;
    }
    let database = database(directory, durability)?;
    let options =
        PhysicalOptions { durability: durability.into(), ..PhysicalOptions::new(directory.join("state")) };
    let stores: [(&str, Arc<dyn Store>); 2] = [
        ("/virtual", Arc::new(database.store(["bench"])?)),
        ("/physical", Arc::new(PhysicalStore::open(directory.join("root"), options)?)),
    ];
    let mut builder = Vfs::builder(Identity::agent("bench"));
    let mut unaudited = Vfs::builder(Identity::agent("bench"));
    for (prefix, store) in stores {
        let workspace = Workspace::new(VfsPath::parse(prefix)?, AccessScope::ReadWrite, Mount::new(store));
        builder = builder.workspace(workspace.clone());
        unaudited = unaudited.workspace(workspace);
    }
    if audited {
        builder = builder.audit(Audit::open(&database, &directory.join("audit"))?);
    }
    // Filled without audit records, because filling is not measured.
    let unaudited = unaudited.build()?;
    for workspace in ["virtual", "physical"] {
        for first in (0..FILES).step_by(100) {
            let mut batch = unaudited.batch();
            for number in first..first + 100 {
                batch.write(path(workspace, number), text(number, SMALL), &Default::default())?;
            }
            batch.apply()?;
        }
    }
    Ok(builder.build()?)
}

/// Measures a log that grows to many records, and queries on it.
fn many_records(data: &Path, effort: Effort) -> Result<Table> {
    let records = match effort {
        Effort::Full => 1_000_000,
        Effort::Quick => 100_000,
    };
    let directory = data.join("many");
    std::fs::create_dir(&directory)?;
    let database = database(&directory, Durability::Fast)?;
    let audit = Audit::open(&database, &directory.join("audit"))?;
    let identity = Arc::new(Identity::agent("bench").with_thread("t"));
    let part_size = records / 10;
    let mut samples = Vec::new();
    for part in 0..10 {
        eprintln!("  {} records", count(part * part_size));
        let sample = timed(part_size, || {
            for number in part * part_size..(part + 1) * part_size {
                audit.append(&record(&identity, number)?)?;
            }
            Ok(())
        })?;
        samples.push(sample);
    }
    drop(audit);
    let mut table = Table::new(format!("{} records", count(records)), &["time"], &[]);
    let mut row = |name: String, sample: Sample| {
        let Sample { each, worst } = sample;
        table.row(name, &[Some(Summary { median: each, worst })], Unit::Time);
    };
    row(format!("put one into the database, the first {}", count(part_size)), samples[0]);
    row(format!("put one into the database, the last {}", count(part_size)), samples[9]);
    let access = AuditAccess::open(&database, &directory.join("audit"))?;
    row(
        "verify all of them".into(),
        timed(1, || match access.verify(&ArchiveLookup::default(), &mut |_| ())?.problems.first() {
            Some(problem) => Err(problem.clone().into()),
            None => Ok(()),
        })?,
    );
    let query = AuditQuery {
        path: Some(VfsPath::parse("/project/src/7")?),
        since: Some(Timestamp(SystemClock.now().0 - 3_600_000_000_000)),
        ..AuditQuery::default()
    };
    let broad = AuditQuery { path: Some(VfsPath::parse("/project")?), ..query.clone() };
    let agent = AuditQuery { agent: Some("nobody".into()), ..AuditQuery::default() };
    let denied = AuditQuery { outcome: Some("denied".into()), ..AuditQuery::default() };
    let newest = AuditQuery::default();
    for (name, query) in [
        ("the newest 50", newest),
        ("the newest 50 below a directory with 1 in 100, of the last hour", query),
        ("the newest 50 below a directory with all of them, of the last hour", broad),
        ("the newest 50 that were denied, 1 in 1,000", denied),
        ("those of an agent that has none", agent),
    ] {
        let measured = in_turns(&[()], effort.rounds(), |(), _| {
            Ok(Some(timed(1, || access.page(&query, None, 50).map(drop).map_err(Into::into))?))
        })?;
        table.row(name, &measured, Unit::Time);
    }
    Ok(table)
}

fn record(identity: &Arc<Identity>, number: usize) -> Result<AuditRecord> {
    let outcome = if number % 1_000 == 0 { AuditOutcome::Denied } else { AuditOutcome::Ok };
    let mut record = AuditRecord::new(SystemClock.now(), Arc::clone(identity), "read_file", outcome);
    record.stead = Some("bench/t".into());
    record.paths =
        vec![VfsPath::parse(&format!("/project/src/{}/module-{}.rs", number % 100, number % 10_000))?];
    record.scope = Some(AccessScope::ReadWrite);
    record.bytes = Some(4_096);
    record.duration = Duration::from_micros(12);
    Ok(record)
}
