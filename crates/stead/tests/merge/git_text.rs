//! Text merges beside `git merge-file`, on generated texts.

use std::path::Path;
use std::process::Command;

use stead_core::history::text_merge::{MergeLabels, TextMerge};

/// Generates lines of a small alphabet, so that many of them are equal.
fn random_text(random: &mut fastrand::Rng, ending: &str) -> Vec<String> {
    let kinds = [3, 8, 40][random.usize(..3)];
    (0..random.usize(0..40)).map(|_| format!("line {}{ending}", random.usize(..kinds))).collect()
}

/// Changes some runs of lines.
fn edited(random: &mut fastrand::Rng, base: &[String], ending: &str) -> Vec<String> {
    let mut lines = base.to_vec();
    for _ in 0..random.usize(0..5) {
        let at = random.usize(0..=lines.len());
        let removed = random.usize(0..4).min(lines.len() - at);
        let added: Vec<String> =
            (0..random.usize(0..4)).map(|_| format!("line {}{ending}", random.usize(..60))).collect();
        lines.splice(at..at + removed, added);
    }
    lines
}

fn joined(random: &mut fastrand::Rng, lines: &[String]) -> Vec<u8> {
    let mut text = lines.concat().into_bytes();
    if random.usize(..6) == 0 && text.last() == Some(&b'\n') {
        text.pop();
    }
    text
}

/// What git makes of it, and whether there were conflicts.
fn git_merge_file(directory: &Path, base: &[u8], ours: &[u8], theirs: &[u8]) -> (Vec<u8>, bool) {
    for (name, content) in [("base", base), ("ours", ours), ("theirs", theirs)] {
        std::fs::write(directory.join(name), content).unwrap();
    }
    let output = Command::new("git")
        .current_dir(directory)
        .args([
            "merge-file",
            "-p",
            "--diff3",
            "-L",
            "target",
            "-L",
            "base",
            "-L",
            "fork",
            "ours",
            "base",
            "theirs",
        ])
        .output()
        .unwrap();
    let code = output.status.code().unwrap();
    assert!(code < 128, "git failed: {}", String::from_utf8_lossy(&output.stderr));
    (output.stdout, code > 0)
}

#[test]
fn g8_g9_texts_merge_as_git_merges_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut clean = 0;
    for case in 0..3_000 {
        let ending = if random.usize(..4) == 0 { "\r\n" } else { "\n" };
        let base_lines = random_text(&mut random, ending);
        let (our_lines, their_lines) =
            (edited(&mut random, &base_lines, ending), edited(&mut random, &base_lines, ending));
        let [base, ours, theirs] =
            [&base_lines, &our_lines, &their_lines].map(|lines| joined(&mut random, lines));
        let (expected, has_conflicts) = git_merge_file(directory.path(), &base, &ours, &theirs);
        let merge = TextMerge::new(&base, &ours, &theirs);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            merge.is_clean(),
            !has_conflicts,
            "case {case}\n{}\n--\n{}\n--\n{}",
            text(&base),
            text(&ours),
            text(&theirs)
        );
        assert_eq!(
            text(&merge.to_bytes(&MergeLabels::FORK)),
            text(&expected),
            "case {case}\n{}\n--\n{}\n--\n{}",
            text(&base),
            text(&ours),
            text(&theirs)
        );
        clean += usize::from(!has_conflicts);
    }
    assert!((500..2_500).contains(&clean), "both outcomes have to be compared: {clean} were clean");
}
