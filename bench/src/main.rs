//! Compares Stead's Stores with what people use instead (files on disk, a flat SQLite table, AgentFS), and its server
//! with other servers.
//!
//! Usage: `stead-bench [NAME…] [--quick]`. Tables go to stdout as Markdown, progress to stderr. The data is in
//! `STEAD_BENCH_DIR`, or in the target directory, and is removed afterwards.

mod agentfs_mount;
mod case;
mod contender;
mod content;
mod machine;
mod measure;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use case::{CASES, Effort};

/// The first error ends the program, which prints it.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stead-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result {
    let (options, names): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let effort = match options.iter().map(|option| option.as_str()).collect::<Vec<_>>()[..] {
        [] => Effort::Full,
        ["--quick"] => Effort::Quick,
        _ => return Err("the only option is --quick".into()),
    };
    if let Some(unknown) = names.iter().find(|name| CASES.iter().all(|case| case.name != name.as_str())) {
        let known: Vec<_> = CASES.iter().map(|case| case.name).collect();
        return Err(format!("there is no benchmark `{unknown}`; there are {}", known.join(", ")).into());
    }
    let base = std::env::var_os("STEAD_BENCH_DIR").map_or_else(default_directory, |path| Ok(path.into()))?;
    std::fs::create_dir_all(&base)?;
    for case in CASES {
        if !names.is_empty() && !names.iter().any(|name| name.as_str() == case.name) {
            continue;
        }
        eprintln!("{}", case.name);
        let data = tempfile::tempdir_in(&base)?;
        let tables = (case.run)(data.path(), effort)?;
        println!("<!-- begin {} -->", case.name);
        println!("{}\n", machine::describe(data.path(), effort)?);
        for table in tables {
            println!("{table}");
        }
        println!("<!-- end {} -->\n", case.name);
    }
    Ok(())
}

/// A directory next to the program, in the target directory: on the same file system as the code, and ignored by git.
fn default_directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().ok_or("the path of the program has no parent")?.join("bench-data"))
}
