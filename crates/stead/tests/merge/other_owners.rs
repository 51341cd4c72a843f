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
