//! No agent can turn a directory into a git repository that git would obey, however many processes it uses.

use std::process::Stdio;

use crate::attacks::fresh;

#[test]
fn of_two_processes_that_make_the_last_two_names_one_is_refused() {
    let place = fresh();
    for round in 0..12 {
        let workspace = ["/disk", "/notes"][round % 2];
        let at = |name: &str| format!("{workspace}/r{round}/{name}");
        assert!(place.stead(["write", &at("objects/x"), "x"]).status.success());
        assert!(place.stead(["write", &at("config"), "[core]"]).status.success());
        let both =
            [["write", &at("HEAD"), "ref: refs/heads/main"], ["write", &at("refs/x"), "x"]].map(|args| {
                let mut command = place.command(args);
                command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
            });
        let made = both.map(|mut process| process.wait().unwrap().success());
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "round {round}: {made:?}");
    }
}

#[test]
fn a_repository_is_not_completed_by_a_directory_on_the_way() {
    let place = fresh();
    for workspace in ["/disk", "/notes"] {
        let at = |name: &str| format!("{workspace}/y/{name}");
        assert!(place.stead(["write", &at("HEAD"), "ref: refs/heads/main"]).status.success());
        assert!(place.stead(["mkdir", &at("objects")]).status.success());
        assert!(place.stead(["write", &at("config"), "[core]\nfsmonitor = evil\n"]).status.success());
        for args in [["write", &at("refs/x"), "1"], ["append", &at("refs/x"), "1"]] {
            let refused = place.stead(args);
            assert!(!refused.status.success());
            assert!(String::from_utf8_lossy(&refused.stderr).contains("is protected"), "{refused:?}");
        }
        assert!(!place.stead(["mkdir", "-p", &at("refs/heads")]).status.success());
    }
    assert!(!place.path("disk/y/refs").exists());
}
