//! The permission matrix: two agents with three threads each. Every thread has canary words of its own in names and content,
//! and no surface of another thread shows them.
//!
//! `coder` is of scope `thread`, `writer` is hybrid, and `keeper` is an agent of scope `agent` whose Workspaces contain the
//! places where the threads' files are.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::attempts::{Attempt, attempts, commands};
use crate::connection::Connection;
use crate::host::{Host, KINDS, Server, store, write};

const CONFIG: &str = r#"
[agents.coder]
scope = "thread"
history = true
quota = { bytes = "9MiB" }
state = { enabled = true }
workspaces = [
  { prefix = "/work", store = "s", path = "/app", scope = "rw" },
  { prefix = "/drop", store = "s", path = "/dropped", scope = "wo" },
]
[agents.writer]
scope = "hybrid"
history = true
state = { enabled = true }
workspaces = [
  { prefix = "/shared", store = "s", path = "/common", scope = "rw" },
  { prefix = "/project", store = "s", path = "/book", scope = "rw" },
]
[agents.keeper]
history = true
state = { enabled = true }
workspaces = [
  { prefix = "/all", store = "s", path = "/", scope = "rw" },
]
"#;

/// A thread with its canaries.
#[derive(Debug, Clone)]
pub(crate) struct Marked {
    pub(crate) agent: &'static str,
    /// The Workspace whose files are its own.
    pub(crate) prefix: &'static str,
    /// The path of that Workspace in the Store.
    pub(crate) store_path: &'static str,
    number: usize,
}

impl Marked {
    /// All threads.
    fn all() -> Vec<Marked> {
        let agents = [("coder", "/work", "/app"), ("writer", "/project", "/book")];
        let threads = agents.into_iter().flat_map(|(agent, prefix, store_path)| {
            (1..=3).map(move |number| Marked { agent, prefix, store_path, number })
        });
        threads.collect()
    }

    /// The thread's name, which no answer to another thread or agent contains.
    pub(crate) fn thread(&self) -> String {
        format!("th{}{}x", self.agent, self.number)
    }

    /// In the names of its files, its fork and its snapshot.
    pub(crate) fn name(&self) -> String {
        format!("nm{}{}x", self.agent, self.number)
    }

    /// In the content of its files.
    fn content(&self) -> String {
        format!("ct{}{}x", self.agent, self.number)
    }

    /// The size of one of its files: a number that nothing else has.
    fn size(&self) -> usize {
        1_299_709 + self.number * 1_000 + self.agent.len() * 10_000
    }

    pub(crate) fn label(&self) -> String {
        format!("label-{}", self.name())
    }

    pub(crate) fn fork(&self) -> String {
        format!("fork-{}", self.name())
    }

    /// What no answer to another thread may have, and what it may have only if the question had it.
    fn canaries(&self) -> ([String; 3], [String; 2]) {
        let size = self.size().to_string();
        let grouped = format!("{},{},{}", &size[..1], &size[1..4], &size[4..]);
        ([self.content(), size, grouped], [self.name(), self.thread()])
    }
}

/// The short form of a test makes one of this many calls.
const SHORT_FORM_STEP: usize = 29;

thread_local! {
    /// The answers in this test that revealed a canary.
    static LEAKS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// The names that an observer has used in calls that change something: files of its own may have them since.
    static USED_NAMES: RefCell<BTreeSet<(String, String)>> = const { RefCell::new(BTreeSet::new()) };
}

/// What identifies an observer.
fn observer_name(observer: &Observer) -> String {
    format!("{}/{}", observer.agent, observer.thread)
}

/// Remembers the names of other threads that an observer uses in a call that changes something.
fn remember_names(observer: &Observer, question: &str) {
    for other in Marked::all() {
        let used = other.canaries().1.into_iter().filter(|name| question.contains(&**name));
        USED_NAMES.with_borrow_mut(|names| names.extend(used.map(|name| (observer_name(observer), name))));
    }
}

