use std::sync::Arc;

use stead::search::GrepQuery;
use stead::store::Parents;
use stead::transfer::{CompareBy, ExportDestination, NoObserver, OnExisting};
use stead::vfs::{
    DiffOptions, DifferenceKind, GlobQuery, ListPage, LogQuery, Overwrite, PointInTime, RemoveOptions,
    WalkQuery,
};
use stead::{AccessScope, ApprovalPolicy, Config, ErrorKind, MemoryStore, Stead, Workspace};
use tempfile::TempDir;

use crate::common::{Home, NAME, SECRET, assert_reveals_nothing, nested, owner};

/// Everything that can be read below a prefix, in one text.
fn all_readable_text(stead: &Stead, prefix: &str) -> String {
    let vfs = stead.vfs();
    let mut archive = Vec::new();
    let to = ExportDestination::Stream(Box::new(&mut archive));
    stead.export(prefix, to, OnExisting::Refuse, CompareBy::default(), &mut NoObserver).unwrap();
    let log = LogQuery { path: Some(stead::VfsPath::parse(prefix).unwrap()), ..LogQuery::default() };
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{}",
        vfs.walk(prefix, &WalkQuery::default()).unwrap(),
        vfs.grep(&GrepQuery::new("."), prefix).unwrap(),
        vfs.glob(&GlobQuery::new("**"), prefix).unwrap(),
        vfs.log(&log).map_err(|error| error.to_string()),
        String::from_utf8_lossy(&archive),
    )
}

