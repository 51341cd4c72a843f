//! The tools for a State.

use super::schemas::assert_matches_schema;
use super::*;
use crate::filesystem_map::filesystem_map;

const STATE_TOOLS: [&str; 4] = ["state_delete", "state_get", "state_list", "state_set"];

/// A READ_ONLY Workspace, a State and an audit log.
fn toolbox_with_state() -> (Toolbox, Arc<MemoryAuditLog>) {
    let log = Arc::new(MemoryAuditLog::default());
    let builder = Vfs::builder(Identity::agent("tester")).audit(log.clone());
    let builder = builder.workspace(workspace("/ro", ReadOnly, &Arc::new(ModelStore::new())));
    (Toolbox::new(builder.state(Arc::new(ModelStore::new())).build().unwrap()), log)
}

fn names(tools: &Toolbox) -> Vec<&'static str> {
    tools.offered().map(|tool| tool.name).collect()
}

#[test]
fn s5_state_tools_are_offered_only_where_the_stead_has_a_state() {
    let (tools, _) = toolbox_with_state();
    let without = toolbox_with_all_scopes();
    for name in STATE_TOOLS {
        assert!(names(&tools).contains(&name), "{name}");
        assert!(!names(&without).contains(&name), "{name}");
        assert_eq!(failure(&without, name, json!({ "key": "a", "value": "1" })).kind, ErrorKind::Denied);
    }
    assert!(!names(&tools).contains(&"write_file"), "the State makes no Workspace writable");
    assert_eq!(
        filesystem_map(&tools).lines().last().unwrap(),
        "You also have a State: keys with JSON values that are yours alone (`state_delete`, `state_get`, `state_list`, \
         `state_set`)."
    );
    assert!(!filesystem_map(&without).contains("State"));
    for tool in tools.offered().filter(|tool| STATE_TOOLS.contains(&tool.name)) {
        assert!(!tools.description(tool).contains("Workspaces:"), "{}", tool.name);
    }
}

#[test]
fn s5_a_list_of_tools_chooses_among_the_state_tools() {
    let (tools, _) = toolbox_with_state();
    let only = Some(["state_get", "write_file"].map(str::to_owned).into());
    let chosen = tools.clone().with_choice(ToolChoice { only, ..ToolChoice::default() });
    assert_eq!(names(&chosen), ["state_get"]);
    assert!(filesystem_map(&chosen).contains("(`state_get`)"));
    let history = ToolChoice { history: true, ..ToolChoice::default() };
    let with_history = names(&tools.with_choice(history));
    for name in ["undo", "restore", "snapshot"] {
        assert!(with_history.contains(&name), "{name}: {with_history:?}");
    }
    // A hint names no tool that isn't offered.
    assert_eq!(
        failure(&chosen, "state_get", json!({ "key": "none" })).message,
        "`state:default/none` does not exist"
    );
}

#[test]
fn s17_the_tools_set_read_list_and_delete_keys() {
    let (tools, _) = toolbox_with_state();
    let checked = |name: &str, arguments: Value| {
        let (text, facts) = call_ok(&tools, name, arguments);
        assert_matches_schema(
            &facts.clone().into(),
            &super::super::tool(name).unwrap().output_schema().into(),
            name,
        );
        (text, facts)
    };
    let (text, first) = checked("state_set", json!({ "key": "jobs/next", "value": "{\"n\": 1}" }));
    assert_eq!(text, "Created state:default/jobs/next.");
    assert_eq!(first["created"], true);
    let (text, _) =
        checked("state_set", json!({ "key": "jobs/next", "value": "2", "if_match": first["version_tag"] }));
    assert_eq!(text, "Set state:default/jobs/next.");
    let (text, facts) = checked("state_get", json!({ "key": "jobs/next" }));
    assert_eq!((&*text, &facts["size"]), ("2", &json!(1)));
    checked("state_set", json!({ "key": "lock", "value": "true", "expires_in": "2h", "namespace": "n" }));
    let (text, facts) = checked("state_list", json!({ "namespace": "n" }));
    assert!(text.starts_with("lock\t4\t") && text.contains("\texpires 20"), "{text}");
    assert_eq!(facts["keys"][0]["key"], "lock");
    let (text, facts) = checked("state_list", json!({ "prefix": "jobs/" }));
    assert!(text.starts_with("jobs/next\t1\t") && facts.get("cursor").is_none(), "{text}");
    assert_eq!(checked("state_list", json!({ "prefix": "x" })).0, "(no keys)\n");
    assert_eq!(checked("state_delete", json!({ "key": "jobs/next" })).0, "Deleted state:default/jobs/next.");
    let missing = failure(&tools, "state_get", json!({ "key": "jobs/next" }));
    assert_eq!(
        (missing.kind, &*missing.message),
        (ErrorKind::NotFound, "`state:default/jobs/next` does not exist; `state_list` shows the keys")
    );
    assert_eq!(failure(&tools, "state_delete", json!({ "key": "jobs/next" })).kind, ErrorKind::NotFound);
}

