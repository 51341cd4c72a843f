//! A git repository, whose forks are work trees with a branch each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::code_base::SourceFile;
use super::forkable::{FileChange, Forkable};
use crate::Result;

/// A repository with its work trees beside it.
pub struct Repository {
    directory: PathBuf,
}

impl Repository {
    /// A new repository with these files in its first commit. All objects are in one pack, as after a clone.
    pub fn create(directory: &Path, files: &[SourceFile]) -> Result<Self> {
        let repository = Repository { directory: directory.to_owned() };
        let main = repository.main();
        fs::create_dir_all(&main)?;
        for (path, content) in files {
            write(&main.join(path), content)?;
        }
        repository.git(&main, &["init", "--quiet", "--initial-branch=main"])?;
        repository.git(&main, &["add", "--all"])?;
        repository.git(&main, &["commit", "--quiet", "--message=base"])?;
        repository.git(&main, &["gc", "--quiet"])?;
        Ok(repository)
    }

    fn main(&self) -> PathBuf {
        self.directory.join("main")
    }

    /// The work tree of a fork.
    pub fn work_tree(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs git without the settings of this machine, and without maintenance in the background.
    fn git(&self, directory: &Path, arguments: &[&str]) -> Result {
        const SETTINGS: [&str; 8] = [
            "user.name=bench",
            "user.email=bench@localhost",
            "gc.auto=0",
            "maintenance.auto=false",
            "core.hooksPath=/dev/null",
            "core.autocrlf=false",
            "commit.gpgSign=false",
            "advice.detachedHead=false",
        ];
        let mut command = Command::new("git");
        command.current_dir(directory).args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = command.args(arguments).output()?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            return Err(format!("git {}: {}", arguments.join(" "), said.concat()).into());
        }
        Ok(())
    }
}

impl Forkable for Repository {
    fn fork(&mut self, name: &str) -> Result {
        let work_tree = self.work_tree(name);
        let work_tree = work_tree.to_str().ok_or("the directory of the benchmark isn't UTF-8")?;
        self.git(&self.main(), &["worktree", "add", "--quiet", "-b", name, work_tree])
    }

    fn change_fork(&mut self, name: &str, changes: &[FileChange]) -> Result {
        change_files(&self.work_tree(name), changes)
    }

    fn change_base(&mut self, changes: &[FileChange]) -> Result {
        change_files(&self.main(), changes)
    }

    fn commit(&mut self, name: &str) -> Result<bool> {
        for directory in [self.work_tree(name), self.main()] {
            self.git(&directory, &["add", "--all"])?;
            self.git(&directory, &["commit", "--quiet", "--message=changes"])?;
        }
        Ok(true)
    }

    fn merge(&mut self, name: &str) -> Result {
        self.git(&self.main(), &["merge", "--quiet", "--no-edit", name])
    }

    fn discard(&mut self, name: &str) -> Result {
        let work_tree = self.work_tree(name);
        let work_tree = work_tree.to_str().ok_or("the directory of the benchmark isn't UTF-8")?;
        self.git(&self.main(), &["worktree", "remove", "--force", work_tree])?;
        self.git(&self.main(), &["branch", "--quiet", "-D", name])
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        read(&self.main().join(path))
    }
}

/// Writes a file and the directories that it is in.
pub fn write(path: &Path, content: &[u8]) -> Result {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(fs::write(path, content)?)
}

/// Changes files in a directory, as a program does it.
pub fn change_files(root: &Path, changes: &[FileChange]) -> Result {
    for change in changes {
        if let Some(to) = &change.moved_to {
            fs::rename(root.join(&change.path), root.join(to))?;
        }
        write(&root.join(change.new_path()), &change.content)?;
    }
    Ok(())
}

/// The content of a file; `None` if there is none.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
