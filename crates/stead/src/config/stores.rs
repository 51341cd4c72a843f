//! Reads `[database]` and `[stores.NAME]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stead_stores::DisplacedRetention;

use super::amount;
use super::host_check::HostCheckKind;
use super::keys;
use super::section::{Section, WithSpan};
use super::{DatabaseConfig, StoreConfig};

/// The kinds of Stores.
const KINDS: [&str; 3] = ["physical", "virtual", "memory"];

/// The valid Stores, and the names of all of them.
pub(super) struct ParsedStores {
    pub(super) valid: BTreeMap<String, StoreConfig>,
    /// Includes the names of invalid Stores, so that a Workspace over one isn't reported as a second problem.
    pub(super) names: Vec<String>,
}

pub(super) fn database(top: &Section<'_>, directory: &Path) -> DatabaseConfig {
    let mut database = DatabaseConfig::default_in(directory);
    let Some(section) = top.table("database") else { return database };
    if let Some(url) = section.text("url") {
        match sqlite_file(url.value) {
            Ok(file) if directory.join(file).is_dir() => {
                section.reject_value(&url, "this is a directory; write \"sqlite:\" and a file");
            }
            Ok(file) => {
                database.path = directory.join(file);
                section.add_host_check(&url, HostCheckKind::Database);
            }
            Err(message) => section.reject_value(&url, message),
        }
    }
    if let Some(durability) = section.text("durability") {
        match durability.value.parse() {
            Ok(parsed) => database.durability = parsed,
            Err(error) => section.reject_value(&durability, error),
        }
    }
    section.reject_unknown_keys();
    database
}

/// The file in a database URL.
fn sqlite_file(url: &str) -> Result<&str, String> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Err("PostgreSQL is not supported in this version; use a file: \"sqlite:stead.db\"".into());
    }
    match url.strip_prefix("sqlite:") {
        Some(":memory:") => {
            Err("a database in memory can't be shared; give the Store `kind = \"memory\"` instead".into())
        }
        Some("") | None => {
            Err(format!("`{}` has no file name; write \"sqlite:\" and a file", url.escape_debug()))
        }
        // URL forms of other programs. Here they would be taken for file names.
        Some(file) if file.starts_with("//") || file.starts_with("file:") || file.contains('?') => {
            let url = url.escape_debug();
            Err(format!(
                "`{url}` isn't a valid database URL; write \"sqlite:\" and a file, as in \"sqlite:stead.db\""
            ))
        }
        Some(file) => Ok(file),
    }
}

pub(super) fn stores(top: &Section<'_>, directory: &Path) -> ParsedStores {
    let mut stores = ParsedStores { valid: BTreeMap::new(), names: Vec::new() };
    for (name, mut section) in top.named_tables("stores") {
        if let Some(store) = store(&name, &mut section, directory) {
            stores.valid.insert(name.clone(), store);
        }
        stores.names.push(name);
    }
    stores
}

fn store(name: &str, section: &mut Section<'_>, directory: &Path) -> Option<StoreConfig> {
    // Without a kind, the valid keys are unknown.
    let kind = section.required("kind", "\"physical\", \"virtual\" or \"memory\"")?;
    let store = match kind.value {
        "physical" => {
            section.use_keys(&keys::PHYSICAL_STORE);
            read_physical(name, section, directory)
        }
        "virtual" => {
            section.use_keys(&keys::VIRTUAL_STORE);
            read_namespace(name, section).map(|namespace| StoreConfig::Virtual { namespace })
        }
        "memory" => {
            section.use_keys(&keys::MEMORY_STORE);
            Some(StoreConfig::Memory)
        }
        other => {
            section.reject_choice("kind", &WithSpan { value: other, span: kind.span }, &KINDS);
            return None;
        }
    };
    section.reject_unknown_keys();
    store
}

fn read_physical(name: &str, section: &Section<'_>, directory: &Path) -> Option<StoreConfig> {
    let path = section.required("path", "the directory, relative to this file")?;
    match path.value {
        "" => section.reject_value(&path, "`path` is empty; write \".\" for the directory of this file"),
        home if home == "~" || home.starts_with("~/") => {
            section.reject_value(&path, "`~` isn't expanded here; write the full path")
        }
        text => {
            section.add_host_check(&path, HostCheckKind::Directory { store: name.to_owned() });
            return Some(StoreConfig::Physical {
                path: resolve_path(directory, text),
                displaced_retention: read_displaced_retention(section),
            });
        }
    }
    None
}

/// Reads `keep`, how much displaced content is kept and for how long; `None` for `keep = false`.
fn read_displaced_retention(section: &Section<'_>) -> Option<DisplacedRetention> {
    let mut options = DisplacedRetention::default();
    if !section.has("keep") {
        return Some(options);
    }
    if section.is_bool("keep") {
        return section.boolean("keep").filter(|keep| keep.value).map(|_| options);
    }
    let keep = section.table("keep")?;
    if let Some(age) = keep.text("age") {
        match amount::parse_duration(age.value) {
            Ok(parsed) => options.age = parsed,
            Err(message) => keep.reject_value(&age, message),
        }
    }
    for (key, option) in [("bytes", &mut options.bytes), ("file_bytes", &mut options.file_bytes)] {
        if let Some(bytes) = keep.text(key) {
            match amount::parse_bytes(bytes.value) {
                Ok(parsed) => *option = parsed,
                Err(message) => keep.reject_value(&bytes, message),
            }
        }
    }
    keep.reject_unknown_keys();
    Some(options)
}

/// Resolves a path relative to the configuration file's directory. It gives `srv/code` rather than `./srv/code`, since
/// users see it.
fn resolve_path(directory: &Path, path: &str) -> PathBuf {
    if directory == Path::new(".") { PathBuf::from(path) } else { directory.join(path) }
}

fn read_namespace(name: &str, section: &Section<'_>) -> Option<Vec<String>> {
    if !section.has("namespace") {
        return Some(vec![name.to_owned()]);
    }
    let parts = section.texts("namespace")?;
    if parts.value.is_empty() {
        section.reject_value(&parts, "`namespace` is empty; write at least one part: [\"notes\"]");
        return None;
    }
    let parse_part = |part: &WithSpan<&str>| {
        if part.value.is_empty() {
            section.reject_value(part, "a part of `namespace` is empty");
            return None;
        }
        Some(part.value.to_owned())
    };
    parts.value.iter().map(parse_part).collect()
}
