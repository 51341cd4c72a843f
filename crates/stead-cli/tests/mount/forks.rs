//! Forks on a mount.

use super::common::{TestDir, WORKSPACES, eventually};

#[test]
fn g3_a_fork_is_mounted_and_programs_work_in_it() {
    let dir = TestDir::new();
    for workspace in WORKSPACES {
        dir.stead(["write", &format!("/{workspace}/d/f"), "one\ntwo\n"]);
        dir.stead(["write", &format!("/{workspace}/old"), "old\n"]);
        dir.stead(["fork", &format!("/{workspace}"), &format!("draft-{workspace}")]);
    }
    let mount = dir.mount();
    let tree = "find . -type f | sort | xargs tail -n +1; find . -type l | sort | xargs -r readlink; find . -type d | sort";
    for workspace in WORKSPACES {
        let fork = format!("forks/draft-{workspace}");
        let base = mount.sh(workspace, tree);
        assert_eq!(mount.sh(&fork, "cat d/f"), "one\ntwo\n");
        let script = "echo three >> d/f; sed -i s/one/1/ d/f; cp -r d copy; mv old new; mkdir -p deep/er; echo x > deep/er/x; \
                      ln -s ../d/f deep/link; chmod 755 copy/f; rm -r d; mkdir d; echo other > d/other; touch -d 2020-01-02 new";
        mount.sh(&fork, script);
        let read = "cat copy/f new deep/er/x d/other; readlink deep/link; ls d; stat -c %a copy/f; \
                    test ! -e old; grep -rl three";
        let expected = "1\ntwo\nthree\nold\nx\nother\n../d/f\nother\n755\ncopy/f\n";
        assert_eq!(mount.sh(&fork, read), expected, "{workspace}");
        assert_eq!(mount.sh(&fork, "date -u -r new +%F"), "2020-01-02\n");
        assert_eq!(mount.sh(workspace, tree), base, "the base never changes");
        mount.sh(
            &fork,
            "git init -q . && git add . && git commit -qm one && git status --porcelain && rm -rf .git",
        );
        let merged = dir.stead(["merge", &format!("draft-{workspace}")]);
        assert!(merged.contains(&format!("/{workspace}/copy/f")), "{merged}");
        let shown = || String::from_utf8(mount.shell(workspace, read).stdout).unwrap();
        assert!(eventually(|| shown() == expected), "{workspace}: {}", shown());
    }
    mount.end_cleanly();
}
