//! Rules for the crates in a dependency tree, and for their features.

/// The format in which `cargo tree` has to print a dependency for [`parse`].
pub(super) const FORMAT: &str = "{p}|{f}";

/// A crate in the tree, with its features there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dependency {
    pub name: String,
    features: Vec<String>,
}

/// A crate that is forbidden, or forbidden with these features.
#[derive(Debug, Clone, Copy)]
pub(super) struct DependencyRule {
    name: &'static str,
    features: Option<&'static [&'static str]>,
}

const fn forbidden(name: &'static str) -> DependencyRule {
    DependencyRule { name, features: None }
}

const fn forbidden_features(name: &'static str, features: &'static [&'static str]) -> DependencyRule {
    DependencyRule { name, features: Some(features) }
}

/// Rules for dependencies of crates that hold files. An SQLite extension is foreign code too.
pub(super) const CANNOT_EXECUTE: [DependencyRule; 10] = [
    forbidden("async-process"),
    forbidden("command-group"),
    forbidden("duct"),
    forbidden("nix"),
    forbidden("shared_child"),
    forbidden("subprocess"),
    forbidden("xshell"),
    forbidden_features("rustix", &["process", "runtime"]),
    forbidden_features("rusqlite", &["load_extension", "loadable_extension"]),
    forbidden_features("tokio", &["process", "full"]),
];

/// Rules for dependencies of the domain.
pub(super) const KNOWS_NO_MACHINE: [DependencyRule; 6] = [
    forbidden("libsqlite3-sys"),
    forbidden("mio"),
    forbidden("rusqlite"),
    forbidden("rustix"),
    forbidden("socket2"),
    forbidden("tokio"),
];

/// Parses the output of `cargo tree`.
pub(super) fn parse(tree: &str) -> Vec<Dependency> {
    let mut dependencies = Vec::new();
    for line in tree.lines() {
        let (package, features) = line.split_once('|').unwrap_or((line, ""));
        let Some(name) = package.split_whitespace().next() else { continue };
        let features = features.split(',').map(|feature| feature.trim().to_owned()).collect();
        dependencies.push(Dependency { name: name.to_owned(), features });
    }
    dependencies.sort();
    dependencies.dedup();
    dependencies
}

/// The dependencies that break a rule, one sentence each.
pub(super) fn violations(dependencies: &[Dependency], rules: &[DependencyRule]) -> Vec<String> {
    let mut problems = Vec::new();
    for dependency in dependencies {
        let Some(rule) = rules.iter().find(|rule| rule.name == dependency.name) else { continue };
        let name = &dependency.name;
        match rule.features {
            None => problems.push(format!("{name} must not be among its dependencies")),
            Some(features) => {
                let forbidden =
                    features.iter().filter(|feature| dependency.features.iter().any(|f| f == **feature));
                problems
                    .extend(forbidden.map(|feature| format!("{name} must not have the feature `{feature}`")));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
stead-core v0.1.0 (/repository/crates/stead-core)|
rustix v1.1.6|default,fs,process,std
duct v1.0.0|
serde v1.0.228|default,std";

    #[test]
    fn a_feature_that_starts_processes_is_found() {
        let problems = violations(&parse(TREE), &CANNOT_EXECUTE);
        assert_eq!(
            problems,
            ["duct must not be among its dependencies", "rustix must not have the feature `process`"]
        );
    }

    #[test]
    fn a_dependency_of_the_domain_that_reaches_the_machine_is_found() {
        assert_eq!(
            violations(&parse(TREE), &KNOWS_NO_MACHINE),
            ["rustix must not be among its dependencies"]
        );
    }

    #[test]
    fn features_for_files_are_allowed() {
        assert_eq!(violations(&parse("rustix v1.1.6|default,fs,std"), &CANNOT_EXECUTE), [""; 0]);
    }
}
