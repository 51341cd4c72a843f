//! Writes docs/reference: tests compare the pages with the code, and write them if they are told to.

use crate::Result;
use crate::programs::{cargo, run_shown};

/// The tests that compare the pages.
const TESTS: [(&str, &str); 4] = [
    ("stead", "config::keys::page::the_reference_page_is_what_the_code_says"),
    ("stead-cli", "reference::the_page_of_commands_is_what_the_code_says"),
    ("stead-cli", "reference::the_page_of_tools_is_what_the_code_says"),
    ("stead-cli", "json::schema::the_schema_in_the_reference_is_that_of_the_documents"),
];

pub(crate) fn run() -> Result {
    for (package, test) in TESTS {
        let unit = if package == "stead" { "--lib" } else { "--bins" };
        let mut command = cargo();
        command.args(["test", "--quiet", "--package", package, unit, "--", "--exact", test]);
        run_shown(command.env("STEAD_WRITE_REFERENCE", "1"))?;
    }
    Ok(())
}
