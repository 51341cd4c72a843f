//! Mounting and unmounting, with a clean end and after a crash.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::common::{OnMount, TestDir, eventually, expect_success, is_mounted};

#[test]
fn a_signal_unmounts_the_stead_and_loses_nothing() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let dir = TestDir::new();
        let mount = dir.mount();
        let mount_point = mount.mount_point.clone();
        let mut file = fs::File::create(mount_point.join("v/open")).unwrap();
        file.write_all(b"not closed").unwrap();
        assert!(mount.end(signal).success());
        assert!(!is_mounted(&mount_point));
        drop(file);
        assert_eq!(dir.stead(["cat", "/v/open"]), "not closed");
        assert_eq!(fs::read_dir(&mount_point).unwrap().count(), 0);
    }
}

#[test]
fn an_unmount_ends_the_process() {
    let dir = TestDir::new();
    let mut mount = dir.mount();
    fs::write(mount.path("v/f"), "x").unwrap();
    assert!(Command::new("umount").arg(&mount.mount_point).status().unwrap().success());
    assert!(mount.child.wait().unwrap().success());
    assert_eq!(dir.stead(["cat", "/v/f"]), "x");
}

#[test]
fn a_killed_process_leaves_no_mount() {
    let dir = TestDir::new();
    for _ in 0..3 {
        let mut mount = dir.mount();
        fs::write(mount.path("v/f"), "x").unwrap();
        let mut file = fs::File::open(mount.path("v/f")).unwrap();
        mount.signal(Signal::KILL);
        mount.child.wait().unwrap();
        // No program hangs: open files aren't connected any more.
        let start = Instant::now();
        let mut text = Vec::new();
        let _ = file.read_to_end(&mut text);
        assert!(fs::metadata(mount.path("v/none")).is_err());
        assert!(start.elapsed() < Duration::from_secs(60));
        assert!(eventually(|| !is_mounted(&mount.mount_point)), "the watchdog did not unmount the directory");
    }
    let mount = dir.mount();
    assert_eq!(fs::read_to_string(mount.path("v/f")).unwrap(), "x");
}

#[test]
fn a_stale_mount_is_removed_by_the_next_mount() {
    let dir = TestDir::new();
    let mut mount = dir.mount();
    // Without its watchdog.
    let watchdog = watchdog_of(mount.child.id());
    rustix::process::kill_process(watchdog, Signal::KILL).unwrap();
    mount.signal(Signal::KILL);
    mount.child.wait().unwrap();
    assert!(is_mounted(&mount.mount_point));
    assert!(eventually(|| {
        fs::metadata(&mount.mount_point).is_err_and(|error| error.raw_os_error() == Some(107))
    }));
    let next_mount = dir.mount();
    fs::write(next_mount.path("v/f"), "x").unwrap();
    let refused = dir.run(["mount", "mnt"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("already mounted there"));
    drop(next_mount);
    drop(mount);
}

fn watchdog_of(parent: u32) -> rustix::process::Pid {
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let Ok(stat) = fs::read_to_string(path.join("stat")) else { continue };
        let fields = stat.rsplit(')').next().unwrap();
        if fields.split_whitespace().nth(1) == Some(&parent.to_string()) {
            let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            return rustix::process::Pid::from_raw(number).unwrap();
        }
    }
    panic!("the mount has no watchdog");
}

#[test]
fn a_mount_can_run_in_the_background() {
    let dir = TestDir::new();
    // With `-C`, which the process in the background gets too.
    for args in [&["mount", "--background", "mnt"][..], &["-C", "fixed", "mount", "--background", "../mnt"]] {
        let output = dir.stead(args.iter().copied());
        assert!(output.starts_with("Mounted at "), "{output}");
        let mount_point = dir.path("mnt");
        assert!(is_mounted(&mount_point));
        fs::write(mount_point.join("v/f"), "x").unwrap();
        assert!(Command::new("umount").arg(&mount_point).status().unwrap().success());
        assert_eq!(dir.stead(["cat", "/v/f"]), "x");
    }
}

