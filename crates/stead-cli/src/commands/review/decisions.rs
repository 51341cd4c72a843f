//! What is decided about each change of a fork, and the rules of the merge that follow from it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use stead::history::hunks::{Hunk, HunkDecision, TextChange};
use stead::vfs::{
    ChangedContent, MergeAction, MergeChange, MergeChoice, MergeResult, MergeRule, RestOfPart, RetaggedFile,
    RulePaths,
};
use stead::{MergePlaces, NodeKind, VfsPath};

/// What is decided about a change as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Take,
    Refuse,
    /// Nobody was asked. It stays in the fork, whatever becomes of what is refused.
    Open,
}

/// A content, as a merge shows it.
type Content = Arc<Vec<u8>>;

/// Everything that a fork does at one path, and what is decided about it.
pub(super) struct ReviewedChange<'r> {
    pub(super) path: &'r VfsPath,
    /// What is done there, such as a rename and a change, or a removal and an addition; nothing if only its tags change.
    changes: Vec<&'r MergeChange>,
    /// The change of its tags, which is taken or refused with the rest.
    tags: Option<&'r RetaggedFile>,
    /// The paths that it has or had, relative to the Workspace.
    paths: Vec<String>,
    /// Whether something of another kind takes the place of what is there. What is below the path goes with it.
    pub(super) is_replacement: bool,
    /// The change of which this is a part, so that nobody is asked about it alone.
    governed_by: Option<usize>,
    decision: Decision,
    /// The decisions about its hunks, if it is taken in part.
    hunks: Vec<(Hunk, HunkDecision)>,
    /// Whether some of its hunks were not decided.
    has_open_hunks: bool,
}

