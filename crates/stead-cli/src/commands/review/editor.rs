//! Edits a hunk in the person's editor.

use std::io::Write;
use std::process::Command;

use stead::history::hunks::{Hunk, HunkDecision, TextChange};

use crate::command_error::CommandError;

/// The editor if neither VISUAL nor EDITOR names one.
const DEFAULT_EDITOR: &str = "vi";
const HELP: &str = "# To leave out a line with `-`, make it a line with a space. To leave out a line with `+`, delete it.\n\
                    # Lines with `+` can be changed and added. Lines with `#` are left out.\n\
                    # If everything is deleted, the hunk is refused.\n";

/// What a person makes of a hunk, whose text this is; `None` if it can't be used, after saying why with `say`.
pub(super) fn edit(
    change: &TextChange<'_>,
    (hunk, text): (&Hunk, &str),
    say: impl FnOnce(&str),
) -> Result<Option<HunkDecision>, CommandError> {
    let failed = |error| CommandError::host("the hunk can't be edited", error);
    let mut file =
        tempfile::Builder::new().prefix("stead-hunk").suffix(".diff").tempfile().map_err(failed)?;
    file.write_all(format!("{HELP}{text}").as_bytes()).map_err(failed)?;
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(std::env::var_os);
    let editor = editor.filter(|editor| !editor.is_empty()).unwrap_or_else(|| DEFAULT_EDITOR.into());
    // The variable may have options.
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("eval \"$STEAD_EDITOR\" '\"$1\"'").arg("sh").arg(file.path());
    let status = shell.env("STEAD_EDITOR", editor).status().map_err(failed)?;
    if !status.success() {
        say("The editor failed, so the hunk stays as it was.");
        return Ok(None);
    }
    let text = std::fs::read_to_string(file.path()).map_err(failed)?;
    if text.lines().all(|line| line.starts_with('#') || line.trim().is_empty()) {
        return Ok(Some(HunkDecision::Refuse));
    }
    match change.edited(hunk, &text) {
        Ok(decision) => Ok(Some(decision)),
        Err(why) => {
            say(&format!("The edited hunk can't be used: {why}."));
            Ok(None)
        }
    }
}
