//! Merging, updating and comparing a fork with several parts.

use stead::vfs::{DiffOptions, LogQuery};
use stead_core::vfs::PointInTime;

use super::*;

/// Changes in three parts of a fork.
fn change_parts(stead: &Stead) {
    write(stead, "/forks/draft/a.txt", "one\n2\n3\n4\n5\n");
    write(stead, "/forks/draft/lib/l.txt", "one\n2\n3\n4\n5\n");
    write(stead, "/forks/draft/lib/new", "n\n");
    write(stead, "/forks/draft/same/s.txt", "one\n2\n3\n4\n5\n");
}

for_each_store! {
    fn g1_a_merge_brings_the_changes_of_all_parts_as_one_operation(store) {
        let project = project(store);
        let stead = draft(&project);
        change_parts(&stead);
        let owner = project.open("owner");
        // Lines are combined in nested Workspaces, too.
        write(&owner, "/lib/l.txt", "1\n2\n3\n4\nfive\n");
        let dry_run = {
            let mut options = MergeOptions::default();
            options.dry_run = true;
            stead.merge_fork("draft", &options).unwrap()
        };
        let before = everything(&project);
        let result = merge_clean(&stead, "draft");
        let expected = ["/code/a.txt", "/code/lib/l.txt", "/code/lib/new", "/code/same/s.txt"];
        assert_eq!((changed(&result), changed(&dry_run)), (expected.map(String::from).to_vec(), expected.map(String::from).to_vec()));
        let after = everything(&project);
        assert_ne!(after, before);
        assert_eq!(read(&stead, "/code/lib/l.txt"), "one\n2\n3\n4\nfive\n");
        for prefix in ["/forks/draft", "/code"] {
            assert_eq!(contents(&project.open("coder"), prefix), contents(&stead, "/code"));
        }
        for path in ["/code/a.txt", "/code/lib/l.txt", "/code/same/s.txt"] {
            let query = LogQuery { path: Some(path.try_into().unwrap()), limit: 1, ..LogQuery::default() };
            let entry = stead.vfs().log(&query).unwrap().remove(0);
            assert_eq!((entry.operation.id, &*entry.operation.tool), (result.operation.unwrap(), "merge"), "{path}");
            assert_eq!(entry.merged_fork.as_deref(), Some("coder/draft"));
        }
        // Nothing is left to do.
        let again = merge_clean(&stead, "draft");
        assert_eq!((again.operation, again.changes.len()), (None, 0));
        assert_eq!(everything(&project), after);
    }
}

