use std::sync::Arc;

use stead::search::GrepQuery;
use stead::store::Parents;
use stead::transfer::{CompareBy, ExportDestination, NoObserver, OnExisting};
use stead::vfs::{DiffOptions, ListPage, LogQuery, Overwrite, PointInTime, RemoveOptions, WalkQuery};
use stead::{AccessScope, ApprovalPolicy, Config, ErrorKind, MemoryStore, Stead, Workspace};
use tempfile::TempDir;

use crate::common::{Home, NAME, SECRET, nested, owner, tells_nothing};

/// Everything that can be read below a prefix, in one text.
fn everything(stead: &Stead, prefix: &str) -> String {
    let vfs = stead.vfs();
    let mut archive = Vec::new();
    let to = ExportDestination::Stream(Box::new(&mut archive));
    stead.export(prefix, to, OnExisting::Refuse, CompareBy::default(), &mut NoObserver).unwrap();
    let log = LogQuery { path: Some(stead::VfsPath::parse(prefix).unwrap()), ..LogQuery::default() };
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{}",
        vfs.walk(prefix, &WalkQuery::default()).unwrap(),
        vfs.grep(&GrepQuery::new("."), prefix).unwrap(),
        vfs.glob("**", prefix, 1_000).unwrap(),
        vfs.log(&log).map_err(|error| error.to_string()),
        String::from_utf8_lossy(&archive),
    )
}

