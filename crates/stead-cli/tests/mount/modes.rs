//! Modes and times as programs set them. Modes don't bind root: `cargo xtask test` also runs these as another user.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use super::common::{BOTH, Place};

fn mode(path: impl AsRef<std::path::Path>) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: impl AsRef<std::path::Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_is_written_and_read_through_its_descriptor_whatever_mode_it_was_made_with() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        for made_with in [0o444, 0o000, 0o200, 0o400] {
            let path = mount.path(workspace).join(format!("{made_with:o}"));
            let mut options = OpenOptions::new();
            let mut file =
                options.read(true).write(true).create_new(true).mode(made_with).open(&path).unwrap();
            file.write_all(b"one").unwrap();
            file.sync_all().unwrap();
            file.write_all(b"two").unwrap();
            file.sync_all().unwrap();
            file.rewind().unwrap();
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content, "onetwo", "{workspace} {made_with:o}");
            drop(file);
            assert_eq!(mode(&path), made_with);
            set_mode(&path, 0o600);
            assert_eq!(fs::read_to_string(&path).unwrap(), "onetwo", "{workspace} {made_with:o}");
        }
    }
}

#[test]
fn a_mode_that_is_set_while_a_file_is_open_does_not_bind_who_has_it_open() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let path = mount.path(workspace).join("f");
        let mut file = File::create_new(&path).unwrap();
        file.write_all(b"one").unwrap();
        for closed in [0o400, 0o000] {
            set_mode(&path, closed);
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
fn a_file_that_may_only_be_written_is_written() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let script = "umask 022; echo one > f; chmod 200 f; echo two >> f; chmod 600 f; cat f
            chmod 200 f; echo three > f; chmod 600 f; cat f";
        assert_eq!(mount.sh(workspace, script), "one\ntwo\nthree\n", "{workspace}");
    }
}

#[test]
fn what_a_mode_closes_is_moved_and_removed_and_taken_back() {
    let place = Place::new();
    for workspace in BOTH {
        let mount = place.mount();
        let script = "umask 022; mkdir -m 555 d && rmdir d && mkdir -m 700 e && echo one > e/f && chmod 0 e/f
            mv e/f e/g && stat -c %a e/g && echo two > e/h && mv -f e/h e/g && cat e/g
            mkdir -m 0 shut && rmdir shut && chmod 0 e/g && rm -f e/g && chmod 555 e && stat -c %a e";
        assert_eq!(mount.sh(workspace, script), "0\ntwo\n555\n", "{workspace}");
        mount.end_well();
        // chmod, rm, chmod, rmdir, mkdir, and the move over the file.
        for _ in 0..6 {
            place.stead(["undo"]);
        }
        place.stead(["verify"]);
        let mount = place.mount();
        let script = "stat -c %a e/g e/h && cat e/h && chmod 600 e/g && cat e/g";
        assert_eq!(mount.sh(workspace, script), "0\n644\ntwo\none\n", "{workspace}");
        mount.end_well();
    }
}

#[test]
fn the_right_to_run_as_another_does_not_outlive_a_write() {
    let place = Place::new();
    let mount = place.mount();
    let on_host = place.path("project/f");
    let at = mount.path("p/f");
    let writes: [(&str, &dyn Fn()); 7] = [
        ("echo", &|| drop(mount.sh("p", "echo new > f"))),
        ("dd", &|| drop(mount.sh("p", "printf x | dd of=f conv=notrunc status=none"))),
        ("truncate", &|| drop(mount.sh("p", "truncate -s 2 f"))),
        ("append", &|| drop(place.stead(["append", "/p/f", "more"]))),
        ("write", &|| drop(place.stead(["write", "/p/f", "other"]))),
        ("edit", &|| drop(place.stead(["edit", "/p/f", "old", "new"]))),
        ("cp", &|| drop(place.stead(["cp", "--overwrite", "/p/other", "/p/f"]))),
    ];
    fs::write(place.path("project/other"), "other").unwrap();
    for (name, write) in writes {
        fs::write(&on_host, "old content").unwrap();
        set_mode(&on_host, 0o6755);
        // The mount learns of the change.
        assert!(super::common::eventually(|| mode(&at) == 0o6755));
        write();
        assert_eq!(mode(&on_host), 0o755, "{name}");
    }
    // A copy has neither bit, and no program can set one.
    set_mode(&on_host, 0o6755);
    place.stead(["cp", "/p/f", "/p/copy"]);
    assert_eq!(mode(place.path("project/copy")), 0o755);
    mount.sh("p", "echo x > mine; chmod 6755 mine; chmod u+s mine");
    assert_eq!(mode(place.path("project/mine")), 0o755);
    // A directory that passes its group on to new entries (setgid) keeps doing so.
    fs::create_dir(place.path("project/shared")).unwrap();
    set_mode(place.path("project/shared"), 0o2775);
    mount.sh("p", "chmod 750 shared; mkdir shared/below");
    assert_eq!(mode(place.path("project/shared")), 0o2750);
    assert_eq!(mode(place.path("project/shared/below")) & 0o2000, 0o2000);
}

#[test]
fn times_before_1970_are_kept_to_the_nanosecond() {
    let place = Place::new();
    let mount = place.mount();
    for workspace in BOTH {
        let script = "touch f && for at in -1.2 -2 -0.000000001 -86400.75 1.25; do
            touch -d @$at f && stat -c %.9Y f; done";
        let expected = "-1.200000000\n-2.000000000\n-0.000000001\n-86400.750000000\n1.250000000\n";
        assert_eq!(mount.sh(workspace, script), expected, "{workspace}");
    }
    let on_host = fs::metadata(place.path("project/f")).unwrap();
    assert_eq!((on_host.mtime(), on_host.mtime_nsec()), (1, 250_000_000));
}