/// Records an answer to `observer` that reveals a canary of another thread.
fn check(observer: &Observer, question: &str, answer: &[u8]) {
    let text = String::from_utf8_lossy(answer);
    for other in Marked::all().iter().filter(|other| observer.thread != other.thread()) {
        let (always, unless_asked) = other.canaries();
        let is_used = |word: &String| {
            USED_NAMES.with_borrow(|names| names.contains(&(observer_name(observer), word.clone())))
        };
        let unless_asked = unless_asked.iter().filter(|word| !question.contains(*word) && !is_used(word));
        for canary in always.iter().chain(unless_asked) {
            if let Some(offset) = text.find(&**canary) {
                let start = text[..offset].char_indices().rev().nth(200).map_or(0, |(index, _)| index);
                let shown: String = text[start..].chars().take(300).collect();
                let who = observer_name(observer);
                LEAKS.with_borrow_mut(|leaks| {
                    leaks.push(format!("{who}: {question}\n  reveals {canary}: …{shown}…"))
                });
            }
        }
    }
}

fn assert_no_leaks(what: &str) {
    let leaks = LEAKS.with_borrow_mut(std::mem::take);
    let shown = leaks.iter().take(30).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(leaks.is_empty(), "{what}: {} answers reveal something of another thread:\n{shown}", leaks.len());
}

/// Who asks: a thread, or the agent that has none.
pub(crate) struct Observer {
    pub(crate) agent: &'static str,
    /// Empty if the agent works without threads.
    pub(crate) thread: String,
    /// A Workspace whose files it may change.
    pub(crate) home: &'static str,
    /// Its snapshot.
    pub(crate) label: String,
}

fn observers() -> Vec<Observer> {
    let mut observers: Vec<_> = Marked::all()
        .iter()
        .map(|marked| Observer {
            agent: marked.agent,
            thread: marked.thread(),
            home: marked.prefix,
            label: marked.label(),
        })
        .collect();
    let label = "kept".to_owned();
    observers.push(Observer { agent: "keeper", thread: String::new(), home: "/all", label });
    observers
}

fn new_host(kind: &str) -> Host {
    Host::new(&format!("{}{CONFIG}", store(kind)), Duration::from_secs(30))
}

/// Gives every thread its canaries, through a server. The connections are in the order of [`observers`].
fn plant(host: &Host, server: &Server) -> Vec<Connection> {
    let mut connections = Vec::new();
    for observer in &observers() {
        let thread = Some(&*observer.thread).filter(|thread| !thread.is_empty());
        connections.push(host.connect(server, observer.agent, thread));
    }
    for (marked, client) in Marked::all().iter().zip(&mut connections) {
        let (prefix, name, content) = (marked.prefix, marked.name(), marked.content());
        let mut large = format!("{content} line\n");
        while large.len() < marked.size() {
            large += "words of no meaning\n";
        }
        large.truncate(marked.size());
        let path = format!("{prefix}/{name}.txt");
        for text in [&format!("{content} in the past"), &large] {
            client.try_call("read_file", json!({ "path": path }));
            write(client, &path, text).unwrap();
        }
        write(client, &format!("{prefix}/{name}-dir/common.txt"), &content).unwrap();
        // The same path in every thread.
        write(client, &format!("{prefix}/common.txt"), &format!("{content}\n")).unwrap();
        if marked.agent == "coder" {
            write(client, &format!("/drop/{name}.txt"), &content).unwrap();
        } else {
            write(client, &format!("/shared/note-{}.txt", marked.number), "for all threads\n").unwrap();
        }
        for value in ["1", "2"] {
            let value = json!([content, value]).to_string();
            client.call("state_set", json!({ "key": name, "value": value }));
            client.call("state_set", json!({ "key": "common", "value": value }));
        }
        client.call("snapshot", json!({ "label": marked.label() }));
        // A Memory Store is in the memory of the server, which has no tool for forks.
        host.run_in(marked.agent, &marked.thread(), &["fork", prefix, &marked.fork()]);
        write(client, &path, &large.replace("words", "WORDS")).unwrap_or_else(|_| {
            client.call("read_file", json!({ "path": path, "limit": 1 }));
            write(client, &path, &large.replace("words", "WORDS")).unwrap();
        });
    }
    let keeper = connections.last_mut().unwrap();
    write(keeper, "/all/app/kept.txt", "kept\n").unwrap();
    keeper.call("snapshot", json!({ "label": "kept" }));
    connections
}

