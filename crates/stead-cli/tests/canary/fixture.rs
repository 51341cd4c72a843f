//! A stead with canaries in every place that is withheld from the agent `coder`.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use stead::store::Parents;
use stead::{Config, Stead};

/// In the content of every withheld file, and nowhere else.
const CONTENT: &str = "CANARYTEXT";
/// The same in base64, for bytes that are returned in that form.
const CONTENT_BASE64: &str = "Q0FOQVJZVEVY";
/// In the name of every withheld file.
pub(crate) const NAME: &str = "CANARYNAME";
/// The size of every withheld file: a number that nothing else has.
const SIZE: usize = 1_299_709;
/// In the name of every file that is hidden by its name. A mount lists such files with their attributes.
const HIDDEN_NAME: &str = "HIDDENCANARY";
/// The size of every such file.
const HIDDEN_SIZE: usize = 1_299_721;

const CONFIG: &str = r#"
# CANARYTEXT: nobody reads the configuration through a Workspace.
[stores.main]
kind = "virtual"
[stores.beside]
kind = "virtual"
[stores.host]
kind = "physical"
path = "."

[agents.owner.state]
enabled = true
[[agents.owner.workspaces]]
prefix = "/"
scope = "rw"
store = "main"
protect = []
hide = []
[[agents.owner.workspaces]]
prefix = "/beside"
scope = "rw"
store = "beside"
[[agents.owner.workspaces]]
prefix = "/host"
scope = "rw"
store = "host"
path = "/host"

[agents.other]
workspaces = [{ prefix = "/", store = "main", path = "/agents/other", scope = "rw" }]
state = { enabled = true }

[agents.coder]
history = true
forks = true
state = { enabled = true }
quota = { bytes = "100MiB" }
workspaces = [
  { prefix = "/home", store = "main", path = "/home", scope = "rw", quota = { bytes = "20MiB" } },
  { prefix = "/home/wo", store = "main", path = "/home/wo", scope = "wo" },
  { prefix = "/home/beside", store = "beside", scope = "rw" },
  { prefix = "/home/ask", store = "main", path = "/home/ask", scope = "rw", ask = "everything" },
  { prefix = "/drop", store = "main", path = "/drop", scope = "wo", quota = { bytes = "3MiB" } },
  { prefix = "/yard", store = "main", path = "/agents/coder", scope = "rw" },
  { prefix = "/disk", store = "host", path = "/host/disk", scope = "rw" },
  { prefix = "/disk/wo", store = "host", path = "/host/disk/wo", scope = "wo" },
  { prefix = "/reviewed", store = "main", path = "/home/sub", scope = "rw", fork = "agent" },
  { prefix = "/whole", store = "host", path = "/", scope = "ro" },
  { prefix = "/whole/host", store = "main", path = "/nothing", scope = "ro" },
]
"#;

/// Paths to ask about: what may be seen, what may not, and the symlinks that lead there.
pub(crate) const PATHS: [&str; 30] = [
    "/",
    "/home",
    "/home/wo",
    "/home/self/wo",
    "/home/to-wo",
    "/home/to-file",
    "/home/to-drop",
    "/home/out",
    "/home/.ssh",
    "/home/sub",
    "/home/sub/.env",
    "/home/to-hidden",
    "/home/beside",
    "/home/ask",
    "/drop",
    "/yard",
    "/yard/to-other",
    "/disk",
    "/disk/wo",
    "/disk/to-wo",
    "/disk/.aws",
    "/disk/outside",
    "/disk/to-state",
    "/whole/.stead",
    "/whole/stead.toml",
    "/forks/one",
    "/forks/one/sub/.env",
    "/forks/one/wo",
    "/forks/two/self/wo",
    "/agents/other",
];

/// The paths of the canaries themselves.
pub(crate) fn canary_paths() -> Vec<String> {
    let directories = [
        "/home/wo",
        "/home/self/wo",
        "/home/beside",
        "/home/ask",
        "/drop",
        "/disk/wo",
        "/forks/one/wo",
        "/forks/two/self/beside",
        "/agents/other",
        "/yard/../agents/other",
    ];
    let withheld = directories.iter().map(|directory| format!("{directory}/{NAME}.txt"));
    let hidden = ["/home", "/home/self", "/disk", "/forks/one", "/forks/two/self"];
    let hidden = hidden.iter().map(|directory| format!("{directory}/{HIDDEN_NAME}.key"));
    let below = ["/home/.ssh", "/disk/.aws", "/forks/one/.ssh"];
    let below = below.iter().map(|directory| format!("{directory}/{HIDDEN_NAME}"));
    withheld.chain(hidden).chain(below).collect()
}

