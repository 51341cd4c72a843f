//! Who has a fork with parts: other agents, threads, and agents that have lost access to a nested Workspace.

use stead::ErrorKind;

use super::*;

/// The configuration without the coder's Workspace at a prefix, or with other lines in its place.
fn without(text: &str, prefix: &str, instead: &str) -> String {
    let mut found = false;
    let mut blocks: Vec<String> = text.split("[[").map(str::to_owned).collect();
    for block in &mut blocks {
        if block.starts_with("agents.coder.workspaces") && block.contains(&format!("prefix = \"{prefix}\"\n"))
        {
            found = true;
            *block = match instead {
                "" => "agents.unused.workspaces]]\n    prefix = \"/u\"\n    scope = \"ro\"\n    store = \"ref\"\n    ".to_owned(),
                scope => block.replace("scope = \"rw\"", scope).replace("scope = \"ro\"", scope),
            };
        }
    }
    assert!(found);
    blocks.join("[[")
}

fn reopened(project: &Project, text: &str, agent: &str) -> Stead {
    let config = Config::parse(text, &project.directory.path().join("stead.toml")).unwrap();
    Stead::open(&config, agent).unwrap()
}

for_each_store! {
    fn g1_a_part_is_withheld_while_its_maker_can_not_read_the_nested_base(store) {
        let project = project(store);
        let coder = draft(&project);
        write(&coder, "/forks/draft/lib/l.txt", "mine\n");
        coder.fork_to("/code", "gift", "other").unwrap();
        let text = configuration(store);
        let withdrawn = [
            (without(&text, "/code/lib", ""), "/lib", "/lib/l.txt"),
            (without(&text, "/code/lib", "scope = \"wo\""), "/lib", "/lib/l.txt"),
            (without(&text, "/code/docs", ""), "/docs", "/docs/guide.md"),
            (without(&text, "/code/docs", "scope = \"wo\""), "/docs", "/docs/guide.md"),
        ];
        for (text, place, path) in &withdrawn {
            for (agent, name) in [("coder", "draft"), ("other", "gift")] {
                let stead = reopened(&project, text, agent);
                let fork = stead.find_fork(name).unwrap();
                assert!(!fork.parts.iter().any(|part| part.place.as_str() == *place), "{fork:?}");
                let error = stead.vfs().read(format!("/forks/{name}{path}")).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
                let walk = stead.vfs().walk("/forks", &WalkQuery::default()).unwrap();
                let walk = format!("{walk:?}");
                assert!(!walk.contains(&path[1..]) && !walk.contains("canary"), "{walk}");
                // The rest of the fork is there.
                assert_eq!(read(&stead, &format!("/forks/{name}/a.txt")), "1\n2\n3\n4\n5\n");
            }
            if *place == "/lib" {
                // What is withheld isn't merged, and stays in the fork.
                merge_clean(&reopened(&project, text, "coder"), "draft");
                assert_eq!(read(&project.open("owner"), "/lib/l.txt"), "1\n2\n3\n4\n5\n");
            }
        }
        // With the access, it is back with all changes.
        let coder = reopened(&project, &text, "coder");
        assert_eq!(read(&coder, "/forks/draft/lib/l.txt"), "mine\n");
        assert_eq!(read(&reopened(&project, &text, "other"), "/forks/gift/docs/guide.md"), "guide\n");
        merge_clean(&coder, "draft");
        assert_eq!(read(&coder, "/code/lib/l.txt"), "mine\n");
    }
}

