//! What a shell on the mount can't do.

use std::fs;
use std::os::unix::fs::symlink;

use super::common::TestDir;

/// The stderr of a script that has to fail.
fn stderr_of_failure(mount: &super::common::OnMount, script: &str) -> String {
    let output = mount.shell("", script);
    assert!(!output.status.success(), "{script}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn access_scopes_bind_every_program() {
    let dir = TestDir::new();
    let mount = dir.mount();
    assert_eq!(mount.sh("", "cat ro/there.txt"), "there\n");
    for script in [
        "echo x > ro/new",
        "echo x >> ro/there.txt",
        "rm ro/there.txt",
        "mkdir ro/d",
        "chmod 600 ro/there.txt",
    ] {
        let stderr = stderr_of_failure(&mount, script);
        assert!(stderr.contains("Read-only file system"), "{script}: {stderr}");
    }
    mount.sh("", "echo secret > in/a && mkdir in/d && echo more > in/d/b && test -f in/a && test -d in/d");
    for script in [
        "cat in/a",
        "ls in",
        "grep -r secret in",
        "cp in/a v/",
        "head -c1 in/d/b",
        "find in -mindepth 1 | grep .",
    ] {
        stderr_of_failure(&mount, script);
    }
    // A file that another caller has put there can't be seen, but can be written.
    dir.run_with_input(["write", "/in/theirs"], "first\n");
    stderr_of_failure(&mount, "test -e in/theirs");
    mount.sh("", "echo second >> in/theirs");
    assert_eq!(fs::read_to_string(dir.path("project/none")).ok(), None);
    let output = dir.run(["cat", "/in/theirs"]);
    assert!(!output.status.success());
    for script in
        ["mkdir new", "echo x > file", "rmdir v", "mv p v/", "rm -r v/nested/other", "mkdir elsewhere/x"]
    {
        stderr_of_failure(&mount, script);
    }
    assert_eq!(mount.sh("", "ls"), "guarded\nin\nnarrow\np\nro\nsmall\nv\n");
}

#[test]
fn protected_names_are_read_only() {
    let dir = TestDir::new();
    let mount = dir.mount();
    mount.sh("guarded", "mkdir -p .git sub/.git x");
    let scripts = [
        "mkdir -p .git/hooks; mkdir .git/hooks/x",
        "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "echo x > .git/config",
        "echo x > config && mv config sub/.git/config",
        "ln -s ../x .git/hooks2 && ln -s ../../x sub/.git/hooks",
        "mkdir x/hooks && echo x > x/hooks/pre-push && mv x sub/.git/x && mv sub/.git/x/hooks sub/.git/hooks",
    ];
    for script in scripts {
        let output = mount.shell("guarded", script);
        assert!(!output.status.success(), "{script}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains("Operation not permitted"), "{script}: {stderr}");
    }
    let planted = mount.sh("guarded", "find . -path '*hooks/*' -o -path '*/.git/config'");
    assert!(!planted.contains(".git/hooks/") && !planted.contains(".git/config"), "{planted}");
}

#[test]
fn symlinks_lead_only_into_workspaces() {
    let dir = TestDir::new();
    let mount = dir.mount();
    fs::write(dir.path("secret"), "secret").unwrap();
    let secret = dir.path("secret").to_string_lossy().into_owned();
    symlink("../../secret", dir.path("project/planted")).unwrap();
    symlink(&secret, dir.path("project/absolute")).unwrap();
    mount.sh(
        "v",
        &format!("ln -s {secret} out && ln -s ../../secret up && ln -s /etc/passwd etc && ln -s / root"),
    );
    for link in ["v/out", "v/up", "v/etc", "p/planted", "p/absolute"] {
        let stderr = stderr_of_failure(&mount, &format!("cat {link}"));
        assert!(stderr.contains("Permission denied"), "{link}: {stderr}");
        stderr_of_failure(&mount, &format!("readlink -v {link}"));
        stderr_of_failure(&mount, &format!("echo x > {link}"));
    }
    assert_eq!(fs::read_to_string(dir.path("secret")).unwrap(), "secret");
    // `..` after a symlink leads further up than it looks.
    mount.sh("v", "mkdir -p a secret-dir && ln -s .. a/d && ln -s d/../../secret a/turned");
    let stderr = stderr_of_failure(&mount, "cat v/a/turned");
    assert!(stderr.contains("No such file"), "{stderr}");
    // A program that is in a directory while another caller moves that directory deeper can't use a symlink there that
    // was checked for the new place to get out.
    dir.run_with_input(["write", "/v/moves/f"], "x");
    dir.stead(["mkdir", "-p", "/v/deep/er"]);
    mount.sh("v", "ln -s ../../../secret moves/l; ls moves deep/er/. > /dev/null");
    let binary = env!("CARGO_BIN_EXE_stead");
    let config = dir.path("stead.toml").to_string_lossy().into_owned();
    let script = format!(
        "cd v/moves && {binary} --config {config} mv /v/moves /v/deep/er/moves > /dev/null
         for n in $(seq 100); do cat l 2>/dev/null && exit 0; sleep 0.01; done; exit 1"
    );
    let output = mount.shell("", &script);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(mount.sh("", "cat v/deep/er/moves/f"), "x");
    // The root of the mount is the root of the stead, and an absolute path is a path of the stead.
    assert_eq!(mount.sh("v/root", "ls"), "guarded\nin\nnarrow\np\nro\nsmall\nv\n");
    let mount_point = mount.mount_point.display();
    mount.sh(
        "v",
        &format!(
            "mkdir d && echo inside > d/f && ln -s /v/d/f by-stead && ln -s {mount_point}/v/d/f by-host"
        ),
    );
    assert_eq!(mount.sh("v", "cat by-stead by-host; readlink by-stead"), "inside\ninside\nd/f\n");
    assert_eq!(dir.stead(["cat", "/v/by-host"]), "inside\n");
    mount.sh("v", "ln -s loop loop");
    assert!(stderr_of_failure(&mount, "cat v/loop").contains("Too many levels"));
}

#[test]
fn quotas_are_reported_and_enforced() {
    let dir = TestDir::new();
    let mount = dir.mount();
    assert_eq!(mount.sh("small", "stat -f -c '%b %S' . && head -c 500000 /dev/zero > half"), "256 4096\n");
    assert_eq!(mount.sh("small", "stat -f -c '%f' ."), "133\n");
    let stderr = stderr_of_failure(&mount, "head -c 900000 /dev/zero > small/much");
    assert!(stderr.contains("quota"), "{stderr}");
    stderr_of_failure(&mount, "for n in $(seq 12); do echo > small/f$n; done");
    let blocks = mount.sh("v", "stat -f -c %b .").trim().parse::<u64>().unwrap();
    assert!(blocks > 1000, "a Workspace without a quota has to report the free space of the disk");
}

/// Writes until a write fails. Returns how many bytes were accepted, and the error.
fn fill(file: &fs::File, limit: usize) -> (usize, Option<rustix::io::Errno>) {
    let (block, mut accepted) = (vec![b'x'; 100_000], 0);
    while accepted < limit {
        match rustix::io::write(file, &block) {
            Ok(count) => accepted += count,
            Err(error) => return (accepted, Some(error)),
        }
    }
    (accepted, None)
}

#[test]
fn a_quota_bounds_a_file_that_is_open() {
    const ALLOWED: usize = 1 << 20;
    let dir = TestDir::new();
    for workspace in ["small", "narrow"] {
        let mount = dir.mount();
        let free = || mount.sh(workspace, "stat -f -c %f .").trim().parse::<usize>().unwrap() * 4096;
        let (one, two) = (mount.path(workspace).join("one"), mount.path(workspace).join("two"));
        let (first, second) = (fs::File::create(&one).unwrap(), fs::File::create(&two).unwrap());
        assert_eq!(fill(&first, 600_000), (600_000, None), "{workspace}");
        assert!(
            free() <= ALLOWED - 600_000,
            "{workspace}: `df` has to count bytes that are written but not committed"
        );
        let full = Some(rustix::io::Errno::DQUOT);
        assert_eq!(fill(&second, 10 * ALLOWED), (ALLOWED - 600_000, full), "{workspace}");
        assert_eq!(fill(&first, 1), (0, full), "{workspace}");
        assert_eq!(rustix::fs::ftruncate(&first, 10 * ALLOWED as u64).err(), full, "{workspace}");
        assert_eq!(free(), 0, "{workspace}");
        // Nothing that was accepted is lost.
        drop((first, second));
        let sizes = [&one, &two].map(|path| fs::metadata(path).unwrap().len());
        assert_eq!(sizes, [600_000, (ALLOWED - 600_000) as u64], "{workspace}");
        let content = dir.stead(["cat", &format!("/{workspace}/two")]);
        assert!(
            content.len() == ALLOWED - 600_000 && content.bytes().all(|byte| byte == b'x'),
            "{workspace}"
        );
        // A file without a name uses its quota until it is closed, and a killed mount gives everything back.
        fs::remove_file(&two).unwrap();
        let nameless = fs::File::create(&two).unwrap();
        fs::remove_file(&two).unwrap();
        assert_eq!(fill(&nameless, 10 * ALLOWED), (ALLOWED - 600_000, full), "{workspace}");
        assert_eq!(free(), 0, "{workspace}");
        drop(nameless);
        assert!(super::common::eventually(|| free() > ALLOWED - 610_000), "{workspace}");
        let unfinished = fs::File::create(&two).unwrap();
        assert_eq!(fill(&unfinished, 10 * ALLOWED), (ALLOWED - 600_000, full), "{workspace}");
        mount.kill();
        let next_mount = dir.mount();
        let third = fs::File::create(next_mount.path(workspace).join("three")).unwrap();
        assert_eq!(fill(&third, 10 * ALLOWED), (ALLOWED - 600_000, full), "{workspace}");
        drop(third);
        next_mount.end_cleanly();
    }
}

#[test]
fn unsupported_operations_fail_with_the_errors_that_programs_expect() {
    let dir = TestDir::new();
    // Only root's `chown` to other users is ever accepted, and with `--strict-owner` not even that.
    let mount = dir.mount_at("mnt", &["--strict-owner"]);
    mount.sh("v", "echo x > f && mkdir d");
    let cases = [
        ("ln v/f v/hard", "not supported"),
        ("mknod v/device c 1 3", "Operation not permitted"),
        ("chown 12345 v/f", "Operation not permitted"),
        ("mv -T v/d v/f", "non-directory"),
        ("rmdir v/nested", "busy"),
        ("touch v/$(printf 'a%.0s' $(seq 300))", "name too long"),
    ];
    for (script, expected) in cases {
        let stderr = stderr_of_failure(&mount, script);
        assert!(stderr.to_lowercase().contains(&expected.to_lowercase()), "{script}: {stderr}");
    }
    // A rename into another Workspace is a copy and a removal, as between two disks.
    assert_eq!(mount.sh("", "mv v/f p/f && cat p/f && ls v"), "x\nd\nnested\n");
}
