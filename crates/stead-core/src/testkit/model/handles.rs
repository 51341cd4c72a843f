//! The steps of a model run that work as a mounted file system does: files stay open while their names change.

use std::sync::Arc;

use super::run::{ModelRun, comparable_attr, comparable_result, stat_model};
use super::{DraftBytes, ModelBody, ModelTree};
use crate::clock::Timestamp;
use crate::store::{
    Content, Draft, DraftBase, NodeId, NodePath, OpenContent, OpenPurpose, PutOptions, RevisionNumber, Step,
    StepOutcome, StoreError,
};
use crate::testkit::suite::subject::change;

/// The most files, and the most drafts, that are open at once.
const MAX_OPEN: usize = 5;

/// A file open for reading, in the Store and in the model.
pub(super) struct OpenHandle {
    content: Box<dyn OpenContent>,
    bytes: Arc<Vec<u8>>,
    node: NodeId,
    is_stale: bool,
}

/// A draft in progress, in the Store and in the model.
pub(super) struct DraftHandle {
    draft: Box<dyn Draft>,
    bytes: DraftBytes,
    /// What the draft is based on: the Store's node, the model's node, and the model's content at that time.
    base: Option<(NodeId, NodeId, Arc<Vec<u8>>)>,
    is_stale: bool,
}

impl ModelRun {
    pub(super) fn open(&mut self) {
        let at = self.generator().random_place();
        self.record_step(format!("open {at:?}"));
        let content = self.store.open(&at.resolve(&|place| self.store.stat(place).ok()), OpenPurpose::Read);
        let place = at.resolve(&|place| stat_model(&self.tree, place));
        let ours = self.tree.file(&place).map(|(node, bytes)| (node, bytes.clone()));
        let attr = ours.as_ref().ok().map(|(node, _)| comparable_attr(self.tree.attr(*node)));
        match (content, ours) {
            (Ok(content), Ok((node, bytes))) => {
                self.compare("what it opened", Some(comparable_attr(content.attr())), attr);
                self.open.push(OpenHandle { content, bytes, node, is_stale: false });
            }
            (theirs, ours) => {
                self.compare("open", comparable_result(theirs.map(drop)), comparable_result(ours.map(drop)))
            }
        }
        if self.open.len() > MAX_OPEN {
            self.open.remove(0);
        }
    }

    pub(super) fn read_open(&mut self) {
        let Some(index) = self.random_index(self.open.len()) else { return };
        let size = self.open[index].bytes.len();
        let (offset, length) = (self.rng.usize(..size + 10), self.rng.usize(..3_000));
        self.record_step(format!("read {length} bytes at {offset} of open file {index}"));
        let OpenHandle { content, bytes, is_stale: is_overtaken, .. } = &self.open[index];
        if !is_overtaken {
            let mut buffer = vec![0; length];
            let read = content.read_at(offset as u64, &mut buffer).map(|count| buffer[..count].to_vec());
            let start = offset.min(size);
            let ours = bytes[start..size.min(start + length)].to_vec();
            self.compare("what it read", comparable_result(read), comparable_result(Ok(ours)));
        }
    }

    pub(super) fn start_draft(&mut self) {
        if self.rng.u8(..3) == 0 {
            self.record_step("draft of nothing".to_owned());
            let draft = self.store.draft(DraftBase::Empty).expect("a draft of nothing can be made");
            self.drafts.push(DraftHandle {
                draft,
                bytes: DraftBytes(Vec::new()),
                base: None,
                is_stale: false,
            });
        } else {
            let path = NodePath::from_root(self.generator().random_path());
            self.record_step(format!("draft of {path:?}"));
            let theirs = match self.store.stat(&path) {
                Ok(attr) => NodePath::of_node(attr.node),
                Err(_) => path.clone(),
            };
            let ours = self.tree.file(&path).map(|(node, bytes)| (node, bytes.clone()));
            // Addressed by node, a symlink isn't part of the path, so the depth in the error may differ. The depth
            // isn't compared here.
            let is_link = matches!(ours, Err(StoreError::Link(_)));
            match (self.store.draft(DraftBase::File(&theirs)), ours) {
                (Ok(draft), Ok((node, bytes))) => {
                    let held = DraftBytes(bytes.to_vec());
                    let of = Some((theirs.base, node, bytes));
                    self.drafts.push(DraftHandle { draft, bytes: held, base: of, is_stale: false });
                }
                (Err(StoreError::Link(_)), Err(_)) if is_link => {}
                (theirs, ours) => self.compare(
                    "draft",
                    comparable_result(theirs.map(drop)),
                    comparable_result(ours.map(drop)),
                ),
            }
        }
        if self.drafts.len() > MAX_OPEN {
            self.drafts.remove(0);
        }
    }

