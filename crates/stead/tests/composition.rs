//! What a stead is put together from, and what its own calls do.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::sync::Arc;

use stead::config::ScopedDirectory;
use stead::vfs::ListPage;
use stead::{
    AccessScope, AuditQuery, Clock, Config, Database, ErrorKind, Identity, MemoryStore, PhysicalOptions,
    PhysicalStore, Stead, Store, Stores, SystemClock, Tokens,
};
use stead_core::testkit::ModelStore;

#[test]
fn s2_a_stead_takes_any_store_also_one_that_a_program_brings() {
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir(host.path().join("files")).unwrap();
    let options = PhysicalOptions::new(host.path().join("state"));
    let stores: [(&str, Arc<dyn Store>); 4] = [
        ("memory", Arc::new(MemoryStore::new())),
        ("virtual", Arc::new(Database::in_memory().store(["notes"]).unwrap())),
        ("physical", Arc::new(PhysicalStore::open(host.path().join("files"), options).unwrap())),
        // It implements the trait, and knows nothing of databases or of the host.
        ("own", Arc::new(ModelStore::default())),
    ];
    for (kind, store) in stores {
        let builder =
            Stead::builder("coder").workspace("/w", AccessScope::ReadWrite, stead::Mount::new(store));
        let stead = builder.state(Arc::new(MemoryStore::new())).build().unwrap();
        stead.write_file("/w/d/a", kind).unwrap();
        assert_eq!(stead.read_file("/w/d/a").unwrap().bytes, kind.as_bytes());
        let listed = stead.vfs().list("/w/d", &ListPage::all()).unwrap();
        assert_eq!(listed.entries.len(), 1, "{kind}");
        let tools: Vec<_> = stead.tools().iter().map(|tool| tool.name).collect();
        assert!(tools.contains(&"write_file") && tools.contains(&"state_set"), "{kind}: {tools:?}");
    }
}

#[test]
fn s1_the_audit_is_on_unless_the_configuration_disables_it() {
    for (audit, expected) in
        [("", 1), ("[audit]\n", 1), ("[audit]\nenabled = true\n", 1), ("[audit]\nenabled = false\n", 0)]
    {
        let host = tempfile::tempdir().unwrap();
        let text = format!(
            "[stores.s]\nkind = \"virtual\"\n{audit}[agents.a]\nworkspaces = [\n\
             {{ prefix = \"/w\", store = \"s\", scope = \"rw\" }},\n]\n"
        );
        let config = Config::parse(&text, &host.path().join("stead.toml")).unwrap();
        let stead = Stead::open(&config, "a").unwrap();
        stead.write_file("/w/x", "1").unwrap();
        assert_eq!(stead.read_file("/w/x").unwrap().bytes, b"1", "{audit:?}");
        drop(stead);
        let access = Stores::of(&config).audit_access().unwrap().unwrap();
        let query = AuditQuery { call: Some("write".to_owned()), ..AuditQuery::default() };
        let records = access.page(&query, None, 100).unwrap().entries.len();
        assert_eq!(records, expected, "{audit:?}");
    }
}

#[test]
fn s4_the_calls_of_a_stead_pass_the_same_checks_as_those_of_its_parts() {
    let host = tempfile::tempdir().unwrap();
    let text = "[stores.s]\nkind = \"virtual\"\n[agents.a]\nquota = { bytes = \"1KiB\" }\nworkspaces = [\n\
                { prefix = \"/rw\", store = \"s\", path = \"/one\", scope = \"rw\" },\n\
                { prefix = \"/ro\", store = \"s\", path = \"/two\", scope = \"ro\" },\n\
                { prefix = \"/wo\", store = \"s\", path = \"/three\", scope = \"wo\" },\n]\n";
    let config = Config::parse(text, &host.path().join("stead.toml")).unwrap();
    let stores = Stores::of(&config);
    stores.open_audit().unwrap();
    let stead = Stead::open_in(&stores, &Identity::agent("a")).unwrap();
    stead.write_file("/rw/x", "1").unwrap();
    assert_eq!(stead.read_file("/rw/x").unwrap().bytes, b"1");
    let same = |of_stead: stead::Error, of_part: stead::VfsError, kind: ErrorKind| {
        assert_eq!((of_stead.kind(), of_stead.to_string()), (kind, of_part.to_string()));
    };
    for (path, kind) in
        [("/ro/x", ErrorKind::Denied), ("/elsewhere", ErrorKind::Denied), ("../x", ErrorKind::Invalid)]
    {
        same(stead.write_file(path, "2").unwrap_err(), stead.vfs().write(path, "2").unwrap_err(), kind);
    }
    for (path, kind) in [("/wo/x", ErrorKind::Denied), ("/rw/missing", ErrorKind::NotFound)] {
        same(stead.read_file(path).unwrap_err(), stead.vfs().read(path).unwrap_err(), kind);
    }
    let large = "x".repeat(2_000);
    let (of_stead, of_part) = (stead.write_file("/rw/y", &*large), stead.vfs().write("/rw/y", &*large));
    same(of_stead.unwrap_err(), of_part.unwrap_err(), ErrorKind::Quota);

    // One record each, whichever of the two was called. The records of reads are there when the audit was closed.
    drop((stead, stores));
    let access = Stores::of(&config).audit_access().unwrap().unwrap();
    let records = |call: &str| {
        let query = AuditQuery { call: Some(call.to_owned()), ..AuditQuery::default() };
        access.page(&query, None, 100).unwrap().entries.len()
    };
    assert_eq!((records("write"), records("read")), (1 + 2 * 3 + 2, 1 + 2 * 2));
}

/// Stead's own operations have the author `system`. An agent of that name could undo them.
#[test]
fn s25_no_agent_has_the_name_of_stead_itself() {
    let workspace = "[[agents.system.workspaces]]\nprefix = \"/w\"\nstore = \"s\"\nscope = \"rw\"\n";
    let text = format!("[stores.s]\nkind = \"memory\"\n{workspace}");
    let directory = tempfile::tempdir().unwrap();
    let parse = |text: &str| Config::parse(text, &directory.path().join("stead.toml"));
    let config = parse(&text).unwrap_err().to_string();
    let builder =
        Stead::builder("system").workspace("/w", AccessScope::ReadWrite, Arc::new(MemoryStore::new()));
    let builder = builder.build().unwrap_err().to_string();
    let config_of_coder = parse(&text.replace("system", "coder")).unwrap();
    let tokens = Tokens::of(&config_of_coder);
    let token = tokens.create(Identity::agent("system"), None, SystemClock.now()).unwrap_err().to_string();
    for refusal in [config, builder, token] {
        assert!(refusal.contains("`system` is the name of Stead itself"), "{refusal}");
    }
    assert!(tokens.list().unwrap().is_empty());
    let scoped = ScopedDirectory { path: directory.path().to_owned(), scope: AccessScope::ReadWrite };
    assert!(Config::for_directories("system", &[scoped]).is_err());
    // What a removed agent is given.
    Stead::builder("system").build().unwrap();
}
