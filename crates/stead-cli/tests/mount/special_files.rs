//! What ordinary programs need apart from plain files and directories: symlinks to programs of the host, owners, pipes,
//! sockets, and files without a name.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use super::common::{OnMount, TestDir, WORKSPACES};

#[test]
fn python_makes_a_virtual_environment() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let script = "python3 -m venv --without-pip env && env/bin/python -c 'import sys; print(sys.prefix)'";
        let prefix = mount.sh(workspace, script);
        assert_eq!(prefix.trim(), mount.path(workspace).join("env").to_str().unwrap(), "{workspace}");
        let target = mount.sh(workspace, "readlink env/bin/python3 env/bin/python | grep ^/");
        assert!(fs::metadata(target.trim()).unwrap().is_file(), "{workspace}: {target}");
        // A tool still doesn't follow it.
        let link = mount.sh(workspace, "cd env/bin && find . -lname '/*' | sed 's,^./,,'");
        let refused = dir.run(["cat", &format!("/{workspace}/env/bin/{}", link.trim())]);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && stderr.contains("leads outside"), "{workspace}: {stderr}");
    }
}

#[test]
fn only_symlinks_to_programs_that_everybody_can_run_are_followed_out_of_the_mount() {
    let dir = TestDir::new();
    let mount = dir.mount();
    let host_path = |name: &str| dir.path(name).to_str().unwrap().to_owned();
    for (name, mode) in [("tool", 0o755), ("mine", 0o700), ("data", 0o644)] {
        fs::write(dir.path(name), "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(dir.path(name), Permissions::from_mode(mode)).unwrap();
        mount.sh("v", &format!("ln -s {} {name}", host_path(name)));
    }
    assert_eq!(mount.sh("v", "./tool; readlink tool"), format!("ran\n{}\n", host_path("tool")));
    mount.sh("v", &format!("ln -s {} directory && ln -s ../../tool relative", host_path("project")));
    for name in ["mine", "data", "directory", "relative"] {
        for script in [format!("cat {name}/."), format!("cat {name}"), format!("readlink -v {name}")] {
            let output = mount.shell("v", &script);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && stderr.contains("Permission denied"), "{script}: {stderr}");
        }
    }
    // A target inside the mount isn't looked up: the mount would wait for its own answer.
    mount.sh(
        "v",
        &format!("echo x > f && chmod 755 f && ln -s {}/./v/../v/f around", mount.mount_point.display()),
    );
    let around = mount.shell("v", "cat around");
    assert!(around.status.success() || String::from_utf8_lossy(&around.stderr).contains("Permission denied"));
}

#[test]
fn root_can_unpack_an_archive_of_other_owners() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let dir = TestDir::new();
    let mount = dir.mount();
    let archive = dir.path("archive.tar");
    let script = format!(
        "mkdir {0}.d && echo x > {0}.d/f && mkdir {0}.d/d && tar cf {0} --owner=12345 --group=54321 -C {0}.d .",
        archive.display()
    );
    mount.sh("", &script);
    for workspace in WORKSPACES {
        let script =
            format!("mkdir out && tar xpf {} -C out && cat out/f && stat -c %u out/f", archive.display());
        assert_eq!(mount.sh(workspace, &script), "x\n0\n", "{workspace}");
    }
    mount.end_cleanly();
    let strict = dir.mount_at("mnt", &["--strict-owner"]);
    let refused = strict.shell("v", "chown 12345 out/f");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Operation not permitted"));
}

