//! What is recorded: which Store, and which steps in which runs of the program.

use std::fs;
use std::process::Command;

use stead::{Clock, SystemClock};

use crate::disk::{Fate, Image};
use crate::is_long_run;
use crate::recording::{REPORT_FILE, Recording, TOP, record};
use crate::steps::{BEFORE_THE_LAST_RUN, Files, Step, steps};
use crate::tmpfs::{Tmpfs, rename_staging_area};

/// The environment variable that names the plan which the recorded program follows.
pub(crate) const PLAN: &str = "STEAD_POWERCUT_PLAN";
/// The environment variable with the number of the run.
pub(crate) const RUN: &str = "STEAD_POWERCUT_RUN";

/// A plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// All steps, on a database.
    Virtual,
    /// All steps, on a directory.
    Physical,
    /// On an existing database: only deferred changes, and then a sync.
    Deferred,
    /// Two runs with an audit, and a third run that archives the audit of the first.
    Archived,
    /// On a directory in which a run was interrupted in the middle of a change of several files.
    RecoveredBatch,
    /// On a directory in which a run was interrupted in the middle of an append.
    RecoveredAppend,
}

impl Plan {
    const ALL: [Plan; 6] = [
        Plan::Virtual,
        Plan::Physical,
        Plan::Deferred,
        Plan::Archived,
        Plan::RecoveredBatch,
        Plan::RecoveredAppend,
    ];

    pub(crate) fn from_environment() -> Self {
        let name = std::env::var(PLAN).expect("one of the tests starts this process");
        Plan::ALL.into_iter().find(|plan| format!("{plan:?}") == name).unwrap()
    }

    /// The steps of each run. The last run is recorded.
    pub(crate) fn runs(self) -> Vec<Vec<Step>> {
        let write = |path, text: &str| Step::Write(path, text.as_bytes().to_vec());
        match self {
            Plan::Virtual | Plan::Physical => vec![steps(is_long_run())],
            Plan::Deferred => vec![
                vec![write("/w/a", "before")],
                vec![Step::Flush("/w/a", 0, b"after!".to_vec()), Step::Sync("/w/a")],
            ],
            Plan::Archived => vec![
                vec![write("/w/a", "first"), write("/w/a", "again")],
                vec![write("/w/b", "second")],
                vec![Step::Archive, write("/w/c", "third")],
            ],
            Plan::RecoveredBatch => {
                let files = [("/w/a", "new"), ("/w/new/c", "new"), ("/w/b", "new")];
                let files = files.map(|(path, text)| (path, text.as_bytes().to_vec())).to_vec();
                vec![
                    vec![write("/w/a", "old"), write("/w/b", "old"), Step::Batch(files)],
                    vec![write("/w/d", "recovered")],
                ]
            }
            Plan::RecoveredAppend => vec![
                vec![write("/w/a", "old"), Step::Append("/w/a", b"x".repeat(6_000))],
                vec![Step::Append("/w/a", b"recovered".to_vec())],
            ],
        }
    }

    pub(crate) fn is_audited(self) -> bool {
        // The audit syncs the database whenever it signs, which would hide what only the change itself has to sync.
        self != Plan::Deferred
    }

    pub(crate) fn is_physical(self) -> bool {
        matches!(self, Plan::Physical | Plan::RecoveredBatch | Plan::RecoveredAppend)
    }

    /// The files that may be there before the recorded run: one state, or two if a change was interrupted.
    pub(crate) fn before(self) -> Vec<Files> {
        let mut runs = self.runs();
        runs.pop();
        let mut states = vec![Files::new()];
        for step in runs.iter().flatten() {
            let mut files = states.last().unwrap().clone();
            step.apply_to(&mut files);
            states.push(files);
        }
        let has_ended = !matches!(self, Plan::RecoveredBatch | Plan::RecoveredAppend);
        states.split_off(states.len() - if has_ended { 1 } else { 2 })
    }

    /// What a run leaves that is interrupted in the middle of its last step.
    fn interrupted(self, recording: &Recording) -> Image {
        let [.., start, end, _] = recording.reports[..] else {
            panic!("the run didn't report two steps and its end")
        };
        let (disk, keep_all) = (&recording.disk, |_| Fate::Kept);
        let lines = disk.lines().into_iter().filter(|line| (start.0..end.0).contains(line));
        let size = |image: &Image, path: &str| image.entries.get(path).map_or(0, |entry| entry.content.len());
        for line in lines {
            let image = disk.cut(line, keep_all);
            match self {
                Plan::RecoveredBatch if size(&image, "project/new/c") > 0 => return image,
                Plan::RecoveredAppend if size(&image, "project/a") > 3 => {
                    let torn = (0..).map(|seed| disk.cut(line, |_| Fate::Torn(seed)));
                    let is_torn = |image: &Image| (4..6_003).contains(&size(image, "project/a"));
                    return torn.take(100).find(is_torn).expect("about half of all seeds tear the file");
                }
                _ => {}
            }
        }
        panic!("no power cut leaves the step half done");
    }

    /// Records the last run of the plan.
    pub(crate) fn record_last_run(self, variables: &[(&str, &str)]) -> Recording {
        let tmpfs = Tmpfs::new();
        let store = if self.is_physical() { "physical\"\npath = \"project" } else { "virtual" };
        let audit = if self.is_audited() { "" } else { "[audit]\nenabled = false\n" };
        let workspace = "[[agents.a.workspaces]]\nprefix = \"/w\"\nscope = \"rw\"\nstore = \"s\"\n";
        let text = format!("{audit}[stores.s]\nkind = \"{store}\"\n{workspace}");
        fs::create_dir(tmpfs.path().join("project")).unwrap();
        fs::write(tmpfs.path().join("stead.toml"), text).unwrap();
        let program = std::env::current_exe().unwrap();
        let arguments = ["--ignored", "--exact", "the_recorded_program", "--nocapture"];
        let last_run = self.runs().len() - 1;
        let mut last_run_start = String::new();
        if let Plan::RecoveredBatch | Plan::RecoveredAppend = self {
            let plan = format!("{self:?}");
            let first_recording = record(&tmpfs, &program, &arguments, &[(PLAN, &plan), (RUN, "0")]);
            let tmpfs = Tmpfs::with(&self.interrupted(&first_recording));
            rename_staging_area(tmpfs.path());
            let mut environment = vec![(PLAN, &*plan), (RUN, "1")];
            environment.extend(variables);
            return record(&tmpfs, &program, &arguments, &environment);
        }
        for run in 0..last_run {
            last_run_start = SystemClock.now().0.to_string();
            let mut command = Command::new(&program);
            command.args(arguments).env(PLAN, format!("{self:?}")).env(RUN, run.to_string());
            command.env(REPORT_FILE, "/dev/null").env(TOP, tmpfs.path());
            assert!(command.output().unwrap().status.success(), "run {run} failed");
        }
        let (plan, run) = (format!("{self:?}"), last_run.to_string());
        let mut environment = vec![(PLAN, &*plan), (RUN, &*run), (BEFORE_THE_LAST_RUN, &*last_run_start)];
        environment.extend(variables);
        record(&tmpfs, &program, &arguments, &environment)
    }
}
