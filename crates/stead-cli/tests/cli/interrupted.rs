//! Ctrl-C during long work: every file that has arrived is complete, and the interruption is reported and on record.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Running, TestDir};

const FILES: usize = 600;

/// A directory with a subdirectory of many files.
fn dir_with_many_files() -> TestDir {
    let dir = TestDir::new();
    for n in 0..FILES {
        dir.file(&format!("from/{n:04}"), &content(n));
    }
    dir
}

fn content(n: usize) -> String {
    format!("{n} ").repeat(1_000)
}

fn interrupt(child: &Running) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// The files in a directory of the host, by name.
fn read_files(directory: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let name_and_content = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(name_and_content).collect()
}

/// The outcomes of the calls of this name, without the records of the changes that they made on the way.
fn outcomes(dir: &TestDir, call: &str) -> Vec<String> {
    let output = dir.run(["audit", "--json", "--call", call]);
    let records = output.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let outcomes = records.map(|record| record["outcome"].as_str().unwrap().to_owned());
    outcomes.filter(|outcome| outcome != "begun").collect()
}

/// Reads the output until the command reports that it has seen the signal.
fn read_until_stopping(errors: &mut impl Read) -> String {
    let mut messages = String::new();
    while !messages.contains("stopping after the current step") {
        let mut byte = [0];
        errors.read_exact(&mut byte).unwrap();
        messages.push(char::from(byte[0]));
    }
    messages
}

/// Waits until a command has begun to listen for Ctrl-C.
fn wait_until_sigint_is_handled(child: &Running) {
    let status_path = format!("/proc/{}/status", child.id());
    let handles_sigint = || {
        let status = std::fs::read_to_string(&status_path).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0
    };
    while !handles_sigint() {
        std::thread::yield_now();
    }
}

/// A directory in which a merge and an update were interrupted. `None` if one of them was done before it knew of the signal, as
/// can happen on a busy machine.
fn dir_with_interrupted_merge_and_update() -> Option<TestDir> {
    let dir = dir_with_many_files();
    assert!(dir.stead(["import", "from", "/notes/in"]).status.success());
    assert!(dir.stead(["fork", "/notes", "draft"]).status.success());
    for n in 0..FILES {
        dir.file(&format!("from/{n:04}"), &format!("fork {}", content(n)));
    }
    assert!(dir.stead(["import", "from", "/forks/draft/in"]).status.success());
    dir.file("other/target", "target");
    assert!(dir.stead(["import", "other", "/notes/in"]).status.success());
    for (command, side) in [("merge", "/notes/in"), ("update", "/forks/draft/in")] {
        let before = dir.run(["ls", side]);
        let mut interrupted = dir.command([command, "draft"]);
        let mut child = Running::spawn(interrupted.stderr(Stdio::piped()));
        wait_until_sigint_is_handled(&child);
        interrupt(&child);
        let mut messages = String::new();
        child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        let code = child.wait().unwrap().code();
        if code == Some(0) {
            assert_eq!(outcomes(&dir, command), ["ok"], "{command}: {messages}");
            return None;
        }
        assert_eq!(code, Some(75), "{command}: {messages}");
        assert!(messages.contains("interrupted; nothing was changed"), "{command}: {messages}");
        assert_eq!(outcomes(&dir, command), ["failed"]);
        assert_eq!(dir.run(["ls", side]), before, "{command}");
        assert_eq!(dir.run(["audit", "--fact", "stopped=cancelled", "--call", command]).lines().count(), 1);
    }
    Some(dir)
}

#[test]
fn g29_an_interrupted_merge_or_update_changes_nothing() {
    let interrupted = (0..8).find_map(|_| dir_with_interrupted_merge_and_update());
    let dir = interrupted.expect("a merge or an update was done each time before it was interrupted");
    assert!(dir.stead(["merge", "draft"]).status.success());
    assert!(dir.run(["cat", "/notes/in/0001"]).starts_with("fork 1 "));
}

