//! Drafts, and content that is open for reading.

use super::subject::*;
use crate::store::{
    Content, Draft, NodePath, Parents, Precondition, PutOptions, Replace, SealedContent, StoreError,
};

fn commit_draft(t: &Subject, path: NodePath, mut draft: Box<dyn Draft>) -> crate::store::Attr {
    let size = draft.size();
    let sealed = draft.seal().unwrap();
    assert_eq!(sealed.size(), size);
    let attr = t.apply_one(write_with(path, Content::Sealed(sealed), PutOptions::default())).attr.unwrap();
    assert_eq!(attr.size, size);
    attr
}

fn read_draft(draft: &mut dyn Draft) -> Vec<u8> {
    let mut bytes = vec![0xaa; usize::try_from(draft.size()).unwrap() + 10];
    let count = draft.read_at(0, &mut bytes).unwrap();
    assert_eq!(count as u64, draft.size());
    bytes.truncate(count);
    bytes
}

pub fn a_draft_becomes_a_file(t: &Subject) {
    let mut draft = t.draft();
    assert_eq!(draft.size(), 0);
    draft.write_at(0, b"hello ").unwrap();
    draft.write_at(6, b"world").unwrap();
    assert_eq!(draft.size(), 11);
    assert!(t.names("").is_empty(), "a draft is invisible until its change");
    let attr = commit_draft(t, at("dir/file"), draft);
    assert_eq!(t.stat("dir/file"), attr);
    assert_eq!(attr.mode, 0o644);
    assert_eq!(t.read("dir/file"), b"hello world");
    commit_draft(t, at("empty"), t.draft());
    assert_eq!(t.read("empty"), b"");
}

pub fn a_large_draft_is_stored_completely(t: &Subject) {
    let bytes = aperiodic_bytes((3 << 20) + 1);
    let mut draft = t.draft();
    for (index, piece) in bytes.chunks(100_003).enumerate() {
        draft.write_at(index as u64 * 100_003, piece).unwrap();
    }
    assert!(read_draft(&mut *draft) == bytes);
    commit_draft(t, at("large"), draft);
    assert!(t.read("large") == bytes);
}

pub fn a_draft_can_be_written_in_any_order(t: &Subject) {
    let bytes = aperiodic_bytes(1_200_000);
    let mut draft = t.draft();
    let mut starts: Vec<usize> = (0..bytes.len()).step_by(50_000).collect();
    starts.sort_by_key(|start| start.wrapping_mul(7_919) % 1_000_003);
    for start in starts {
        let end = (start + 50_000).min(bytes.len());
        draft.write_at(start as u64, &bytes[start..end]).unwrap();
    }
    draft.write_at(600_000, b"over").unwrap();
    let mut expected = bytes;
    expected[600_000..600_004].copy_from_slice(b"over");
    commit_draft(t, at("file"), draft);
    assert!(t.read("file") == expected);
}

