//! Contents and attributes are read back as they were written.

use super::subject::*;
use crate::clock::Timestamp;
use crate::edit::{MismatchReason, Occurrences};
use crate::store::{
    Content, DisplacedContent, IfMissing, NodeKind, Precondition, PutOptions, Replace, Step, StoreError,
    Subtree,
};

pub fn writes_are_read_back(t: &Subject) {
    let outcome = t.apply_one(write("a.txt", "hello"));
    assert!(outcome.created);
    let attr = outcome.attr.unwrap();
    assert_eq!((attr.kind, attr.size, attr.mode), (NodeKind::File, 5, 0o644));
    assert_eq!(t.read("a.txt"), b"hello");
    assert_eq!(t.stat("a.txt"), attr);
    assert_eq!(t.store.read(&at("a.txt"), 5).unwrap().attr, attr);

    let outcome = t.apply_one(write("a.txt", "bye"));
    assert!(!outcome.created);
    assert_eq!(t.read("a.txt"), b"bye");
    assert_eq!(t.stat("a.txt"), outcome.attr.unwrap());
}

pub fn an_empty_file_is_a_file(t: &Subject) {
    let attr = t.write("empty", "");
    assert_eq!((attr.kind, attr.size), (NodeKind::File, 0));
    assert_eq!(t.read("empty"), b"");
    assert_eq!(read_all(&*t.open("empty")), b"");
    t.apply_one(append("empty", "x"));
    assert_eq!(t.read("empty"), b"x");
    t.write("empty", "");
    assert_eq!((t.read("empty"), t.stat("empty").size), (Vec::new(), 0));
    t.apply_one(append("nothing", ""));
    assert_eq!(t.stat("nothing").size, 0);
}

pub fn every_byte_is_kept(t: &Subject) {
    let bytes: Vec<u8> = (0..=255).chain([0, 0, 0xff, 0xfe, b'\r', b'\n', 0]).collect();
    t.write("binary", &bytes);
    assert_eq!(t.read("binary"), bytes);
    t.apply_one(append("binary", [0, 0xff]));
    assert_eq!(t.read("binary"), [&*bytes, &[0, 0xff]].concat());
}

pub fn large_content_is_stored_completely(t: &Subject) {
    let bytes = aperiodic_bytes((3 << 20) + 1);
    assert_eq!(t.write("large", &bytes).size, bytes.len() as u64);
    assert_eq!(t.read("large"), bytes);
    assert_eq!(read_all(&*t.open("large")), bytes);
    let shorter = aperiodic_bytes((1 << 20) - 1);
    t.write("large", &shorter);
    assert_eq!(t.read("large"), shorter);
    t.write("large", "small");
    assert_eq!(t.read("large"), b"small");
}

pub fn contents_around_powers_of_two_are_kept(t: &Subject) {
    for power in [12, 16, 17, 18, 20] {
        for size in [(1 << power) - 1, 1 << power, (1 << power) + 1] {
            let bytes = aperiodic_bytes(size);
            t.write("file", &bytes);
            assert!(t.read("file") == bytes, "{size} bytes");
            t.apply_one(append("file", "tail"));
            assert!(t.read("file") == [&*bytes, b"tail"].concat(), "{size} bytes and an append");
        }
    }
}

pub fn a_read_over_the_limit_is_refused(t: &Subject) {
    t.write("file", "12345");
    assert_refused!(t.store.read(&at("file"), 4), StoreError::TooLarge { size: 5, limit: 4 });
    assert_eq!(t.store.read(&at("file"), 5).unwrap().bytes, b"12345");
    t.write("file", aperiodic_bytes(1 << 20));
    assert_refused!(t.store.read(&at("file"), 10), StoreError::TooLarge { size: 0x10_0000, limit: 10 });
}

pub fn results_for_many_paths_are_in_order(t: &Subject) {
    t.write("a", "1");
    t.write("dir/b", "two");
    let paths = [at("dir/b"), at("missing"), at("a"), at("dir"), at("a/x")];
    let stats = t.store.stat_many(&paths);
    assert_eq!(stats.len(), 5);
    assert_eq!(stats[0].as_ref().unwrap(), &t.stat("dir/b"));
    assert_refused!(&stats[1], StoreError::NotFound);
    assert_eq!(stats[2].as_ref().unwrap(), &t.stat("a"));
    assert_eq!(stats[3].as_ref().unwrap().kind, NodeKind::Directory);
    assert_refused!(&stats[4], StoreError::NotADirectory);
    let reads = t.store.read_many(&paths, 2);
    assert_eq!(reads.len(), 5);
    assert_refused!(&reads[0], StoreError::TooLarge { size: 3, limit: 2 });
    assert_refused!(&reads[1], StoreError::NotFound);
    assert_eq!(reads[2].as_ref().unwrap().bytes, b"1");
    assert_refused!(&reads[3], StoreError::IsADirectory);
    assert_refused!(&reads[4], StoreError::NotADirectory);
    assert!(t.store.stat_many(&[]).is_empty());
}

