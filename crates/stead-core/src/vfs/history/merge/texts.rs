//! The texts that a merge combines. They go into drafts, some at a time, so that the plan holds only references to them.

use crate::history::{DraftedText, PlannedContent};
use crate::store::{MergeDrafts, Store, StoreResult};

/// How many texts, and about how many bytes of them, wait in memory to be stored together.
const MAX_WAITING: usize = 64;
const MAX_WAITING_BYTES: usize = 256 << 10;

/// Whether the texts of a plan are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextsNeeded {
    Yes,
    /// The plan is neither made nor shown with contents, so nothing is written for it.
    No,
}

/// The texts of one plan.
pub(super) struct MergedTexts<'s> {
    /// The Store of the fork.
    fork: &'s dyn Store,
    needed: TextsNeeded,
    /// `None` until there is a text.
    drafts: Option<Box<dyn MergeDrafts>>,
    waiting: Vec<(DraftedText, Vec<u8>)>,
    waiting_bytes: usize,
}

impl<'s> MergedTexts<'s> {
    pub(super) fn new(fork: &'s dyn Store, needed: TextsNeeded) -> Self {
        MergedTexts { fork, needed, drafts: None, waiting: Vec::new(), waiting_bytes: 0 }
    }

    /// Takes a text. It can be read once [`MergedTexts::finish`] has returned.
    pub(super) fn add(&mut self, text: Vec<u8>) -> StoreResult<PlannedContent> {
        let drafted = DraftedText::default();
        if self.needed == TextsNeeded::Yes {
            self.waiting_bytes += text.len();
            self.waiting.push((drafted.clone(), text));
            if self.waiting.len() >= MAX_WAITING || self.waiting_bytes >= MAX_WAITING_BYTES {
                self.store_waiting()?;
            }
        }
        Ok(PlannedContent::Drafted(drafted))
    }

    /// Stores what waits. The drafts stay as long as what this returns, or until a change has used them.
    pub(super) fn finish(mut self) -> StoreResult<Option<Box<dyn MergeDrafts>>> {
        self.store_waiting()?;
        Ok(self.drafts)
    }

    fn store_waiting(&mut self) -> StoreResult<()> {
        self.waiting_bytes = 0;
        let (drafted, texts): (Vec<DraftedText>, Vec<Vec<u8>>) =
            std::mem::take(&mut self.waiting).into_iter().unzip();
        if texts.is_empty() {
            return Ok(());
        }
        let drafts = match self.drafts.take() {
            Some(drafts) => drafts,
            None => self.fork.require_forks()?.merge_drafts()?,
        };
        for (drafted, content) in drafted.iter().zip(drafts.store(texts)?) {
            drafted.set(content);
        }
        self.drafts = Some(drafts);
        Ok(())
    }
}
