//! Runs a random script over a Store and the model, and compares the two after every step.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use fastrand::Rng;

use super::script::{Author, Moment, Op};
use super::{Body, Bytes, ROOT, Snapshot, Tree, snapshot_of};
use crate::clock::Timestamp;
use crate::glob::PathGlobs;
use crate::name::Name;
use crate::search::{Grep, GrepQuery, Walk};
use crate::store::{
    Attr, Content, Draft, DraftOf, Kind, NodeId, OpenContent, Outcome, Page, Place, Put, Step, Store,
    StoreError, StorePath, StoreResult, Version,
};
use crate::testkit::suite::subject::change;

/// How many files are open at once.
const MAX_OPEN: usize = 5;

/// Does `steps` random things to an empty Store and to the model, by path as tools do and by handle as a mounted file
/// system does, and sees after each that both agree: on the answer, and on everything they hold.
///
/// `check` is called after every step with what the model holds then, so that the caller can keep it and read the
/// Store's older versions again later.
///
/// # Panics
///
/// If they disagree. The seed and the last steps are told; the same seed does the same again.
pub fn model_run(store: Arc<dyn Store>, seed: u64, steps: usize, mut check: impl FnMut(&Snapshot)) {
    let trail = Trail { seed, steps: VecDeque::new() };
    let mut run = Run {
        store,
        tree: Tree::new(),
        rng: Rng::with_seed(seed),
        open: Vec::new(),
        drafts: Vec::new(),
        trail,
    };
    assert!(snapshot_of(&*run.store).is_empty(), "a model run starts with an empty Store");
    for _ in 0..steps {
        run.act();
        let model = run.tree.snapshot();
        run.compare("all that it holds", snapshot_of(&*run.store), model.clone());
        check(&model);
    }
    let verified = run.store.verify(&mut |_| ()).expect("a Store can be verified");
    run.compare("what is wrong with it", verified.problems, Vec::new());
}

/// What was done last. It is told when something panics, a Store included.
struct Trail {
    seed: u64,
    steps: VecDeque<String>,
}

impl Drop for Trail {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("The last steps of the run with the seed {}:", self.seed);
            for step in &self.steps {
                eprintln!("  {step}");
            }
        }
    }
}

/// A file that is open for reading, in the Store and in the model.
struct Open {
    content: Box<dyn OpenContent>,
    bytes: Arc<Vec<u8>>,
    node: NodeId,
    is_overtaken: bool,
}

/// A file that is being written, in the Store and in the model.
struct Drafting {
    draft: Box<dyn Draft>,
    bytes: Bytes,
    /// The node that it is a draft of: the Store's, the model's, and what the model's held.
    of: Option<(NodeId, NodeId, Arc<Vec<u8>>)>,
    is_overtaken: bool,
}

struct Run {
    store: Arc<dyn Store>,
    tree: Tree,
    rng: Rng,
    open: Vec<Open>,
    drafts: Vec<Drafting>,
    trail: Trail,
}

impl Run {
    fn act(&mut self) {
        match self.rng.u8(..100) {
            0..=44 => {
                let op = self.author().op();
                self.change(vec![op]);
            }
            45..=52 => self.change_of_several_steps(),
            53..=62 => self.look(),
            63..=65 => self.list(),
            66..=68 => self.walk(),
            69..=70 => self.grep(),
            71..=75 => self.open(),
            76..=80 => self.read_open(),
            81..=85 => self.start_draft(),
            86..=93 => self.write_draft(),
            94..=98 => self.commit_draft(),
            _ => self.close(),
        }
        self.see_what_was_overtaken();
    }

