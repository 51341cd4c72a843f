//! Checksums of the files of a release, for `sha256sum --check SHA256SUMS`.

use sha2::{Digest, Sha256};

use super::PackagedFile;

/// One line for each file: its digest and its path.
pub(super) fn sums(files: &[PackagedFile]) -> String {
    files.iter().map(|file| format!("{}  {}\n", hex(&Sha256::digest(&file.content)), file.path)).collect()
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_form_that_sha256sum_reads() {
        let sums = sums(&[PackagedFile::data("empty", "")]);
        assert_eq!(sums, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty\n");
    }
}
