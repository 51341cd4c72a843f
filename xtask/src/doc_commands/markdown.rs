//! Finds the commands in a page.

use crate::Result;

/// The languages of blocks that hold commands.
const LANGUAGES: [&str; 4] = ["bash", "console", "sh", "shell"];

/// The commands of a page, in order.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) commands: Vec<DocCommand>,
}

/// A command of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DocCommand {
    /// The line of the page that it begins at, counted from 1.
    pub(super) line: usize,
    /// What is given to the shell.
    pub(super) text: String,
    /// The output that the page shows; `None` if it shows none.
    pub(super) output: Option<String>,
}

impl DocCommand {
    /// A command that prepares something and whose output doesn't matter.
    pub(super) fn setup(line: usize, text: &str) -> Self {
        DocCommand { line, text: text.to_owned(), output: None }
    }
}

impl Page {
    /// Finds the commands in the text of a page.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut commands = Vec::new();
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        while let Some((start, line)) = lines.next() {
            if line.trim() == "<!-- setup" {
                let block: Vec<_> =
                    lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "-->").collect();
                commands.push(DocCommand::setup(start, &block.join("\n")));
            } else if let Some(info) = line.strip_prefix("```") {
                let block: Vec<_> = lines.by_ref().take_while(|(_, line)| *line != "```").collect();
                commands.extend(commands_of_block(start, info, &block)?);
            }
        }
        Ok(Page { commands })
    }
}

fn commands_of_block(start: usize, info: &str, block: &[(usize, &str)]) -> Result<Vec<DocCommand>> {
    let (language, mark) = info.split_once(' ').unwrap_or((info, ""));
    if !LANGUAGES.contains(&language) {
        return match block.iter().find(|(_, line)| line.starts_with("$ ")) {
            Some((line, _)) => {
                Err(format!("line {line}: a block with commands has to be marked `console`").into())
            }
            None => Ok(Vec::new()),
        };
    }
    match mark.strip_prefix("norun") {
        Some(reason) if reason.trim_start_matches(':').trim().is_empty() => {
            Err(format!("line {start}: say why this block isn't run: `norun: REASON`").into())
        }
        Some(_) => Ok(Vec::new()),
        None if !mark.is_empty() => {
            Err(format!("line {start}: unknown mark `{mark}`; use `norun: REASON`").into())
        }
        None if language == "console" => Ok(console_commands(block)),
        None => {
            let lines: Vec<_> = block.iter().map(|(_, line)| *line).collect();
            Ok(vec![DocCommand::setup(start, &lines.join("\n"))])
        }
    }
}

/// The commands after `$ `, which continue on the next line after `\`, and the lines that each prints.
fn console_commands(block: &[(usize, &str)]) -> Vec<DocCommand> {
    let mut commands: Vec<DocCommand> = Vec::new();
    for (line, text) in block {
        if let Some(command) = text.strip_prefix("$ ") {
            commands.push(DocCommand::setup(*line, command));
        } else if let Some(last) = commands.last_mut() {
            if last.text.ends_with('\\') {
                last.text = format!("{}\n{text}", last.text);
            } else {
                let output = last.output.get_or_insert_default();
                output.push_str(text);
                output.push('\n');
            }
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &str) -> Vec<(usize, String, Option<String>)> {
        let page = Page::parse(page).unwrap();
        page.commands.into_iter().map(|command| (command.line, command.text, command.output)).collect()
    }

    #[test]
    fn commands_are_found_with_the_output_that_the_page_shows() {
        let page = "# Page\n\n```console\n$ one \\\n  more\nsaid\ntwice\n$ two\n```\n";
        assert_eq!(
            texts(page),
            [(4, "one \\\n  more".into(), Some("said\ntwice\n".into())), (8, "two".into(), None)]
        );
    }

    #[test]
    fn a_shell_block_and_a_setup_comment_are_one_command_each() {
        let page = "<!-- setup\ntouch a\ntouch b\n-->\ntext\n```sh\none\ntwo\n```\n";
        assert_eq!(texts(page), [(1, "touch a\ntouch b".into(), None), (6, "one\ntwo".into(), None)]);
    }

    #[test]
    fn blocks_in_other_languages_hold_no_commands() {
        assert_eq!(texts("```toml\na = 1\n```\n```\nplain\n```\n"), []);
    }

    #[test]
    fn a_block_that_is_not_run_needs_a_reason() {
        assert_eq!(texts("```sh norun: it needs a network\ncurl\n```\n"), []);
        assert!(Page::parse("```sh norun\ncurl\n```\n").is_err());
        assert!(Page::parse("```sh nonsense\ncurl\n```\n").is_err());
    }

    #[test]
    fn commands_can_not_hide_in_a_block_that_is_not_marked() {
        assert!(Page::parse("```text\n$ stead ls\n```\n").is_err());
    }
}
