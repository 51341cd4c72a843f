//! A host's configuration file: read, compared, and replaced as a whole with a backup beside it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use similar::TextDiff;
use stead::ErrorKind;

use crate::command_error::CommandError;
use crate::human;

/// What is added to the name of a file for the name of its backup.
const BACKUP_SUFFIX: &str = ".stead-backup";
/// What some editors write at the beginning of a file. It stays.
const BYTE_ORDER_MARK: &str = "\u{feff}";
/// Longer lines are cut in a difference: one may hold a whole file, with secrets of other programs.
const MAX_SHOWN_CHARS: usize = 200;

/// A host's configuration file.
#[derive(Debug)]
pub(super) struct HostFile {
    /// Its path, without symlinks if the file exists: a file that is kept elsewhere is changed there.
    path: PathBuf,
    /// Its content, perhaps with a byte order mark; `None` if it doesn't exist.
    content: Option<String>,
}

impl HostFile {
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let shown_path = human::host_path(path);
        if let Ok(found) = fs::symlink_metadata(path) {
            let problem = match path.metadata() {
                Err(_) if found.is_symlink() => "is a symlink that leads nowhere",
                Ok(target) if !target.is_file() => "isn't a file",
                Ok(target) if target.permissions().readonly() => "is read-only; make it writable first",
                _ => "",
            };
            if !problem.is_empty() {
                return Err(CommandError::invalid(format!("`{shown_path}` {problem}")));
            }
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match fs::read_to_string(&path) {
            Ok(content) => Ok(HostFile { path, content: Some(content) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HostFile { path, content: None }),
            Err(error) => {
                Err(CommandError::host(format!("`{}` can't be read", human::host_path(&path)), error))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The text without a byte order mark; empty if the file doesn't exist.
    pub(super) fn text(&self) -> &str {
        let content = self.content.as_deref().unwrap_or_default();
        content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content)
    }

    /// What would change with this text, in the style of `diff -u`.
    pub(super) fn difference(&self, new: &str) -> String {
        let shown_path = human::host_path(&self.path);
        let before = if self.content.is_some() { &*shown_path } else { "/dev/null" };
        let diff = TextDiff::from_lines(self.text(), new);
        let text = diff.unified_diff().context_radius(1).header(before, &shown_path).to_string();
        let cut = |line: &str| match line.char_indices().nth(MAX_SHOWN_CHARS) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        };
        human::escape_lines(&text.lines().map(cut).collect::<Vec<_>>().join("\n"))
    }

    /// Replaces the file, and returns where its old content is kept. A program that reads the file at this time sees
    /// the old or the new text. Refuses if the file has changed since it was read.
    pub(super) fn replace(&self, new: &str) -> Result<Option<PathBuf>, CommandError> {
        let shown_path = human::host_path(&self.path);
        if HostFile::read(&self.path)?.content != self.content {
            return Err(CommandError::Message(
                ErrorKind::Conflict,
                format!("`{shown_path}` has just been changed by another program; run the command again"),
            ));
        }
        let failed = |error| CommandError::host(format!("`{shown_path}` can't be written"), error);
        self.write(new).map_err(failed)
    }

    fn write(&self, new: &str) -> io::Result<Option<PathBuf>> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)?;
        let permissions = match &self.content {
            Some(_) => fs::metadata(&self.path)?.permissions(),
            // The usual one of new files, which the umask narrows.
            None => fs::Permissions::from_mode(0o666),
        };
        // The error of the crate names the temporary file, which says nothing to the user.
        let temporary = tempfile::Builder::new().permissions(permissions.clone()).tempfile_in(directory);
        let mut file = temporary.map_err(|error| io::Error::from(error.kind()))?;
        if self.content.as_deref().is_some_and(|content| content.starts_with(BYTE_ORDER_MARK)) {
            file.write_all(BYTE_ORDER_MARK.as_bytes())?;
        }
        file.write_all(new.as_bytes())?;
        if self.content.is_some() {
            // Despite the umask.
            file.as_file().set_permissions(permissions.clone())?;
        }
        file.as_file().sync_all()?;
        let backup = self.content.as_deref().map(|content| self.write_backup(content, permissions.mode()));
        let backup = backup.transpose()?;
        file.persist(&self.path)?;
        Ok(backup)
    }

