//! The Dockerfile, which takes the binaries from the directory that it is in.

use std::fs;

use crate::Result;
use crate::programs::root;

use super::PackagedFile;
use super::binary::Binary;

/// The Dockerfile.
pub(super) fn file() -> Result<PackagedFile> {
    Ok(PackagedFile::data("Dockerfile", fs::read(root().join("packaging/Dockerfile"))?))
}

/// A binary at its place beside the Dockerfile.
pub(super) fn binary_file(binary: &Binary) -> PackagedFile {
    PackagedFile::executable(format!("linux-{}/stead", binary.architecture().debian_name()), binary.content())
}

/// What a Dockerfile copies into the image for one architecture. Fails if it has an unknown instruction.
pub(super) fn copied_files(text: &str, architecture: &str) -> Result<Vec<String>> {
    const INSTRUCTIONS: [&str; 9] =
        ["ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "RUN", "USER", "WORKDIR"];
    let mut copied = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let instruction = words.next().unwrap_or_default();
        if !INSTRUCTIONS.contains(&instruction) {
            return Err(format!("the Dockerfile has the unknown instruction `{instruction}`").into());
        }
        if instruction == "COPY" {
            let mut paths: Vec<_> = words.filter(|word| !word.starts_with("--")).collect();
            paths.pop();
            copied.extend(paths.into_iter().map(|path| path.replace("${TARGETARCH}", architecture)));
        }
    }
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dockerfile_copies_the_binary_of_its_architecture() {
        let text = String::from_utf8(file().unwrap().content).unwrap();
        assert_eq!(copied_files(&text, "arm64").unwrap(), ["linux-arm64/stead"]);
    }

    #[test]
    fn a_misspelt_instruction_is_found() {
        assert!(copied_files("FROM debian\nCOYP a b\n", "amd64").is_err());
    }
}