#[test]
fn s17_a_model_reads_the_value_and_what_it_needs_to_change_it() {
    let (tools, _) = toolbox_with_state();
    let (_, facts) = call_ok(&tools, "state_set", json!({ "key": "a", "value": "[1]" }));
    let tag: crate::store::VersionTag = facts["version_tag"].as_str().unwrap().parse().unwrap();
    let blocks = call(&tools, "state_get", json!({ "key": "a" })).for_model();
    assert_eq!(blocks[0].as_text().unwrap(), format!("[1]\n[version_tag {}]", tag.short()));
    let conflict =
        failure(&tools, "state_set", json!({ "key": "a", "value": "2", "if_match": "0123456789ab" }));
    assert_eq!(conflict.kind, ErrorKind::Conflict);
    assert!(
        conflict.message.contains(&format!("its version_tag is {} now", tag.short())),
        "{}",
        conflict.message
    );
    let exists = failure(&tools, "state_set", json!({ "key": "a", "value": "2", "create_only": true }));
    assert_eq!(exists.kind, ErrorKind::AlreadyExists);
    assert!(exists.message.contains(&tag.short().to_string()), "{}", exists.message);
}

#[test]
fn s17_answers_are_bounded() {
    let (tools, _) = toolbox_with_state();
    let long = format!("\"{}\"", "x".repeat(50_000));
    call_ok(&tools, "state_set", json!({ "key": "long", "value": long }));
    let (mut offset, mut joined) = (0, String::new());
    loop {
        let (text, facts) = call_ok(&tools, "state_get", json!({ "key": "long", "offset": offset }));
        assert!(text.len() < 20_000);
        joined.push_str(&text);
        match facts.get("next_offset") {
            Some(next) => offset = next.as_u64().unwrap(),
            None => break,
        }
    }
    assert_eq!(joined, long);
    let state = tools.vfs().state().unwrap();
    for n in 0..60 {
        let key = format!("{n:03}{}", "k".repeat(500));
        state.set(&key, "1", &Default::default()).unwrap();
    }
    let (mut cursor, mut keys) = (Value::Null, Vec::new());
    loop {
        let (text, facts) = call_ok(&tools, "state_list", json!({ "cursor": cursor, "prefix": "0" }));
        assert!(text.len() < 20_000);
        keys.extend(
            facts["keys"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap().to_owned()),
        );
        match facts.get("cursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(keys.len(), 60);
    assert!(keys.is_sorted());
}

#[test]
fn s17_wrong_arguments_are_refused_with_a_sentence_and_recorded_without_the_value() {
    let (tools, log) = toolbox_with_state();
    for (arguments, part) in [
        (json!({ "key": "a", "value": "done" }), "isn't valid JSON: expected value at line 1, column 1"),
        (json!({ "key": "a", "value": "1", "expires_in": "soon" }), "`expires_in`: `soon` doesn't say"),
        (json!({ "key": "a", "value": "1", "namespace": "a/b" }), "a namespace has 1 to 64 letters"),
        (json!({ "key": "a\u{0}", "value": "1" }), "control character U+0000"),
        (json!({ "key": "a".repeat(513), "value": "1" }), "at most 512"),
        (json!({ "key": "a", "value": "1", "if_match": "0123456789ab", "create_only": true }), "not both"),
    ] {
        let failure = failure(&tools, "state_set", arguments);
        assert_eq!(failure.kind, ErrorKind::Invalid);
        assert!(failure.message.contains(part), "{}", failure.message);
    }
    let records = log.take();
    assert_eq!(records.len(), 6);
    assert!(records.iter().all(|record| record.call == "state_set"));
    assert!(!format!("{records:?}").contains("done"));
}

#[test]
fn s17_a_person_is_asked_before_a_state_tool_that_needs_approval() {
    let (tools, log) = toolbox_with_state();
    let ask = STATE_TOOLS.map(str::to_owned).into();
    let asking = tools.clone().with_choice(ToolChoice { ask, ..ToolChoice::default() });
    let arguments = json!({ "key": "a", "value": "1" });
    let question = asking.call("state_set", object(arguments.clone()), ApprovalAnswer::NotAsked).unwrap_err();
    assert!(
        question.text.starts_with("May the agent `tester` use `state_set` on `state:default/a`?"),
        "{}",
        question.text
    );
    assert!(log.take().is_empty() && tools.vfs().state().unwrap().get("a").unwrap().is_none());
    let refused = asking.call("state_set", object(arguments.clone()), ApprovalAnswer::Refused).unwrap();
    assert_eq!(refused.failure.unwrap().kind, ErrorKind::Denied);
    let other = json!({ "key": "b", "value": "1" });
    let approval = question.approve();
    asking.call("state_set", object(other), approval.clone()).unwrap_err();
    assert!(!asking.call("state_set", object(arguments), approval).unwrap().is_failure());
    for (name, arguments, what) in [
        ("state_get", json!({ "key": "a" }), "state:default/a"),
        ("state_delete", json!({ "key": "a" }), "state:default/a"),
        ("state_list", json!({}), "state:default"),
    ] {
        let question = asking.call(name, object(arguments), ApprovalAnswer::NotAsked).unwrap_err();
        assert!(question.text.contains(&format!("use `{name}` on `{what}`?")), "{}", question.text);
    }
}
