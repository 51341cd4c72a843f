//! Which path an agent perhaps meant by one that doesn't exist, and what no suggestion tells.

use super::*;

fn message(tools: &Toolbox, name: &str, path: &str) -> String {
    let error = failure(tools, name, json!({ "path": path }));
    assert_eq!(error.kind, ErrorKind::NotFound, "{}", error.message);
    error.message
}

fn toolbox_with_files(files: &[&str]) -> Toolbox {
    let tools = toolbox_with_all_scopes();
    for path in files {
        tools.vfs().write(*path, "text").unwrap();
    }
    tools
}

#[test]
fn a_missing_path_suggests_the_one_that_was_meant() {
    let tools = toolbox_with_files(&["/rw/src/app.py", "/rw/src/deep/er/util.py", "/rw/README.md"]);
    for (missing, meant) in [
        ("/rw/src/ap.py", "/rw/src/app.py"),
        ("/rw/scr/app.py", "/rw/src/app.py"),
        ("/rw/app.py", "/rw/src/app.py"),
        ("/rw/lib/app.py", "/rw/src/app.py"),
        ("/rw/src/util.py", "/rw/src/deep/er/util.py"),
        ("/rw/readme", "/rw/README.md"),
        ("/ro/sorc", "/ro/src"),
    ] {
        let expected = format!("`{missing}` does not exist; did you mean `{meant}`?");
        assert_eq!(message(&tools, "stat", missing), expected);
    }
    let unlike_any = "`/rw/src/other` does not exist; list its directory to see what does";
    assert_eq!(message(&tools, "stat", "/rw/src/other"), unlike_any);
    for name in ["read_file", "list_directory", "delete_file"] {
        let expected = "`/rw/src/ap.py` does not exist; did you mean `/rw/src/app.py`?";
        assert_eq!(message(&tools, name, "/rw/src/ap.py"), expected, "{name}");
    }
    let edit = json!({ "path": "/rw/src/ap.py", "old_string": "a", "new_string": "b" });
    assert!(failure(&tools, "edit_file", edit).message.ends_with("did you mean `/rw/src/app.py`?"));
}

#[test]
fn no_suggestion_tells_what_a_listing_would_not() {
    let store = Arc::new(ModelStore::new());
    let other_store = Arc::new(ModelStore::new());
    toolbox([workspace("/", ReadWrite, &store)]).vfs().write("/inbox/secret.txt", "1").unwrap();
    toolbox([workspace("/", ReadWrite, &other_store)]).vfs().write("/secret.txt", "1").unwrap();
    // The Store has a directory `inbox` that a WRITE_ONLY Workspace covers, and `/vault` needs approval.
    let vault = workspace("/w/vault", ReadOnly, &other_store);
    let tools = toolbox([
        workspace("/w", ReadWrite, &store),
        workspace("/w/inbox", WriteOnly, &other_store),
        vault.with_approval_policy(ApprovalPolicy::Everything),
    ]);
    for missing in ["/w/secret.txt", "/w/sub/secret.txt", "/w/secrt.txt", "/w/inbx"] {
        let message = message(&tools, "stat", missing);
        assert!(!message.contains("did you mean"), "{message}");
    }
    let denied = failure(&tools, "stat", json!({ "path": "/w/inbox/secrt.txt" }));
    assert!(denied.kind == ErrorKind::Denied && !denied.message.contains("secret.txt"), "{}", denied.message);
}

#[test]
fn an_agent_that_can_not_list_gets_no_suggestion() {
    let tools = toolbox_with_files(&["/rw/app.py"]);
    let suggests = |choice: ToolChoice| {
        message(&tools.clone().with_choice(choice), "read_file", "/rw/ap.py").contains("did you mean")
    };
    assert!(suggests(ToolChoice::default()));
    let only = ["read_file".to_owned()].into();
    assert!(!suggests(ToolChoice { only: Some(only), ..ToolChoice::default() }));
    let ask = ["list_directory".to_owned()].into();
    assert!(!suggests(ToolChoice { ask, ..ToolChoice::default() }));
}

#[test]
fn a_suggestion_leaves_no_audit_record_of_its_own() {
    let audit_log = Arc::new(MemoryAuditLog::new());
    let store = Arc::new(ModelStore::new());
    let builder = Vfs::builder(Identity::agent("tester")).audit(audit_log.clone());
    let tools = Toolbox::new(builder.workspace(workspace("/rw", ReadWrite, &store)).build().unwrap());
    tools.vfs().write("/rw/app.py", "").unwrap();
    audit_log.take();
    assert!(message(&tools, "stat", "/rw/ap.py").contains("did you mean"));
    assert_eq!(audit_log.take().len(), 1);
}

#[test]
fn a_near_name_is_found_in_a_large_directory() {
    let tools = toolbox_with_all_scopes();
    for number in 0..3_000 {
        tools.vfs().write(&*format!("/rw/file-{number:05}.txt"), "").unwrap();
    }
    tools.vfs().write("/rw/report-summary.txt", "").unwrap();
    let message = message(&tools, "stat", "/rw/report-sumary.txt");
    assert!(message.ends_with("did you mean `/rw/report-summary.txt`?"), "{message}");
}
