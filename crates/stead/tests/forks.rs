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
fn a_fork_is_there_at_once_and_at_the_next_opening() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory, CONFIG);
    let stead = Stead::open(&config, "coder").unwrap();
    assert_eq!(stead.forks().unwrap().count(), 0);
    assert!(!directory.path().join(".stead").exists(), "asking for forks makes no database");
    let writer = Stead::open(&config, "writer").unwrap();
    writer.vfs().write("/all/part/f", "1").unwrap();
    writer.vfs().write("/all/outside", "1").unwrap();
    let earlier = writer.vfs().write("/all/part/g", "1").unwrap().revision.unwrap();
    writer.vfs().write("/all/part/g", "2").unwrap();

    // A Workspace that can't be written can be forked, and the fork can be written.
    let stead = stead.fork("/notes", "draft").unwrap();
    stead.vfs().write("/forks/draft/f", "2").unwrap();
    let again = Stead::open(&config, "coder").unwrap();
    for stead in [&stead, &again] {
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
            differences.iter().map(|one| one.path.to_string()).collect::<Vec<_>>(),
            ["/forks/draft/f"]
        );
    }
    assert_eq!(prefixes(&Stead::open(&config, "other").unwrap()), ["/notes"]);

    // As of a version from before the fork the rest is there, except Workspaces with a version counter of their own.
    let number = earlier.number.to_string();
    assert_eq!(again.as_of_text("/", &number).err().unwrap().kind(), ErrorKind::Invalid);
    for past in [again.as_of(earlier).unwrap(), again.as_of_text("/notes", &number).unwrap()] {
        assert_eq!(
            (text(&past, "/notes/g"), prefixes(&past)),
            ("1".into(), vec!["/all".into(), "/notes".to_owned()])
        );
    }

    let stead = stead.discard("draft").unwrap();
    assert_eq!(prefixes(&stead), ["/all", "/memory", "/notes"]);
    assert!(again.vfs().read("/forks/draft/f").is_err());
    assert_eq!(stead.discard("draft").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(text(&stead, "/notes/f"), "1");
}

#[test]
fn a_name_is_taken_once_whoever_made_the_fork() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory, CONFIG);
    let [one, other] = [(); 2].map(|()| Stead::open(&config, "coder").unwrap());
    Stead::open(&config, "writer").unwrap().vfs().write("/all/f", "1").unwrap();
    one.fork("/all", "draft").unwrap();
    let taken = other.fork("/all", "draft").unwrap_err();
    assert_eq!(
        (taken.kind(), taken.to_string()),
        (ErrorKind::AlreadyExists, "a fork `draft` exists already; choose another name".into())
    );
    // Each agent has its own names of forks.
    one.fork_to("/all", "draft", "other").unwrap();
    assert_eq!(text(&Stead::open(&config, "other").unwrap(), "/forks/draft/f"), "1");
    // A Memory Store can be forked too. The fork lives as long as the Store.
    let one = one.fork("/memory", "brief").unwrap();
    one.vfs().write("/forks/brief/x", "1").unwrap();
    assert!(!one.vfs().exists("/memory/x").unwrap());
}

#[test]
fn what_is_configured_comes_before_a_fork_and_is_never_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let plain = config(&directory, CONFIG);
    let stead = Stead::open(&plain, "coder").unwrap();
    Stead::open(&plain, "writer").unwrap().vfs().write("/all/f", "1").unwrap();
    stead.fork("/all", "draft").unwrap();
    let claimed = format!(
        "{CONFIG}\n[[agents.coder.workspaces]]\nprefix = \"/forks/mine\"\nscope = \"ro\"\nstore = \"notes\"
         [[agents.coder.workspaces]]\nprefix = \"/forks/draft\"\nscope = \"ro\"\nstore = \"other\"
         [stores.other]\nkind = \"memory\"\n"
    );
    let stead = Stead::open(&config(&directory, &claimed), "coder").unwrap();
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
fn forks_that_can_not_be_read_are_in_nobody_elses_way() {
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
fn a_fork_asks_where_its_base_asks() {
    let directory = tempfile::tempdir().unwrap();
    let asking = CONFIG.replace("prefix = \"/all\"", "prefix = \"/all\"\nask = \"everything\"");
    let config = config(&directory, &asking);
    let stead = Stead::open(&config, "coder").unwrap();
    Stead::open(&config, "writer").unwrap().with_approval().vfs().write("/all/secret", "text").unwrap();
    let kind = |stead: &Stead, path: &str| stead.vfs().read(path).unwrap_err().kind();
    let forked = stead.with_approval().fork("/all", "draft").unwrap();
    stead.with_approval().fork_to("/all", "theirs", "other").unwrap();
    assert_eq!(text(&forked, "/forks/draft/secret"), "text", "a person has agreed here");
    let opened = Stead::open(&config, "coder").unwrap();
    assert_eq!(kind(&opened, "/forks/draft/secret"), ErrorKind::Denied);
    let other = Stead::open(&config, "other").unwrap();
    assert_eq!(kind(&other, "/forks/theirs/secret"), ErrorKind::Denied);
}
