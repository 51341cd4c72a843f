//! Stead's Stores beside what people use instead: files on disk, a flat SQLite table, AgentFS. And its server beside
//! others.
//!
//! Usage: `stead-bench [NAME…] [--quick]`. Tables go to stdout, as Markdown, what is being done to stderr. The data
//! lies in `STEAD_BENCH_DIR`, or in the target directory, and is gone afterwards.

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

/// A benchmark that can't go on says why, and all of it ends.
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
        let known = CASES.map(|case| case.name).join(", ");
        return Err(format!("`{unknown}` is no benchmark; there are {known}").into());
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

/// Beside the program, which lies in the target directory: on the same file system as the code, and ignored by git.
fn default_directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().ok_or("the program lies nowhere")?.join("bench-data"))
}
