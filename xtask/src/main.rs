//! What people and CI run on this repository: `cargo xtask check`, `test`, `second-user`, `clients`, `torture`, `bench`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::process::ExitCode;

mod bench;
mod boundary;
mod check;
mod clients;
mod host;
mod mounted;
mod needs;
mod peers;
mod second_user;
mod sections;
mod served;
mod servers;
mod steps;
mod test;
mod torture;

const USAGE: &str = "\
cargo xtask check                             formatting, lints, boundaries, documentation
cargo xtask test [--long]                     all tests; --long repeats the loops more often
cargo xtask second-user                       what depends on modes, by root as another user, part of the tests
cargo xtask clients                           the server against others' clients, part of the tests
cargo xtask torture [--long]                  programs made to break file systems on a mount, part of the tests
cargo xtask bench [NAME…] [--quick] [--write] benchmarks; --write puts the tables into docs/benchmarks.md";

/// What an xtask answers: nothing, or a sentence on what went wrong.
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
        ["test"] => test::run(test::Length::Short),
        ["test", "--long"] => test::run(test::Length::Long),
        ["second-user"] => second_user::run(),
        ["clients"] => clients::run(),
        ["torture"] => torture::run(test::Length::Short),
        ["torture", "--long"] => torture::run(test::Length::Long),
        ["bench", options @ ..] => bench::run(options),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("`{}` is none of these:\n{USAGE}", arguments.join(" ")).into()),
    }
}
