//! An organization in a directory of its own, and a server for its agents.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use stead::{Clock, Config, Identity, SystemClock, Tokens};

use crate::connection::{Connection, Era};

/// A directory with a configuration that has an organization.
pub(crate) struct Office {
    directory: tempfile::TempDir,
}

impl Office {
    /// An empty directory.
    pub(crate) fn empty() -> Self {
        Office { directory: tempfile::tempdir().unwrap() }
    }

    /// A copy of `examples/organization`.
    pub(crate) fn example() -> Self {
        let office = Office::empty();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/organization");
        copy_directory(&example, &office.path(""));
        office
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// The host's path of a file in a folder, such as `team-hr/shared`, of the example.
    pub(crate) fn host_path(&self, folder: &str, name: &str) -> PathBuf {
        self.path("files/organizations/acme/workspaces").join(folder).join(name)
    }

    /// Replaces a file as a whole, so that nobody reads half of it.
    pub(crate) fn replace(&self, relative: &str, text: &str) {
        let temporary = self.path("new");
        fs::write(&temporary, text).unwrap();
        fs::rename(temporary, self.path(relative)).unwrap();
    }

    /// Replaces the records by a change of their text, which has to change something.
    pub(crate) fn change_records(&self, file: &str, from: &str, to: &str) {
        let file = format!("acme/{file}");
        let text = fs::read_to_string(self.path(&file)).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        self.replace(&file, &text.replace(from, to));
    }

    pub(crate) fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
        command.args(args).current_dir(&self.directory).stdin(Stdio::null());
        for variable in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
            command.env_remove(variable);
        }
        command.env("HOME", self.path("no-home"));
        command
    }

    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Output {
        self.command(args).output().unwrap()
    }

    /// What a command prints, which has to succeed.
    pub(crate) fn stead<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The audit records of a tool, oldest first.
    pub(crate) fn audit(&self, tool: &str) -> Vec<Value> {
        let text = self.stead(["audit", "--json", "--limit", "1000", "--call", tool]);
        let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        records.reverse();
        records
    }

    /// What servers have printed on standard error.
    pub(crate) fn server_log(&self) -> String {
        fs::read_to_string(self.path("server.log")).unwrap()
    }

    /// Starts a server.
    pub(crate) fn serve(&self) -> Server<'_> {
        let mut command = self.command(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let log = fs::File::options().create(true).append(true).open(self.path("server.log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let start: Value = serde_json::from_str(&line).unwrap();
        let url = start["listening"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().parse().unwrap();
        Server { office: self, child, address }
    }
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            // The state of somebody who has tried the example in its place.
            true if entry.file_name() == ".stead" => {}
            true => copy_directory(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A running server. Dropping it ends the process.
pub(crate) struct Server<'a> {
    office: &'a Office,
    child: Child,
    address: SocketAddr,
}

impl Server<'_> {
    /// A client of the agent `ORGANIZATION/ID`, with a token of its own.
    pub(crate) fn connect(&self, agent: &str) -> Client {
        self.connect_all([agent.to_owned()]).remove(0)
    }

    /// A client of each of these agents.
    pub(crate) fn connect_all(&self, agents: impl IntoIterator<Item = String>) -> Vec<Client> {
        let tokens = Tokens::of(&Config::load(&self.office.path("stead.toml")).unwrap());
        let connect = |agent| {
            let (_, token) = tokens.create(Identity::agent(agent), None, SystemClock.now()).unwrap();
            Client { connection: Connection::open(self.address, &token, Era::Sessions) }
        };
        agents.into_iter().map(connect).collect()
    }

    /// How much memory the server uses now, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        kibibytes.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    /// Ends the server, which writes all audit records before it ends.
    pub(crate) fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One agent's connection.
pub(crate) struct Client {
    connection: Connection,
}

impl Client {
    /// The names of the tools that are offered.
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let list = self.connection.request("tools/list", json!({}));
        let tools = list["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The status of the server's reply to a request.
    pub(crate) fn status(&mut self) -> u16 {
        let session = self.connection.session().unwrap().to_owned();
        self.connection.status_in(&session)
    }

    /// What a tool answers: the one text that a model reads, as an error if the result is marked as one.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Result<String, String> {
        let result = self.connection.try_call(tool, arguments);
        let content = result["content"].as_array().unwrap();
        assert_eq!(content.len(), 1, "{tool}: {result}");
        let text = content[0]["text"].as_str().unwrap().to_owned();
        match result["isError"].as_bool().unwrap_or(false) {
            true => Err(text),
            false => Ok(text),
        }
    }

    /// The text of a resource, or the whole error.
    pub(crate) fn resource(&mut self, uri: &str) -> Result<String, String> {
        let mut answer = self.connection.answer("resources/read", json!({ "uri": uri }));
        match answer.get("error") {
            Some(error) => Err(error.to_string()),
            None => Ok(answer["result"]["contents"][0]["text"].take().as_str().unwrap().to_owned()),
        }
    }

    /// The object that a tool answers with.
    pub(crate) fn json(&mut self, tool: &str, arguments: Value) -> Value {
        let text = self.call(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"));
        serde_json::from_str(&text).unwrap()
    }

    /// Why a tool fails.
    pub(crate) fn error(&mut self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments) {
            Err(error) => error,
            Ok(text) => panic!("{tool} succeeds: {text}"),
        }
    }

    /// The folders of a scope.
    pub(crate) fn folders(&mut self, scope: &str) -> Vec<Value> {
        let mut listing = self.json("list_folders", json!({ "scope": scope }));
        assert!(listing.get("nextCursor").is_none(), "{listing}");
        match listing["folders"].take() {
            Value::Array(folders) => folders,
            other => panic!("{other}"),
        }
    }

    /// The names of the folders of a scope.
    pub(crate) fn folder_names(&mut self, scope: &str) -> Vec<String> {
        let folders = self.folders(scope);
        folders.iter().map(|folder| folder["folderName"].as_str().unwrap().to_owned()).collect()
    }

    /// A new id of a folder, such as `team-hr/shared`, that is found in a scope.
    pub(crate) fn id(&mut self, scope: &str, folder: &str) -> String {
        let path = format!("/workspaces/{folder}/");
        let folders = self.folders(scope);
        let found = folders.iter().find(|found| found["path"] == *path);
        let found = found.unwrap_or_else(|| panic!("{scope} has no {folder}: {folders:?}"));
        found["folderId"].as_str().unwrap().to_owned()
    }

    /// The content of a file in a folder, without the line about it.
    pub(crate) fn read(&mut self, id: &str, name: &str) -> Result<String, String> {
        let text = self.call("read_file_by_id", file(id, name))?;
        let (_, size) = text.rsplit_once("[encoding utf-8, size ").unwrap();
        // If the content ends with a line break, the note follows at once.
        let (content, note) = text.split_at(size.trim_end_matches(']').parse().unwrap());
        assert_eq!(note.trim_start(), format!("[encoding utf-8, size {size}"));
        Ok(content.to_owned())
    }

    /// Writes a file in a folder.
    pub(crate) fn write(&mut self, id: &str, name: &str, content: &str) -> Result<String, String> {
        let mut arguments = file(id, name);
        arguments["content"] = content.into();
        self.call("write_file_by_id", arguments)
    }
}

/// The arguments that name a file in a folder.
pub(crate) fn file(id: &str, name: &str) -> Value {
    json!({ "folderId": id, "filename": name })
}

/// Waits for what a change of the records brings.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: it doesn't happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}
