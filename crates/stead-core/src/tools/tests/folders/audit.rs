//! The audit records of folder tools.

use crate::audit::{AuditOutcome, AuditRecord};
use crate::clock::Clock;

use super::*;

/// The record of a call, without the one that announces it.
fn record_of(office: &Office, tools: &Toolbox, name: &str, arguments: Value) -> AuditRecord {
    office.audit_log.take();
    let _ = call(tools, name, arguments);
    let mut records = office.audit_log.take();
    records.retain(|record| record.outcome != AuditOutcome::Begun);
    assert_eq!(records.len(), 1, "{name}: {records:?}");
    assert_eq!(records[0].call, name);
    records.remove(0)
}

fn facts(record: &AuditRecord) -> Vec<String> {
    record.facts.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

#[test]
fn f152_and_f153_every_call_has_one_record_with_the_folder_and_how_its_id_resolved() {
    let office = Office::new();
    office.put("team-hr/private", "a.md", "secret content");
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "team_private", "team-hr/private");
    let finance = folder_id(&marcus, "org_shared", "team-fin/shared");
    let file = json!({ "folderId": id, "filename": "a.md" });
    let hit = |file: &str| {
        [
            "folder.id=hit",
            "folder.owner=team-hr",
            "folder.owner_type=team",
            "folder.visibility=private",
            "folder.scope=team_private",
            &format!("folder.file={file}"),
        ]
        .map(str::to_owned)
    };
    let write = json!({ "folderId": id, "filename": "b.md", "content": "secret content" });
    for (name, arguments, outcome, file) in [
        ("read_file_by_id", file.clone(), "ok", "a.md"),
        ("read_file_by_id", json!({ "folderId": id, "filename": "no.md" }), "failed", "no.md"),
        ("read_file_by_id", json!({ "folderId": id, "filename": "../no" }), "failed", "../no"),
        ("get_file_info_by_id", file.clone(), "ok", "a.md"),
        ("write_file_by_id", write.clone(), "ok", "b.md"),
        // Once it creates the file, and once it updates it.
        ("write_file_by_id", write.clone(), "ok", "b.md"),
        ("append_to_file_by_id", write, "ok", "b.md"),
        ("delete_file_by_id", file.clone(), "ok", "a.md"),
        ("delete_file_by_id", file, "ok", "a.md"),
    ] {
        office.clock.advance(std::time::Duration::from_secs(7));
        let record = record_of(&office, &marcus, name, arguments);
        assert_eq!((record.outcome.as_str(), facts(&record)), (outcome, hit(file).to_vec()), "{name}");
        assert_eq!(record.at, office.clock.now(), "{name}");
        let reason = match (outcome, file) {
            ("ok", _) => None,
            (_, "no.md") => Some("not_found"),
            _ => Some("invalid"),
        };
        assert_eq!(record.outcome.code(), reason, "{name}");
        assert_eq!(&*record.identity.agent, "marcus");
        assert!(record.paths[0].as_str().starts_with("/workspaces/team-hr/private"), "{:?}", record.paths);
        assert!(!format!("{record:?}").contains("secret content"));
    }
    let denied = json!({ "folderId": finance, "filename": "x", "content": "secret content" });
    let record = record_of(&office, &marcus, "write_file_by_id", denied);
    assert_eq!((record.outcome, record.outcome.code()), (AuditOutcome::Denied, Some("denied")));
    assert!(facts(&record).contains(&"folder.owner=team-fin".to_owned()), "{:?}", facts(&record));
    for (id, lookup, reason) in [(id.clone(), "expired", "expired"), ("x".to_owned(), "unknown", "not_found")]
    {
        office.clock.advance(std::time::Duration::from_secs(31 * 60));
        let unresolved = json!({ "folderId": id, "filename": "a.md" });
        let record = record_of(&office, &marcus, "read_file_by_id", unresolved);
        assert_eq!((record.outcome.as_str(), record.outcome.code()), ("failed", Some(reason)));
        assert_eq!(facts(&record), [format!("folder.id={lookup}"), "folder.file=a.md".to_owned()]);
    }
}

