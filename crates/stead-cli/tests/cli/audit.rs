//! What was done, as people and scripts ask for it.

use crate::common::Place;
use insta::assert_snapshot;

/// A place in which a few things were done.
fn used() -> Place {
    let place = Place::new();
    place.stead(["cat", "/project/README.md"]);
    place.stead(["write", "/project/README.md", "mine"]);
    place.stead(["write", "/notes/plan.md", "my secret plan"]);
    place.stead(["cp", "/notes/plan.md", "/notes/old/plan.md"]);
    place.stead(["rm", "/notes/nothing"]);
    place
}

/// What was told, without what is another each time: times and durations.
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
    assert_snapshot!(place.run(["audit", "--agent", "nobody"]), @"! Nothing was found.");
    assert_snapshot!(place.run(["audit", "--until", "2001-01-01"]), @"! Nothing was found.");
    assert_snapshot!(place.run(["audit", "--path", "/../x"]), @r"
    ! stead: `/../x` climbs above `/`; paths start at `/` and can't leave it
    exit 2
    ");
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
    let header = "at,stead,agent,thread,organization,team,call,path,path2,scope,outcome,code,bytes,files,took_us,operation,version,instance,seq";
    assert_eq!(table.lines().next(), Some(header));
    assert_eq!(table.lines().count(), 6);
    assert!(table.lines().all(|line| line.split(',').count() == 19));
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
        told.starts_with("audit: 5 records in 5 chains, 5 signatures: nothing is wrong\n! Its key is "),
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
            "audit: 1 record in 6 chains, 6 signatures: nothing is wrong\n  5 records are in archives"
        ),
        "{told}"
    );
    assert_eq!(steady(&place.run(["audit"])), "coder ls ok /");
    assert_snapshot!(place.run(["audit", "archive", "--before", "2001-01-01"]), @"! There is nothing to move.");
    // Without its database, what lies beside it still tells what there was.
    for name in ["stead.db", "stead.db-wal", "stead.db-shm"] {
        let _ = std::fs::remove_file(place.path(".stead").join(name));
    }
    let told = place.run(["audit", "verify"]);
    assert!(told.starts_with("audit: 0 records in 0 chains, 6 signatures: 6 problems"), "{told}");
    assert!(told.ends_with("exit 70"), "{told}");
}

#[test]
fn whoever_follows_sees_what_is_done() {
    use std::io::{BufRead, BufReader};
    let place = used();
    let mut child =
        place.command(["audit", "--follow", "--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.by_ref().take(5).filter(|line| line.contains("/notes/nothing")).count(), 1);
    place.stead(["stat", "/notes/plan.md"]);
    assert!(lines.next().unwrap().contains("\"call\":\"stat\""));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn it_can_be_turned_off_and_nothing_is_done_where_it_can_not_be_kept() {
    let place = Place::new();
    // Something that is no directory is in the way of the log.
    place.file(".stead/audit", "");
    assert_snapshot!(place.run(["ls"]), @r"
    ! stead: everything is to be written down in the audit, and it can't be opened: the files of the audit can't be written; make the state directory `.stead` and the database writable, or turn the audit off: `enabled = false` under [audit]
    exit 75
    ");
    let config = std::fs::read_to_string(place.path("stead.toml")).unwrap();
    place.file("stead.toml", &format!("{config}\n[audit]\nenabled = false\n"));
    assert_snapshot!(place.run(["ls"]), @r"
    notes/
    project/
    ");
}
