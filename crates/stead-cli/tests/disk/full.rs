//! A full disk can be read and emptied, and every change that doesn't fit fails with the same exit code.

use crate::small_disk::{Disk, Kind, on_small_disk};

fn sweep(disk: &Disk) {
    disk.set_up();
    for (round, free) in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].into_iter().enumerate() {
        disk.fill_except(free << 10);
        let file = format!("/notes/f{round}");
        for args in [
            &["cat", "/notes/keep"][..],
            &["ls", "/notes"],
            &["grep", "hello", "/notes"],
            &["log", "/notes/keep"],
            &["cat", "--at", "1", "/notes/f0"],
        ] {
            assert_eq!(disk.run(args).0, 0, "{free} KiB free: {args:?}: {}", disk.run(args).1);
        }
        for size in [10, 120_000] {
            let (code, output) =
                disk.run(&["--json", "write", &format!("/notes/new{round}"), &"x".repeat(size)]);
            let refused = code == 1 && output.contains(r#""code":"quota""#);
            assert!(code == 0 || refused, "{free} KiB free, {size} bytes: {code} {output}");
        }
        for args in [&["rm", &file][..], &["gc", "--older-than", "0s", "--grace", "0s"], &["audit"]] {
            let (code, output) = disk.run(args);
            assert_eq!(code, 0, "{free} KiB free: {args:?}: {output}");
        }
        disk.remove_filler();
        // The reserve that was used up is set aside again.
        assert_eq!(disk.exit_code(&["cat", "/notes/keep"]), 0);
    }
    for args in [&["verify"][..], &["audit", "verify"]] {
        let (code, output) = disk.run(args);
        assert_eq!(code, 0, "{args:?}: {output}");
    }
    assert_eq!(disk.run(&["cat", "/notes/keep"]), (0, "hello\n".to_owned()));
}

#[test]
fn a_full_disk_is_read_and_emptied_however_little_space_is_left() {
    let name = "full::a_full_disk_is_read_and_emptied_however_little_space_is_left";
    on_small_disk(name, Kind::Memory, sweep);
}

#[test]
fn a_full_disk_with_small_blocks_kills_no_process() {
    let name = "full::a_full_disk_with_small_blocks_kills_no_process";
    on_small_disk(name, Kind::SmallBlocks, sweep);
}

#[test]
fn writes_that_do_not_fit_leave_space_for_deleting() {
    let name = "full::writes_that_do_not_fit_leave_space_for_deleting";
    on_small_disk(name, Kind::Memory, |disk| {
        disk.set_up();
        disk.fill_except(0);
        // No command that adds content can use the reserve, however often it tries.
        for round in 0..10 {
            let text = "y".repeat(100_000);
            let code = disk.exit_code(&["write", &format!("/notes/more{round}"), &text]);
            assert_eq!(code, 1, "round {round}");
        }
        for number in 0..14 {
            let (code, output) = disk.run(&["rm", &format!("/notes/f{number}")]);
            assert_eq!(code, 0, "{number}: {output}");
        }
        assert_eq!(disk.exit_code(&["gc", "--older-than", "0s", "--grace", "0s"]), 0);
        disk.remove_filler();
        assert_eq!(disk.exit_code(&["verify"]), 0);
    });
}

/// Which errors a program on a mount gets on a full disk, and what it can still do.
fn fill_through_a_mount(disk: &Disk) {
    let config = "[stores.notes]\nkind = \"virtual\"\n[stores.project]\nkind = \"physical\"\npath = \"project\"\n\
                  [agents.a]\nworkspaces = [\n\
                  { prefix = \"/v\", store = \"notes\", path = \"/v\", scope = \"rw\" },\n\
                  { prefix = \"/p\", store = \"project\", scope = \"rw\" },\n]\n";
    std::fs::write(disk.path("stead.toml"), config).unwrap();
    for directory in ["project", "mnt"] {
        std::fs::create_dir(disk.path(directory)).unwrap();
    }
    let mount_output = disk.stead(&["mount", "--background", "mnt"]);
    assert!(mount_output.status.success(), "{}", String::from_utf8_lossy(&mount_output.stderr));
    let sh = |script: &str| {
        let mut shell = std::process::Command::new("bash");
        let output =
            shell.args(["-c", script]).env("LC_ALL", "C").current_dir(disk.path("mnt")).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    for workspace in ["v", "p"] {
        let (succeeded, text) = sh(&format!(
            "for n in $(seq 9); do head -c 90000 /dev/urandom > {workspace}/s$n || exit 1; done"
        ));
        assert!(succeeded, "{workspace}: {text}");
    }
    for workspace in ["v", "p"] {
        for size in ["256k", "4k", "100"] {
            let (succeeded, text) =
                sh(&format!("dd if=/dev/urandom of={workspace}/big{size} bs={size} count=20000 status=none"));
            assert!(!succeeded && text.contains("No space left"), "{workspace}, {size}: {text}");
            assert!(!text.contains("Input/output"), "{workspace}, {size}: {text}");
        }
        let (succeeded, text) = sh(&format!("rm {workspace}/s1 {workspace}/s2 {workspace}/s3"));
        assert!(succeeded, "{workspace}: {text}");
        let (_, listing) = sh(&format!("ls {workspace}"));
        assert!(!listing.contains("s1\n") && listing.contains("s4\n"), "{workspace}: {listing}");
    }
    // Once there is space, everything works again.
    let (succeeded, text) = sh("rm -f v/big* p/big*");
    assert!(succeeded, "{text}");
    let (unmounted, text) = sh(&format!("cd / && umount {}", disk.path("mnt").display()));
    assert!(unmounted, "{text}");
    // When the mount's process ends, it writes its database log back, into the space that `gc` needs. If it can't sign
    // the end of its records, its directory stays.
    let (running, start) = (disk.path(".stead/audit/running"), std::time::Instant::now());
    while std::fs::read_dir(&running).unwrap().next().is_some() && start.elapsed().as_secs() < 5 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let (code, text) = disk.run(&["gc", "--older-than", "0s", "--grace", "0s"]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = disk.run(&["write", "/v/new", "hello\n"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(disk.exit_code(&["verify"]), 0);
}

#[test]
fn a_mount_on_a_full_disk_reports_no_space_and_lets_files_be_removed() {
    let name = "full::a_mount_on_a_full_disk_reports_no_space_and_lets_files_be_removed";
    on_small_disk(name, Kind::Memory, fill_through_a_mount);
}
