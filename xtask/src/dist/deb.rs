//! The Debian package: an `ar` archive with a version, the control files and the data.

use std::fmt::Write;

use crate::Result;

use super::binary::{Binary, Linkage};
use super::contents::THIRD_PARTY;
use super::tarball::{gzip, tar_gz};
use super::{PackagedFile, Release, SharedFiles};

/// The shared libraries that a binary may need, and the packages that have them.
const LIBRARY_PACKAGES: [(&str, &str); 7] = [
    ("ld-linux-aarch64.so.1", "libc6"),
    ("ld-linux-x86-64.so.2", "libc6"),
    ("libc.so.6", "libc6"),
    ("libdl.so.2", "libc6"),
    ("libm.so.6", "libc6"),
    ("libpthread.so.0", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
];

/// The package.
pub(super) fn package(binary: &Binary, shared: &SharedFiles, release: &Release) -> Result<PackagedFile> {
    let architecture = binary.architecture().debian_name();
    let mut data = vec![PackagedFile::executable("usr/bin/stead", binary.content())];
    for file in &shared.installed {
        data.push(debian_file(file)?);
    }
    data.push(PackagedFile::data("usr/share/doc/stead/copyright", copyright(shared, release)?));
    data.sort_by(|a, b| a.path.cmp(&b.path));

    let size = data.iter().map(|file| file.content.len().div_ceil(1024)).sum();
    let control = control(architecture, &dependencies(binary.linkage())?, size, release);
    let control_files = [PackagedFile::data("control", control)];
    let mut archive = ar::Builder::new(Vec::new());
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", tar_gz(&control_files, release.time)?),
        ("data.tar.gz", tar_gz(&data, release.time)?),
    ];
    for (name, content) in members {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), content.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(release.time);
        archive.append(&header, &*content)?;
    }
    Ok(PackagedFile::data(format!("stead_{}_{architecture}.deb", release.version), archive.into_inner()?))
}

/// A file at Debian's place for it. Manual pages and the changelog are compressed there.
fn debian_file(file: &PackagedFile) -> Result<PackagedFile> {
    let path = format!("usr/{}", file.path.replace("zsh/site-functions", "zsh/vendor-completions"));
    Ok(if path.contains("/man/") {
        PackagedFile::data(format!("{path}.gz"), gzip(&file.content)?)
    } else if path.ends_with("/CHANGELOG.md") {
        PackagedFile::data("usr/share/doc/stead/changelog.gz", gzip(&file.content)?)
    } else {
        PackagedFile { path, ..file.clone() }
    })
}

/// The packages that the binary needs, as in the field `Depends`.
fn dependencies(linkage: &Linkage) -> Result<Vec<String>> {
    let Linkage::Glibc { version: (major, minor), libraries } = linkage else { return Ok(Vec::new()) };
    let mut packages = vec![format!("libc6 (>= {major}.{minor})")];
    for library in libraries {
        let package = LIBRARY_PACKAGES.iter().find(|(name, _)| name == library).map(|(_, package)| *package);
        let package = package.ok_or_else(|| {
            format!("the binary needs {library}: name its Debian package in xtask/src/dist/deb.rs")
        })?;
        if package != "libc6" && !packages.iter().any(|known| known == package) {
            packages.push(package.to_owned());
        }
    }
    Ok(packages)
}

fn control(architecture: &str, dependencies: &[String], size: usize, release: &Release) -> String {
    let (summary, details) = release.description.split_once(": ").unwrap_or((&release.description, ""));
    let mut control = format!(
        "Package: stead\nVersion: {}\nArchitecture: {architecture}\nMaintainer: The Stead developers\n\
         Section: devel\nPriority: optional\nInstalled-Size: {size}\n",
        release.version
    );
    if !dependencies.is_empty() {
        let _ = writeln!(control, "Depends: {}", dependencies.join(", "));
    }
    // Lets users other than root mount a stead.
    let _ = writeln!(control, "Recommends: fuse3");
    let _ = writeln!(control, "Description: {summary}");
    if !details.is_empty() {
        let _ = writeln!(control, " {details}");
    }
    control
}

fn copyright(shared: &SharedFiles, release: &Release) -> Result<String> {
    let mut text = format!("Stead is licensed under {}, at your option.\n", release.licence);
    for licence in &shared.licences {
        let title = if licence.path == THIRD_PARTY { "Crates in the binary" } else { &*licence.path };
        let _ = write!(text, "\n== {title}\n\n{}", std::str::from_utf8(&licence.content)?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glibc(libraries: &[&str]) -> Linkage {
        let libraries = libraries.iter().map(|name| (*name).to_owned()).collect();
        Linkage::Glibc { version: (2, 34), libraries }
    }

    #[test]
    fn a_package_depends_on_what_its_binary_needs() {
        let needed = glibc(&["libgcc_s.so.1", "libm.so.6", "libc.so.6"]);
        assert_eq!(dependencies(&needed).unwrap(), ["libc6 (>= 2.34)", "libgcc-s1"]);
        assert!(dependencies(&Linkage::Static).unwrap().is_empty());
    }

    #[test]
    fn a_library_of_an_unknown_package_is_refused() {
        let refused = dependencies(&glibc(&["libfuse3.so.3"])).unwrap_err().to_string();
        assert!(refused.contains("libfuse3.so.3"), "{refused}");
    }

    #[test]
    fn the_control_file_of_a_static_binary_names_no_dependency() {
        let release = Release {
            version: "1.2.3".into(),
            description: "A place: with walls.".into(),
            licence: "MIT".into(),
            time: 0,
        };
        assert_eq!(
            control("arm64", &[], 42, &release),
            "Package: stead\nVersion: 1.2.3\nArchitecture: arm64\nMaintainer: The Stead developers\n\
             Section: devel\nPriority: optional\nInstalled-Size: 42\nRecommends: fuse3\n\
             Description: A place\n with walls.\n"
        );
    }
}
