//! Checks that what a power cut has left is what was acknowledged, and complete.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use stead::vfs::WalkQuery;
use stead::{
    ArchiveLookup, AuditEntry, AuditQuery, Config, Database, DatabaseOptions, Identity, NodeKind, Stead,
    Stores, Tokens,
};

use crate::disk::Image;
use crate::plan::Plan;
use crate::steps::{Files, Step};
use crate::tmpfs::{Tmpfs, moved_along};

/// Returns an error if something is wrong. `sure` is how many steps had been acknowledged; one more means that the
/// program had ended.
pub(crate) fn judge(plan: Plan, steps: &[Step], sure: u64, image: &Image) -> Result<(), String> {
    let sure = usize::try_from(sure).unwrap();
    let has_ended = sure > steps.len();
    let done = &steps[..sure.min(steps.len())];
    if plan.is_audited() {
        judge_audit_files(plan, !done.is_empty(), has_ended, image)?;
    }
    let tmpfs = Tmpfs::with(image);
    moved_along(tmpfs.path());
    let config = config(tmpfs.path());
    let stores = Stores::of(&config);
    let stead =
        Stead::open_in(&stores, &Identity::agent("a")).map_err(|error| format!("opening: {error}"))?;
    let found = files(&stead)?;
    let judged: Vec<_> = plan
        .before()
        .into_iter()
        .map(|before| judge_files(plan, before, steps, done.len(), &found))
        .collect();
    if judged.iter().all(Result::is_err) {
        return judged.into_iter().next().expect("there is a state before");
    }
    for (name, verified) in stores.verify(&mut |_, _| ()).map_err(|error| format!("verifying: {error}"))? {
        if !verified.problems.is_empty() {
            return Err(format!("{name}: {:?}", verified.problems));
        }
    }
    if plan.is_audited() {
        judge_audit(&stores, done)?;
    }
    let tokens = done.iter().filter(|step| matches!(step, Step::Token)).count();
    let there = Tokens::of(&config).list().map_err(|error| format!("the tokens: {error}"))?.len();
    if there < tokens {
        return Err(format!("{there} of {tokens} tokens are left"));
    }
    for step in done {
        if let Step::Backup(name) = step {
            judge_backup(&tmpfs.path().join(name)).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    // The stead can still be used.
    stead.vfs().write("/w/afterwards", "x").map_err(|error| format!("writing afterwards: {error}"))?;
    Ok(())
}

pub(crate) fn config(top: &Path) -> Config {
    let file = top.join("stead.toml");
    Config::parse(&std::fs::read_to_string(&file).unwrap(), &file).unwrap()
}

fn judge_files(plan: Plan, before: Files, steps: &[Step], sure: usize, found: &Files) -> Result<(), String> {
    // The last step that is durable, and the step that was running.
    let least = steps[..sure].iter().rposition(Step::lasts).map_or(0, |index| index + 1);
    let mut states = vec![before];
    for step in &steps[..(sure + 1).min(steps.len())] {
        let mut files = states.last().unwrap().clone();
        step.leaves(&mut files);
        states.push(files);
    }
    // A file in a host directory that wasn't synced may be in any state that programs can leave.
    let open = steps[least..states.len() - 1].iter().find_map(|step| match step {
        Step::Flush(at, ..) if plan.is_physical() => Some(*at),
        _ => None,
    });
    let rest = |files: &Files| {
        let rest = files.iter().filter(|(path, _)| Some(&***path) != open);
        rest.map(|(path, bytes)| (path.clone(), bytes.clone())).collect::<Files>()
    };
    if states[least..].iter().any(|state| rest(state) == rest(found)) {
        return Ok(());
    }
    Err(format!("after step {sure}: {}", difference(&states[least], found)))
}

/// Checks the files that have to be next to the database.
fn judge_audit_files(plan: Plan, began: bool, has_ended: bool, image: &Image) -> Result<(), String> {
    let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
    let content = |path: &str| image.entries.get(path).map(|entry| text(&entry.content));
    if began && content(".stead/audit/key").is_none_or(|key| key.trim_end().len() != 64) {
        return Err("the key of the audit is gone".into());
    }
    for (path, entry) in &image.entries {
        if path.starts_with(".stead/audit/running/")
            && path.ends_with("/head")
            && !is_json(&text(&entry.content))
        {
            return Err("a signed head of the audit is torn".into());
        }
    }
    let heads = content(".stead/audit/heads").unwrap_or_default();
    let heads = heads.lines().filter(|line| is_json(line)).count();
    // Each run leaves one when it ends, and an archive takes that of the first run.
    let wanted = match plan {
        Plan::Archived => 1 + usize::from(has_ended),
        _ => usize::from(has_ended),
    };
    if heads < wanted {
        return Err(format!("{heads} of {wanted} signed heads of the audit are left"));
    }
    Ok(())
}

fn judge_audit(stores: &Stores, done: &[Step]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("the audit: {error}");
    let Some(audit) = stores.audit_access().map_err(|error| failed(&error))? else {
        return if done.is_empty() { Ok(()) } else { Err("the audit is gone".into()) };
    };
    let verified = audit.verify(&ArchiveLookup::default(), &mut |_| ()).map_err(|error| failed(&error))?;
    if !verified.problems.is_empty() {
        return Err(format!("the audit: {:?}", verified.problems));
    }
    let wanted = done.iter().filter(|step| step.changes() && step.lasts()).count();
    let mut records = 0;
    let count = &mut |entry: &AuditEntry| {
        records += usize::from(entry.operation.is_some());
        ControlFlow::Continue(())
    };
    audit.each(&AuditQuery::default(), count).map_err(|error| failed(&error))?;
    if records < wanted {
        return Err(format!("the audit: {records} records of changes are left, and {wanted} were answered"));
    }
    Ok(())
}

fn judge_backup(file: &Path) -> Result<(), String> {
    if !file.exists() {
        return Err("it is gone".into());
    }
    let verify = || {
        let database = Database::open(file, DatabaseOptions::default())?;
        Ok::<_, stead::StoreError>((database.latest_revision()?, database.verify(&mut |_| ())?))
    };
    let (version, verified) = verify().map_err(|error| error.to_string())?;
    if version.0 == 0 || !verified.problems.is_empty() {
        return Err(format!("version {version}, {verified:?}"));
    }
    Ok(())
}

/// All files of the stead's Workspace.
pub(crate) fn files(stead: &Stead) -> Result<Files, String> {
    let vfs = stead.vfs();
    let walked = vfs.walk("/w", &WalkQuery::default()).map_err(|error| format!("listing: {error}"))?;
    let mut files = Files::new();
    for entry in walked.entries.into_iter().filter(|entry| entry.kind == NodeKind::File) {
        let read = vfs.read(&*entry.path).map_err(|error| format!("reading {}: {error}", entry.path))?;
        files.insert(entry.path, read.bytes);
    }
    Ok(files)
}

fn difference(wanted: &Files, found: &Files) -> String {
    let size = |files: &Files, path: &String| files.get(path).map(Vec::len);
    let paths = wanted.keys().chain(found.keys()).collect::<HashSet<_>>();
    let differing = paths.into_iter().filter(|path| wanted.get(*path) != found.get(*path)).map(|path| {
        format!(
            "{path} has {:?} bytes, not the {:?} that it should have",
            size(found, path),
            size(wanted, path)
        )
    });
    differing.collect::<Vec<_>>().join("; ")
}