    fn author(&mut self) -> Author<'_> {
        Author { rng: &mut self.rng, tree: &self.tree, moment: Moment::Now }
    }

    fn change_of_several_steps(&mut self) {
        let mut after = self.tree.clone();
        let mut ops = Vec::new();
        for _ in 0..self.rng.usize(2..=5) {
            let op = Author { rng: &mut self.rng, tree: &after, moment: Moment::Later }.op();
            let step = op.step(&|place| look(&after, place));
            let failed = after.apply(vec![step], Timestamp::default(), Version(0)).is_err();
            ops.push(op);
            if failed {
                break;
            }
        }
        self.change(ops);
    }

    fn change(&mut self, ops: Vec<Op>) {
        self.note(format!("change {ops:?}"));
        let in_store: Vec<Step> =
            ops.iter().map(|op| op.step(&|place| self.store.stat(place).ok())).collect();
        let in_model: Vec<Step> = ops.iter().map(|op| op.step(&|place| look(&self.tree, place))).collect();
        let theirs = self.store.apply(change(in_store)).map(|applied| applied.outcomes);
        let ours = self.tree.apply(in_model, Timestamp::default(), Version(0)).map(|done| done.outcomes);
        let seen = |outcomes: Vec<Outcome>| {
            let pairs = outcomes.into_iter().zip(&ops);
            pairs
                .map(|(outcome, op)| {
                    let created = op.can_create() && outcome.created;
                    (outcome.attr.map(essence), created, outcome.replaced)
                })
                .collect::<Vec<_>>()
        };
        self.compare("the answer", answer(theirs.map(&seen)), answer(ours.map(&seen)));
    }

    /// Asks for something at one place.
    fn look(&mut self) {
        let at = self.author().place();
        self.note(format!("stat, read and read_link {at:?}"));
        let theirs = at.place(&|place| self.store.stat(place).ok());
        let ours = at.place(&|place| look(&self.tree, place));
        let tree = &self.tree;
        let stat = tree.find(&ours).map(|id| essence(tree.attr(id)));
        self.compare("stat", answer(self.store.stat(&theirs).map(essence)), answer(stat));
        let read = tree.file(&ours).map(|(_, bytes)| bytes.to_vec());
        let theirs_read = self.store.read(&theirs, u64::MAX).map(|whole| whole.bytes);
        self.compare("read", answer(theirs_read), answer(read));
        if look(tree, &ours).is_none_or(|attr| attr.kind == Kind::Symlink) {
            let target = tree.link(&ours).map(<[u8]>::to_vec);
            self.compare("read_link", answer(self.store.read_link(&theirs)), answer(target));
        }
    }

    fn list(&mut self) {
        let path = if self.rng.u8(..4) == 0 { StorePath::here() } else { self.author().path() };
        let after = self
            .rng
            .bool()
            .then(|| Name::new(*self.rng.choice([b"a", b"b", b"c"]).expect("three")))
            .flatten();
        let limit = self.rng.usize(1..6);
        self.note(format!("list {path} after {after:?}, {limit}"));
        let page = Page { after, limit };
        let theirs = self.store.list(&Place::path(path.clone()), &page).map(|listing| {
            let names: Vec<_> = listing.entries.iter().map(|entry| entry.name.as_bytes().to_vec()).collect();
            (names, listing.total, listing.more)
        });
        let ours = self.tree.directory(&Place::path(path)).map(|(_, names)| {
            let after = page.after.as_ref().map(Name::as_bytes);
            let rest: Vec<_> =
                names.keys().filter(|name| after.is_none_or(|after| &name[..] > after)).collect();
            let page: Vec<_> = rest.iter().take(limit).map(|name| name.to_vec()).collect();
            (page, names.len() as u64, rest.len() > limit)
        });
        self.compare("list", answer(theirs), answer(ours));
    }

    fn walk(&mut self) {
        let path = self.author().path();
        let skip = vec![StorePath::from_checked(self.rng.choice(["a", "b", "a/b", "c/d"]).expect("four"))];
        let depth = self.rng.usize(1..4);
        self.note(format!("walk {path}, {depth} deep, without {skip:?}"));
        let walk = Walk { depth, skip, ..Walk::default() };
        let mut theirs = Vec::new();
        let visit = &mut |found: crate::store::Found| {
            theirs.push((found.path, essence(found.attr)));
            ControlFlow::Continue(())
        };
        let result = self.store.walk(&Place::path(path.clone()), &walk, visit).map(|()| theirs);
        let ours = self.tree.directory(&Place::path(path)).map(|(top, _)| {
            let mut all = self.tree.below(top);
            all.retain(|(path, _)| path.depth() <= depth && !path.is_at_or_below(&walk.skip[0]));
            all.into_iter().map(|(path, id)| (path, essence(self.tree.attr(id)))).collect::<Vec<_>>()
        });
        self.compare("walk", answer(result), answer(ours));
    }

    fn grep(&mut self) {
        let letters = [self.rng.lowercase(), self.rng.lowercase()];
        let pattern: String = letters.into_iter().collect();
        self.note(format!("grep {pattern}"));
        let grep =
            Grep::new(&GrepQuery::new(pattern), None, PathGlobs::none()).expect("letters are a pattern");
        let mut theirs = BTreeMap::new();
        let visit = &mut |found: crate::search::FileHits| {
            theirs.insert(found.path, found.hits);
            ControlFlow::Continue(())
        };
        let result = self.store.grep(&Place::root(), &grep, visit).map(|()| theirs);
        let mut searcher = grep.searcher();
        let hits = self.tree.below(ROOT).into_iter().filter_map(|(path, id)| match self.tree.body(id) {
            Some(Body::File(bytes)) => Some((path, searcher.search(bytes)?)),
            _ => None,
        });
        let ours: BTreeMap<_, _> = hits.collect();
        self.compare("grep", answer(result), answer(Ok(ours)));
    }

    fn open(&mut self) {
        let at = self.author().place();
        self.note(format!("open {at:?}"));
        let content = self.store.open(&at.place(&|place| self.store.stat(place).ok()));
        let place = at.place(&|place| look(&self.tree, place));
        let ours = self.tree.file(&place).map(|(node, bytes)| (node, bytes.clone()));
        let attr = ours.as_ref().ok().map(|(node, _)| essence(self.tree.attr(*node)));
        match (content, ours) {
            (Ok(content), Ok((node, bytes))) => {
                self.compare("what it opened", Some(essence(content.attr())), attr);
                self.open.push(Open { content, bytes, node, is_overtaken: false });
            }
            (theirs, ours) => self.compare("open", answer(theirs.map(drop)), answer(ours.map(drop))),
        }
        if self.open.len() > MAX_OPEN {
            self.open.remove(0);
        }
    }

    fn read_open(&mut self) {
        let Some(index) = self.index(self.open.len()) else { return };
        let size = self.open[index].bytes.len();
        let (offset, length) = (self.rng.usize(..size + 10), self.rng.usize(..3_000));
        self.note(format!("read {length} bytes at {offset} of open file {index}"));
        let Open { content, bytes, is_overtaken, .. } = &self.open[index];
        if !is_overtaken {
            let mut buffer = vec![0; length];
            let read = content.read_at(offset as u64, &mut buffer).map(|count| buffer[..count].to_vec());
            let start = offset.min(size);
            let ours = bytes[start..size.min(start + length)].to_vec();
            self.compare("what it read", answer(read), answer(Ok(ours)));
        }
    }

    fn start_draft(&mut self) {
        if self.rng.u8(..3) == 0 {
            self.note("draft of nothing".to_owned());
            let draft = self.store.draft(DraftOf::Nothing).expect("a draft of nothing can be made");
            self.drafts.push(Drafting { draft, bytes: Bytes(Vec::new()), of: None, is_overtaken: false });
        } else {
            let path = Place::path(self.author().path());
            self.note(format!("draft of {path:?}"));
            let theirs = match self.store.stat(&path) {
                Ok(attr) => Place::node(attr.node),
                Err(_) => path.clone(),
            };
            let ours = self.tree.file(&path).map(|(node, bytes)| (node, bytes.clone()));
            // By node, a symlink is no part of the path; how deep it lies is not what is compared here.
            let is_link = matches!(ours, Err(StoreError::Link(_)));
            match (self.store.draft(DraftOf::File(&theirs)), ours) {
                (Ok(draft), Ok((node, bytes))) => {
                    let held = Bytes(bytes.to_vec());
                    let of = Some((theirs.from, node, bytes));
                    self.drafts.push(Drafting { draft, bytes: held, of, is_overtaken: false });
                }
                (Err(StoreError::Link(_)), Err(_)) if is_link => {}
                (theirs, ours) => self.compare("draft", answer(theirs.map(drop)), answer(ours.map(drop))),
            }
        }
        if self.drafts.len() > MAX_OPEN {
            self.drafts.remove(0);
        }
    }

    fn write_draft(&mut self) {
        let Some(index) = self.index(self.drafts.len()) else { return };
        let size = self.drafts[index].bytes.size();
        let offset = self.rng.u64(..size + 500);
        let fill = self.author().fill();
        let what = self.rng.u8(..6);
        self.note(format!("draft {index} of {size} bytes, at {offset}: {what}, {fill:?}"));
        let Drafting { draft, bytes, is_overtaken, .. } = &mut self.drafts[index];
        match what {
            0 => {
                draft.set_size(offset).expect("a draft can be cut");
                bytes.set_size(offset).expect("the model's too");
            }
            1 => {
                let mut read = [vec![1; 3_000], vec![1; 3_000]];
                let theirs = draft.read_at(offset, &mut read[0]).expect("a draft can be read");
                let ours = bytes.read_at(offset, &mut read[1]).expect("the model's too");
                let [theirs, ours] = [read[0][..theirs].to_vec(), read[1][..ours].to_vec()];
                // A Store may show through what was written into the file in between.
                if !*is_overtaken {
                    self.compare("what it read", theirs, ours);
                }
            }
            _ => {
                draft.write_at(offset, &fill.0).expect("a draft can be written");
                bytes.write_at(offset, &fill.0).expect("the model's too");
            }
        }
        let Drafting { draft, bytes, .. } = &self.drafts[index];
        self.compare("the draft's size", draft.size(), bytes.size());
    }

    /// Puts a draft back at its node, as closing a file does, or somewhere else.
    fn commit_draft(&mut self) {
        let Some(index) = self.index(self.drafts.len()) else { return };
        let Drafting { draft, bytes, of, is_overtaken } = self.drafts.swap_remove(index);
        let elsewhere = Place::path(self.author().path());
        let (theirs, ours) = match of {
            // What becomes of a draft whose file was written in between is decided above a Store.
            Some(_) if is_overtaken => return self.note(format!("draft {index} is dropped")),
            Some((theirs, ours, _)) if self.rng.u8(..4) > 0 => (Place::node(theirs), Place::node(ours)),
            _ => (elsewhere.clone(), elsewhere),
        };
        self.note(format!("draft {index} of {} bytes to {theirs:?} ({ours:?})", bytes.size()));
        let content = Content::Sealed(draft.seal().expect("a draft can be sealed"));
        let put = Put::default;
        let step = Step::Write { at: theirs.clone(), content, put: put() };
        let theirs_done = self.store.apply(change(vec![step])).map(|applied| applied.outcomes[0]);
        let step = Step::Write { at: ours, content: Content::Bytes(bytes.0), put: put() };
        let done = self.tree.apply(vec![step], Timestamp::default(), Version(0)).map(|done| done.outcomes[0]);
        if let (true, Ok(Outcome { attr: Some(attr), .. })) = (theirs.path.is_here(), &theirs_done) {
            self.compare("the node", attr.node, theirs.from);
        }
        let seen = |outcome: Outcome| (outcome.attr.map(essence), outcome.created);
        self.compare("the answer", answer(theirs_done.map(seen)), answer(done.map(seen)));
    }

    fn close(&mut self) {
        self.note("everything is closed".to_owned());
        self.open.clear();
        self.drafts.clear();
    }

    /// Marks what is open on a file that was written since.
    fn see_what_was_overtaken(&mut self) {
        let was_written = |tree: &Tree, node: NodeId, held: &Arc<Vec<u8>>| match tree.body(node) {
            Some(Body::File(bytes)) => !Arc::ptr_eq(bytes, held),
            Some(Body::Directory(_) | Body::Symlink(_)) => true,
            None => false,
        };
        for open in &mut self.open {
            open.is_overtaken |= was_written(&self.tree, open.node, &open.bytes);
        }
        for drafting in &mut self.drafts {
            let of = drafting.of.as_ref();
            drafting.is_overtaken |= of.is_some_and(|(_, node, held)| was_written(&self.tree, *node, held));
        }
    }

    fn index(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.rng.usize(..length))
    }

    fn note(&mut self, step: String) {
        self.trail.steps.push_back(step);
        if self.trail.steps.len() > 30 {
            self.trail.steps.pop_front();
        }
    }

    #[track_caller]
    fn compare<T: PartialEq + std::fmt::Debug>(&self, what: &str, store: T, model: T) {
        if store != model {
            let shown = |value| cut(format!("{value:?}"));
            let (store, model) = (shown(store), shown(model));
            panic!(
                "the Store and the model disagree on {what}, seed {}:\n  Store: {store}\n  model: {model}",
                self.trail.seed
            );
        }
    }
}

