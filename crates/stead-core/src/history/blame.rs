//! Blame: which version of a text wrote each line, found by comparing the versions one after the other.
//!
//! ```
//! use stead_core::history::blame::blame;
//!
//! let lines = blame(&["one\n", "one\ntwo\n"]);
//! assert_eq!(lines, [(0, b"one\n".to_vec()), (1, b"two\n".to_vec())]);
//! ```

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// A line of the newest version of a text, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlamedLine {
    /// The index of the version that wrote the line.
    pub version: usize,
    /// The line's index in that version.
    pub index: usize,
    /// The line, with its ending.
    pub line: Vec<u8>,
}

/// The lines of the newest version, each with the index of the version that wrote it.
///
/// `versions` are the contents, oldest first. Lines of the first version belong to it.
pub fn blame(versions: &[impl AsRef<[u8]>]) -> Vec<(usize, Vec<u8>)> {
    blame_lines(versions).into_iter().map(|line| (line.version, line.line)).collect()
}

/// Like [`blame`], with the place of each line in the version that wrote it.
pub fn blame_lines(versions: &[impl AsRef<[u8]>]) -> Vec<BlamedLine> {
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut writers: Vec<(usize, usize)> = Vec::new();
    for (version, content) in versions.iter().enumerate() {
        let new_lines: Vec<&[u8]> = content.as_ref().split_inclusive(|&byte| byte == b'\n').collect();
        let mut new_writers: Vec<_> = (0..new_lines.len()).map(|index| (version, index)).collect();
        for op in capture_diff_slices(Algorithm::Myers, &lines, &new_lines) {
            if let DiffOp::Equal { old_index, new_index, len } = op {
                new_writers[new_index..new_index + len].copy_from_slice(&writers[old_index..old_index + len]);
            }
        }
        (lines, writers) = (new_lines, new_writers);
    }
    let blamed = writers.into_iter().zip(lines);
    blamed.map(|((version, index), line)| BlamedLine { version, index, line: line.to_vec() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writers(versions: &[&str]) -> Vec<usize> {
        blame(versions).into_iter().map(|(writer, _)| writer).collect()
    }

    #[test]
    fn a_line_belongs_to_the_version_that_wrote_it_last() {
        assert_eq!(writers(&["a\nb\nc\n"]), [0, 0, 0]);
        assert_eq!(writers(&["a\nb\nc\n", "a\nB\nc\n"]), [0, 1, 0]);
        assert_eq!(writers(&["a\nb\n", "a\nb\nc\n", "x\na\nb\nc\n"]), [2, 0, 0, 1]);
        // A line that is removed and added again belongs to the version that added it again.
        assert_eq!(writers(&["a\nb\n", "a\n", "a\nb\n"]), [0, 2]);
        assert_eq!(writers(&["", "a"]), [1]);
        assert_eq!(writers(&["a\n", ""]), [0_usize; 0]);
    }

    #[test]
    fn lines_are_kept_with_their_endings() {
        assert_eq!(blame(&["a\r\nb"]), [(0, b"a\r\n".to_vec()), (0, b"b".to_vec())]);
    }
}
