//! Stead's own files are out of reach under every name that another program gives them.

#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::path::{Path, PathBuf};

use stead::transfer::{CompareBy, ExportDestination, NoObserver, OnExisting};
use stead::vfs::{GlobQuery, ListPage, Overwrite, RemoveOptions, WalkQuery};
use stead::{Clock, Config, ErrorKind, Identity, Occurrences, Stead, SystemClock, Tokens};
use stead_core::search::GrepQuery;

const CONFIG: &str = r#"
    # canary
    [stores.work]
    kind = "physical"
    path = "work"
    [stores.notes]
    kind = "virtual"
    [[agents.a.workspaces]]
    prefix = "/yard"
    scope = "rw"
    store = "work"
    [[agents.a.workspaces]]
    prefix = "/notes"
    scope = "rw"
    store = "notes"
"#;

/// Stead's own files, and the second name that another program has given each of them in the Workspace.
const OWN_FILES: [(&str, &str); 6] = [
    ("stead.toml", "link-config"),
    (".stead/stead.db", "link-db"),
    (".stead/stead.db-wal", "link-wal"),
    (".stead/stead.db-shm", "link-shm"),
    (".stead/audit/key", "link-key"),
    (".stead/tokens.json", "link-tokens"),
];

struct Host {
    directory: tempfile::TempDir,
    stead: Stead,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("stead.toml");
        std::fs::write(&file, CONFIG).unwrap();
        std::fs::create_dir_all(directory.path().join("work/dir")).unwrap();
        std::fs::write(directory.path().join("work/dir/plain"), "canary of a user\n").unwrap();
        let config = Config::load(&file).unwrap();
        Tokens::of(&config).create(Identity::agent("a"), None, SystemClock.now()).unwrap();
        let stead = Stead::open(&config, "a").unwrap();
        stead.vfs().write("/notes/a", "canary in the database").unwrap();
        stead.vfs().write("/yard/b", "x").unwrap();
        Host { directory, stead }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Gives every file a second name, in a directory of the Workspace.
    fn link(&self) {
        for (own, link) in OWN_FILES {
            std::fs::hard_link(self.path(own), self.path("work/dir").join(link)).unwrap();
        }
    }
}

fn own_contents(directory: &Path) -> Vec<Vec<u8>> {
    OWN_FILES.iter().map(|(own, _)| std::fs::read(directory.join(own)).unwrap()).collect()
}

#[test]
fn no_call_reaches_a_hard_link_to_an_own_file() {
    let host = Host::new();
    let vfs = host.stead.vfs();
    host.link();
    for (_, link) in OWN_FILES {
        let path = format!("/yard/dir/{link}");
        let path = path.as_str();
        assert!(vfs.read(path).is_err(), "{path}");
        assert!(vfs.reader(path).is_err(), "{path}");
        assert!(vfs.stat(path).is_err(), "{path}");
        assert!(!vfs.exists(path).unwrap(), "{path}");
        assert!(vfs.write(path, "[agents]").is_err(), "{path}");
        assert!(vfs.append(path, "x").is_err(), "{path}");
        assert!(vfs.edit(path, "canary", "x", Occurrences::One).is_err(), "{path}");
        assert!(vfs.copy(path, "/yard/copied", Overwrite::Refuse).is_err(), "{path}");
        assert!(vfs.copy(path, "/notes/copied", Overwrite::Refuse).is_err(), "{path}");
        assert!(vfs.copy("/yard/b", path, Overwrite::Replace).is_err(), "{path}");
        assert!(vfs.rename(path, "/yard/moved", Overwrite::Refuse).is_err(), "{path}");
        assert!(vfs.rename("/yard/b", path, Overwrite::Replace).is_err(), "{path}");
        assert!(vfs.remove_file(path, RemoveOptions::default()).is_err(), "{path}");
        assert!(vfs.set_attributes(path, Some(0o777), None).is_err(), "{path}");
        assert!(host.path(&format!("work/dir/{link}")).exists(), "{path}");
    }
    let listed = vfs.list("/yard/dir", &ListPage::default()).unwrap();
    assert_eq!((listed.entries.len(), listed.total), (1, 1));
    let walked = vfs.walk("/yard", &WalkQuery::default()).unwrap();
    assert_eq!(walked.entries.len(), 3, "{walked:?}");
    assert_eq!(vfs.glob(&GlobQuery::new("**/link-*"), "/yard").unwrap().entries.len(), 0);
    let grep_result = vfs.grep(&GrepQuery::new("canary"), "/yard").unwrap();
    assert_eq!(grep_result.files.len(), 1, "{grep_result:?}");
}

