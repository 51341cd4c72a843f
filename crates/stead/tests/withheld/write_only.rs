use std::sync::Arc;

use serde_json::json;
use stead::store::QuotaLimits;
use stead::tools::ToolChoice;
use stead::{AccessScope, ErrorKind, MemoryStore, Mount, Stead, Store, VfsPath, Workspace};

use crate::common::{answer, owner};

/// `/in` (WRITE_ONLY), `/free` (READ_WRITE), and an owner who sees what is in `/in`.
struct Inbox {
    owner: Stead,
    stead: Stead,
}

fn path(text: &str) -> VfsPath {
    VfsPath::parse(text).unwrap()
}

fn mount_at(store: &Arc<MemoryStore>, mount_path: &str) -> Mount {
    Mount::at(Arc::clone(store) as Arc<dyn Store>, &path(mount_path))
}

fn agent(store: &Arc<MemoryStore>) -> stead::SteadBuilder {
    let inbox = Workspace::new(path("/in"), AccessScope::WriteOnly, mount_at(store, "/in"));
    Stead::builder("coder")
        .add_workspace(inbox.with_scratch(["*.tmp"]).unwrap())
        .workspace("/free", AccessScope::ReadWrite, mount_at(store, "/free"))
        .tools(ToolChoice { history: true, ..ToolChoice::default() })
}

impl Inbox {
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
        Inbox { owner, stead }
    }

    /// An answer without what differs from call to call anyway.
    fn comparable_answer(&self, tool: &str, path: &str, mut arguments: serde_json::Value) -> String {
        let key = if tool == "move_file" { "source" } else { "path" };
        arguments[key] = json!(path);
        let mut text = answer(&self.stead, tool, arguments).replace(path, "PATH");
        while let Some(start) = text.find("\"operation\":\"") {
            text.replace_range(start..start + 51, "");
        }
        text
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.owner.vfs().read(path).unwrap().bytes).unwrap()
    }
}

