//! Real hosts, from their registries, each with a stand-in for its model that makes the same calls and keeps every request:
//! what counts is what the model receives of our answers. `tests/clients/hosts` has the conversation and how a host is
//! started.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::host::{capture, root};
use crate::peers::{Peers, sources};
use crate::sections;
use crate::served::Setting;
use crate::steps::Steps;
use crate::test::Length;

/// The hosts of every run, over stdio, and the virtual environment of the one that is written in Python.
const USUAL: [&str; 3] = ["claude-code", "codex", "langchain-python"];
const USUAL_PYTHON: [&str; 1] = ["langchain"];

/// Those of a long run, beside the usual ones; all of them over stdio and HTTP.
const OTHERS: [&str; 11] = [
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
const OTHERS_PYTHON: [&str; 3] = ["openai-agents", "pydantic-ai", "google-adk"];

/// What becomes of `docs/hosts.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// It stays as it is.
    Left,
    /// It gets the table of this run.
    Written,
}

/// How a host reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
}

/// Has a conversation with each host.
pub(crate) fn run(peers: &Peers, binary: &Path, length: Length, page: Page, steps: &mut Steps) -> Result {
    steps.step("Hosts, fetched", || fetch(peers, length))?;
    let (hosts, transports): (Vec<&str>, &[Transport]) = match length {
        Length::Short => (USUAL.to_vec(), &[Transport::Stdio]),
        Length::Long => ([&USUAL[..], &OTHERS].concat(), &[Transport::Stdio, Transport::Http]),
    };
    let mut places = Vec::new();
    for host in hosts {
        for transport in transports {
            let name = match transport {
                Transport::Stdio => "stdio",
                Transport::Http => "http",
            };
            let place = peers.place(&format!("host-{host}-{name}"))?;
            steps.step(&format!("{host}, {name}"), || {
                converse(peers, binary, host, *transport, name, &place)
            })?;
            places.push(place);
        }
    }
    match page {
        Page::Left => Ok(()),
        Page::Written => steps.step("docs/hosts.md", || write(peers, &places)),
    }
}

fn fetch(peers: &Peers, length: Length) -> Result {
    let pinned = sources().join("hosts");
    let python = |environments: &[&str]| -> Result {
        environments
            .iter()
            .try_for_each(|name| peers.fetch_python(name, &pinned.join(format!("python/{name}.txt"))))
    };
    peers.fetch_node("hosts", &pinned)?;
    python(&USUAL_PYTHON)?;
    match length {
        Length::Short => Ok(()),
        Length::Long => {
            peers.fetch_node("hosts-long", &pinned.join("long"))?;
            python(&OTHERS_PYTHON)
        }
    }
}

/// Starts one host, and fails if its model does not receive what it should.
fn converse(
    peers: &Peers,
    binary: &Path,
    host: &str,
    transport: Transport,
    name: &str,
    place: &Path,
) -> Result {
    let example = sources().join("hosts/place");
    let setting = Setting::like(&example, binary.to_owned(), place.join("stead"))?;
    let mut script = peers.python_script("hosts/drive.py");
    script.args([host, name]).arg(place).env("PEERS", peers.folder());
    script.env("STEAD_BIN", setting.binary()).env("STEAD_CONFIG", setting.config());
    if transport == Transport::Stdio {
        return capture(&mut script).map(drop);
    }
    let token = setting.token(&[])?;
    let served = setting.serve()?;
    capture(script.env("STEAD_URL", served.url()).env("STEAD_TOKEN", token)).map(drop)
}

/// Puts the table of what was received into the page.
fn write(peers: &Peers, places: &[PathBuf]) -> Result {
    let table = capture(peers.python_script("hosts/table.py").args(places))?;
    let page = root().join("docs/hosts.md");
    let fresh = format!("<!-- begin hosts -->\n{table}<!-- end hosts -->");
    Ok(fs::write(&page, sections::replaced(&fs::read_to_string(&page)?, &fresh)?)?)
}
