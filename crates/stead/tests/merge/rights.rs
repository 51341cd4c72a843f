//! Rights: every changed path of the target is authorized, and one refusal refuses the whole merge.

use super::*;

const GUARDED: &str = r#"
    [stores.code]
    kind = "virtual"
    [[agents.coder.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    protect = []
    hide = []
    [[agents.reviewer.workspaces]]
    prefix = "/project"
    scope = "rw"
    store = "code"
    protect = ["locked/**", "LICENSE"]
    hide = ["secret*"]
    quota = { bytes = "10 KiB" }
    [[agents.reviewer.workspaces]]
    prefix = "/project/inner"
    scope = "ro"
    store = "code"
    path = "/inner"
    [[agents.asked.workspaces]]
    prefix = "/project"
    scope = "rw"
    store = "code"
    ask = "changes"
"#;

fn refused(result: &MergeResult) -> Vec<String> {
    result.refused.iter().map(|refused| refused.path.to_string()).collect()
}

for_each_store! {
    fn g27_one_path_that_may_not_be_changed_refuses_the_whole_merge_with_a_list(store) {
        let project = Project::with_config(store, GUARDED);
        let coder = project.open("coder");
        for path in ["locked/f", "LICENSE", "inner/f", "secret.txt", "open"] {
            write(&coder, &format!("/code/{path}"), "base\n");
        }
        let coder = coder.fork("/code", "draft").unwrap();
        for path in ["locked/f", "LICENSE", "inner/f", "secret.txt", "open"] {
            write(&coder, &format!("/forks/draft/{path}"), "changed\n");
        }
        let before = files(&coder, "/code");
        let reviewer = project.open("reviewer");
        let result = merge(&reviewer, "coder/draft");
        assert!(!result.done);
        // What the reviewer may not see is one entry for the Workspace.
        let expected = ["/project", "/project/LICENSE", "/project/inner/f", "/project/locked/f"];
        assert_eq!(refused(&result), expected);
        assert_eq!(files(&coder, "/code"), before);
        // Without these paths it can be merged.
        let globs = ["locked", "LICENSE", "inner", "secret*"];
        let mut rules: Vec<_> = globs.map(|glob| rule(glob, MergeChoice::LeaveOut)).into();
        // A guess of a hidden name doesn't help, so that nobody learns whether it is right.
        let guessed = reviewer.merge_fork("coder/draft", &options(rules.clone())).unwrap();
        assert_eq!((guessed.done, refused(&guessed)), (false, vec!["/project".to_owned()]));
        rules.push(MergeRule { paths: RulePaths::Hidden, choice: MergeChoice::LeaveOut });
        let result = reviewer.merge_fork("coder/draft", &options(rules)).unwrap();
        assert!(result.done, "{:?}", result.refused);
        assert!(result.left_out_unseen && !result.took_everything());
        assert_eq!(read(&coder, "/code/open"), "changed\n");
        assert_eq!(read(&coder, "/code/secret.txt"), "base\n");
        assert_eq!(read(&project.open("coder"), "/forks/draft/secret.txt"), "changed\n");
    }
}

for_each_store! {
    fn g27_a_path_below_a_nested_workspace_with_other_files_isnt_named(store) {
        let text = GUARDED.replace("    [[agents.coder", "    [stores.other]\n    kind = \"memory\"\n    [[agents.coder");
        let nested = "store = \"code\"\n    path = \"/inner\"";
        let project = Project::with_config(store, &text.replace(nested, "store = \"other\""));
        let coder = project.open("coder").fork("/code", "draft").unwrap();
        write(&coder, "/forks/draft/inner/canary", "x");
        let result = merge(&project.open("reviewer"), "coder/draft");
        assert!(!result.done && !format!("{result:?}").contains("canary"), "{result:?}");
        assert_eq!(refused(&result), ["/project/inner"]);
    }
}

for_each_store! {
    fn g27_a_change_where_the_merger_may_not_look_is_refused_whatever_is_there(store) {
        let project = Project::with_config(store, GUARDED);
        let coder = project.open("coder");
        write(&coder, "/code/secret.txt", "base\n");
        let coder = coder.fork("/code", "draft").unwrap();
        write(&coder, "/forks/draft/secret.txt", "fork canary\n");
        for in_target in ["target canary\n", "fork canary\n"] {
            write(&coder, "/code/secret.txt", in_target);
            let result = merge(&project.open("reviewer"), "coder/draft");
            assert_eq!((kinds(&result), refused(&result)), (Vec::new(), vec!["/project".to_owned()]));
            let text = format!("{result:?}");
            assert!(!text.contains("canary") && !text.contains("secret"), "{text}");
        }
    }
}

for_each_store! {
    fn g27_the_quota_of_the_target_counts(store) {
        let project = Project::with_config(store, GUARDED);
        let coder = project.open("coder");
        write(&coder, "/code/f", "base\n");
        let coder = coder.fork("/code", "draft").unwrap();
        write(&coder, "/forks/draft/big", &"x".repeat(20 << 10));
        let reviewer = project.open("reviewer");
        let error = reviewer.merge_fork("coder/draft", &MergeOptions::default()).unwrap_err();
        assert_eq!(error.kind(), stead::ErrorKind::Quota, "{error}");
        assert!(!exists(&coder, "/code/big"));
    }
}

for_each_store! {
    fn g27_a_workspace_that_asks_asks_once(store) {
        let project = Project::with_config(store, GUARDED);
        let coder = project.open("coder").fork("/code", "draft").unwrap();
        write(&coder, "/forks/draft/one", "1\n");
        write(&coder, "/forks/draft/two", "2\n");
        let asked = project.open("asked");
        let error = asked.merge_fork("coder/draft", &MergeOptions::default()).unwrap_err();
        let stead::Error::Vfs(stead_core::Error::ApprovalRequired { .. }) = &error else { panic!("{error}") };
        assert!(!exists(&coder, "/code/one"));
        merge_clean(&asked.with_approval(), "coder/draft");
        assert!(exists(&coder, "/code/one") && exists(&coder, "/code/two"));
    }
}

for_each_store! {
    fn g1_a_fork_of_a_workspace_that_asks_is_not_discarded_without_asking(store) {
        for ask in ["changes", "everything"] {
            let config = CONFIG.replacen("scope = \"rw\"", &format!("scope = \"rw\"\nask = \"{ask}\""), 1);
            let project = Project::with_config(store, &config);
            let coder = project.open("coder").with_approval();
            write(&coder, "/code/a", "1\n");
            let _ = coder.fork("/code", "draft").unwrap();
            let _ = project.open("reviewer").fork("/project", "theirs").unwrap();
            let coder = project.open("coder");
            for fork in ["draft", "reviewer/theirs"] {
                let error = coder.discard(fork).unwrap_err();
                assert!(error.to_string().contains("approv"), "{fork}: {error}");
            }
            assert!(project.open("coder").find_fork("draft").is_ok());
            coder.with_approval().discard("draft").unwrap();
        }
    }
}
