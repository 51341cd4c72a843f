//! Programs that people use every day.

use std::fs;
use std::process::Stdio;

use super::common::{TestDir, WORKSPACES};

#[test]
fn git_clones_commits_and_packs() {
    let dir = TestDir::new();
    let mount = dir.mount();
    let source = dir.path("source");
    let make = "git init -q -b main . && mkdir -p a/b \
        && for n in $(seq 150); do echo line $n > a/b/f$n; done && ln -s a/b link \
        && git add -A && git commit -qm first";
    fs::create_dir(&source).unwrap();
    let outside = super::common::OnMount { child: ended_process(), mount_point: source.clone() };
    outside.sh("", make);
    for workspace in WORKSPACES {
        let script = format!(
            "git clone -q {} repo && cd repo && git status --porcelain \
             && echo more >> a/b/f7 && git mv a/b/f8 a/b/g8 && git commit -qam second && git gc -q \
             && git status --porcelain && git fsck --strict 2>&1 && git rev-list --count HEAD && readlink link",
            source.display()
        );
        assert_eq!(mount.sh(workspace, &script), "2\na/b\n", "{workspace}");
        // A second run shows no difference either.
        assert_eq!(mount.sh(&format!("{workspace}/repo"), "git status --porcelain; git diff --stat"), "");
    }
}

/// By default, files such as `.env` and `*.key` are hidden: a program sees that they are there and can't open them.
#[test]
fn git_keeps_hidden_files_that_it_tracks() {
    let dir = TestDir::new();
    let source = dir.path("project/host");
    fs::create_dir(&source).unwrap();
    let outside = super::common::OnMount { child: ended_process(), mount_point: source.clone() };
    // Git reads a file again that is as new as its index, whatever the other attributes are.
    let make = "git init -q -b main . && mkdir tls && echo secret > .env && echo secret > tls/a.key && echo a > a \
        && touch -d '1 hour ago' .env tls/a.key && git add -A && git commit -qm first";
    outside.sh("", make);
    let archive = dir.path("hidden.tar");
    outside.sh("", &format!("tar cf {} --mode 640 --mtime @1000000000 .env", archive.display()));
    let mount = dir.mount();
    assert_eq!(mount.sh("p/host", "git status --porcelain"), "");
    let commit = "echo b >> a && git commit -qam second && git status --porcelain \
        && git ls-tree -r --name-only HEAD && git diff --stat HEAD~";
    let expected = ".env\na\ntls/a.key\n a | 1 +\n 1 file changed, 1 insertion(+)\n";
    assert_eq!(mount.sh("p/host", commit), expected);
    for workspace in WORKSPACES {
        // Git checks the files out itself, can't read them again, and doesn't take them for deleted.
        mount.sh(workspace, &format!("git clone -q {} repo", source.display()));
        let repository = format!("{workspace}/repo");
        // It compares the content of the files that are as new as its index: here, of all.
        let commit = "touch -d '1 hour ago' .git/index && echo c >> a \
            && ! git commit -qam third 2>&1 && git commit -qm third a \
            && git ls-tree -r --name-only HEAD && rm .env && git checkout -q .env && stat -c %s .env tls/a.key";
        let answer = mount.sh(&repository, commit);
        assert!(answer.contains("open(\".env\"): Permission denied"), "{answer}");
        assert!(answer.ends_with("\n.env\na\ntls/a.key\n7\n7\n"), "{answer}");
        let refused = mount.shell(&repository, "cat .env");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("Permission denied"), "{refused:?}");
        // The program that creates such a file sets its mode and its times. Later, no program does.
        mount.sh(&repository, &format!("mkdir unpacked && tar xf {} -C unpacked", archive.display()));
        assert_eq!(mount.sh(&repository, "stat -c '%a %Y' unpacked/.env"), "640 1000000000\n");
        for change in ["chmod 777 .env", "touch -d '1 hour ago' .env", "chmod 777 unpacked/.env"] {
            let refused = mount.shell(&repository, change);
            assert!(String::from_utf8_lossy(&refused.stderr).contains("Permission denied"), "{refused:?}");
        }
        let read = dir.run(["cat", &format!("/{repository}/.env")]);
        assert!(String::from_utf8_lossy(&read.stderr).contains("does not exist"), "{read:?}");
    }
}

/// A process that has ended, for tests that need no mount process.
fn ended_process() -> std::process::Child {
    let mut child = std::process::Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    child.wait().unwrap();
    child
}

