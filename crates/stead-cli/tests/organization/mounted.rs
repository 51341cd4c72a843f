//! The stead of an organization's agent, mounted by the real binary.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::office::{Office, wait_until};

/// A stead that is mounted at `mnt`. Dropping it unmounts it.
pub(crate) struct Mounted(Child);

impl Mounted {
    pub(crate) fn new(office: &Office, agent: &str) -> Self {
        let mut command = office.command(["mount", "mnt", "--agent", agent]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Mounted at "), "{line:?}");
        Mounted(child)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn f69_a_mount_refuses_what_the_records_take_away_and_the_forks_of_it() {
    let office = Office::example();
    let config = fs::read_to_string(office.path("stead.toml")).unwrap();
    let physical = "kind = \"physical\"\npath = \"files\"";
    assert!(config.contains(physical));
    office.replace("stead.toml", &config.replace(physical, "kind = \"virtual\""));
    let as_marcus = ["--agent", "agent-marcus"];
    for args in [
        &["write", "/workspaces/team-hr/private/plan.md", "plan"][..],
        &["fork", "/workspaces/team-hr/private", "draft"],
        &["write", "/workspaces/agent-marcus/private/own.md", "own"],
    ] {
        office.stead(args.iter().copied().chain(as_marcus));
    }
    let root = office.path("mnt");
    fs::create_dir(&root).unwrap();
    let mounted = Mounted::new(&office, "agent-marcus");
    let read = |path: &str| fs::read_to_string(root.join(path));
    let withdrawn = ["workspaces/team-hr/private/plan.md", "forks/draft/plan.md"];
    for path in withdrawn {
        assert_eq!(read(path).unwrap(), "plan");
    }
    office.change_records("agents.json", r#""Marcus", "teamId": "team-hr""#, r#""Marcus""#);
    for path in withdrawn {
        wait_until(path, || read(path).is_err());
        assert!(fs::write(root.join(path), "late").is_err(), "{path}");
        assert!(fs::read_dir(root.join(path).parent().unwrap()).is_err(), "{path}");
    }
    assert_eq!(read("workspaces/agent-marcus/private/own.md").unwrap(), "own");
    drop(mounted);
}
