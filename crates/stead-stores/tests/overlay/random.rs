//! Random runs: a fork of a directory behaves like a fork of a volume with the same content, agrees with the model, and never changes
//! the directory.

use std::sync::Arc;

use stead_core::edit::Occurrences;
use stead_core::store::{
    Change, Content, DisplacedContent, IfMissing, Parents, Precondition, PutOptions, QuotaLimits, QuotaRoot,
    Replace, Step, StorePath, Subtree,
};
use stead_core::testkit::{model_run, snapshot_of};
use stead_core::{Edit, Store};

use crate::{Site, assert_sound, change, clear, essence, fork_of, node_path, read, write};

/// How many runs there are, and how many steps each has.
fn runs_and_steps() -> (u64, usize) {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { (60, 400) } else { (6, 120) }
}

/// A small generator of numbers, the same for each seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn path(&mut self) -> String {
        let names = ["a", "b", "c", "D"];
        let depth = 1 + self.below(3);
        (0..depth).map(|_| names[self.below(names.len())]).collect::<Vec<_>>().join("/")
    }

    fn step(&mut self) -> StepPlan {
        StepPlan {
            kind: self.below(9),
            one: self.path(),
            other: self.path(),
            choice: self.below(3),
            text: self.below(1_000).to_string(),
        }
    }
}

/// A step that can be made for two Stores.
#[derive(Debug)]
struct StepPlan {
    kind: usize,
    one: String,
    other: String,
    choice: usize,
    text: String,
}

impl StepPlan {
    fn step(&self) -> Step {
        let (at, to) = (node_path(&self.one), node_path(&self.other));
        let replace = [Replace::Refuse, Replace::Overwrite, Replace::Exchange][self.choice];
        let parents = if self.choice == 0 { Parents::Required } else { Parents::Create };
        let content = Content::Bytes(self.text.as_bytes().to_vec());
        let options = PutOptions { parents, ..PutOptions::default() };
        match self.kind {
            0 | 1 => Step::Write { at, content, options },
            2 => Step::Append { at, content, options },
            3 => Step::Mkdir { at, parents, mode: None },
            4 => Step::Symlink { at, target: b"a/b".to_vec(), parents, expect: Precondition::Any },
            5 => Step::Remove {
                at,
                subtree: [Subtree::Any, Subtree::EmptyDirectory, Subtree::File][self.choice],
                expect: Precondition::Any,
                if_missing: if self.choice == 2 { IfMissing::Ignore } else { IfMissing::Fail },
                protected: None,
                displaced: DisplacedContent::Keep,
            },
            6 => Step::Rename {
                from: at,
                to,
                replace,
                parents,
                expect: Precondition::Any,
                protected: [None, None],
            },
            7 => {
                let replace = if self.choice == 2 { Replace::Overwrite } else { replace };
                Step::Copy {
                    from: at,
                    to,
                    replace,
                    parents,
                    protected: None,
                    displaced: DisplacedContent::Keep,
                }
            }
            _ => Step::SetAttr { at, mode: Some(0o600 + 0o40 * self.choice as u32), modified: None },
        }
    }
}

fn enable_counting(store: &dyn Store) {
    let limits = QuotaLimits { bytes: Some(1 << 40), ..QuotaLimits::default() };
    let quota_root = QuotaRoot::new(StorePath::empty(), limits);
    store.apply(Change { quotas: vec![quota_root], ..change(Vec::new()) }).unwrap();
}

