//! Checks the disk image that a power cut has left: everything that was acknowledged is there, and complete.

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
use crate::tmpfs::{Tmpfs, rename_staging_area};

/// Returns an error if something is wrong. `acknowledged` is how many steps had been acknowledged; one more means that the
/// program had ended.
pub(crate) fn check_image(
    plan: Plan,
    steps: &[Step],
    acknowledged: u64,
    image: &Image,
) -> Result<(), String> {
    let acknowledged = usize::try_from(acknowledged).unwrap();
    let has_ended = acknowledged > steps.len();
    let acknowledged_steps = &steps[..acknowledged.min(steps.len())];
    if plan.is_audited() {
        check_audit_files(plan, !acknowledged_steps.is_empty(), has_ended, image)?;
    }
    let tmpfs = Tmpfs::with(image);
    rename_staging_area(tmpfs.path());
    let config = config(tmpfs.path());
    let stores = Stores::of(&config);
    let stead =
        Stead::open_in(&stores, &Identity::agent("a")).map_err(|error| format!("opening: {error}"))?;
    let found = files(&stead)?;
    let results: Vec<_> = plan
        .before()
        .into_iter()
        .map(|before| check_files(plan, before, steps, acknowledged_steps.len(), &found))
        .collect();
    if results.iter().all(Result::is_err) {
        return results.into_iter().next().expect("the plan has a first state");
    }
    for (name, verified) in stores.verify(&mut |_, _| ()).map_err(|error| format!("verifying: {error}"))? {
        if !verified.problems.is_empty() {
            return Err(format!("{name}: {:?}", verified.problems));
        }
    }
    if plan.is_audited() {
        check_audit(&stores, acknowledged_steps)?;
    }
    let expected_tokens = acknowledged_steps.iter().filter(|step| matches!(step, Step::Token)).count();
    let found_tokens = Tokens::of(&config).list().map_err(|error| format!("the tokens: {error}"))?.len();
    if found_tokens < expected_tokens {
        return Err(format!("{found_tokens} of {expected_tokens} tokens are there"));
    }
    for step in acknowledged_steps {
        if let Step::Backup(name) = step {
            check_backup(&tmpfs.path().join(name)).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    // The stead can still be used.
    stead.vfs().write("/w/afterwards", "x").map_err(|error| format!("writing afterwards: {error}"))?;
    Ok(())
}

pub(crate) fn config(root: &Path) -> Config {
    let file = root.join("stead.toml");
    Config::parse(&std::fs::read_to_string(&file).unwrap(), &file).unwrap()
}

fn check_files(
    plan: Plan,
    before: Files,
    steps: &[Step],
    acknowledged: usize,
    found: &Files,
) -> Result<(), String> {
    // The last step that is durable, and the step that was running.
    let durable_count = steps[..acknowledged].iter().rposition(Step::is_durable).map_or(0, |index| index + 1);
    let mut states = vec![before];
    for step in &steps[..(acknowledged + 1).min(steps.len())] {
        let mut files = states.last().unwrap().clone();
        step.apply_to(&mut files);
        states.push(files);
    }
    // A file in a host directory that wasn't synced may be in any state that programs can leave.
    let unsynced = steps[durable_count..states.len() - 1].iter().find_map(|step| match step {
        Step::Flush(path, ..) if plan.is_physical() => Some(*path),
        _ => None,
    });
    let without_unsynced = |files: &Files| {
        let remaining = files.iter().filter(|(path, _)| Some(&***path) != unsynced);
        remaining.map(|(path, bytes)| (path.clone(), bytes.clone())).collect::<Files>()
    };
    if states[durable_count..].iter().any(|state| without_unsynced(state) == without_unsynced(found)) {
        return Ok(());
    }
    Err(format!("after step {acknowledged}: {}", difference(&states[durable_count], found)))
}

/// Checks the files that have to be next to the database.
fn check_audit_files(plan: Plan, has_begun: bool, has_ended: bool, image: &Image) -> Result<(), String> {
    let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
    let content = |path: &str| image.entries.get(path).map(|entry| text(&entry.content));
    if has_begun && content(".stead/audit/key").is_none_or(|key| key.trim_end().len() != 64) {
        return Err("the key of the audit is missing".into());
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
    let expected = match plan {
        Plan::Archived => 1 + usize::from(has_ended),
        _ => usize::from(has_ended),
    };
    if heads < expected {
        return Err(format!("{heads} of {expected} signed heads of the audit are there"));
    }
    Ok(())
}

fn check_audit(stores: &Stores, acknowledged_steps: &[Step]) -> Result<(), String> {
    let audit_error = |error: &dyn std::fmt::Display| format!("the audit: {error}");
    let Some(audit) = stores.audit_access().map_err(|error| audit_error(&error))? else {
        return if acknowledged_steps.is_empty() { Ok(()) } else { Err("the audit is missing".into()) };
    };
    let verified =
        audit.verify(&ArchiveLookup::default(), &mut |_| ()).map_err(|error| audit_error(&error))?;
    if !verified.problems.is_empty() {
        return Err(format!("the audit: {:?}", verified.problems));
    }
    let expected = acknowledged_steps.iter().filter(|step| step.is_change() && step.is_durable()).count();
    let mut records = 0;
    let count = &mut |entry: &AuditEntry| {
        records += usize::from(entry.operation.is_some());
        ControlFlow::Continue(())
    };
    audit.each(&AuditQuery::default(), count).map_err(|error| audit_error(&error))?;
    if records < expected {
        return Err(format!(
            "the audit has {records} records of changes, but {expected} changes were acknowledged"
        ));
    }
    Ok(())
}

fn check_backup(file: &Path) -> Result<(), String> {
    if !file.exists() {
        return Err("the backup is missing".into());
    }
    let verify = || {
        let database = Database::open(file, DatabaseOptions::default())?;
        Ok::<_, stead::StoreError>((database.latest_revision()?, database.verify(&mut |_| ())?))
    };
    let (revision, verified) = verify().map_err(|error| error.to_string())?;
    if revision.0 == 0 || !verified.problems.is_empty() {
        return Err(format!("version {revision}, {verified:?}"));
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

fn difference(expected: &Files, found: &Files) -> String {
    let size = |files: &Files, path: &String| files.get(path).map(Vec::len);
    let paths = expected.keys().chain(found.keys()).collect::<HashSet<_>>();
    let differences = paths.into_iter().filter(|path| expected.get(*path) != found.get(*path)).map(|path| {
        format!(
            "{path} has {:?} bytes, not the {:?} that it should have",
            size(found, path),
            size(expected, path)
        )
    });
    differences.collect::<Vec<_>>().join("; ")
}
