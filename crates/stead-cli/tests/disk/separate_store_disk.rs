//! A Physical Store on a different disk than the state directory.

use std::process::Command;

use crate::small_disk::{Disk, Kind, on_small_disk};

/// A stead next to the small disk, with a Physical Store on that disk and a Virtual Store outside it.
fn set_up(small_disk: &Disk) -> Disk {
    let host = small_disk.path("").parent().unwrap().to_owned();
    let stead = Disk::at(&host);
    let config = "[stores.p]\nkind = \"physical\"\npath = \"disk/ph\"\n[stores.v]\nkind = \"virtual\"\n\
                  [[agents.a.workspaces]]\nprefix = \"/p\"\nscope = \"rw\"\nstore = \"p\"\n\
                  [[agents.a.workspaces]]\nprefix = \"/v\"\nscope = \"rw\"\nstore = \"v\"\n";
    std::fs::write(stead.path("stead.toml"), config).unwrap();
    std::fs::create_dir(small_disk.path("ph")).unwrap();
    for number in 0..40 {
        stead.run_ok(&["write", &format!("/p/f{number}"), &format!("line of file {number}\n").repeat(900)]);
    }
    stead.run_ok(&["write", "/p/keep", "hello\n"]);
    stead.run_ok(&["write", "/p/sub/in", "hello\n"]);
    stead.run_ok(&["write", "/v/note", "hello\n"]);
    stead.run_ok(&["snapshot", "--label", "s1"]);
    stead.run_ok(&["write", "/p/keep", "hello again\n"]);
    stead
}

fn check_full_disk(small_disk: &Disk) {
    let stead = set_up(small_disk);
    small_disk.fill_except(0);
    for args in [
        &["cat", "/p/keep"][..],
        &["ls", "/p"],
        &["stat", "/p/keep"],
        &["grep", "hello", "/p"],
        &["log"],
        &["log", "/p/keep"],
        &["blame", "/p/keep"],
        &["cat", "/p/keep", "--at", "s1"],
        &["diff", "/p", "s1"],
        &["verify"],
    ] {
        stead.run_ok(args);
    }
    let (code, output) = stead.run(&["--json", "write", "/p/new", &"x".repeat(50_000)]);
    assert!(code == 1 && output.contains(r#""code":"quota""#), "{code} {output}");
    for number in 0..40 {
        stead.run_ok(&["rm", &format!("/p/f{number}")]);
    }
    stead.run_ok(&["rm", "-r", "/p/sub"]);
    stead.run_ok(&["mv", "/p/keep", "/p/kept"]);
    stead.run_ok(&["undo"]);
    // Deleted content is still there for undo: nothing was dropped to make room.
    small_disk.remove_filler();
    stead.run_ok(&["undo"]);
    assert_eq!(stead.run_ok(&["cat", "/p/sub/in"]), "hello\n");
    small_disk.fill_except(0);
    let before = small_disk.free();
    std::fs::write(stead.path("stead.toml"), {
        let config = std::fs::read_to_string(stead.path("stead.toml")).unwrap();
        config.replace("path = \"disk/ph\"\n", "path = \"disk/ph\"\nkeep = { age = \"0s\" }\n")
    })
    .unwrap();
    stead.run_ok(&["gc"]);
    assert!(small_disk.free() >= before + 500_000, "{} of {before}", small_disk.free());
    stead.run_ok(&["write", "/p/new", "fits"]);
    small_disk.remove_filler();
    for args in [&["verify"][..], &["audit", "verify"], &["cat", "/p/keep"]] {
        stead.run_ok(args);
    }
}

#[test]
fn a_full_disk_under_a_physical_store_is_read_and_emptied() {
    let name = "separate_store_disk::a_full_disk_under_a_physical_store_is_read_and_emptied";
    on_small_disk(name, Kind::Memory, check_full_disk);
}

#[test]
fn a_full_disk_with_small_blocks_under_a_physical_store_is_read_and_emptied() {
    let name =
        "separate_store_disk::a_full_disk_with_small_blocks_under_a_physical_store_is_read_and_emptied";
    on_small_disk(name, Kind::SmallBlocks, check_full_disk);
}

#[test]
fn a_physical_store_on_a_read_only_disk_shows_its_history_and_blocks_no_other_store() {
    let name = "separate_store_disk::a_physical_store_on_a_read_only_disk_shows_its_history_and_blocks_no_other_store";
    on_small_disk(name, Kind::Memory, |small_disk| {
        let stead = set_up(small_disk);
        stead.run_ok(&["write", "/v/note", "more\n"]);
        let remount = |options: &str| {
            let status =
                Command::new("mount").args(["-o", options]).arg(small_disk.path("")).status().unwrap();
            assert!(status.success());
        };
        remount("remount,ro");
        let log = stead.run_ok(&["log"]);
        assert!(log.contains("/p/keep") && log.contains("/v/note"), "{log}");
        stead.run_ok(&["blame", "/p/keep"]);
        assert_eq!(stead.run_ok(&["cat", "/p/keep", "--at", "s1"]), "hello\n");
        let diff = stead.run_ok(&["diff", "/", "s1"]);
        assert!(diff.contains("/p/keep") && diff.contains("/v/note"), "{diff}");
        stead.run_ok(&["snapshot", "--label", "s2"]);
        stead.run_ok(&["undo"]);
        assert_eq!(stead.run_ok(&["cat", "/v/note"]), "hello\n");
        let (code, output) = stead.run(&["--json", "undo"]);
        assert!(code == 1 && output.contains(r#""code":"denied""#), "{code} {output}");
        let (code, output) = stead.run(&["--json", "write", "/p/new", "x"]);
        assert!(code == 1 && output.contains(r#""code":"denied""#), "{code} {output}");
        remount("remount,rw");
        assert_eq!(stead.run_ok(&["cat", "/p/keep", "--at", "s2"]), "hello again\n");
        stead.run_ok(&["verify"]);
    });
}