#[test]
fn an_unusable_mount_point_is_refused() {
    let dir = TestDir::new();
    fs::write(dir.path("file"), "").unwrap();
    fs::create_dir(dir.path("full")).unwrap();
    fs::write(dir.path("full/something"), "").unwrap();
    let cases =
        [("none", "the directory doesn't exist"), ("file", "isn't a directory"), ("full", "isn't empty")];
    for (mount_point, expected) in cases {
        let refused = dir.run(["mount", mount_point]);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && stderr.contains(expected), "{stderr}");
    }
    let inside = dir.run(["mount", "project"]);
    let stderr = String::from_utf8_lossy(&inside.stderr).into_owned();
    assert!(!inside.status.success() && stderr.contains("its own files are in that directory"), "{stderr}");
}

#[test]
fn other_users_see_a_mount_only_if_they_are_allowed_to() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: only root can act as another user");
        return;
    }
    let dir = TestDir::new();
    let_all_users_in(&dir);
    let as_other = |mount: &OnMount, script: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-c", script]).current_dir("/").uid(65534).gid(65534).stderr(Stdio::null());
        shell.env("AT", &mount.mount_point).status().unwrap().success()
    };
    let private = dir.mount();
    fs::write(private.path("v/f"), "x").unwrap();
    assert!(!as_other(&private, "cat $AT/v/f"));
    drop(private);
    let shared = dir.mount_at("mnt", &["--allow-other"]);
    assert!(as_other(&shared, "cat $AT/v/f"));
    assert!(
        !as_other(&shared, "echo y > $AT/v/f"),
        "another user must not write to a file with these permission bits"
    );
    drop(shared);
    let owned_by_other = dir.mount_at("mnt", &["--allow-other", "--uid", "65534", "--gid", "65534"]);
    assert!(as_other(&owned_by_other, "echo y > $AT/v/f && test -O $AT/v/f"));
}

/// Lets all users into the directory of the test.
fn let_all_users_in(dir: &TestDir) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir.path(""), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Gives the directory of the test to the user 65534, who may then mount there. Only root can do that.
fn give_to_other_user(dir: &TestDir) {
    let_all_users_in(dir);
    // The device is usually open to all users, but in a container it may be open to root only.
    assert!(Command::new("chmod").args(["666", "/dev/fuse"]).status().unwrap().success());
    assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(dir.path("")).status().unwrap().success());
}

#[test]
fn a_user_who_is_not_root_mounts_with_fusermount() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: only root can act as another user");
        return;
    }
    let dir = TestDir::new();
    give_to_other_user(&dir);
    let directory = dir.path("");
    let binary = dir.path("stead");
    super::program::copy_program(&binary);
    let mut child = Command::new(&binary)
        .args(["mount", "mnt"])
        .current_dir(&directory)
        .env("HOME", &directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .uid(65534)
        .gid(65534)
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"Mounted at");
    let run_as_user = |script: &str| {
        let mut shell = Command::new("bash");
        let output = shell
            .args(["-ec", script])
            .current_dir("/")
            .env("AT", dir.path("mnt"))
            .uid(65534)
            .gid(65534)
            .output();
        super::common::expect_success(&output.unwrap())
    };
    assert_eq!(
        run_as_user("echo mine > $AT/v/f && cat $AT/v/f && ls $AT"),
        "mine\nguarded\nin\nnarrow\np\nro\nsmall\nv\n"
    );
    // The watchdog of a user who isn't root removes the mount after a kill too.
    let mount = OnMount { child, mount_point: dir.path("mnt") };
    mount.signal(Signal::KILL);
    drop(mount);
}

#[test]
fn a_refused_allow_other_says_which_setting_is_missing() {
    let fuse_config = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if fuse_config.lines().any(|line| line.trim() == "user_allow_other") {
        return;
    }
    let dir = TestDir::new();
    let mut command = dir.command(["mount", "--allow-other", "mnt"]);
    if rustix::process::getuid().is_root() {
        give_to_other_user(&dir);
        command.uid(65534).gid(65534).env("HOME", dir.path(""));
    }
    let refused = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains("user_allow_other"), "{stderr}");
    assert!(!stderr.contains("install"), "{stderr}");
}

