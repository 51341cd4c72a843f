use std::sync::Arc;

use serde_json::json;
use stead::store::QuotaLimits;
use stead::tools::ToolChoice;
use stead::{AccessScope, ErrorKind, MemoryStore, Mount, Stead, Store, VfsPath, Workspace};

use crate::common::{answer, owner};

/// `/in` (WRITE_ONLY), `/free` (READ_WRITE), and an owner who sees what is in `/in`.
struct Box {
    owner: Stead,
    stead: Stead,
}

fn path(text: &str) -> VfsPath {
    VfsPath::parse(text).unwrap()
}

fn at(store: &Arc<MemoryStore>, place: &str) -> Mount {
    Mount::at(Arc::clone(store) as Arc<dyn Store>, &path(place))
}

fn agent(store: &Arc<MemoryStore>) -> stead::SteadBuilder {
    let inbox = Workspace::new(path("/in"), AccessScope::WriteOnly, at(store, "/in"));
    Stead::builder("coder")
        .add_workspace(inbox.with_scratch(["*.tmp"]).unwrap())
        .workspace("/free", AccessScope::ReadWrite, at(store, "/free"))
        .tools(ToolChoice { history: true, ..ToolChoice::default() })
}

impl Box {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::new());
        let (owner, stead) = (owner(&store), agent(&store).build().unwrap());
        let vfs = owner.vfs();
        vfs.write("/in/theirs.txt", "secret words\n").unwrap();
        vfs.write("/in/full/inner.txt", "x").unwrap();
        vfs.mkdir("/in/empty", stead::store::Parents::Create).unwrap();
        vfs.symlink("/in/link", "theirs.txt").unwrap();
        vfs.symlink("/in/out", "/nowhere").unwrap();
        vfs.symlink("/in/readonly", "/docs/canary-target").unwrap();
        vfs.write("/in/protected/.git/hooks/canary", "x").unwrap();
        vfs.write("/in/theirs.tmp", "secret words\n").unwrap();
        Box { owner, stead }
    }

    /// An answer without what differs from call to call anyway.
    fn told(&self, tool: &str, at: &str, mut arguments: serde_json::Value) -> String {
        let key = if tool == "move_file" { "source" } else { "path" };
        arguments[key] = json!(at);
        let mut told = answer(&self.stead, tool, arguments).replace(at, "PATH");
        while let Some(start) = told.find("\"operation\":\"") {
            told.replace_range(start..start + 51, "");
        }
        told
    }

    fn text(&self, at: &str) -> String {
        String::from_utf8(self.owner.vfs().read(at).unwrap().bytes).unwrap()
    }
}

const PLACES: [&str; 9] = [
    "/in/none.txt",
    "/in/theirs.txt",
    "/in/full",
    "/in/empty",
    "/in/link",
    "/in/out",
    "/in/readonly",
    "/in/protected",
    "/in/theirs.tmp",
];

#[test]
fn an_edit_of_anything_but_ones_own_file_is_denied_in_one_and_the_same_way() {
    let inbox = Box::new();
    let edit = json!({ "old_string": "secret", "new_string": "guess" });
    let denied = inbox.told("edit_file", "/in/none.txt", edit.clone());
    assert!(denied.contains("whole content you wrote yourself"), "{denied}");
    for place in PLACES {
        assert_eq!(inbox.told("edit_file", place, edit.clone()), denied, "{place}");
        let other = json!({ "old_string": "zzz", "new_string": "y", "replace_all": true });
        assert_eq!(inbox.told("edit_file", place, other), denied, "{place}");
    }
    assert_eq!(inbox.text("/in/theirs.txt"), "secret words\n");
}

