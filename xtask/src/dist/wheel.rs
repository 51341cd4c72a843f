//! The Python wheel: a zip whose one script is the binary itself, so starting it starts no Python.

use std::fmt::Write as _;
use std::io::{Cursor, Write};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::Result;

use super::binary::{Binary, Linkage};
use super::{PackagedFile, Release, SharedFiles};

/// The wheel.
pub(super) fn package(binary: &Binary, shared: &SharedFiles, release: &Release) -> Result<PackagedFile> {
    let platforms = platform_tags(binary.architecture().rust_name(), binary.linkage());
    let base = format!("stead-{}", release.version);
    let information = |name: &str| format!("{base}.dist-info/{name}");
    let mut files = vec![PackagedFile::executable(format!("{base}.data/scripts/stead"), binary.content())];
    for licence in &shared.licences {
        let path = information(&format!("licenses/{}", licence.path));
        files.push(PackagedFile { path, ..licence.clone() });
    }
    files.push(PackagedFile::data(information("METADATA"), metadata(shared, release)));
    files.push(PackagedFile::data(information("WHEEL"), wheel_file(&platforms)));
    let record = record(&files, &information("RECORD"));
    files.push(PackagedFile::data(information("RECORD"), record));
    Ok(PackagedFile::data(format!("{base}-py3-none-{}.whl", platforms.join(".")), zip(&files)?))
}

/// The platforms that pip may install the wheel on. A static binary runs with every C library.
fn platform_tags(architecture: &str, linkage: &Linkage) -> Vec<String> {
    match linkage {
        Linkage::Static => {
            ["manylinux2014", "musllinux_1_1"].map(|platform| format!("{platform}_{architecture}")).to_vec()
        }
        Linkage::Glibc { version: (major, minor), .. } => {
            vec![format!("manylinux_{major}_{minor}_{architecture}")]
        }
    }
}

fn metadata(shared: &SharedFiles, release: &Release) -> String {
    let mut text = format!(
        "Metadata-Version: 2.4\nName: stead\nVersion: {}\nSummary: {}\nLicense-Expression: {}\n",
        release.version, release.description, release.licence
    );
    for licence in &shared.licences {
        let _ = writeln!(text, "License-File: {}", licence.path);
    }
    let _ =
        write!(text, "Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{}", shared.readme);
    text
}

fn wheel_file(platforms: &[String]) -> String {
    let mut text = "Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\n".to_owned();
    for platform in platforms {
        let _ = writeln!(text, "Tag: py3-none-{platform}");
    }
    text
}

/// The list of all files with their digests, and at its end the list itself, without one.
fn record(files: &[PackagedFile], own_path: &str) -> String {
    let mut text = String::new();
    for file in files {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&file.content));
        let _ = writeln!(text, "{},sha256={digest},{}", file.path, file.content.len());
    }
    let _ = writeln!(text, "{own_path},,");
    text
}

/// A compressed archive. All files have the earliest time that a zip can hold.
fn zip(files: &[PackagedFile]) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(file.mode);
        archive.start_file(&*file.path, options)?;
        archive.write_all(&file.content)?;
    }
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_wheel_says_which_c_library_it_needs() {
        let glibc = Linkage::Glibc { version: (2, 34), libraries: vec!["libc.so.6".to_owned()] };
        assert_eq!(platform_tags("x86_64", &glibc), ["manylinux_2_34_x86_64"]);
        let anywhere = ["manylinux2014_aarch64", "musllinux_1_1_aarch64"];
        assert_eq!(platform_tags("aarch64", &Linkage::Static), anywhere);
    }

    #[test]
    fn the_record_lists_every_file_with_its_digest_and_itself_without_one() {
        let record = record(&[PackagedFile::data("a", "")], "RECORD");
        assert_eq!(record, "a,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nRECORD,,\n");
    }

    #[test]
    fn the_same_files_make_the_same_zip() {
        let files = [PackagedFile::executable("stead", "binary")];
        assert_eq!(zip(&files).unwrap(), zip(&files).unwrap());
    }
}
