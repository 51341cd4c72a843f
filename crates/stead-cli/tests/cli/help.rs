//! The help texts of the commands, as a whole, so that a change of one is seen.

use crate::common::TestDir;

/// The commands whose help is compared: those for files and history.
const COMMANDS: [&[&str]; 25] = [
    &["append"],
    &["audit", "archive"],
    &["blame"],
    &["cat"],
    &["cp"],
    &["diff"],
    &["fork"],
    &["gc"],
    &["import"],
    &["log"],
    &["ls"],
    &["man"],
    &["mkdir"],
    &["mv"],
    &["restore"],
    &["rm"],
    &["snapshot"],
    &["snapshots"],
    &["stat"],
    &["state", "delete"],
    &["state", "get"],
    &["state", "list"],
    &["state", "set"],
    &["undo"],
    &["write"],
];

#[test]
fn help_texts_are_as_they_were_read() {
    let dir = TestDir::empty();
    let help = |command: &&[&str]| {
        let text = dir.run(command.iter().copied().chain(["--help"]));
        // What every command takes comes last, and is the same for all.
        let (own, _) = text.split_once("Options of every command:\n").unwrap();
        let own: Vec<_> = own.lines().map(str::trim_end).collect();
        format!("$ stead {} --help\n{}\n", command.join(" "), own.join("\n").trim_end())
    };
    insta::assert_snapshot!(COMMANDS.iter().map(help).collect::<Vec<_>>().join("\n"));
}
