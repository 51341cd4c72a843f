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
        let spec = self.generator().random_spec();
        self.record_step(format!("open {spec:?}"));
        let content = self.store.open(&spec.resolve(&|path| self.store.stat(path).ok()), OpenPurpose::Read);
        let path = spec.resolve(&|path| stat_model(&self.tree, path));
        let in_model = self.tree.file(&path).map(|(node, bytes)| (node, bytes.clone()));
        let attr = in_model.as_ref().ok().map(|(node, _)| comparable_attr(self.tree.attr(*node)));
        match (content, in_model) {
            (Ok(content), Ok((node, bytes))) => {
                self.compare("what it opened", Some(comparable_attr(content.attr())), attr);
                self.open.push(OpenHandle { content, bytes, node, is_stale: false });
            }
            (in_store, in_model) => self.compare(
                "open",
                comparable_result(in_store.map(drop)),
                comparable_result(in_model.map(drop)),
            ),
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
        let OpenHandle { content, bytes, is_stale, .. } = &self.open[index];
        if !is_stale {
            let mut buffer = vec![0; length];
            let read = content.read_at(offset as u64, &mut buffer).map(|count| buffer[..count].to_vec());
            let start = offset.min(size);
            let expected = bytes[start..size.min(start + length)].to_vec();
            self.compare("the bytes read", comparable_result(read), comparable_result(Ok(expected)));
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
            let store_path = match self.store.stat(&path) {
                Ok(attr) => NodePath::of_node(attr.node),
                Err(_) => path.clone(),
            };
            let in_model = self.tree.file(&path).map(|(node, bytes)| (node, bytes.clone()));
            // Addressed by node, a symlink isn't part of the path, so the depth in the error may differ. The depth
            // isn't compared here.
            let is_link = matches!(in_model, Err(StoreError::Link(_)));
            match (self.store.draft(DraftBase::File(&store_path)), in_model) {
                (Ok(draft), Ok((node, bytes))) => {
                    let draft_bytes = DraftBytes(bytes.to_vec());
                    let base = Some((store_path.base, node, bytes));
                    self.drafts.push(DraftHandle { draft, bytes: draft_bytes, base, is_stale: false });
                }
                (Err(StoreError::Link(_)), Err(_)) if is_link => {}
                (in_store, in_model) => self.compare(
                    "draft",
                    comparable_result(in_store.map(drop)),
                    comparable_result(in_model.map(drop)),
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
        let content = self.generator().random_bytes();
        let action = self.rng.u8(..6);
        self.record_step(format!("draft {index} of {size} bytes, at {offset}: {action}, {content:?}"));
        let DraftHandle { draft, bytes, is_stale, .. } = &mut self.drafts[index];
        match action {
            0 => {
                draft.set_size(offset).expect("a draft can be resized");
                bytes.set_size(offset).expect("the model's draft can be resized");
            }
            1 => {
                let mut read = [vec![1; 3_000], vec![1; 3_000]];
                let in_store = draft.read_at(offset, &mut read[0]).expect("a draft can be read");
                let in_model = bytes.read_at(offset, &mut read[1]).expect("the model's draft can be read");
                let [in_store, in_model] = [read[0][..in_store].to_vec(), read[1][..in_model].to_vec()];
                // A Store may let later writes to the file show through in the draft, so a stale draft isn't compared.
                if !*is_stale {
                    self.compare("the bytes read", in_store, in_model);
                }
            }
            _ => {
                draft.write_at(offset, &content.0).expect("a draft can be written");
                bytes.write_at(offset, &content.0).expect("the model's draft can be written");
            }
        }
        let DraftHandle { draft, bytes, .. } = &self.drafts[index];
        self.compare("the draft's size", draft.size(), bytes.size());
    }

    /// Commits a draft to its node, as closing a file does, or to another path.
    pub(super) fn commit_draft(&mut self) {
        let Some(index) = self.random_index(self.drafts.len()) else { return };
        let DraftHandle { mut draft, bytes, base, is_stale } = self.drafts.swap_remove(index);
        let other_path = NodePath::from_root(self.generator().random_path());
        let (store_path, model_path) = match base {
            // The Vfs, not the Store, decides what to do with a draft whose file was written in between.
            Some(_) if is_stale => return self.record_step(format!("draft {index} is dropped")),
            Some((store_node, model_node, _)) if self.rng.u8(..4) > 0 => {
                (NodePath::of_node(store_node), NodePath::of_node(model_node))
            }
            _ => (other_path.clone(), other_path),
        };
        self.record_step(format!(
            "draft {index} of {} bytes to {store_path:?} ({model_path:?})",
            bytes.size()
        ));
        let content = Content::Sealed(draft.seal().expect("a draft can be sealed"));
        let default_options = PutOptions::default;
        let step = Step::Write { at: store_path.clone(), content, options: default_options() };
        let in_store = self.store.apply(change(vec![step])).map(|applied| applied.outcomes[0]);
        let step =
            Step::Write { at: model_path, content: Content::Bytes(bytes.0), options: default_options() };
        let in_model = self
            .tree
            .apply(vec![step], Timestamp::default(), RevisionNumber(0))
            .map(|applied| applied.outcomes[0]);
        if let (true, Ok(StepOutcome { attr: Some(attr), .. })) = (store_path.path.is_empty(), &in_store) {
            self.compare("the node", attr.node, store_path.base);
        }
        let comparable = |outcome: StepOutcome| (outcome.attr.map(comparable_attr), outcome.created);
        self.compare(
            "the answer",
            comparable_result(in_store.map(comparable)),
            comparable_result(in_model.map(comparable)),
        );
    }

    pub(super) fn close(&mut self) {
        self.record_step("everything is closed".to_owned());
        self.open.clear();
        self.drafts.clear();
    }

    /// Marks the handles whose file was written since they were opened.
    pub(super) fn mark_stale_handles(&mut self) {
        let was_written = |tree: &ModelTree, node: NodeId, opened_bytes: &Arc<Vec<u8>>| match tree.body(node)
        {
            Some(ModelBody::File(bytes)) => !Arc::ptr_eq(bytes, opened_bytes),
            Some(ModelBody::Directory(_) | ModelBody::Symlink(_)) => true,
            None => false,
        };
        for open in &mut self.open {
            open.is_stale |= was_written(&self.tree, open.node, &open.bytes);
        }
        for draft in &mut self.drafts {
            let base = draft.base.as_ref();
            draft.is_stale |=
                base.is_some_and(|(_, node, opened_bytes)| was_written(&self.tree, *node, opened_bytes));
        }
    }

    fn random_index(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.rng.usize(..length))
    }
}