impl<'r> ReviewedChange<'r> {
    /// All changes of a fork, undecided. `present_kind` returns what a path of the Workspace is now.
    pub(super) fn all(
        shown: &'r MergeResult,
        places: &MergePlaces,
        present_kind: impl Fn(&VfsPath) -> Option<NodeKind>,
    ) -> Vec<Self> {
        let mut all: Vec<ReviewedChange<'r>> = Vec::new();
        let reviewed = |path: &'r VfsPath| ReviewedChange {
            path,
            changes: Vec::new(),
            tags: None,
            paths: Vec::new(),
            is_replacement: false,
            governed_by: None,
            decision: Decision::Open,
            hunks: Vec::new(),
            has_open_hunks: false,
        };
        for change in &shown.changes {
            let paths = [Some(&change.path), change.from.as_ref()].into_iter().flatten();
            let paths = paths.filter_map(|path| places.rule_path(path));
            match all.last_mut().filter(|last| *last.path == change.path) {
                Some(last) => {
                    last.changes.push(change);
                    last.paths.extend(paths);
                }
                None => all.push(ReviewedChange {
                    changes: vec![change],
                    paths: paths.collect(),
                    ..reviewed(&change.path)
                }),
            }
        }
        let indexes: HashMap<&VfsPath, usize> =
            all.iter().enumerate().map(|(index, change)| (change.path, index)).collect();
        for file in shown.retagged.iter() {
            if let Some(index) = indexes.get(&file.path) {
                all[*index].tags = Some(file);
            }
        }
        all.extend(only_retagged(shown).map(|file| ReviewedChange {
            tags: Some(file),
            paths: places.rule_path(&file.path).into_iter().collect(),
            ..reviewed(&file.path)
        }));
        all.sort_by(|one, other| one.path.cmp(other.path));
        let mut last_replaced: Option<(usize, &VfsPath)> = None;
        for (index, change) in all.iter_mut().enumerate() {
            change.governed_by = last_replaced
                .filter(|(_, replaced)| change.path.strip_prefix(replaced).is_some())
                .map(|(index, _)| index);
            let added = change.with_action(MergeAction::Added);
            let is_other = |kind: NodeKind| present_kind(change.path).is_some_and(|present| present != kind);
            change.is_replacement =
                added.and_then(|added| added.content.as_ref()).is_some_and(|content| is_other(content.kind))
                    || added.is_some() && change.with_action(MergeAction::Removed).is_some();
            if change.is_replacement && change.governed_by.is_none() {
                last_replaced = Some((index, change.path));
            }
        }
        all
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    fn with_action(&self, action: MergeAction) -> Option<&'r MergeChange> {
        self.changes.iter().find(|change| change.action == action).copied()
    }

    /// The path before, if it is renamed.
    pub(super) fn from(&self) -> Option<&'r VfsPath> {
        self.changes.iter().find_map(|change| change.from.as_ref())
    }

    /// What is done, as one word.
    pub(super) fn action(&self) -> &'static str {
        match self.changes.first() {
            Some(_) if self.is_replacement => "replaced",
            Some(change) => change.action.as_str(),
            None => "tags",
        }
    }

    /// The change of its tags.
    pub(super) fn tags(&self) -> Option<&'r RetaggedFile> {
        self.tags
    }

    /// Whether nothing is there before.
    pub(super) fn is_addition(&self) -> bool {
        !self.is_replacement && self.with_action(MergeAction::Added).is_some()
    }

    /// What is there before and after, each with its content: the same entry twice for a change.
    pub(super) fn before_and_after(&self) -> (Option<&'r ChangedContent>, Option<&'r ChangedContent>) {
        let content = |action| self.with_action(action).and_then(|change| change.content.as_ref());
        match (content(MergeAction::Removed), content(MergeAction::Added)) {
            (None, None) => {
                let content = self.changes.iter().find_map(|change| change.content.as_ref());
                (content, content)
            }
            removed_and_added => removed_and_added,
        }
    }

    pub(super) fn kind(&self) -> Option<NodeKind> {
        let (before, after) = self.before_and_after();
        after.or(before).map(|content| content.kind)
    }

    /// The texts before and after, if its hunks can be decided one by one.
    pub(super) fn texts(&self) -> Option<(&'r Content, &'r Content)> {
        let (before, after) = self.before_and_after();
        let (before, after) = before.zip(after)?;
        let is_file = !self.is_replacement && before.kind == NodeKind::File && after.kind == NodeKind::File;
        before.before.as_ref().zip(after.after.as_ref()).filter(|_| is_file)
    }

    /// The permission bits before and after, if they change.
    pub(super) fn modes(&self) -> Option<(u32, u32)> {
        let (before, after) = self.before_and_after();
        let (before, after) = (before?.mode_before?, after?.mode_after?);
        (before != after && !self.is_replacement).then_some((before, after))
    }

    pub(super) fn decide(&mut self, decision: Decision) {
        self.decision = decision;
    }

    /// Decides hunk by hunk. `takes_the_rest` says whether something beside the hunks is taken, such as a rename; hunks that
    /// are still open stay in the fork.
    pub(super) fn decide_hunks(
        &mut self,
        hunks: Vec<(Hunk, HunkDecision)>,
        takes_the_rest: bool,
        has_open_hunks: bool,
    ) {
        let all_are = |wanted: HunkDecision| hunks.iter().all(|(_, decision)| *decision == wanted);
        self.has_open_hunks = has_open_hunks;
        if all_are(HunkDecision::Take) && !has_open_hunks {
            self.decision = Decision::Take;
        } else if all_are(HunkDecision::Refuse) && !takes_the_rest {
            self.decision = if has_open_hunks { Decision::Open } else { Decision::Refuse };
        } else {
            self.decision = Decision::Refuse;
            self.hunks = hunks;
        }
    }

    /// Whether it goes with the replacement at this index.
    pub(super) fn is_part_of(&self, replacement: usize) -> bool {
        self.governed_by == Some(replacement)
    }

    /// Whether nobody is asked about it: a directory that comes or goes follows what is in it, and what is below a replacement
    /// goes with it.
    pub(super) fn follows_others(&self, all: &[ReviewedChange<'_>]) -> bool {
        self.governed_by.is_some() || self.follows_content(all)
    }

    fn follows_content(&self, all: &[ReviewedChange<'_>]) -> bool {
        let comes_or_goes =
            |change: &&MergeChange| matches!(change.action, MergeAction::Added | MergeAction::Removed);
        !self.is_replacement
            && self.changes.iter().all(comes_or_goes)
            && self.kind() == Some(NodeKind::Directory)
            && self.below(all).next().is_some()
    }

    fn below<'a>(&self, all: &'a [ReviewedChange<'a>]) -> impl Iterator<Item = &'a ReviewedChange<'a>> {
        let path = self.path.clone();
        all.iter().filter(move |other| {
            other.kind() != Some(NodeKind::Directory)
                && other.path.strip_prefix(&path).is_some_and(|rest| !rest.is_empty())
        })
    }

    pub(super) fn is_taken_in_part(&self) -> bool {
        self.decision == Decision::Take || !self.hunks.is_empty()
    }

    /// The decision, which may follow from others.
    pub(super) fn final_decision(&self, all: &[ReviewedChange<'_>]) -> Decision {
        if let Some(replacement) = self.governed_by {
            return all[replacement].decision;
        }
        if !self.follows_content(all) {
            return self.decision;
        }
        let is_taken = match self.with_action(MergeAction::Removed) {
            // It goes only if everything in it goes.
            Some(_) => self.below(all).all(|other| other.final_decision(all) == Decision::Take),
            None => self.below(all).any(ReviewedChange::is_taken_in_part),
        };
        let is_open = || self.below(all).any(|other| other.final_decision(all) == Decision::Open);
        match is_taken {
            true => Decision::Take,
            false if is_open() => Decision::Open,
            false => Decision::Refuse,
        }
    }

    /// The file with the hunks that were taken, if it is taken in part.
    fn part(&self, drops: bool) -> Option<MergeChoice> {
        let (before, after) = self.texts().filter(|_| !self.hunks.is_empty())?;
        let content = TextChange::new(before, after)?.with(self.hunks.iter().cloned());
        let drops = drops && !self.has_open_hunks;
        let rest = if drops { RestOfPart::Dropped } else { RestOfPart::Stays };
        Some(MergeChoice::Part { before: Arc::clone(before), content: Arc::new(content), rest })
    }
}

/// The files of which only the tags change. One in conflict, or that may not be changed, isn't among them.
fn only_retagged(shown: &MergeResult) -> impl Iterator<Item = &RetaggedFile> {
    let changed = shown.changes.iter().map(|change| &change.path);
    let stopped = shown.conflicts.iter().map(|conflict| &conflict.path);
    let refused = shown.refused.iter().map(|refused| &refused.path);
    let others: HashSet<&VfsPath> = changed.chain(stopped).chain(refused).collect();
    shown.retagged.iter().filter(move |file| !others.contains(&file.path))
}

/// How many changes of a fork there are to decide about. A file whose tags change with something else counts once.
pub(super) fn count_changes(shown: &MergeResult) -> usize {
    shown.changes.len() + only_retagged(shown).count()
}

/// The rules of the merge, and what it drops.
pub(super) struct ReviewRules {
    pub(super) rules: Vec<MergeRule>,
    /// The paths of which the fork gives up something.
    pub(super) dropped: Vec<VfsPath>,
    /// Whether something is merged.
    pub(super) takes: bool,
}

/// The rules that make a merge of what was decided. What is in conflict, hidden or may not be changed is left out.
pub(super) fn review_rules(
    changes: &[ReviewedChange<'_>],
    shown: &MergeResult,
    places: &MergePlaces,
    drops: bool,
) -> ReviewRules {
    let (mut left_out, mut dropped, mut parts) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let stopped = shown.conflicts.iter().map(|conflict| &conflict.path);
    let stopped = stopped.chain(shown.refused.iter().map(|refused| &refused.path));
    left_out.extend(stopped.filter_map(|path| places.rule_path(path)));
    let (mut dropped_paths, mut takes) = (Vec::new(), false);
    for change in changes {
        match (change.final_decision(changes), change.part(drops)) {
            (_, Some(part)) => {
                if matches!(part, MergeChoice::Part { rest: RestOfPart::Dropped, .. }) {
                    dropped_paths.push(change.path.clone());
                }
                parts.push((change.paths.clone(), part));
                takes = true;
            }
            (Decision::Take, None) => takes = true,
            (Decision::Refuse, None) if drops => {
                dropped.extend(change.paths.iter().cloned());
                dropped_paths.push(change.path.clone());
            }
            (Decision::Refuse | Decision::Open, None) => left_out.extend(change.paths.iter().cloned()),
        }
    }
    let exactly = |paths: BTreeSet<String>| RulePaths::Exactly(Arc::new(paths));
    let mut rules = vec![
        MergeRule { paths: RulePaths::Hidden, choice: MergeChoice::LeaveOut },
        MergeRule { paths: exactly(left_out), choice: MergeChoice::LeaveOut },
        MergeRule { paths: exactly(dropped), choice: MergeChoice::Drop },
    ];
    let part = |(paths, choice): (Vec<String>, MergeChoice)| MergeRule {
        paths: exactly(paths.into_iter().collect()),
        choice,
    };
    rules.extend(parts.into_iter().map(part));
    ReviewRules { rules, dropped: dropped_paths, takes }
}
