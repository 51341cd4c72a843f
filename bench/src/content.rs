//! The content that is written: different for every file, so that deduplication saves nothing.

const WORDS: [&str; 16] = [
    "agent",
    "branch",
    "commit",
    "directory",
    "error",
    "file",
    "guard",
    "history",
    "index",
    "journal",
    "kernel",
    "listing",
    "merge",
    "notes",
    "operation",
    "path",
];

/// The size of a small file.
pub const SMALL: usize = 4096;
/// A word in about every tenth line.
pub const COMMON: &str = "quota";
/// A word in few files.
pub const RARE: &str = "xylophone";

/// Text of this many bytes, in lines, that begins with its number.
pub fn text(number: usize, size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let mut text = format!("file {number}\n");
    while text.len() < size {
        for _ in 0..8 {
            text.push_str(WORDS[random.usize(..WORDS.len())]);
            text.push(' ');
        }
        if random.u8(..) < 26 {
            text.push_str(COMMON);
        }
        text.push('\n');
    }
    text.truncate(size);
    text.into_bytes()
}

/// Changes the first line of a text, so that it becomes a different text.
///
/// Generating a whole new text takes as long as storing it, and only storing is measured.
pub fn renumber(text: &mut [u8], number: usize) {
    let head = format!("file {number:012}\n");
    text[..head.len()].copy_from_slice(head.as_bytes());
}

/// Bytes without repetition, as in typical large files.
pub fn noise(seed: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    fastrand::Rng::with_seed(seed as u64).fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_differ_have_their_size_and_can_be_renumbered() {
        let (mut first, second) = (text(1, SMALL), text(2, SMALL));
        assert_eq!((first.len(), second.len()), (SMALL, SMALL));
        assert_ne!(first, second);
        let before = first.clone();
        renumber(&mut first, 7);
        assert!(first.starts_with(b"file 000000000007\n"));
        assert_eq!(first[18..], before[18..]);
    }
}
