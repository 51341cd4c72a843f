//! Forks of other agents over a Workspace that the agent may write.

use super::*;

for_each_store! {
    fn g4_an_agent_with_read_write_on_the_base_lists_diffs_merges_and_discards_all_forks_of_it(store) {
        let project = Project::new(store);
        let coder = forked(&project);
        write(&coder, "/forks/draft/new", "n\n");
        let reader = project.open("reader").fork("/code", "draft").unwrap();
        write(&reader, "/forks/draft/README.md", "by the reader\n");
        let reviewer = project.open("reviewer");
        let names: Vec<_> = reviewer
            .forks_of_others()
            .unwrap()
            .into_iter()
            .map(|fork| format!("{}/{}", fork.owner, fork.name))
            .collect();
        assert_eq!(names, ["coder/draft", "reader/draft"]);
        let differences = reviewer.diff_fork("reader/draft", stead::vfs::DiffOptions::default()).unwrap();
        assert_eq!(differences[0].path.to_string(), "/project/README.md");
        merge_clean(&reviewer, "coder/draft");
        merge_clean(&reviewer, "reader/draft");
        assert_eq!(read(&reviewer, "/project/new"), "n\n");
        assert_eq!(read(&reviewer, "/project/README.md"), "by the reader\n");
        // The owners' forks have gone on from the new base.
        let coder = project.open("coder");
        assert_eq!(read(&coder, "/forks/draft/new"), "n\n");
        assert!(merge_clean(&coder, "draft").changes.is_empty());
        reviewer.discard("coder/draft").unwrap();
        assert_eq!(project.open("coder").forks().unwrap().count(), 0);
    }
}

for_each_store! {
    fn g4_an_agent_without_read_write_on_the_base_can_do_none_of_that(store) {
        let project = Project::new(store);
        let coder = forked(&project);
        write(&coder, "/forks/draft/new", "n\n");
        let reader = project.open("reader");
        assert!(reader.forks_of_others().unwrap().is_empty());
        assert!(reader.merge_fork("coder/draft", &MergeOptions::default()).is_err());
        assert!(reader.diff_fork("coder/draft", stead::vfs::DiffOptions::default()).is_err());
        assert!(reader.discard("coder/draft").is_err());
        // Its own fork of the Workspace can't be merged, either.
        let reader = reader.fork("/code", "mine").unwrap();
        write(&reader, "/forks/mine/x", "x\n");
        let error = reader.merge_fork("mine", &MergeOptions::default()).unwrap_err();
        assert!(error.to_string().contains("READ_WRITE"), "{error}");
        assert!(!exists(&coder, "/code/x"));
    }
}