for_each_store! {
    fn g1_what_is_nested_in_a_nested_base_later_is_absent_from_the_part(store) {
        let project = project(store);
        write(&project.open("owner"), "/lib/late/canary-late", "canary-content\n");
        let coder = draft(&project);
        assert!(exists(&coder, "/forks/draft/lib/late/canary-late"));
        let text = format!(
            "{}\n[[agents.coder.workspaces]]\nprefix = \"/code/lib/late\"\nscope = \"wo\"\nstore = \"drop\"\n",
            configuration(store)
        );
        let stead = reopened(&project, &text, "coder");
        assert!(!format!("{:?}", stead.vfs().walk("/forks", &WalkQuery::default()).unwrap()).contains("canary"));
        assert_eq!(stead.vfs().stat("/forks/draft/lib/late").unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(read(&stead, "/forks/draft/lib/l.txt"), "1\n2\n3\n4\n5\n");
    }
}

for_each_store! {
    fn g1_a_fork_for_another_agent_shows_what_its_maker_saw(store) {
        let project = project(store);
        let coder = project.open("coder");
        let made = coder.fork_to("/code", "gift", "other").unwrap();
        assert_eq!(made.parts.len(), 5);
        let expected = contents(&coder, "/code");
        let other = project.open("other");
        assert_eq!(parts(&other, "gift").len(), 5);
        assert_eq!(contents(&other, "/forks/gift"), expected);
        let asked = other.vfs().read("/forks/gift/asks/q.txt").unwrap_err();
        assert_eq!(asked.kind(), ErrorKind::Denied, "{asked}");
        assert!(!exists(&other, "/forks/gift/lib/hidden.txt"));
        assert!(other.vfs().write("/forks/gift/docs/guide.md", "x").is_err());
        let before = everything(&project);
        write(&other, "/forks/gift/lib/l.txt", "by the other\n");
        write(&other, "/forks/gift/a.txt", "by the other\n");
        assert_eq!(everything(&project), before);
        // It can't be merged by an agent that has none of the bases, and it can by the maker.
        assert!(other.merge_fork("gift", &MergeOptions::default()).is_err());
        let coder = project.open("coder");
        let result = merge(&coder.with_approval(), "other/gift");
        assert!(result.done, "{:?}", result.refused);
        assert_eq!(changed(&result), ["/code/a.txt", "/code/lib/l.txt"]);
        assert_eq!(read(&coder, "/code/lib/l.txt"), "by the other\n");
    }
}

for_each_store! {
    fn g1_a_fork_of_a_thread_ends_with_all_its_parts(store) {
        let text = configuration(store).replace("[agents.coder]", "[agents.coder]\n    scope = \"thread\"");
        let project = empty_project(tempfile::tempdir().unwrap(), store);
        let config = Config::parse(&text, &project.directory.path().join("stead.toml")).unwrap();
        let stores = stead::Stores::of(&config);
        let open = || Stead::open_in(&stores, &stead::Identity::agent("coder").with_thread("t")).unwrap();
        let count = |table: &str| {
            let database = rusqlite::Connection::open(project.directory.path().join(".stead/stead.db")).unwrap();
            let sql = format!("SELECT count(*) FROM {table}");
            database.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        let stead = open();
        write(&stead, "/code/a.txt", "1\n");
        write(&stead, "/code/lib/l.txt", "1\n");
        let stead = stead.fork("/code", "draft").unwrap();
        write(&stead, "/forks/draft/lib/l.txt", "in the fork\n");
        assert_eq!((count("fork"), count("fork_part")), (1, 5));
        drop(stead);
        let stead = open();
        assert_eq!(read(&stead, "/forks/draft/lib/l.txt"), "in the fork\n");
        assert_eq!(changed(&merge_clean(&stead, "draft")), ["/code/lib/l.txt"]);
        drop(stead);
        let key = stead::ThreadKey { agent: "coder".into(), thread: "t".into() };
        stores.threads().destroy(&key).unwrap();
        assert_eq!((count("fork"), count("fork_part")), (0, 0));
        assert_eq!(count("volume WHERE base IS NOT NULL"), 0);
    }
}

for_each_store! {
    fn g1_a_fork_whose_parts_are_missing_shows_nothing_in_their_places(store) {
        let project = project(store);
        drop(draft(&project));
        let path = project.directory.path().join(".stead/stead.db");
        let database = rusqlite::Connection::open(&path).unwrap();
        let delete = "DELETE FROM volume WHERE id IN (SELECT volume FROM fork_part)";
        database.execute_batch(&format!("{delete}; DELETE FROM fork_part")).unwrap();
        drop(database);
        let stead = project.open("coder");
        let fork = stead.find_fork("draft").unwrap();
        assert!(fork.parts.is_empty());
        let excluded: Vec<&str> = fork.excluded.iter().map(stead::VfsPath::as_str).collect();
        assert_eq!(excluded, ["/asks", "/canary-inbox", "/docs", "/lib", "/same"]);
        assert_eq!(stead.vfs().read("/forks/draft/lib/l.txt").unwrap_err().kind(), ErrorKind::Denied);
        write(&stead, "/forks/draft/a.txt", "changed\n");
        assert_eq!(changed(&merge_clean(&stead, "draft")), ["/code/a.txt"]);
        let stead = stead.with_approval().discard("draft").unwrap().fork("/code", "draft").unwrap();
        assert_eq!(parts(&stead, "draft").len(), 5);
    }
}
