//! Forks of a Workspace with other Workspaces nested in it: over other Stores and over the same one, with every scope, with hidden
//! names and with approval.

mod access;
mod killed;
mod merging;
mod reversing;
mod showing;

use stead::vfs::WalkQuery;

use super::*;

/// `MAIN` and `LIB` are replaced by a Virtual Store and a host directory, or the other way round.
const NESTED: &str = r#"
    [stores.code]
    MAIN
    [stores.lib]
    LIB
    [stores.ref]
    kind = "virtual"
    [stores.drop]
    kind = "virtual"
    [stores.asking]
    kind = "virtual"

    [agents.owner]
    [[agents.owner.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    [[agents.owner.workspaces]]
    prefix = "/lib"
    scope = "rw"
    store = "lib"
    hide = []
    [[agents.owner.workspaces]]
    prefix = "/ref"
    scope = "rw"
    store = "ref"
    [[agents.owner.workspaces]]
    prefix = "/drop"
    scope = "rw"
    store = "drop"
    [[agents.owner.workspaces]]
    prefix = "/asking"
    scope = "rw"
    store = "asking"

    [agents.coder]
    [[agents.coder.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    path = "/main"
    [[agents.coder.workspaces]]
    prefix = "/code/lib"
    scope = "rw"
    store = "lib"
    hide = ["hidden*"]
    protect = ["locked"]
    [[agents.coder.workspaces]]
    prefix = "/code/lib/deep"
    scope = "ro"
    store = "ref"
    path = "/deep"
    [[agents.coder.workspaces]]
    prefix = "/code/docs"
    scope = "ro"
    store = "ref"
    path = "/docs"
    [[agents.coder.workspaces]]
    prefix = "/code/same"
    scope = "rw"
    store = "code"
    path = "/same"
    [[agents.coder.workspaces]]
    prefix = "/code/canary-inbox"
    scope = "wo"
    store = "drop"
    [[agents.coder.workspaces]]
    prefix = "/code/asks"
    scope = "rw"
    store = "asking"
    ask = "everything"

    [agents.reviewer]
    [[agents.reviewer.workspaces]]
    prefix = "/project"
    scope = "rw"
    store = "code"
    path = "/main"
    [[agents.reviewer.workspaces]]
    prefix = "/library"
    scope = "rw"
    store = "lib"
    [[agents.reviewer.workspaces]]
    prefix = "/same"
    scope = "rw"
    store = "code"
    path = "/same"

    [agents.partial]
    [[agents.partial.workspaces]]
    prefix = "/project"
    scope = "rw"
    store = "code"
    path = "/main"

    [agents.half]
    [[agents.half.workspaces]]
    prefix = "/project"
    scope = "rw"
    store = "code"
    path = "/main"
    [[agents.half.workspaces]]
    prefix = "/shelf"
    scope = "ro"
    store = "lib"

    [agents.other]
    [[agents.other.workspaces]]
    prefix = "/own"
    scope = "rw"
    store = "ref"
    path = "/own"
"#;

/// The configuration with the forked Workspace over this Store, and the nested `/code/lib` over one of the other kind.
fn configuration(store: TargetStore) -> String {
    let physical = |name: &str| format!("kind = \"physical\"\n    path = \"{name}\"");
    let virtual_store = "kind = \"virtual\"".to_owned();
    let (main, lib) = match store {
        TargetStore::Virtual => (virtual_store, physical("host-lib")),
        TargetStore::Physical => (physical(HOST_DIRECTORY), virtual_store),
    };
    NESTED.replace("MAIN", &main).replace("LIB", &lib)
}

/// A project with that configuration and some files.
fn project(store: TargetStore) -> Project {
    let project = empty_project(tempfile::tempdir().unwrap(), store);
    seed(&project.open("owner"));
    project
}

fn empty_project(directory: TempDir, store: TargetStore) -> Project {
    let config = config_in(directory.path(), store);
    Project { directory, config }
}

fn config_in(directory: &Path, store: TargetStore) -> Config {
    for name in [HOST_DIRECTORY, "host-lib"] {
        std::fs::create_dir_all(directory.join(name)).unwrap();
    }
    Config::parse(&configuration(store), &directory.join("stead.toml")).unwrap()
}

fn seed(owner: &Stead) {
    for (path, text) in [
        ("/code/main/a.txt", "1\n2\n3\n4\n5\n"),
        ("/code/main/src/b.txt", "b\n"),
        // What the nested Workspaces stand in front of.
        ("/code/main/lib/canary-behind", "canary-content\n"),
        ("/code/main/canary-inbox/canary-behind", "canary-content\n"),
        ("/code/same/s.txt", "1\n2\n3\n4\n5\n"),
        ("/lib/l.txt", "1\n2\n3\n4\n5\n"),
        ("/lib/sub/m.txt", "m\n"),
        ("/lib/hidden.txt", "canary-content\n"),
        ("/lib/locked", "locked\n"),
        ("/lib/deep/canary-behind", "canary-content\n"),
        ("/ref/docs/guide.md", "guide\n"),
        ("/ref/deep/d.txt", "deep\n"),
        ("/drop/canary-name", "canary-content\n"),
        ("/asking/q.txt", "question\n"),
    ] {
        write(owner, path, text);
    }
}

/// The project's coder with a fork of `/code`.
fn draft(project: &Project) -> Stead {
    project.open("coder").fork("/code", "draft").unwrap()
}

/// Every file below a prefix that a walk finds, with its content.
fn contents(stead: &Stead, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let stead = stead.with_approval();
    let walk = stead.vfs().walk(prefix, &WalkQuery { limit: 10_000, ..WalkQuery::default() }).unwrap();
    let files = walk.entries.iter().filter(|entry| entry.kind == stead_core::store::NodeKind::File);
    let content = |path: &str| {
        let relative_path = path.strip_prefix(prefix).unwrap().to_owned();
        (relative_path, stead.vfs().read(path).unwrap().bytes)
    };
    files.map(|entry| content(&entry.path.to_string())).collect()
}

/// Everything in the Stores, as their owner sees it.
fn everything(project: &Project) -> BTreeMap<String, Vec<u8>> {
    let owner = project.open("owner");
    let prefixes = ["/code", "/lib", "/ref", "/drop", "/asking"];
    let all = prefixes.iter().flat_map(|prefix| {
        contents(&owner, prefix).into_iter().map(move |(path, bytes)| (format!("{prefix}{path}"), bytes))
    });
    all.collect()
}

fn refused(result: &MergeResult) -> Vec<String> {
    result.refused.iter().map(|refused| refused.path.to_string()).collect()
}

fn changed(result: &MergeResult) -> Vec<String> {
    result.changes.iter().map(|change| change.path.to_string()).collect()
}

/// The places and scopes of the parts of a fork.
fn parts(stead: &Stead, fork: &str) -> Vec<String> {
    let fork = stead.find_fork(fork).unwrap();
    fork.parts.iter().map(|part| format!("{} {}", part.place, part.scope)).collect()
}