    /// Writes the backup as a new file: an earlier backup may have what was there before Stead, and a link of that name
    /// may lead to any file.
    fn write_backup(&self, content: &str, mode: u32) -> io::Result<PathBuf> {
        let name = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(BACKUP_SUFFIX);
            if number > 1 {
                name.push(format!("-{number}"));
            }
            PathBuf::from(name)
        };
        for backup in (1..).map(name) {
            let file = OpenOptions::new().write(true).create_new(true).mode(mode & 0o777).open(&backup);
            match file {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => {
                    let mut file = file?;
                    file.write_all(content.as_bytes())?;
                    file.sync_all()?;
                    return Ok(backup);
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_through_its_symlink_and_the_old_one_is_kept() {
        let host = tempfile::tempdir().unwrap();
        let (real, link) = (host.path().join("dotfiles.json"), host.path().join("link.json"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        // Something with the name of the backup stays, and a link of that name is not followed.
        fs::write(host.path().join("other"), "untouched").unwrap();
        let backup_name = host.path().join("dotfiles.json.stead-backup");
        std::os::unix::fs::symlink(host.path().join("other"), &backup_name).unwrap();
        let backup = HostFile::read(&link).unwrap().replace("new").unwrap().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::read_to_string(&backup).unwrap(), "old");
        assert_eq!(fs::read_to_string(host.path().join("other")).unwrap(), "untouched");
        for file in [&real, &backup] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(backup.ends_with("dotfiles.json.stead-backup-2") && backup_name.is_symlink());
        assert_eq!(fs::read_dir(host.path()).unwrap().count(), 5, "nothing else is left behind");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text_and_stays() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("settings.json");
        fs::write(&path, "\u{feff}{}").unwrap();
        let file = HostFile::read(&path).unwrap();
        assert_eq!(file.text(), "{}");
        let backup = file.replace("new").unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "\u{feff}new");
        assert_eq!(fs::read_to_string(backup).unwrap(), "\u{feff}{}");
    }

    #[test]
    fn anything_but_a_writable_file_is_left_alone() {
        let host = tempfile::tempdir().unwrap();
        let path = |name: &str| host.path().join(name);
        std::os::unix::fs::symlink("nowhere", path("dangling")).unwrap();
        std::os::unix::fs::symlink("circle", path("circle")).unwrap();
        fs::create_dir(path("directory")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        fs::write(path("read-only"), "{}").unwrap();
        fs::set_permissions(path("read-only"), fs::Permissions::from_mode(0o444)).unwrap();
        for (name, problem) in [
            ("dangling", "leads nowhere"),
            ("circle", "leads nowhere"),
            ("directory", "isn't a file"),
            ("fifo", "isn't a file"),
            ("read-only", "is read-only"),
        ] {
            let error = HostFile::read(&path(name)).unwrap_err().message();
            assert!(error.contains(problem), "{name}: {error}");
        }
    }

    #[test]
    fn a_file_that_another_program_changes_meanwhile_is_left_alone() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("a/b/settings.json");
        let missing = HostFile::read(&path).unwrap();
        assert_eq!(missing.replace("first").unwrap(), None);
        assert!(missing.replace("second").is_err());
        let file = HostFile::read(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        let error = file.replace("second").unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::Conflict));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn a_difference_shows_little_of_a_long_line() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("one-line.json");
        fs::write(&path, format!("{{\"a\": 1, {} \"token\": \"secret\"}}", " ".repeat(300))).unwrap();
        let difference = HostFile::read(&path).unwrap().difference("{}");
        assert!(difference.contains("-{\"a\": 1,") && !difference.contains("secret"), "{difference}");
    }
}
