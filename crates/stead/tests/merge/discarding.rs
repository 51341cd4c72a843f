//! Forks of which the base, a fork too, is discarded.

use super::*;

/// How many rows of a table the project's database has.
fn rows(project: &Project, table: &str) -> i64 {
    let path = project.directory.path().join(".stead/stead.db");
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

for_each_store! {
    fn g5_a_discarded_fork_is_gone_at_once_and_its_forks_go_on_reading(store) {
        for is_changed in [false, true] {
            let project = Project::new(store);
            let coder = forked(&project);
            let before = rows(&project, "volume");
            let coder = coder.fork("/code", "base").unwrap();
            if is_changed {
                write(&coder, "/forks/base/README.md", "base\n");
            }
            let coder = coder.fork("/forks/base", "second").unwrap();
            write(&coder, "/forks/second/new", "hours of work\n");
            write(&coder, "/forks/base/later", "l\n");
            let elsewhere = project.open("coder");
            let coder = coder.discard("base").unwrap();
            // It is gone, also where it was open.
            assert!(coder.forks().unwrap().all(|fork| fork.name.as_str() != "base"));
            assert!(elsewhere.vfs().read("/forks/base/README.md").is_err());
            assert!(elsewhere.vfs().write("/forks/base/more", "m").is_err());
            // Its name is free.
            let coder = coder.fork("/code", "base").unwrap();
            write(&coder, "/forks/base/other", "o\n");
            let coder = coder.discard("base").unwrap();
            for stead in [&coder, &project.open("coder")] {
                let expected = if is_changed { "base\n" } else { "read me\n" };
                assert_eq!(read(stead, "/forks/second/README.md"), expected);
                assert_eq!(read(stead, "/forks/second/new"), "hours of work\n");
                assert!(!exists(stead, "/forks/second/later") && !exists(stead, "/forks/second/other"));
                write(stead, "/forks/second/src/lib.rs", "changed\n");
                let differences = stead.diff_fork("second", stead::vfs::DiffOptions::default()).unwrap();
                let changed: Vec<String> = differences.iter().map(|one| one.path.to_string()).collect();
                assert_eq!(changed, ["/forks/second/new", "/forks/second/src/lib.rs"]);
                let update = stead.update_fork("second", &MergeOptions::default()).unwrap_err();
                let merge = stead.merge_fork("second", &MergeOptions::default()).unwrap_err();
                for error in [update, merge] {
                    assert!(error.to_string().contains("what the fork was made from is gone"), "{error}");
                }
            }
            // What it kept goes with the last fork of it.
            let coder = coder.fork("/forks/second", "third").unwrap();
            let coder = coder.discard("second").unwrap();
            assert_eq!(read(&coder, "/forks/third/new"), "hours of work\n");
            coder.discard("third").unwrap();
            assert_eq!(rows(&project, "volume"), before, "{is_changed}");
        }
    }
}
