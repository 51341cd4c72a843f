//! The hosts whose configuration Stead can write: where their file is, and what an entry in it looks like.

use std::env;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::server_entry::ServerEntry;
use super::{json_entry, toml_entry};
use crate::command_error::CommandError;

/// A program that starts MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Host {
    /// Claude Code
    Claude,
    /// Claude Desktop
    ClaudeDesktop,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// opencode
    Opencode,
    /// Windsurf
    Windsurf,
}

/// Where the user's files are.
#[derive(Debug)]
pub(super) struct UserDirectories {
    pub(super) home: PathBuf,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    pub(super) config: PathBuf,
    /// `$CLAUDE_CONFIG_DIR`, or the home directory.
    pub(super) claude: PathBuf,
    /// `$CODEX_HOME`, or `~/.codex`.
    pub(super) codex: PathBuf,
}

impl UserDirectories {
    pub(super) fn from_environment() -> Result<Self, CommandError> {
        let home = env::home_dir().filter(|home| home.is_absolute());
        let home = home.ok_or_else(|| CommandError::invalid("there is no home directory; set HOME"))?;
        let absolute =
            |name| env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
        Ok(UserDirectories {
            config: absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            claude: absolute("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.clone()),
            codex: absolute("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            home,
        })
    }
}

/// The language of a host's file, and where the entries are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, in which this key has the entries.
    Json { key: &'static str },
    /// JSON with comments, in which this key has the entries.
    JsonWithComments { key: &'static str },
    /// TOML: `[mcp_servers.NAME]`.
    Toml,
}

/// The keys of an entry and their values, which are texts and lists of texts.
pub(super) type EntryKeys = Vec<(&'static str, Value)>;

/// Why a host's file can't be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EditError {
    #[error("it isn't valid: {0}")]
    Invalid(String),
    #[error("`{0}` in it isn't what the host expects there")]
    WrongType(String),
    #[error("it has `{0}` twice in one object, and a host reads only one of them")]
    Duplicate(String),
}

impl Host {
    /// What the host is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Host::Claude => "Claude Code",
            Host::ClaudeDesktop => "Claude Desktop",
            Host::Cursor => "Cursor",
            Host::Vscode => "VS Code",
            Host::Codex => "Codex",
            Host::Gemini => "Gemini CLI",
            Host::Opencode => "opencode",
            Host::Windsurf => "Windsurf",
        }
    }

    /// Whether the host is started from a desktop, where `PATH` may be another one than in a shell.
    pub(super) fn is_desktop_program(self) -> bool {
        matches!(self, Host::ClaudeDesktop | Host::Cursor | Host::Vscode | Host::Windsurf)
    }

    /// The user's file of the host.
    pub(super) fn user_file(self, directories: &UserDirectories) -> PathBuf {
        let UserDirectories { home, config, claude, codex } = directories;
        match self {
            Host::Claude => claude.join(".claude.json"),
            Host::ClaudeDesktop => config.join("Claude/claude_desktop_config.json"),
            Host::Cursor => home.join(".cursor/mcp.json"),
            Host::Vscode => config.join("Code/User/mcp.json"),
            Host::Codex => codex.join("config.toml"),
            Host::Gemini => home.join(".gemini/settings.json"),
            Host::Opencode => json_or_jsonc(&config.join("opencode")),
            Host::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
        }
    }

    /// The host's file of the project in a directory; `None` if the host has none.
    pub(super) fn project_file(self, project: &Path) -> Option<PathBuf> {
        match self {
            Host::Claude => Some(project.join(".mcp.json")),
            Host::Cursor => Some(project.join(".cursor/mcp.json")),
            Host::Vscode => Some(project.join(".vscode/mcp.json")),
            Host::Codex => Some(project.join(".codex/config.toml")),
            Host::Gemini => Some(project.join(".gemini/settings.json")),
            Host::Opencode => Some(json_or_jsonc(project)),
            Host::ClaudeDesktop | Host::Windsurf => None,
        }
    }

    pub(super) fn format(self) -> Format {
        match self {
            Host::Claude | Host::ClaudeDesktop | Host::Windsurf => Format::Json { key: "mcpServers" },
            Host::Cursor | Host::Gemini => Format::JsonWithComments { key: "mcpServers" },
            Host::Vscode => Format::JsonWithComments { key: "servers" },
            Host::Opencode => Format::JsonWithComments { key: "mcp" },
            Host::Codex => Format::Toml,
        }
    }

    /// The keys that an entry needs, in the host's words.
    pub(super) fn entry_keys(self, entry: &ServerEntry) -> EntryKeys {
        let ServerEntry { command, arguments } = entry;
        let plain = [("command", json!(command)), ("args", json!(arguments))];
        match self {
            Host::Claude | Host::Vscode => [("type", json!("stdio"))].into_iter().chain(plain).collect(),
            Host::Opencode => {
                let command: Vec<_> = std::iter::once(command).chain(arguments).collect();
                vec![("type", json!("local")), ("command", json!(command))]
            }
            _ => plain.into(),
        }
    }

    /// The text of the host's file with this entry. Everything else in it stays as it is.
    pub(super) fn with_entry(self, text: &str, name: &str, entry: &ServerEntry) -> Result<String, EditError> {
        let keys = self.entry_keys(entry);
        match self.format() {
            Format::Toml => toml_entry::set(text, name, &keys),
            Format::Json { key } => json_entry::set(text, json_entry::Syntax::Strict, key, name, &keys),
            Format::JsonWithComments { key } => {
                json_entry::set(text, json_entry::Syntax::WithComments, key, name, &keys)
            }
        }
    }

    /// The text of the host's file without the entry of this name.
    pub(super) fn without_entry(self, text: &str, name: &str) -> Result<String, EditError> {
        match self.format() {
            Format::Toml => toml_entry::remove(text, name),
            Format::Json { key } => json_entry::remove(text, json_entry::Syntax::Strict, key, name),
            Format::JsonWithComments { key } => {
                json_entry::remove(text, json_entry::Syntax::WithComments, key, name)
            }
        }
    }
}

/// opencode's file in a directory: `opencode.jsonc` if only that exists, else `opencode.json`.
fn json_or_jsonc(directory: &Path) -> PathBuf {
    let (json, jsonc) = (directory.join("opencode.json"), directory.join("opencode.jsonc"));
    if jsonc.exists() && !json.exists() { jsonc } else { json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_file_is_where_the_host_looks_for_it() {
        let directories = UserDirectories {
            home: "/h".into(),
            config: "/x".into(),
            claude: "/c".into(),
            codex: "/d".into(),
        };
        let file = |host: Host| host.user_file(&directories).to_string_lossy().into_owned();
        assert_eq!(file(Host::Claude), "/c/.claude.json");
        assert_eq!(file(Host::ClaudeDesktop), "/x/Claude/claude_desktop_config.json");
        assert_eq!(file(Host::Cursor), "/h/.cursor/mcp.json");
        assert_eq!(file(Host::Vscode), "/x/Code/User/mcp.json");
        assert_eq!(file(Host::Codex), "/d/config.toml");
        assert_eq!(file(Host::Gemini), "/h/.gemini/settings.json");
        assert_eq!(file(Host::Opencode), "/x/opencode/opencode.json");
        assert_eq!(file(Host::Windsurf), "/h/.codeium/windsurf/mcp_config.json");
    }
}
