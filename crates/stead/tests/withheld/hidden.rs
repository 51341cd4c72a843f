use std::fs;
use std::sync::Arc;

use stead::store::{Parents, RevisionId, RevisionNumber};
use stead::tools::ToolChoice;
use stead::transfer::{CompareBy, ExportDestination, ImportSource, NoObserver, OnExisting};
use stead::vfs::{
    DiffOptions, GlobQuery, LogQuery, OnConflict, Overwrite, PointInTime, RemoveOptions, RestoreOptions,
    UndoOptions, UndoTarget,
};
use stead::{
    AccessScope, ErrorKind, MemoryStore, Mount, PhysicalOptions, PhysicalStore, Stead, Store, VfsPath,
    Workspace,
};

use crate::common::assert_reveals_nothing;

/// A glob that hides every canary.
const HIDE: [&str; 2] = ["canary*", "keys/**"];

fn workspace(store: &Arc<dyn Store>) -> Workspace {
    let root = VfsPath::parse("/w").unwrap();
    Workspace::new(root, AccessScope::ReadWrite, Mount::from(store))
}

/// A stead for which the canaries are hidden.
fn agent(store: &Arc<dyn Store>) -> Stead {
    let tools = ToolChoice { history: true, ..ToolChoice::default() };
    Stead::builder("coder")
        .add_workspace(workspace(store).with_hide(HIDE).unwrap())
        .tools(tools)
        .build()
        .unwrap()
}

/// The same agent, for which nothing is hidden: what a program on its mount did, or an earlier configuration.
fn agent_without_hiding(store: &Arc<dyn Store>) -> Stead {
    Stead::builder("coder").add_workspace(workspace(store).with_hide([""; 0]).unwrap()).build().unwrap()
}

/// A Store of each kind with history, and what has to live as long as it.
fn stores() -> Vec<(Arc<dyn Store>, tempfile::TempDir)> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("root")).unwrap();
    let options = PhysicalOptions::new(directory.path().join("state"));
    let physical = PhysicalStore::open(directory.path().join("root"), options).unwrap();
    vec![(Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap()), (Arc::new(physical), directory)]
}

/// Everything that the history shows, in one text.
fn history(stead: &Stead) -> String {
    let vfs = stead.vfs();
    let newest = vfs.revision_at("/w", PointInTime::Now).unwrap();
    let mut text = format!("{:?}\n", vfs.log(&LogQuery::default()).unwrap());
    for number in 0..newest.number.0 {
        let revision = RevisionId { number: RevisionNumber(number), ..newest };
        text.push_str(&format!("{:?}\n", vfs.diff("/w", revision, PointInTime::Now, DiffOptions::default())));
    }
    let visible = LogQuery { path: Some(VfsPath::parse("/w/open.txt").unwrap()), ..LogQuery::default() };
    text.push_str(&format!("{:?}\n{:?}", vfs.log(&visible), vfs.blame("/w/open.txt")));
    text
}