pub fn an_overwrite_keeps_the_mode(t: &Subject) {
    t.write("script", "#!/bin/sh");
    t.apply_one(chmod(at("script"), 0o755));
    for step in [write("script", "again"), append("script", " more"), edit("script", "more", "less")] {
        let attr = t.apply_one(step).attr.unwrap();
        assert_eq!(attr.mode, 0o755);
        assert_eq!(t.stat("script").mode, 0o755);
    }
    let mut draft = t.draft();
    draft.write_at(0, b"drafted").unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    t.apply_one(write_with(at("script"), content, PutOptions::default()));
    assert_eq!((t.stat("script").mode, t.read("script")), (0o755, b"drafted".to_vec()));
}

pub fn a_write_can_set_mode_and_time(t: &Subject) {
    let time = Timestamp(1_700_000_000_123_456_789);
    let options = PutOptions { mode: Some(0o600), modified: Some(time), ..PutOptions::default() };
    let attr = t.apply_one(write_with(at("new"), b"1".to_vec(), options.clone())).attr.unwrap();
    assert_eq!((attr.mode, attr.modified), (0o600, time));
    t.write("old", "1");
    t.apply_one(write_with(at("old"), b"2".to_vec(), options.clone()));
    assert_eq!((t.stat("old").mode, t.stat("old").modified), (0o600, time));
    t.apply_one(append_with(at("old"), b"3".to_vec(), PutOptions { mode: Some(0o640), ..options }));
    assert_eq!((t.stat("old").mode, t.stat("old").modified), (0o640, time));
    t.write("old", "4");
    assert_ne!(t.stat("old").modified, time, "a write without a time has to set the current time");
}

pub fn mode_and_time_can_be_set(t: &Subject) {
    let time = Timestamp(1_600_000_000_987_654_321);
    t.write("file", "content");
    t.mkdir("dir");
    for path in ["file", "dir"] {
        let before = t.stat(path);
        let attr = t.apply_one(chmod(at(path), 0o700)).attr.unwrap();
        assert_eq!((attr.mode, attr.modified), (0o700, before.modified));
        let modified = Some(time);
        let attr = t.apply_one(Step::SetAttr { at: at(path), mode: None, modified }).attr.unwrap();
        assert_eq!((attr.mode, attr.modified, attr.node), (0o700, time, before.node));
        assert_eq!(t.stat(path), attr);
        let both = Step::SetAttr { at: at(path), mode: Some(0o750), modified: Some(Timestamp::from_secs(1)) };
        t.apply_one(both);
        assert_eq!((t.stat(path).mode, t.stat(path).modified), (0o750, Timestamp::from_secs(1)));
    }
    assert_eq!(t.read("file"), b"content");
    assert_refused!(t.try_apply_one(chmod(at("missing"), 0o700)), StoreError::NotFound);
}

pub fn an_append_goes_to_the_end(t: &Subject) {
    let outcome = t.apply_one(append("dir/log", "one\n"));
    assert!(outcome.created, "an append has to create a missing file");
    assert_eq!((outcome.attr.unwrap().size, outcome.attr.unwrap().mode), (4, 0o644));
    let outcome = t.apply_one(append("dir/log", "two\n"));
    assert!(!outcome.created);
    assert_eq!(t.stat("dir/log"), outcome.attr.unwrap());
    assert_eq!(t.read("dir/log"), b"one\ntwo\n");

    let mut expected = aperiodic_bytes(700_000);
    t.write("large", &expected);
    for size in [1, 262_144, 99, 300_000] {
        let addition = aperiodic_bytes(size);
        t.apply_one(append("large", &addition));
        expected.extend(addition);
    }
    assert!(t.read("large") == expected);
}

pub fn an_append_past_its_limit_changes_nothing(t: &Subject) {
    t.write("log", "one\n");
    let append_up_to = |limit, content: &str| Step::Append {
        at: at("log"),
        content: Content::Bytes(content.into()),
        options: PutOptions { max_size: Some(limit), ..PutOptions::default() },
    };
    let error = t.assert_unchanged(|| t.apply(vec![append_up_to(7, "two\n")])).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { size: 8, limit: 7 }), "{error:?}");
    t.apply(vec![append_up_to(3, "")]).unwrap();
    t.apply(vec![append_up_to(8, "two\n")]).unwrap();
    assert_eq!(t.read("log"), b"one\ntwo\n");
}

pub fn a_draft_can_be_appended(t: &Subject) {
    t.write("file", "start ");
    let mut draft = t.draft();
    let bytes = aperiodic_bytes(400_000);
    draft.write_at(0, &bytes).unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    t.apply_one(append_with(at("file"), content, PutOptions::default()));
    assert!(t.read("file") == [b"start ", &*bytes].concat());
}

