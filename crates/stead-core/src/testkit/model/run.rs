//! Runs random steps on a Store and on the model, and compares the two after every step.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use fastrand::Rng;

use super::handles::{DraftHandle, OpenHandle};
use super::script::{RandomStep, StepGenerator, StepTiming};
use super::{ModelBody, ModelTree, ROOT, TreeSnapshot, snapshot_of};
use crate::clock::Timestamp;
use crate::glob::PathGlobs;
use crate::name::Name;
use crate::search::{Grep, GrepQuery, WalkOptions};
use crate::store::{
    Attr, NodeKind, NodePath, Page, RevisionNumber, Step, StepOutcome, Store, StoreError, StorePath,
    StoreResult,
};
use crate::testkit::suite::subject::change;

/// Applies `steps` random steps to an empty Store and to the model, by path as tools do and by handle as a mounted file
/// system does. After each step, compares the results and the whole content of both.
///
/// `check` is called after every step with the model's content. The caller can save it, to read the Store's older
/// revisions later and compare.
///
/// # Panics
///
/// If they disagree. The message has the seed, and the last steps are printed; the same seed repeats the same run.
pub fn model_run(store: Arc<dyn Store>, seed: u64, steps: usize, mut check: impl FnMut(&TreeSnapshot)) {
    model_run_over(store, seed, steps, |snapshot| {
        check(snapshot);
        None
    });
}

/// Like [`model_run`], but over several Stores in turn: whenever `check` returns a Store, the run continues on that
/// one. It has to hold the same content under the same node ids. Open files and drafts stay open.
///
/// # Panics
///
/// If they disagree.
pub fn model_run_over(
    store: Arc<dyn Store>,
    seed: u64,
    steps: usize,
    mut check: impl FnMut(&TreeSnapshot) -> Option<Arc<dyn Store>>,
) {
    let recent_steps = RecentSteps { seed, steps: VecDeque::new() };
    let mut run = ModelRun {
        store,
        tree: ModelTree::new(),
        rng: Rng::with_seed(seed),
        open: Vec::new(),
        drafts: Vec::new(),
        recent_steps,
    };
    assert!(snapshot_of(&*run.store).is_empty(), "a model run starts with an empty Store");
    for _ in 0..steps {
        run.random_step();
        let model = run.tree.snapshot();
        run.compare("the whole content", snapshot_of(&*run.store), model.clone());
        if let Some(next_store) = check(&model) {
            run.record_step("the run goes on with another Store".into());
            run.store = next_store;
            run.compare("the whole content of the next Store", snapshot_of(&*run.store), model);
        }
    }
    if let Some(maintenance) = run.store.maintenance() {
        let verified = maintenance.verify(&mut |_| ()).expect("the Store can be verified");
        run.compare("the problems that verify finds", verified.problems, Vec::new());
    }
}

/// The last steps. They are printed on a panic, also if the Store panics.
struct RecentSteps {
    seed: u64,
    steps: VecDeque<String>,
}

impl Drop for RecentSteps {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("The last steps of the run with the seed {}:", self.seed);
            for step in &self.steps {
                eprintln!("  {step}");
            }
        }
    }
}

pub(super) struct ModelRun {
    pub(super) store: Arc<dyn Store>,
    pub(super) tree: ModelTree,
    pub(super) rng: Rng,
    pub(super) open: Vec<OpenHandle>,
    pub(super) drafts: Vec<DraftHandle>,
    recent_steps: RecentSteps,
}

impl ModelRun {
    fn random_step(&mut self) {
        match self.rng.u8(..100) {
            0..=44 => {
                let op = self.generator().next_step();
                self.change(vec![op]);
            }
            45..=52 => self.change_of_several_steps(),
            53..=62 => self.compare_lookup(),
            63..=65 => self.compare_list(),
            66..=68 => self.compare_walk(),
            69..=70 => self.compare_grep(),
            71..=75 => self.open(),
            76..=80 => self.read_open(),
            81..=85 => self.start_draft(),
            86..=93 => self.write_draft(),
            94..=98 => self.commit_draft(),
            _ => self.close(),
        }
        self.mark_stale_handles();
    }