#[test]
fn a_crate_is_built_once() {
    let dir = TestDir::new();
    let mount = dir.mount();
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    for workspace in WORKSPACES {
        let directory = mount.path(workspace).join("crate");
        fs::create_dir_all(directory.join("src")).unwrap();
        fs::write(directory.join("Cargo.toml"), manifest).unwrap();
        fs::write(directory.join("src/main.rs"), "fn main() { println!(\"built\"); }\n").unwrap();
        let relative = format!("{workspace}/crate");
        let first = mount.sh(&relative, "cargo build --offline 2>&1");
        assert!(first.contains("Compiling small"), "{first}");
        let second = mount.sh(&relative, "cargo build --offline 2>&1");
        assert!(!second.contains("Compiling") && second.contains("Finished"), "{second}");
        assert_eq!(mount.sh(&relative, "target/debug/small"), "built\n");
        fs::write(directory.join("src/main.rs"), "fn main() { println!(\"again\"); }\n").unwrap();
        assert_eq!(mount.sh(&relative, "cargo run -q --offline"), "again\n");
    }
}

#[test]
fn npm_installs_a_package() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        let script = "mkdir pack && cd pack && npm init -y > /dev/null \
            && npm install --no-audit --no-fund --silent is-odd@3.0.1 >/dev/null \
            && node -e 'console.log(require(\"is-odd\")(3))'";
        assert_eq!(mount.sh(workspace, script), "true\n", "{workspace}");
    }
}

#[test]
fn two_processes_share_a_sqlite_database() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        for mode in ["wal", "delete"] {
            let script = format!(
                "rm -f db*; sqlite3 db 'PRAGMA journal_mode={mode}; CREATE TABLE t(who, n);' > /dev/null
                 fill() {{ for n in $(seq 25); do
                   sqlite3 -cmd '.timeout 20000' db \"INSERT INTO t VALUES('$1', $n); INSERT INTO t VALUES('$1', -$n);\"
                 done; }}
                 fill a & one=$!; fill b & two=$!; wait $one && wait $two
                 sqlite3 db 'SELECT count(*), sum(n) FROM t; PRAGMA integrity_check; PRAGMA journal_mode;'"
            );
            assert_eq!(mount.sh(workspace, &script), format!("100|0\nok\n{mode}\n"), "{workspace} {mode}");
        }
    }
}

#[test]
fn trees_are_searched_and_copied_by_grep_rsync_and_tar() {
    let dir = TestDir::new();
    let mount = dir.mount();
    let outside = dir.path("outside");
    let make = format!(
        "mkdir -p {0}/deep/er && cd {0} && for n in $(seq 40); do echo needle $n > deep/f$n; done \
         && head -c 3000000 /dev/urandom > deep/er/large && ln -s deep/f1 link && chmod 750 deep && chmod +x deep/f2 \
         && touch -d 2020-02-02T02:02:02 deep/f3 && : > empty",
        outside.display()
    );
    mount.sh("", &make);
    for workspace in WORKSPACES {
        let script = format!(
            "rsync -a {0}/ there/ && rsync -a there/ {0}-back-{workspace}/ \
             && diff -r --no-dereference {0} {0}-back-{workspace} \
             && test \"$(rsync -ain {0}/ there/)\" = '' \
             && grep -r needle there | wc -l && tar cf {0}-{workspace}.tar -C there . \
             && mkdir unpacked && tar xf {0}-{workspace}.tar -C unpacked && diff -r --no-dereference there unpacked \
             && stat -c '%a %Y' unpacked/deep/f3 unpacked/deep/f2 | head -1 && stat -c %a unpacked/deep/f2",
            outside.display()
        );
        assert_eq!(mount.sh(workspace, &script), "40\n644 1580608922\n755\n", "{workspace}");
    }
}

#[test]
fn an_editor_saves_over_the_file() {
    let dir = TestDir::new();
    let mount = dir.mount();
    for workspace in WORKSPACES {
        // Like vim and many other editors: a new file is synced and then renamed over the old one.
        let script = "echo one > f && chmod 600 f && cp -p f f~ && echo two > .f.new && chmod 600 .f.new \
            && sync .f.new && mv .f.new f && rm f~ && cat f && stat -c %a f && ls -A | grep f";
        assert_eq!(mount.sh(workspace, script), "two\n600\nf\n", "{workspace}");
        assert_eq!(dir.stead(["cat", &format!("/{workspace}/f")]), "two\n");
    }
}
