//! A first stead: one agent, a directory to read, a database to write to.

use std::sync::Arc;

use stead::{AccessScope, Database, DatabaseOptions, Occurrences, PhysicalOptions, PhysicalStore, Stead};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let state = std::env::temp_dir().join(format!("stead-example-{}", std::process::id()));
    std::fs::create_dir(&state)?;
    let code = PhysicalStore::open("crates", PhysicalOptions::new(&state))?;
    let database = Database::open(state.join("stead.db"), DatabaseOptions::default())?;
    let notes = database.store(["workspaces", "coder"])?;

    // A stead is everything one agent can reach, and nothing else.
    let stead = Stead::builder("coder")
        .workspace("/project", AccessScope::ReadOnly, Arc::new(code))
        .workspace("/notes", AccessScope::ReadWrite, Arc::new(notes))
        .build()?;

    let vfs = stead.vfs();
    vfs.write("/notes/plan.md", "1. read the code")?;
    vfs.edit("/notes/plan.md", "read", "review", Occurrences::One)?;
    println!("{}", String::from_utf8(vfs.read("/notes/plan.md")?.bytes)?);

    // A refusal says which Workspace, its scope, and where writing is allowed.
    if let Err(refused) = vfs.write("/project/stead/Cargo.toml", "") {
        println!("{refused}");
    }
    std::fs::remove_dir_all(&state)?;
    Ok(())
}
