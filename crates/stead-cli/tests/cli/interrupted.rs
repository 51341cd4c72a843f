//! Ctrl-C during long work: every file that has arrived is complete, and the interruption is reported and on record.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Place, Running};

const FILES: usize = 600;

/// A directory with a subdirectory of many files.
fn place() -> Place {
    let place = Place::new();
    for n in 0..FILES {
        place.file(&format!("from/{n:04}"), &content(n));
    }
    place
}

fn content(n: usize) -> String {
    format!("{n} ").repeat(1_000)
}

fn interrupt(child: &Running) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// The files in a directory of the host, by name.
fn held(directory: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

/// The outcomes of the calls of this name, without the records of the changes that they made on the way.
fn outcomes(place: &Place, call: &str) -> Vec<String> {
    let told = place.run(["audit", "--json", "--call", call]);
    let records = told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let outcomes = records.map(|record| record["outcome"].as_str().unwrap().to_owned());
    outcomes.filter(|outcome| outcome != "begun").collect()
}

/// Reads the output until the command reports that it has seen the signal.
fn until_it_stops(errors: &mut impl Read) -> String {
    let mut said = String::new();
    while !said.contains("stopping after the current step") {
        let mut byte = [0];
        errors.read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    said
}

#[test]
fn an_import_that_is_interrupted_ends_between_two_changes_and_goes_on_later() {
    let place = place();
    let status = std::process::Command::new("tar")
        .args(["--create", "--format=ustar", "--sort=name", "--file", "from.tar", "--directory", "from", "."])
        .current_dir(place.path(""))
        .status()
        .unwrap();
    assert!(status.success());
    let archive = std::fs::read(place.path("from.tar")).unwrap();
    let mut command = place.command(["import", "-", "/notes/in"]);
    let mut child = Running::spawn(command.stdin(Stdio::piped()).stderr(Stdio::piped()));
    let mut input = child.stdin.take().unwrap();
    let (first, rest) = archive.split_at(archive.len() * 3 / 4);
    input.write_all(first).unwrap();
    while !place.stead(["stat", "/notes/in/0000"]).status.success() {}
    interrupt(&child);
    let mut errors = child.stderr.take().unwrap();
    let mut said = until_it_stops(&mut errors);
    // If the command has ended already, nobody reads the rest.
    let _ = input.write_all(rest);
    drop(input);
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(75), "{said}");
    assert!(said.contains("interrupted; every file that was written is complete"), "{said}");
    assert_eq!(outcomes(&place, "import"), ["failed"]);

    assert!(place.stead(["export", "/notes/in", "half"]).status.success());
    let half = held(&place.path("half"));
    assert!(!half.is_empty() && half.len() < FILES, "{}", half.len());
    for (name, text) in half {
        assert_eq!(text, content(name.parse().unwrap()), "{name}");
    }
    assert!(place.stead(["import", "from.tar", "/notes/in"]).status.success());
    assert!(place.stead(["export", "/notes/in", "whole"]).status.success());
    assert_eq!(held(&place.path("whole")), held(&place.path("from")));
}

#[test]
fn an_export_that_is_interrupted_leaves_whole_files_alone() {
    let place = place();
    assert!(place.stead(["import", "from", "/notes/in"]).status.success());
    // Output into a pipe waits for its reader, so the export can't have ended yet.
    let mut command = place.command(["export", "/notes/in", "-"]);
    let mut child = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 1_000]).unwrap();
    interrupt(&child);
    let mut errors = child.stderr.take().unwrap();
    let mut said = until_it_stops(&mut errors);
    output.read_to_end(&mut Vec::new()).unwrap();
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(75), "{said}");
    assert!(said.contains("interrupted; the archive is incomplete"), "{said}");
    assert_eq!(outcomes(&place, "export"), ["failed"]);

    // Into a directory: whenever the signal comes, no file is incomplete, and nothing else is left.
    let mut command = place.command(["export", "/notes/in", "out"]);
    let mut child = Running::spawn(command.stderr(Stdio::null()));
    while !place.path("out/0000").exists() {
        std::thread::yield_now();
    }
    interrupt(&child);
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 75)));
    for (name, text) in held(&place.path("out")) {
        assert_eq!(text, content(name.parse().unwrap()), "{name}");
    }
    assert!(place.stead(["export", "--force", "/notes/in", "out"]).status.success());
    assert_eq!(held(&place.path("out")), held(&place.path("from")));
}

#[test]
fn a_second_signal_ends_a_command_at_once_even_if_nobody_reads_its_messages() {
    let place = place();
    let mut command = place.command(["import", "-", "/notes/in"]);
    let mut child = Running::spawn(command.stdin(Stdio::piped()).stderr(Stdio::piped()));
    drop(child.stderr.take());
    // It waits for more of the archive, which never comes.
    let input = child.stdin.take().unwrap();
    let caught = format!("/proc/{}/status", child.id());
    let listens = || {
        let status = std::fs::read_to_string(&caught).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0
    };
    while !listens() {
        std::thread::yield_now();
    }
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let status = loop {
        assert!(std::time::Instant::now() < until, "it goes on");
        interrupt(&child);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(130));
    drop(input);
}

#[test]
fn a_wrong_command_line_whose_answer_nobody_reads_is_still_a_wrong_command_line() {
    let place = Place::empty();
    for (args, output, errors) in [
        (vec!["ls", "--json", "--no-such-option"], Stdio::piped(), Stdio::null()),
        (vec!["ls", "--no-such-option\u{1}"], Stdio::null(), Stdio::piped()),
    ] {
        // The first process makes sure that nobody reads before the second one writes.
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read _; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_stead")])
            .args(&args)
            .current_dir(place.path(""))
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(2), "{args:?}");
    }
}
