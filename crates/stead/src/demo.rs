//! A stead for trying things out: two agents, a Workspace of each scope, some files and a fork.
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

/// Creates the demo in a directory and returns its configuration. Fails if the directory holds a `stead.toml` already.
pub fn create(directory: &Path) -> Result<Config> {
    let file = directory.join(FILE_NAME);
    let write_error = |cause| Error::host("the demo can't be written", cause);
    fs::create_dir_all(directory).map_err(write_error)?;
    fs::File::create_new(&file)
        .and_then(|mut file| std::io::Write::write_all(&mut file, CONFIG.as_bytes()))
        .map_err(write_error)?;
    let config = Config::load(&file)?;
    let stores = Stores::of(&config);
    for (store, path, content) in FILES {
        let stead =
            Stead::builder("demo").workspace("/", AccessScope::ReadWrite, stores.get(store)?).build()?;
        stead.vfs().write(path, content)?;
    }
    Stead::open(&config, "writer")?.fork("/project", "draft")?;
    Ok(config)
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
}
