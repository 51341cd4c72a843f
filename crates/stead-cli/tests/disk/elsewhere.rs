//! A Physical Store on a different disk than the state directory.

use std::process::Command;

use crate::small::{Disk, Kind, on_small_disk};

/// A stead next to the small disk, with a Physical Store on that disk and a Virtual Store outside it.
fn furnish(small: &Disk) -> Disk {
    let host = small.path("").parent().unwrap().to_owned();
    let stead = Disk::at(&host);
    let config = "[stores.p]\nkind = \"physical\"\npath = \"disk/ph\"\n[stores.v]\nkind = \"virtual\"\n\
                  [[agents.a.workspaces]]\nprefix = \"/p\"\nscope = \"rw\"\nstore = \"p\"\n\
                  [[agents.a.workspaces]]\nprefix = \"/v\"\nscope = \"rw\"\nstore = \"v\"\n";
    std::fs::write(stead.path("stead.toml"), config).unwrap();
    std::fs::create_dir(small.path("ph")).unwrap();
    for number in 0..40 {
        stead.done(&["write", &format!("/p/f{number}"), &format!("line of file {number}\n").repeat(900)]);
    }
    stead.done(&["write", "/p/keep", "hello\n"]);
    stead.done(&["write", "/p/sub/in", "hello\n"]);
    stead.done(&["write", "/v/note", "hello\n"]);
    stead.done(&["snapshot", "--label", "s1"]);
    stead.done(&["write", "/p/keep", "hello again\n"]);
    stead
}

fn full(small: &Disk) {
    let stead = furnish(small);
    small.fill_but(0);
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
        stead.done(args);
    }
    let (code, said) = stead.told(&["--json", "write", "/p/new", &"x".repeat(50_000)]);
    assert!(code == 1 && said.contains(r#""code":"quota""#), "{code} {said}");
    for number in 0..40 {
        stead.done(&["rm", &format!("/p/f{number}")]);
    }
    stead.done(&["rm", "-r", "/p/sub"]);
    stead.done(&["mv", "/p/keep", "/p/kept"]);
    stead.done(&["undo"]);
    // Deleted content is still there for undo: nothing was dropped to make room.
    small.make_room();
    stead.done(&["undo"]);
    assert_eq!(stead.done(&["cat", "/p/sub/in"]), "hello\n");
    small.fill_but(0);
    let before = small.free();
    std::fs::write(stead.path("stead.toml"), {
        let config = std::fs::read_to_string(stead.path("stead.toml")).unwrap();
        config.replace("path = \"disk/ph\"\n", "path = \"disk/ph\"\nkeep = { age = \"0s\" }\n")
    })
    .unwrap();
    stead.done(&["gc"]);
    assert!(small.free() >= before + 500_000, "{} of {before}", small.free());
    stead.done(&["write", "/p/new", "fits"]);
    small.make_room();
    for args in [&["verify"][..], &["audit", "verify"], &["cat", "/p/keep"]] {
        stead.done(args);
    }
}

#[test]
fn a_full_disk_under_a_directory_is_read_and_emptied() {
    let name = "elsewhere::a_full_disk_under_a_directory_is_read_and_emptied";
    on_small_disk(name, Kind::Memory, full);
}

#[test]
fn a_full_disk_with_small_blocks_under_a_directory_is_read_and_emptied() {
    let name = "elsewhere::a_full_disk_with_small_blocks_under_a_directory_is_read_and_emptied";
    on_small_disk(name, Kind::SmallBlocks, full);
}

#[test]
fn a_directory_on_a_read_only_disk_tells_its_history_and_holds_nothing_up() {
    let name = "elsewhere::a_directory_on_a_read_only_disk_tells_its_history_and_holds_nothing_up";
    on_small_disk(name, Kind::Memory, |small| {
        let stead = furnish(small);
        stead.done(&["write", "/v/note", "more\n"]);
        let remount = |how: &str| {
            let done = Command::new("mount").args(["-o", how]).arg(small.path("")).status().unwrap();
            assert!(done.success());
        };
        remount("remount,ro");
        let log = stead.done(&["log"]);
        assert!(log.contains("/p/keep") && log.contains("/v/note"), "{log}");
        stead.done(&["blame", "/p/keep"]);
        assert_eq!(stead.done(&["cat", "/p/keep", "--at", "s1"]), "hello\n");
        let differs = stead.done(&["diff", "/", "s1"]);
        assert!(differs.contains("/p/keep") && differs.contains("/v/note"), "{differs}");
        stead.done(&["snapshot", "--label", "s2"]);
        stead.done(&["undo"]);
        assert_eq!(stead.done(&["cat", "/v/note"]), "hello\n");
        let (code, said) = stead.told(&["--json", "undo"]);
        assert!(code == 1 && said.contains(r#""code":"denied""#), "{code} {said}");
        let (code, said) = stead.told(&["--json", "write", "/p/new", "x"]);
        assert!(code == 1 && said.contains(r#""code":"denied""#), "{code} {said}");
        remount("remount,rw");
        assert_eq!(stead.done(&["cat", "/p/keep", "--at", "s2"]), "hello again\n");
        stead.done(&["verify"]);
    });
}
