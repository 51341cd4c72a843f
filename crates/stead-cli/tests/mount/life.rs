//! Mounting and unmounting, in good order and after a crash.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::common::{OnMount, Place, eventually, is_mounted, succeeded};

#[test]
fn a_signal_unmounts_it_and_loses_nothing() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let place = Place::new();
        let mount = place.mount();
        let at = mount.at.clone();
        let mut open = fs::File::create(at.join("v/open")).unwrap();
        open.write_all(b"not closed").unwrap();
        assert!(mount.end(signal).success());
        assert!(!is_mounted(&at));
        drop(open);
        assert_eq!(place.stead(["cat", "/v/open"]), "not closed");
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
    }
}

#[test]
fn whoever_unmounts_it_ends_it() {
    let place = Place::new();
    let mut mount = place.mount();
    fs::write(mount.path("v/f"), "x").unwrap();
    assert!(Command::new("umount").arg(&mount.at).status().unwrap().success());
    assert!(mount.child.wait().unwrap().success());
    assert_eq!(place.stead(["cat", "/v/f"]), "x");
}

#[test]
fn a_killed_process_leaves_no_mount() {
    let place = Place::new();
    for _ in 0..3 {
        let mut mount = place.mount();
        fs::write(mount.path("v/f"), "x").unwrap();
        let mut open = fs::File::open(mount.path("v/f")).unwrap();
        mount.signal(Signal::KILL);
        mount.child.wait().unwrap();
        // No program hangs: open files aren't connected any more.
        let began = Instant::now();
        let mut text = Vec::new();
        let _ = open.read_to_end(&mut text);
        assert!(fs::metadata(mount.path("v/none")).is_err());
        assert!(began.elapsed() < Duration::from_secs(60));
        assert!(eventually(|| !is_mounted(&mount.at)), "its keeper clears it away");
    }
    let mount = place.mount();
    assert_eq!(fs::read_to_string(mount.path("v/f")).unwrap(), "x");
}

#[test]
fn a_stale_mount_is_cleared_by_the_next() {
    let place = Place::new();
    let mut mount = place.mount();
    // Without its watchdog.
    let keeper = keeper_of(mount.child.id());
    rustix::process::kill_process(keeper, Signal::KILL).unwrap();
    mount.signal(Signal::KILL);
    mount.child.wait().unwrap();
    assert!(is_mounted(&mount.at));
    assert!(eventually(|| { fs::metadata(&mount.at).is_err_and(|error| error.raw_os_error() == Some(107)) }));
    let again = place.mount();
    fs::write(again.path("v/f"), "x").unwrap();
    let refused = place.run(["mount", "mnt"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("already mounted there"));
    drop(again);
    drop(mount);
}

fn keeper_of(parent: u32) -> rustix::process::Pid {
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let Ok(stat) = fs::read_to_string(path.join("stat")) else { continue };
        let after = stat.rsplit(')').next().unwrap();
        if after.split_whitespace().nth(1) == Some(&parent.to_string()) {
            let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            return rustix::process::Pid::from_raw(number).unwrap();
        }
    }
    panic!("the mount has no keeper");
}

#[test]
fn it_goes_on_in_the_background() {
    let place = Place::new();
    let said = place.stead(["mount", "--background", "mnt"]);
    assert!(said.starts_with("Mounted at "), "{said}");
    let at = place.path("mnt");
    assert!(is_mounted(&at));
    fs::write(at.join("v/f"), "x").unwrap();
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
    assert_eq!(place.stead(["cat", "/v/f"]), "x");
}

#[test]
fn a_place_that_can_not_be_used_is_told() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/something"), "").unwrap();
    let cases =
        [("none", "the directory doesn't exist"), ("file", "isn't a directory"), ("full", "isn't empty")];
    for (at, expected) in cases {
        let refused = place.run(["mount", at]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(expected), "{said}");
    }
    let inside = place.run(["mount", "project"]);
    let said = String::from_utf8_lossy(&inside.stderr).into_owned();
    assert!(!inside.status.success() && said.contains("its own files are in that directory"), "{said}");
}

#[test]
fn other_users_see_it_only_if_they_may() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: only the superuser can be somebody else");
        return;
    }
    let place = Place::new();
    open_up(&place);
    let as_other = |mount: &OnMount, script: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-c", script]).current_dir("/").uid(65534).gid(65534).stderr(Stdio::null());
        shell.env("AT", &mount.at).status().unwrap().success()
    };
    let alone = place.mount();
    fs::write(alone.path("v/f"), "x").unwrap();
    assert!(!as_other(&alone, "cat $AT/v/f"));
    drop(alone);
    let shared = place.mount_at("mnt", &["--allow-other"]);
    assert!(as_other(&shared, "cat $AT/v/f"));
    assert!(!as_other(&shared, "echo y > $AT/v/f"), "its permission bits hold");
    drop(shared);
    let theirs = place.mount_at("mnt", &["--allow-other", "--uid", "65534", "--gid", "65534"]);
    assert!(as_other(&theirs, "echo y > $AT/v/f && test -O $AT/v/f"));
}

