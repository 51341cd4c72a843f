//! What is recorded: which Store, and which steps in which runs of the program.

use std::fs;
use std::process::Command;

use stead::{Clock, SystemClock};

use crate::disk::{Fate, Image};
use crate::is_long;
use crate::recording::{Recording, TELLS, TOP, record};
use crate::steps::{BEFORE_THE_LAST_RUN, Files, Step, steps};
use crate::tmpfs::{Tmpfs, moved_along};

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

    pub(crate) fn given() -> Self {
        let name = std::env::var(PLAN).expect("started by one of the tests here");
        Plan::ALL.into_iter().find(|plan| format!("{plan:?}") == name).unwrap()
    }

    /// The steps of each run. The last run is recorded.
    pub(crate) fn runs(self) -> Vec<Vec<Step>> {
        let write = |at, text: &str| Step::Write(at, text.as_bytes().to_vec());
        match self {
            Plan::Virtual | Plan::Physical => vec![steps(is_long())],
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
                let all = [("/w/a", "new"), ("/w/new/c", "new"), ("/w/b", "new")];
                let all = all.map(|(at, text)| (at, text.as_bytes().to_vec())).to_vec();
                vec![
                    vec![write("/w/a", "old"), write("/w/b", "old"), Step::Batch(all)],
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
            step.leaves(&mut files);
            states.push(files);
        }
        let ended = !matches!(self, Plan::RecoveredBatch | Plan::RecoveredAppend);
        states.split_off(states.len() - if ended { 1 } else { 2 })
    }

    /// What a run leaves that is interrupted in the middle of its last step.
    fn interrupted(self, recording: &Recording) -> Image {
        let [.., begin, end, _] = recording.told[..] else { panic!("a run has two steps, and ends") };
        let (disk, is_kept) = (&recording.disk, |_| Fate::Kept);
        let lines = disk.lines().into_iter().filter(|line| (begin.0..end.0).contains(line));
        let size = |image: &Image, path: &str| image.entries.get(path).map_or(0, |entry| entry.content.len());
        for line in lines {
            let image = disk.cut(line, is_kept);
            match self {
                Plan::RecoveredBatch if size(&image, "project/new/c") > 0 => return image,
                Plan::RecoveredAppend if size(&image, "project/a") > 3 => {
                    let torn = (0..).map(|seed| disk.cut(line, |_| Fate::Torn(seed)));
                    let is_torn = |image: &Image| (4..6_003).contains(&size(image, "project/a"));
                    return torn.take(100).find(is_torn).expect("half of all seeds tear it");
                }
                _ => {}
            }
        }
        panic!("the step leaves nothing half done");
    }

    /// Records the last run of the plan.
    pub(crate) fn recorded(self, variables: &[(&str, &str)]) -> Recording {
        let tmpfs = Tmpfs::new();
        let store = if self.is_physical() { "physical\"\npath = \"project" } else { "virtual" };
        let audit = if self.is_audited() { "" } else { "[audit]\nenabled = false\n" };
        let workspace = "[[agents.a.workspaces]]\nprefix = \"/w\"\nscope = \"rw\"\nstore = \"s\"\n";
        let text = format!("{audit}[stores.s]\nkind = \"{store}\"\n{workspace}");
        fs::create_dir(tmpfs.path().join("project")).unwrap();
        fs::write(tmpfs.path().join("stead.toml"), text).unwrap();
        let program = std::env::current_exe().unwrap();
        let arguments = ["--ignored", "--exact", "the_recorded_program", "--nocapture"];
        let last = self.runs().len() - 1;
        let mut before = String::new();
        if let Plan::RecoveredBatch | Plan::RecoveredAppend = self {
            let plan = format!("{self:?}");
            let first = record(&tmpfs, &program, &arguments, &[(PLAN, &plan), (RUN, "0")]);
            let tmpfs = Tmpfs::with(&self.interrupted(&first));
            moved_along(tmpfs.path());
            let mut all = vec![(PLAN, &*plan), (RUN, "1")];
            all.extend(variables);
            return record(&tmpfs, &program, &arguments, &all);
        }
        for run in 0..last {
            before = SystemClock.now().0.to_string();
            let mut command = Command::new(&program);
            command.args(arguments).env(PLAN, format!("{self:?}")).env(RUN, run.to_string());
            command.env(TELLS, "/dev/null").env(TOP, tmpfs.path());
            assert!(command.output().unwrap().status.success(), "run {run} failed");
        }
        let (plan, run) = (format!("{self:?}"), last.to_string());
        let mut all = vec![(PLAN, &*plan), (RUN, &*run), (BEFORE_THE_LAST_RUN, &*before)];
        all.extend(variables);
        record(&tmpfs, &program, &arguments, &all)
    }
}
