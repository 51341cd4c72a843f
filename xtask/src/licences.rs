//! Checks that every dependency may be used under a permissive licence.
//!
//! A licence is an SPDX expression: names joined by `OR` and `AND`, with parentheses. Old crates write `/` for `OR`.

use serde_json::Value;

use crate::Result;
use crate::programs::{capture, cargo};

/// The licences that allow use without conditions on our own code.
const PERMISSIVE: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Checks all dependencies, of all features and platforms.
pub(crate) fn check() -> Result {
    let text = capture(cargo().args(["metadata", "--format-version", "1", "--all-features"]))?;
    let problems = violations(&serde_json::from_str(&text)?);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// One sentence for each package without a permissive licence.
fn violations(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let problem = |package: &Value| {
        let name = package["name"].as_str().unwrap_or_default();
        match package["license"].as_str() {
            Some(licence) if is_permissive(licence) => None,
            Some(licence) => Some(format!("{name} has the licence `{licence}`, which isn't permissive")),
            None => Some(format!("{name} names no licence")),
        }
    };
    packages.filter_map(problem).collect()
}

/// Whether an SPDX expression allows a choice of permissive licences only.
fn is_permissive(expression: &str) -> bool {
    let separated = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = separated.split_whitespace().peekable();
    let allowed = alternatives(&mut words);
    allowed && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// `A OR B OR …`: one permissive licence is enough.
fn alternatives(words: &mut Words<'_>) -> bool {
    let mut allowed = conjunction(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= conjunction(words);
    }
    allowed
}

/// `A AND B AND …`: all of them have to be permissive. `AND` binds closer than `OR`.
fn conjunction(words: &mut Words<'_>) -> bool {
    let mut allowed = licence(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= licence(words);
    }
    allowed
}

/// One licence, or an expression in parentheses.
fn licence(words: &mut Words<'_>) -> bool {
    let Some(first) = words.next() else { return false };
    if first == "(" {
        let allowed = alternatives(words);
        return words.next_if_eq(&")").is_some() && allowed;
    }
    let name = match words.next_if_eq(&"WITH") {
        Some(keyword) => format!("{first} {keyword} {}", words.next().unwrap_or_default()),
        None => first.to_owned(),
    };
    PERMISSIVE.contains(&&*name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expression_is_permissive_if_a_choice_of_permissive_licences_fulfils_it() {
        for expression in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR GPL-3.0-only",
            "(Apache-2.0 OR MIT) AND BSD-3-Clause",
            "Apache-2.0 WITH LLVM-exception OR LGPL-2.1-or-later",
            "GPL-2.0-only AND MIT OR ISC",
        ] {
            assert!(is_permissive(expression), "{expression}");
        }
        for expression in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "(MIT",
            "MIT MIT",
        ] {
            assert!(!is_permissive(expression), "{expression}");
        }
    }

    #[test]
    fn a_package_without_a_permissive_licence_is_named() {
        let metadata = json!({ "packages": [
            { "name": "good", "license": "MIT" },
            { "name": "bad", "license": "GPL-3.0-only" },
            { "name": "silent", "license": null },
        ]});
        let found = violations(&metadata);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("bad") && found[1].contains("silent"), "{found:?}");
    }
}