for_each_store! {
    fn g1_a_merge_with_a_conflict_in_one_part_changes_no_part(store) {
        let project = project(store);
        let stead = draft(&project);
        change_parts(&stead);
        let owner = project.open("owner");
        for part in ["/lib/l.txt", "/same"] {
            match part {
                "/same" => write(&owner, "/code/same/s.txt", "uno\n2\n3\n4\n5\n"),
                path => write(&owner, path, "uno\n2\n3\n4\n5\n"),
            }
            let before = (everything(&project), contents(&stead, "/forks/draft"));
            let result = merge(&stead, "draft");
            assert!(!result.done && result.operation.is_none() && result.merged.is_empty());
            assert_eq!((everything(&project), contents(&stead, "/forks/draft")), before);
            let expected: &[&str] = match part {
                "/same" => &["/code/lib/l.txt", "/code/same/s.txt"],
                _ => &["/code/lib/l.txt"],
            };
            let conflicts: Vec<String> = kinds(&result).into_iter().map(|(path, _)| path).collect();
            assert_eq!(conflicts, expected, "all conflicts of all parts are reported");
        }
        // Rules know paths by where they are in the fork, or by the prefix of the Workspace.
        let rules = vec![rule("lib/l.txt", MergeChoice::TakeFork), rule("same", MergeChoice::LeaveOut)];
        let result = stead.merge_fork("draft", &options(rules)).unwrap();
        assert!(result.done, "{:?}", result.conflicts);
        assert_eq!(result.left_out.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/code/same/s.txt"]);
        assert_eq!(read(&stead, "/code/lib/l.txt"), "one\n2\n3\n4\n5\n");
        assert_eq!(read(&stead, "/code/same/s.txt"), "uno\n2\n3\n4\n5\n");
        let content = MergeChoice::Content(std::sync::Arc::new(b"decided\n".to_vec()));
        let prefix = stead::VfsPath::parse("/code").unwrap();
        let paths = RulePaths::parse("/code/same/s.txt", &[&prefix]).unwrap();
        let result = stead.merge_fork("draft", &options(vec![MergeRule { paths, choice: content }])).unwrap();
        assert!(result.done, "{:?}", result.conflicts);
        assert_eq!(read(&stead, "/code/same/s.txt"), "decided\n");
    }
}

for_each_store! {
    fn g1_an_update_brings_the_changes_of_nested_workspaces_into_their_parts(store) {
        let project = project(store);
        let stead = draft(&project);
        change_parts(&stead);
        let owner = project.open("owner");
        write(&owner, "/code/main/a.txt", "1\n2\n3\n4\nfive\n");
        write(&owner, "/lib/l.txt", "uno\n2\n3\n4\n5\n");
        write(&owner, "/lib/from-the-base", "f\n");
        write(&owner, "/ref/docs/guide.md", "new guide\n");
        let live = everything(&project);
        let result = update(&stead, "draft");
        assert!(result.done);
        assert_eq!(kinds(&result), [("/forks/draft/lib/l.txt".to_owned(), "content")]);
        assert_eq!(read(&stead, "/forks/draft/a.txt"), "one\n2\n3\n4\nfive\n");
        assert!(read(&stead, "/forks/draft/lib/l.txt").contains("<<<<<<< target\nuno\n"));
        assert_eq!(read(&stead, "/forks/draft/lib/from-the-base"), "f\n");
        assert_eq!(read(&stead, "/forks/draft/docs/guide.md"), "guide\n", "a READ_ONLY part stays as it was");
        assert_eq!(everything(&project), live);
        let refused = merge(&stead, "draft");
        assert!(!refused.done && refused.has_only_markers(), "{:?}", refused.conflicts);
        assert_eq!(everything(&project), live);
        write(&stead, "/forks/draft/lib/l.txt", "resolved\n2\n3\n4\n5\n");
        merge_clean(&stead, "draft");
        assert_eq!(read(&stead, "/code/lib/l.txt"), "resolved\n2\n3\n4\n5\n");
        assert!(update(&stead, "draft").changes.is_empty());
    }
}

for_each_store! {
    fn g1_a_diff_of_a_fork_shows_all_parts_with_their_paths(store) {
        let project = project(store);
        let stead = draft(&project);
        assert!(stead.diff_fork("draft", DiffOptions::default()).unwrap().is_empty());
        change_parts(&stead);
        let paths = |stead: &Stead, fork: &str| -> Vec<String> {
            let differences = stead.diff_fork(fork, DiffOptions::default()).unwrap();
            differences.iter().map(|difference| difference.path.to_string()).collect()
        };
        let expected = ["a.txt", "lib/l.txt", "lib/new", "same/s.txt"].map(|path| format!("/forks/draft/{path}"));
        assert_eq!(paths(&stead, "draft"), expected);
        // Another agent sees them at its own Workspaces, and only what it can read.
        let reviewer = ["/library/l.txt", "/library/new", "/project/a.txt", "/same/s.txt"];
        assert_eq!(paths(&project.open("reviewer"), "coder/draft"), reviewer);
        assert_eq!(paths(&project.open("partial"), "coder/draft"), ["/project/a.txt"]);
        assert_eq!(paths(&project.open("half"), "coder/draft"), ["/project/a.txt", "/shelf/l.txt", "/shelf/new"]);
    }
}

for_each_store! {
    fn g1_another_agent_merges_a_fork_with_its_nested_workspaces_if_it_may_write_their_bases(store) {
        let project = project(store);
        let stead = draft(&project);
        change_parts(&stead);
        let before = everything(&project);
        let listed = |agent: &str| -> Vec<String> {
            let forks = project.open(agent).forks_of_others().unwrap();
            forks[0].parts.iter().map(|part| format!("{} {}", part.place, part.base_prefix)).collect()
        };
        assert_eq!(listed("reviewer"), ["/lib /library", "/same /same"]);
        assert_eq!(listed("half"), ["/lib /shelf"]);
        assert!(listed("partial").is_empty());
        // Without any access to the nested base, nothing of it is told.
        let partial = merge(&project.open("partial"), "coder/draft");
        assert_eq!((partial.done, refused(&partial)), (false, vec!["/project".to_owned(), "/project".to_owned()]));
        assert!(!format!("{partial:?}").contains("l.txt"), "{partial:?}");
        // With READ_ONLY access, the paths are named.
        let half = merge(&project.open("half"), "coder/draft");
        assert_eq!((half.done, refused(&half)), (false, ["/project", "/shelf/l.txt", "/shelf/new"].map(String::from).to_vec()));
        assert_eq!(everything(&project), before);
        // The rest can be merged without these parts.
        let hidden = || MergeRule { paths: RulePaths::Hidden, choice: MergeChoice::LeaveOut };
        let rules = options(vec![rule("lib", MergeChoice::LeaveOut), hidden()]);
        let result = project.open("half").merge_fork("coder/draft", &rules).unwrap();
        assert!(result.done, "{:?}", result.refused);
        assert_eq!(changed(&result), ["/project/a.txt"]);
        let left_out: Vec<_> = result.left_out.iter().map(ToString::to_string).collect();
        assert_eq!((left_out, result.left_out_unseen), (["/shelf/l.txt", "/shelf/new"].map(String::from).to_vec(), true));
        assert!(!result.took_everything());
        assert_eq!(read(&stead, "/code/lib/l.txt"), "1\n2\n3\n4\n5\n");
        let result = merge_clean(&project.open("reviewer"), "coder/draft");
        assert!(result.took_everything());
        assert_eq!(changed(&result), ["/library/l.txt", "/library/new", "/same/s.txt"]);
        assert_eq!(read(&stead, "/code/lib/l.txt"), "one\n2\n3\n4\n5\n");
        assert!(merge_clean(&project.open("partial"), "coder/draft").changes.is_empty());
        project.open("partial").discard("coder/draft").unwrap();
        assert_eq!(project.open("coder").forks().unwrap().count(), 0);
    }
}

for_each_store! {
    fn g1_a_review_of_a_fork_covers_its_parts_and_takes_only_what_was_shown(store) {
        let project = project(store);
        let stead = draft(&project);
        change_parts(&stead);
        let mut shown = MergeOptions::default();
        (shown.dry_run, shown.with_contents) = (true, true);
        let plan = stead.merge_fork("draft", &shown).unwrap();
        assert_eq!(plan.changes.len(), 4);
        assert!(plan.changes.iter().all(|change| change.content.is_some()));
        let mut take = MergeOptions::default();
        take.fork_state = plan.fork_state;
        assert!(take.fork_state.is_some());
        write(&stead, "/forks/draft/lib/l.txt", "changed while it is reviewed\n");
        let before = everything(&project);
        let error = stead.merge_fork("draft", &take).unwrap_err();
        assert_eq!(error.kind(), stead::ErrorKind::Conflict, "{error}");
        assert_eq!(everything(&project), before);
        take.fork_state = stead.merge_fork("draft", &shown).unwrap().fork_state;
        assert!(stead.merge_fork("draft", &take).unwrap().done);
    }
}

for_each_store! {
    fn g1_a_merge_asks_about_all_nested_workspaces_before_it_changes_one(store) {
        let project = project(store);
        let stead = draft(&project);
        write(&stead, "/forks/draft/a.txt", "changed\n");
        write(&stead.with_approval(), "/forks/draft/asks/q.txt", "changed\n");
        let before = everything(&project);
        let error = stead.merge_fork("draft", &MergeOptions::default()).unwrap_err();
        assert!(error.to_string().contains("/code/asks"), "{error}");
        assert_eq!(everything(&project), before);
        assert!(merge(&stead.with_approval(), "draft").done);
        assert_eq!(read(&stead.with_approval(), "/code/asks/q.txt"), "changed\n");
    }
}

for_each_store! {
    fn g1_a_fork_made_before_a_part_was_changed_can_be_read_as_of_then(store) {
        let project = project(store);
        let stead = draft(&project);
        write(&stead, "/forks/draft/lib/l.txt", "first\n");
        let point = stead.vfs().revision_at("/forks/draft/lib", PointInTime::Now).unwrap();
        write(&stead, "/forks/draft/lib/l.txt", "second\n");
        let earlier = stead.as_of(point).unwrap();
        assert_eq!(read(&earlier, "/forks/draft/lib/l.txt"), "first\n");
        assert!(!format!("{:?}", earlier.vfs().walk("/forks", &WalkQuery::default()).unwrap()).contains("canary"));
    }
}

for_each_store! {
    fn g1_a_part_that_can_not_be_merged_any_more_is_named_and_merging_again_goes_on_with_it(store) {
        let project = project(store);
        let limited = "hide = [\"hidden*\"]\n    quota = { bytes = \"10 KiB\" }";
        let text = configuration(store).replace("hide = [\"hidden*\"]", limited);
        let config = Config::parse(&text, &project.directory.path().join("stead.toml")).unwrap();
        let stead = Stead::open(&config, "coder").unwrap().fork("/code", "draft").unwrap();
        write(&stead, "/forks/draft/a.txt", "changed\n");
        write(&stead, "/forks/draft/lib/large", &"x".repeat(8 << 10));
        write(&stead, "/forks/draft/same/s.txt", "changed\n");
        // The quota of the nested Workspace is used up meanwhile, which only the change itself finds out.
        let owner = project.open("owner");
        write(&owner, "/lib/other", &"x".repeat(8 << 10));
        let result = merge(&stead, "draft");
        let merged: Vec<String> = result.merged.iter().map(ToString::to_string).collect();
        assert_eq!((result.done, merged, refused(&result)), (false, vec!["/code".to_owned()], vec!["/code/lib".to_owned()]));
        assert_eq!(changed(&result), ["/code/a.txt"]);
        assert!(result.refused[0].why.contains("quota"), "{:?}", result.refused);
        assert_eq!(read(&stead, "/code/same/s.txt"), "1\n2\n3\n4\n5\n");
        let entry = stead.vfs().log(&LogQuery { limit: 1, ..LogQuery::default() }).unwrap().remove(0);
        assert_eq!(Some(entry.operation.id), result.operation);
        remove(&owner, "/lib/other");
        assert_eq!(changed(&merge_clean(&stead, "draft")), ["/code/lib/large", "/code/same/s.txt"]);
        assert!(merge_clean(&stead, "draft").changes.is_empty());
    }
}

for_each_store! {
    fn g1_a_merge_of_several_parts_has_one_audit_record_with_its_outcome(store) {
        let project = project(store);
        change_parts(&draft(&project));
        write(&project.open("owner"), "/code/same/s.txt", "uno\n2\n3\n4\n5\n");
        // The audit is closed with the stead.
        let merge_with = |options: &MergeOptions| project.open("coder").merge_fork("draft", options).unwrap();
        let outcomes = || -> Vec<String> {
            let access = stead::Stores::of(&project.config).audit_access().unwrap().unwrap();
            let query = stead::AuditQuery { call: Some("merge".into()), ..stead::AuditQuery::default() };
            let mut found = Vec::new();
            access
                .each(&query, &mut |entry| {
                    found.extend((entry.outcome != "begun").then(|| entry.outcome.to_string()));
                    std::ops::ControlFlow::Continue(())
                })
                .unwrap();
            found.sort();
            found
        };
        assert!(!merge_with(&MergeOptions::default()).done);
        assert_eq!(outcomes(), ["failed"]);
        let mut dry_run = MergeOptions::default();
        dry_run.dry_run = true;
        assert_eq!(merge_with(&dry_run).conflicts.len(), 1);
        assert_eq!(outcomes(), ["failed", "failed"], "as the dry run of one Workspace says it");
        assert!(merge_with(&options(vec![rule("", MergeChoice::TakeFork)])).done);
        assert_eq!(outcomes(), ["failed", "failed", "ok"]);
    }
}