/// Who asks. Where a Workspace needs approval, a person at the command line has approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Agent,
    Person,
}

thread_local! {
    /// The answers in this test that revealed a canary.
    static LEAKS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A stead with canaries. Dropping it fails the test if an answer revealed a canary.
pub(crate) struct Fixture {
    directory: tempfile::TempDir,
    /// A directory of the host that no Workspace shows.
    pub(crate) outside: tempfile::TempDir,
    /// A version from a time when all canaries were there already.
    pub(crate) version: String,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let leaks = LEAKS.with_borrow_mut(std::mem::take);
        if !std::thread::panicking() {
            let shown = leaks.iter().take(30).map(String::as_str).collect::<Vec<_>>().join("\n");
            assert!(leaks.is_empty(), "{} answers reveal what is withheld:\n{shown}", leaks.len());
        }
    }
}

impl Fixture {
    pub(crate) fn new(caller: Caller) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let host = |relative: &str| directory.path().join("host").join(relative);
        for relative in ["disk/wo", "disk/deep", "disk/.aws"] {
            fs::create_dir_all(host(relative)).unwrap();
        }
        fs::write(directory.path().join("stead.toml"), CONFIG).unwrap();
        let (secret, hidden) = (secret(SIZE), secret(HIDDEN_SIZE));
        for relative in ["", "disk/wo/"] {
            fs::write(host(&format!("{relative}{NAME}.txt")), &secret).unwrap();
        }
        for relative in [format!("disk/{HIDDEN_NAME}.key"), format!("disk/.aws/{HIDDEN_NAME}")] {
            fs::write(host(&relative), &hidden).unwrap();
        }
        fs::write(host("disk/open.txt"), "open\n").unwrap();
        symlink("wo", host("disk/to-wo")).unwrap();
        symlink("..", host("disk/outside")).unwrap();
        symlink("../../.stead", host("disk/to-state")).unwrap();

        let config = Config::parse(CONFIG, &directory.path().join("stead.toml")).unwrap();
        let owner = Stead::open(&config, "owner").unwrap();
        let vfs = owner.vfs();
        let mut parents = vec!["/home/wo", "/home/beside", "/drop", "/agents/other", "/agents/coder10"];
        parents.extend(Some("/home/ask").filter(|_| caller == Caller::Agent));
        for parent in parents {
            // Twice, so that the file has a history.
            vfs.write(format!("{parent}/{NAME}.txt"), &*secret).unwrap();
            vfs.append(format!("{parent}/{NAME}.txt"), "").unwrap();
        }
        let hidden_paths = [
            format!("/home/{HIDDEN_NAME}.key"),
            format!("/home/.ssh/{HIDDEN_NAME}"),
            "/home/sub/.env".to_owned(),
        ];
        for path in &hidden_paths {
            vfs.write(path, &*hidden).unwrap();
            vfs.append(path, "").unwrap();
        }
        vfs.write("/home/sub/open.txt", "open\n").unwrap();
        // The target of a symlink that may be read isn't secret. The content of the target is.
        vfs.write("/home/wo/linked.txt", &*secret).unwrap();
        for (link, target) in [
            ("/home/self", "."),
            ("/home/to-wo", "wo"),
            ("/home/to-file", "wo/linked.txt"),
            ("/home/to-drop", "/drop"),
            ("/home/to-hidden", "sub/.env"),
            ("/home/out", "../agents/other"),
            ("/agents/coder/to-other", "../other"),
        ] {
            vfs.symlink(link, target).unwrap();
        }
        vfs.write("/home/open.txt", "open 1\n").unwrap();
        vfs.mkdir("/agents/coder", Parents::Create).unwrap();
        let version = vfs.write("/home/open.txt", "open 2\n").unwrap().revision.unwrap().number.to_string();
        vfs.write(format!("/home/wo/{NAME}.txt"), &*secret).unwrap();
        // This withheld file was once in a place that may be seen, under another name and with another content.
        vfs.write("/home/was-here.txt", "before\n").unwrap();
        vfs.rename("/home/was-here.txt", format!("/home/wo/{NAME}-moved.txt"), Default::default()).unwrap();
        vfs.write(format!("/home/wo/{NAME}-moved.txt"), &*secret).unwrap();
        // The same for a file that is hidden by its name.
        vfs.write("/home/was-open.txt", "before\n").unwrap();
        vfs.rename("/home/was-open.txt", format!("/home/{HIDDEN_NAME}-moved.key"), Default::default())
            .unwrap();
        vfs.write(format!("/home/{HIDDEN_NAME}-moved.key"), &*hidden).unwrap();
        // The State of an agent is its own.
        for stead in [&owner, &Stead::open(&config, "other").unwrap()] {
            let state = stead.state().unwrap();
            for namespace in ["default", "jobs"] {
                let value = format!("\"{CONTENT}\"");
                state.in_namespace(namespace).unwrap().set(NAME, &value, &Default::default()).unwrap();
            }
        }
        drop(owner);

