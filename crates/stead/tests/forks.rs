//! Forks of a configured stead: they are there when it is opened again, and don't affect anything else.

#![allow(clippy::unwrap_used)]

use stead::vfs::DiffOptions;
use stead::{AccessScope, Config, ErrorKind, Stead};
use tempfile::TempDir;

const CONFIG: &str = r#"
    [stores.notes]
    kind = "virtual"
    [stores.scratch]
    kind = "memory"
    [[agents.coder.workspaces]]
    prefix = "/notes"
    scope = "ro"
    store = "notes"
    path = "/part"
    scratch = ["tmp/**"]
    [[agents.coder.workspaces]]
    prefix = "/all"
    scope = "ro"
    store = "notes"
    [[agents.writer.workspaces]]
    prefix = "/all"
    scope = "rw"
    store = "notes"
    [[agents.coder.workspaces]]
    prefix = "/memory"
    scope = "rw"
    store = "scratch"
    [[agents.other.workspaces]]
    prefix = "/notes"
    scope = "wo"
    store = "notes"
    [audit]
    enabled = false
"#;

fn config(directory: &TempDir, text: &str) -> Config {
    Config::parse(text, &directory.path().join("stead.toml")).unwrap()
}

fn prefixes(stead: &Stead) -> Vec<String> {
    stead.vfs().workspaces().map(|workspace| workspace.prefix().to_string()).collect()
}

fn text(stead: &Stead, path: &str) -> String {
    String::from_utf8(stead.vfs().read(path).unwrap().bytes).unwrap()
}

#[test]
fn a_fork_is_there_at_once_and_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory, CONFIG);
    let stead = Stead::open(&config, "coder").unwrap();
    assert_eq!(stead.forks().unwrap().count(), 0);
    assert!(!directory.path().join(".stead").exists(), "listing forks must not create the database");
    let writer = Stead::open(&config, "writer").unwrap();
    writer.vfs().write("/all/part/f", "1").unwrap();
    writer.vfs().write("/all/outside", "1").unwrap();
    let earlier = writer.vfs().write("/all/part/g", "1").unwrap().revision.unwrap();
    writer.vfs().write("/all/part/g", "2").unwrap();

    // A Workspace that can't be written can be forked, and the fork can be written.
    let stead = stead.fork("/notes", "draft").unwrap();
    stead.vfs().write("/forks/draft/f", "2").unwrap();
    let reopened = Stead::open(&config, "coder").unwrap();
    for stead in [&stead, &reopened] {
        assert_eq!(prefixes(stead), ["/all", "/forks/draft", "/memory", "/notes"]);
        assert_eq!((text(stead, "/forks/draft/f"), text(stead, "/notes/f")), ("2".into(), "1".into()));
        assert!(!stead.vfs().exists("/forks/draft/outside").unwrap());
        let fork = stead.find_fork("draft").unwrap();
        assert_eq!(
            (fork.base_prefix.as_str(), fork.path.as_str(), &*fork.scratch),
            ("/notes", "/part", &["tmp/**".to_owned()][..])
        );
        let differences = stead.diff_fork("draft", DiffOptions::default()).unwrap();
        assert_eq!(
            differences.iter().map(|difference| difference.path.to_string()).collect::<Vec<_>>(),
            ["/forks/draft/f"]
        );
    }
    assert_eq!(prefixes(&Stead::open(&config, "other").unwrap()), ["/notes"]);

    // As of a version from before the fork the rest is there, except Workspaces with a version counter of their own.
    let number = earlier.number.to_string();
    assert_eq!(reopened.as_of_text("/", &number).err().unwrap().kind(), ErrorKind::Invalid);
    for earlier_stead in [reopened.as_of(earlier).unwrap(), reopened.as_of_text("/notes", &number).unwrap()] {
        assert_eq!(
            (text(&earlier_stead, "/notes/g"), prefixes(&earlier_stead)),
            ("1".into(), vec!["/all".into(), "/notes".to_owned()])
        );
    }

    let stead = stead.discard("draft").unwrap();
    assert_eq!(prefixes(&stead), ["/all", "/memory", "/notes"]);
    assert!(reopened.vfs().read("/forks/draft/f").is_err());
    assert_eq!(stead.discard("draft").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(text(&stead, "/notes/f"), "1");
}