/// Lets all users into the directory of the test.
fn open_up(place: &Place) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn somebody_who_is_not_root_mounts_it_with_fusermount() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: only the superuser can be somebody else");
        return;
    }
    let place = Place::new();
    open_up(&place);
    // The device is usually open to all users, but in a container it may be open to root only.
    assert!(Command::new("chmod").args(["666", "/dev/fuse"]).status().unwrap().success());
    let everything = place.path("");
    assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(&everything).status().unwrap().success());
    let binary = place.path("stead");
    fs::copy(env!("CARGO_BIN_EXE_stead"), &binary).unwrap();
    let mut child = Command::new(&binary)
        .args(["mount", "mnt"])
        .current_dir(&everything)
        .env("HOME", &everything)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .uid(65534)
        .gid(65534)
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"Mounted at");
    let as_them = |script: &str| {
        let mut shell = Command::new("bash");
        let output = shell
            .args(["-ec", script])
            .current_dir("/")
            .env("AT", place.path("mnt"))
            .uid(65534)
            .gid(65534)
            .output();
        super::common::succeeded(&output.unwrap())
    };
    assert_eq!(
        as_them("echo mine > $AT/v/f && cat $AT/v/f && ls $AT"),
        "mine\nguarded\nin\nnarrow\np\nro\nsmall\nv\n"
    );
    // The watchdog of a user who isn't root removes the mount after a kill too.
    let mount = OnMount { child, at: place.path("mnt") };
    mount.signal(Signal::KILL);
    drop(mount);
}

#[test]
fn who_may_not_let_others_in_is_told_what_is_missing() {
    let allowed = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if allowed.lines().any(|line| line.trim() == "user_allow_other") {
        return;
    }
    let place = Place::new();
    let mut command = place.command(["mount", "--allow-other", "mnt"]);
    if rustix::process::getuid().is_root() {
        open_up(&place);
        let all = place.path("");
        assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(&all).status().unwrap().success());
        command.uid(65534).gid(65534).env("HOME", all);
    }
    let refused = command.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("user_allow_other"), "{said}");
    assert!(!said.contains("install"), "{said}");
}

#[test]
fn a_mount_that_was_unmounted_takes_no_other_away() {
    let place = Place::new();
    for _ in 0..3 {
        let mut first = place.mount();
        succeeded(&Command::new("umount").arg(&first.at).output().unwrap());
        let second = place.mount();
        assert!(first.child.wait().unwrap().success());
        fs::write(second.path("v/f"), "x").unwrap();
        assert_eq!(place.stead(["cat", "/v/f"]), "x");
        second.end_well();
    }
}

/// A mount whose process and watchdog are gone.
fn dead(place: &Place, directory: &str) -> OnMount {
    let mut mount = place.mount_at(directory, &[]);
    rustix::process::kill_process(keeper_of(mount.child.id()), Signal::KILL).unwrap();
    mount.signal(Signal::KILL);
    mount.child.wait().unwrap();
    assert!(eventually(|| { fs::metadata(&mount.at).is_err_and(|error| error.raw_os_error() == Some(107)) }));
    mount
}

#[test]
fn a_stale_mount_is_cleared_by_any_name_that_it_has() {
    let place = Place::new();
    fs::create_dir(place.path("beside")).unwrap();
    std::os::unix::fs::symlink("../mnt", place.path("beside/link")).unwrap();
    std::os::unix::fs::symlink(place.path(""), place.path("beside/round")).unwrap();
    for name in ["beside/../mnt", "./mnt/", "beside/link", "beside/round/mnt"] {
        let before = dead(&place, "mnt");
        let again = place.mount_at(name, &[]);
        fs::write(place.path("mnt/v/f"), name).unwrap();
        assert_eq!(place.stead(["cat", "/v/f"]), name);
        assert!(again.end(Signal::TERM).success(), "{name}");
        assert!(!is_mounted(&before.at), "{name}");
    }
}

#[test]
fn a_mount_whose_parent_is_renamed_is_taken_away_all_the_same() {
    let place = Place::new();
    fs::create_dir_all(place.path("one/mnt")).unwrap();
    for (end, killed) in [(Signal::TERM, false), (Signal::KILL, true)] {
        let mut mount = place.mount_at("one/mnt", &[]);
        fs::rename(place.path("one"), place.path("two")).unwrap();
        fs::write(place.path("two/mnt/v/f"), "x").unwrap();
        // The watchdog leaves another directory at the old path alone.
        fs::create_dir_all(place.path("one/mnt")).unwrap();
        mount.at = place.path("two/mnt");
        mount.signal(end);
        assert_eq!(mount.child.wait().unwrap().success(), !killed);
        assert!(eventually(|| !is_mounted(&place.path("two/mnt"))), "{end:?}");
        assert!(place.path("one/mnt").exists());
        fs::remove_dir(place.path("two/mnt")).unwrap();
        fs::remove_dir(place.path("two")).unwrap();
    }
}

#[test]
fn nothing_is_mounted_inside_a_mount() {
    let place = Place::new();
    let mount = place.mount();
    for below in ["mnt/v/d", "mnt/p/d"] {
        fs::create_dir(place.path(below)).unwrap();
        let refused = place.run(["mount", "--background", below]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("is inside a mounted stead"), "{said}");
    }
    mount.end_well();
}
