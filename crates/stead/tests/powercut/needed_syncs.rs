//! Every sync is needed: without it, a power cut does harm.

use stead_stores::sync::SyncPoint;

use crate::plan::Plan;
use crate::tmpfs::Tmpfs;
use crate::{cuts, image_check, is_long_run};

/// How many random power cuts are tried before a sync counts as needless.
const SEEDS: u64 = 600;
/// How many recordings without a sync are checked before it counts as needless.
const RECORDINGS: usize = 12;
/// How many syncs are left out in a short run.
const SAMPLE: usize = 10;

/// What shows that a sync is needed.
enum Evidence {
    By(Plan),
    /// No test does. The text says why it is needed all the same.
    #[allow(dead_code, reason = "documentation")]
    Not(&'static str),
}

fn evidence(sync_point: SyncPoint) -> Evidence {
    use Evidence::{By, Not};
    match sync_point {
        SyncPoint::StateDirectory
        | SyncPoint::Commit
        | SyncPoint::DeferredCommits
        | SyncPoint::BackupName
        | SyncPoint::AuditDirectory
        | SyncPoint::AuditKey
        | SyncPoint::AuditKeyName
        | SyncPoint::AuditInstance
        | SyncPoint::AuditInstanceName
        | SyncPoint::AuditHead
        | SyncPoint::AuditLastHead
        | SyncPoint::AuditLastHeadName
        | SyncPoint::Tokens
        | SyncPoint::TokensName => By(Plan::Virtual),
        SyncPoint::AuditRemainingHeads
        | SyncPoint::AuditRemainingHeadsName
        | SyncPoint::AuditArchive
        | SyncPoint::AuditArchiveName => By(Plan::Archived),
        SyncPoint::StagingArea
        | SyncPoint::StagingDirectory
        | SyncPoint::NewContent
        | SyncPoint::NewTree
        | SyncPoint::NewParents
        | SyncPoint::ChangedDirectory
        | SyncPoint::WrittenFile
        | SyncPoint::ReplacedBytes
        | SyncPoint::ReplacedBytesName
        | SyncPoint::DisplacedContent
        | SyncPoint::MultipleActions
        | SyncPoint::DeferredChanges
        | SyncPoint::IntentLogName
        | SyncPoint::Intent => By(Plan::Physical),
        SyncPoint::RestoredDatabase | SyncPoint::RestoredDatabaseName => {
            Not("a database has to be lost first, and a backup restored in its place")
        }
        SyncPoint::NewestRevision | SyncPoint::NewestRevisionName => {
            Not("a database has to be lost after the power cut: the file only shows that there was one")
        }
        SyncPoint::RecoveryReport => Not("another program has to change a file between a kill and recovery"),
        SyncPoint::RevertedFile => Not("a change has to fail after it has written into a file"),
        SyncPoint::Recovered => By(Plan::RecoveredBatch),
        // The first change of the process that recovers syncs the directory of the intent log, which is removed by
        // then. A process that was there before has synced that directory already, and would acknowledge an append that
        // the same records roll back once more.
        SyncPoint::RecoveredIntentLog => {
            Not("two processes have to be there: one recovers, and the other appends")
        }
    }
}

#[test]
fn a_power_cut_does_harm_where_a_sync_is_left_out() {
    if !Tmpfs::is_possible() {
        eprintln!("SKIPPED: this host lets this user mount no tmpfs");
        return;
    }
    let mut sync_points: Vec<(SyncPoint, Plan)> = Vec::new();
    for sync_point in SyncPoint::ALL {
        if let Evidence::By(plan) = evidence(*sync_point) {
            sync_points.push((*sync_point, plan));
        }
    }
    if let Ok(name) = std::env::var("STEAD_POWERCUT_SITE") {
        sync_points.retain(|(sync_point, _)| format!("{sync_point:?}") == name);
    } else if !is_long_run() {
        fastrand::Rng::with_seed(SAMPLE as u64).shuffle(&mut sync_points);
        sync_points.truncate(SAMPLE);
    }
    let mut harmless = Vec::new();
    for (sync_point, plan) in sync_points {
        let steps = plan.runs().pop().unwrap();
        // A sync of another thread at the same time can cover for the one that is left out, so several recordings are
        // checked before a sync counts as needless.
        let mut cuts = 0;
        let harm = (0..RECORDINGS).find_map(|_| {
            let recording = plan.record_last_run(&[("STEAD_LEAVE_OUT_SYNC", &format!("{sync_point:?}"))]);
            let result = cuts::cut(&recording, 0..SEEDS, |acknowledged, image| {
                image_check::check_image(plan, &steps, acknowledged, image)
            });
            result.map(|count| cuts += count).err()
        });
        match harm {
            None => harmless.push(format!("{sync_point:?} ({cuts} power cuts)")),
            Some(harm) => println!("without {sync_point:?}: {harm}"),
        }
    }
    assert!(harmless.is_empty(), "nothing is lost without {}", harmless.join(", "));
}