#[test]
fn a_fork_shows_what_its_maker_sees_and_no_more() {
    let home = Home::new(AccessScope::ReadWrite);
    let stead = home.stead.fork("/home", "draft").unwrap();
    let fork = stead.find_fork("draft").unwrap();
    assert_eq!(fork.excluded.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/wo"]);
    let vfs = stead.vfs();
    assert_eq!(vfs.read("/forks/draft/open.txt").unwrap().bytes, b"open 2\n");
    let told = everything(&stead, "/forks/draft");
    assert!(told.contains("open 2"), "{told}");
    tells_nothing(&told);
    for path in ["wo", "self/wo", "self/self/wo"] {
        let at = format!("/forks/draft/{path}/{NAME}");
        for refused in [
            vfs.read(&*at).map(drop),
            vfs.stat(&*at).map(drop),
            vfs.write(&*at, "x").map(drop),
            vfs.remove_file(&*at, RemoveOptions::default()).map(drop),
            vfs.copy(&*at, "/forks/draft/taken", Overwrite::Refuse).map(drop),
            vfs.rename(&*at, "/forks/draft/taken", Overwrite::Refuse).map(drop),
            vfs.blame(&*at).map(drop),
            vfs.list(format!("/forks/draft/{path}"), &ListPage::all()).map(drop),
            vfs.mkdir(format!("/forks/draft/{path}/d"), Parents::Create).map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
            assert!(refused.to_string().contains("the fork doesn't contain it"), "{refused}");
        }
    }
    let whole = vfs.copy("/forks/draft", "/home/all", Overwrite::Refuse).unwrap_err();
    assert_eq!(whole.kind(), ErrorKind::Denied, "{whole}");
    assert_eq!(
        vfs.rename("/forks/draft/wo", "/forks/draft/x", Overwrite::Refuse).unwrap_err().kind(),
        ErrorKind::Denied
    );
}

#[test]
fn what_was_left_out_of_a_fork_is_left_out_of_its_forks_and_of_its_past() {
    let home = Home::new(AccessScope::ReadWrite);
    let first = home.stead.fork("/home", "one").unwrap();
    let version = first.vfs().write("/forks/one/open.txt", "mine\n").unwrap().revision.unwrap();
    first.vfs().write("/forks/one/open.txt", "mine again\n").unwrap();
    let second = first.fork("/forks/one", "two").unwrap();
    assert_eq!(second.find_fork("two").unwrap().excluded.len(), 1);
    for prefix in ["/forks/one", "/forks/two"] {
        tells_nothing(&everything(&second, prefix));
    }
    let past = second.as_of(version).unwrap();
    tells_nothing(&format!("{:?}", past.vfs().walk("/", &WalkQuery::default()).unwrap()));
    tells_nothing(&format!("{:?}", past.vfs().grep(&GrepQuery::new("."), "/").unwrap()));
    let denied = past.vfs().read(format!("/forks/one/self/wo/{NAME}")).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    for fork in ["one", "two"] {
        tells_nothing(&format!("{:?}", second.diff_fork(fork, DiffOptions::default()).unwrap()));
    }
    // After it is discarded, nothing of it is left.
    let without = second.discard("two").unwrap();
    assert!(!format!("{:?}", without.vfs().router()).contains("/forks/two"));
}

#[test]
fn a_fork_holds_nothing_of_what_a_nested_workspace_shadows_or_asks_about() {
    let (store, other) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let whole = owner(&store);
    for place in ["shadowed", "asking"] {
        whole.vfs().write(format!("/home/{place}/{NAME}"), SECRET).unwrap();
    }
    let asking = stead::Mount::at(
        Arc::clone(&store) as Arc<dyn stead::Store>,
        &stead::VfsPath::parse("/home/asking").unwrap(),
    );
    let asking =
        Workspace::new(stead::VfsPath::parse("/home/asking").unwrap(), AccessScope::ReadWrite, asking);
    let stead = nested(&store, AccessScope::ReadWrite)
        .workspace("/home/shadowed", AccessScope::ReadWrite, &other)
        .add_workspace(asking.with_approval_policy(ApprovalPolicy::Everything))
        .build()
        .unwrap();
    let log = stead.vfs().log(&LogQuery::default()).unwrap();
    tells_nothing(&format!("{log:?}"));
    let stead = stead.fork("/home", "draft").unwrap();
    tells_nothing(&everything(&stead, "/forks/draft"));
    for place in ["shadowed", "asking", "wo"] {
        let denied = stead.vfs().read(format!("/forks/draft/{place}/{NAME}")).unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    }
}

const CONFIG: &str = r#"
    [stores.notes]
    kind = "virtual"
    [[agents.owner.workspaces]]
    prefix = "/"
    scope = "rw"
    store = "notes"
    [[agents.coder.workspaces]]
    prefix = "/home"
    scope = "rw"
    store = "notes"
    path = "/home"
    [[agents.other.workspaces]]
    prefix = "/other"
    scope = "rw"
    store = "notes"
    path = "/other"
"#;
const NESTED: &str = r#"
    [[agents.coder.workspaces]]
    prefix = "/home/wo"
    scope = "wo"
    store = "notes"
    path = "/home/wo"
"#;

fn config(directory: &TempDir, text: &str) -> Config {
    Config::parse(text, &directory.path().join("stead.toml")).unwrap()
}

#[test]
fn a_fork_given_away_or_opened_under_another_configuration_keeps_its_barriers() {
    let directory = tempfile::tempdir().unwrap();
    let with = config(&directory, &format!("{CONFIG}{NESTED}"));
    let owner = Stead::open(&with, "owner").unwrap();
    owner.vfs().write("/home/open.txt", "open\n").unwrap();
    owner.vfs().write(format!("/home/wo/{NAME}"), SECRET).unwrap();
    let coder = Stead::open(&with, "coder").unwrap();
    coder.fork("/home", "mine").unwrap();
    let given = coder.fork_to("/home", "yours", "other").unwrap();
    assert_eq!(given.excluded.len(), 1);
    // The nested Workspace isn't in this configuration any more, but the forks still withhold what it withheld.
    let without = config(&directory, CONFIG);
    for (agent, prefix) in [("coder", "/forks/mine"), ("other", "/forks/yours")] {
        let stead = Stead::open(&without, agent).unwrap();
        assert_eq!(stead.vfs().read(format!("{prefix}/open.txt")).unwrap().bytes, b"open\n");
        tells_nothing(&everything(&stead, prefix));
        let denied = stead.vfs().read(format!("{prefix}/wo/{NAME}")).unwrap_err();
        assert!(denied.to_string().contains("the fork doesn't contain it"), "{denied}");
    }
}

#[test]
fn diff_and_blame_tell_nothing_of_what_lay_in_a_nested_workspace_before() {
    let home = Home::new(AccessScope::ReadWrite);
    let owner = owner(&home.store);
    let version = owner.vfs().revision_at("/home", PointInTime::Now).unwrap();
    owner.vfs().rename(format!("/home/wo/{NAME}"), "/home/moved.txt", Overwrite::Refuse).unwrap();
    owner.vfs().write("/home/moved.txt", "public\n").unwrap();
    let vfs = home.stead.vfs();
    let diff = vfs.diff("/home", version, PointInTime::Now, DiffOptions::default()).unwrap();
    assert!(format!("{diff:?}").contains("public"), "{diff:?}");
    tells_nothing(&format!("{diff:?}"));
    tells_nothing(&format!("{:?}", vfs.log(&LogQuery::default()).unwrap()));
    let blamed = vfs.blame("/home/moved.txt").unwrap();
    assert_eq!(blamed.len(), 1);
    assert_eq!(blamed[0].line, b"public\n");
}