pub fn a_draft_takes_small_writes_anywhere(t: &Subject) {
    const SIZE: usize = 3 << 20;
    let mut expected: Vec<u8> = (0..SIZE).map(|index| (index / 7) as u8).collect();
    t.write("file", &expected);
    let mut draft = t.draft_of(&at("file"));
    let mut random = fastrand::Rng::with_seed(1);
    let mut buffer = vec![0; 9_000];
    for round in 0..4_000 {
        let offset = random.usize(..expected.len());
        match round % 200 {
            199 => {
                let size = random.usize(SIZE / 2..SIZE);
                draft.set_size(size as u64).unwrap();
                expected.resize(size, 0);
            }
            50 | 51 => {
                let count = draft.read_at(offset as u64, &mut buffer).unwrap();
                assert!(buffer[..count] == expected[offset..][..count], "{round}");
            }
            100 => {
                let bytes = vec![random.u8(..); 300_000];
                draft.write_at(offset as u64, &bytes).unwrap();
                expected.resize(expected.len().max(offset + bytes.len()), 0);
                expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            _ => {
                let bytes = vec![random.u8(..); random.usize(1..6_000)];
                draft.write_at(offset as u64, &bytes).unwrap();
                expected.resize(expected.len().max(offset + bytes.len()), 0);
                expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }
    assert_eq!(draft.size(), expected.len() as u64);
    commit_draft(t, at("file"), draft);
    assert!(t.read("file") == expected);
}

pub fn a_gap_in_a_draft_reads_as_zeros(t: &Subject) {
    let mut draft = t.draft();
    draft.write_at(5, b"x").unwrap();
    draft.write_at(600_000, b"y").unwrap();
    let mut expected = vec![0; 600_001];
    (expected[5], expected[600_000]) = (b'x', b'y');
    assert!(read_draft(&mut *draft) == expected);
    commit_draft(t, at("file"), draft);
    assert!(t.read("file") == expected);
    let mut draft = t.draft();
    draft.write_at(100, b"").unwrap();
    assert_eq!(draft.size(), 0, "an empty write changes nothing");
}

pub fn a_draft_is_truncated_and_extended(t: &Subject) {
    let mut draft = t.draft();
    draft.write_at(0, &aperiodic_bytes(700_000)).unwrap();
    draft.set_size(300_000).unwrap();
    assert_eq!(draft.size(), 300_000);
    draft.set_size(300_010).unwrap();
    let mut expected = aperiodic_bytes(300_000);
    expected.extend([0; 10]);
    assert!(read_draft(&mut *draft) == expected, "truncated bytes don't come back");
    draft.set_size(3).unwrap();
    draft.write_at(4, b"!").unwrap();
    commit_draft(t, at("file"), draft);
    assert_eq!(t.read("file"), [&aperiodic_bytes(3)[..], &[0, b'!']].concat());
    let mut draft = t.draft_of(&at("file"));
    draft.set_size(0).unwrap();
    commit_draft(t, at("file"), draft);
    assert_eq!(t.read("file"), b"");
}

pub fn a_draft_is_read_while_it_is_written(t: &Subject) {
    t.write("file", aperiodic_bytes(700_000));
    let mut draft = t.draft_of(&at("file"));
    assert_eq!(draft.size(), 700_000);
    draft.write_at(262_140, b"across a boundary").unwrap();
    let mut expected = aperiodic_bytes(700_000);
    expected[262_140..262_157].copy_from_slice(b"across a boundary");
    assert!(read_draft(&mut *draft) == expected);
    let mut buffer = [0; 30];
    assert_eq!(draft.read_at(262_130, &mut buffer).unwrap(), 30);
    assert_eq!(buffer, expected[262_130..262_160]);
    assert_eq!(draft.read_at(699_990, &mut buffer).unwrap(), 10, "a short read only at the end");
    assert_eq!(draft.read_at(700_000, &mut buffer).unwrap(), 0);
    assert_eq!(draft.read_at(u64::from(u32::MAX), &mut buffer).unwrap(), 0);
    assert!(t.read("file") == aperiodic_bytes(700_000), "the file itself is unchanged");
}

pub fn a_dropped_draft_leaves_nothing(t: &Subject) {
    t.write("file", aperiodic_bytes(400_000));
    let before = t.snapshot();
    for _ in 0..3 {
        let mut draft = t.draft();
        draft.write_at(0, &aperiodic_bytes(600_000)).unwrap();
        drop(draft);
        let mut draft = t.draft_of(&at("file"));
        draft.write_at(10, b"changed").unwrap();
        draft.set_size(50).unwrap();
        drop(draft);
        let mut draft = t.draft();
        draft.write_at(0, &aperiodic_bytes(600_000)).unwrap();
        drop(draft.seal().unwrap());
    }
    assert_eq!(t.snapshot(), before);
}

pub fn a_draft_is_committed_to_its_node(t: &Subject) {
    let mut expected = aperiodic_bytes(1_500_000);
    t.write("dir/file", &expected);
    t.apply_one(chmod(at("dir/file"), 0o755));
    let before = t.stat("dir/file");
    let node = NodePath::of_node(before.node);
    let edits: [(usize, &[u8]); 4] =
        [(0, b"start"), (262_143, b"chunks"), (900_000, b"x"), (1_499_999, b"end")];
    for (offset, bytes) in edits {
        let mut draft = t.draft_of(&node);
        draft.write_at(offset as u64, bytes).unwrap();
        let attr = commit_draft(t, node.clone(), draft);
        expected.resize(expected.len().max(offset + bytes.len()), 0);
        expected[offset..offset + bytes.len()].copy_from_slice(bytes);
        assert_eq!((attr.node, attr.mode), (before.node, 0o755));
        assert_eq!(t.stat("dir/file"), attr);
        assert!(t.read("dir/file") == expected);
    }
    let mut draft = t.draft_of(&node);
    draft.set_size(500_000).unwrap();
    draft.set_size(500_100).unwrap();
    expected.truncate(500_000);
    expected.resize(500_100, 0);
    assert_eq!(commit_draft(t, node.clone(), draft).node, before.node);
    assert!(t.read("dir/file") == expected);
    let unchanged = t.draft_of(&node);
    commit_draft(t, node, unchanged);
    assert!(t.read("dir/file") == expected);
}

pub fn a_draft_is_committed_to_its_node_after_a_rename(t: &Subject) {
    t.write("dir/file", "before");
    let node = t.node("dir/file");
    let mut draft = t.draft_of(&NodePath::of_node(node));
    t.rename("dir/file", "moved", Replace::Refuse);
    t.write("dir/file", "another");
    draft.write_at(6, b" and after").unwrap();
    assert_eq!(commit_draft(t, NodePath::of_node(node), draft).node, node);
    assert_eq!((t.read("moved"), t.read("dir/file")), (b"before and after".to_vec(), b"another".to_vec()));
    let mut draft = t.draft_of(&NodePath::of_node(node));
    t.remove("moved");
    let sealed = Content::Sealed(draft.seal().unwrap());
    let error = t.assert_step_refused(write_with(NodePath::of_node(node), sealed, PutOptions::default()));
    assert!(matches!(error, StoreError::NotFound), "{error:?}");
}

pub fn a_draft_of_a_file_can_be_committed_to_another_path(t: &Subject) {
    let bytes = aperiodic_bytes(800_000);
    t.write("file", &bytes);
    t.write("other", "old");
    let mut expected = bytes.clone();
    expected[400_000..400_005].copy_from_slice(b"draft");
    for path in ["new/file", "other"] {
        let mut draft = t.draft_of(&at("file"));
        draft.write_at(400_000, b"draft").unwrap();
        commit_draft(t, at(path), draft);
        assert!(t.read(path) == expected);
        assert!(t.read("file") == bytes, "the source of the draft has to stay unchanged");
    }
}

pub fn committing_a_draft_checks_its_precondition(t: &Subject) {
    let tag = t.write("file", "1").tag;
    let draft_step = |path: &str, expect| {
        let mut draft = t.draft();
        draft.write_at(0, b"draft").unwrap();
        let options = PutOptions { expect, parents: Parents::Required, ..PutOptions::default() };
        write_with(at(path), Content::Sealed(draft.seal().unwrap()), options)
    };
    assert!(matches!(
        t.assert_step_refused(draft_step("file", Precondition::Absent)),
        StoreError::AlreadyExists
    ));
    assert!(matches!(
        t.assert_step_refused(draft_step("missing/file", Precondition::Any)),
        StoreError::NotFound
    ));
    t.apply_one(draft_step("file", Precondition::Tag(tag)));
    assert!(matches!(
        t.assert_step_refused(draft_step("file", Precondition::Tag(tag))),
        StoreError::Conflict
    ));
    assert_eq!(t.read("file"), b"draft");
}

/// A change that a Store refuses leaves its draft unchanged: it can be read, written and committed again.
pub fn a_draft_whose_change_was_refused_can_be_committed_again(t: &Subject) {
    let tag = t.write("file", aperiodic_bytes(300_000)).tag;
    t.write("file", aperiodic_bytes(400_000));
    for (of_file, size) in [(false, 40), (false, 2 << 20), (true, 40), (true, 2 << 20)] {
        let mut draft = if of_file { t.draft_of(&at("file")) } else { t.draft() };
        let mut expected = read_draft(&mut *draft);
        let written = aperiodic_bytes(size);
        draft.write_at(10, &written).unwrap();
        expected.resize(expected.len().max(10 + size), 0);
        expected[10..10 + size].copy_from_slice(&written);
        for attempt in 0..3 {
            let sealed = Content::Sealed(draft.seal().unwrap());
            // The change fails at its first step, or at a later one after the content was already put in place.
            let options = |expect| PutOptions { expect, ..PutOptions::default() };
            if attempt == 0 {
                t.assert_step_refused(write_with(at("file"), sealed, options(Precondition::Tag(tag))));
            } else {
                let last_step = write_with(
                    at("missing/file"),
                    Content::Bytes(Vec::new()),
                    options(Precondition::Tag(tag)),
                );
                let steps = vec![write_with(at("file"), sealed, options(Precondition::Any)), last_step];
                t.store.apply(change(steps)).unwrap_err();
            }
            assert!(t.read("file") == aperiodic_bytes(400_000), "nothing was changed");
            assert!(read_draft(&mut *draft) == expected, "{of_file}, {size}, attempt {attempt}");
            draft.write_at(5, b"again").unwrap();
            expected[5..10].copy_from_slice(b"again");
        }
        commit_draft(t, at("put"), draft);
        assert!(t.read("put") == expected, "{of_file}, {size}");
    }
}

pub fn a_foreign_draft_is_refused(t: &Subject) {
    t.write("file", "1");
    let foreign = Content::Sealed(SealedContent::new(3, "abc"));
    t.assert_step_refused(write_with(at("file"), foreign, PutOptions::default()));
}

pub fn a_draft_needs_a_file(t: &Subject) {
    use crate::store::DraftBase;
    t.mkdir("dir");
    assert_refused!(t.store.draft(DraftBase::File(&at("missing"))), StoreError::NotFound);
    assert_refused!(t.store.draft(DraftBase::File(&at("dir"))), StoreError::IsADirectory);
}

pub fn open_content_is_read_in_pieces(t: &Subject) {
    let bytes = aperiodic_bytes(1_000_001);
    let attr = t.write("file", &bytes);
    let open = t.open("file");
    assert_eq!(open.attr(), attr);
    for (offset, length) in [(0, 10), (262_140, 10), (524_280, 300_000), (999_990, 11)] {
        let mut buffer = vec![0; length];
        assert_eq!(open.read_at(offset as u64, &mut buffer).unwrap(), length);
        assert!(buffer == bytes[offset..offset + length], "{length} bytes at {offset}");
    }
    let mut buffer = [0; 20];
    assert_eq!(open.read_at(999_990, &mut buffer).unwrap(), 11, "a short read only at the end");
    assert_eq!(open.read_at(1_000_001, &mut buffer).unwrap(), 0);
    assert_eq!(open.read_at(u64::from(u32::MAX), &mut buffer).unwrap(), 0);
    assert_eq!(open.read_at(0, &mut []).unwrap(), 0);
}

pub fn open_content_outlives_its_name(t: &Subject) {
    let bytes = aperiodic_bytes(700_000);
    for name in ["removed", "tree/removed", "renamed", "replaced", "renamed over", "copied over"] {
        t.write(name, &bytes);
    }
    t.write("small", "small");
    let open = |name| t.open(name);
    let (removed, in_tree, renamed) = (open("removed"), open("tree/removed"), open("renamed"));
    let (replaced, renamed_over, copied_over) = (open("replaced"), open("renamed over"), open("copied over"));
    let small = open("small");
    t.remove("removed");
    t.remove("tree");
    t.rename("renamed", "elsewhere", Replace::Refuse);
    t.write("replaced", "new");
    t.write("other", "other");
    t.apply_one(copy("other", "copied over", Replace::Overwrite));
    t.rename("other", "renamed over", Replace::Overwrite);
    t.remove("small");
    for content in [removed, in_tree, renamed, replaced, renamed_over, copied_over] {
        assert!(read_all(&*content) == bytes);
    }
    assert_eq!(read_all(&*small), b"small");
}
