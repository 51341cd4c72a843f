//! The command with which a person reaches the stead that `stead mcp DIR...` serves.

use std::env;
use std::path::Path;

use stead::{AccessScope, Config};

/// The line that the server prints at its start: how a person undoes what the agent does.
pub(super) fn start_line(config: &Config, agent: &str, named_config: Option<&Path>) -> String {
    let home = env::home_dir();
    let shell_path = |path: &Path| shell_path(path, home.as_deref());
    let is_found = |directory: &Path| Config::find_from(directory).is_ok_and(|found| found == config.file());
    let directories = config.served_directories(agent).unwrap_or_default();
    // A configuration that is named wins over every search.
    let directory = directories.iter().find(|directory| named_config.is_none() && is_found(&directory.path));
    let stead = match directory {
        Some(directory) => format!("stead -C {}", shell_path(&directory.path)),
        None => format!("stead --config {}", shell_path(config.file())),
    };
    let several = Config::read(config.file()).is_ok_and(|file| file.agents.len() > 1);
    let agent = if several { format!(" --agent {}", shell_word(agent)) } else { String::new() };
    if directories.iter().any(|directory| directory.scope != AccessScope::ReadOnly) {
        format!(
            "stead: to undo what the agent changes: `{stead} undo{agent}` (`log`, `diff` and `audit` show it)"
        )
    } else {
        format!("stead: to see what the agent does: `{stead} audit{agent}`")
    }
}

/// A path as a shell reads it, with `~` for the home directory.
fn shell_path(path: &Path, home: Option<&Path>) -> String {
    let below_home = home.and_then(|home| path.strip_prefix(home).ok()).and_then(Path::to_str);
    match below_home {
        Some("") => "~".to_owned(),
        Some(rest) if is_plain(rest) => format!("~/{rest}"),
        _ => shell_word(&path.to_string_lossy()),
    }
}

/// A word as a shell reads it, in quotes if it needs them.
fn shell_word(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "/._-+:@%,".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        let home = Some(Path::new("/home/ann"));
        let shown = |path: &str| shell_path(Path::new(path), home);
        assert_eq!(shown("/home/ann/code/app"), "~/code/app");
        assert_eq!(shown("/home/ann"), "~");
        assert_eq!(shown("/srv/code"), "/srv/code");
        assert_eq!(shown("/home/ann/my code"), "'/home/ann/my code'");
        assert_eq!(shown("/srv/it's $HOME"), r"'/srv/it'\''s $HOME'");
        assert_eq!(shell_path(Path::new("/a"), None), "/a");
    }
}
