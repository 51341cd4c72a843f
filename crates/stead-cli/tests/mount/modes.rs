//! Modes and times as programs set them. Modes don't bind root: `cargo xtask test` also runs these as another user.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use super::common::{TestDir, WORKSPACES};

fn mode(path: impl AsRef<std::path::Path>) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: impl AsRef<std::path::Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_is_written_and_read_through_its_descriptor_whatever_its_mode_at_creation() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        for created_mode in [0o444, 0o000, 0o200, 0o400] {
            let path = mount.path(workspace).join(format!("{created_mode:o}"));
            let mut options = OpenOptions::new();
            let mut file =
                options.read(true).write(true).create_new(true).mode(created_mode).open(&path).unwrap();
            file.write_all(b"one").unwrap();
            file.sync_all().unwrap();
            file.write_all(b"two").unwrap();
            file.sync_all().unwrap();
            file.rewind().unwrap();
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content, "onetwo", "{workspace} {created_mode:o}");
            drop(file);
            assert_eq!(mode(&path), created_mode);
            set_mode(&path, 0o600);
            assert_eq!(fs::read_to_string(&path).unwrap(), "onetwo", "{workspace} {created_mode:o}");
        }
    }
}

#[test]
fn a_mode_set_while_a_file_is_open_does_not_affect_open_descriptors() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("f");
        let mut file = File::create_new(&path).unwrap();
        file.write_all(b"one").unwrap();
        for restricted_mode in [0o400, 0o000] {
            set_mode(&path, restricted_mode);
            file.write_all(b"two").unwrap();
            file.sync_all().unwrap();
        }
        drop(file);
        assert_eq!(mode(&path), 0);
        set_mode(&path, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), "onetwotwo", "{workspace}");
    }
}

#[test]
fn a_file_with_only_write_permission_can_be_written() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let script = "umask 022; echo one > f; chmod 200 f; echo two >> f; chmod 600 f; cat f
            chmod 200 f; echo three > f; chmod 600 f; cat f";
        assert_eq!(mount.sh(workspace, script), "one\ntwo\nthree\n", "{workspace}");
    }
}

#[test]
fn files_without_permissions_can_be_moved_removed_and_restored() {
    let dir = TestDir::new();
    for workspace in WORKSPACES {
        let mount = dir.mount();
        let script = "umask 022; mkdir -m 555 d && rmdir d && mkdir -m 700 e && echo one > e/f && chmod 0 e/f
            mv e/f e/g && stat -c %a e/g && echo two > e/h && mv -f e/h e/g && cat e/g
            mkdir -m 0 shut && rmdir shut && chmod 0 e/g && rm -f e/g && chmod 555 e && stat -c %a e";
        assert_eq!(mount.sh(workspace, script), "0\ntwo\n555\n", "{workspace}");
        mount.end_cleanly();
        // chmod, rm, chmod, rmdir, mkdir, and the move over the file.
        for _ in 0..6 {
            dir.stead(["undo"]);
        }
        dir.stead(["verify"]);
        let mount = dir.mount();
        let script = "stat -c %a e/g e/h && cat e/h && chmod 600 e/g && cat e/g";
        assert_eq!(mount.sh(workspace, script), "0\n644\ntwo\none\n", "{workspace}");
        mount.end_cleanly();
    }
}

#[test]
fn a_write_clears_setuid_and_setgid() {
    let dir = TestDir::new();
    let mount = dir.mount();
    let on_host = dir.path("project/f");
    let on_mount = mount.path("p/f");
    let writes: [(&str, &dyn Fn()); 7] = [
        ("echo", &|| drop(mount.sh("p", "echo new > f"))),
        ("dd", &|| drop(mount.sh("p", "printf x | dd of=f conv=notrunc status=none"))),
        ("truncate", &|| drop(mount.sh("p", "truncate -s 2 f"))),
        ("append", &|| drop(dir.stead(["append", "/p/f", "more"]))),
        ("write", &|| drop(dir.stead(["write", "/p/f", "other"]))),
        ("edit", &|| drop(dir.stead(["edit", "/p/f", "old", "new"]))),
        ("cp", &|| drop(dir.stead(["cp", "--overwrite", "/p/other", "/p/f"]))),
    ];
    fs::write(dir.path("project/other"), "other").unwrap();
    for (name, write) in writes {
        fs::write(&on_host, "old content").unwrap();
        set_mode(&on_host, 0o6755);
        // The mount learns of the change.
        assert!(super::common::eventually(|| mode(&on_mount) == 0o6755));
        write();
        assert_eq!(mode(&on_host), 0o755, "{name}");
    }
    // A copy has neither bit, and no program can set one.
    set_mode(&on_host, 0o6755);
    dir.stead(["cp", "/p/f", "/p/copy"]);
    assert_eq!(mode(dir.path("project/copy")), 0o755);
    mount.sh("p", "echo x > mine; chmod 6755 mine; chmod u+s mine");
    assert_eq!(mode(dir.path("project/mine")), 0o755);
    // A directory that passes its group on to new entries (setgid) keeps doing so.
    fs::create_dir(dir.path("project/shared")).unwrap();
    set_mode(dir.path("project/shared"), 0o2775);
    mount.sh("p", "chmod 750 shared; mkdir shared/below");
    assert_eq!(mode(dir.path("project/shared")), 0o2750);
    assert_eq!(mode(dir.path("project/shared/below")) & 0o2000, 0o2000);
}

#[test]
fn times_before_1970_are_kept_to_the_nanosecond() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let script = "touch f && for at in -1.2 -2 -0.000000001 -86400.75 1.25; do
            touch -d @$at f && stat -c %.9Y f; done";
        let expected = "-1.200000000\n-2.000000000\n-0.000000001\n-86400.750000000\n1.250000000\n";
        assert_eq!(mount.sh(workspace, script), expected, "{workspace}");
    }
    let on_host = fs::metadata(dir.path("project/f")).unwrap();
    assert_eq!((on_host.mtime(), on_host.mtime_nsec()), (1, 250_000_000));
}
