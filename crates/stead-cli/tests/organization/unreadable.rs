//! Folders and files that the host doesn't let Stead read, because they belong to another user.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::office::Office;

/// A user that owns nothing else.
const NOBODY: u32 = 65534;

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

/// Calls tools one after the other, in a process that runs as [`NOBODY`].
struct Caller {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    child: Child,
}

impl Caller {
    fn new(office: &Office) -> Self {
        let mut command = office.command(["call", "--lines", "--json", "--agent", "agent-marcus"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(NOBODY).gid(NOBODY);
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Caller { stdin, stdout, child }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        writeln!(self.stdin, "{}", json!({ "tool": tool, "arguments": arguments })).unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[test]
fn f29_f125_what_the_host_withholds_is_listed_as_unreadable_and_hides_nothing_else() {
    // To anyone but root, the host lets Stead read its own files.
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can give files to another user");
        return;
    }
    let office = Office::example();
    fs::write(office.host_path("team-library/shared", "secret.md"), "secret").unwrap();
    let pipe = office.host_path("team-library/shared", "pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    give_away(&office.path(""));
    let withheld = office.host_path("team-hr/shared", "");
    chown(&withheld, Some(0), Some(0)).unwrap();
    fs::set_permissions(&withheld, fs::Permissions::from_mode(0o700)).unwrap();
    let secret = office.host_path("team-library/shared", "secret.md");
    chown(&secret, Some(0), Some(0)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let mut marcus = Caller::new(&office);
    let listing = marcus.call("list_folders", json!({ "scope": "org_shared" }));
    let folders = listing["structuredContent"]["folders"].as_array().unwrap_or_else(|| panic!("{listing}"));
    let folder = |path: &str| folders.iter().find(|folder| folder["path"] == path).unwrap();
    let hr = folder("/workspaces/team-hr/shared/");
    assert_eq!((&hr["unreadable"], &hr["fileCount"]), (&json!(1), &json!(0)), "{hr}");
    let library = folder("/workspaces/team-library/shared/");
    assert!(library["fileCount"].as_u64().unwrap() >= 2, "{library}");
    assert!(!listing.to_string().contains(office.path("").to_str().unwrap()), "{listing}");
    for (name, is_readable) in [("handbook.md", true), ("secret.md", false)] {
        let file = json!({ "folderId": library["folderId"], "filename": name });
        let info = marcus.call("get_file_info_by_id", file.clone());
        assert_eq!(info["structuredContent"]["permissions"]["read"], is_readable, "{info}");
        assert_eq!(marcus.call("read_file_by_id", file)["isError"], !is_readable);
    }
    let pipe = json!({ "folderId": library["folderId"], "filename": "pipe" });
    let refused = marcus.call("get_file_info_by_id", pipe);
    assert!(refused["isError"] == true && refused.to_string().contains("pipe"), "{refused}");
    drop(marcus.stdin);
    assert!(marcus.child.wait().unwrap().success());
}
