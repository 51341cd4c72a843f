//! Who may do what in which folder, through every surface, compared with a table that was written by hand.

use std::fmt::Debug;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use stead::vfs::{ListPage, LogQuery, PointInTime, RestoreOptions};
use stead::{Config, ErrorKind, Identity, Stead, Stores, VfsError, VfsPath};

use crate::mounts::mount;
use crate::office::Office;

const FOLDERS: [&str; 4] = ["marcus/private", "marcus/shared", "team-hr/private", "team-hr/shared"];

/// What each caller may do in [`FOLDERS`], by F73 to F83: `rw` everything, `r` everything but write and delete, `-`
/// nothing.
const TABLE: [(&str, &str, [&str; 4]); 6] = [
    ("the owner", "acme/marcus", ["rw", "rw", "rw", "rw"]),
    ("a team mate", "acme/catalyst", ["-", "r", "rw", "rw"]),
    ("leadership", "acme/elena", ["-", "r", "-", "r"]),
    ("another team", "acme/fiona", ["-", "-", "-", "r"]),
    ("no team", "acme/solo", ["-", "-", "-", "r"]),
    ("another organization", "globex/hank", ["-", "-", "-", "-"]),
];
const UNKNOWN_CALLER: &str = "acme/stranger";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    List,
    Read,
    Info,
    Write,
    Delete,
}

const OPERATIONS: [Operation; 5] =
    [Operation::List, Operation::Read, Operation::Info, Operation::Write, Operation::Delete];

impl Operation {
    fn is_allowed_by(self, rights: &str) -> bool {
        match self {
            Operation::List | Operation::Read | Operation::Info => rights.contains('r'),
            Operation::Write | Operation::Delete => rights.contains('w'),
        }
    }
}

const RECORDS: &str = r#"
[[organization]]
id = "acme"
store = "shared"
toolWhitelist = ["list_folders", "read_file_by_id", "write_file_by_id", "delete_file_by_id", "get_file_info_by_id",
    "list_directory", "read_file", "write_file", "delete_file", "stat"]
teams = [
    { id = "team-hr", name = "HR" }, { id = "team-fin", name = "Finance" },
    { id = "team-lead", name = "Leadership", leadership = true },
]
agents = [
    { id = "marcus", name = "Marcus", teamId = "team-hr" }, { id = "catalyst", name = "Catalyst", teamId = "team-hr" },
    { id = "fiona", name = "Fiona", teamId = "team-fin" }, { id = "elena", name = "Elena", teamId = "team-lead" },
    { id = "solo", name = "Solo" },
]

[[organization]]
id = "globex"
store = "shared"
toolWhitelist = ["list_folders", "read_file_by_id", "write_file_by_id", "delete_file_by_id", "get_file_info_by_id",
    "list_directory", "read_file", "write_file", "delete_file", "stat"]
teams = [{ id = "board", name = "Board", leadership = true }]
agents = [{ id = "hank", name = "Hank", teamId = "board" }]
"#;

/// Both organizations on a Store of this kind.
fn office(kind: &str) -> Office {
    let office = Office::empty();
    fs::create_dir(office.path("files")).unwrap();
    let path = if kind == "physical" { "path = \"files\"\n" } else { "" };
    office.replace("stead.toml", &format!("[stores.shared]\nkind = \"{kind}\"\n{path}{RECORDS}"));
    office
}

/// The steads of one process.
struct Steads {
    stores: Stores,
    owner: Stead,
    files: std::cell::Cell<u32>,
}

impl Steads {
    fn new(office: &Office) -> Self {
        let stores = Stores::of(&Config::load(&office.path("stead.toml")).unwrap());
        let owner = Stead::open_in(&stores, &Identity::agent("acme/marcus")).unwrap();
        Steads { stores, owner, files: Default::default() }
    }

    fn open(&self, agent: &str) -> stead::Result<Stead> {
        Stead::open_in(&self.stores, &Identity::agent(agent))
    }

    /// The path of a file that doesn't exist yet.
    fn new_path(&self, folder: &str) -> String {
        self.files.set(self.files.get() + 1);
        format!("/workspaces/{folder}/{}.md", self.files.get())
    }

    fn put(&self, path: &str, content: &str) {
        self.owner.vfs().write(path, content).unwrap();
    }

    fn content(&self, path: &str) -> Option<String> {
        let read = self.owner.vfs().read(path).ok()?;
        Some(String::from_utf8(read.bytes).unwrap())
    }
}

/// What a surface did: whether the operation had its effect, and if not, what was answered.
type Answer = Result<(), String>;

fn refusal(kind: ErrorKind, message: impl ToString) -> Answer {
    let message = message.to_string();
    assert!(matches!(kind, ErrorKind::Denied | ErrorKind::NotFound), "{kind:?}: {message}");
    Err(message)
}

