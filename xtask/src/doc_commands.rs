//! `cargo xtask docs`: runs the commands of the README and the guides as they are written, in a home directory that is
//! thrown away, and compares the output that a page shows.
//!
//! - A block marked `sh` or `console` is run. `console` shows commands after `$ ` and what they print.
//! - `norun: REASON` after that word leaves a block out: it needs a program that isn't here, or runs until it is
//!   stopped.
//! - A comment `<!-- setup` prepares what the commands after it need, where the reader's own files would be.
//! - Ids, times and durations may differ. A later command that names a shown id is run with the id of this run.
//!
//! Every guide begins where the first section of the README ends: in `~/demo`, after `stead init`.

mod markdown;
mod shell;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::programs::{self, capture, cargo, root};
use crate::required_programs::{self, FUSE, SQLITE};
use crate::steps::StepRunner;
use crate::varying_text::{variables, without_variables};
use markdown::{DocCommand, Page};
use shell::Shell;

/// What has happened before the first command of a guide.
const GUIDE_SETUP: &str = r#"
mkdir ~/demo && cd ~/demo
mkdir docs && echo 'Write small functions.' > docs/handbook.md
stead init
stead write /notes/plan.md $'1. write small functions\n2. test them\n3. ship them\n'
"#;

/// Runs the commands of all pages.
pub(crate) fn run() -> Result {
    required_programs::install_missing(&[FUSE, SQLITE])?;
    capture(cargo().args(["build", "--package", "stead-cli"]))?;
    let binary = programs::target().join("debug/stead");
    let mut steps = StepRunner::default();
    for page in pages()? {
        let name = page.strip_prefix(root())?.display().to_string();
        steps.run(&name, || run_page(&page, &binary))?;
    }
    steps.finish()
}

/// The README, then the guides.
fn pages() -> Result<Vec<PathBuf>> {
    let mut guides = Vec::new();
    for entry in fs::read_dir(root().join("docs/guide"))? {
        guides.push(entry?.path());
    }
    guides.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    guides.sort();
    guides.insert(0, root().join("README.md"));
    Ok(guides)
}

fn run_page(path: &Path, binary: &Path) -> Result {
    let page = Page::parse(&fs::read_to_string(path)?)?;
    if page.commands.is_empty() {
        return Ok(());
    }
    let mut shell = Shell::start(binary)?;
    let is_guide = path.parent().is_some_and(|directory| directory.ends_with("guide"));
    let guide_setup = is_guide.then(|| DocCommand::setup(0, GUIDE_SETUP));
    let mut shown = ShownVariables::default();
    let mut problems = Vec::new();
    for command in guide_setup.iter().chain(&page.commands) {
        let problem = run_command(command, &mut shell, &mut shown)?;
        problems.extend(problem.map(|problem| format!("line {}: {problem}", command.line)));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// Runs one command, and compares its output with what the page shows. Returns what is wrong, and fails if no further
/// command can be run.
fn run_command(
    command: &DocCommand,
    shell: &mut Shell,
    shown: &mut ShownVariables,
) -> Result<Option<String>> {
    let text = shown.replace_in(&command.text);
    let ran = shell.run(&text)?;
    let may_fail = command.output.as_deref().is_some_and(|output| output.starts_with("stead: "));
    if ran.status != 0 && !may_fail {
        return Ok(Some(format!("`{}` ended with {}:\n{}", text.trim(), ran.status, ran.output)));
    }
    let Some(expected) = &command.output else { return Ok(None) };
    if without_variables(expected.trim_end()) != without_variables(ran.output.trim_end()) {
        return Ok(Some(format!(
            "`{}` prints something else than the page shows. The page:\n{expected}\nThis run:\n{}",
            text.trim(),
            ran.output
        )));
    }
    shown.remember(expected, &ran.output);
    Ok(None)
}

/// The ids and times that a page shows, and those of this run in their place.
#[derive(Debug, Default)]
struct ShownVariables {
    pairs: Vec<(String, String)>,
}

impl ShownVariables {
    fn remember(&mut self, shown: &str, actual: &str) {
        let pairs = variables(shown).into_iter().zip(variables(actual));
        self.pairs.extend(pairs.map(|(shown, actual)| (shown.to_owned(), actual.to_owned())));
    }

    fn replace_in(&self, command: &str) -> String {
        self.pairs.iter().fold(command.to_owned(), |text, (shown, actual)| text.replace(shown, actual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_names_a_shown_id_is_run_with_the_id_of_this_run() {
        let mut shown = ShownVariables::default();
        shown.remember("the token `695aae41` of `coder`", "the token `0123abcd` of `coder`");
        assert_eq!(shown.replace_in("stead token revoke 695aae41"), "stead token revoke 0123abcd");
    }

    fn problem_of(page: &str) -> Option<String> {
        let page = Page::parse(page).unwrap();
        let mut shell = Shell::start(Path::new("/bin/true")).unwrap();
        let mut shown = ShownVariables::default();
        page.commands.iter().find_map(|command| run_command(command, &mut shell, &mut shown).unwrap())
    }

    #[test]
    fn a_page_whose_commands_print_what_it_shows_is_right() {
        let page = "```console\n$ cd /\n$ pwd\n/\n$ echo 0123456789\n9876543210\n```\n";
        assert_eq!(problem_of(page), None);
    }

    #[test]
    fn a_command_that_fails_is_a_problem_unless_the_page_shows_the_refusal() {
        assert!(problem_of("```sh\nfalse\n```\n").is_some());
        let refused = "```console\n$ echo 'stead: no'; false\nstead: no\n```\n";
        assert_eq!(problem_of(refused), None);
    }

    #[test]
    fn other_output_than_shown_is_a_problem() {
        assert!(problem_of("```console\n$ echo one\ntwo\n```\n").unwrap().contains("two"));
    }
}