#[test]
fn an_unmounted_mount_does_not_remove_the_next_mount() {
    let dir = TestDir::new();
    for _ in 0..3 {
        let mut first = dir.mount();
        expect_success(&Command::new("umount").arg(&first.mount_point).output().unwrap());
        let second = dir.mount();
        assert!(first.child.wait().unwrap().success());
        fs::write(second.path("v/f"), "x").unwrap();
        assert_eq!(dir.stead(["cat", "/v/f"]), "x");
        second.end_cleanly();
    }
}

/// A mount whose process and watchdog are gone.
fn stale_mount(dir: &TestDir, directory: &str) -> OnMount {
    let mut mount = dir.mount_at(directory, &[]);
    rustix::process::kill_process(watchdog_of(mount.child.id()), Signal::KILL).unwrap();
    mount.signal(Signal::KILL);
    mount.child.wait().unwrap();
    assert!(eventually(|| {
        fs::metadata(&mount.mount_point).is_err_and(|error| error.raw_os_error() == Some(107))
    }));
    mount
}

#[test]
fn a_stale_mount_is_removed_under_any_path_that_leads_to_it() {
    let dir = TestDir::new();
    fs::create_dir(dir.path("beside")).unwrap();
    std::os::unix::fs::symlink("../mnt", dir.path("beside/link")).unwrap();
    std::os::unix::fs::symlink(dir.path(""), dir.path("beside/round")).unwrap();
    for name in ["beside/../mnt", "./mnt/", "beside/link", "beside/round/mnt"] {
        let stale = stale_mount(&dir, "mnt");
        let next_mount = dir.mount_at(name, &[]);
        fs::write(dir.path("mnt/v/f"), name).unwrap();
        assert_eq!(dir.stead(["cat", "/v/f"]), name);
        assert!(next_mount.end(Signal::TERM).success(), "{name}");
        assert!(!is_mounted(&stale.mount_point), "{name}");
    }
}

#[test]
fn a_mount_whose_parent_was_renamed_is_still_removed() {
    let dir = TestDir::new();
    fs::create_dir_all(dir.path("one/mnt")).unwrap();
    for (signal, is_killed) in [(Signal::TERM, false), (Signal::KILL, true)] {
        let mut mount = dir.mount_at("one/mnt", &[]);
        fs::rename(dir.path("one"), dir.path("two")).unwrap();
        fs::write(dir.path("two/mnt/v/f"), "x").unwrap();
        // The watchdog leaves another directory at the old path alone.
        fs::create_dir_all(dir.path("one/mnt")).unwrap();
        mount.mount_point = dir.path("two/mnt");
        mount.signal(signal);
        assert_eq!(mount.child.wait().unwrap().success(), !is_killed);
        assert!(eventually(|| !is_mounted(&dir.path("two/mnt"))), "{signal:?}");
        assert!(dir.path("one/mnt").exists());
        fs::remove_dir(dir.path("two/mnt")).unwrap();
        fs::remove_dir(dir.path("two")).unwrap();
    }
}

#[test]
fn nothing_is_mounted_inside_a_mount() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for mount_point in ["mnt/v/d", "mnt/p/d"] {
        fs::create_dir(dir.path(mount_point)).unwrap();
        let refused = dir.run(["mount", "--background", mount_point]);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && stderr.contains("is inside a mounted stead"), "{stderr}");
    }
    mount.end_cleanly();
}

#[test]
fn a_configuration_on_a_mount_is_never_used() {
    let dir = TestDir::new();
    let mount = dir.mount();
    // An agent can write a file of that name to a Virtual Store.
    fs::create_dir(mount.path("v/sub")).unwrap();
    fs::write(mount.path("v/stead.toml"), "[stores.all]\nkind = \"physical\"\npath = \"/\"\n").unwrap();
    for (directory, file) in [("v", "stead.toml"), ("v/sub", "../stead.toml")] {
        let mut command = dir.command(["ls"]);
        command.current_dir(mount.path(directory)).env("HOME", dir.path("")).env_remove("XDG_CONFIG_HOME");
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expected = format!("`{file}` isn't used, because it is inside a mounted stead");
        assert!(output.status.code() == Some(2) && stderr.contains(&expected), "{stderr}");
    }
    mount.end_cleanly();
}