/// Every thread still has its canaries: otherwise the other tests prove nothing, or something was destroyed.
fn assert_planted(connections: &mut [Connection], except: &[usize]) {
    for (index, (marked, client)) in Marked::all().iter().zip(connections).enumerate() {
        if except.contains(&index) {
            continue;
        }
        let found = client.raw_request(
            "tools/call",
            json!({ "name": "grep", "arguments": { "pattern": marked.content(), "path": marked.prefix } }),
        );
        assert!(found.contains(&marked.name()), "{marked:?}: {found}");
        let state = client.call("state_get", json!({ "key": "common" })).to_string();
        assert!(state.contains(&marked.content()), "{marked:?}: {state}");
        let listed = client.raw_request(
            "tools/call",
            json!({ "name": "list_directory", "arguments": { "path": marked.prefix } }),
        );
        assert!(listed.contains(&marked.name()), "{marked:?}: {listed}");
    }
}

fn ask(observer: &Observer, client: &mut Connection, attempt: &Attempt) {
    let Attempt { method, params } = attempt;
    let reply = client.raw_request(method, params.clone());
    check(observer, &params.to_string(), reply.as_bytes());
}

/// The tools that are offered.
fn tools(client: &mut Connection) -> Vec<Value> {
    client.request("tools/list", json!({}))["tools"].as_array().unwrap().clone()
}

#[test]
fn s12_no_tool_and_no_resource_shows_anything_of_another_thread() {
    for (kind_number, kind) in KINDS.into_iter().enumerate() {
        let host = new_host(kind);
        let server = host.serve();
        let mut connections = plant(&host, &server);
        assert_planted(&mut connections, &[]);
        for mutating in [false, true] {
            for (number, (observer, client)) in observers().iter().zip(&mut connections).enumerate() {
                let offered = tools(client);
                check(observer, "tools/list", json!(offered).to_string().as_bytes());
                // The long form asks everything; the short one asks another part of it for each observer and Store.
                let (first, step) =
                    if crate::is_long() { (0, 1) } else { (number * 4 + kind_number, SHORT_FORM_STEP) };
                let all = attempts(observer, &offered, &Marked::all(), mutating);
                for attempt in all.iter().skip(first).step_by(step) {
                    if mutating {
                        remember_names(observer, &attempt.params.to_string());
                    }
                    ask(observer, client, attempt);
                }
            }
            assert_no_leaks(kind);
        }
        USED_NAMES.with_borrow_mut(BTreeSet::clear);
        let nobody = Observer { agent: "", thread: String::new(), home: "", label: String::new() };
        check(&nobody, "metrics", server.metrics().as_bytes());
        assert_no_leaks(kind);
        server.stop();
    }
}

#[test]
fn s12_what_one_thread_undoes_or_removes_stays_in_all_others() {
    for kind in KINDS {
        let host = new_host(kind);
        let server = host.serve();
        let mut connections = plant(&host, &server);
        // One thread of each agent, and the agent whose Workspaces contain all others.
        for index in [0, 3, 6] {
            let (observer, client) = (&observers()[index], &mut connections[index]);
            for (tool, arguments) in [
                ("undo", json!({ "last": 100 })),
                ("restore", json!({ "path": observer.home, "snapshot": observer.label })),
                ("delete_directory", json!({ "path": observer.home, "recursive": true })),
                ("delete_file", json!({ "path": format!("{}/common.txt", observer.home) })),
                ("state_delete", json!({ "key": "common" })),
                ("state_delete", json!({ "key": observers()[(index + 1) % 6].label.replace("label-", "") })),
                ("undo", json!({ "since": "1h" })),
            ] {
                ask(observer, client, &Attempt::call(tool, arguments));
            }
        }
        assert_planted(&mut connections, &[0, 3]);
        // The quota is a thread's own: the others' files leave this one all of it. The thread's fork counts, with 1.3 MB.
        let third = "x".repeat(3_200_000);
        for name in ["a", "b"] {
            write(&mut connections[0], &format!("/work/{name}"), &third).unwrap();
        }
        let error = write(&mut connections[0], "/work/c", &third).unwrap_err();
        check(&observers()[0], "over quota", error.as_bytes());
        for name in ["a", "b"] {
            write(&mut connections[1], &format!("/work/{name}"), &third).unwrap();
        }
        assert_no_leaks(kind);
        // The same thread in another connection, and a thread of the same name of another agent.
        let mut again = host.connect(&server, "coder", Some(&observers()[1].thread));
        assert!(crate::host::read(&mut again, "/work/common.txt").unwrap().contains("ctcoder2x"));
        let mut same_name = host.connect(&server, "writer", Some(&observers()[1].thread));
        assert!(crate::host::read(&mut same_name, "/project/common.txt").is_err());
        server.stop();
    }
}