fn of_vfs(result: Result<impl Debug, VfsError>) -> Answer {
    result.map(drop).or_else(|error| refusal(error.kind(), error))
}

fn call(stead: &Stead, tool: &str, arguments: Value) -> Result<Value, String> {
    let reply = stead.call(tool, arguments);
    match &reply.failure {
        Some(failure) => refusal(failure.kind, &failure.message).map(|()| Value::Null),
        None => Ok(Value::Object(reply.structured())),
    }
}

/// Whether a list of objects contains one with this value.
fn contains(list: &Value, key: &str, value: &str) -> bool {
    list.as_array().unwrap().iter().any(|element| element[key] == value)
}

/// A new id of a folder, if the agent discovers it in some scope.
fn discover(stead: &Stead, folder: &str) -> Option<Value> {
    let path = format!("/workspaces/{folder}/");
    ["my_private", "my_shared", "team_private", "team_shared", "org_shared"].into_iter().find_map(|scope| {
        let listing = call(stead, "list_folders", json!({ "scope": scope })).unwrap();
        listing["folders"].as_array().unwrap().iter().find(|found| found["path"] == *path).cloned()
    })
}

fn by_folder_tool(steads: &Steads, stead: &Stead, operation: Operation, folder: &str, path: &str) -> Answer {
    let name = path.rsplit_once('/').unwrap().1;
    let found = discover(stead, folder);
    if operation == Operation::List {
        let found = found.filter(|found| contains(&found["files"], "filename", name));
        return found.map(drop).ok_or_else(|| "not discovered".to_owned());
    }
    // An agent that can't discover the folder tries an id that the owner has got.
    let id = found.unwrap_or_else(|| discover(&steads.owner, folder).unwrap())["folderId"].take();
    let mut arguments = json!({ "folderId": id, "filename": name });
    let tool = match operation {
        Operation::Write => {
            arguments["content"] = "new".into();
            "write_file_by_id"
        }
        Operation::Delete => "delete_file_by_id",
        Operation::Info => "get_file_info_by_id",
        Operation::Read | Operation::List => "read_file_by_id",
    };
    call(stead, tool, arguments).map(drop)
}

fn by_path_tool(stead: &Stead, operation: Operation, folder: &str, path: &str) -> Answer {
    let tool = match operation {
        Operation::List => {
            let reply = stead.call("list_directory", json!({ "path": format!("/workspaces/{folder}") }));
            let name = path.rsplit_once('/').unwrap().1;
            return match &reply.failure {
                Some(failure) => refusal(failure.kind, &failure.message),
                None if reply.joined_text().contains(name) => Ok(()),
                None => Err(reply.joined_text()),
            };
        }
        Operation::Write => {
            return call(stead, "write_file", json!({ "path": path, "content": "new" })).map(drop);
        }
        Operation::Read => "read_file",
        Operation::Info => "stat",
        Operation::Delete => "delete_file",
    };
    call(stead, tool, json!({ "path": path })).map(drop)
}