/// `coder` works in a directory of what `operator` sees. `stranger` has a Workspace elsewhere.
const GIVEN: &str = r#"
    [stores.code]
    kind = "virtual"
    [stores.other]
    kind = "memory"
    [[agents.operator.workspaces]]
    prefix = "/all"
    scope = "rw"
    store = "code"
    [[agents.coder.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    path = "/sub"
    [[agents.stranger.workspaces]]
    prefix = "/own"
    scope = "rw"
    store = "other"
"#;

// Otherwise the next merge takes back what others have changed of it since.
for_each_store! {
    fn g28_a_fork_that_was_given_away_goes_on_from_what_others_have_merged_of_it(store) {
        for merger in ["coder", "operator"] {
            let project = Project::with_config(store, GIVEN);
            let coder = project.open("coder");
            write(&coder, "/code/t", "1\n2\n3\n4\n5\n6\n7\n");
            write(&coder, "/code/untouched", "u\n");
            coder.fork_to("/code", "given", "stranger").unwrap();
            let stranger = project.open("stranger");
            write(&stranger, "/forks/given/t", "one\n2\n3\n4\n5\n6\n7\n");
            write(&stranger, "/forks/given/new", "n\n");
            write(&coder, "/code/t", "1\n2\n3\n4\n5\n6\nseven\n");
            write(&coder, "/code/untouched", "CANARY\n");
            write(&coder, "/code/later", "CANARY\n");
            let merger = project.open(merger);
            merge_clean(&merger, "stranger/given");
            assert_eq!(changed(&merger, "stranger/given"), [""; 0]);
            // What is changed of it in the Workspace stays so.
            assert_eq!(read(&coder, "/code/t"), "one\n2\n3\n4\n5\n6\nseven\n");
            write(&coder, "/code/t", "1\n2\n3\n4\n5\n6\nseven\n");
            remove(&coder, "/code/new");
            assert!(merge_clean(&merger, "stranger/given").changes.is_empty());
            let stranger = project.open("stranger");
            write(&stranger, "/forks/given/t", "one\n2\n3\nfour\n5\n6\nseven\n");
            merge_clean(&merger, "stranger/given");
            assert_eq!(read(&coder, "/code/t"), "1\n2\n3\nfour\n5\n6\nseven\n");
            assert!(!exists(&coder, "/code/new"));
            assert_eq!(read(&coder, "/code/untouched"), "CANARY\n");
            // The rest of the Workspace isn't taken in: nobody here knows what the owner may read. In a host directory it is live.
            if store == TargetStore::Virtual {
                let stranger = project.open("stranger");
                assert_eq!(read(&stranger, "/forks/given/untouched"), "u\n");
                assert!(!exists(&stranger, "/forks/given/later"));
            }
        }
    }
}

for_each_store! {
    fn g23_after_the_undo_of_a_merge_the_fork_of_another_agent_has_changed_what_it_had_changed(store) {
        let project = Project::new(store);
        let coder = forked(&project);
        write(&coder, "/forks/draft/src/main.rs", "one\n2\n3\n4\n5\n6\n7\n");
        let reviewer = project.open("reviewer");
        write(&reviewer, "/project/src/main.rs", "1\n2\n3\n4\n5\n6\nseven\n");
        remove(&reviewer, "/project/README.md");
        for _ in 0..2 {
            let merged = merge_clean(&reviewer, "coder/draft");
            assert_eq!(changed(&reviewer, "coder/draft"), [""; 0]);
            undo(&reviewer, &merged);
            assert_eq!(changed(&reviewer, "coder/draft"), ["/project/src/main.rs"]);
        }
        // What the Workspace takes back of its own changes isn't brought again by the fork.
        undo_last(&reviewer, 2);
        assert_eq!(read(&reviewer, "/project/src/main.rs"), "1\n2\n3\n4\n5\n6\n7\n");
        let merged = merge_clean(&reviewer, "coder/draft");
        assert_eq!(merged.changes.len(), 1, "{:#?}", merged.changes);
        assert_eq!(read(&reviewer, "/project/src/main.rs"), "one\n2\n3\n4\n5\n6\n7\n");
        assert_eq!(read(&reviewer, "/project/README.md"), "read me\n");
        let coder = project.open("coder");
        assert_eq!(files(&coder, "/forks/draft"), files(&coder, "/code"));
    }
}

for_each_store! {
    fn g26_a_fork_of_a_directory_that_was_moved_is_merged_by_no_one(store) {
        let project = Project::with_config(store, GIVEN);
        let coder = project.open("coder");
        write(&coder, "/code/t", "1\n2\n3\n");
        let coder = coder.fork("/code", "draft").unwrap();
        write(&coder, "/forks/draft/t", "one\n2\n3\n");
        write(&coder, "/forks/draft/new", "n\n");
        let operator = project.open("operator");
        rename(&operator, "/all/sub", "/all/moved");
        let before = (files(&coder, "/forks/draft"), files(&operator, "/all"));
        let refused = operator.merge_fork("coder/draft", &MergeOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("was moved since the fork `draft` was made"), "{refused}");
        assert!(refused.contains("`/all`") && !refused.contains("/code"), "{refused}");
        assert_eq!((files(&coder, "/forks/draft"), files(&operator, "/all")), before);
        rename(&operator, "/all/moved", "/all/sub");
        merge_clean(&operator, "coder/draft");
        assert_eq!(read(&operator, "/all/sub/t"), "one\n2\n3\n");
    }
}

#[test]
fn g23_merges_of_another_agents_fork_that_are_undone_one_after_the_other_leave_it_its_own_changes_alone() {
    let project = Project::new(TargetStore::Virtual);
    let coder = forked(&project);
    let reviewer = project.open("reviewer");
    write(&coder, "/forks/draft/src/main.rs", "1\ntwo\n3\n4\n5\n6\n7\n");
    let first = merge_clean(&reviewer, "coder/draft");
    write(&reviewer, "/project/src/main.rs", "1\ntwo\n3\n4\nfive\n6\n7\n");
    write(&coder, "/forks/draft/src/main.rs", "1\ntwo\n3\n4\n5\n6\nseven\n");
    let second = merge_clean(&reviewer, "coder/draft");
    assert_eq!(read(&coder, "/forks/draft/src/main.rs"), "1\ntwo\n3\n4\nfive\n6\nseven\n");
    undo(&reviewer, &second);
    undo(&reviewer, &first);
    assert_eq!(read(&reviewer, "/project/src/main.rs"), "1\n2\n3\n4\nfive\n6\n7\n");
    // What the fork has taken in of the Workspace's own changes isn't brought again by it.
    write(&reviewer, "/project/src/main.rs", "1\n2\n3\n4\n5\n6\n7\n");
    merge_clean(&reviewer, "coder/draft");
    assert_eq!(read(&reviewer, "/project/src/main.rs"), "1\ntwo\n3\n4\n5\n6\nseven\n");
}

/// Over a Virtual Store only: in a fork of a host directory, what it has not touched is live anyway.
#[test]
fn g28_a_fork_that_was_given_away_gets_nothing_of_the_files_of_a_directory_that_it_has_renamed() {
    let project = Project::with_config(TargetStore::Virtual, GIVEN);
    let coder = project.open("coder");
    write(&coder, "/code/d/f", "1\n");
    coder.fork_to("/code", "given", "stranger").unwrap();
    let stranger = project.open("stranger");
    rename(&stranger, "/forks/given/d", "/forks/given/e");
    write(&coder, "/code/d/f", "CANARY\n");
    write(&coder, "/code/d/secret", "CANARY\n");
    merge_clean(&coder, "stranger/given");
    assert_eq!(read(&coder, "/code/e/f"), "CANARY\n");
    let stranger = project.open("stranger");
    assert_eq!(read(&stranger, "/forks/given/e/f"), "1\n");
    assert!(!exists(&stranger, "/forks/given/e/secret"));
    write(&stranger, "/forks/given/e/mine", "m\n");
    merge_clean(&coder, "stranger/given");
    assert_eq!(read(&coder, "/code/e/f"), "CANARY\n");
}

/// A Workspace with another one nested in it, each on a Store of its own, for two agents.
const NESTED: &str = r#"
    [stores.code]
    kind = "virtual"
    [stores.lib]
    kind = "virtual"
    namespace = ["lib"]
    [[agents.coder.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    [[agents.coder.workspaces]]
    prefix = "/code/lib"
    scope = "rw"
    store = "lib"
    [[agents.reviewer.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    [[agents.reviewer.workspaces]]
    prefix = "/code/lib"
    scope = "rw"
    store = "lib"
"#;

// One undo makes a revision in each Store.
#[test]
fn g23_after_the_undo_of_a_merge_over_several_stores_each_part_has_changed_what_it_had_changed() {
    let project = Project::with_config(TargetStore::Virtual, NESTED);
    let coder = project.open("coder");
    let paths = ["t", "lib/u"];
    paths.iter().for_each(|path| write(&coder, &format!("/code/{path}"), "1\n2\n3\n4\n5\n6\n7\n"));
    let coder = coder.fork("/code", "draft").unwrap();
    let reviewer = project.open("reviewer");
    for path in paths {
        write(&coder, &format!("/forks/draft/{path}"), "one\n2\n3\n4\n5\n6\n7\n");
        write(&reviewer, &format!("/code/{path}"), "1\n2\n3\n4\n5\n6\nseven\n");
    }
    for _ in 0..2 {
        assert_eq!(merge_clean(&reviewer, "coder/draft").changes.len(), 2);
        undo_last(&reviewer, 1);
        assert_eq!(changed(&reviewer, "coder/draft"), ["/code/lib/u", "/code/t"]);
    }
    // The owner's update takes nothing of its work away.
    let coder = project.open("coder");
    assert!(update(&coder, "draft").done);
    merge_clean(&coder, "draft");
    for path in paths {
        assert_eq!(read(&coder, &format!("/code/{path}")), "one\n2\n3\n4\n5\n6\nseven\n");
    }
}
