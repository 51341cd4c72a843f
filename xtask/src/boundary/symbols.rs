//! Finds references to functions that start processes in compiled libraries.

use std::collections::BTreeSet;
use std::path::PathBuf;

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSymbol};
use serde_json::Value;

/// The functions of the C library that start a program or copy a process.
const C_FUNCTIONS: [&str; 18] = [
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execveat",
    "execvp",
    "execvpe",
    "fexecve",
    "fork",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "vfork",
    "wordexp",
    "clone",
    "clone3",
];

/// The compiled libraries of the wanted packages, from the output of `cargo build --message-format json`.
pub(super) fn libraries(messages: &str, packages: &BTreeSet<String>) -> Vec<(String, PathBuf)> {
    let mut libraries = Vec::new();
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let id = message["package_id"].as_str().unwrap_or_default();
        let Some(package) = packages.iter().find(|name| is_id_of(id, name)) else { continue };
        for file in message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if file.ends_with(".rlib") {
                libraries.push((package.clone(), PathBuf::from(file)));
            }
        }
    }
    libraries
}

/// Whether a package id, `…#name@1.2.3` or `…/name#1.2.3`, belongs to this package.
fn is_id_of(id: &str, name: &str) -> bool {
    let Some((source, fragment)) = id.rsplit_once('#') else { return false };
    match fragment.split_once('@') {
        Some((package, _)) => package == name,
        None => source.rsplit('/').next() == Some(name),
    }
}

/// A symbol of a compiled library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    /// The demangled name.
    name: String,
    /// Whether the library only refers to it, and it is defined elsewhere.
    undefined: bool,
}

/// The symbols in a compiled library, which is an archive of object files.
pub(super) fn symbols(library: &[u8]) -> object::Result<Vec<Symbol>> {
    let mut symbols = Vec::new();
    for member in ArchiveFile::parse(library)?.members() {
        let member = member?;
        // The compiler's metadata of the crate contains no code.
        if member.name() == b"lib.rmeta" {
            continue;
        }
        for symbol in object::File::parse(member.data(library)?)?.symbols() {
            let name = rustc_demangle::demangle(symbol.name()?).to_string();
            symbols.push(Symbol { name, undefined: symbol.is_undefined() });
        }
    }
    Ok(symbols)
}

/// The names of the symbols that start processes.
pub(super) fn violations(symbols: &[Symbol]) -> BTreeSet<&str> {
    let starts_process = |symbol: &&Symbol| {
        let name = &*symbol.name;
        // Generic functions of the standard library are compiled into the crate, so defined symbols count as well.
        let is_std = name.contains("std::") && name.contains("process::") && name.contains("Command");
        is_std || symbol.undefined && C_FUNCTIONS.contains(&name.trim_start_matches('_'))
    };
    symbols.iter().filter(starts_process).map(|symbol| &*symbol.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_that_starts_a_process_is_found() {
        let symbol = |name: &str, undefined| Symbol { name: name.to_owned(), undefined };
        let symbols = [
            symbol("std::process::Command::new::h0123456789abcdef", true),
            symbol("<std::process::Command>::arg::<&str>", false),
            symbol("posix_spawn", true),
            symbol("open", true),
            symbol("fork", false),
            symbol("mine::process::Command::run", false),
        ];
        let expected = [
            "<std::process::Command>::arg::<&str>",
            "posix_spawn",
            "std::process::Command::new::h0123456789abcdef",
        ];
        assert_eq!(violations(&symbols), BTreeSet::from(expected));
    }

    #[test]
    fn libraries_are_found_by_package() {
        let messages = r#"
{"reason":"compiler-artifact","package_id":"registry+https://host/index#serde@1.0.0","filenames":["/t/libserde-1.rlib","/t/libserde-1.rmeta"]}
{"reason":"compiler-artifact","package_id":"path+file:///r/crates/stead-core#0.1.0","filenames":["/t/libstead_core.rlib"]}
{"reason":"compiler-artifact","package_id":"registry+https://host/index#cc@1.0.0","filenames":["/t/libcc-1.rlib"]}
{"reason":"build-finished","success":true}"#;
        let packages = ["serde", "stead-core"].map(str::to_owned).into();
        let expected = [("serde", "/t/libserde-1.rlib"), ("stead-core", "/t/libstead_core.rlib")];
        let expected = expected.map(|(name, file)| (name.to_owned(), PathBuf::from(file)));
        assert_eq!(libraries(messages, &packages), expected);
    }
}