const PATHS: [&str; 9] = [
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
fn an_edit_of_any_file_but_the_agents_own_is_denied_in_the_same_way() {
    let inbox = Inbox::new();
    let edit = json!({ "old_string": "secret", "new_string": "guess" });
    let denied = inbox.comparable_answer("edit_file", "/in/none.txt", edit.clone());
    assert!(denied.contains("whole content you wrote yourself"), "{denied}");
    for path in PATHS {
        assert_eq!(inbox.comparable_answer("edit_file", path, edit.clone()), denied, "{path}");
        let other_edit = json!({ "old_string": "zzz", "new_string": "y", "replace_all": true });
        assert_eq!(inbox.comparable_answer("edit_file", path, other_edit), denied, "{path}");
    }
    assert_eq!(inbox.text("/in/theirs.txt"), "secret words\n");
}

#[test]
fn an_edit_of_the_agents_own_file_shows_no_line_of_it() {
    let inbox = Inbox::new();
    inbox.stead.vfs().write("/in/mine.txt", "first\n  second\nthird\nthird\n").unwrap();
    let answer_to = |old: &str| {
        let more_edits = json!([{ "old_string": old, "new_string": "new" }]);
        let arguments = json!({ "old_string": "first", "new_string": "1", "more_edits": more_edits });
        inbox.comparable_answer("edit_file", "/in/mine.txt", arguments)
    };
    for old in ["secnd", "\tsecond", "third"] {
        let refused = answer_to(old);
        assert!(refused.contains("edit 2 of 2 failed"), "{refused}");
        assert!(
            !["line", "nearest", "did you mean", "  second"].iter().any(|hint| refused.contains(hint)),
            "{refused}"
        );
    }
    assert_eq!(inbox.text("/in/mine.txt"), "first\n  second\nthird\nthird\n");
    let edited = answer_to("second");
    assert!(edited.contains("Made 2 replacements in PATH.") && !edited.contains("third"), "{edited}");
}

#[test]
fn a_version_tag_is_compared_only_for_the_agents_own_file() {
    let inbox = Inbox::new();
    let tag = inbox.owner.vfs().stat("/in/theirs.txt").unwrap().tag.unwrap().to_string();
    let stale = inbox.owner.vfs().write("/docs/canary-target", "x").unwrap().tag.unwrap().to_string();
    for (tool, other_arguments) in [
        ("write_file", json!({ "content": "mine" })),
        ("append_file", json!({ "content": "mine" })),
        ("delete_file", json!({})),
        ("edit_file", json!({ "old_string": "secret", "new_string": "x" })),
        ("move_file", json!({ "destination": "/in/moved" })),
    ] {
        let call_with_tag = |path: &str, tag: &str| {
            let mut arguments = other_arguments.clone();
            arguments["if_match"] = json!(tag);
            inbox.comparable_answer(tool, path, arguments)
        };
        let denied = call_with_tag("/in/none.txt", &stale);
        assert!(denied.contains("whole content you wrote yourself"), "{tool}: {denied}");
        for path in PATHS {
            assert_eq!(call_with_tag(path, &tag), denied, "{tool} {path}: the tag of a file that is there");
            assert_eq!(call_with_tag(path, &stale), denied, "{tool} {path}: another tag");
        }
    }
    assert_eq!(inbox.text("/in/theirs.txt"), "secret words\n");
    assert!(inbox.owner.vfs().stat("/in/none.txt").is_err());
}

#[test]
fn a_stale_version_tag_of_the_agents_own_file_is_a_conflict_and_the_right_one_is_not() {
    let inbox = Inbox::new();
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
fn the_agents_own_file_can_be_edited_until_another_agent_writes_it() {
    let inbox = Inbox::new();
    let vfs = inbox.stead.vfs();
    let edit = |old: &str, new: &str| vfs.edit("/in/mine.txt", old, new, stead::Occurrences::One);
    vfs.write("/in/mine.txt", "one two two\n").unwrap();
    assert_eq!(edit("one", "1").unwrap().replaced, 1);
    vfs.append("/in/mine.txt", "three\n").unwrap();
    assert_eq!(edit("three", "3").unwrap().replaced, 1, "text that the agent appended is its own, too");
    assert_eq!(
        edit("two", "2").unwrap_err().kind(),
        ErrorKind::Invalid,
        "the agent may learn about content that it wrote itself"
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
fn a_file_that_the_agent_only_appended_to_is_not_its_own() {
    let inbox = Inbox::new();
    let vfs = inbox.stead.vfs();
    for operation in [vfs.clone(), vfs.operation("write_file"), vfs.operation("anything")] {
        operation.append("/in/theirs.txt", "mine\n").unwrap();
        let edited = operation.edit("/in/theirs.txt", "secret", "x", stead::Occurrences::One);
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
fn writing_the_content_that_a_file_already_has_makes_it_the_agents_own() {
    // Otherwise a denied edit would reveal that the content was guessed.
    for guess in ["a wrong guess\n", "secret words\n"] {
        let inbox = Inbox::new();
        let vfs = inbox.stead.vfs();
        vfs.write("/in/theirs.txt", guess).unwrap();
        vfs.edit("/in/theirs.txt", guess, "mine\n", stead::Occurrences::One).unwrap();
    }
}

#[test]
fn a_file_created_by_an_append_is_not_the_agents_own() {
    let inbox = Inbox::new();
    let vfs = inbox.stead.vfs();
    for path in ["/in/none.txt", "/in/theirs.txt"] {
        vfs.append(path, "mine\n").unwrap();
        let edited = vfs.edit(path, "mine", "x", stead::Occurrences::One);
        assert_eq!(edited.unwrap_err().kind(), ErrorKind::Denied, "{path}");
        vfs.write(path, "all mine\n").unwrap();
        vfs.edit(path, "mine", "x", stead::Occurrences::One).unwrap();
    }
}

#[test]
fn opening_a_new_file_makes_as_many_versions_as_opening_an_existing_one() {
    use stead::vfs::OpenOptions;
    let versions_and_undo = |path: &str, options: OpenOptions, bytes: &[u8]| {
        let inbox = Inbox::new();
        let before = inbox.stead.vfs().write("/free/a", "1").unwrap().revision.unwrap().number.0;
        let file = inbox.stead.vfs().open(path, options).unwrap();
        file.write_at(0, bytes).unwrap();
        file.close().unwrap();
        let undone = inbox.stead.vfs().undo(
            stead::vfs::UndoTarget::Last(9),
            stead::vfs::UndoOptions { dry_run: true, ..Default::default() },
        );
        let undone = undone.unwrap();
        let tools: Vec<_> = undone.undone.into_iter().map(|operation| operation.tool).collect();
        let incomplete: Vec<_> = undone
            .incomplete
            .into_iter()
            .map(|undone_part| (undone_part.operation.tool, undone_part.is_partial))
            .collect();
        (
            inbox.stead.vfs().write("/free/a", "2").unwrap().revision.unwrap().number.0 - before,
            tools,
            incomplete,
        )
    };
    let create_options = || OpenOptions::write().create();
    for options in [create_options(), create_options().truncate()] {
        for bytes in [&b""[..], b"text"] {
            let new = versions_and_undo("/in/none.txt", options, bytes);
            assert_eq!(versions_and_undo("/in/theirs.txt", options, bytes), new, "{options:?} {bytes:?}");
        }
    }
}

#[test]
fn another_thread_is_another_writer() {
    let store = Arc::new(MemoryStore::new());
    let first_thread = agent(&store).thread("one").build().unwrap();
    let second_thread = agent(&store).thread("two").build().unwrap();
    first_thread.vfs().write("/in/a", "text").unwrap();
    let edited = second_thread.vfs().edit("/in/a", "text", "x", stead::Occurrences::One);
    assert_eq!(edited.unwrap_err().kind(), ErrorKind::Denied);
    first_thread.vfs().edit("/in/a", "text", "x", stead::Occurrences::One).unwrap();
}

#[test]
fn only_the_agents_own_file_can_be_moved() {
    let inbox = Inbox::new();
    let arguments = json!({ "destination": "/in/moved" });
    let denied = inbox.comparable_answer("move_file", "/in/none.txt", arguments.clone());
    for path in PATHS {
        assert_eq!(inbox.comparable_answer("move_file", path, arguments.clone()), denied, "{path}");
    }
    let vfs = inbox.stead.vfs();
    vfs.write("/in/mine.txt", "mine").unwrap();
    vfs.rename("/in/mine.txt", "/in/moved", stead::vfs::Overwrite::Refuse).unwrap();
    assert_eq!(inbox.text("/in/moved"), "mine");
    vfs.edit("/in/moved", "mine", "still mine", stead::Occurrences::One).unwrap();
    vfs.write("/in/again", "x").unwrap();
    let error = vfs.rename("/in/again", "/in/theirs.txt", stead::vfs::Overwrite::Refuse).unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::AlreadyExists,
        "without overwrite the error reveals that the name is taken"
    );
}

#[test]
fn append_delete_and_mkdir_give_the_same_answer_whether_or_not_the_path_exists() {
    let assert_same_answers = |tool: &str, arguments: serde_json::Value, paths: &[&str]| {
        let mut answers = Vec::new();
        for path in paths {
            answers.push(Inbox::new().comparable_answer(tool, path, arguments.clone()));
        }
        for (path, answer) in paths.iter().zip(&answers) {
            assert_eq!(*answer, answers[0], "{tool} {path}");
        }
        assert!(answers[0].ends_with(" None"), "{}", answers[0]);
    };
    let files = ["/in/none.txt", "/in/theirs.txt", "/in/deep/none.txt", "/in/link", "/in/theirs.tmp"];
    assert_same_answers("append_file", json!({ "content": "x" }), &files);
    assert_same_answers("write_file", json!({ "content": "x" }), &files);
    assert_same_answers("delete_file", json!({}), &PATHS);
    assert_same_answers("delete_file", json!({ "force": true }), &PATHS);
    assert_same_answers("delete_directory", json!({}), &PATHS);
    assert_same_answers("delete_directory", json!({ "recursive": true }), &PATHS);
    assert_same_answers("create_directory", json!({}), &PATHS);
    // What is possible is done.
    let inbox = Inbox::new();
    inbox.comparable_answer("delete_directory", "/in/full", json!({ "recursive": true }));
    inbox.comparable_answer("delete_file", "/in/theirs.txt", json!({}));
    inbox.comparable_answer("create_directory", "/in/made", json!({}));
    let exists = |path: &str| inbox.owner.vfs().exists(path).unwrap();
    assert_eq!(["/in/full", "/in/theirs.txt", "/in/made"].map(exists), [false, false, true]);
}

#[test]
fn a_path_that_can_not_be_written_gives_the_same_answer_whatever_the_reason() {
    let inbox = Inbox::new();
    let write_answer = |path: &str| inbox.comparable_answer("write_file", path, json!({ "content": "x" }));
    let expected = write_answer("/in/full");
    assert!(expected.contains("can't be changed; choose another name"), "{expected}");
    for path in ["/in/empty", "/in/theirs.txt/below", "/in/out", "/in/readonly"] {
        assert_eq!(write_answer(path), expected, "{path}");
    }
    // A copy into it reveals nothing either.
    inbox.stead.vfs().write("/free/a", "x").unwrap();
    for path in ["/in/full", "/in/theirs.txt/below", "/in/out", "/in/readonly"] {
        let copied = inbox.stead.vfs().copy("/free/a", path, stead::vfs::Overwrite::Replace);
        let copied = copied.map(|copied| copied.to.to_string()).map_err(|error| error.to_string());
        match copied {
            Err(error_text) => {
                assert_eq!(error_text, format!("`{path}` can't be changed; choose another name"))
            }
            // A symlink itself is replaced.
            Ok(to) => assert_eq!(to, path),
        }
    }
}

#[test]
fn copying_a_directory_over_a_name_does_not_reveal_what_has_the_name() {
    use stead::vfs::Overwrite::{Refuse, Replace};
    let inbox = Inbox::new();
    let vfs = inbox.stead.vfs();
    vfs.write("/free/d/a", "x").unwrap();
    let other_store = Arc::new(MemoryStore::new());
    let other_owner = owner(&other_store);
    other_owner.vfs().write("/d/a", "x").unwrap();
    let across_stores = Stead::builder("coder")
        .add_workspace(
            inbox
                .stead
                .vfs()
                .workspaces()
                .find(|workspace| workspace.prefix() == &path("/in"))
                .unwrap()
                .clone(),
        )
        .workspace("/free", AccessScope::ReadWrite, &other_store)
        .build()
        .unwrap();
    for stead in [&inbox.stead, &across_stores] {
        for target in ["/in/theirs.txt", "/in/full"] {
            let error = stead.vfs().copy("/free/d", target, Replace).unwrap_err();
            assert_eq!(error.to_string(), format!("`{target}` can't be changed; choose another name"));
            let error = stead.vfs().copy("/free/d", target, Refuse).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        }
    }
}

#[test]
fn a_quota_error_reveals_no_size_that_the_agent_may_not_know() {
    let limits = QuotaLimits { bytes: Some(1_000), files: None, file_bytes: None };
    let store = Arc::new(MemoryStore::new());
    let owner_stead = owner(&store);
    owner_stead.vfs().write("/home/in/theirs.txt", vec![b'x'; 617]).unwrap();
    owner_stead.vfs().write("/in/theirs.txt", vec![b'x'; 617]).unwrap();
    let inbox = Workspace::new(path("/home/in"), AccessScope::WriteOnly, mount_at(&store, "/home/in"));
    let home = Workspace::new(path("/home"), AccessScope::ReadWrite, mount_at(&store, "/home"));
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
        for target in paths {
            let (written, appended) =
                (stead.vfs().write(target, vec![0; 1_001]), stead.vfs().append(target, vec![0; 999]));
            for refused in [written, appended].into_iter().filter_map(Result::err) {
                let text = refused.to_string();
                assert_eq!(refused.kind(), ErrorKind::Quota, "{text}");
                assert!(text.contains("1000 bytes are allowed"), "{text}");
                for number in ["617", "1618", "1616", "1001", "999", "in use"] {
                    assert!(!text.contains(number), "{number} in {text}");
                }
            }
        }
    }
    // If everything that counts may be read, the answer says how much is in use.
    let readable =
        Workspace::new(path("/in"), AccessScope::ReadWrite, mount_at(&store, "/in")).with_quota(limits);
    let stead = Stead::builder("coder").add_workspace(readable).build().unwrap();
    let text = stead.vfs().write("/in/new", vec![0; 400]).unwrap_err().to_string();
    assert!(text.contains("617 are in use"), "{text}");
}

#[test]
fn a_directory_of_the_host_records_who_wrote_too() {
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
    let edit = |target: &str, old: &str, new: &str| vfs.edit(target, old, new, stead::Occurrences::One);
    let assert_denied =
        |target: &str, old: &str| assert_eq!(edit(target, old, "x").unwrap_err().kind(), ErrorKind::Denied);

    vfs.write("/in/mine", "one\n").unwrap();
    edit("/in/mine", "one", "1").unwrap();
    vfs.append("/in/mine", "two\n").unwrap();
    edit("/in/mine", "two", "2").unwrap();
    vfs.rename("/in/mine", "/in/moved", stead::vfs::Overwrite::Refuse).unwrap();
    edit("/in/moved", "2", "two").unwrap();
    other.vfs().append("/in/moved", "secret\n").unwrap();
    assert_denied("/in/moved", "two");
    // A program of the host leaves no record of who it is.
    std::fs::write(directory.path().join("inbox/theirs"), "secret\n").unwrap();
    assert_denied("/in/theirs", "secret");
    vfs.append("/in/theirs", "mine\n").unwrap();
    assert_denied("/in/theirs", "mine");
    vfs.write("/in/again", "mine\n").unwrap();
    std::fs::write(directory.path().join("inbox/again"), "secret\n").unwrap();
    assert_denied("/in/again", "secret");
    vfs.append("/in/again", "more\n").unwrap();
    assert_denied("/in/again", "more");
    vfs.write("/in/again", "all mine\n").unwrap();
    edit("/in/again", "all", "x").unwrap();
}
