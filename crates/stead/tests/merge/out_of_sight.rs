//! What the caller can't see of the target now: a merge or an update neither takes it in nor tells what is there, and moves nothing of
//! the fork out of sight.

use stead::vfs::MergeOptions;

use super::*;

/// `coder` sees everything and makes forks for the receivers. `part` has a WRITE_ONLY Workspace at `x`; `reader` too, and may only
/// read the rest. `stranger` has no Workspace over the Store.
const RECEIVERS: &str = r#"
    [stores.code]
    kind = "virtual"
    [stores.other]
    kind = "memory"
    [[agents.coder.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    [[agents.part.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    [[agents.part.workspaces]]
    prefix = "/code/x"
    scope = "wo"
    store = "code"
    path = "/x"
    [[agents.reader.workspaces]]
    prefix = "/code"
    scope = "ro"
    store = "code"
    [[agents.reader.workspaces]]
    prefix = "/code/x"
    scope = "wo"
    store = "code"
    path = "/x"
    [[agents.stranger.workspaces]]
    prefix = "/own"
    scope = "rw"
    store = "other"
"#;

/// `coder` can't see what `other` puts into `box`.
const BOX: &str = r#"
    [stores.code]
    kind = "virtual"
    [[agents.other.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    [[agents.coder.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    HIDE
"#;

const WRITE_ONLY_BOX: &str = r#"
    [[agents.coder.workspaces]]
    prefix = "/code/box"
    scope = "wo"
    store = "code"
    path = "/box"
"#;

/// The configurations in which `coder` can't see `box`.
fn boxes() -> [String; 2] {
    let write_only = format!("{}{WRITE_ONLY_BOX}", BOX.replace("HIDE", ""));
    [write_only, BOX.replace("HIDE", "hide = [\"box/**\"]")]
}

/// A project in which `coder` has made the fork `given` for an agent, and has changed everything since.
fn given_to(agent: &str, store: TargetStore) -> (Project, Stead, Stead) {
    let project = Project::with_config(store, RECEIVERS);
    let coder = project.open("coder");
    for path in ["a", "x/secret", "x/deleted", "x/moved"] {
        write(&coder, &format!("/code/{path}"), "1\n2\n3\n4\n5\n6\n7\n");
    }
    coder.fork_to("/code", "given", agent).unwrap();
    let receiver = project.open(agent);
    for path in ["a", "x/secret", "x/deleted", "x/moved"] {
        assert_eq!(read(&receiver, &format!("/forks/given/{path}")), "1\n2\n3\n4\n5\n6\n7\n");
    }
    (project, coder, receiver)
}

fn change_everything(coder: &Stead) {
    write(coder, "/code/a", "1\n2\n3\n4\n5\n6\nseven\n");
    write(coder, "/code/x/secret", "1\n2\n3\n4\n5\n6\nCANARY\n");
    write(coder, "/code/x/new", "CANARY\n");
    remove(coder, "/code/x/deleted");
    rename(coder, "/code/x/moved", "/code/x/canary");
}

/// That the fork shows what its maker saw, apart from `a`.
#[track_caller]
fn assert_shows_what_its_maker_saw(receiver: &Stead, names: &[&str]) {
    let shown: Vec<String> = files(receiver, "/forks/given").into_keys().collect();
    assert_eq!(shown, names);
    for (path, (_, content)) in files(receiver, "/forks/given") {
        assert!(!String::from_utf8_lossy(&content).contains("CANARY"), "{path}");
    }
}

const MADE_WITH: [&str; 5] = ["/a", "/x/", "/x/deleted", "/x/moved", "/x/secret"];

for_each_store! {
    fn g4_an_update_takes_in_nothing_of_a_write_only_workspace(store) {
        for agent in ["part", "reader"] {
            let (_project, coder, receiver) = given_to(agent, store);
            // The fork has taken these over, so that it has them also if the rest of it is live.
            for path in ["a", "x/secret", "x/deleted", "x/moved"] {
                write(&receiver, &format!("/forks/given/{path}"), "one\n2\n3\n4\n5\n6\n7\n");
            }
            change_everything(&coder);
            for _ in 0..2 {
                let result = update(&receiver, "given");
                assert!(result.done && result.conflicts.is_empty(), "{agent} {:?}", result.conflicts);
                assert!(!format!("{result:?}").to_lowercase().contains("canary"));
                // What the fork has not touched is live in a host directory.
                let live = ["/a", "/x/", "/x/deleted", "/x/moved", "/x/new", "/x/secret"];
                let expected = if store == TargetStore::Virtual { &MADE_WITH[..] } else { &live };
                let shown: Vec<String> = files(&receiver, "/forks/given").into_keys().collect();
                assert_eq!(shown, expected);
                assert_eq!(read(&receiver, "/forks/given/a"), "one\n2\n3\n4\n5\n6\nseven\n");
                for path in ["x/secret", "x/deleted", "x/moved"] {
                    assert_eq!(read(&receiver, &format!("/forks/given/{path}")), "one\n2\n3\n4\n5\n6\n7\n");
                }
            }
        }
    }
}

/// Over a Virtual Store only: in a fork of a host directory, what it has not touched is live anyway.
#[test]
fn g4_a_merge_takes_nothing_of_a_write_only_workspace_into_the_fork() {
    let (project, coder, receiver) = given_to("part", TargetStore::Virtual);
    change_everything(&coder);
    write(&receiver, "/forks/given/mine", "m\n");
    merge_clean(&receiver, "given");
    let names = ["/a", "/mine", "/x/", "/x/deleted", "/x/moved", "/x/secret"];
    assert_shows_what_its_maker_saw(&receiver, &names);
    assert_eq!(read(&receiver, "/forks/given/a"), "1\n2\n3\n4\n5\n6\nseven\n");
    // Nor if somebody else merges it who sees everything.
    write(&receiver, "/forks/given/more", "m\n");
    merge_clean(&coder, "part/given");
    let receiver = project.open("part");
    let names = ["/a", "/mine", "/more", "/x/", "/x/deleted", "/x/moved", "/x/secret"];
    assert_shows_what_its_maker_saw(&receiver, &names);
    assert!(merge_clean(&receiver, "given").changes.is_empty());
    assert!(merge_clean(&coder, "part/given").changes.is_empty());
    assert_shows_what_its_maker_saw(&receiver, &names);
    assert_eq!(read(&coder, "/code/more"), "m\n");
}

for_each_store! {
    fn g4_no_answer_to_a_merge_tells_what_is_in_a_write_only_workspace(store) {
        let guesses = [
            ("x/secret", "1\n2\n3\n4\n5\n6\nCANARY\n"),
            ("x/secret", "wrong\n"),
            ("x/new", "CANARY\n"),
            ("x/new", "wrong\n"),
            ("x/nothing", "wrong\n"),
            ("x/deleted", "wrong\n"),
            ("x/moved", "wrong\n"),
        ];
        let mut answers = Vec::new();
        for (path, guess) in guesses {
            let (_project, coder, receiver) = given_to("part", store);
            write(&receiver, &format!("/forks/given/{path}"), guess);
            change_everything(&coder);
            let result = merge(&receiver, "given");
            assert!(!result.done);
            answers.push((result.conflicts.len(), format!("{:?}", result.refused)));
        }
        for path in ["x/secret", "x/deleted", "x/moved"] {
            let (_project, coder, receiver) = given_to("part", store);
            remove(&receiver, &format!("/forks/given/{path}"));
            change_everything(&coder);
            let result = merge(&receiver, "given");
            answers.push((result.conflicts.len(), format!("{:?}", result.refused)));
        }
        assert!(answers.iter().all(|answer| *answer == answers[0] && answer.0 == 0), "{answers:#?}");
    }
}

for_each_store! {
    fn g4_an_update_needs_a_workspace_that_shows_the_base_for_reading(store) {
        let (_project, coder, receiver) = given_to("stranger", store);
        write(&receiver, "/forks/given/x/secret", "one\n2\n3\n4\n5\n6\n7\n");
        change_everything(&coder);
        let error = receiver.update_fork("given", &MergeOptions::default()).unwrap_err().to_string();
        assert!(error.contains("you need a Workspace there that you can read"), "{error}");
        assert_eq!(read(&receiver, "/forks/given/x/secret"), "one\n2\n3\n4\n5\n6\n7\n");
    }
}

/// A fork of `coder` that has changed what `other` moves into the box then.
fn moved_into_the_box(store: TargetStore, config: &str) -> (Project, Stead, Stead) {
    let project = Project::with_config(store, config);
    let other = project.open("other");
    for path in ["a", "untouched", "dir/e", "dir/deep/f", "box/x"] {
        write(&other, &format!("/code/{path}"), "1\n2\n3\n");
    }
    let coder = project.open("coder").fork("/code", "draft").unwrap();
    write(&coder, "/forks/draft/a", "mine\n");
    write(&coder, "/forks/draft/dir/new", "hours of work\n");
    for path in ["a", "untouched", "dir"] {
        rename(&other, &format!("/code/{path}"), &format!("/code/box/{path}"));
    }
    write(&other, "/code/box/dir/later", "CANARY\n");
    (project, other, coder)
}

for_each_store! {
    fn g25_an_update_moves_no_work_of_the_fork_out_of_sight(store) {
        for config in boxes() {
            let (_project, other, coder) = moved_into_the_box(store, &config);
            let target = files(&other, "/code");
            for _ in 0..2 {
                let result = update(&coder, "draft");
                let mut conflicts = kinds(&result);
                conflicts.retain(|(path, _)| path != "/forks/draft/dir");
                let expected = [("/forks/draft/a", "deleted/changed"), ("/forks/draft/dir/new", "deleted/changed")];
                assert_eq!(conflicts, expected.map(|(path, kind)| (path.to_owned(), kind)));
                let shown: Vec<String> = files(&coder, "/forks/draft").into_keys().collect();
                assert_eq!(shown, ["/a", "/dir/", "/dir/new"]);
                assert_eq!(read(&coder, "/forks/draft/a"), "mine\n");
            }
            // The merge says the same, and its choices work as for what is deleted.
            let conflicts = kinds(&merge(&coder, "draft"));
            let expected = [("/code/a", "deleted/changed"), ("/code/dir/new", "deleted/changed")];
            assert_eq!(conflicts, expected.map(|(path, kind)| (path.to_owned(), kind)));
            assert_eq!(files(&other, "/code"), target);
            let result = coder.merge_fork("draft", &options(vec![rule("", MergeChoice::TakeFork)])).unwrap();
            assert!(result.done, "{result:?}");
            assert_eq!(read(&coder, "/code/a"), "mine\n");
            assert_eq!(read(&coder, "/code/dir/new"), "hours of work\n");
            for (path, content) in target {
                assert_eq!(files(&other, "/code").get(&path), Some(&content), "{path}");
            }
            let shown: Vec<String> = files(&coder, "/forks/draft").into_keys().collect();
            assert_eq!(shown, ["/a", "/dir/", "/dir/new"]);
            assert!(merge_clean(&coder, "draft").changes.is_empty());
            assert!(update(&coder, "draft").conflicts.is_empty());
            // What comes back into sight comes into the fork.
            rename(&other, "/code/box/untouched", "/code/untouched");
            assert!(update(&coder, "draft").conflicts.is_empty());
            assert_eq!(read(&coder, "/forks/draft/untouched"), "1\n2\n3\n");
            assert!(merge_clean(&coder, "draft").changes.is_empty());
        }
    }
}

for_each_store! {
    fn g25_what_the_fork_has_not_changed_is_deleted_with_what_is_moved_out_of_sight(store) {
        for config in boxes() {
            let project = Project::with_config(store, &config);
            let other = project.open("other");
            for path in ["a", "dir/e", "dir/deep/f", "box/x", "stays"] {
                write(&other, &format!("/code/{path}"), "1\n2\n3\n");
            }
            let coder = project.open("coder").fork("/code", "draft").unwrap();
            write(&coder, "/forks/draft/stays", "mine\n");
            rename(&other, "/code/a", "/code/box/a");
            rename(&other, "/code/dir", "/code/box/dir");
            let target = files(&other, "/code");
            let result = update(&coder, "draft");
            assert!(result.conflicts.is_empty(), "{:?}", kinds(&result));
            let shown: Vec<String> = files(&coder, "/forks/draft").into_keys().collect();
            assert_eq!(shown, ["/stays"]);
            let differences = coder.diff_fork("draft", stead::vfs::DiffOptions::default()).unwrap();
            assert_eq!(differences.len(), 1, "{differences:?}");
            assert_eq!(merge_clean(&coder, "draft").changes.len(), 1);
            let mut expected = target;
            expected.get_mut("/stays").unwrap().1 = b"mine\n".to_vec();
            assert_eq!(files(&other, "/code"), expected);
        }
    }
}

for_each_store! {
    fn g11_what_was_moved_out_of_sight_looks_like_what_was_deleted(store) {
        for config in boxes() {
            let changes: [fn(&Stead); 3] = [
                |coder| rename(coder, "/forks/draft/a", "/forks/draft/b"),
                |coder| remove(coder, "/forks/draft/a"),
                |coder| write(coder, "/forks/draft/a", "mine\n"),
            ];
            for change in changes {
                let answers = [true, false].map(|is_moved| {
                    let project = Project::with_config(store, &config);
                    let other = project.open("other");
                    write(&other, "/code/a", "1\n2\n3\n");
                    write(&other, "/code/box/x", "x\n");
                    let coder = project.open("coder").fork("/code", "draft").unwrap();
                    change(&coder);
                    if is_moved {
                        rename(&other, "/code/a", "/code/box/a");
                    } else {
                        remove(&other, "/code/a");
                    }
                    let answer = merge(&coder, "draft");
                    format!("{:?} {:?} {:?}", answer.conflicts, answer.refused, answer.changes)
                });
                assert_eq!(answers[0], answers[1]);
            }
        }
    }
}
