//! What is hidden doesn't exist for an agent, and can't be created.

use super::*;

/// A Store with hidden and visible files in it, and a `Vfs` that hides what is hidden by default.
fn project() -> (Vfs, Arc<ModelStore>) {
    let store = Arc::new(ModelStore::new());
    let owner = vfs_with([hiding("/", ReadWrite, &store, &[])]);
    for file in
        ["/.env", "/.env.example", "/app/.ENV", "/app/main.rs", "/app/tls/server.key", "/.ssh/id", "/z"]
    {
        owner.write(file, "secret").unwrap();
    }
    owner.write("/node_modules/x/test.key", "secret").unwrap();
    owner.write("/.kube/config", "secret").unwrap();
    owner.write("/.kube/cache", "open").unwrap();
    (vfs_with([workspace("/", ReadWrite, &store)]), store)
}

fn hiding(prefix: &str, scope: AccessScope, store: &Arc<ModelStore>, globs: &[&str]) -> Workspace {
    workspace(prefix, scope, store).with_hide(globs).unwrap()
}

const HIDDEN: [&str; 6] = ["/.env", "/app/.ENV", "/app/tls/server.key", "/.ssh", "/.ssh/id", "/.kube/config"];

#[test]
fn a_hidden_name_is_not_found_whether_it_exists_or_not() {
    let (vfs, _) = project();
    for path in HIDDEN.into_iter().chain(["/.env.local", "/app/none.key", "/.aws/a"]) {
        for result in [
            vfs.read(path).map(drop),
            vfs.stat(path).map(drop),
            vfs.stat_link(path).map(drop),
            vfs.list(path, &ListPage::all()).map(drop),
            vfs.walk(path, &WalkQuery::default()).map(drop),
            vfs.grep(&GrepQuery::new("."), path).map(drop),
            vfs.read_link(path).map(drop),
            vfs.open(path, OpenOptions::read()).map(drop),
            vfs.copy(path, "/taken", Overwrite::Refuse).map(drop),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{path}: {error}");
            assert_eq!(
                error.to_string(),
                format!("`{path}` does not exist; list its directory to see what does")
            );
        }
        assert!(!vfs.exists(path).unwrap());
    }
}

#[test]
fn a_hidden_name_can_not_be_created_or_changed() {
    let (vfs, store) = project();
    vfs.write("/plain", "x").unwrap();
    for path in HIDDEN.into_iter().chain(["/.env.local", "/new/.env/x", "/app/none.key"]) {
        for result in [
            vfs.write(path, "x").map(drop),
            vfs.append(path, "x").map(drop),
            vfs.edit(path, "secret", "x", Occurrences::One).map(drop),
            vfs.mkdir(path, Parents::Create).map(drop),
            vfs.symlink(path, "plain").map(drop),
            vfs.set_attributes(path, Some(0o600), None).map(drop),
            vfs.remove_file(path, RemoveOptions { force: true, ..RemoveOptions::default() }).map(drop),
            vfs.copy("/plain", path, Overwrite::Replace).map(drop),
            vfs.rename("/plain", path, Overwrite::Replace).map(drop),
            vfs.rename(path, "/taken", Overwrite::Replace).map(drop),
            vfs.open(path, OpenOptions::write().create()).map(drop),
            vfs.batch().write(path, "x", &WriteOptions::new()),
        ] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::HiddenName { .. }), "{path}: {error}");
            assert!(error.to_string().contains("names like this one are hidden"), "{error}");
            assert_eq!(error.kind(), ErrorKind::Denied);
        }
    }
    let owner = vfs_with([hiding("/", ReadWrite, &store, &[])]);
    assert_eq!(text(&owner, "/.env"), "secret");
}

