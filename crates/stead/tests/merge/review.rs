//! Workspaces whose changes are reviewed: the agent works in a fork and need not know.

use std::collections::BTreeSet;
use std::sync::Arc;

use stead::vfs::{LogQuery, RestOfPart};
use stead::{ErrorKind, Identity, Stores};

use super::*;

const REVIEWED: &str = r#"
    [stores.code]
    kind = "virtual"
    [stores.scratch]
    kind = "virtual"
    [[agents.coder.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    fork = "agent"
    [agents.worker]
    scope = "thread"
    [[agents.worker.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    fork = "thread"
    [[agents.worker.workspaces]]
    prefix = "/notes"
    scope = "rw"
    store = "scratch"
    [[agents.reviewer.workspaces]]
    prefix = "/project"
    scope = "rw"
    store = "code"
"#;

fn project(store: TargetStore) -> Project {
    // Only the first Store is replaced by a host directory.
    let text = match store {
        TargetStore::Virtual => REVIEWED.to_owned(),
        TargetStore::Physical => {
            let (code, rest) = REVIEWED.split_once("[stores.scratch]").unwrap();
            let directory = format!("kind = \"physical\"\n    path = \"{HOST_DIRECTORY}\"");
            format!("{}[stores.scratch]{rest}", code.replace("kind = \"virtual\"", &directory))
        }
    };
    let project = Project::with_config(TargetStore::Virtual, &text);
    if store == TargetStore::Physical {
        std::fs::create_dir_all(project.host("")).unwrap();
    }
    project
}

fn worker(project: &Project, thread: &str) -> Stead {
    Stead::open_in(&Stores::of(&project.config), &Identity::agent("worker").with_thread(thread)).unwrap()
}

fn review_stead(project: &Project, agent: &str) -> Stead {
    Stead::open_for_review(&Stores::of(&project.config), &Identity::agent(agent)).unwrap()
}

fn names(stead: &Stead) -> Vec<String> {
    let forks = stead.review_forks().unwrap();
    forks.iter().map(|fork| format!("{}/{}", fork.owner, fork.name)).collect()
}

for_each_store! {
    fn g30_an_agent_changes_its_fork_at_the_paths_of_the_workspace(store) {
        let project = project(store);
        let reviewer = project.open("reviewer");
        write(&reviewer, "/project/plan.md", "1\n");
        let coder = project.open("coder");
        assert_eq!(read(&coder, "/code/plan.md"), "1\n");
        write(&coder, "/code/plan.md", "2\n");
        write(&coder, "/code/new.md", "new\n");
        let map = coder.map();
        assert!(map.contains("/code") && !map.contains("/forks") && !map.contains("review"), "{map}");
        assert_eq!(coder.forks().unwrap().count(), 0);
        assert!(coder.review_forks().unwrap().is_empty(), "the agent can't take its own changes over");
        // Another process of the same agent has the same files; others have the Workspace itself.
        assert_eq!(read(&project.open("coder"), "/code/plan.md"), "2\n");
        assert_eq!(read(&reviewer, "/project/plan.md"), "1\n");
        assert!(!exists(&reviewer, "/project/new.md"));
        // History and undo are those of the Workspace's own paths.
        let log = coder.vfs().log(&LogQuery::default()).unwrap();
        assert_eq!(log[0].changes[0].path.as_str(), "/code/new.md");
        coder.vfs().undo(stead::vfs::UndoTarget::Last(1), stead::vfs::UndoOptions::default()).unwrap();
        assert!(!exists(&coder, "/code/new.md"));
        write(&coder, "/code/new.md", "new\n");

        for merger in [reviewer.clone(), review_stead(&project, "coder")] {
            assert_eq!(names(&merger), ["review:coder/code"]);
        }
        let merged = reviewer.merge_fork("review:coder/code", &MergeOptions::default()).unwrap();
        assert!(merged.done, "{merged:?}");
        assert_eq!(read(&reviewer, "/project/plan.md"), "2\n");
        assert_eq!(read(&reviewer, "/project/new.md"), "new\n");
        write(&coder, "/code/plan.md", "3\n");
        assert_eq!(read(&reviewer, "/project/plan.md"), "2\n");
    }
}

for_each_store! {
    fn g30_a_discarded_review_fork_is_made_again_at_the_next_use(store) {
        let project = project(store);
        let (reviewer, coder) = (project.open("reviewer"), project.open("coder"));
        write(&reviewer, "/project/plan.md", "1\n");
        write(&coder, "/code/plan.md", "2\n");
        reviewer.discard("review:coder/code").unwrap();
        assert!(names(&reviewer).is_empty());
        assert_eq!(read(&coder, "/code/plan.md"), "1\n");
        write(&coder, "/code/plan.md", "3\n");
        assert_eq!(names(&reviewer), ["review:coder/code"]);
        assert_eq!(read(&reviewer, "/project/plan.md"), "1\n");
    }
}

for_each_store! {
    fn g30_the_fork_of_a_thread_stays_after_the_thread_and_a_later_thread_has_another(store) {
        let project = project(store);
        let reviewer = project.open("reviewer");
        write(&reviewer, "/project/plan.md", "1\n");
        let (one, two) = (worker(&project, "one"), worker(&project, "two"));
        write(&one, "/code/plan.md", "one\n");
        write(&one, "/notes/own", "x");
        write(&two, "/code/plan.md", "two\n");
        assert_eq!(read(&one, "/code/plan.md"), "one\n");
        drop(one);
        let stores = Stores::of(&project.config);
        let key = stead::ThreadKey { agent: "worker".into(), thread: "one".into() };
        stores.threads().destroy(&key).unwrap();
        // The thread's own files are gone; what is to be reviewed isn't.
        let again = worker(&project, "one");
        assert!(!exists(&again, "/notes/own"));
        assert_eq!(read(&again, "/code/plan.md"), "1\n");
        write(&again, "/code/other.md", "again\n");
        let forks = names(&reviewer);
        let owners: Vec<_> = forks.iter().map(|name| name.rsplit_once('/').unwrap().0).collect();
        assert_eq!(owners, ["review:worker/one", "review:worker/one", "review:worker/two"], "{forks:?}");
        assert_eq!(forks.iter().collect::<BTreeSet<_>>().len(), 3);
        for name in &forks[..2] {
            assert!(reviewer.merge_fork(name, &MergeOptions::default()).unwrap().done);
        }
        assert_eq!(read(&reviewer, "/project/plan.md"), "one\n");
        assert_eq!(read(&reviewer, "/project/other.md"), "again\n");
        let conflicted = reviewer.merge_fork(&forks[2], &MergeOptions::default()).unwrap();
        assert_eq!((conflicted.done, conflicted.conflicts.len()), (false, 1));
    }
}

/// Ten lines, with these in place of the first and the last one.
fn text(first: &str, last: &str) -> String {
    format!("{first}\n2\n3\n4\n5\n6\n7\n8\n9\n{last}\n")
}

for_each_store! {
    fn g31_a_part_of_a_file_is_taken_and_the_rest_stays_in_the_fork(store) {
        let project = project(store);
        let reviewer = project.open("reviewer");
        write(&reviewer, "/project/list", &text("1", "10"));
        let coder = project.open("coder");
        write(&coder, "/code/list", &text("one", "ten"));
        write(&coder, "/code/refused", "x\n");
        let (shown, part) = shown_and_first_hunk(&reviewer);
        let merged = reviewer.merge_fork("review:coder/code", &decided(&shown, part.clone())).unwrap();
        assert!(merged.done, "{merged:?}");
        assert_eq!(read(&reviewer, "/project/list"), text("one", "10"));
        assert!(!exists(&reviewer, "/project/refused"));
        // The fork keeps what was refused, and the rest merges later.
        assert_eq!(read(&coder, "/code/list"), text("one", "ten"));
        assert_eq!(read(&coder, "/code/refused"), "x\n");
        let again = reviewer.merge_fork("review:coder/code", &with_contents()).unwrap();
        let content = again.changes.iter().find(|change| change.path.as_str() == "/project/list").unwrap();
        let content = content.content.as_ref().unwrap();
        assert_eq!(**content.before.as_ref().unwrap(), text("one", "10").into_bytes());
        assert_eq!(**content.after.as_ref().unwrap(), text("one", "ten").into_bytes());
        assert!(reviewer.merge_fork("review:coder/code", &MergeOptions::default()).unwrap().done);
        assert_eq!(read(&reviewer, "/project/list"), text("one", "ten"));
        assert_eq!(read(&reviewer, "/project/refused"), "x\n");
    }
}

for_each_store! {
    fn g31_what_is_dropped_is_gone_from_the_fork(store) {
        let project = project(store);
        let reviewer = project.open("reviewer");
        write(&reviewer, "/project/kept", "1\n");
        write(&reviewer, "/project/list", &text("1", "10"));
        let coder = project.open("coder");
        write(&coder, "/code/kept", "2\n");
        write(&coder, "/code/added", "x\n");
        write(&coder, "/code/list", &text("one", "10"));
        let mut options = MergeOptions::default();
        for path in ["kept", "added"] {
            let paths = RulePaths::Exactly(Arc::new(BTreeSet::from([path.to_owned()])));
            options.rules.push(MergeRule { paths, choice: MergeChoice::Drop });
        }
        let merged = reviewer.merge_fork("review:coder/code", &options).unwrap();
        assert!(merged.done && merged.fork_gave_up, "{merged:?}");
        assert_eq!(read(&reviewer, "/project/kept"), "1\n");
        assert_eq!(read(&reviewer, "/project/list"), text("one", "10"));
        assert_eq!(read(&coder, "/code/kept"), "1\n");
        assert!(!exists(&coder, "/code/added"));
        assert!(reviewer.merge_fork("review:coder/code", &with_contents()).unwrap().changes.is_empty());
    }
}

for_each_store! {
    fn g31_a_decision_about_something_that_has_changed_since_is_refused(store) {
        let project = project(store);
        let reviewer = project.open("reviewer");
        write(&reviewer, "/project/list", &text("1", "10"));
        let coder = project.open("coder");
        write(&coder, "/code/list", &text("one", "ten"));
        let (shown, part) = shown_and_first_hunk(&reviewer);
        write(&coder, "/code/more", "nobody has seen this\n");
        let refused = reviewer.merge_fork("review:coder/code", &decided(&shown, part.clone())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert_eq!(read(&reviewer, "/project/list"), text("1", "10"));
        assert!(!exists(&reviewer, "/project/more"));
        let (shown, part) = shown_and_first_hunk(&reviewer);
        write(&reviewer, "/project/list", &text("1", "TEN"));
        let refused = reviewer.merge_fork("review:coder/code", &decided(&shown, part)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("/project/list"), "{refused}");
        assert_eq!(read(&reviewer, "/project/list"), text("1", "TEN"));
    }
}

fn with_contents() -> MergeOptions {
    let mut options = MergeOptions::default();
    (options.dry_run, options.with_contents) = (true, true);
    options
}

/// What a review shows, and `list` with the first of its two hunks.
fn shown_and_first_hunk(reviewer: &Stead) -> (MergeResult, MergeChoice) {
    let shown = reviewer.merge_fork("review:coder/code", &with_contents()).unwrap();
    let change = shown.changes.iter().find(|change| change.path.as_str() == "/project/list").unwrap();
    let content = change.content.clone().unwrap();
    let (before, after) = (content.before.unwrap(), content.after.unwrap());
    let hunks = stead::history::hunks::TextChange::new(&before, &after).unwrap();
    let first = hunks.hunks().remove(0);
    let taken = hunks.with([(first, stead::history::hunks::HunkDecision::Take)]);
    drop(hunks);
    (shown, MergeChoice::Part { before, content: Arc::new(taken), rest: RestOfPart::Stays })
}

/// Takes a part of `list`, and refuses everything else.
fn decided(shown: &MergeResult, part: MergeChoice) -> MergeOptions {
    let mut options = MergeOptions::default();
    options.fork_state = shown.fork_state;
    let list = RulePaths::Exactly(Arc::new(BTreeSet::from(["list".to_owned()])));
    options.rules = vec![
        MergeRule { paths: RulePaths::All, choice: MergeChoice::LeaveOut },
        MergeRule { paths: list, choice: part },
    ];
    options
}

#[test]
fn g30_fork_is_refused_where_there_is_nothing_to_review() {
    let invalid = |workspace: &str, agent: &str| {
        let text = format!(
            "[stores.s]\nkind = \"virtual\"\n[stores.m]\nkind = \"memory\"\n[agents.a]\n{agent}\n\
             [[agents.a.workspaces]]\nprefix = \"/x\"\n{workspace}\n"
        );
        Config::parse(&text, Path::new("stead.toml")).unwrap_err().to_string()
    };
    let virtual_store = "scope = \"rw\"\nstore = \"s\"";
    for (workspace, agent, why) in [
        ("scope = \"ro\"\nstore = \"s\"\nfork = \"agent\"", "", "needs a Workspace with `scope = \"rw\"`"),
        ("scope = \"rw\"\nstore = \"m\"\nfork = \"agent\"", "", "a Memory Store doesn't"),
        (&format!("{virtual_store}\nfork = \"thread\""), "", "needs an agent that has threads"),
        (
            &format!("{virtual_store}\nfork = \"thread\"\nper = \"thread\""),
            "scope = \"thread\"",
            "a thread's own files need no review",
        ),
        (&format!("{virtual_store}\nfork = \"always\""), "", "fork"),
    ] {
        let error = invalid(workspace, agent);
        assert!(error.contains(why), "{workspace}: {error}");
    }
    let text = "[stores.s]\nkind = \"virtual\"\n[[agents.\"review:a\".workspaces]]\nprefix = \"/x\"\nscope = \"rw\"\nstore = \"s\"\n";
    let reserved = Config::parse(text, Path::new("stead.toml")).unwrap_err().to_string();
    assert!(reserved.contains("can't begin with `review:`"), "{reserved}");
}
