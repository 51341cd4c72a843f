//! A temporary repository with three commits for each pair, and what git makes of them.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::side::{File, Tree};

/// A bare repository. The commits of pair 7 are the branches `base-7`, `target-7` and `fork-7`.
pub(super) struct Repository {
    directory: TempDir,
}

/// What git made of a pair.
#[derive(Debug)]
pub(super) struct GitMerge {
    pub(super) is_clean: bool,
    /// The merged tree. With conflicts, files have markers.
    pub(super) tree: Tree,
    /// The id of that tree.
    id: String,
    /// The paths in conflict.
    pub(super) conflicted: BTreeSet<String>,
    /// What git says of it.
    pub(super) messages: Vec<String>,
}

impl Repository {
    /// With the base, the target and the fork of each pair.
    pub(super) fn with_commits<'t>(pairs: impl Iterator<Item = [&'t Tree; 3]>) -> Self {
        let repository = Repository { directory: tempfile::tempdir().unwrap() };
        repository.run(&["init", "--quiet", "--bare", "--initial-branch=main", "."], &[]);
        let mut stream = Vec::new();
        for (number, trees) in pairs.enumerate() {
            for (name, tree) in ["base", "target", "fork"].into_iter().zip(trees) {
                write_commit(&mut stream, &format!("{name}-{number}"), &format!("base-{number}"), tree);
            }
        }
        repository.run(&["fast-import", "--quiet"], &stream);
        repository
    }

    /// Merges the fork into the target with git's own settings, which is what `git merge` makes of them.
    pub(super) fn merge(&self, number: usize) -> GitMerge {
        let (target, fork) = (format!("target-{number}"), format!("fork-{number}"));
        let arguments = ["merge-tree", "--write-tree", "--messages", "--name-only", "-z", &target, &fork];
        let output = command(self.directory.path(), &arguments).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
        // The tree, the paths in conflict, an empty field, and then the messages.
        let text = String::from_utf8(output.stdout).unwrap();
        let mut fields = text.split('\0').map(str::to_owned);
        let id = fields.next().unwrap();
        let conflicted = fields.by_ref().take_while(|field| !field.is_empty()).collect();
        let messages = fields.filter(|field| field.contains(' ')).collect();
        GitMerge { is_clean: output.status.success(), tree: self.tree(&id), id, conflicted, messages }
    }

    /// Makes the same merge with `git merge` in a work tree.
    pub(super) fn check_with_git_merge(&self, number: usize, expected: &GitMerge) {
        let work_tree = tempfile::tempdir().unwrap();
        let path = work_tree.path().join("tree");
        let (target, fork) = (format!("target-{number}"), format!("fork-{number}"));
        self.run(&["worktree", "add", "--quiet", "--detach", path.to_str().unwrap(), &target], &[]);
        let merged = command(&path, &["merge", "--quiet", "--no-edit", &fork]).output().unwrap();
        assert_eq!(merged.status.success(), expected.is_clean, "pair {number}: {merged:?}");
        if expected.is_clean {
            let id = command(&path, &["rev-parse", "HEAD^{tree}"]).output().unwrap();
            assert_eq!(String::from_utf8(id.stdout).unwrap().trim(), expected.id, "pair {number}");
        }
        self.run(&["worktree", "remove", "--force", path.to_str().unwrap()], &[]);
    }

    /// The files that git takes for renamed between the base and a side.
    pub(super) fn renames(&self, number: usize, side: &str) -> BTreeSet<(String, String)> {
        let (base, side) = (format!("base-{number}"), format!("{side}-{number}"));
        let output = self.run(
            &[
                "diff-tree",
                "-r",
                "-z",
                "-M",
                "--no-rename-empty",
                "--diff-filter=R",
                "--name-status",
                &base,
                &side,
            ],
            &[],
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let fields: Vec<&str> = text.split('\0').collect();
        fields.chunks_exact(3).map(|field| (field[1].to_owned(), field[2].to_owned())).collect()
    }

    /// Merges three texts: base, target and fork. The text is `None` if there are conflicts.
    pub(super) fn merge_texts(&self, options: &[&str], texts: [&[u8]; 3]) -> Option<Vec<u8>> {
        let directory = tempfile::tempdir_in(self.directory.path()).unwrap();
        for (name, text) in ["base", "target", "fork"].into_iter().zip(texts) {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let arguments = [&["merge-file", "-p"], options, &["target", "base", "fork"]].concat();
        let output = command(directory.path(), &arguments).output().unwrap();
        output.status.success().then_some(output.stdout)
    }

    fn tree(&self, id: &str) -> Tree {
        let listed = self.run(&["ls-tree", "-r", "-z", id], &[]).stdout;
        let listed = String::from_utf8(listed).unwrap();
        // `MODE blob ID\tPATH`
        let entries: Vec<(&str, &str, &str)> = listed
            .split_terminator('\0')
            .map(|entry| {
                let (attributes, path) = entry.split_once('\t').unwrap();
                let (mode, id) = attributes.split_once(" blob ").unwrap();
                (mode, id, path)
            })
            .collect();
        let ids: String = entries.iter().map(|(_, id, _)| format!("{id}\n")).collect();
        let mut contents = &self.run(&["cat-file", "--batch=%(objectsize)"], ids.as_bytes()).stdout[..];
        let mut tree = Tree::new();
        for (mode, _, path) in entries {
            let end = contents.iter().position(|byte| *byte == b'\n').unwrap();
            let size: usize = std::str::from_utf8(&contents[..end]).unwrap().parse().unwrap();
            let content = contents[end + 1..][..size].to_vec();
            contents = &contents[end + 1 + size + 1..];
            tree.insert(path.to_owned(), File { is_executable: mode == "100755", content });
        }
        tree
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = command(self.directory.path(), arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input).unwrap());
            child.wait_with_output().unwrap()
        });
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

/// Git with a fixed user, without hooks, and without the settings of this machine.
fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(directory).args(["-c", "user.name=test", "-c", "user.email=test@localhost"]);
    command
        .args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "core.autocrlf=false"])
        .args(arguments);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("LC_ALL", "C");
    command
}

/// A commit in the format of `git fast-import`.
fn write_commit(stream: &mut Vec<u8>, branch: &str, parent: &str, tree: &Tree) {
    let mut line = |text: &str| stream.extend_from_slice(text.as_bytes());
    line(&format!("commit refs/heads/{branch}\ncommitter test <test@localhost> 0 +0000\ndata 0\n"));
    if branch != parent {
        line(&format!("from refs/heads/{parent}\n"));
    }
    line("deleteall\n");
    for (path, file) in tree {
        let mode = if file.is_executable { "100755" } else { "100644" };
        stream.extend_from_slice(format!("M {mode} inline {path}\ndata {}\n", file.content.len()).as_bytes());
        stream.extend_from_slice(&file.content);
        stream.push(b'\n');
    }
}
