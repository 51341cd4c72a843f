//! Managed Workspaces together with the rest of a stead: forks, threads, organizations, quotas and earlier versions.

#![allow(clippy::unwrap_used)]

mod forks;
mod organization;
mod sharing;
mod surroundings;

use std::path::PathBuf;

use stead::managed::{FileFilter, TagMode, Tags};
use stead::vfs::ManagedFiles;
use stead::vfs::managed::{FilePage, ListedFile};
use stead::{Config, Identity, Stead, Stores};

/// What the managed Workspace is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Virtual,
    Physical,
}

/// A configuration in a directory of its own, with the Store `s`.
struct Host {
    kind: Kind,
    directory: tempfile::TempDir,
    config: Config,
}

impl Host {
    fn new(kind: Kind, rest: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = match kind {
            Kind::Virtual => "kind = \"virtual\"",
            Kind::Physical => {
                std::fs::create_dir(directory.path().join("files")).unwrap();
                "kind = \"physical\"\npath = \"files\""
            }
        };
        let text = format!("[stores.s]\n{store}\n{rest}");
        let config = Config::parse(&text, &directory.path().join("stead.toml"));
        Host { kind, config: config.unwrap_or_else(|error| panic!("{error}")), directory }
    }

    /// Runs a test on both kinds of Store.
    fn each(rest: &str, test: impl Fn(&Host)) {
        for kind in [Kind::Virtual, Kind::Physical] {
            println!("on a Store of the kind {kind:?}");
            test(&Host::new(kind, rest));
        }
    }

    fn open(&self, agent: &str) -> Stead {
        Stead::open(&self.config, agent).unwrap()
    }

    fn open_thread(&self, agent: &str, thread: &str) -> Stead {
        Stead::open_in(&self.stores(), &Identity::agent(agent).with_thread(thread)).unwrap()
    }

    fn stores(&self) -> Stores {
        Stores::of(&self.config)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// The first column of a query on the database file, as text.
    fn query(&self, sql: &str) -> Vec<String> {
        let conn = rusqlite::Connection::open(self.path(".stead/stead.db")).unwrap();
        let mut statement = conn.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }
}

/// An agent `a` with the managed Workspace `/w`.
const AGENT: &str =
    "[[agents.a.workspaces]]\nprefix = \"/w\"\nscope = \"rw\"\nstore = \"s\"\nmanaged = true\n";

fn files(stead: &Stead, prefix: &str) -> ManagedFiles {
    stead.vfs().managed(Some(prefix)).unwrap()
}

fn all(stead: &Stead, prefix: &str) -> Vec<ListedFile> {
    let page = FilePage { offset: 0, limit: 200 };
    files(stead, prefix).list(&FileFilter::default(), page).unwrap().files
}

/// The names and tags of a Workspace's files, sorted, as `NAME TAGS`.
fn tagged(stead: &Stead, prefix: &str) -> Vec<String> {
    let line = |listed: ListedFile| format!("{} {}", listed.path.name().unwrap(), listed.file.tags);
    let mut lines: Vec<_> = all(stead, prefix).into_iter().map(line).collect();
    lines.sort();
    lines
}

fn write(stead: &Stead, path: &str, content: &str) -> String {
    stead.vfs().write(path, content).unwrap().path.to_string()
}

fn tag(stead: &Stead, prefix: &str, path: &str, mode: TagMode, tags: &str) {
    files(stead, prefix).tag(path, mode, &Tags::parse([tags]).unwrap()).unwrap();
}