#[test]
fn listings_walks_and_searches_neither_show_nor_count_hidden_names() {
    let (vfs, _) = project();
    assert_eq!(names(&vfs, "/"), ".env.example .kube app node_modules z");
    assert_eq!(names(&vfs, "/app"), "main.rs tls");
    assert_eq!(names(&vfs, "/.kube"), "cache");
    let mut page = ListPage { cursor: None, limit: 2 };
    let mut paged = Vec::new();
    loop {
        let listing = vfs.list("/", &page).unwrap();
        assert_eq!(listing.total, 5);
        paged.extend(listing.entries.iter().map(|entry| entry.name.to_string()));
        match listing.cursor {
            Some(cursor) => page.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(paged.join(" "), names(&vfs, "/"));
    let walked = vfs.walk("/", &WalkQuery::default()).unwrap();
    let walked: Vec<_> = walked.entries.iter().map(|entry| entry.path.as_str()).collect();
    let visible = [
        "/.env.example",
        "/.kube",
        "/.kube/cache",
        "/app",
        "/app/main.rs",
        "/app/tls",
        "/node_modules",
        "/node_modules/x",
        "/node_modules/x/test.key",
        "/z",
    ];
    assert_eq!(walked, visible);
    assert_eq!(vfs.glob(&GlobQuery::new("**/*.key"), "/").unwrap().entries.len(), 1);
    assert!(vfs.glob(&GlobQuery::new("**/config"), "/").unwrap().entries.is_empty());
    let found = vfs.grep(&GrepQuery { output: GrepOutput::Files, ..GrepQuery::new("secret") }, "/").unwrap();
    let found: Vec<_> = found.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(found, ["/.env.example", "/app/main.rs", "/node_modules/x/test.key", "/z"]);
    let in_kube = vfs.grep(&GrepQuery::new("."), "/.kube").unwrap();
    assert_eq!(in_kube.files.len(), 1, "the directory of the search counts for the globs");
    assert_eq!(vfs.count_hidden("/").unwrap(), 5, "a hidden directory counts once");
    assert_eq!(vfs.count_hidden("/app").unwrap(), 2);
}

#[test]
fn a_symlink_does_not_lead_to_a_hidden_file_and_its_error_names_the_symlink_alone() {
    let (vfs, store) = project();
    store_link(&store, "/link", ".env");
    store_link(&store, "/kube", ".kube");
    for path in ["/link", "/kube/config"] {
        let error = vfs.read(path).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("`{path}` does not exist; list its directory to see what does")
        );
        let error = vfs.write(path, "x").unwrap_err();
        assert!(matches!(error, Error::HiddenName { .. }), "{error}");
        assert!(error.to_string().contains(path) && !error.to_string().contains("/.kube/"), "{error}");
    }
    assert_eq!(text(&vfs, "/kube/cache"), "open");
}

#[test]
fn a_directory_with_hidden_files_is_not_removed_or_moved() {
    let (vfs, _) = project();
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    let other = store_with(&[]);
    let combined = vfs_with(vfs.workspaces().cloned().chain([workspace("/other", ReadWrite, &other)]));
    for result in [
        combined.remove_directory("/app", recursive).map(drop),
        combined.rename("/app", "/moved", Overwrite::Refuse).map(drop),
        combined.rename("/app", "/other/moved", Overwrite::Refuse).map(drop),
        // The file in it would be hidden at the new path.
        combined.rename("/node_modules", "/moved", Overwrite::Refuse).map(drop),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let message = error.to_string();
        assert!(message.contains("hidden from agents") && !message.contains(".key"), "{message}");
        assert!(!message.to_lowercase().contains(".env"), "{message}");
    }
    assert_eq!(names(&combined, "/other"), "");
    combined.remove_directory("/.kube/cache", recursive).unwrap_err();
    combined.rename("/z", "/app/z", Overwrite::Refuse).unwrap();
}

#[test]
fn a_copy_leaves_hidden_files_out_and_says_how_many() {
    let (vfs, store) = project();
    let other = Arc::new(ModelStore::new());
    let combined = vfs_with(vfs.workspaces().cloned().chain([workspace("/other", ReadWrite, &other)]));
    for to in ["/copy", "/other/copy"] {
        let copied = combined.copy("/app", to, Overwrite::Refuse).unwrap();
        assert_eq!((copied.hidden, copied.entries), (2, Some(3)), "{to}");
        assert_eq!(text(&combined, &format!("{to}/main.rs")), "secret");
    }
    // A file that would be hidden at the destination is left out as well.
    assert_eq!(combined.copy("/node_modules", "/packages", Overwrite::Refuse).unwrap().hidden, 1);
    assert_eq!(combined.copy("/.env.example", "/example", Overwrite::Refuse).unwrap().hidden, 0);
    for store in [store, other] {
        let owner = vfs_with([hiding("/", ReadWrite, &store, &[])]);
        let copied = owner.glob(&GlobQuery::new("**/{copy,packages}/**/{.ENV,*.key}"), "/").unwrap();
        assert!(copied.entries.is_empty(), "{copied:?}");
    }
}

#[test]
fn the_list_of_a_workspace_replaces_the_default_and_an_empty_one_hides_nothing() {
    let (_, store) = project();
    let own = vfs_with([hiding("/", ReadWrite, &store, &["/app/**", "!z", "z*", "!z"])]);
    assert_eq!(names(&own, "/"), ".env .env.example .kube .ssh node_modules z");
    let nothing = vfs_with([hiding("/", ReadWrite, &store, &[])]);
    assert_eq!(names(&nothing, "/app"), ".ENV main.rs tls");
}

#[test]
fn each_workspace_decides_by_its_own_list_even_about_the_same_files() {
    let (_, store) = project();
    let vfs = vfs_with([
        hiding("/all", ReadOnly, &store, &[]),
        workspace("/most", ReadOnly, &store),
        hiding("/few", ReadOnly, &store, &["*.rs"]),
    ]);
    assert_eq!(text(&vfs, "/all/.env"), "secret");
    assert_eq!(kind(vfs.read("/most/.env")), ErrorKind::NotFound);
    assert_eq!(text(&vfs, "/few/.env"), "secret");
    assert_eq!(kind(vfs.read("/few/app/main.rs")), ErrorKind::NotFound);
}

#[test]
fn a_nested_workspace_is_reached_through_a_hidden_directory_and_nothing_else_is() {
    let (_, store) = project();
    let nested = store_with(&[("/notes", "open")]);
    for prefix in ["/.ssh", "/.ssh/deep"] {
        let vfs = vfs_with([workspace("/", ReadWrite, &store), workspace(prefix, ReadWrite, &nested)]);
        assert_eq!(text(&vfs, &format!("{prefix}/notes")), "open");
        assert_eq!(names(&vfs, "/"), ".env.example .kube .ssh app node_modules z");
        assert_eq!(names(&vfs, "/.ssh"), if prefix == "/.ssh" { "notes" } else { "deep" });
        assert_eq!(kind(vfs.read("/.ssh/id")), ErrorKind::NotFound);
        let walked = vfs.walk("/.ssh", &WalkQuery::default()).unwrap();
        assert!(walked.entries.iter().all(|entry| entry.path != "/.ssh/id"), "{walked:?}");
    }
}

#[test]
fn a_write_only_workspace_answers_alike_about_hidden_names() {
    let (_, store) = project();
    let vfs = vfs_with([workspace("/drop", WriteOnly, &store)]);
    let message = |path: &str| vfs.write(path, "x").unwrap_err().to_string().replace(path, "PATH");
    assert_eq!(message("/drop/.env"), message("/drop/none.key"));
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    let removed = |path: &str| vfs.remove_directory(path, recursive).unwrap().is_disclosed;
    assert!(!removed("/drop/app") && !removed("/drop/nothing"));
    assert_eq!(text(&vfs_with([workspace("/", ReadOnly, &store)]), "/app/main.rs"), "secret");
}
