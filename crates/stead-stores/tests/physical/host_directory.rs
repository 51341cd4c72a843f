//! Rules that apply only to a directory of the host.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stead_core::glob::{Anchor, PathGlobs};
use stead_core::search::{Grep, GrepQuery};
use stead_core::store::{
    DraftBase, LinkHit, NodePath, OpenPurpose, Page, Parents, Precondition, ProtectedNames, PutOptions,
    Replace, Side, SpecialKind, Step, StoreError, Subtree,
};
use stead_core::{Edit, Name, Occurrences};
use stead_stores::Durability;

use super::*;

both_ways! {
    a_symlink_is_reported_wherever_it_is_in_the_path,
    special_files_are_listed_and_refused_and_never_hang,
    large_directories_are_paged_and_deep_trees_walked,
    nodes_are_found_through_renames_and_lost_with_the_file,
    refusals_have_the_error_that_the_store_trait_requires,
}

fn link_hit<T: std::fmt::Debug>(result: Result<T, StoreError>) -> LinkHit {
    match result {
        Err(StoreError::Link(hit)) => hit,
        other => panic!("no symlink was reported: {other:?}"),
    }
}

fn a_symlink_is_reported_wherever_it_is_in_the_path(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    write(&bench.store, "a/b/c/file", "x");
    for (depth, link) in ["l", "a/l", "a/b/l", "a/b/c/l"].into_iter().enumerate() {
        symlink("/etc", bench.host_path(link)).unwrap();
        let below = at(&format!("{link}/passwd"));
        let expected = LinkHit { step: 0, side: Side::From, depth: depth + 1, target: b"/etc".to_vec() };
        assert_eq!(link_hit(bench.store.read(&below, 1 << 20)), expected);
        assert_eq!(link_hit(bench.store.stat(&below)), expected);
        assert_eq!(link_hit(bench.store.list(&at(link), &Page::ALL)), expected);
        assert_eq!(link_hit(bench.store.open(&at(link), OpenPurpose::Read).map(|_| ())), expected);
        assert_eq!(link_hit(apply(&bench.store, write_step(link, "x"))), expected);
        assert_eq!(link_hit(apply(&bench.store, write_step(&format!("{link}/x/y"), "x"))), expected);
        assert_eq!(link_hit(apply(&bench.store, append_step(link, b"x"))), expected);
        let to =
            link_hit(apply(&bench.store, rename_step("a/b/c/file", &format!("{link}/x"), Replace::Refuse)));
        assert_eq!(to, LinkHit { side: Side::To, ..expected.clone() });
        assert_eq!(bench.store.stat(&at(link)).unwrap().kind, NodeKind::Symlink);
        assert_eq!(bench.store.read_link(&at(link)).unwrap(), b"/etc");
    }
    symlink("b", bench.host_path("a/inside")).unwrap();
    let hit = link_hit(bench.store.read(&at("a/inside/c/file"), 10));
    assert_eq!(
        (hit.depth, &*hit.target),
        (2, &b"b"[..]),
        "a symlink that stays inside has to be reported, too: the Vfs follows it"
    );
    let several = change(vec![write_step("ok", "x"), write_step("a/l/x", "x")]);
    assert_eq!(link_hit(bench.store.apply(several)).step, 1);
    assert!(bench.store.stat(&at("ok")).is_err());
    // Operations on the link itself leave the target alone.
    apply(&bench.store, copy_step("a/l", "copied", Replace::Refuse)).unwrap();
    apply(&bench.store, rename_step("a/l", "moved", Replace::Refuse)).unwrap();
    apply(&bench.store, remove_step("moved", Subtree::File)).unwrap();
    assert_eq!(bench.store.read_link(&at("copied")).unwrap(), b"/etc");
}