fn look(tree: &Tree, place: &Place) -> Option<Attr> {
    tree.find(place).ok().map(|id| tree.attr(id))
}

/// What attributes every Store agrees on.
fn essence(attr: Attr) -> (Kind, u64, u32) {
    let mode = if attr.kind == Kind::Symlink { 0 } else { attr.mode };
    (attr.kind, attr.size, mode)
}

/// A result to be compared: the value, or which error it is.
fn answer<T>(result: StoreResult<T>) -> Result<T, String> {
    result.map_err(|error| match error {
        StoreError::Invalid(_) => "Invalid".to_owned(),
        StoreError::Unavailable { .. } => "Unavailable".to_owned(),
        other => format!("{other:?}"),
    })
}

fn cut(mut shown: String) -> String {
    if shown.len() > 4_000 {
        shown.truncate(shown.floor_char_boundary(4_000));
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::testkit::suite::subject::write;
    use crate::testkit::{Fault, Faulty, ModelStore};

    #[test]
    fn the_model_agrees_with_itself() {
        for seed in 0..4 {
            let mut seen = 0;
            model_run(Arc::new(ModelStore::new()), seed, 400, |_| seen += 1);
            assert_eq!(seen, 400);
        }
    }

    /// One lost call is enough, wherever it is lost.
    #[test]
    fn a_store_that_fails_once_is_found_out() {
        for call in [10, 60, 200] {
            for fault in [Fault::Before(call), Fault::After(call), Fault::From(call)] {
                let store = Arc::new(Faulty::new(Arc::new(ModelStore::new()), fault));
                let run = AssertUnwindSafe(|| model_run(store, 7, 400, |_| ()));
                assert!(catch_unwind(run).is_err(), "{fault:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "the Store and the model disagree on all that it holds, seed 7")]
    fn a_store_that_changes_by_itself_is_found_out() {
        let store = Arc::new(ModelStore::new());
        let (meddler, mut steps) = (store.clone(), 0);
        model_run(store, 7, 400, |_| {
            steps += 1;
            if steps == 100 {
                meddler.apply(change(vec![write("meddled", "1")])).unwrap();
            }
        });
    }
}
