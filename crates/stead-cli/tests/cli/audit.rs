//! `stead audit` as people and scripts use it.

use crate::common::{Running, TestDir};
use insta::assert_snapshot;

/// A directory in which a few things were done.
fn dir_with_records() -> TestDir {
    let dir = TestDir::new();
    dir.stead(["cat", "/project/README.md"]);
    dir.stead(["write", "/project/README.md", "mine"]);
    dir.stead(["write", "/notes/plan.md", "my secret plan"]);
    dir.stead(["cp", "/notes/plan.md", "/notes/old/plan.md"]);
    dir.stead(["rm", "/notes/nothing"]);
    dir
}

/// The output without what differs from run to run: times and durations.
fn without_times(output: &str) -> String {
    let line = |line: &str| {
        let Some(rest) = line.strip_prefix("20").and_then(|line| line.get(21..)) else {
            return line.to_owned();
        };
        let words: Vec<_> = rest.split_whitespace().collect();
        let unit = words.iter().position(|word| ["µs", "ms", "s"].contains(word)).unwrap();
        [&words[..unit - 1], &words[unit + 1..]].concat().join(" ")
    };
    output.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn records_are_shown_newest_first() {
    let dir = dir_with_records();
    assert_snapshot!(without_times(&dir.run(["audit"])), @r"
    coder rm failed not_found /notes/nothing
    coder cp ok /notes/plan.md -> /notes/old/plan.md
    coder write ok 14 B /notes/plan.md
    coder write denied 4 B /project/README.md
    coder cat ok 29 B /project/README.md
    ");
    assert_snapshot!(without_times(&dir.run(["audit", "--outcome", "denied"])), @"coder write denied 4 B /project/README.md");
    assert_snapshot!(without_times(&dir.run(["audit", "--path", "/notes/old"])), @"coder cp ok /notes/plan.md -> /notes/old/plan.md");
    assert_snapshot!(without_times(&dir.run(["audit", "--call", "cat", "--since", "1h", "--agent", "coder"])), @"coder cat ok 29 B /project/README.md");
    assert_snapshot!(dir.run(["audit", "--agent", "nobody"]), @"! No records match.");
    assert_snapshot!(dir.run(["audit", "--until", "2001-01-01"]), @"! No records match.");
    assert_snapshot!(dir.run(["audit", "--path", "/../x"]), @r"
    ! stead: `/../x` goes above `/`; paths start at `/` and can't leave it
    exit 2
    ");
}

#[test]
fn facts_are_shown_exported_and_asked_for() {
    let dir = dir_with_records();
    let config = stead::Config::load(&dir.path("stead.toml")).unwrap();
    let facts = [("folder.id", "f 1".into()), ("exit", stead::FactValue::Integer(7))];
    let facts = facts.into_iter().fold(stead::AuditFacts::default(), |facts, (name, value)| {
        facts.with(stead::FactName::new(name).unwrap(), value).unwrap()
    });
    let coder = stead::Stead::open(&config, "coder").unwrap().with_facts(facts);
    coder.vfs().exists("/notes/plan.md").unwrap();
    drop(coder);
    let line = "coder exists ok /notes/plan.md folder.id=f 1 exit=7";
    assert_eq!(without_times(&dir.run(["audit", "--fact", "exit=7", "--fact", "folder.id=f 1"])), line);
    assert!(
        dir.run(["audit", "--fact", "exit=7", "--json"]).contains(r#""facts":{"folder.id":"f 1","exit":7}"#)
    );
    let table = dir.run(["audit", "export", "--format", "csv", "--fact", "exit=7"]);
    assert!(table.ends_with(r#","{""folder.id"":""f 1"",""exit"":7}""#), "{table}");
    assert_snapshot!(dir.run(["audit", "--fact", "exit=8"]), @"! No records match.");
    assert!(dir.run(["audit", "--fact", "exit"]).contains("NAME=VALUE"));
    assert!(dir.run(["audit", "--fact", "agent=coder"]).contains("can't name a fact"));
}

#[test]
fn a_cursor_leads_to_the_next_page_of_records() {
    let dir = dir_with_records();
    let output = dir.run(["audit", "--limit", "3"]);
    let (_, cursor) = output.split_once("--cursor ").unwrap();
    let rest = without_times(&dir.run(["audit", "--limit", "3", "--cursor", cursor]));
    assert_snapshot!(rest, @r"
    coder write denied 4 B /project/README.md
    coder cat ok 29 B /project/README.md
    ");
}

#[test]
fn records_contain_neither_content_nor_host_paths() {
    let dir = dir_with_records();
    let exported = dir.run(["audit", "export"]);
    assert_eq!(exported.lines().count(), 5);
    assert!(!exported.contains("secret"), "{exported}");
    for line in exported.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["agent"], "coder");
    }
    let json = dir.run(["audit", "--json", "--limit", "9"]);
    let newest_first: Vec<_> = exported.lines().rev().collect();
    assert_eq!(json.lines().collect::<Vec<_>>(), newest_first);
}

#[test]
fn records_are_exported_as_a_table_into_a_file() {
    let dir = dir_with_records();
    assert_snapshot!(dir.run(["audit", "export", "--format", "csv", "--output", "a.csv"]), @"! Wrote 5 records to a.csv");
    let table = std::fs::read_to_string(dir.path("a.csv")).unwrap();
    let header = "at,stead,agent,thread,organization,team,call,path,path2,scope,outcome,code,dry_run,bytes,files,took_us,operation,version,instance,seq,facts";
    assert_eq!(table.lines().next(), Some(header));
    assert_eq!(table.lines().count(), 6);
    assert!(table.lines().all(|line| line.split(',').count() == 21));
    assert!(table.contains(",cp,/notes/plan.md,/notes/old/plan.md,READ_WRITE,ok,"));
    assert_snapshot!(dir.run(["audit", "export", "--output", "a.csv"]), @r"
    ! stead: `a.csv` exists already; choose another name
    exit 1
    ");
}

#[test]
fn the_audit_is_checked_and_archived() {
    let dir = dir_with_records();
    let output = dir.run(["audit", "verify"]);
    assert!(
        output.starts_with(
            "audit: 5 records in 5 chains, 5 signatures: nothing is wrong\n! The key of the audit is "
        ),
        "{output}"
    );
    let output = dir.run(["audit", "archive", "--before", "2100-01-01", "--to", "old"]);
    let file = output.strip_prefix("! Moved 5 records to ").unwrap();
    assert!(file.starts_with("old/audit-"), "{file}");
    assert_eq!(
        dir.run(["audit", "verify", file]),
        format!("{file}: 5 records in 5 chains, 5 signatures: nothing is wrong")
    );
    dir.stead(["ls"]);
    let output = dir.run(["audit", "verify"]);
    assert!(
        output.starts_with(
            "audit: 1 record in 1 chain, 1 signature: nothing is wrong\n  5 records are in archives"
        ),
        "{output}"
    );
    assert_eq!(without_times(&dir.run(["audit"])), "coder ls ok /");
    assert_snapshot!(dir.run(["audit", "archive", "--before", "2001-01-01"]), @"! There are no records to move.");
    // Without its database, the files next to it still show that there was one.
    for name in ["stead.db", "stead.db-wal", "stead.db-shm"] {
        let _ = std::fs::remove_file(dir.path(".stead").join(name));
    }
    let output = dir.run(["audit", "verify"]);
    assert!(
        output.contains("the database file is missing or empty, but there was a database here"),
        "{output}"
    );
    assert!(output.contains("stead restore-backup"), "{output}");
    assert!(output.ends_with("exit 70"), "{output}");
}

#[test]
fn audit_follow_shows_new_records() {
    use std::io::{BufRead, BufReader};
    let dir = dir_with_records();
    let mut command = dir.command(["audit", "--follow", "--json"]);
    let mut child = Running::spawn(command.stdout(std::process::Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.by_ref().take(5).filter(|line| line.contains("/notes/nothing")).count(), 1);
    dir.stead(["stat", "/notes/plan.md"]);
    assert!(lines.next().unwrap().contains("\"call\":\"stat\""));
}

#[test]
fn without_a_writable_audit_every_call_fails_unless_the_audit_is_disabled() {
    let dir = TestDir::new();
    // A file is in the place of the audit's directory.
    dir.file(".stead/audit", "");
    assert_snapshot!(dir.run(["ls"]), @r"
    ! stead: every call needs an audit record, and the audit can't be opened: the files of the audit can't be written; make the state directory `.stead` and the database writable, or turn the audit off: `enabled = false` under [audit]
    exit 75
    ");
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    dir.file("stead.toml", &format!("{config}\n[audit]\nenabled = false\n"));
    assert_snapshot!(dir.run(["ls"]), @r"
    notes/
    project/
    ");
}

#[test]
fn every_command_has_one_record() {
    let dir = TestDir::new();
    for name in ["from/a", "from/b", "from/deep/c"] {
        dir.file(name, "four");
    }
    let shown_records = |dir: &TestDir| {
        let output = without_times(&dir.run(["audit", "--json"]));
        let records = output.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let lines = records.filter(|record| record["outcome"] != "begun").map(|record| {
            let number = |key: &str| record[key].as_u64().map_or("-".into(), |number| number.to_string());
            let [call, path, outcome] = [&record["call"], &record["paths"][0], &record["outcome"]]
                .map(|value| value.as_str().unwrap_or("-").to_owned());
            assert_eq!(record["stead"], "coder");
            format!("{call} {path} {outcome} {} {}", number("bytes"), number("files"))
        });
        let mut lines: Vec<_> = lines.collect();
        lines.reverse();
        lines.join("\n")
    };
    dir.stead(["import", "from", "/notes/in"]);
    dir.stead(["import", "from", "/notes/in"]);
    dir.stead(["tree", "/notes"]);
    dir.stead(["export", "/notes/in", "out"]);
    dir.stead(["export", "--at", "1", "/notes", "out-1"]);
    dir.stead(["cat", "--at", "now", "/notes/in/a", "/notes/in/none"]);
    dir.stead(["cat", "/elsewhere"]);
    dir.stead(["ls", "-l", "/notes/in"]);
    assert_snapshot!(shown_records(&dir), @r"
    import /notes/in ok 12 3
    import /notes/in ok - 0
    tree /notes ok - -
    export /notes/in ok 12 3
    export /notes ok 12 3
    cat /notes/in/a ok 4 -
    cat /notes/in/none failed - -
    cat /elsewhere denied - -
    ls /notes/in ok - -
    ");
    // The change has a record that was committed together with it: the directory with everything that was put into it.
    let begun = dir.run(["audit", "--json", "--outcome", "begun"]);
    assert_eq!(begun.lines().filter(|line| line.contains("\"version\":")).count(), 1, "{begun}");
}

#[test]
fn a_missing_archive_is_reported() {
    let dir = dir_with_records();
    let output = dir.run(["audit", "archive", "--before", "2100-01-01"]);
    let file = output.strip_prefix("! Moved 5 records to .stead/audit/archive/").unwrap();
    let archived_path = dir.path(".stead/audit/archive").join(file);
    std::fs::rename(&archived_path, dir.path(file)).unwrap();
    let output = dir.run(["audit", "verify"]);
    assert!(
        output.contains("1 problem\n") && output.contains("isn't in the directory that it was written to"),
        "{output}"
    );
    assert!(output.ends_with("exit 70"), "{output}");
    for options in [&["audit", "verify", "--archives", "."][..], &["audit", "verify", "--without-archives"]] {
        let output = dir.run(options.iter().copied());
        assert!(
            output.contains("nothing is wrong") && output.contains("5 records are in archives"),
            "{output}"
        );
    }
}

#[test]
fn a_second_database_in_one_state_directory_is_refused_until_the_first_one_is_used_again() {
    let dir = dir_with_records();
    let first = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    let second = format!("[database]\nurl = \"sqlite:other.db\"\n{first}");
    dir.file("stead.toml", &second);
    assert_snapshot!(dir.run(["write", "/notes/a", "1"]), @r"
    ! stead: every call needs an audit record, and the audit can't be opened: the state directory has the audit of another database; name that database in [database], or move it to the file that is named there; if it is lost, restore a backup, or move `audit` out of the state directory; a second database needs a stead.toml in a directory of its own
    exit 2
    ");
    let verified = dir.run(["audit", "verify"]);
    assert!(
        verified.contains("the audit of another database") && verified.ends_with("exit 70"),
        "{verified}"
    );
    dir.file("stead.toml", &first);
    assert_snapshot!(dir.run(["write", "/notes/a", "1"]), @"! Created /notes/a");
    let verified = dir.run(["audit", "verify"]);
    assert!(!verified.contains("exit"), "{verified}");
    // The first database is lost with everything beside it, except the audit.
    dir.stead(["backup", "backup.db"]);
    for suffix in ["", "-wal", "-shm", "-turn", "-next", "-version", "-reserve"] {
        let _ = std::fs::remove_file(dir.path(&format!(".stead/stead.db{suffix}")));
    }
    assert!(dir.run(["ls", "/notes"]).contains("the audit of another database"));
    assert!(dir.stead(["restore-backup", "backup.db", "--yes"]).status.success());
    assert!(dir.run(["ls", "/notes"]).contains("plan.md"));
}