#[test]
fn g3_a_fork_of_a_directory_behaves_like_a_fork_of_a_volume_and_the_base_never_changes() {
    let (runs, steps) = runs_and_steps();
    for seed in 1..=runs {
        let site = Site::new();
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let base = site.database.store(["base"]).unwrap();
        for _ in 0..40 {
            let plan = StepPlan { kind: 0, choice: 1, ..random.step() };
            // The same content in the volume and, through its Store, in the directory.
            let results = [&base as &dyn Store, &*site.store]
                .map(|store| store.apply(change(vec![plan.step()])).is_ok());
            assert_eq!(results[0], results[1]);
        }
        let before = site.host_tree();
        let mut ours: Arc<dyn Store> = site.fork("ours");
        let mut expected: Arc<dyn Store> = Arc::new(base.fork_as(["expected"]).unwrap());
        if seed % 2 == 0 {
            enable_counting(&*ours);
        }
        for number in 0..steps {
            let plans: Vec<_> = (0..1 + random.below(3)).map(|_| random.step()).collect();
            let result = |store: &dyn Store| {
                let applied = store.apply(change(plans.iter().map(StepPlan::step).collect()));
                applied
                    .map(|applied| {
                        applied
                            .outcomes
                            .iter()
                            .map(|outcome| (outcome.created, outcome.attr.map(|attr| (attr.kind, attr.size))))
                            .collect::<Vec<_>>()
                    })
                    .map_err(|error| error.kind())
            };
            let results = [&*ours, &*expected].map(result);
            assert_eq!(results[0], results[1], "seed {seed}, change {number}: {plans:?}");
            assert_eq!(
                snapshot_of(&*ours),
                snapshot_of(&*expected),
                "seed {seed}, change {number}: {plans:?}"
            );
            crate::assert_searches_what_it_shows(&*ours);
            if number % 40 == 39 {
                let name = format!("{number}");
                ours = fork_of(&ours, &name);
                expected = expected
                    .forks()
                    .unwrap()
                    .fork(
                        Arc::clone(&expected),
                        &stead_core::store::Fork { owner: "expected".into(), ..crate::fork_record(&name) },
                    )
                    .unwrap();
            }
        }
        assert_eq!(essence(&site.host_tree()), essence(&before), "seed {seed}: the base has changed");
        assert_sound(&*ours);
    }
}

#[test]
fn forks_of_directories_agree_with_the_model() {
    let (runs, steps) = runs_and_steps();
    for seed in 500..500 + runs.min(20) {
        let site = Site::new();
        for name in ["a", "b", "c", "d", "e"] {
            site.put(&format!("{name}/{name}"), "base");
            site.put(&format!("{name}.txt"), "base");
        }
        let before = site.host_tree();
        let fork = site.fork("one");
        clear(&*fork);
        enable_counting(&*fork);
        model_run(Arc::clone(&fork), seed, steps * 2, |_| ());
        assert_eq!(essence(&site.host_tree()), essence(&before), "seed {seed}: the base has changed");
        assert_sound(&*fork);
    }
}

#[test]
fn g2_whatever_happens_to_the_base_the_forks_own_files_stay() {
    let (runs, steps) = runs_and_steps();
    for seed in 1..=runs {
        let site = Site::new();
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        for _ in 0..30 {
            let plan = StepPlan { kind: 0, choice: 1, ..random.step() };
            let _ = site.store.apply(change(vec![plan.step()]));
        }
        let fork = site.fork("one");
        let mut own = std::collections::BTreeMap::new();
        for number in 0..steps {
            let (path, text) = (random.path(), number.to_string());
            let step = crate::write_step(&path, &text, Precondition::Any);
            if fork.apply(change(vec![step])).is_ok() {
                own.insert(path, text);
            }
            // A host program does anything to the base.
            let host = site.host_path(&random.path());
            match random.below(5) {
                0 => drop(std::fs::write(&host, "host")),
                1 => drop(std::fs::create_dir_all(&host)),
                2 => drop(std::fs::remove_file(&host)),
                3 => drop(std::fs::remove_dir_all(&host)),
                _ => drop(std::fs::rename(&host, site.host_path(&random.path()))),
            }
            crate::assert_searches_what_it_shows(&*fork);
            for (path, text) in &own {
                assert_eq!(
                    read(&*fork, path).as_deref().ok(),
                    Some(text.as_str()),
                    "seed {seed}, step {number}: {path}"
                );
            }
        }
        assert_sound(&*fork);
    }
}

#[test]
fn threads_that_change_one_fork_lose_nothing() {
    let site = Site::new();
    for number in 0..8 {
        site.put(&format!("d/{number}"), "base\n");
    }
    let fork = site.fork("one");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let fork = &fork;
            scope.spawn(move || {
                for number in 0..8 {
                    let (at, edit) = (
                        node_path(&format!("d/{number}")),
                        Edit::new("base\n", format!("base\n{thread}\n"), Occurrences::One).unwrap(),
                    );
                    let expect = Precondition::Any;
                    fork.apply(change(vec![Step::Edit {
                        at,
                        edit,
                        expect,
                        displaced: DisplacedContent::Keep,
                    }]))
                    .unwrap();
                    write(&**fork, &format!("own/{thread}/{number}"), "1");
                }
            });
        }
    });
    for number in 0..8 {
        let mut lines: Vec<_> =
            read(&*fork, &format!("d/{number}")).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["0", "1", "2", "3", "base"]);
    }
    assert_sound(&*fork);
}