        let coder = Stead::open(&config, "coder").unwrap();
        for (path, text) in [("/home/mine.txt", "1\n"), ("/home/mine.txt", "2\n"), ("/yard/a.txt", "a\n")] {
            coder.vfs().write(path, text).unwrap();
        }
        coder.vfs().write("/reviewed/open.txt", "changed\n").unwrap();
        coder.vfs().write("/reviewed/new.txt", "new\n").unwrap();
        coder.state().unwrap().set("mine", "1", &Default::default()).unwrap();
        coder.snapshot(None, Some("before")).unwrap();
        let coder = coder.fork("/home", "one").unwrap();
        coder.fork("/forks/one", "two").unwrap().fork("/disk", "three").ok();
        drop(coder);
        fs::write(directory.path().join(".stead").join(format!("{NAME}.txt")), &secret).unwrap();
        Fixture { directory, outside: tempfile::tempdir().unwrap(), version }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    pub(crate) fn stead(&self) -> Stead {
        let config = Config::parse(CONFIG, &self.path("stead.toml")).unwrap();
        Stead::open(&config, "coder").unwrap()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        command(self.directory.path(), args)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

/// `stead` as the agent `coder` in a directory, without the user's own settings.
pub(crate) fn command(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    command.args(args).current_dir(directory).stdin(Stdio::null());
    for variable in ["STEAD_CONFIG", "STEAD_TOKEN", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
        command.env_remove(variable);
    }
    command.env("STEAD_AGENT", "coder").env("HOME", directory.join("no-home"));
    command
}

fn secret(size: usize) -> Vec<u8> {
    let mut secret = CONTENT.as_bytes().to_vec();
    while secret.len() < size {
        secret.extend_from_slice(b" words\n");
    }
    secret.truncate(size);
    secret
}

/// Records an answer that reveals a canary. The answer may repeat its name if the question contained it.
pub(crate) fn check(question: &str, answer: &[u8]) {
    check_on_mount(question, answer);
    check_canaries(question, answer, &["1299721", "1,299,721"], HIDDEN_NAME);
}

/// Like [`check`], for what a mount shows: it lists hidden files with their attributes.
pub(crate) fn check_on_mount(question: &str, answer: &[u8]) {
    check_canaries(question, answer, &[CONTENT, CONTENT_BASE64, "1299709", "1,299,709"], NAME);
}

fn check_canaries(question: &str, answer: &[u8], canaries: &[&str], name: &str) {
    let text = String::from_utf8_lossy(answer);
    let name = Some(name).filter(|name| !question.contains(name));
    for canary in canaries.iter().copied().chain(name) {
        if let Some(offset) = text.find(canary) {
            let start = text[..offset].char_indices().rev().nth(160).map_or(0, |(index, _)| index);
            let shown: String = text[start..].chars().take(240).collect();
            LEAKS.with_borrow_mut(|leaks| leaks.push(format!("{question}\n  reveals {canary}: …{shown}…")));
        }
    }
}
