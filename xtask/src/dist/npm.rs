//! The npm package. Its command is the binary itself, so starting it starts no Node.

use serde_json::json;

use crate::Result;

use super::binary::{Binary, Linkage};
use super::tarball::tar_gz;
use super::{PackagedFile, Release, SharedFiles};

/// The package. It is for one architecture; npm refuses to install it on another.
pub(super) fn package(binary: &Binary, shared: &SharedFiles, release: &Release) -> Result<PackagedFile> {
    let cpu = binary.architecture().node_name();
    let mut manifest = json!({
        "name": "stead",
        "version": release.version,
        "description": release.description,
        "license": release.licence,
        "bin": { "stead": "bin/stead" },
        "os": ["linux"],
        "cpu": [cpu],
    });
    if let Linkage::Glibc { .. } = binary.linkage() {
        manifest["libc"] = json!(["glibc"]);
    }
    let mut files = vec![
        PackagedFile::data("package.json", format!("{manifest:#}\n")),
        PackagedFile::data("README.md", &*shared.readme),
        PackagedFile::executable("bin/stead", binary.content()),
    ];
    files.extend(shared.licences.iter().cloned());
    for file in &mut files {
        file.path = format!("package/{}", file.path);
    }
    Ok(PackagedFile::data(
        format!("stead-{}-npm-linux-{cpu}.tgz", release.version),
        tar_gz(&files, release.time)?,
    ))
}