#[test]
fn pipes_and_sockets_last_as_long_as_the_mount() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let directory = mount.path(workspace);
        assert_eq!(
            mount.sh(
                workspace,
                "mkfifo -m 600 pipe && (echo through > pipe &) && cat pipe && stat -c '%F %a' pipe"
            ),
            "through\nfifo 600\n",
            "{workspace}"
        );
        let listener = UnixListener::bind(directory.join("socket")).unwrap();
        let mut client = UnixStream::connect(directory.join("socket")).unwrap();
        client.write_all(b"hello").unwrap();
        let mut received = [0; 5];
        listener.accept().unwrap().0.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"hello");
        assert!(fs::symlink_metadata(directory.join("socket")).unwrap().file_type().is_socket());
        // They behave like other nodes: they are listed, moved with their directory, replaced and removed.
        mount.sh(workspace, "mkdir d && mv pipe d/p && chmod 640 d/p && mv d e && mkfifo e/q && mv e/q e/p");
        assert_eq!(mount.sh(workspace, "ls; ls -l e | grep -c ^p; stat -c %a e/p"), {
            let names = if workspace == "v" { "e\nnested\nsocket\n" } else { "e\nsocket\n" };
            format!("{names}1\n644\n")
        });
        for (script, expected) in [
            ("rmdir e", "not empty"),
            ("mkdir other && mv -T other e", "not empty"),
            ("mkfifo e/p", "File exists"),
            ("mkdir e/p", "File exists"),
            ("ln -s x e/p", "File exists"),
        ] {
            let output = mount.shell(workspace, script);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && stderr.contains(expected), "{workspace}: {script}: {stderr}");
        }
        mount
            .sh(workspace, "echo file > f && mv f e/p && test -f e/p && mkfifo g && mv g e/p && test -p e/p");
        mount.sh(workspace, "rm e/p && rmdir e other && rm socket");
        // Only the mount knows of them.
        mount.sh(workspace, "mkfifo left && test -p left");
        assert!(!dir.stead(["ls", &format!("/{workspace}")]).contains("left"), "{workspace}");
        dir.run_with_input(["write", &format!("/{workspace}/left")], "a file\n");
        let is_file_shown =
            || fs::symlink_metadata(directory.join("left")).is_ok_and(|metadata| metadata.is_file());
        assert!(
            super::common::eventually(is_file_shown),
            "{workspace}: a file of the Store has to hide a pipe of the same name"
        );
        dir.stead(["rm", &format!("/{workspace}/left")]);
    }
    for (script, expected) in [
        ("mkfifo ro/pipe", "Read-only file system"),
        ("mkfifo in/pipe", "Operation not permitted"),
        ("mkdir -p guarded/.git && mkfifo guarded/.git/config", "Operation not permitted"),
        ("mkfifo pipe", "ermi"),
    ] {
        let output = mount.shell("", script);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(expected), "{script}: {stderr}");
    }
    mount.end_cleanly();
    let next_mount = dir.mount();
    assert!(!next_mount.path("v/left").exists() && !next_mount.path("p/left").exists());
}

#[test]
fn an_unlinked_file_can_be_opened_again_and_has_a_mode() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let path = mount.path(workspace).join("f");
        let mut options = fs::OpenOptions::new();
        let mut file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(b"before").unwrap();
        fs::remove_file(&path).unwrap();
        file.write_all(b" and after").unwrap();
        let descriptor_path = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert_eq!(fs::read_to_string(&descriptor_path).unwrap(), "before and after", "{workspace}");
        fs::OpenOptions::new().append(true).open(&descriptor_path).unwrap().write_all(b", again").unwrap();
        assert_eq!(fs::read_to_string(&descriptor_path).unwrap(), "before and after, again", "{workspace}");
        file.set_permissions(Permissions::from_mode(0o600)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(77)).unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!(
            (metadata.mode() & 0o7777, metadata.mtime(), metadata.nlink()),
            (0o600, 77, 0),
            "{workspace}"
        );
        // Another file has the name by now.
        fs::write(&path, "another").unwrap();
        assert_eq!(fs::read_to_string(&descriptor_path).unwrap(), "before and after, again", "{workspace}");
        drop(file);
        assert_eq!(dir.stead(["cat", &format!("/{workspace}/f")]), "another", "{workspace}");
        // Another thread of this process may have opened something else with this number by now.
        let open_now = fs::metadata(&descriptor_path).map(|metadata| (metadata.dev(), metadata.ino()));
        assert_ne!(open_now.ok(), Some((metadata.dev(), metadata.ino())), "{workspace}");
    }
}

/// A thread that opens a file whenever it is told to, and returns the content.
struct Reader {
    requests: std::sync::mpsc::Sender<PathBuf>,
    contents: std::sync::mpsc::Receiver<String>,
}

impl Reader {
    fn start() -> Self {
        let (requests, paths) = std::sync::mpsc::channel::<PathBuf>();
        let (send, contents) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while let Ok(path) = paths.recv() {
                let _ = send.send(fs::read_to_string(path).unwrap());
            }
        });
        Reader { requests, contents }
    }
}