    pub(super) fn generator(&mut self) -> StepGenerator<'_> {
        StepGenerator { rng: &mut self.rng, tree: &self.tree, timing: StepTiming::Now }
    }

    fn change_of_several_steps(&mut self) {
        let mut after = self.tree.clone();
        let mut ops = Vec::new();
        for _ in 0..self.rng.usize(2..=5) {
            let op =
                StepGenerator { rng: &mut self.rng, tree: &after, timing: StepTiming::Later }.next_step();
            let step = op.step(&|path| stat_model(&after, path));
            let failed = after.apply(vec![step], Timestamp::default(), RevisionNumber(0)).is_err();
            ops.push(op);
            if failed {
                break;
            }
        }
        self.change(ops);
    }

    fn change(&mut self, ops: Vec<RandomStep>) {
        self.record_step(format!("change {ops:?}"));
        let in_store: Vec<Step> = ops.iter().map(|op| op.step(&|path| self.store.stat(path).ok())).collect();
        let in_model: Vec<Step> =
            ops.iter().map(|op| op.step(&|path| stat_model(&self.tree, path))).collect();
        let store_outcomes = self.store.apply(change(in_store)).map(|applied| applied.outcomes);
        let model_outcomes = self
            .tree
            .apply(in_model, Timestamp::default(), RevisionNumber(0))
            .map(|applied| applied.outcomes);
        let comparable = |outcomes: Vec<StepOutcome>| {
            let pairs = outcomes.into_iter().zip(&ops);
            pairs
                .map(|(outcome, op)| {
                    let created = op.can_create() && outcome.created;
                    (outcome.attr.map(comparable_attr), created, outcome.replaced)
                })
                .collect::<Vec<_>>()
        };
        self.compare(
            "the answer",
            comparable_result(store_outcomes.map(&comparable)),
            comparable_result(model_outcomes.map(&comparable)),
        );
    }

    /// Compares stat, read and read_link at one path.
    fn compare_lookup(&mut self) {
        let spec = self.generator().random_spec();
        self.record_step(format!("stat, read and read_link {spec:?}"));
        let store_path = spec.resolve(&|path| self.store.stat(path).ok());
        let model_path = spec.resolve(&|path| stat_model(&self.tree, path));
        let tree = &self.tree;
        let model_attr = tree.find(&model_path).map(|id| comparable_attr(tree.attr(id)));
        self.compare(
            "stat",
            comparable_result(self.store.stat(&store_path).map(comparable_attr)),
            comparable_result(model_attr),
        );
        let model_bytes = tree.file(&model_path).map(|(_, bytes)| bytes.to_vec());
        let store_bytes = self.store.read(&store_path, u64::MAX).map(|file| file.bytes);
        self.compare("read", comparable_result(store_bytes), comparable_result(model_bytes));
        if stat_model(tree, &model_path).is_none_or(|attr| attr.kind == NodeKind::Symlink) {
            let model_target = tree.link(&model_path).map(<[u8]>::to_vec);
            self.compare(
                "read_link",
                comparable_result(self.store.read_link(&store_path)),
                comparable_result(model_target),
            );
        }
    }

    fn compare_list(&mut self) {
        let path = if self.rng.u8(..4) == 0 { StorePath::empty() } else { self.generator().random_path() };
        let after = self
            .rng
            .bool()
            .then(|| Name::new(*self.rng.choice([b"a", b"b", b"c"]).expect("three")))
            .flatten();
        let limit = self.rng.usize(1..6);
        self.record_step(format!("list {path} after {after:?}, {limit}"));
        let page = Page { after, limit, ..Page::ALL };
        let in_store = self.store.list(&NodePath::from_root(path.clone()), &page).map(|listing| {
            let names: Vec<_> = listing.entries.iter().map(|entry| entry.name.as_bytes().to_vec()).collect();
            (names, listing.total, listing.more)
        });
        let in_model = self.tree.directory(&NodePath::from_root(path)).map(|(_, names)| {
            let after = page.after.as_ref().map(Name::as_bytes);
            let rest: Vec<_> =
                names.keys().filter(|name| after.is_none_or(|after| &name[..] > after)).collect();
            let page: Vec<_> = rest.iter().take(limit).map(|name| name.to_vec()).collect();
            (page, names.len() as u64, rest.len() > limit)
        });
        self.compare("list", comparable_result(in_store), comparable_result(in_model));
    }

    fn compare_walk(&mut self) {
        let path = self.generator().random_path();
        let skip = vec![StorePath::from_checked(self.rng.choice(["a", "b", "a/b", "c/d"]).expect("four"))];
        let depth = self.rng.usize(1..4);
        self.record_step(format!("walk {path}, {depth} deep, without {skip:?}"));
        let walk = WalkOptions { depth, skip, ..WalkOptions::default() };
        let mut in_store = Vec::new();
        let visit = &mut |entry: crate::store::WalkEntry| {
            in_store.push((entry.path, comparable_attr(entry.attr)));
            ControlFlow::Continue(())
        };
        let result = self.store.walk(&NodePath::from_root(path.clone()), &walk, visit).map(|()| in_store);
        let in_model = self.tree.directory(&NodePath::from_root(path)).map(|(top, _)| {
            let mut nodes = self.tree.descendants(top);
            nodes.retain(|(path, _)| path.depth() <= depth && !path.is_at_or_below(&walk.skip[0]));
            nodes
                .into_iter()
                .map(|(path, id)| (path, comparable_attr(self.tree.attr(id))))
                .collect::<Vec<_>>()
        });
        self.compare("walk", comparable_result(result), comparable_result(in_model));
    }

    fn compare_grep(&mut self) {
        let letters = [self.rng.lowercase(), self.rng.lowercase()];
        let pattern: String = letters.into_iter().collect();
        self.record_step(format!("grep {pattern}"));
        let grep = Grep::new(&GrepQuery::new(pattern), None, PathGlobs::none())
            .expect("letters are a valid pattern");
        let mut in_store = BTreeMap::new();
        let visit = &mut |file_hits: crate::search::FileHits| {
            in_store.insert(file_hits.path, file_hits.hits);
            ControlFlow::Continue(())
        };
        let result = self.store.grep(&NodePath::root(), &grep, visit).map(|()| in_store);
        let mut searcher = grep.searcher();
        let hits =
            self.tree.descendants(ROOT).into_iter().filter_map(|(path, id)| match self.tree.body(id) {
                Some(ModelBody::File(bytes)) => Some((path, searcher.search(bytes)?)),
                _ => None,
            });
        let in_model: BTreeMap<_, _> = hits.collect();
        self.compare("grep", comparable_result(result), comparable_result(Ok(in_model)));
    }

    pub(super) fn record_step(&mut self, step: String) {
        self.recent_steps.steps.push_back(step);
        if self.recent_steps.steps.len() > 30 {
            self.recent_steps.steps.pop_front();
        }
    }

    #[track_caller]
    pub(super) fn compare<T: PartialEq + std::fmt::Debug>(&self, subject: &str, store: T, model: T) {
        if store != model {
            let text = |value| truncate_text(format!("{value:?}"));
            let (store, model) = (text(store), text(model));
            panic!(
                "the Store and the model disagree on {subject}, seed {}:\n  Store: {store}\n  model: {model}",
                self.recent_steps.seed
            );
        }
    }
}