#[test]
fn f152_discovery_copies_subfolders_and_batches_have_one_record_each() {
    let office = Office::new();
    let marcus = office.tools("marcus");
    let own = folder_id(&marcus, "my_private", "marcus/private");
    let team = folder_id(&marcus, "team_shared", "team-hr/shared");
    write(&marcus, &own, "a.md", "x");
    let record = record_of(&office, &marcus, "list_folders", json!({ "scope": "org_shared" }));
    assert_eq!(
        (facts(&record), record.paths),
        (vec!["folder.scope=org_shared".to_owned()], vec![all_folders()])
    );
    let record = record_of(&office, &marcus, "list_folders", json!({ "scope": "my_private" }));
    assert_eq!(record.paths[0].as_str(), "/workspaces/marcus/private");
    let record =
        record_of(&office, &office.tools("solo"), "list_folders", json!({ "scope": "team_private" }));
    assert_eq!(
        (record.outcome.as_str(), facts(&record)),
        ("ok", vec!["folder.scope=team_private".to_owned()])
    );
    let record = record_of(&office, &marcus, "list_folders", json!({ "scope": "nowhere" }));
    assert_eq!(record.outcome.as_str(), "failed");

    let copy = json!({ "sourceFolderId": own, "sourceFilename": "a.md", "destFolderId": team, "destFilename": "b.md" });
    for name in ["copy_file_by_id", "move_file_by_id"] {
        let record = record_of(&office, &marcus, name, copy.clone());
        assert_eq!(record.paths.len(), 2, "{name}");
        assert!(facts(&record).contains(&"folder.owner=marcus, team-hr".to_owned()), "{:?}", facts(&record));
        assert!(facts(&record).contains(&"folder.file=a.md, b.md".to_owned()), "{:?}", facts(&record));
    }
    let record =
        record_of(&office, &marcus, "create_folder", json!({ "scope": "my_shared", "folderName": "d" }));
    assert!(facts(&record).contains(&"folder.file=d".to_owned()), "{:?}", facts(&record));

    let operations = json!({ "operations": [
        { "folderId": own, "filename": "1", "content": "x" },
        { "folderId": team, "filename": "2", "content": "x" },
        { "folderId": "x", "filename": "3", "content": "x" },
    ] });
    let record = record_of(&office, &marcus, "write_multiple_files_by_id", operations);
    assert_eq!((record.outcome, record.file_count), (AuditOutcome::Failed(ErrorKind::NotFound), Some(2)));
    assert!(facts(&record).contains(&"folder.id=hit, unknown".to_owned()), "{:?}", facts(&record));
    assert!(facts(&record).contains(&"folder.file=1, 2, 3".to_owned()), "{:?}", facts(&record));
    let many: Vec<_> =
        (0..100).map(|n| json!({ "folderId": own, "filename": format!("{}{n}", "x".repeat(200)) })).collect();
    let record = record_of(&office, &marcus, "read_multiple_files_by_id", json!({ "operations": many }));
    assert_eq!(record.file_count, Some(0));
}

#[test]
fn f153_the_record_of_a_batch_says_denied_if_one_of_its_operations_was() {
    let office = Office::new();
    let marcus = office.tools("marcus");
    let own = folder_id(&marcus, "my_private", "marcus/private");
    let team = folder_id(&marcus, "team_private", "team-hr/private");
    let file = |id: &str, name: &str| json!({ "folderId": id, "filename": name, "content": "x" });
    let write = |tools: &Toolbox| {
        let operations = json!({ "operations": [file("x", "1"), file(&team, "2"), file(&own, "3")] });
        let record = record_of(&office, tools, "write_multiple_files_by_id", operations);
        (record.outcome, record.file_count)
    };
    assert_eq!(write(&marcus), (AuditOutcome::Failed(ErrorKind::NotFound), Some(2)));
    let mut changed = records();
    changed.agents[0] = AgentRecord::new("marcus", "Marcus").in_team("team-fin");
    let marcus = office.changed(changed).tools("marcus");
    assert_eq!(write(&marcus), (AuditOutcome::Denied, Some(1)));
    let whole = json!({ "operations": [file(&own, "4"), file(&own, "5")] });
    let record = record_of(&office, &marcus, "write_multiple_files_by_id", whole);
    assert_eq!((record.outcome, record.file_count), (AuditOutcome::Ok, Some(2)));
}

fn all_folders() -> VfsPath {
    VfsPath::parse("/workspaces").unwrap()
}