fn special_files_are_listed_and_refused_and_never_hang(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    let path = bench.host_path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.host_path("socket")).unwrap();
    let start = Instant::now();
    let pipe = NodeKind::Special(SpecialKind::Fifo);
    let listing = bench.store.list(&NodePath::root(), &Page::ALL).unwrap();
    let kinds: Vec<_> = listing.entries.iter().map(|entry| entry.attr.kind).collect();
    assert_eq!(kinds, [pipe, NodeKind::Special(SpecialKind::Socket)]);
    let assert_refused = |result: Result<(), StoreError>| match result {
        Err(StoreError::Special(kind)) => assert_eq!(kind, pipe),
        other => panic!("{other:?}"),
    };
    let pipe_path = at("pipe");
    assert_refused(bench.store.read(&pipe_path, 10).map(|_| ()));
    assert_refused(bench.store.open(&pipe_path, OpenPurpose::Read).map(|_| ()));
    assert_refused(bench.store.draft(DraftBase::File(&pipe_path)).map(|_| ()));
    assert_refused(apply(&bench.store, write_step("pipe", "x")).map(|_| ()));
    assert_refused(apply(&bench.store, append_step("pipe", b"x")).map(|_| ()));
    let edit = Edit::new("a", "b", Occurrences::One).unwrap();
    let edit =
        Step::Edit { at: pipe_path, edit, expect: Precondition::Any, displaced: DisplacedContent::Keep };
    assert_refused(apply(&bench.store, edit).map(|_| ()));
    assert_refused(apply(&bench.store, copy_step("pipe", "copy", Replace::Refuse)).map(|_| ()));
    let grep = Grep::new(&GrepQuery::new("x"), None, PathGlobs::none()).unwrap();
    bench.store.grep(&NodePath::root(), &grep, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn overwriting_keeps_the_mode_and_nothing_becomes_privileged() {
    let bench = Bench::new();
    write(&bench.store, "script", "1");
    assert_eq!(bench.store.stat(&at("script")).unwrap().mode, 0o644);
    std::fs::set_permissions(bench.host_path("script"), std::fs::Permissions::from_mode(0o4751)).unwrap();
    assert_eq!(write(&bench.store, "script", "2").mode, 0o751);
    apply(&bench.store, append_step("script", b"3")).unwrap();
    let edit = Edit::new("2", "two", Occurrences::One).unwrap();
    apply(
        &bench.store,
        Step::Edit { at: at("script"), edit, expect: Precondition::Any, displaced: DisplacedContent::Keep },
    )
    .unwrap();
    assert_eq!(std::fs::metadata(bench.host_path("script")).unwrap().permissions().mode() & 0o7777, 0o751);
    assert_eq!(read(&bench.store, "script"), "two3");
}

#[test]
fn new_content_gets_the_owner_of_the_old_content_or_of_the_directory() {
    let bench = Bench::new();
    if std::fs::metadata(&bench.root).unwrap().uid() != 0 {
        return; // Only root can give files away.
    }
    write(&bench.store, "old", "1");
    std::os::unix::fs::chown(bench.host_path("old"), Some(1_234), Some(1_235)).unwrap();
    std::fs::create_dir(bench.host_path("theirs")).unwrap();
    std::os::unix::fs::chown(bench.host_path("theirs"), Some(2_234), Some(2_235)).unwrap();
    write(&bench.store, "old", "2");
    write(&bench.store, "theirs/sub/new", "3");
    let owner = |path: &str| {
        let metadata = std::fs::symlink_metadata(bench.host_path(path)).unwrap();
        (metadata.uid(), metadata.gid())
    };
    assert_eq!(owner("old"), (1_234, 1_235));
    assert_eq!(owner("theirs/sub"), (2_234, 2_235));
    assert_eq!(owner("theirs/sub/new"), (2_234, 2_235));
}

#[test]
fn every_write_gives_another_tag_and_stat_agrees() {
    let bench = Bench::new();
    let mut tags = std::collections::BTreeSet::new();
    for round in 0..200 {
        let attr = write(&bench.store, "file", if round % 2 == 0 { "A" } else { "B" });
        assert_eq!(bench.store.stat(&at("file")).unwrap(), attr);
        assert!(tags.insert(attr.tag), "round {round} has the tag of an earlier round");
    }
    let expect = Precondition::Tag(bench.store.stat(&at("file")).unwrap().tag);
    for round in 0..50 {
        let mut draft = bench.store.draft(DraftBase::File(&at("file"))).unwrap();
        draft.write_at(0, if round % 2 == 0 { b"C" } else { b"D" }).unwrap();
        let content = Content::Sealed(draft.seal().unwrap());
        let attr =
            apply(&bench.store, Step::Write { at: at("file"), content, options: PutOptions::default() })
                .unwrap()
                .attr;
        assert!(tags.insert(attr.unwrap().tag), "patch {round} has the tag of an earlier content");
    }
    let options = PutOptions { expect, ..PutOptions::default() };
    let stale = Step::Write { at: at("file"), content: Content::Bytes(b"x".to_vec()), options };
    assert!(matches!(apply(&bench.store, stale), Err(StoreError::Conflict)));
}

#[test]
fn a_change_by_another_program_during_a_write_is_a_conflict_and_both_contents_stay() {
    for replace in [false, true] {
        let armed = Arc::new(AtomicBool::new(false));
        let path = Arc::new(std::sync::Mutex::new(PathBuf::new()));
        let (switch, target) = (armed.clone(), path.clone());
        let bench = Bench::with(|options| {
            options.faults = Some(Arc::new(move |action| {
                if (action == "swap" || action == "take") && switch.swap(false, Ordering::SeqCst) {
                    let target = target.lock().unwrap();
                    if replace {
                        std::fs::remove_file(&*target).unwrap();
                    }
                    std::fs::write(&*target, "theirs").unwrap();
                }
                false
            }));
        });
        *path.lock().unwrap() = bench.host_path("file");
        write(&bench.store, "file", "seen");
        armed.store(true, Ordering::SeqCst);
        let result = apply(&bench.store, write_step("file", "ours"));
        assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
        assert_eq!(std::fs::read_to_string(bench.host_path("file")).unwrap(), "theirs");
        assert_eq!(staging_counts(bench.temp.path()), (1, 1));
        armed.store(true, Ordering::SeqCst);
        std::fs::write(bench.host_path("file"), "seen again").unwrap();
        let result = apply(&bench.store, remove_step("file", Subtree::File));
        assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
        assert_eq!(std::fs::read_to_string(bench.host_path("file")).unwrap(), "theirs");
    }
}

#[test]
fn state_can_not_be_reached_wherever_it_is() {
    let temp = TempDir::new().unwrap();
    let root = temp.path().join("root");
    for dir in ["db", ".stead", "sub/.stead", "inner"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in ["db/stead.db", "db/other", ".stead/secret", "sub/.stead/secret", "sub/plain"] {
        std::fs::write(root.join(file), "needle").unwrap();
    }
    let store = open(temp.path(), |options| {
        options.state = Some(root.join("inner/state"));
        options.mask = vec![root.join("db/stead.db")];
    });
    let visible: Vec<_> = tree(&store).into_keys().collect();
    assert_eq!(visible, ["db", "db/other", "inner", "sub", "sub/plain"]);
    assert_eq!(store.list(&at("db"), &Page::ALL).unwrap().total, 1);
    for hidden in
        ["db/stead.db", ".stead", ".stead/secret", "sub/.stead/secret", "inner/state", "inner/state/physical"]
    {
        assert!(matches!(store.stat(&at(hidden)), Err(StoreError::NotFound)), "{hidden}");
        assert!(matches!(store.read(&at(hidden), 100), Err(StoreError::NotFound)), "{hidden}");
        assert!(
            matches!(apply(&store, write_step(hidden, "x")), Err(StoreError::InvalidName(_))),
            "{hidden}"
        );
        assert!(matches!(
            apply(&store, rename_step("sub/plain", hidden, Replace::Overwrite)),
            Err(StoreError::InvalidName(_))
        ));
        assert!(
            matches!(apply(&store, remove_step(hidden, Subtree::Any)), Err(StoreError::NotFound)),
            "{hidden}"
        );
    }
    for holder in ["db", "sub", "inner"] {
        let is_protected = |result| matches!(result, Err(StoreError::Protected { .. }));
        assert!(is_protected(apply(&store, remove_step(holder, Subtree::Directory))), "{holder}");
        // The stead whose state it is would not find it again.
        assert!(is_protected(apply(&store, rename_step(holder, "moved", Replace::Refuse))), "{holder}");
        let exchange = rename_step(holder, "copied", Replace::Exchange);
        std::fs::create_dir(root.join("copied")).unwrap();
        assert!(is_protected(apply(&store, exchange)), "{holder}");
        std::fs::remove_dir(root.join("copied")).unwrap();
    }
    std::fs::create_dir_all(root.join("other/stead")).unwrap();
    std::fs::write(root.join("other/stead/stead.toml"), "").unwrap();
    let moved = apply(&store, rename_step("other", "moved", Replace::Refuse));
    assert!(matches!(moved, Err(StoreError::Protected { path }) if path == "stead/stead.toml"));
    // A copy would lack what belongs to another stead, so it is refused. What belongs to this stead is left out.
    for foreign in ["sub", "other"] {
        let copied = apply(&store, copy_step(foreign, "copied", Replace::Refuse));
        assert!(matches!(copied, Err(StoreError::Protected { .. })), "{foreign}");
        assert!(!root.join("copied").exists());
    }
    apply(&store, copy_step("db", "copied", Replace::Refuse)).unwrap();
    assert!(!root.join("copied/stead.db").exists() && root.join("copied/other").exists());
    let walk = WalkOptions { report_hidden: true, ..WalkOptions::default() };
    store.walk(&NodePath::root(), &walk, &mut |_| ControlFlow::Continue(())).unwrap();
    let unreadable: Vec<_> = walk.unreadable.take().into_iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(unreadable, [".stead", "other/stead/stead.toml", "sub/.stead"]);
    let mut hits = Vec::new();
    let grep = Grep::new(&GrepQuery::new("needle"), None, PathGlobs::none()).unwrap();
    store
        .grep(&NodePath::root(), &grep, &mut |found| {
            hits.push(found.path.to_string());
            ControlFlow::Continue(())
        })
        .unwrap();
    hits.sort();
    assert_eq!(hits, ["copied/other", "db/other", "sub/plain"]);
    let state_over_root = PhysicalOptions::new(&root);
    assert!(matches!(PhysicalStore::open(root.join("sub"), state_over_root), Err(StoreError::Invalid(_))));
}

#[test]
fn with_a_state_directory_on_another_mount_the_staging_area_is_in_the_root_and_masked() {
    let other_mount = Path::new("/dev/shm");
    let temp = TempDir::new().unwrap();
    if !other_mount.is_dir() || other_mount.metadata().unwrap().dev() == temp.path().metadata().unwrap().dev()
    {
        return; // There is no other mount to test with.
    }
    let state = TempDir::new_in(other_mount).unwrap();
    std::fs::create_dir(temp.path().join("root")).unwrap();
    let store = open(temp.path(), |options| options.state = Some(state.path().to_owned()));
    write(&store, "a/b", "x");
    let staging_area = temp.path().join("root/.stead");
    assert_eq!(staging_area.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(tree(&store).into_keys().collect::<Vec<_>>(), ["a", "a/b"]);
}

#[test]
fn hard_links_to_masked_files_can_not_be_reached() {
    let temp = TempDir::new().unwrap();
    let root = temp.path().join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("secret.db"), "needle").unwrap();
    std::fs::hard_link(root.join("secret.db"), root.join("sub/second")).unwrap();
    for confinement in [Confinement::Automatic, Confinement::Walk] {
        let store = open(temp.path(), |options| {
            (options.confinement, options.mask) = (confinement, vec![root.join("secret.db")]);
        });
        let second = at("sub/second");
        assert!(matches!(store.stat(&second), Err(StoreError::NotFound)));
        assert!(matches!(store.read(&second, 100), Err(StoreError::NotFound)));
        assert!(store.open(&second, OpenPurpose::Read).is_err());
        assert!(store.draft(DraftBase::File(&second)).is_err());
        for step in [
            write_step("sub/second", "x"),
            append_step("sub/second", b"x"),
            remove_step("sub/second", Subtree::Any),
            rename_step("sub/second", "moved", Replace::Refuse),
            copy_step("sub/second", "copied", Replace::Refuse),
        ] {
            assert!(apply(&store, step).is_err());
        }
        assert_eq!(tree(&store).into_keys().collect::<Vec<_>>(), ["sub"]);
        let grep = Grep::new(&GrepQuery::new("needle"), None, PathGlobs::none()).unwrap();
        store.grep(&NodePath::root(), &grep, &mut |found| panic!("{found:?}")).unwrap();
        apply(&store, copy_step("sub", "copy", Replace::Refuse)).unwrap();
        assert!(!root.join("copy/second").exists());
        apply(&store, remove_step("copy", Subtree::Directory)).unwrap();
        for name in [".STEAD", "Stead.toml", ".\u{17f}tead"] {
            assert!(
                matches!(apply(&store, write_step(name, "x")), Err(StoreError::InvalidName(_))),
                "{name}"
            );
        }
    }
    assert_eq!(std::fs::read(root.join("secret.db")).unwrap(), b"needle");
}

#[test]
fn names_are_bytes() {
    let bench = Bench::new();
    let unusual_names: [&[u8]; 4] = [b"line\nbreak", b"\xff\xfe", b"\x1b[31m", "caf\u{e9}".as_bytes()];
    for name in unusual_names {
        std::fs::write(bench.root.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let listing = bench.store.list(&NodePath::root(), &Page::ALL).unwrap();
    let names: Vec<_> = listing.entries.iter().map(|entry| entry.name.as_bytes()).collect();
    assert_eq!(names, [b"\x1b[31m" as &[u8], "caf\u{e9}".as_bytes(), b"line\nbreak", b"\xff\xfe"]);
    for entry in &listing.entries {
        let node_path = NodePath::root().join(entry.name.as_bytes());
        assert_eq!(bench.store.read(&node_path, 100).unwrap().bytes, entry.name.as_bytes());
    }
    let long_name = "n".repeat(256);
    assert!(matches!(apply(&bench.store, write_step(&long_name, "x")), Err(StoreError::InvalidName(_))));
    assert!(matches!(bench.store.stat(&at(&long_name)), Err(StoreError::InvalidName(_))));
    write(&bench.store, &"n".repeat(255), "x");
}

fn large_directories_are_paged_and_deep_trees_walked(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    std::fs::create_dir(bench.host_path("many")).unwrap();
    for index in 0..3_000 {
        std::fs::write(bench.host_path(&format!("many/{index:05}")), "").unwrap();
    }
    let after = Name::new(*b"01499");
    let page = bench.store.list(&at("many"), &Page { after, limit: 10, ..Page::ALL }).unwrap();
    assert_eq!((page.total, page.more, page.entries.len()), (3_000, true, 10));
    assert_eq!(page.entries[0].name.as_bytes(), b"01500");
    // Deeper, and with a longer path, than the host accepts in one call.
    let name = "d".repeat(200);
    let deep = vec![&*name; 64].join("/");
    let mkdir = Step::Mkdir { at: at(&deep), parents: Parents::Create, mode: None };
    apply(&bench.store, mkdir).unwrap();
    write(&bench.store, &format!("{deep}/file"), "bottom");
    assert_eq!(read(&bench.store, &format!("{deep}/file")), "bottom");
    assert_eq!(tree(&bench.store).len(), 3_001 + 65);
    apply(&bench.store, copy_step(&name, "copy", Replace::Refuse)).unwrap();
    apply(&bench.store, remove_step(&name, Subtree::Directory)).unwrap();
    assert_eq!(tree(&bench.store).len(), 3_001 + 65);
    assert_eq!(staging_counts(bench.temp.path()), (1, 0));
}

#[test]
fn a_file_that_is_too_large_is_refused_before_memory_is_allocated() {
    let bench = Bench::new();
    let file = std::fs::File::create(bench.host_path("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    let (size, limit) = (1 << 40, 1 << 20);
    let result = bench.store.read(&at("huge"), limit);
    assert!(matches!(result, Err(StoreError::TooLarge { size: s, limit: l }) if (s, l) == (size, limit)));
    let edit = Edit::new("a", "b", Occurrences::One).unwrap();
    let edit =
        Step::Edit { at: at("huge"), edit, expect: Precondition::Any, displaced: DisplacedContent::Keep };
    assert!(matches!(apply(&bench.store, edit), Err(StoreError::TooLarge { .. })));
    let mut last = [1; 4];
    assert_eq!(
        bench.store.open(&at("huge"), OpenPurpose::Read).unwrap().read_at((1 << 40) - 3, &mut last).unwrap(),
        3
    );
}

#[test]
fn open_content_outlives_its_name() {
    let bench = Bench::new();
    write(&bench.store, "file", "first");
    let content = bench.store.open(&at("file"), OpenPurpose::Read).unwrap();
    apply(&bench.store, append_step("file", b" and more")).unwrap();
    write(&bench.store, "file", "second");
    apply(&bench.store, remove_step("file", Subtree::File)).unwrap();
    let mut buffer = [0; 10];
    assert_eq!(content.read_at(0, &mut buffer).unwrap(), 5);
    assert_eq!(&buffer[..5], b"first");
}

#[test]
fn a_draft_put_back_writes_only_what_changed_and_keeps_the_node() {
    let bench = Bench::new();
    write(&bench.store, "file", &"0123456789".repeat(10));
    let node = bench.store.stat(&at("file")).unwrap().node;
    let mut draft = bench.store.draft(DraftBase::File(&NodePath::of_node(node))).unwrap();
    draft.write_at(5, b"XY").unwrap();
    draft.write_at(120, b"end").unwrap();
    let mut draft_bytes = vec![1; 200];
    assert_eq!(draft.read_at(0, &mut draft_bytes).unwrap(), 123);
    assert_eq!(&draft_bytes[3..9], b"34XY78");
    assert_eq!(&draft_bytes[98..123], [&b"89"[..], &[0; 20], b"end"].concat());
    // Another program appends meanwhile. What it wrote stays, as the draft doesn't set a length.
    use std::io::Write;
    let mut host_file = std::fs::OpenOptions::new().append(true).open(bench.host_path("file")).unwrap();
    host_file.write_all(b"more").unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    let step = Step::Write { at: NodePath::of_node(node), content, options: PutOptions::default() };
    assert_eq!(apply(&bench.store, step).unwrap().attr.unwrap().node, node);
    let bytes = std::fs::read(bench.host_path("file")).unwrap();
    assert_eq!(&bytes[3..9], b"34XY78");
    assert_eq!(&bytes[98..], [&b"89more"[..], &[0; 16], b"end"].concat());
    // Written to another path, the draft makes a file of its own.
    let mut draft = bench.store.draft(DraftBase::File(&at("file"))).unwrap();
    draft.set_size(3).unwrap();
    draft.set_size(5).unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    apply(&bench.store, Step::Write { at: at("copy"), content, options: PutOptions::default() }).unwrap();
    assert_eq!(std::fs::read(bench.host_path("copy")).unwrap(), b"012\0\0");
    assert_eq!(std::fs::read(bench.host_path("file")).unwrap(), bytes);
    // Unless the file that the draft is based on has changed.
    let mut draft = bench.store.draft(DraftBase::File(&at("file"))).unwrap();
    draft.write_at(0, b"x").unwrap();
    host_file.write_all(b"!").unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    let result = apply(&bench.store, Step::Write { at: at("copy"), content, options: PutOptions::default() });
    assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
}

#[test]
fn drafts_that_are_dropped_leave_nothing() {
    let bench = Bench::new();
    let staged_count = || {
        let physical = bench.temp.path().join("state/physical");
        let store_state = std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path();
        let process_directory =
            std::fs::read_dir(store_state.join("staging")).unwrap().next().unwrap().unwrap().path();
        std::fs::read_dir(process_directory).unwrap().count()
    };
    write(&bench.store, "file", "x");
    let before = staged_count();
    let mut draft = bench.store.draft(DraftBase::Empty).unwrap();
    draft.write_at(0, b"x").unwrap();
    assert_eq!(staged_count(), before + 1);
    drop(draft);
    let mut draft = bench.store.draft(DraftBase::File(&at("file"))).unwrap();
    draft.write_at(0, b"x").unwrap();
    drop(draft.seal().unwrap());
    drop(draft);
    assert_eq!(staged_count(), before);
    drop(bench.store);
    assert_eq!(staging_counts(bench.temp.path()), (0, 0));
}

fn nodes_are_found_through_renames_and_lost_with_the_file(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    write(&bench.store, "a/b/file", "x");
    let file = bench.store.stat(&at("a/b/file")).unwrap().node;
    let dir = bench.store.stat(&at("a/b")).unwrap().node;
    apply(&bench.store, rename_step("a", "z/y", Replace::Refuse)).unwrap();
    assert_eq!(bench.store.read(&NodePath::of_node(file), 10).unwrap().bytes, b"x");
    let child = NodePath::child(dir, &Name::new(*b"file").unwrap());
    assert_eq!(bench.store.stat(&child).unwrap().node, file);
    symlink("file", bench.host_path("z/y/b/link")).unwrap();
    let hit =
        link_hit(bench.store.read(&NodePath { base: dir, path: StorePath::from_checked("link/x") }, 10));
    assert_eq!((hit.depth, &*hit.target), (1, &b"file"[..]));
    let link = bench.store.stat(&NodePath { base: dir, path: StorePath::from_checked("link") }).unwrap().node;
    assert_eq!(link_hit(bench.store.read(&NodePath::of_node(link), 10)).depth, 0);
    assert_eq!(bench.store.read_link(&NodePath::of_node(link)).unwrap(), b"file");
    // Both exist at the same time, so the other one can't have its inode.
    std::fs::write(bench.host_path("z/y/b/other"), "another").unwrap();
    std::fs::rename(bench.host_path("z/y/b/other"), bench.host_path("z/y/b/file")).unwrap();
    assert!(matches!(bench.store.read(&NodePath::of_node(file), 10), Err(StoreError::NotFound)));
    apply(&bench.store, remove_step("z", Subtree::Directory)).unwrap();
    assert!(matches!(bench.store.stat(&child), Err(StoreError::NotFound)));
}

#[test]
fn a_directory_with_a_protected_name_can_not_be_moved_or_removed() {
    let bench = Bench::new();
    write(&bench.store, "repo/.git/hooks/pre-commit", "x");
    let globs = Arc::new(PathGlobs::new([".git/hooks/**"], Anchor::AnyDirectory).unwrap());
    let protected = ProtectedNames { globs, roots: vec!["repo".into()], side: Side::From, hidden: None };
    let remove = Step::Remove {
        at: at("repo"),
        subtree: Subtree::Any,
        expect: Precondition::Any,
        if_missing: stead_core::store::IfMissing::Fail,
        protected: Some(protected.clone()),
        displaced: DisplacedContent::Keep,
    };
    let result = apply(&bench.store, remove);
    assert!(
        matches!(&result, Err(StoreError::Protected { path }) if path == ".git/hooks/pre-commit"),
        "{result:?}"
    );
    let rename = Step::Rename {
        from: at("repo"),
        to: at("other"),
        replace: Replace::Refuse,
        parents: Parents::Create,
        expect: Precondition::Any,
        protected: [None, Some(protected)],
    };
    assert!(matches!(apply(&bench.store, rename), Err(StoreError::Protected { .. })));
    assert_eq!(read(&bench.store, "repo/.git/hooks/pre-commit"), "x");
}

fn refusals_have_the_error_that_the_store_trait_requires(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    let store = &bench.store;
    write(store, "file", "x");
    write(store, "dir/file", "x");
    let mkdir = |path: &str, parents| apply(store, Step::Mkdir { at: at(path), parents, mode: None });
    use StoreError as E;
    assert!(!mkdir("dir", Parents::Create).unwrap().created);
    assert!(matches!(mkdir("dir", Parents::Required), Err(E::AlreadyExists)));
    assert!(matches!(mkdir("file", Parents::Create), Err(E::AlreadyExists)));
    assert!(matches!(mkdir("no/dir", Parents::Required), Err(E::NotFound)));
    assert!(matches!(mkdir("file/dir", Parents::Create), Err(E::NotADirectory)));
    assert!(matches!(apply(store, write_step("dir", "x")), Err(E::IsADirectory)));
    assert!(matches!(store.stat(&at("file/x")), Err(E::NotADirectory)));
    assert!(matches!(store.read(&at("file/x/y"), 1), Err(E::NotADirectory)));
    assert!(matches!(store.list(&at("file"), &Page::ALL), Err(E::NotADirectory)));
    assert!(matches!(apply(store, remove_step("dir", Subtree::File)), Err(E::IsADirectory)));
    assert!(matches!(apply(store, remove_step("dir", Subtree::EmptyDirectory)), Err(E::NotEmpty)));
    assert!(matches!(apply(store, remove_step("file", Subtree::Directory)), Err(E::NotADirectory)));
    assert!(matches!(apply(store, rename_step("dir", "dir/in", Replace::Refuse)), Err(E::IntoItself)));
    assert!(matches!(apply(store, rename_step("dir/file", "dir", Replace::Exchange)), Err(E::IntoItself)));
    assert!(matches!(apply(store, rename_step("file", "dir", Replace::Refuse)), Err(E::AlreadyExists)));
    assert!(matches!(apply(store, rename_step("file", "dir", Replace::Overwrite)), Err(E::IsADirectory)));
    assert!(matches!(apply(store, rename_step("dir", "file", Replace::Overwrite)), Err(E::NotADirectory)));
    assert!(matches!(apply(store, rename_step("file", "nope", Replace::Exchange)), Err(E::NotFound)));
    assert!(apply(store, rename_step("file", "file", Replace::Refuse)).is_ok());
    assert!(matches!(apply(store, copy_step("file", "file", Replace::Refuse)), Err(E::AlreadyExists)));
    assert!(matches!(apply(store, copy_step("file", "file", Replace::Overwrite)), Err(E::Invalid(_))));
    assert!(matches!(apply(store, copy_step("dir", "dir/in", Replace::Refuse)), Err(E::IntoItself)));
    let root = Step::Rename {
        from: NodePath::root(),
        to: at("x"),
        replace: Replace::Refuse,
        parents: Parents::Create,
        expect: Precondition::Any,
        protected: [None, None],
    };
    assert!(matches!(apply(store, root), Err(E::Invalid(_))));
    assert_eq!(tree(store).into_keys().collect::<Vec<_>>(), ["dir", "dir/file", "file"]);
}

#[test]
fn changes_work_with_full_durability() {
    let bench = Bench::with(|options| options.durability = Durability::Full);
    write(&bench.store, "a/b", "durable");
    apply(&bench.store, append_step("a/b", b"!")).unwrap();
    let steps =
        vec![write_step("a/c", "c"), append_step("a/b", b"!"), rename_step("a/c", "d/c", Replace::Refuse)];
    bench.store.apply(change(steps)).unwrap();
    assert_eq!(read(&bench.store, "a/b"), "durable!!");
    assert_eq!(read(&bench.store, "d/c"), "c");
}

#[test]
fn a_read_only_directory_can_be_opened_as_a_store() {
    // No program can create directories in the kernel's own file system.
    let store = PhysicalStore::open("/sys/kernel", PhysicalOptions::new("/sys/stead-state")).unwrap();
    assert!(store.list(&NodePath::root(), &Page::ALL).unwrap().total > 0);
    assert!(matches!(apply(&store, write_step("x", "x")), Err(StoreError::HostDenied)));
}

#[test]
fn a_directory_that_another_store_uses_can_not_be_moved_or_removed() {
    let temp = TempDir::new().unwrap();
    let root = temp.path().join("root");
    std::fs::create_dir_all(root.join("a/held/sub")).unwrap();
    std::fs::create_dir(root.join("other")).unwrap();
    symlink("a/held", root.join("link")).unwrap();
    let store = open(temp.path(), |options| options.pinned = vec![root.join("a/held"), root.join("link")]);
    write(&store, "a/held/sub/file", "x");
    let is_protected = |step| matches!(apply(&store, step), Err(StoreError::Protected { .. }));
    for pinned in ["a", "a/held", "link"] {
        assert!(is_protected(remove_step(pinned, Subtree::Any)), "{pinned}");
        assert!(is_protected(rename_step(pinned, "moved", Replace::Refuse)), "{pinned}");
        assert!(is_protected(rename_step("other", pinned, Replace::Exchange)), "{pinned}");
    }
    apply(&store, remove_step("a/held/sub", Subtree::Directory)).unwrap();
    assert!(is_protected(rename_step("other", "a/held", Replace::Overwrite)));
    assert!(is_protected(remove_step("a/held", Subtree::EmptyDirectory)));
}