/// Renames `new` over `f` on the mount. While that waits for the database, a program of the host gives `f` another content, and then
/// the reader opens it. Returns what the reader gets.
fn read_while_renamed(dir: &TestDir, mount: &OnMount, reader: &Reader, written: &str) -> String {
    fs::write(mount.path("p/new"), "moved").unwrap();
    fs::write(dir.path("outside"), written).unwrap();
    let database = rusqlite::Connection::open(dir.path(".stead/stead.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let renaming = scope.spawn(|| fs::rename(mount.path("p/new"), mount.path("p/f")));
        std::thread::sleep(Duration::from_secs(1));
        fs::rename(dir.path("outside"), dir.path("project/f")).unwrap();
        reader.requests.send(mount.path("p/f")).unwrap();
        std::thread::sleep(Duration::from_millis(150));
        assert!(!renaming.is_finished(), "the database is locked");
        database.execute_batch("ROLLBACK").unwrap();
        renaming.join().unwrap().unwrap();
    });
    reader.contents.recv().unwrap()
}

/// A file system may give a file that is removed and a new one the same inode number. An open of the first that came too late must not
/// let the same thread into the second when that is gone.
#[test]
fn a_replaced_file_is_not_read_because_an_earlier_one_had_its_number() {
    let dir = TestDir::new();
    let config = fs::read_to_string(dir.path("stead.toml")).unwrap();
    // So that a number is free as soon as no program has its file open.
    let config = config.replace("path = \"project\"", "path = \"project\"\nkeep = false");
    fs::write(dir.path("stead.toml"), config).unwrap();
    let mount = dir.mount();
    let reader = Reader::start();
    fs::write(dir.path("project/f"), "first").unwrap();
    let number = |path: PathBuf| fs::metadata(path).unwrap().ino();
    let (on_host, on_mount) = (number(dir.path("project/f")), number(mount.path("p/f")));
    let open = fs::File::open(mount.path("p/f")).unwrap();
    assert_eq!(read_while_renamed(&dir, &mount, &reader, "second"), "moved");
    drop(open);

    let mut spare = 0;
    let gets_the_number = || {
        spare += 1;
        fs::write(dir.path("project/third"), "third").unwrap();
        if number(dir.path("project/third")) == on_host {
            return true;
        }
        fs::rename(dir.path("project/third"), dir.path(&format!("project/spare-{spare}"))).unwrap();
        false
    };
    if !super::common::eventually(gets_the_number) {
        println!("SKIPPED: this file system doesn't use inode numbers again");
        return;
    }
    fs::rename(dir.path("project/third"), dir.path("project/f")).unwrap();
    assert!(super::common::eventually(|| fs::read_to_string(mount.path("p/f")).unwrap() == "third"));
    assert_eq!(number(mount.path("p/f")), on_mount, "the kernel has forgotten the first file");
    let _open = fs::File::open(mount.path("p/f")).unwrap();
    let read = read_while_renamed(&dir, &mount, &reader, "fourth");
    assert!(["fourth", "moved"].contains(&&*read), "{read}");
}

#[test]
fn a_move_that_would_make_paths_too_long_is_refused() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let script = "deep=$(printf 'a/%.0s' $(seq 40)) && mkdir -p $deep b/b/b && b=$(printf 'b/%.0s' $(seq 30)) \
            && mkdir -p $b && ! mv b $deep 2> said && grep -q 'File name too long' said && test -d $b \
            && mkdir -p c/c/c && mv c $deep && ls -d ${deep}c/c/c && mv ${deep}c c && rm -r a b c && ls";
        let output = mount.sh(workspace, script);
        let expected = if workspace == "v" { "nested\nsaid\n" } else { "said\n" };
        assert!(output.ends_with(&format!("a/c/c/c\n{expected}")), "{workspace}: {output}");
    }
    // A tool returns the reason as a sentence.
    dir.stead(["mkdir", "-p", &format!("/v{}", "/x".repeat(50))]);
    dir.stead(["mkdir", "-p", &format!("/v{}", "/y".repeat(30))]);
    for command in ["mv", "cp"] {
        let to = format!("/v{}/y", "/x".repeat(50));
        let refused = dir.run([command, "/v/y", &to]);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && stderr.contains("at most 64"), "{command}: {stderr}");
    }
}
