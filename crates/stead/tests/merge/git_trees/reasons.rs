//! Why Stead and git make different things of the same changes.

use std::collections::BTreeSet;

use super::Pair;
use super::repository::{GitMerge, Repository};
use super::side::{Side, Step, Tree};

/// Why the results differ. The first one that applies to a path that differs is the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Git takes a deleted and a similar new file for one renamed file. Stead follows the node, so for Stead they are two files.
    SimilarFile,
    /// Git doesn't see that a file was renamed: it was changed by more than half, it is empty, or its old name is in use again.
    /// Stead follows the node.
    RenameNotSeen,
    /// One side renamed a directory, and the other one put a file into it. Stead puts the file into the renamed directory. Git
    /// guesses from the files that a directory was renamed, and then reports a conflict, or it doesn't guess it and leaves the
    /// file in the old place.
    DirectoryRename,
    /// One side moved all files out of a directory, and the other one put a file into it. Git takes the directory for renamed and
    /// reports a conflict. For Stead the directory is still there.
    DirectoryTakenForRenamed,
    /// One side deleted a directory, and the other one put a file into it. For Stead that is a conflict. Git knows no
    /// directories.
    DeletedDirectory,
    /// Both sides made, or moved, a directory to the same name, or moved one directory to two places. Stead has nodes for
    /// directories, so one of them has no place. Git combines what is in them.
    DirectoryPlace,
    /// `git merge` compares texts with the histogram algorithm. Stead compares them as `git diff` and `git merge-file` do, with
    /// Myers' algorithm. Where lines occur several times, other lines count as changed.
    DiffAlgorithm,
    /// Both sides made the same change, and one of them changed a line beside it as well. By default git looks into such a
    /// conflict for lines that are the same. Stead doesn't, and neither does git with `merge.conflictStyle=diff3`, which shows the
    /// base between the markers as Stead does.
    ConflictStyle,
    /// Both sides added a file, or renamed one, to the same name, and one of the two is empty. Git merges their lines, so the other
    /// one wins. For Stead two different files are a conflict.
    OneIsEmpty,
}

impl Reason {
    /// The reason for a pair's difference; `None` if there is none.
    pub(super) fn find(repository: &Repository, number: usize, pair: &Pair, git: &GitMerge) -> Option<Self> {
        let involved = InvolvedPaths::of(pair, git);
        if let Some(reason) = involved.how_texts_are_merged(repository, pair, git) {
            return Some(reason);
        }
        if git.is_clean && involved.has_empty_addition(pair) {
            return Some(Reason::OneIsEmpty);
        }
        let guesses = ["target", "fork"].map(|side| repository.renames(number, side));
        let sides = [&pair.target, &pair.fork];
        let renames = sides.map(Side::renames);
        let is_involved = |(from, to): &(String, String)| involved.contains(from) || involved.contains(to);
        let truth_and_guess = || renames.iter().zip(&guesses);
        if truth_and_guess().any(|(truth, guess)| guess.difference(truth).any(is_involved)) {
            return Some(Reason::SimilarFile);
        }
        if truth_and_guess().any(|(truth, guess)| truth.difference(guess).any(is_involved)) {
            return Some(Reason::RenameNotSeen);
        }
        let steps = || sides.into_iter().flat_map(|side| &side.steps);
        let has_kind = |kinds: &[&str]| pair.stead.conflicts.iter().any(|(_, kind)| kinds.contains(kind));
        let mut renamed = steps().filter_map(|step| match step {
            Step::RenameDirectory { from, to } => Some([from, to]),
            _ => None,
        });
        let renamed_involved = renamed.any(|ends| ends.into_iter().any(|end| involved.has_below(end)));
        let mut deleted = steps().filter_map(|step| match step {
            Step::RemoveDirectory { path } => Some(path),
            _ => None,
        });
        if has_kind(&["deleted/changed"]) && deleted.any(|path| involved.has_below(path)) {
            return Some(Reason::DeletedDirectory);
        }
        if has_kind(&["name taken", "renamed/renamed", "cycle"]) && renamed_involved {
            return Some(Reason::DirectoryPlace);
        }
        if renamed_involved {
            return Some(Reason::DirectoryRename);
        }
        const GUESSES: [&str; 2] = ["CONFLICT (file location)", "CONFLICT (implicit dir rename)"];
        let is_guessed =
            git.messages.iter().any(|message| GUESSES.iter().any(|guess| message.starts_with(guess)));
        (is_guessed && pair.stead.conflicts.is_empty()).then_some(Reason::DirectoryTakenForRenamed)
    }
}