pub fn an_edit_replaces_text(t: &Subject) {
    t.write("file", "\u{feff}one\r\ntwo\r\nno newline at the end");
    let outcome = t.apply_one(edit("file", "two", "zwei"));
    assert_eq!((outcome.replaced, outcome.created), (1, false));
    assert_eq!(t.stat("file"), outcome.attr.unwrap());
    assert_eq!(t.read("file"), "\u{feff}one\r\nzwei\r\nno newline at the end".as_bytes());
    let outcome = t.apply_one(edit_with(at("file"), "n", "N", Occurrences::All, Precondition::Any));
    assert_eq!(outcome.replaced, 5);
    assert_eq!(t.read("file"), "\u{feff}oNe\r\nzwei\r\nNo NewliNe at the eNd".as_bytes());

    let mut large = aperiodic_bytes(600_000);
    // With NUL it would be binary.
    large.iter_mut().for_each(|byte| *byte = (*byte).max(1));
    large[300_000..300_006].copy_from_slice(b"needle");
    t.write("large", &large);
    t.apply_one(edit("large", "needle", "thread and needle"));
    large.splice(300_000..300_006, *b"thread and needle");
    assert!(t.read("large") == large);
}

pub fn an_edit_that_does_not_fit_changes_nothing(t: &Subject) {
    t.write("file", "a a b");
    t.mkdir("dir");
    let tag = t.stat("file").tag;
    let mismatch = |old| match t.assert_step_refused(edit("file", old, "y")) {
        StoreError::EditMismatch(mismatch) => mismatch.reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(mismatch("x"), MismatchReason::NotFound(None));
    assert_eq!(mismatch("a"), MismatchReason::Ambiguous { count: 2, lines: vec![1] });
    t.write("binary", "a\0b");
    let StoreError::EditMismatch(mismatch) = t.assert_step_refused(edit("binary", "a", "y")) else {
        panic!()
    };
    assert_eq!(mismatch.reason, MismatchReason::Binary);
    assert!(matches!(t.assert_step_refused(edit("missing", "a", "y")), StoreError::NotFound));
    assert!(matches!(t.assert_step_refused(edit("missing/file", "a", "y")), StoreError::NotFound));
    assert!(matches!(t.assert_step_refused(edit("dir", "a", "y")), StoreError::IsADirectory));
    assert_eq!(t.stat("file").tag, tag);
}

pub fn an_edit_too_large_for_memory_changes_nothing(t: &Subject) {
    t.write("file", vec![b'y'; 1 << 20]);
    let new = "z".repeat(1 << 20);
    let error = t.assert_step_refused(edit_with(at("file"), "y", &new, Occurrences::All, Precondition::Any));
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error:?}");
}

pub fn names_are_kept_byte_for_byte(t: &Subject) {
    let longest = "n".repeat(255);
    let accented = "\u{e9}".repeat(127);
    let names = [
        "a..b.txt",
        "[...slug].tsx",
        ".env",
        "...",
        ".hidden.",
        " space ",
        "-dash",
        "*",
        "%2e%2e",
        "\u{ff0e}\u{ff0e}",
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{65e5}\u{672c}\u{8a9e}",
        "\u{1f980}",
        "UPPER",
        "upper",
        &*longest,
        &*accented,
    ];
    for name in names {
        t.write(&format!("dir/{name}"), name);
        t.write(&format!("as/{name}/directory"), name);
    }
    let mut sorted: Vec<_> = names.map(str::to_owned).into();
    sorted.sort_unstable();
    assert_eq!(t.names("dir"), sorted);
    assert_eq!(t.names("as"), sorted);
    for name in names {
        assert_eq!(t.read(&format!("dir/{name}")), name.as_bytes());
        assert_eq!(t.read(&format!("as/{name}/directory")), name.as_bytes());
        t.rename(&format!("dir/{name}"), &format!("moved/{name}"), Replace::Refuse);
        t.remove(&format!("as/{name}"));
    }
    assert_eq!(t.names("moved"), sorted);
    assert!(t.names("dir").is_empty() && t.names("as").is_empty());
}

pub fn content_without_history_is_written_like_any_other(t: &Subject) {
    let options = || PutOptions { displaced: DisplacedContent::Discard, ..PutOptions::default() };
    t.apply_one(write_with(at("target/out"), b"1".to_vec(), options()));
    t.apply_one(write_with(at("target/out"), b"22".to_vec(), options()));
    t.apply_one(append_with(at("target/out"), b"3".to_vec(), options()));
    assert_eq!(t.read("target/out"), b"223");
    t.apply_one(Step::Remove {
        at: at("target"),
        subtree: Subtree::Directory,
        expect: Precondition::Any,
        if_missing: IfMissing::Fail,
        protected: None,
        displaced: DisplacedContent::Discard,
    });
    assert!(!t.exists("target"));
}
