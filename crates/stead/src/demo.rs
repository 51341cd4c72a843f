//! Steads for trying things out: two agents with a Workspace of each scope, some files and a fork; or an organization
//! with teams.
//!
//! ```
//! let directory = std::env::temp_dir().join(format!("stead-demo-{}", std::process::id()));
//! let config = stead::demo::create(&directory)?;
//! let agent = config.agents.keys().next().expect("the demo has agents");
//! println!("{}", stead::Stead::open(&config, agent)?.map());
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs;
use std::io::Write as _;
use std::path::Path;

use stead_core::AccessScope;

use crate::config::{Config, FILE_NAME};
use crate::error::{Error, Result};
use crate::stead::Stead;
use crate::stores::Stores;

/// The demo's configuration.
const CONFIG: &str = include_str!("demo/stead.toml");

/// The demo's files: Store, path in the Store, content.
const FILES: [(&str, &str, &str); 4] = [
    ("handbook", "/style.md", include_str!("demo/style.md")),
    ("project", "/README.md", include_str!("demo/README.md")),
    ("project", "/src/greet.py", include_str!("demo/greet.py")),
    ("inbox", "/welcome.md", include_str!("demo/welcome.md")),
];

/// The configuration of the demo of an organization.
const ORGANIZATION_CONFIG: &str = include_str!("demo/organization.toml");

/// The records of the organization: name, content.
const RECORDS: [(&str, &str); 3] = [
    ("org.json", include_str!("demo/organization/acme/org.json")),
    ("teams.json", include_str!("demo/organization/acme/teams.json")),
    ("agents.json", include_str!("demo/organization/acme/agents.json")),
];

/// The files of the organization: path in its Store, content.
macro_rules! organization_files {
    ($($path:literal),+ $(,)?) => {
        [$(($path, include_str!(concat!("demo/organization/files", $path)))),+]
    };
}
const ORGANIZATION_FILES: [(&str, &str); 10] = organization_files![
    "/organizations/acme/workspaces/agent-catalyst/shared/interview-notes.md",
    "/organizations/acme/workspaces/agent-dana/shared/design.md",
    "/organizations/acme/workspaces/agent-elena/shared/agenda.md",
    "/organizations/acme/workspaces/agent-marcus/private/todo.md",
    "/organizations/acme/workspaces/agent-marcus/shared/review.md",
    "/organizations/acme/workspaces/team-development/shared/release.md",
    "/organizations/acme/workspaces/team-hr/private/salaries.md",
    "/organizations/acme/workspaces/team-hr/shared/holidays.md",
    "/organizations/acme/workspaces/team-leadership/private/strategy.md",
    "/organizations/acme/workspaces/team-library/shared/handbook.md",
];

/// Creates the demo in a directory and returns its configuration. Fails if the directory holds a `stead.toml` already.
pub fn create(directory: &Path) -> Result<Config> {
    write_new(directory, FILE_NAME, CONFIG)?;
    let config = Config::load(&directory.join(FILE_NAME))?;
    write_files(&config, FILES)?;
    Stead::open(&config, "writer")?.fork("/project", "draft")?;
    Ok(config)
}

/// Creates the demo of an organization in a directory and returns its configuration: the one in `examples/organization`,
/// with its folders in a Virtual Store. Fails if the directory holds a `stead.toml` already.
pub fn create_organization(directory: &Path) -> Result<Config> {
    write_new(directory, FILE_NAME, ORGANIZATION_CONFIG)?;
    for (name, content) in RECORDS {
        write_new(&directory.join("acme"), name, content)?;
    }
    let config = Config::load(&directory.join(FILE_NAME))?;
    write_files(&config, ORGANIZATION_FILES.map(|(path, content)| ("shared", path, content)))?;
    Ok(config)
}

/// Writes a file that doesn't exist yet, and creates its directory.
fn write_new(directory: &Path, name: &str, content: &str) -> Result<()> {
    let write_error = |cause| Error::host("the demo can't be written", cause);
    fs::create_dir_all(directory).map_err(write_error)?;
    let mut file = fs::File::create_new(directory.join(name)).map_err(write_error)?;
    file.write_all(content.as_bytes()).map_err(write_error)
}

/// Writes files: Store, path in the Store, content.
fn write_files<'a>(
    config: &Config,
    files: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
) -> Result<()> {
    let stores = Stores::of(config);
    for (store, path, content) in files {
        let stead =
            Stead::builder("demo").workspace("/", AccessScope::ReadWrite, stores.get(store)?).build()?;
        stead.vfs().write(path, content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn the_demo_shows_every_scope_and_a_fork() {
        let directory = tempfile::tempdir().unwrap();
        let config = create(directory.path()).unwrap();
        let writer = Stead::open(&config, "writer").unwrap();
        for line in
            ["/handbook: READ_ONLY", "/project: READ_WRITE", "/inbox: WRITE_ONLY", "/forks/draft: READ_WRITE"]
        {
            assert!(writer.map().contains(line), "{}", writer.map());
        }
        let denied = writer.call("write_file", json!({ "path": "/handbook/style.md", "content": "" }));
        assert!(denied.joined_text().contains("you may write in"), "{}", denied.joined_text());
        let reviewer = Stead::open(&config, "reviewer").unwrap();
        assert!(
            reviewer
                .call("read_file", json!({ "path": "/project/README.md" }))
                .joined_text()
                .contains("greet")
        );
        assert!(create(directory.path()).is_err(), "an existing directory must not be overwritten");
    }

    #[test]
    fn the_organization_of_the_demo_keeps_private_folders_private() {
        let directory = tempfile::tempdir().unwrap();
        let config = create_organization(directory.path()).unwrap();
        let read = |agent: &str, path: &str| {
            let stead = Stead::open(&config, agent).unwrap();
            stead.call("read_file", json!({ "path": path })).joined_text()
        };
        let notes = "/workspaces/agent-catalyst/shared/interview-notes.md";
        assert!(read("acme/agent-marcus", notes).contains("good questions"), "a team mate reads it");
        assert!(read("acme/agent-elena", notes).contains("good questions"), "leadership reads it");
        assert!(!read("acme/agent-dana", notes).contains("good questions"), "another team does not");
        let salaries = "/workspaces/team-hr/private/salaries.md";
        assert!(read("acme/agent-catalyst", salaries).contains("Salary bands"));
        assert!(!read("acme/agent-elena", salaries).contains("Salary bands"));
        assert!(
            create_organization(directory.path()).is_err(),
            "an existing directory must not be overwritten"
        );
    }
}