#[test]
fn the_history_shows_nothing_of_hidden_names() {
    for (store, _guard) in stores() {
        let owner = agent_without_hiding(&store);
        let vfs = owner.vfs();
        vfs.write("/w/open.txt", "open 1\n").unwrap();
        vfs.write("/w/canary", "canary 1\n").unwrap();
        vfs.write("/w/canary", "canary 2\n").unwrap();
        vfs.write("/w/keys/a", "canary 1\n").unwrap();
        let revision = vfs.write("/w/open.txt", "open 2\n").unwrap().revision.unwrap();
        // A hidden file that gets a visible name, and a visible one that gets a hidden name.
        vfs.write("/w/canary-once", "plain\n").unwrap();
        vfs.rename("/w/canary-once", "/w/shown.txt", Overwrite::Refuse).unwrap();
        vfs.write("/w/seen.txt", "seen\n").unwrap();
        vfs.rename("/w/seen.txt", "/w/canary-later", Overwrite::Refuse).unwrap();
        vfs.write("/w/canary-later", "canary 3\n").unwrap();
        vfs.remove_file("/w/canary", RemoveOptions::default()).unwrap();
        let agent = agent(&store);
        let shown = history(&agent);
        assert_reveals_nothing(&shown);
        assert!(shown.contains("shown.txt") && shown.contains("open 1"), "{shown}");
        let path = VfsPath::parse("/w/canary").unwrap();
        let log = agent.vfs().log(&LogQuery { path: Some(path), ..LogQuery::default() });
        assert_eq!(log.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(agent.vfs().blame("/w/canary-later").unwrap_err().kind(), ErrorKind::NotFound);
        if store.history().is_some_and(|history| history.as_of(revision.number).is_ok()) {
            let earlier = agent.as_of(revision).unwrap();
            assert_eq!(earlier.vfs().read("/w/canary").unwrap_err().kind(), ErrorKind::NotFound);
            assert_reveals_nothing(&format!(
                "{:?}",
                earlier.vfs().glob(&GlobQuery::new("**"), "/w").unwrap()
            ));
            assert_eq!(earlier.vfs().read("/w/open.txt").unwrap().bytes, b"open 2\n");
        }
    }
}

#[test]
fn a_restore_leaves_hidden_names_as_they_are_and_does_not_name_them() {
    for (store, _guard) in stores() {
        let owner = agent_without_hiding(&store);
        owner.vfs().write("/w/dir/canary", "canary 1\n").unwrap();
        let before = owner.vfs().write("/w/dir/a", "1\n").unwrap().revision.unwrap();
        owner.vfs().write("/w/dir/canary", "canary 2\n").unwrap();
        owner.vfs().write("/w/dir/a", "2\n").unwrap();
        owner.vfs().write("/w/new/canary", "canary 1\n").unwrap();
        owner.vfs().write("/w/new/b", "1\n").unwrap();
        let agent = agent(&store);
        for dry_run in [true, false] {
            let options = RestoreOptions { dry_run, ..RestoreOptions::default() };
            let restored = agent.vfs().restore("/w", before, &options);
            assert_reveals_nothing(&format!("{restored:?}"));
        }
        assert_eq!(owner.vfs().read("/w/dir/a").unwrap().bytes, b"1\n");
        assert_eq!(owner.vfs().read("/w/dir/canary").unwrap().bytes, b"canary 2\n");
        assert_eq!(owner.vfs().read("/w/new/canary").unwrap().bytes, b"canary 1\n");
        assert!(!owner.vfs().exists("/w/new/b").unwrap());
    }
}

#[test]
fn an_undo_leaves_hidden_names_as_they_are_and_does_not_name_them() {
    for (store, _guard) in stores() {
        let owner = agent_without_hiding(&store);
        let program = owner.vfs().operation("program");
        program.write("/w/a", "1\n").unwrap();
        program.write("/w/canary", "canary\n").unwrap();
        let agent = agent(&store);
        let refused = agent.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(!refused.done, "{refused:?}");
        assert_reveals_nothing(&format!("{:?} {:?}", refused.changes, refused.conflicts));
        let options = UndoOptions { on_conflict: OnConflict::Skip, ..UndoOptions::default() };
        let undone = agent.vfs().undo(UndoTarget::Last(1), options).unwrap();
        assert_reveals_nothing(&format!("{:?} {:?}", undone.changes, undone.conflicts));
        assert!(!owner.vfs().exists("/w/a").unwrap());
        assert_eq!(owner.vfs().read("/w/canary").unwrap().bytes, b"canary\n");
    }
}

#[test]
fn an_undo_does_not_list_an_operation_on_hidden_names_only() {
    for (store, _guard) in stores() {
        let owner = agent_without_hiding(&store);
        owner.vfs().write("/w/a", "1\n").unwrap();
        owner.vfs().operation("canary_tool").write("/w/canary", "canary\n").unwrap();
        let agent = agent(&store);
        for (dry_run, on_conflict) in
            [(true, OnConflict::Refuse), (true, OnConflict::Skip), (false, OnConflict::Refuse)]
        {
            let options = UndoOptions { dry_run, on_conflict };
            let answer = agent.vfs().undo(UndoTarget::Last(2), options).unwrap();
            assert_reveals_nothing(&format!("{answer:?}"));
            assert_eq!(answer.conflicts.len(), 1, "{answer:?}");
            assert_eq!((answer.undone.len(), answer.incomplete.len()), (1, 0), "{answer:?}");
        }
    }
}

/// Moves `/w/plain` to `/w/special`, as an agent whose rules concern what another one then puts there.
fn moved_directory(agent: &Stead, owner: &Stead) {
    agent.vfs().mkdir("/w/plain", Parents::Required).unwrap();
    agent.vfs().rename("/w/plain", "/w/special", Overwrite::Refuse).unwrap();
    owner.vfs().write("/w/special/config", "secret\n").unwrap();
}

#[test]
fn an_undo_or_a_restore_moves_no_directory_along_with_hidden_or_protected_names() {
    for (store, _guard) in stores() {
        let base = || workspace(&store);
        let owner = base().with_hide([""; 0]).and_then(|all| all.with_protect([""; 0])).unwrap();
        let owner = Stead::builder("owner").add_workspace(owner).build().unwrap();
        for (rule, reason) in [
            (
                base().with_hide(["special/config"]).unwrap(),
                "it contains names that are hidden from agents, here or where it would go",
            ),
            (
                base().with_protect(["special/config"]).unwrap(),
                "it contains names that agents may not change",
            ),
        ] {
            let agent = Stead::builder("coder").add_workspace(rule).build().unwrap();
            let before = agent.vfs().write("/w/mark", "1").unwrap().revision.unwrap();
            moved_directory(&agent, &owner);
            let undone = agent.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
            assert!(!undone.done, "{undone:?}");
            assert_eq!(undone.conflicts[0].why, reason);
            let merged = UndoOptions { on_conflict: OnConflict::Skip, ..UndoOptions::default() };
            agent.vfs().undo(UndoTarget::Last(1), merged).unwrap();
            agent.vfs().restore("/w", before, &RestoreOptions::default()).unwrap();
            assert_eq!(owner.vfs().read("/w/special/config").unwrap().bytes, b"secret\n");
            assert!(owner.vfs().stat("/w/plain").is_err(), "{reason}");
            owner
                .vfs()
                .remove_directory("/w/special", RemoveOptions { recursive: true, ..RemoveOptions::default() })
                .unwrap();
        }
        // Without such names, the same undo works.
        let agent =
            Stead::builder("coder").add_workspace(base().with_hide(["other"]).unwrap()).build().unwrap();
        moved_directory(&agent, &owner);
        assert!(agent.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap().done);
        assert!(agent.vfs().stat("/w/plain/config").is_ok());
    }
}

#[test]
fn a_fork_hides_what_its_maker_does_not_see() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    agent_without_hiding(&store).vfs().write("/w/keys/canary", "canary\n").unwrap();
    agent_without_hiding(&store).vfs().write("/w/open.txt", "open\n").unwrap();
    let stead = agent(&store).fork("/w", "draft").unwrap();
    assert_eq!(stead.find_fork("draft").unwrap().hide, HIDE);
    let vfs = stead.vfs();
    assert_reveals_nothing(&format!("{:?}", vfs.glob(&GlobQuery::new("**"), "/forks/draft").unwrap()));
    assert_eq!(vfs.read("/forks/draft/keys/canary").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(vfs.write("/forks/draft/canary", "x").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(vfs.read("/forks/draft/open.txt").unwrap().bytes, b"open\n");
    let again = stead.fork("/forks/draft", "again").unwrap();
    assert_eq!(again.vfs().read("/forks/again/keys/canary").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn import_and_export_leave_hidden_names_out_and_count_them() {
    let (store, directory) = stores().remove(0);
    let source = directory.path().join("source");
    fs::create_dir_all(source.join("keys/deep")).unwrap();
    for file in ["a", "canary", "keys/b", "keys/deep/c"] {
        fs::write(source.join(file), "canary\n").unwrap();
    }
    let agent = agent(&store);
    let opened = ImportSource::open(&source).unwrap();
    let totals = agent.import(opened, "/w/in", CompareBy::default(), &mut NoObserver).unwrap();
    assert_eq!((totals.files, totals.hidden, totals.refused), (1, 2, 0));
    let owner = agent_without_hiding(&store);
    assert_eq!(owner.vfs().glob(&GlobQuery::new("**"), "/w/in").unwrap().entries.len(), 1);
    let opened = ImportSource::open(&source).unwrap();
    owner.import(opened, "/w/in", CompareBy::default(), &mut NoObserver).unwrap();
    owner.vfs().write("/w/in/a", "open\n").unwrap();
    let mut archive = Vec::new();
    let destination = ExportDestination::Stream(Box::new(&mut archive));
    let exported =
        agent.export("/w", destination, OnExisting::Refuse, CompareBy::default(), &mut NoObserver).unwrap();
    assert_eq!((exported.files, exported.hidden, exported.refused), (1, 2, 0));
    assert_reveals_nothing(&String::from_utf8_lossy(&archive));
    // From an archive, a hidden directory counts once as well.
    let mut archive = Vec::new();
    let destination = ExportDestination::Stream(Box::new(&mut archive));
    owner.export("/w/in", destination, OnExisting::Refuse, CompareBy::default(), &mut NoObserver).unwrap();
    let stream = ImportSource::stream(archive.as_slice(), "archive").unwrap();
    let totals = agent.import(stream, "/w/again", CompareBy::default(), &mut NoObserver).unwrap();
    assert_eq!((totals.files, totals.hidden), (1, 2));
}