#[test]
fn a_fork_shows_what_its_creator_can_see_and_no_more() {
    let home = Home::new(AccessScope::ReadWrite);
    let stead = home.stead.fork("/home", "draft").unwrap();
    let fork = stead.find_fork("draft").unwrap();
    assert_eq!(fork.excluded.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/wo"]);
    let vfs = stead.vfs();
    assert_eq!(vfs.read("/forks/draft/open.txt").unwrap().bytes, b"open 2\n");
    let text = all_readable_text(&stead, "/forks/draft");
    assert!(text.contains("open 2"), "{text}");
    assert_reveals_nothing(&text);
    for directory in ["wo", "self/wo", "self/self/wo"] {
        let path = format!("/forks/draft/{directory}/{NAME}");
        for refused in [
            vfs.read(&*path).map(drop),
            vfs.stat(&*path).map(drop),
            vfs.write(&*path, "x").map(drop),
            vfs.remove_file(&*path, RemoveOptions::default()).map(drop),
            vfs.copy(&*path, "/forks/draft/taken", Overwrite::Refuse).map(drop),
            vfs.rename(&*path, "/forks/draft/taken", Overwrite::Refuse).map(drop),
            vfs.blame(&*path).map(drop),
            vfs.list(format!("/forks/draft/{directory}"), &ListPage::all()).map(drop),
            vfs.mkdir(format!("/forks/draft/{directory}/d"), Parents::Create).map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
            assert!(refused.to_string().contains("the fork doesn't contain it"), "{refused}");
        }
    }
    let copied = vfs.copy("/forks/draft", "/home/all", Overwrite::Refuse).unwrap_err();
    assert_eq!(copied.kind(), ErrorKind::Denied, "{copied}");
    assert_eq!(
        vfs.rename("/forks/draft/wo", "/forks/draft/x", Overwrite::Refuse).unwrap_err().kind(),
        ErrorKind::Denied
    );
}

#[test]
fn what_is_excluded_from_a_fork_is_excluded_from_its_forks_and_earlier_versions() {
    let home = Home::new(AccessScope::ReadWrite);
    let first = home.stead.fork("/home", "one").unwrap();
    let revision = first.vfs().write("/forks/one/open.txt", "mine\n").unwrap().revision.unwrap();
    first.vfs().write("/forks/one/open.txt", "mine again\n").unwrap();
    let second = first.fork("/forks/one", "two").unwrap();
    assert_eq!(second.find_fork("two").unwrap().excluded.len(), 1);
    for prefix in ["/forks/one", "/forks/two"] {
        assert_reveals_nothing(&all_readable_text(&second, prefix));
    }
    let earlier = second.as_of(revision).unwrap();
    assert_reveals_nothing(&format!("{:?}", earlier.vfs().walk("/", &WalkQuery::default()).unwrap()));
    assert_reveals_nothing(&format!("{:?}", earlier.vfs().grep(&GrepQuery::new("."), "/").unwrap()));
    let denied = earlier.vfs().read(format!("/forks/one/self/wo/{NAME}")).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    for fork in ["one", "two"] {
        assert_reveals_nothing(&format!("{:?}", second.diff_fork(fork, DiffOptions::default()).unwrap()));
    }
    // After it is discarded, nothing of it is left.
    let after_discard = second.discard("two").unwrap();
    assert!(!format!("{:?}", after_discard.vfs().router()).contains("/forks/two"));
}

#[test]
fn a_fork_contains_nothing_that_a_nested_workspace_hides_or_needs_approval_for() {
    let (store, other) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let owner_stead = owner(&store);
    for name in ["shadowed", "asking"] {
        owner_stead.vfs().write(format!("/home/{name}/{NAME}"), SECRET).unwrap();
    }
    let needs_approval = stead::Mount::at(
        Arc::clone(&store) as Arc<dyn stead::Store>,
        &stead::VfsPath::parse("/home/asking").unwrap(),
    );
    let needs_approval = Workspace::new(
        stead::VfsPath::parse("/home/asking").unwrap(),
        AccessScope::ReadWrite,
        needs_approval,
    );
    let stead = nested(&store, AccessScope::ReadWrite)
        .workspace("/home/shadowed", AccessScope::ReadWrite, &other)
        .add_workspace(needs_approval.with_approval_policy(ApprovalPolicy::Everything))
        .build()
        .unwrap();
    let log = stead.vfs().log(&LogQuery::default()).unwrap();
    assert_reveals_nothing(&format!("{log:?}"));
    let stead = stead.fork("/home", "draft").unwrap();
    assert_reveals_nothing(&all_readable_text(&stead, "/forks/draft"));
    for name in ["asking", "wo"] {
        let denied = stead.vfs().read(format!("/forks/draft/{name}/{NAME}")).unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    }
    // As in the nested Workspace itself: its own Store has no such file.
    for top in ["/home", "/forks/draft"] {
        let missing = stead.vfs().read(format!("{top}/shadowed/{NAME}")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
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
fn a_fork_for_another_agent_or_under_another_configuration_keeps_its_exclusions() {
    let directory = tempfile::tempdir().unwrap();
    let nested_config = config(&directory, &format!("{CONFIG}{NESTED}"));
    let owner = Stead::open(&nested_config, "owner").unwrap();
    owner.vfs().write("/home/open.txt", "open\n").unwrap();
    owner.vfs().write(format!("/home/wo/{NAME}"), SECRET).unwrap();
    let coder = Stead::open(&nested_config, "coder").unwrap();
    coder.fork("/home", "mine").unwrap();
    let other_agents_fork = coder.fork_to("/home", "yours", "other").unwrap();
    assert_eq!(other_agents_fork.excluded.len(), 1);
    // The nested Workspace isn't in this configuration any more, but the forks still withhold what it withheld.
    let plain_config = config(&directory, CONFIG);
    for (agent, prefix) in [("coder", "/forks/mine"), ("other", "/forks/yours")] {
        let stead = Stead::open(&plain_config, agent).unwrap();
        assert_eq!(stead.vfs().read(format!("{prefix}/open.txt")).unwrap().bytes, b"open\n");
        assert_reveals_nothing(&all_readable_text(&stead, prefix));
        let denied = stead.vfs().read(format!("{prefix}/wo/{NAME}")).unwrap_err();
        assert!(denied.to_string().contains("the fork doesn't contain it"), "{denied}");
    }
}

#[test]
fn a_fork_is_withheld_while_its_maker_can_not_read_the_base() {
    let directory = tempfile::tempdir().unwrap();
    let before = config(&directory, CONFIG);
    let owner = Stead::open(&before, "owner").unwrap();
    owner.vfs().write(format!("/home/{NAME}"), SECRET).unwrap();
    let coder = Stead::open(&before, "coder").unwrap().fork("/home", "mine").unwrap();
    coder.fork_to("/home", "yours", "other").unwrap();
    // A fork of a fork is as good as the Workspace at the bottom, also without the fork in between.
    let coder = coder.fork("/forks/mine", "second").unwrap();
    coder.discard("mine").unwrap();
    let forks = [("coder", "second"), ("other", "yours")];

    let home = "prefix = \"/home\"\n    scope = \"rw\"";
    let elsewhere = CONFIG.replace("path = \"/home\"", "path = \"/elsewhere\"");
    let write_only = CONFIG.replace(home, "prefix = \"/home\"\n    scope = \"wo\"");
    for text in [elsewhere, write_only] {
        let after = config(&directory, &text);
        for (agent, name) in forks {
            let stead = Stead::open(&after, agent).unwrap();
            // As if there had never been one.
            let error = |path: &str| stead.vfs().stat(path).unwrap_err().to_string();
            let never = error("/forks/never");
            for path in [format!("/forks/{name}"), format!("/forks/{name}/{NAME}"), "/forks".to_owned()] {
                assert_eq!(error(&path), never.replace("/forks/never", &path));
            }
            assert_reveals_nothing(&format!("{:?}", stead.vfs().walk("/", &WalkQuery::default()).unwrap()));
            assert_eq!(stead.forks().unwrap().count(), 0);
            assert_eq!(
                stead.diff_fork(name, DiffOptions::default()).unwrap_err().kind(),
                ErrorKind::NotFound
            );
            let withheld: Vec<_> = stead.withheld_forks().unwrap().map(|fork| fork.name.as_str()).collect();
            assert_eq!(withheld, [name]);
        }
    }
    let renamed = CONFIG.replace("prefix = \"/home\"", "prefix = \"/renamed\"");
    for text in [CONFIG, &renamed] {
        let after = config(&directory, text);
        for (agent, name) in forks {
            let stead = Stead::open(&after, agent).unwrap();
            let read = stead.vfs().read(format!("/forks/{name}/{NAME}")).unwrap();
            assert_eq!(read.bytes, SECRET.as_bytes());
        }
    }
    // A person can discard a withheld fork.
    let after = config(&directory, &CONFIG.replace(home, "prefix = \"/home\"\n    scope = \"wo\""));
    let stead = Stead::open(&after, "coder").unwrap().discard("second").unwrap();
    assert_eq!(stead.withheld_forks().unwrap().count(), 0);
    assert_eq!(Stead::open(&before, "coder").unwrap().forks().unwrap().count(), 0);
}

#[test]
fn a_workspace_that_is_nested_in_the_base_later_is_a_barrier_in_the_fork() {
    let directory = tempfile::tempdir().unwrap();
    let before = config(&directory, CONFIG);
    let owner = Stead::open(&before, "owner").unwrap();
    owner.vfs().write("/home/open.txt", "open\n").unwrap();
    owner.vfs().write(format!("/home/wo/{NAME}"), SECRET).unwrap();
    let coder = Stead::open(&before, "coder").unwrap();
    coder.fork("/home", "mine").unwrap();
    coder.fork_to("/home", "yours", "other").unwrap();
    let after = config(&directory, &format!("{CONFIG}{NESTED}"));
    for (agent, prefix) in [("coder", "/forks/mine"), ("other", "/forks/yours")] {
        let stead = Stead::open(&after, agent).unwrap();
        assert_eq!(stead.vfs().read(format!("{prefix}/open.txt")).unwrap().bytes, b"open\n");
        assert_reveals_nothing(&all_readable_text(&stead, prefix));
        let denied = stead.vfs().read(format!("{prefix}/wo/{NAME}")).unwrap_err();
        assert!(denied.to_string().contains("the fork doesn't contain it"), "{denied}");
    }
}

#[test]
fn the_log_compares_with_nothing_that_was_in_a_nested_workspace() {
    let home = Home::new(AccessScope::ReadWrite);
    let owner = owner(&home.store);
    owner.vfs().rename(format!("/home/wo/{NAME}"), "/home/moved.txt", Overwrite::Refuse).unwrap();
    owner.vfs().rename("/home/open.txt", "/home/wo/closed.txt", Overwrite::Refuse).unwrap();
    owner.vfs().write("/home/wo/closed.txt", SECRET).unwrap();
    let query = LogQuery { diff: Some(DiffOptions { text: false, context: 3 }), ..LogQuery::default() };
    let log = home.stead.vfs().log(&query).unwrap();
    // What came from there is new, and what went there is removed. What happens to it there isn't listed.
    let [removed] = &log[0].differences[..] else { panic!("{log:?}") };
    assert_eq!((removed.path.as_str(), removed.difference), ("/home/open.txt", DifferenceKind::Removed));
    let [difference] = &log[1].differences[..] else { panic!("{log:?}") };
    assert_eq!((difference.path.as_str(), &difference.from), ("/home/moved.txt", &None));
    assert_eq!(difference.difference, DifferenceKind::Added);
    assert_reveals_nothing(&format!("{log:?}"));
}

#[test]
fn diff_and_blame_reveal_nothing_that_was_in_a_nested_workspace_before() {
    let home = Home::new(AccessScope::ReadWrite);
    let owner = owner(&home.store);
    let revision = owner.vfs().revision_at("/home", PointInTime::Now).unwrap();
    owner.vfs().rename(format!("/home/wo/{NAME}"), "/home/moved.txt", Overwrite::Refuse).unwrap();
    owner.vfs().write("/home/moved.txt", "public\n").unwrap();
    let vfs = home.stead.vfs();
    let diff = vfs.diff("/home", revision, PointInTime::Now, DiffOptions::default()).unwrap();
    assert!(format!("{diff:?}").contains("public"), "{diff:?}");
    assert_reveals_nothing(&format!("{diff:?}"));
    assert_reveals_nothing(&format!("{:?}", vfs.log(&LogQuery::default()).unwrap()));
    let blamed = vfs.blame("/home/moved.txt").unwrap();
    assert_eq!(blamed.len(), 1);
    assert_eq!(blamed[0].line, b"public\n");
}
