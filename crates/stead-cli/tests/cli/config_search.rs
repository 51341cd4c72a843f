//! Where a command finds its configuration.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{TestDir, output_text};
use crate::program::copy_program;

/// A configuration with one memory Store, whose Workspace has this prefix.
fn config(prefix: &str) -> String {
    format!(
        "[stores.s]\nkind = \"memory\"\n[[agents.a.workspaces]]\nprefix = \"/{prefix}\"\nscope = \"ro\"\nstore = \"s\"\n"
    )
}

#[test]
fn the_configuration_is_found_here_then_above_then_in_the_users_directory() {
    let dir = TestDir::empty();
    dir.file("home/code/app/x", "");
    let run = |args: &[&str]| {
        let mut command = dir.command(args.iter().copied());
        command.current_dir(dir.path("home/code/app")).env("HOME", dir.path("home"));
        output_text(&command.output().unwrap(), &dir.path(""))
    };
    // Above the home directory, nothing is looked for.
    dir.file("stead.toml", &config("above-home"));
    assert!(run(&["ls"]).contains("there is no configuration here"));
    dir.file("home/.config/stead/stead.toml", &config("user"));
    assert_eq!(run(&["ls"]), "user/");
    dir.file("home/stead.toml", &config("home"));
    assert_eq!(run(&["ls"]), "home/");
    dir.file("home/code/stead.toml", &config("code"));
    assert_eq!(run(&["ls"]), "code/");
    assert_eq!(run(&["config", "check"]), "../stead.toml is fine: 1 Store, 1 agent.");
    dir.file("home/code/app/stead.toml", &config("app"));
    assert_eq!(run(&["ls"]), "app/");
    assert_eq!(run(&["-C", "..", "ls"]), "code/");
    assert_eq!(run(&["-C", "..", "--config", "../stead.toml", "ls"]), "home/");
    let mut command = dir.command(["ls"]);
    command.current_dir(dir.path("home/code/app")).env("STEAD_CONFIG", "../../stead.toml");
    assert_eq!(output_text(&command.output().unwrap(), &dir.path("")), "home/");
}

/// As an ordinary user. Needs root, to make files of several users.
#[test]
fn a_file_above_that_another_user_owns_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = TestDir::empty();
    fs::set_permissions(dir.path(".."), fs::Permissions::from_mode(0o755)).unwrap();
    dir.file("shared/mine/x", "");
    // The user may not be able to reach the binary where it was built.
    copy_program(&dir.path("stead"));
    let run = |directory: &str| {
        let mut command = Command::new(dir.path("stead"));
        command
            .arg("ls")
            .current_dir(dir.path(directory))
            .env_clear()
            .env("HOME", dir.path(""))
            // Instrumented for coverage, the program would say that this user can't write its counters.
            .env("LLVM_PROFILE_FILE", "/dev/null")
            .uid(4242)
            .gid(4242);
        output_text(&command.output().unwrap(), &dir.path(""))
    };
    let own = |file: &str, user: u32| chown(dir.path(file), Some(user), Some(user)).unwrap();
    // The audit of the Memory Store goes beside the configuration.
    own("shared", 4242);
    dir.file("shared/stead.toml", &format!("[audit]\nenabled = false\n{}", config("shared")));
    own("shared/stead.toml", 5353);
    let message = run("shared/mine");
    assert!(message.contains("`../stead.toml` isn't used, because it belongs to another user"), "{message}");
    assert!(message.ends_with("exit 2"), "{message}");
    assert_eq!(run("shared"), "shared/", "in the current directory, the user has chosen it");
    for trusted in [4242, 0] {
        own("shared/stead.toml", trusted);
        assert_eq!(run("shared/mine"), "shared/", "{trusted}");
    }
}
