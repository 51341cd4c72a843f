//! The tasks that people and CI run on this repository: `cargo xtask check`, `test`, `second-user`, `clients`,
//! `torture`, `docs`, `reference`, `pictures`, `dist`, `installs`, `tokens`, `bench`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::process::ExitCode;

mod bench;
mod boundary;
mod check;
mod clients;
mod compared_servers;
mod coverage;
mod dist;
mod doc_commands;
mod failures;
mod licences;
mod mcp_hosts;
mod mounted_stead;
mod pictures;
mod programs;
mod reference;
mod required_programs;
mod running_server;
mod second_user;
mod sections;
mod spec_lines;
mod stdio_client;
mod steps;
mod test;
mod test_clients;
mod tokens;
mod torture;
mod varying_text;

const USAGE: &str = "\
cargo xtask check                             formatting, lints, boundaries, documentation
cargo xtask test [--long]                     all tests; --long repeats the loops more often
cargo xtask test --fast                       unit tests, and the behaviour suite on Memory and SQLite: under a minute
cargo xtask test --coverage                   which lines the tests of the workspace run; not part of test
cargo xtask second-user                       the tests that depend on modes, as another user (needs root); part of test
cargo xtask clients [--long [--write]]        the server with other projects' clients and hosts; part of test; --long
                                              runs all hosts, --write writes what their models get into docs/hosts.md
cargo xtask torture [--long]                  programs that stress file systems, on a mount; part of test
cargo xtask docs                              the commands of the README and the guides, as written; part of test
cargo xtask pictures [--check]                records the picture of the README; --check: is it stale? part of test
cargo xtask dist [--binary FILE]…             the files of a release, in target/dist; without FILE builds the binary
cargo xtask installs                          installs the packages of a release in throwaway places; part of test
cargo xtask tokens [--before BINARY] [--write] how many tokens the tools, the map and answers need; --write as below
cargo xtask reference                         writes docs/reference from the code
cargo xtask bench [NAME…] [--quick] [--write] benchmarks; --write writes the tables into docs/benchmarks.md";

/// The result of a task. The error is a sentence on what went wrong.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result {
    let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
    match &*arguments {
        ["check"] => check::run(),
        ["test"] => test::run(test::RunLength::Short),
        ["test", "--long"] => test::run(test::RunLength::Long),
        ["test", "--fast"] => test::run_fast(),
        ["test", "--coverage"] => coverage::run(),
        ["second-user"] => second_user::run(),
        ["clients"] => clients::run(test::RunLength::Short, mcp_hosts::HostsPage::Unchanged),
        ["clients", "--long"] => clients::run(test::RunLength::Long, mcp_hosts::HostsPage::Unchanged),
        ["clients", "--long", "--write"] => {
            clients::run(test::RunLength::Long, mcp_hosts::HostsPage::Updated)
        }
        ["reference"] => reference::run(),
        ["spec-lines"] => spec_lines::write(),
        ["torture"] => torture::run(test::RunLength::Short),
        ["torture", "--long"] => torture::run(test::RunLength::Long),
        ["docs"] => doc_commands::run(),
        ["pictures"] => pictures::run(pictures::Picture::Written),
        ["pictures", "--check"] => pictures::run(pictures::Picture::Checked),
        ["dist", options @ ..] => dist::run(options),
        ["installs"] => dist::check_installs(),
        ["bench", options @ ..] => bench::run(options),
        ["tokens", options @ ..] => tokens::run(options),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("`{}` isn't one of these commands:\n{USAGE}", arguments.join(" ")).into()),
    }
}