/// The history: the log, the state of a moment ago, and restoring an earlier state.
fn by_history(steads: &Steads, stead: &Stead, operation: Operation, folder: &str, path: &str) -> Answer {
    let folder_path = format!("/workspaces/{folder}");
    let past = || stead.as_of(PointInTime::Now).unwrap();
    match operation {
        Operation::List => {
            let query = LogQuery { path: Some(VfsPath::parse(&folder_path).unwrap()), ..LogQuery::default() };
            of_vfs(stead.vfs().log(&query))?;
            of_vfs(past().vfs().list(&*folder_path, &ListPage::default()))
        }
        Operation::Read => of_vfs(past().vfs().read(path)),
        Operation::Info => of_vfs(past().vfs().stat(path)),
        // Restoring a state in which the file was another one, or wasn't there.
        Operation::Write | Operation::Delete => {
            let before = match operation {
                Operation::Write => steads.owner.vfs().write(path, "new").unwrap(),
                _ => steads.owner.vfs().write(&*format!("{path}.other"), "").unwrap(),
            };
            steads.put(path, "old");
            of_vfs(stead.vfs().restore(path, before.revision.unwrap(), &RestoreOptions::default()))
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surface {
    FolderTool,
    PathTool,
    History,
}

impl Surface {
    fn run(self, steads: &Steads, stead: &Stead, operation: Operation, folder: &str, path: &str) -> Answer {
        match self {
            Surface::FolderTool => by_folder_tool(steads, stead, operation, folder, path),
            Surface::PathTool => by_path_tool(stead, operation, folder, path),
            Surface::History => by_history(steads, stead, operation, folder, path),
        }
    }
}

#[test]
fn f73_to_f85_tools_and_history_give_each_caller_what_the_table_says() {
    for kind in ["physical", "virtual"] {
        let office = office(kind);
        let steads = Steads::new(&office);
        for (caller, agent, rights) in TABLE {
            let stead = steads.open(agent).unwrap();
            for (folder, rights) in FOLDERS.into_iter().zip(rights) {
                for surface in [Surface::FolderTool, Surface::PathTool, Surface::History] {
                    for operation in OPERATIONS {
                        check_cell(&steads, &stead, surface, (operation, folder, rights), &|| {
                            format!("{caller}, {operation:?} in {folder} by {surface:?} on a {kind} Store")
                        });
                    }
                }
            }
        }
        let error = steads.open(UNKNOWN_CALLER).unwrap_err();
        assert!(error.to_string().contains("there is no agent `acme/stranger`"), "{error}");
    }
}

/// Runs one operation on a file of its own, and checks the answer and the effect.
fn check_cell(
    steads: &Steads,
    stead: &Stead,
    surface: Surface,
    (operation, folder, rights): (Operation, &str, &str),
    cell: &dyn Fn() -> String,
) {
    let path = steads.new_path(folder);
    let is_restored = surface == Surface::History;
    // A tool writes a new file; the other operations are on one that exists.
    if operation != Operation::Write && !(is_restored && operation == Operation::Delete) {
        steads.put(&path, "old");
    }
    let answer = surface.run(steads, stead, operation, folder, &path);
    let is_allowed = operation.is_allowed_by(rights);
    assert_eq!(answer.is_ok(), is_allowed, "{}: {answer:?}", cell());
    let expected = match operation {
        Operation::Write if is_allowed => Some("new"),
        Operation::Write if !is_restored => None,
        Operation::Delete if is_allowed => None,
        _ => Some("old"),
    };
    assert_eq!(steads.content(&path).as_deref(), expected, "{}: {answer:?}", cell());
    // A refusal is the same for a file that doesn't exist.
    if !is_allowed && !is_restored && operation != Operation::Write {
        let missing = steads.new_path(folder);
        let again = surface.run(steads, stead, operation, folder, &missing);
        assert_eq!(without_names(again, &missing), without_names(answer, &path), "{}", cell());
    }
}

/// A refusal without the name of the file and without ids, of which each discovery has others.
fn without_names(answer: Answer, path: &str) -> String {
    let text = answer.unwrap_err().replace(path.rsplit_once('/').unwrap().1, "NAME");
    let parts = text.split('\'').map(|part| if part.len() == 36 { "ID" } else { part });
    parts.collect::<Vec<_>>().join("'")
}

fn on_mount(root: &Path, operation: Operation, folder: &str, path: &str) -> std::io::Result<()> {
    let file = root.join(path.trim_start_matches('/'));
    match operation {
        Operation::List => {
            let names = fs::read_dir(root.join("workspaces").join(folder))?;
            let mut names = names.map(|entry| entry.unwrap().path());
            names.any(|name| name == file).then_some(()).ok_or(std::io::ErrorKind::NotFound.into())
        }
        Operation::Read => fs::read(file).map(drop),
        Operation::Info => fs::metadata(file).map(drop),
        Operation::Write => fs::write(file, "new"),
        Operation::Delete => fs::remove_file(file),
    }
}

#[test]
fn f73_to_f85_a_mount_gives_each_caller_what_the_table_says() {
    for kind in ["physical", "virtual"] {
        let office = office(kind);
        let root = office.path("mnt");
        fs::create_dir(&root).unwrap();
        let steads = Steads::new(&office);
        for (caller, agent, rights) in TABLE {
            let mounted = mount(&office, agent);
            for (folder, rights) in FOLDERS.into_iter().zip(rights) {
                for operation in OPERATIONS {
                    let path = steads.new_path(folder);
                    if operation != Operation::Write {
                        steads.put(&path, "old");
                    }
                    let result = on_mount(&root, operation, folder, &path);
                    let is_allowed = operation.is_allowed_by(rights);
                    let cell = format!("{caller}, {operation:?} in {folder} on a mount, {kind}: {result:?}");
                    assert_eq!(result.is_ok(), is_allowed, "{cell}");
                    let expected = match operation {
                        Operation::Write => Some("new").filter(|_| is_allowed),
                        Operation::Delete => Some("old").filter(|_| !is_allowed),
                        _ => Some("old"),
                    };
                    assert_eq!(steads.content(&path).as_deref(), expected, "{cell}");
                }
            }
            drop(mounted);
        }
        let refused = office.run(["mount", "mnt", "--agent", UNKNOWN_CALLER]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
}
