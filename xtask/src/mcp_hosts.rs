//! Tests real MCP hosts, fetched from their registries. A stand-in for each host's model makes the same calls and
//! stores every request: the test checks what the model receives of the server's answers. `tests/clients/hosts` has the
//! conversation, and how each host is started.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::programs::{capture, root};
use crate::running_server::ServerSetup;
use crate::sections;
use crate::steps::StepRunner;
use crate::test::RunLength;
use crate::test_clients::{TestClients, sources_directory};

/// The hosts of every run, over stdio, and the virtual environment of the one that is written in Python.
const SHORT_RUN_HOSTS: [&str; 3] = ["claude-code", "codex", "langchain-python"];
const SHORT_RUN_VENVS: [&str; 1] = ["langchain"];

/// The further hosts of a long run. A long run uses stdio and HTTP for all hosts.
const LONG_RUN_HOSTS: [&str; 11] = [
    "codex-scripts",
    "gemini-cli",
    "opencode",
    "qwen-code",
    "copilot-cli",
    "langchain-js",
    "openai-agents",
    "pydantic-ai",
    "ai-sdk",
    "mastra",
    "google-adk",
];
const LONG_RUN_VENVS: [&str; 3] = ["openai-agents", "pydantic-ai", "google-adk"];

/// What happens to `docs/hosts.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostsPage {
    /// The page stays as it is.
    Unchanged,
    /// The page gets the table of this run.
    Updated,
}

/// How a host reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
}

/// Runs the conversation with each host.
pub(crate) fn run(
    clients: &TestClients,
    binary: &Path,
    length: RunLength,
    page: HostsPage,
    steps: &mut StepRunner,
) -> Result {
    steps.run("Hosts, fetched", || fetch(clients, length))?;
    let (hosts, transports): (Vec<&str>, &[Transport]) = match length {
        RunLength::Short => (SHORT_RUN_HOSTS.to_vec(), &[Transport::Stdio]),
        RunLength::Long => {
            ([&SHORT_RUN_HOSTS[..], &LONG_RUN_HOSTS].concat(), &[Transport::Stdio, Transport::Http])
        }
    };
    let mut directories = Vec::new();
    for host in hosts {
        for transport in transports {
            let name = match transport {
                Transport::Stdio => "stdio",
                Transport::Http => "http",
            };
            let directory = clients.fresh_directory(&format!("host-{host}-{name}"))?;
            steps.run(&format!("{host}, {name}"), || {
                converse(clients, binary, host, *transport, name, &directory)
            })?;
            directories.push(directory);
        }
    }
    match page {
        HostsPage::Unchanged => Ok(()),
        HostsPage::Updated => steps.run("docs/hosts.md", || write_page(clients, &directories)),
    }
}

fn fetch(clients: &TestClients, length: RunLength) -> Result {
    let pinned_versions = sources_directory().join("hosts");
    let fetch_environments = |environments: &[&str]| -> Result {
        environments.iter().try_for_each(|name| {
            clients.fetch_python(name, &pinned_versions.join(format!("python/{name}.txt")))
        })
    };
    clients.fetch_node("hosts", &pinned_versions)?;
    fetch_environments(&SHORT_RUN_VENVS)?;
    match length {
        RunLength::Short => Ok(()),
        RunLength::Long => {
            clients.fetch_node("hosts-long", &pinned_versions.join("long"))?;
            fetch_environments(&LONG_RUN_VENVS)
        }
    }
}

/// Runs the conversation with one host. Fails if its model doesn't receive what it should.
fn converse(
    clients: &TestClients,
    binary: &Path,
    host: &str,
    transport: Transport,
    name: &str,
    directory: &Path,
) -> Result {
    let example = sources_directory().join("hosts/place");
    let setup = ServerSetup::from_example(&example, binary.to_owned(), directory.join("stead"))?;
    let mut script = clients.python_script("hosts/drive.py");
    script.args([host, name]).arg(directory).env("PEERS", clients.folder());
    script.env("STEAD_BIN", setup.binary()).env("STEAD_CONFIG", setup.config());
    if transport == Transport::Stdio {
        return capture(&mut script).map(drop);
    }
    let token = setup.create_token(&[])?;
    let server = setup.serve()?;
    capture(script.env("STEAD_URL", server.url()).env("STEAD_TOKEN", token)).map(drop)
}

/// Puts the table of what the models received into the page.
fn write_page(clients: &TestClients, directories: &[PathBuf]) -> Result {
    let table = capture(clients.python_script("hosts/table.py").args(directories))?;
    let page = root().join("docs/hosts.md");
    let section = format!("<!-- begin hosts -->\n{table}<!-- end hosts -->");
    Ok(fs::write(&page, sections::replace_sections(&fs::read_to_string(&page)?, &section)?)?)
}