#[test]
fn a_version_tag_is_compared_only_for_ones_own_file() {
    let inbox = Box::new();
    let tag = inbox.owner.vfs().stat("/in/theirs.txt").unwrap().tag.unwrap().to_string();
    let stale = inbox.owner.vfs().write("/docs/canary-target", "x").unwrap().tag.unwrap().to_string();
    for (tool, rest) in [
        ("write_file", json!({ "content": "mine" })),
        ("append_file", json!({ "content": "mine" })),
        ("delete_file", json!({})),
        ("edit_file", json!({ "old_string": "secret", "new_string": "x" })),
        ("move_file", json!({ "destination": "/in/moved" })),
    ] {
        let ask = |place: &str, tag: &str| {
            let mut arguments = rest.clone();
            arguments["if_match"] = json!(tag);
            inbox.told(tool, place, arguments)
        };
        let denied = ask("/in/none.txt", &stale);
        assert!(denied.contains("whole content you wrote yourself"), "{tool}: {denied}");
        for place in PLACES {
            assert_eq!(ask(place, &tag), denied, "{tool} {place}: the tag of a file that is there");
            assert_eq!(ask(place, &stale), denied, "{tool} {place}: another tag");
        }
    }
    assert_eq!(inbox.text("/in/theirs.txt"), "secret words\n");
    assert!(inbox.owner.vfs().stat("/in/none.txt").is_err());
}