#[test]
fn an_interrupted_import_ends_between_two_changes_and_continues_when_repeated() {
    let dir = dir_with_many_files();
    let status = std::process::Command::new("tar")
        .args(["--create", "--format=ustar", "--sort=name", "--file", "from.tar", "--directory", "from", "."])
        .current_dir(dir.path(""))
        .status()
        .unwrap();
    assert!(status.success());
    let archive = std::fs::read(dir.path("from.tar")).unwrap();
    let mut command = dir.command(["import", "-", "/notes/in"]);
    let mut child = Running::spawn(command.stdin(Stdio::piped()).stderr(Stdio::piped()));
    let mut input = child.stdin.take().unwrap();
    let (first, rest) = archive.split_at(archive.len() * 3 / 4);
    input.write_all(first).unwrap();
    while !dir.stead(["stat", "/notes/in/0000"]).status.success() {}
    interrupt(&child);
    let mut errors = child.stderr.take().unwrap();
    let mut messages = read_until_stopping(&mut errors);
    // If the command has ended already, nobody reads the rest.
    let _ = input.write_all(rest);
    drop(input);
    errors.read_to_string(&mut messages).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(75), "{messages}");
    assert!(messages.contains("interrupted; every file that was written is complete"), "{messages}");
    assert_eq!(outcomes(&dir, "import"), ["failed"]);

    assert!(dir.stead(["export", "/notes/in", "half"]).status.success());
    let partial = read_files(&dir.path("half"));
    assert!(!partial.is_empty() && partial.len() < FILES, "{}", partial.len());
    for (name, text) in partial {
        assert_eq!(text, content(name.parse().unwrap()), "{name}");
    }
    assert!(dir.stead(["import", "from.tar", "/notes/in"]).status.success());
    assert!(dir.stead(["export", "/notes/in", "whole"]).status.success());
    assert_eq!(read_files(&dir.path("whole")), read_files(&dir.path("from")));
}

#[test]
fn an_interrupted_export_leaves_only_complete_files() {
    let dir = dir_with_many_files();
    assert!(dir.stead(["import", "from", "/notes/in"]).status.success());
    // Output into a pipe waits for its reader, so the export can't have ended yet.
    let mut command = dir.command(["export", "/notes/in", "-"]);
    let mut child = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 1_000]).unwrap();
    interrupt(&child);
    let mut errors = child.stderr.take().unwrap();
    let mut messages = read_until_stopping(&mut errors);
    output.read_to_end(&mut Vec::new()).unwrap();
    errors.read_to_string(&mut messages).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(75), "{messages}");
    assert!(messages.contains("interrupted; the archive is incomplete"), "{messages}");
    assert_eq!(outcomes(&dir, "export"), ["failed"]);

    // Into a directory: whenever the signal comes, no file is incomplete, and nothing else is left.
    let mut command = dir.command(["export", "/notes/in", "out"]);
    let mut child = Running::spawn(command.stderr(Stdio::null()));
    while !dir.path("out/0000").exists() {
        std::thread::yield_now();
    }
    interrupt(&child);
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 75)));
    for (name, text) in read_files(&dir.path("out")) {
        assert_eq!(text, content(name.parse().unwrap()), "{name}");
    }
    assert!(dir.stead(["export", "--force", "/notes/in", "out"]).status.success());
    assert_eq!(read_files(&dir.path("out")), read_files(&dir.path("from")));
}

#[test]
fn a_second_signal_ends_a_command_at_once_even_if_stderr_is_closed() {
    let dir = dir_with_many_files();
    let mut command = dir.command(["import", "-", "/notes/in"]);
    let mut child = Running::spawn(command.stdin(Stdio::piped()).stderr(Stdio::piped()));
    drop(child.stderr.take());
    // It waits for more of the archive, which never comes.
    let input = child.stdin.take().unwrap();
    wait_until_sigint_is_handled(&child);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let status = loop {
        assert!(std::time::Instant::now() < deadline, "the process does not end");
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
fn a_usage_error_exits_with_2_even_if_the_output_is_closed() {
    let dir = TestDir::empty();
    for (args, output, errors) in [
        (vec!["ls", "--json", "--no-such-option"], Stdio::piped(), Stdio::null()),
        (vec!["ls", "--no-such-option\u{1}"], Stdio::null(), Stdio::piped()),
    ] {
        // The first process makes sure that nobody reads before the second one writes.
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read _; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_stead")])
            .args(&args)
            .current_dir(dir.path(""))
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