#[test]
fn a_fork_name_can_be_used_once_per_agent() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory, CONFIG);
    let [first, second] = [(); 2].map(|()| Stead::open(&config, "coder").unwrap());
    Stead::open(&config, "writer").unwrap().vfs().write("/all/f", "1").unwrap();
    first.fork("/all", "draft").unwrap();
    let error = second.fork("/all", "draft").unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::AlreadyExists, "a fork `draft` exists already; choose another name".into())
    );
    // Each agent has its own names of forks.
    first.fork_to("/all", "draft", "other").unwrap();
    assert_eq!(text(&Stead::open(&config, "other").unwrap(), "/forks/draft/f"), "1");
    // A Memory Store can be forked too. The fork lives as long as the Store.
    let first = first.fork("/memory", "brief").unwrap();
    first.vfs().write("/forks/brief/x", "1").unwrap();
    assert!(!first.vfs().exists("/memory/x").unwrap());
}

#[test]
fn a_fork_that_another_process_discards_and_makes_again_is_not_an_empty_directory() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory, &CONFIG.replace("scope = \"ro\"", "scope = \"rw\""));
    let stead = Stead::open(&config, "coder").unwrap();
    stead.vfs().write("/all/f", "1").unwrap();
    let stead = stead.fork("/all", "draft").unwrap();
    assert_eq!(text(&stead, "/forks/draft/f"), "1");
    let other_stead = Stead::open(&config, "coder").unwrap();
    let other_stead = other_stead.discard("draft").unwrap().fork("/all", "draft").unwrap();
    let errors = [
        stead.vfs().list("/forks/draft", &stead::vfs::ListPage::all()).map(drop).unwrap_err(),
        stead.vfs().stat("/forks/draft").map(drop).unwrap_err(),
        stead.vfs().read("/forks/draft/f").map(drop).unwrap_err(),
        stead.vfs().write("/forks/draft/f", "2").map(drop).unwrap_err(),
        stead.vfs().write("/forks/draft/new", "2").map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("the fork has been discarded"), "{error}");
    }
    assert_eq!(text(&other_stead, "/forks/draft/f"), "1");
}

#[test]
fn a_configured_workspace_takes_precedence_over_a_fork_and_is_never_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let plain = config(&directory, CONFIG);
    let stead = Stead::open(&plain, "coder").unwrap();
    Stead::open(&plain, "writer").unwrap().vfs().write("/all/f", "1").unwrap();
    stead.fork("/all", "draft").unwrap();
    let with_fork_prefixes = format!(
        "{CONFIG}\n[[agents.coder.workspaces]]\nprefix = \"/forks/mine\"\nscope = \"ro\"\nstore = \"notes\"
         [[agents.coder.workspaces]]\nprefix = \"/forks/draft\"\nscope = \"ro\"\nstore = \"other\"
         [stores.other]\nkind = \"memory\"\n"
    );
    let stead = Stead::open(&config(&directory, &with_fork_prefixes), "coder").unwrap();
    let scope = stead
        .vfs()
        .workspaces()
        .find(|workspace| workspace.prefix().as_str() == "/forks/draft")
        .unwrap()
        .scope();
    assert_eq!(scope, AccessScope::ReadOnly);
    assert!(stead.fork("/all", "mine").is_err());
    assert_eq!(stead.discard("mine").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(text(&stead, "/forks/mine/f"), "1");
}

#[test]
fn forks_that_can_not_be_read_do_not_affect_other_workspaces() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join(".stead")).unwrap();
    std::fs::write(directory.path().join(".stead/stead.db"), "this is no database at all, and never was")
        .unwrap();
    let stead = Stead::open(&config(&directory, CONFIG), "coder").unwrap();
    stead.vfs().write("/memory/x", "1").unwrap();
    assert!(stead.forks().is_err());
    assert!(stead.discard("draft").is_err());
}

#[test]
fn a_fork_needs_approval_where_its_base_needs_it() {
    let directory = tempfile::tempdir().unwrap();
    let with_approval_policy = CONFIG.replace("prefix = \"/all\"", "prefix = \"/all\"\nask = \"everything\"");
    let config = config(&directory, &with_approval_policy);
    let stead = Stead::open(&config, "coder").unwrap();
    Stead::open(&config, "writer").unwrap().with_approval().vfs().write("/all/secret", "text").unwrap();
    let error_kind = |stead: &Stead, path: &str| stead.vfs().read(path).unwrap_err().kind();
    let forked = stead.with_approval().fork("/all", "draft").unwrap();
    stead.with_approval().fork_to("/all", "theirs", "other").unwrap();
    assert_eq!(text(&forked, "/forks/draft/secret"), "text", "a person has approved this call");
    let opened = Stead::open(&config, "coder").unwrap();
    assert_eq!(error_kind(&opened, "/forks/draft/secret"), ErrorKind::Denied);
    let other_stead = Stead::open(&config, "other").unwrap();
    assert_eq!(error_kind(&other_stead, "/forks/theirs/secret"), ErrorKind::Denied);
}
