//! No agent can turn a directory into a git repository that git would obey, however many processes it uses.

use std::process::Stdio;

use crate::audit_attacks::configured_dir;

#[test]
fn of_two_processes_that_complete_a_repository_together_one_is_refused() {
    let dir = configured_dir();
    for round in 0..12 {
        let workspace = ["/disk", "/notes"][round % 2];
        let path = |name: &str| format!("{workspace}/r{round}/{name}");
        assert!(dir.stead(["write", &path("objects/x"), "x"]).status.success());
        assert!(dir.stead(["write", &path("config"), "[core]"]).status.success());
        let children = [["write", &path("HEAD"), "ref: refs/heads/main"], ["write", &path("refs/x"), "x"]]
            .map(|args| {
                let mut command = dir.command(args);
                command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
            });
        let succeeded = children.map(|mut child| child.wait().unwrap().success());
        assert_eq!(
            succeeded.iter().filter(|succeeded| **succeeded).count(),
            1,
            "round {round}: {succeeded:?}"
        );
    }
}

#[test]
fn a_repository_is_not_completed_by_creating_a_missing_parent() {
    let dir = configured_dir();
    for workspace in ["/disk", "/notes"] {
        let path = |name: &str| format!("{workspace}/y/{name}");
        assert!(dir.stead(["write", &path("HEAD"), "ref: refs/heads/main"]).status.success());
        assert!(dir.stead(["mkdir", &path("objects")]).status.success());
        assert!(dir.stead(["write", &path("config"), "[core]\nfsmonitor = evil\n"]).status.success());
        for args in [["write", &path("refs/x"), "1"], ["append", &path("refs/x"), "1"]] {
            let output = dir.stead(args);
            assert!(!output.status.success());
            assert!(String::from_utf8_lossy(&output.stderr).contains("is protected"), "{output:?}");
        }
        assert!(!dir.stead(["mkdir", "-p", &path("refs/heads")]).status.success());
    }
    assert!(!dir.path("disk/y/refs").exists());
}