    pub(super) fn write_draft(&mut self) {
        let Some(index) = self.random_index(self.drafts.len()) else { return };
        let size = self.drafts[index].bytes.size();
        let offset = self.rng.u64(..size + 500);
        let fill = self.generator().random_bytes();
        let what = self.rng.u8(..6);
        self.record_step(format!("draft {index} of {size} bytes, at {offset}: {what}, {fill:?}"));
        let DraftHandle { draft, bytes, is_stale: is_overtaken, .. } = &mut self.drafts[index];
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
                // A Store may let later writes to the file show through in the draft, so a stale draft isn't compared.
                if !*is_overtaken {
                    self.compare("what it read", theirs, ours);
                }
            }
            _ => {
                draft.write_at(offset, &fill.0).expect("a draft can be written");
                bytes.write_at(offset, &fill.0).expect("the model's too");
            }
        }
        let DraftHandle { draft, bytes, .. } = &self.drafts[index];
        self.compare("the draft's size", draft.size(), bytes.size());
    }

    /// Commits a draft to its node, as closing a file does, or to another path.
    pub(super) fn commit_draft(&mut self) {
        let Some(index) = self.random_index(self.drafts.len()) else { return };
        let DraftHandle { mut draft, bytes, base: of, is_stale: is_overtaken } =
            self.drafts.swap_remove(index);
        let elsewhere = NodePath::from_root(self.generator().random_path());
        let (theirs, ours) = match of {
            // The Vfs, not the Store, decides what to do with a draft whose file was written in between.
            Some(_) if is_overtaken => return self.record_step(format!("draft {index} is dropped")),
            Some((theirs, ours, _)) if self.rng.u8(..4) > 0 => {
                (NodePath::of_node(theirs), NodePath::of_node(ours))
            }
            _ => (elsewhere.clone(), elsewhere),
        };
        self.record_step(format!("draft {index} of {} bytes to {theirs:?} ({ours:?})", bytes.size()));
        let content = Content::Sealed(draft.seal().expect("a draft can be sealed"));
        let put = PutOptions::default;
        let step = Step::Write { at: theirs.clone(), content, options: put() };
        let theirs_done = self.store.apply(change(vec![step])).map(|applied| applied.outcomes[0]);
        let step = Step::Write { at: ours, content: Content::Bytes(bytes.0), options: put() };
        let done =
            self.tree.apply(vec![step], Timestamp::default(), RevisionNumber(0)).map(|done| done.outcomes[0]);
        if let (true, Ok(StepOutcome { attr: Some(attr), .. })) = (theirs.path.is_empty(), &theirs_done) {
            self.compare("the node", attr.node, theirs.base);
        }
        let seen = |outcome: StepOutcome| (outcome.attr.map(comparable_attr), outcome.created);
        self.compare(
            "the answer",
            comparable_result(theirs_done.map(seen)),
            comparable_result(done.map(seen)),
        );
    }

    pub(super) fn close(&mut self) {
        self.record_step("everything is closed".to_owned());
        self.open.clear();
        self.drafts.clear();
    }

    /// Marks the handles whose file was written since they were opened.
    pub(super) fn mark_stale_handles(&mut self) {
        let was_written = |tree: &ModelTree, node: NodeId, held: &Arc<Vec<u8>>| match tree.body(node) {
            Some(ModelBody::File(bytes)) => !Arc::ptr_eq(bytes, held),
            Some(ModelBody::Directory(_) | ModelBody::Symlink(_)) => true,
            None => false,
        };
        for open in &mut self.open {
            open.is_stale |= was_written(&self.tree, open.node, &open.bytes);
        }
        for drafting in &mut self.drafts {
            let of = drafting.base.as_ref();
            drafting.is_stale |= of.is_some_and(|(_, node, held)| was_written(&self.tree, *node, held));
        }
    }

    fn random_index(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.rng.usize(..length))
    }
}