#[test]
fn a_directory_with_a_hard_link_to_an_own_file_is_neither_moved_nor_removed_and_copied_without_it() {
    let host = Host::new();
    let vfs = host.stead.vfs();
    host.link();
    let before = own_contents(host.directory.path());
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    assert!(vfs.remove_directory("/yard/dir", recursive).is_err());
    assert!(vfs.rename("/yard/dir", "/yard/moved", Overwrite::Refuse).is_err());
    vfs.copy("/yard/dir", "/notes/copied", Overwrite::Refuse).unwrap();
    assert_eq!(vfs.list("/notes/copied", &ListPage::default()).unwrap().total, 1);
    if vfs.copy("/yard/dir", "/yard/copied", Overwrite::Refuse).is_ok() {
        assert_eq!(std::fs::read_dir(host.path("work/copied")).unwrap().count(), 1);
    }
    let (out, compare) = (host.path("out"), CompareBy::default());
    let destination = ExportDestination::Directory(out.clone());
    host.stead.export("/yard", destination, OnExisting::Refuse, compare, &mut NoObserver).unwrap();
    assert_eq!(std::fs::read_dir(out.join("dir")).unwrap().count(), 1);
    let after = own_contents(host.directory.path());
    for index in [0, 4, 5] {
        assert_eq!(before[index], after[index], "{}", OWN_FILES[index].0);
    }
}

#[test]
fn a_snapshot_contains_no_hard_link_to_an_own_file() {
    let host = Host::new();
    host.link();
    let snapshot = host.stead.snapshot(Some("/yard"), Some("before")).unwrap();
    let earlier_stead = host.stead.as_of_text("/yard", "before").unwrap();
    let listed = earlier_stead.vfs().list("/yard/dir", &ListPage::default()).unwrap();
    assert_eq!(listed.total, 1, "{listed:?} {snapshot:?}");
    assert!(earlier_stead.vfs().read("/yard/dir/link-config").is_err());
}

#[test]
fn an_own_file_that_was_replaced_while_the_store_is_open_is_recognised() {
    let host = Host::new();
    let vfs = host.stead.vfs();
    let link = host.path("work/dir/link");
    for round in 0..20 {
        // As an editor saves it.
        std::fs::write(host.path("new"), format!("{CONFIG}\n# {round}")).unwrap();
        std::fs::rename(host.path("new"), host.path("stead.toml")).unwrap();
        std::fs::hard_link(host.path("stead.toml"), &link).unwrap();
        assert!(vfs.read("/yard/dir/link").is_err(), "{round}");
        assert!(vfs.append("/yard/dir/link", "x").is_err(), "{round}");
        std::fs::remove_file(&link).unwrap();
    }
    // A file that was Stead's own before, and is an ordinary file of the user now, can be read.
    std::fs::hard_link(host.path("stead.toml"), &link).unwrap();
    std::fs::write(host.path("new"), CONFIG).unwrap();
    std::fs::rename(host.path("new"), host.path("stead.toml")).unwrap();
    assert!(vfs.read("/yard/dir/link").is_ok());
}

#[test]
fn hard_links_of_users_among_their_own_files_are_ordinary_files() {
    let host = Host::new();
    let vfs = host.stead.vfs();
    std::fs::hard_link(host.path("work/dir/plain"), host.path("work/dir/twin")).unwrap();
    assert_eq!(vfs.read("/yard/dir/twin").unwrap().bytes, b"canary of a user\n");
    // Displaced content goes to the state directory; its second name is not affected.
    vfs.write("/yard/dir/plain", "new").unwrap();
    assert_eq!(vfs.read("/yard/dir/twin").unwrap().bytes, b"canary of a user\n");
    vfs.remove_file("/yard/dir/plain", RemoveOptions::default()).unwrap();
    let mut text = String::new();
    vfs.reader("/yard/dir/twin").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "canary of a user\n");
    assert_eq!(vfs.list("/yard/dir", &ListPage::default()).unwrap().total, 1);
}

#[test]
fn a_directory_with_another_steads_state_is_not_copied() {
    let host = Host::new();
    let vfs = host.stead.vfs();
    for (file, text) in
        [("work/inner/.stead/stead.db", "state"), ("work/inner/stead.toml", "[agents]"), ("work/inner/a", "")]
    {
        std::fs::create_dir_all(host.path(file).parent().unwrap()).unwrap();
        std::fs::write(host.path(file), text).unwrap();
    }
    for destination in ["/yard/copied", "/notes/copied"] {
        let refused = vfs.copy("/yard/inner", destination, Overwrite::Refuse).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
        assert!(refused.to_string().contains("protected"), "{refused}");
        assert!(!vfs.exists(destination).unwrap());
        let moved = vfs.rename("/yard/inner", destination, Overwrite::Refuse).unwrap_err();
        assert_eq!(moved.kind(), refused.kind(), "{moved}");
    }
    let out = host.path("out");
    let destination = ExportDestination::Directory(out.clone());
    host.stead
        .export("/yard/inner", destination, OnExisting::Refuse, CompareBy::default(), &mut NoObserver)
        .unwrap();
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 1, "an export has to leave out Stead's own files");
}
