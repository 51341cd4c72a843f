//! A tar.gz of a release, and the writers of tar and gzip that the other packages use too.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::Result;

use super::binary::Binary;
use super::{PackagedFile, Release, SharedFiles};

/// The tar.gz. Its one directory has the layout of `/usr`, so it can be unpacked there, or
/// into `~/.local`, without its first component.
pub(super) fn package(binary: &Binary, shared: &SharedFiles, release: &Release) -> Result<PackagedFile> {
    let name = format!("stead-{}-linux-{}", release.version, binary.architecture().rust_name());
    let mut files = vec![PackagedFile::executable("bin/stead", binary.content())];
    files.extend(shared.installed.iter().cloned());
    files.extend(shared.licences.iter().map(|licence| PackagedFile {
        path: format!("share/doc/stead/{}", licence.path),
        ..licence.clone()
    }));
    for file in &mut files {
        file.path = format!("{name}/{}", file.path);
    }
    Ok(PackagedFile::data(format!("{name}.tar.gz"), tar_gz(&files, release.time)?))
}

/// A compressed archive of these files and the directories that they are in, owned by root.
pub(super) fn tar_gz(files: &[PackagedFile], time: u64) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(gzip_encoder());
    for directory in directories(files) {
        let mut header = header(tar::EntryType::Directory, 0o755, time);
        header.set_size(0);
        archive.append_data(&mut header, format!("{directory}/"), io::empty())?;
    }
    for file in files {
        let mut header = header(tar::EntryType::Regular, file.mode, time);
        header.set_size(file.content.len() as u64);
        archive.append_data(&mut header, &file.path, &*file.content)?;
    }
    archive.into_inner()?.finish()
}

/// Compresses a text. The result has neither a name nor a time.
pub(super) fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = gzip_encoder();
    encoder.write_all(content)?;
    encoder.finish()
}

fn gzip_encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::default())
}

fn header(kind: tar::EntryType, mode: u32, time: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// The directories above the files, each after its parent.
fn directories(files: &[PackagedFile]) -> BTreeSet<String> {
    let parents = files.iter().flat_map(|file| Path::new(&file.path).ancestors().skip(1));
    parents.map(|path| path.display().to_string()).filter(|path| !path.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_before_what_is_in_them() {
        let file = |path: &str| PackagedFile::data(path, "");
        let found = directories(&[file("usr/share/doc/a"), file("usr/bin/b"), file("top")]);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["usr", "usr/bin", "usr/share", "usr/share/doc"]);
    }

    #[test]
    fn the_same_files_make_the_same_archive_whenever_it_is_made() {
        let files = [PackagedFile::executable("bin/stead", "binary"), PackagedFile::data("doc", "text")];
        let archive = tar_gz(&files, 1_000_000_000).unwrap();
        assert_eq!(archive, tar_gz(&files, 1_000_000_000).unwrap());
        assert_ne!(archive, tar_gz(&files, 1_000_000_001).unwrap());
        assert_eq!(archive[4..8], [0; 4], "gzip's own time");
    }
}