#[test]
fn s12_no_command_shows_anything_of_another_thread() {
    // What a Memory Store has is gone with the server.
    for kind in ["virtual", "physical"] {
        let host = new_host(kind);
        let server = host.serve();
        drop(plant(&host, &server));
        server.stop();
        fs::create_dir(host.path("imported")).unwrap();
        fs::write(host.path("imported/a.txt"), "a\n").unwrap();
        for (place, observer) in observers().iter().enumerate() {
            for (number, args) in commands(observer, &Marked::all()).iter().enumerate() {
                let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
                // Half of them as JSON, and the long form all of them.
                let forms: &[bool] =
                    if crate::is_long() { &[false, true] } else { &[(number + place) % 2 == 1] };
                for json in forms {
                    args.extend(Some("--json").filter(|_| *json && args[0] != "export"));
                    let thread = ["--thread", &observer.thread];
                    let thread = if observer.thread.is_empty() { &[][..] } else { &thread };
                    let all = [&args, thread, &["--agent", observer.agent]].concat();
                    let output = host.command(&all).output().unwrap();
                    let question = args.join(" ");
                    check(observer, &question, &output.stdout);
                    check(observer, &question, &output.stderr);
                }
            }
        }
        assert_no_leaks(kind);
        let server = host.serve();
        let mut connections: Vec<_> = observers()[..6]
            .iter()
            .map(|observer| host.connect(&server, observer.agent, Some(&observer.thread)))
            .collect();
        assert_planted(&mut connections, &[]);
    }
}

/// Checks everything that a program can learn of a path and all that is below it.
fn check_tree(observer: &Observer, path: &Path) -> usize {
    let question = path.display().to_string();
    let attributes = format!(
        "{:?} {:?} {:?}",
        fs::symlink_metadata(path).map(|meta| meta.size()),
        fs::read_link(path),
        fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    );
    check(observer, &question, attributes.as_bytes());
    let mut seen = 1;
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        check(observer, &question, entry.file_name().as_encoded_bytes());
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            seen += check_tree(observer, &entry.path());
        }
    }
    seen
}

#[test]
fn s12_no_mount_shows_anything_of_another_thread() {
    for kind in ["virtual", "physical"] {
        let host = new_host(kind);
        let server = host.serve();
        drop(plant(&host, &server));
        for observer in &observers() {
            for options in [&[][..], &["--at", &observer.label]] {
                let Some(mounted) = host.mount("mnt", observer.agent, &observer.thread, options) else {
                    return;
                };
                assert!(check_tree(observer, &mounted.point) > 3, "{}", observer.thread);
                for marked in &Marked::all() {
                    let (thread, name, agent) = (marked.thread(), marked.name(), marked.agent);
                    let store_path = marked.store_path;
                    for path in [
                        format!("{}/{name}.txt", marked.prefix),
                        format!("{}/threads/{agent}/{thread}/{name}.txt", observer.home),
                        format!("{}{store_path}/threads/{agent}/{thread}/{name}.txt", observer.home),
                        format!("/app/threads/{agent}/{thread}"),
                        format!("/shared/threads/{agent}/{thread}"),
                        format!("/forks/{}", marked.fork()),
                    ] {
                        let path = mounted.point.join(&path[1..]);
                        check_tree(observer, &path);
                        let is_own = observer.thread == thread;
                        assert!(
                            is_own || !path.exists() || path.ends_with("common.txt"),
                            "{}",
                            path.display()
                        );
                    }
                }
                let space = rustix::fs::statvfs(mounted.point.join(&observer.home[1..]))
                    .map(|space| (space.f_bfree, space.f_blocks, space.f_files));
                check(observer, "statvfs", format!("{space:?}").as_bytes());
            }
        }
        assert_no_leaks(kind);
    }
}
