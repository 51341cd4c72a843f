//! `stead audit` as people and scripts use it.

use crate::common::{Place, Running};
use insta::assert_snapshot;

/// A directory in which a few things were done.
fn used() -> Place {
    let place = Place::new();
    place.stead(["cat", "/project/README.md"]);
    place.stead(["write", "/project/README.md", "mine"]);
    place.stead(["write", "/notes/plan.md", "my secret plan"]);
    place.stead(["cp", "/notes/plan.md", "/notes/old/plan.md"]);
    place.stead(["rm", "/notes/nothing"]);
    place
}

/// The output without what differs from run to run: times and durations.
fn steady(told: &str) -> String {
    let line = |line: &str| {
        let Some(rest) = line.strip_prefix("20").and_then(|line| line.get(21..)) else {
            return line.to_owned();
        };
        let words: Vec<_> = rest.split_whitespace().collect();
        let unit = words.iter().position(|word| ["µs", "ms", "s"].contains(word)).unwrap();
        [&words[..unit - 1], &words[unit + 1..]].concat().join(" ")
    };
    told.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_was_done_is_shown_newest_first() {
    let place = used();
    assert_snapshot!(steady(&place.run(["audit"])), @r"
    coder rm failed not_found /notes/nothing
    coder cp ok /notes/plan.md -> /notes/old/plan.md
    coder write ok 14 B /notes/plan.md
    coder write denied 4 B /project/README.md
    coder cat ok 29 B /project/README.md
    ");
    assert_snapshot!(steady(&place.run(["audit", "--outcome", "denied"])), @"coder write denied 4 B /project/README.md");
    assert_snapshot!(steady(&place.run(["audit", "--path", "/notes/old"])), @"coder cp ok /notes/plan.md -> /notes/old/plan.md");
    assert_snapshot!(steady(&place.run(["audit", "--call", "cat", "--since", "1h", "--agent", "coder"])), @"coder cat ok 29 B /project/README.md");
    assert_snapshot!(place.run(["audit", "--agent", "nobody"]), @"! No records match.");
    assert_snapshot!(place.run(["audit", "--until", "2001-01-01"]), @"! No records match.");
    assert_snapshot!(place.run(["audit", "--path", "/../x"]), @r"
    ! stead: `/../x` goes above `/`; paths start at `/` and can't leave it
    exit 2
    ");
}

#[test]
fn facts_are_shown_exported_and_asked_for() {
    let place = used();
    let config = stead::Config::load(&place.path("stead.toml")).unwrap();
    let facts = [("folder.id", "f 1".into()), ("exit", stead::FactValue::Integer(7))];
    let facts = facts.into_iter().fold(stead::AuditFacts::default(), |facts, (name, value)| {
        facts.with(stead::FactName::new(name).unwrap(), value).unwrap()
    });
    let coder = stead::Stead::open(&config, "coder").unwrap().with_facts(facts);
    coder.vfs().exists("/notes/plan.md").unwrap();
    drop(coder);
    let line = "coder exists ok /notes/plan.md folder.id=f 1 exit=7";
    assert_eq!(steady(&place.run(["audit", "--fact", "exit=7", "--fact", "folder.id=f 1"])), line);
    assert!(
        place
            .run(["audit", "--fact", "exit=7", "--json"])
            .contains(r#""facts":{"folder.id":"f 1","exit":7}"#)
    );
    let table = place.run(["audit", "export", "--format", "csv", "--fact", "exit=7"]);
    assert!(table.ends_with(r#","{""folder.id"":""f 1"",""exit"":7}""#), "{table}");
    assert_snapshot!(place.run(["audit", "--fact", "exit=8"]), @"! No records match.");
    assert!(place.run(["audit", "--fact", "exit"]).contains("NAME=VALUE"));
    assert!(place.run(["audit", "--fact", "agent=coder"]).contains("can't name a fact"));
}

#[test]
fn pages_lead_to_one_another() {
    let place = used();
    let told = place.run(["audit", "--limit", "3"]);
    let (_, cursor) = told.split_once("--cursor ").unwrap();
    let rest = steady(&place.run(["audit", "--limit", "3", "--cursor", cursor]));
    assert_snapshot!(rest, @r"
    coder write denied 4 B /project/README.md
    coder cat ok 29 B /project/README.md
    ");
}

#[test]
fn records_tell_neither_content_nor_where_things_are_on_the_host() {
    let place = used();
    let exported = place.run(["audit", "export"]);
    assert_eq!(exported.lines().count(), 5);
    assert!(!exported.contains("secret"), "{exported}");
    for line in exported.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["agent"], "coder");
    }
    let json = place.run(["audit", "--json", "--limit", "9"]);
    let newest_first: Vec<_> = exported.lines().rev().collect();
    assert_eq!(json.lines().collect::<Vec<_>>(), newest_first);
}

#[test]
fn records_are_exported_as_a_table_into_a_file() {
    let place = used();
    assert_snapshot!(place.run(["audit", "export", "--format", "csv", "--output", "a.csv"]), @"! Wrote 5 records to a.csv");
    let table = std::fs::read_to_string(place.path("a.csv")).unwrap();
    let header = "at,stead,agent,thread,organization,team,call,path,path2,scope,outcome,code,dry_run,bytes,files,took_us,operation,version,instance,seq,facts";
    assert_eq!(table.lines().next(), Some(header));
    assert_eq!(table.lines().count(), 6);
    assert!(table.lines().all(|line| line.split(',').count() == 21));
    assert!(table.contains(",cp,/notes/plan.md,/notes/old/plan.md,READ_WRITE,ok,"));
    assert_snapshot!(place.run(["audit", "export", "--output", "a.csv"]), @r"
    ! stead: `a.csv` exists already; choose another name
    exit 1
    ");
}

#[test]
fn the_audit_is_checked_and_archived() {
    let place = used();
    let told = place.run(["audit", "verify"]);
    assert!(
        told.starts_with(
            "audit: 5 records in 5 chains, 5 signatures: nothing is wrong\n! The key of the audit is "
        ),
        "{told}"
    );
    let told = place.run(["audit", "archive", "--before", "2100-01-01", "--to", "old"]);
    let file = told.strip_prefix("! Moved 5 records to ").unwrap();
    assert!(file.starts_with("old/audit-"), "{file}");
    assert_eq!(
        place.run(["audit", "verify", file]),
        format!("{file}: 5 records in 5 chains, 5 signatures: nothing is wrong")
    );
    place.stead(["ls"]);
    let told = place.run(["audit", "verify"]);
    assert!(
        told.starts_with(
            "audit: 1 record in 1 chain, 1 signature: nothing is wrong\n  5 records are in archives"
        ),
        "{told}"
    );
    assert_eq!(steady(&place.run(["audit"])), "coder ls ok /");
    assert_snapshot!(place.run(["audit", "archive", "--before", "2001-01-01"]), @"! There are no records to move.");
    // Without its database, the files next to it still show that there was one.
    for name in ["stead.db", "stead.db-wal", "stead.db-shm"] {
        let _ = std::fs::remove_file(place.path(".stead").join(name));
    }
    let told = place.run(["audit", "verify"]);
    assert!(told.contains("the database file is missing or empty, but there was a database here"), "{told}");
    assert!(told.contains("stead restore-backup"), "{told}");
    assert!(told.ends_with("exit 70"), "{told}");
}

#[test]
fn whoever_follows_sees_what_is_done() {
    use std::io::{BufRead, BufReader};
    let place = used();
    let mut command = place.command(["audit", "--follow", "--json"]);
    let mut child = Running::spawn(command.stdout(std::process::Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.by_ref().take(5).filter(|line| line.contains("/notes/nothing")).count(), 1);
    place.stead(["stat", "/notes/plan.md"]);
    assert!(lines.next().unwrap().contains("\"call\":\"stat\""));
}

#[test]
fn it_can_be_turned_off_and_nothing_is_done_where_it_can_not_be_kept() {
    let place = Place::new();
    // A file is in the place of the audit's directory.
    place.file(".stead/audit", "");
    assert_snapshot!(place.run(["ls"]), @r"
    ! stead: every call needs an audit record, and the audit can't be opened: the files of the audit can't be written; make the state directory `.stead` and the database writable, or turn the audit off: `enabled = false` under [audit]
    exit 75
    ");
    let config = std::fs::read_to_string(place.path("stead.toml")).unwrap();
    place.file("stead.toml", &format!("{config}\n[audit]\nenabled = false\n"));
    assert_snapshot!(place.run(["ls"]), @r"
    notes/
    project/
    ");
}

#[test]
fn a_command_is_one_record() {
    let place = Place::new();
    for name in ["from/a", "from/b", "from/deep/c"] {
        place.file(name, "four");
    }
    let told = |place: &Place| {
        let told = steady(&place.run(["audit", "--json"]));
        let records = told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let shown = records.filter(|record| record["outcome"] != "begun").map(|record| {
            let number = |key: &str| record[key].as_u64().map_or("-".into(), |number| number.to_string());
            let [call, path, outcome] = [&record["call"], &record["paths"][0], &record["outcome"]]
                .map(|value| value.as_str().unwrap_or("-").to_owned());
            assert_eq!(record["stead"], "coder");
            format!("{call} {path} {outcome} {} {}", number("bytes"), number("files"))
        });
        let mut shown: Vec<_> = shown.collect();
        shown.reverse();
        shown.join("\n")
    };
    place.stead(["import", "from", "/notes/in"]);
    place.stead(["import", "from", "/notes/in"]);
    place.stead(["tree", "/notes"]);
    place.stead(["export", "/notes/in", "out"]);
    place.stead(["export", "--at", "1", "/notes", "out-1"]);
    place.stead(["cat", "--at", "now", "/notes/in/a", "/notes/in/none"]);
    place.stead(["cat", "/elsewhere"]);
    place.stead(["ls", "-l", "/notes/in"]);
    assert_snapshot!(told(&place), @r"
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
    let begun = place.run(["audit", "--json", "--outcome", "begun"]);
    assert_eq!(begun.lines().filter(|line| line.contains("\"version\":")).count(), 1, "{begun}");
}

#[test]
fn a_lost_archive_is_told() {
    let place = used();
    let told = place.run(["audit", "archive", "--before", "2100-01-01"]);
    let file = told.strip_prefix("! Moved 5 records to .stead/audit/archive/").unwrap();
    let kept = place.path(".stead/audit/archive").join(file);
    std::fs::rename(&kept, place.path(file)).unwrap();
    let told = place.run(["audit", "verify"]);
    assert!(
        told.contains("1 problem\n") && told.contains("isn't in the directory that it was written to"),
        "{told}"
    );
    assert!(told.ends_with("exit 70"), "{told}");
    for options in [&["audit", "verify", "--archives", "."][..], &["audit", "verify", "--without-archives"]] {
        let told = place.run(options.iter().copied());
        assert!(told.contains("nothing is wrong") && told.contains("5 records are in archives"), "{told}");
    }
}
