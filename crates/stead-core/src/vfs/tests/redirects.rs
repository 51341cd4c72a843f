//! Redirects by rules of the stead: followed together with symlinks, and authorized at every path on the way.

use super::scopes::{read_calls, write_calls};
use super::*;
use crate::scope::Access;
use crate::testkit::MemoryAuditLog;

/// Rules from prefixes to prefixes. A rule with an access applies to that access only.
#[derive(Debug)]
struct PrefixRules(&'static [(&'static str, &'static str, Option<Access>)]);

impl Redirects for PrefixRules {
    fn redirect(&self, at: &VfsPath, workspace: &Workspace, access: Access) -> Option<VfsPath> {
        assert!(at.strip_prefix(workspace.prefix()).is_some(), "the path is routed");
        assert!(workspace.scope().allows(access), "the access is authorized");
        self.0.iter().find_map(|(from, to, only)| {
            let rest = at.strip_prefix(&path(from)).filter(|_| only.is_none_or(|only| only == access))?;
            Some(path(to).join(rest).unwrap())
        })
    }
}

type Rules = &'static [(&'static str, &'static str, Option<Access>)];

fn door_with_rules(rules: Rules, workspaces: impl IntoIterator<Item = Workspace>) -> Vfs {
    let builder = Vfs::builder(Identity::agent("tester")).redirects(Arc::new(PrefixRules(rules)));
    workspaces.into_iter().fold(builder, VfsBuilder::workspace).build().unwrap()
}

#[test]
fn every_call_goes_where_a_rule_leads_and_reports_that_path() {
    let (docs, fork) = (store_with(&[("/a", "docs")]), store_with(&[("/a", "fork"), ("/d/b", "fork b")]));
    let rules: Rules = &[("/docs", "/fork", None)];
    let vfs =
        door_with_rules(rules, [workspace("/docs", ReadWrite, &docs), workspace("/fork", ReadWrite, &fork)]);
    assert_eq!(vfs.read("/docs/a").unwrap().path, path("/fork/a"));
    assert_eq!(vfs.stat("/docs/d").unwrap().path, path("/fork/d"));
    assert_eq!(names(&vfs, "/docs"), "a d");
    let found = vfs.grep(&GrepQuery::new("fork b"), "/docs").unwrap();
    assert!(format!("{found:?}").contains("/fork/d/b"), "{found:?}");
    assert_eq!(vfs.write("/docs/new", "x").unwrap().path, path("/fork/new"));
    vfs.edit("/docs/a", "fork", "edited", Occurrences::One).unwrap();
    vfs.append("/docs/a", "!").unwrap();
    let file = vfs.open("/docs/opened", OpenOptions::write().create()).unwrap();
    assert_eq!(file.path(), &path("/fork/opened"));
    file.close().unwrap();
    let copied = vfs.copy("/docs/a", "/docs/copy", Overwrite::Refuse).unwrap();
    assert_eq!((copied.from, copied.to), (path("/fork/a"), path("/fork/copy")));
    vfs.rename("/docs/copy", "/docs/d/moved", Overwrite::Refuse).unwrap();
    let mut batch = vfs.batch();
    batch.write("/docs/e/one", "1", &WriteOptions::new()).unwrap();
    batch.write("/docs/e/two", "2", &WriteOptions::new()).unwrap();
    assert_eq!(batch.apply().unwrap()[1].path, path("/fork/e/two"));
    vfs.remove_file("/docs/new", RemoveOptions::default()).unwrap();
    assert_eq!(names(&vfs, "/fork"), "a d e opened");
    assert_eq!(names(&vfs, "/fork/d"), "b moved");
    assert_eq!(text(&vfs, "/fork/a"), "edited!");
    let without_rules = vfs_with([workspace("/docs", ReadWrite, &docs)]);
    assert_eq!(names(&without_rules, "/docs"), "a");
    assert_eq!(text(&without_rules, "/docs/a"), "docs");
}

#[test]
fn a_rule_may_apply_to_writes_only() {
    let (docs, fork) = (store_with(&[("/a", "docs")]), store_with(&[]));
    let rules: Rules = &[("/docs", "/fork", Some(Access::Write))];
    let vfs =
        door_with_rules(rules, [workspace("/docs", ReadWrite, &docs), workspace("/fork", ReadWrite, &fork)]);
    vfs.write("/docs/a", "new").unwrap();
    assert_eq!((text(&vfs, "/docs/a"), text(&vfs, "/fork/a")), ("docs".into(), "new".into()));
    vfs.copy("/docs/a", "/docs/b", Overwrite::Refuse).unwrap();
    assert_eq!((names(&vfs, "/docs"), names(&vfs, "/fork")), ("a".into(), "a b".into()));
}

/// A `Vfs` whose Workspace `/guarded` is on a Store that panics when it is called. A rule leads from `/open` there.
fn guarded(from: AccessScope, to: AccessScope) -> Vfs {
    let (open, free) = (store_with(&[("/a", "a")]), store_with(&[("/a", "a")]));
    let untouchable = Workspace::new(path("/guarded"), to, Mount::new(Arc::new(PanickingStore)));
    let workspaces = [untouchable, workspace("/open", from, &open), workspace("/free", ReadWrite, &free)];
    door_with_rules(&[("/open", "/guarded/secret", None)], workspaces)
}

#[test]
fn a_redirect_into_a_workspace_without_the_access_is_refused_before_a_store_is_called() {
    for (name, write) in write_calls() {
        let error = write(&guarded(ReadWrite, ReadOnly), "/open/d/a").unwrap_err();
        assert!(matches!(error, Error::ScopeDenied { .. }), "{name}: {error}");
    }
    for (name, read) in read_calls() {
        let error = read(&guarded(ReadWrite, WriteOnly), "/open/d/a").unwrap_err();
        assert!(matches!(error, Error::ScopeDenied { .. }), "{name}: {error}");
    }
}

#[test]
fn the_path_that_a_rule_leads_away_from_is_authorized_too() {
    let (ro, rw) = (store_with(&[]), store_with(&[]));
    let workspaces = [workspace("/ro", ReadOnly, &ro), workspace("/rw", ReadWrite, &rw)];
    let vfs = door_with_rules(&[("/ro", "/rw", None)], workspaces);
    assert_eq!(kind(vfs.write("/ro/a", "x")), ErrorKind::Denied);
    assert_eq!(names(&vfs, "/rw"), "");
}

#[test]
fn a_target_that_the_caller_may_not_know_is_not_disclosed() {
    for (name, write) in write_calls() {
        let Err(error) = write(&guarded(WriteOnly, ReadOnly), "/open/d/a") else {
            // These answer alike, whatever is there.
            assert!(["mkdir", "remove_file", "remove_directory"].contains(&name), "{name}");
            continue;
        };
        let message = format!("{error} {error:?}");
        assert!(!message.contains("secret") && !message.contains("guarded"), "{name}: {message}");
    }
    let (inbox, target) = (store_with(&[]), store_with(&[]));
    let rules: Rules = &[("/inbox", "/filed", None), ("/gone", "/nowhere/secret", None)];
    let gone = workspace("/gone", ReadWrite, &store_with(&[]));
    let workspaces = [workspace("/inbox", WriteOnly, &inbox), workspace("/filed", ReadWrite, &target), gone];
    let vfs = door_with_rules(rules, workspaces);
    assert_eq!(vfs.write("/inbox/a", "x").unwrap().path, path("/inbox/a"));
    assert_eq!(text(&vfs, "/filed/a"), "x");
    let error = vfs.read("/gone/a").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`/gone/a` is or goes through a redirect that leads outside your Workspaces, so it can't be followed"
    );
}