pub(super) fn stat_model(tree: &ModelTree, path: &NodePath) -> Option<Attr> {
    tree.find(path).ok().map(|id| tree.attr(id))
}

/// The attributes that all Stores agree on.
pub(super) fn comparable_attr(attr: Attr) -> (NodeKind, u64, u32) {
    let mode = if attr.kind == NodeKind::Symlink { 0 } else { attr.mode };
    (attr.kind, attr.size, mode)
}

/// A result in comparable form: the value, or the kind of error.
pub(super) fn comparable_result<T>(result: StoreResult<T>) -> Result<T, String> {
    result.map_err(|error| match error {
        StoreError::Invalid(_) => "Invalid".to_owned(),
        StoreError::Unavailable { .. } => "Unavailable".to_owned(),
        other => format!("{other:?}"),
    })
}

fn truncate_text(mut text: String) -> String {
    if text.len() > 4_000 {
        text.truncate(text.floor_char_boundary(4_000));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::testkit::suite::subject::write;
    use crate::testkit::{Fault, FaultyStore, ModelStore};

    #[test]
    fn the_model_agrees_with_itself() {
        for seed in 0..4 {
            let mut checks = 0;
            model_run(Arc::new(ModelStore::new()), seed, 400, |_| checks += 1);
            assert_eq!(checks, 400);
        }
    }

    /// One lost call is enough to be detected, wherever it occurs.
    #[test]
    fn a_store_that_fails_once_is_detected() {
        for call in [10, 60, 200] {
            for fault in [Fault::Before(call), Fault::After(call), Fault::From(call)] {
                let store = Arc::new(FaultyStore::new(Arc::new(ModelStore::new()), fault));
                let run = AssertUnwindSafe(|| model_run(store, 7, 400, |_| ()));
                assert!(catch_unwind(run).is_err(), "{fault:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "the Store and the model disagree on the whole content, seed 7")]
    fn a_store_that_changes_by_itself_is_detected() {
        let store = Arc::new(ModelStore::new());
        let (same_store, mut steps) = (store.clone(), 0);
        model_run(store, 7, 400, |_| {
            steps += 1;
            if steps == 100 {
                same_store.apply(change(vec![write("meddled", "1")])).unwrap();
            }
        });
    }
}