#[test]
fn a_stale_version_tag_of_ones_own_file_is_a_conflict_and_the_right_one_is_none() {
    let inbox = Box::new();
    let vfs = inbox.stead.vfs();
    vfs.write("/in/mine.txt", "one\n").unwrap();
    let stale = inbox.owner.vfs().stat("/in/mine.txt").unwrap().tag.unwrap();
    vfs.write("/in/mine.txt", "two\n").unwrap();
    let tag = || inbox.owner.vfs().stat("/in/mine.txt").unwrap().tag.unwrap();
    let write =
        |tag| vfs.write_with("/in/mine.txt", "three\n", &stead::vfs::WriteOptions::new().if_match(tag));
    let append =
        |tag| vfs.append_with("/in/mine.txt", "four\n", &stead::vfs::WriteOptions::new().if_match(tag));
    let remove = |tag: stead::store::VersionTag| {
        let options = stead::vfs::RemoveOptions { if_match: Some(tag.into()), ..Default::default() };
        vfs.remove_file("/in/mine.txt", options)
    };
    assert_eq!(write(stale).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(append(stale).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(remove(stale).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(inbox.text("/in/mine.txt"), "two\n");
    write(tag()).unwrap();
    append(tag()).unwrap();
    assert_eq!(inbox.text("/in/mine.txt"), "three\nfour\n");
    remove(tag()).unwrap();
    assert!(inbox.owner.vfs().stat("/in/mine.txt").is_err());
}

#[test]
fn ones_own_file_can_be_edited_until_another_writes_it() {
    let inbox = Box::new();
    let vfs = inbox.stead.vfs();
    let edit = |old: &str, new: &str| vfs.edit("/in/mine.txt", old, new, stead::Occurrences::One);
    vfs.write("/in/mine.txt", "one two two\n").unwrap();
    assert_eq!(edit("one", "1").unwrap().replaced, 1);
    vfs.append("/in/mine.txt", "three\n").unwrap();
    assert_eq!(edit("three", "3").unwrap().replaced, 1, "what was added to it is one's own, too");
    assert_eq!(
        edit("two", "2").unwrap_err().kind(),
        ErrorKind::Invalid,
        "what one wrote oneself may be known"
    );
    assert_eq!(edit("none", "x").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(inbox.text("/in/mine.txt"), "1 two two\n3\n");
    inbox.owner.vfs().append("/in/mine.txt", "secret\n").unwrap();
    let denied = edit("1", "2").unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    vfs.write("/in/mine.txt", "again\n").unwrap();
    edit("again", "once more").unwrap();
}

#[test]
fn what_was_only_added_to_is_not_ones_own() {
    let inbox = Box::new();
    let vfs = inbox.stead.vfs();
    for act in [vfs.clone(), vfs.operation("write_file"), vfs.operation("anything")] {
        act.append("/in/theirs.txt", "mine\n").unwrap();
        let edited = act.edit("/in/theirs.txt", "secret", "x", stead::Occurrences::One);
        assert_eq!(edited.unwrap_err().kind(), ErrorKind::Denied);
    }
    // A file that was written in part isn't the agent's own either.
    let file = vfs.open("/in/theirs.txt", stead::vfs::OpenOptions::write().create()).unwrap();
    file.write_at(0, b"S").unwrap();
    file.close().unwrap();
    let edited = vfs.edit("/in/theirs.txt", "ecret", "x", stead::Occurrences::One);
    assert_eq!(edited.unwrap_err().kind(), ErrorKind::Denied);
    vfs.operation("append_file").write("/in/theirs.txt", "all mine\n").unwrap();
    vfs.edit("/in/theirs.txt", "all", "x", stead::Occurrences::One).unwrap();
}

#[test]
fn writing_what_a_file_holds_already_makes_it_ones_own_as_any_write_does() {
    // Otherwise a denied edit would reveal that the content was guessed.
    for guess in ["a wrong guess\n", "secret words\n"] {
        let inbox = Box::new();
        let vfs = inbox.stead.vfs();
        vfs.write("/in/theirs.txt", guess).unwrap();
        vfs.edit("/in/theirs.txt", guess, "mine\n", stead::Occurrences::One).unwrap();
    }
}

#[test]
fn what_was_begun_by_an_append_is_not_ones_own_whether_or_not_something_was_there() {
    let inbox = Box::new();
    let vfs = inbox.stead.vfs();
    for place in ["/in/none.txt", "/in/theirs.txt"] {
        vfs.append(place, "mine\n").unwrap();
        let edited = vfs.edit(place, "mine", "x", stead::Occurrences::One);
        assert_eq!(edited.unwrap_err().kind(), ErrorKind::Denied, "{place}");
        vfs.write(place, "all mine\n").unwrap();
        vfs.edit(place, "mine", "x", stead::Occurrences::One).unwrap();
    }
}

#[test]
fn a_file_that_is_opened_to_be_made_makes_as_many_versions_as_one_that_is_there() {
    use stead::vfs::OpenOptions;
    let versions = |place: &str, options: OpenOptions, bytes: &[u8]| {
        let inbox = Box::new();
        let before = inbox.stead.vfs().write("/free/a", "1").unwrap().revision.unwrap().number.0;
        let file = inbox.stead.vfs().open(place, options).unwrap();
        file.write_at(0, bytes).unwrap();
        file.close().unwrap();
        let undone = inbox.stead.vfs().undo(
            stead::vfs::UndoTarget::Last(9),
            stead::vfs::UndoOptions { dry_run: true, ..Default::default() },
        );
        let undone = undone.unwrap();
        let tools: Vec<_> = undone.undone.into_iter().map(|one| one.tool).collect();
        let incomplete: Vec<_> =
            undone.incomplete.into_iter().map(|one| (one.operation.tool, one.is_partial)).collect();
        (
            inbox.stead.vfs().write("/free/a", "2").unwrap().revision.unwrap().number.0 - before,
            tools,
            incomplete,
        )
    };
    let writing = || OpenOptions::write().create();
    for options in [writing(), writing().truncate()] {
        for bytes in [&b""[..], b"text"] {
            let new = versions("/in/none.txt", options, bytes);
            assert_eq!(versions("/in/theirs.txt", options, bytes), new, "{options:?} {bytes:?}");
        }
    }
}

#[test]
fn another_thread_is_another_writer() {
    let store = Arc::new(MemoryStore::new());
    let one = agent(&store).thread("one").build().unwrap();
    let two = agent(&store).thread("two").build().unwrap();
    one.vfs().write("/in/a", "text").unwrap();
    let edited = two.vfs().edit("/in/a", "text", "x", stead::Occurrences::One);
    assert_eq!(edited.unwrap_err().kind(), ErrorKind::Denied);
    one.vfs().edit("/in/a", "text", "x", stead::Occurrences::One).unwrap();
}

#[test]
fn only_ones_own_file_can_be_moved() {
    let inbox = Box::new();
    let to = json!({ "destination": "/in/moved" });
    let denied = inbox.told("move_file", "/in/none.txt", to.clone());
    for place in PLACES {
        assert_eq!(inbox.told("move_file", place, to.clone()), denied, "{place}");
    }
    let vfs = inbox.stead.vfs();
    vfs.write("/in/mine.txt", "mine").unwrap();
    vfs.rename("/in/mine.txt", "/in/moved", stead::vfs::Overwrite::Refuse).unwrap();
    assert_eq!(inbox.text("/in/moved"), "mine");
    vfs.edit("/in/moved", "mine", "still mine", stead::Occurrences::One).unwrap();
    vfs.write("/in/again", "x").unwrap();
    let taken = vfs.rename("/in/again", "/in/theirs.txt", stead::vfs::Overwrite::Refuse).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "without overwrite it tells that a name is taken");
}

#[test]
fn append_delete_and_mkdir_answer_alike_whether_or_not_something_is_there() {
    let alike = |tool: &str, arguments: serde_json::Value, places: &[&str]| {
        let mut told = Vec::new();
        for place in places {
            told.push(Box::new().told(tool, place, arguments.clone()));
        }
        for (place, one) in places.iter().zip(&told) {
            assert_eq!(*one, told[0], "{tool} {place}");
        }
        assert!(told[0].ends_with(" None"), "{}", told[0]);
    };
    let files = ["/in/none.txt", "/in/theirs.txt", "/in/deep/none.txt", "/in/link", "/in/theirs.tmp"];
    alike("append_file", json!({ "content": "x" }), &files);
    alike("write_file", json!({ "content": "x" }), &files);
    alike("delete_file", json!({}), &PLACES);
    alike("delete_file", json!({ "force": true }), &PLACES);
    alike("delete_directory", json!({}), &PLACES);
    alike("delete_directory", json!({ "recursive": true }), &PLACES);
    alike("create_directory", json!({}), &PLACES);
    // What is possible is done.
    let inbox = Box::new();
    inbox.told("delete_directory", "/in/full", json!({ "recursive": true }));
    inbox.told("delete_file", "/in/theirs.txt", json!({}));
    inbox.told("create_directory", "/in/made", json!({}));
    let there = |at: &str| inbox.owner.vfs().exists(at).unwrap();
    assert_eq!(["/in/full", "/in/theirs.txt", "/in/made"].map(there), [false, false, true]);
}

#[test]
fn what_cannot_be_written_says_no_more_than_that() {
    let inbox = Box::new();
    let refused = |at: &str| inbox.told("write_file", at, json!({ "content": "x" }));
    let told = refused("/in/full");
    assert!(told.contains("can't be changed; choose another name"), "{told}");
    for place in ["/in/empty", "/in/theirs.txt/below", "/in/out", "/in/readonly"] {
        assert_eq!(refused(place), told, "{place}");
    }
    // A copy into it reveals nothing either.
    inbox.stead.vfs().write("/free/a", "x").unwrap();
    for place in ["/in/full", "/in/theirs.txt/below", "/in/out", "/in/readonly"] {
        let copied = inbox.stead.vfs().copy("/free/a", place, stead::vfs::Overwrite::Replace);
        let copied = copied.map(|copied| copied.to.to_string()).map_err(|error| error.to_string());
        match copied {
            Err(told) => assert_eq!(told, format!("`{place}` can't be changed; choose another name")),
            // A symlink itself is replaced.
            Ok(to) => assert_eq!(to, place),
        }
    }
}

#[test]
fn a_directory_that_can_take_no_name_is_not_told_that_the_name_is_taken() {
    use stead::vfs::Overwrite::{Refuse, Replace};
    let inbox = Box::new();
    let vfs = inbox.stead.vfs();
    vfs.write("/free/d/a", "x").unwrap();
    let other = Arc::new(MemoryStore::new());
    let beside = owner(&other);
    beside.vfs().write("/d/a", "x").unwrap();
    let across = Stead::builder("coder")
        .add_workspace(
            inbox.stead.vfs().workspaces().find(|one| one.prefix() == &path("/in")).unwrap().clone(),
        )
        .workspace("/free", AccessScope::ReadWrite, &other)
        .build()
        .unwrap();
    for stead in [&inbox.stead, &across] {
        for place in ["/in/theirs.txt", "/in/full"] {
            let told = stead.vfs().copy("/free/d", place, Replace).unwrap_err();
            assert_eq!(told.to_string(), format!("`{place}` can't be changed; choose another name"));
            let told = stead.vfs().copy("/free/d", place, Refuse).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::AlreadyExists);
        }
    }
}

#[test]
fn a_quota_refusal_tells_no_size_that_may_not_be_known() {
    let limits = QuotaLimits { bytes: Some(1_000), files: None, file_bytes: None };
    let store = Arc::new(MemoryStore::new());
    let whole = owner(&store);
    whole.vfs().write("/home/in/theirs.txt", vec![b'x'; 617]).unwrap();
    whole.vfs().write("/in/theirs.txt", vec![b'x'; 617]).unwrap();
    let inbox = Workspace::new(path("/home/in"), AccessScope::WriteOnly, at(&store, "/home/in"));
    let home = Workspace::new(path("/home"), AccessScope::ReadWrite, at(&store, "/home"));
    // Its own quota, one of the Workspace around it, and one of the whole stead.
    let builders = [
        Stead::builder("coder").add_workspace(inbox.clone().with_quota(limits)),
        Stead::builder("coder").add_workspace(inbox.clone()).add_workspace(home.clone().with_quota(limits)),
        Stead::builder("coder").add_workspace(inbox).add_workspace(home).quota(limits),
    ];
    for (index, builder) in builders.into_iter().enumerate() {
        let stead = builder.build().unwrap();
        let mut paths = vec!["/home/in/theirs.txt", "/home/in/new"];
        if index > 0 {
            paths.push("/home/new");
        }
        for at in paths {
            let (written, appended) =
                (stead.vfs().write(at, vec![0; 1_001]), stead.vfs().append(at, vec![0; 999]));
            for refused in [written, appended].into_iter().filter_map(Result::err) {
                let told = refused.to_string();
                assert_eq!(refused.kind(), ErrorKind::Quota, "{told}");
                assert!(told.contains("1000 bytes are allowed"), "{told}");
                for number in ["617", "1618", "1616", "1001", "999", "in use"] {
                    assert!(!told.contains(number), "{number} in {told}");
                }
            }
        }
    }
    // If everything that counts may be read, the answer says how much is in use.
    let seen = Workspace::new(path("/in"), AccessScope::ReadWrite, at(&store, "/in")).with_quota(limits);
    let stead = Stead::builder("coder").add_workspace(seen).build().unwrap();
    let told = stead.vfs().write("/in/new", vec![0; 400]).unwrap_err().to_string();
    assert!(told.contains("617 are in use"), "{told}");
}

#[test]
fn a_directory_of_the_host_records_who_wrote_as_well() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("inbox")).unwrap();
    let text = r#"
        [stores.inbox]
        kind = "physical"
        path = "inbox"
        [[agents.coder.workspaces]]
        prefix = "/in"
        scope = "wo"
        store = "inbox"
        [[agents.other.workspaces]]
        prefix = "/in"
        scope = "rw"
        store = "inbox"
    "#;
    let config = stead::Config::parse(text, &directory.path().join("stead.toml")).unwrap();
    let (coder, other) = (Stead::open(&config, "coder").unwrap(), Stead::open(&config, "other").unwrap());
    let vfs = coder.vfs();
    let edit = |at: &str, old: &str, new: &str| vfs.edit(at, old, new, stead::Occurrences::One);
    let denied = |at: &str, old: &str| assert_eq!(edit(at, old, "x").unwrap_err().kind(), ErrorKind::Denied);

    vfs.write("/in/mine", "one\n").unwrap();
    edit("/in/mine", "one", "1").unwrap();
    vfs.append("/in/mine", "two\n").unwrap();
    edit("/in/mine", "two", "2").unwrap();
    vfs.rename("/in/mine", "/in/moved", stead::vfs::Overwrite::Refuse).unwrap();
    edit("/in/moved", "2", "two").unwrap();
    other.vfs().append("/in/moved", "secret\n").unwrap();
    denied("/in/moved", "two");
    // A program of the host leaves no record of who it is.
    std::fs::write(directory.path().join("inbox/theirs"), "secret\n").unwrap();
    denied("/in/theirs", "secret");
    vfs.append("/in/theirs", "mine\n").unwrap();
    denied("/in/theirs", "mine");
    vfs.write("/in/again", "mine\n").unwrap();
    std::fs::write(directory.path().join("inbox/again"), "secret\n").unwrap();
    denied("/in/again", "secret");
    vfs.append("/in/again", "more\n").unwrap();
    denied("/in/again", "more");
    vfs.write("/in/again", "all mine\n").unwrap();
    edit("/in/again", "all", "x").unwrap();
}