#[test]
fn rules_and_symlinks_that_lead_in_a_circle_end() {
    let store = store_with(&[]);
    store_link(&store, "/link", "/w/by-rule");
    let rules: Rules =
        &[("/w/one", "/w/two", None), ("/w/two", "/w/one", None), ("/w/by-rule", "/w/link", None)];
    let vfs = door_with_rules(rules, [workspace("/w", ReadWrite, &store)]);
    for at in ["/w/one", "/w/two/x", "/w/link/x", "/w/by-rule/x"] {
        assert!(matches!(vfs.read(at), Err(Error::TooManySymlinks { .. })), "{at}");
        assert!(matches!(vfs.write(at, "x"), Err(Error::TooManySymlinks { .. })), "{at}");
        assert!(matches!(vfs.walk(at, &WalkQuery::default()), Err(Error::TooManySymlinks { .. })), "{at}");
        let moved = vfs.rename(at, "/w/new", Overwrite::Refuse);
        assert!(matches!(moved, Err(Error::TooManySymlinks { .. })), "{at}");
    }
}

#[test]
fn symlinks_and_rules_lead_to_each_other() {
    let (one, two) = (store_with(&[]), store_with(&[("/d/f", "content")]));
    store_link(&one, "/start", "ruled/x");
    store_link(&two, "/x", "d");
    let rules: Rules = &[("/one/ruled", "/two", None), ("/two/d/g", "/one/g", None)];
    let vfs =
        door_with_rules(rules, [workspace("/one", ReadWrite, &one), workspace("/two", ReadWrite, &two)]);
    assert_eq!(vfs.read("/one/start/f").unwrap().path, path("/two/d/f"));
    assert_eq!(text(&vfs, "/one/start/f"), "content");
    assert_eq!(vfs.write("/one/start/g", "g").unwrap().path, path("/one/g"));
    let mut batch = vfs.batch();
    batch.write("/one/start/new", "n", &WriteOptions::new()).unwrap();
    assert_eq!(batch.apply().unwrap()[0].path, path("/two/d/new"));
}

#[test]
fn a_rule_cannot_lead_past_a_nested_workspace() {
    let (outer, inner) = (store_with(&[("/n/f", "outer")]), store_with(&[("/f", "inner")]));
    let workspaces = [workspace("/o", ReadWrite, &outer), workspace("/o/n", ReadOnly, &inner)];
    let vfs = door_with_rules(&[("/o/short", "/o/n", None), ("/o/above", "/o", None)], workspaces);
    assert_eq!(text(&vfs, "/o/short/f"), "inner");
    assert_eq!(kind(vfs.write("/o/short/f", "x")), ErrorKind::Denied);
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    assert_eq!(kind(vfs.remove_directory("/o/above/n", recursive)), ErrorKind::Denied);
    assert_eq!(kind(vfs.copy("/o/above", "/o/copy", Overwrite::Refuse)), ErrorKind::Denied);
}

#[test]
fn the_audit_names_the_requested_and_the_resolved_path() {
    let log = Arc::new(MemoryAuditLog::new());
    let builder = Vfs::builder(Identity::agent("tester")).audit(log.clone());
    let builder = builder.redirects(Arc::new(PrefixRules(&[("/w/a", "/w/b", None)])));
    let vfs = builder.workspace(workspace("/w", ReadWrite, &store_with(&[]))).build().unwrap();
    vfs.write("/w/a/f", "x").unwrap();
    vfs.read("/w/a/f").unwrap();
    for record in log.take() {
        assert_eq!(record.paths, [path("/w/a/f"), path("/w/b/f")], "{record:?}");
    }
}