/// The paths that the difference is about.
struct InvolvedPaths(BTreeSet<String>);

impl InvolvedPaths {
    fn of(pair: &Pair, git: &GitMerge) -> Self {
        let mut paths: BTreeSet<String> = git.conflicted.iter().cloned().collect();
        paths.extend(pair.stead.conflicts.iter().map(|(path, _)| path.clone()));
        if pair.stead.conflicts.is_empty() && git.is_clean {
            paths.extend(differing_paths(&pair.stead.tree, &git.tree).cloned());
        }
        // A file that one side renamed is involved under all of its names.
        for (from, to) in [&pair.target, &pair.fork].into_iter().flat_map(Side::renames) {
            if paths.contains(&from) || paths.contains(&to) {
                paths.extend([from, to]);
            }
        }
        InvolvedPaths(paths)
    }

    /// The reason, if all of them are files that both sides changed, and the two ways to merge texts give the two results.
    fn how_texts_are_merged(&self, repository: &Repository, pair: &Pair, git: &GitMerge) -> Option<Reason> {
        const AS_STEAD: [&str; 2] = ["--diff-algorithm=myers", "--diff3"];
        const AS_GIT: [&str; 1] = ["--diff-algorithm=histogram"];
        let mut reason = None;
        for path in &self.0 {
            let [base, target, fork] = [&pair.base, &pair.target.tree, &pair.fork.tree]
                .map(|tree| tree.get(path).map(|file| &file.content));
            let texts = [&**base?, &**target?, &**fork?];
            let merged = |options: &[&str]| repository.merge_texts(options, texts);
            let (as_stead, as_git) = (merged(&AS_STEAD), merged(&AS_GIT));
            let has_conflict = [
                pair.stead.conflicts.iter().any(|(other, kind)| other == path && *kind == "content"),
                git.conflicted.contains(path),
            ];
            // Where the whole merge is clean, the bytes count too.
            let is_in = |tree: &Tree, text: &Option<Vec<u8>>| {
                tree.get(path).map(|file| &file.content) == text.as_ref()
            };
            let is_explained = as_stead != as_git
                && has_conflict == [as_stead.is_none(), as_git.is_none()]
                && (!pair.stead.conflicts.is_empty() || is_in(&pair.stead.tree, &as_stead))
                && (!git.is_clean || is_in(&git.tree, &as_git));
            if !is_explained {
                return None;
            }
            let is_style = merged(&AS_STEAD[..1]) == as_git;
            if !is_style || reason.is_none() {
                reason = Some(if is_style { Reason::ConflictStyle } else { Reason::DiffAlgorithm });
            }
        }
        reason
    }

    /// Whether both sides have something new at one of the paths, and one of the two is an empty file.
    fn has_empty_addition(&self, pair: &Pair) -> bool {
        self.0.iter().filter(|path| !pair.base.contains_key(*path)).any(|path| {
            let files = [&pair.target.tree, &pair.fork.tree].map(|tree| tree.get(path));
            matches!(files, [Some(one), Some(other)] if one.content.is_empty() != other.content.is_empty())
        })
    }

    fn contains(&self, path: &str) -> bool {
        // A conflict about a directory involves what is in it.
        self.0.contains(path) || path.match_indices('/').any(|(end, _)| self.0.contains(&path[..end]))
    }

    /// Whether a directory, or something in it, is involved.
    fn has_below(&self, directory: &str) -> bool {
        let prefix = format!("{directory}/");
        self.contains(directory) || self.0.iter().any(|path| path.starts_with(&prefix))
    }
}

/// The paths that only one tree has, or that are different files in the two.
pub(super) fn differing_paths<'t>(one: &'t Tree, other: &'t Tree) -> impl Iterator<Item = &'t String> {
    let only =
        |of: &'t Tree, not: &'t Tree| of.iter().filter(move |(path, file)| not.get(*path) != Some(file));
    only(one, other).chain(only(other, one)).map(|(path, _)| path)
}
