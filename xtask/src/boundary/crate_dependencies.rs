//! Which of our crates may depend on which: dependencies point inward.

use serde_json::Value;

/// Each crate, and the crates of ours that it may depend on. Holds for tests too.
pub(super) const ALLOWED: &[(&str, &[&str])] = &[
    ("stead-core", &[]),
    ("stead-stores", &["stead-core"]),
    ("stead", &["stead-core", "stead-stores"]),
    ("stead-server", &["stead", "stead-core"]),
    ("stead-fuse", &["stead-core", "stead-stores"]),
    ("stead-cli", &["stead", "stead-fuse", "stead-server"]),
    ("xtask", &[]),
];

/// The dependencies that the table doesn't allow, and the crates that it doesn't list.
pub(super) fn violations(metadata: &Value, allowed: &[(&str, &[&str])]) -> Vec<String> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let name_of = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let own_crates = packages().map(name_of).collect::<Vec<_>>();
    let mut problems = Vec::new();
    for package in packages() {
        let name = name_of(package);
        let Some((_, permitted)) = allowed.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("{name} isn't in the table of allowed dependencies"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let dependency = name_of(dependency);
            // For its tests, a crate may depend on itself with a feature.
            if dependency != name && own_crates.contains(&dependency) && !permitted.contains(&&*dependency) {
                problems.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(dependencies_by_crate: &[(&str, &[&str])]) -> Value {
        let packages = dependencies_by_crate.iter().map(|(name, dependencies)| {
            let dependencies = dependencies.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
            json!({ "name": name, "dependencies": dependencies })
        });
        json!({ "packages": packages.collect::<Vec<_>>() })
    }

    #[test]
    fn dependencies_that_point_inward_are_allowed() {
        let workspace = workspace(&[
            ("stead-core", &["serde", "stead-core"]),
            ("stead-stores", &["stead-core"]),
            ("stead", &["stead-core"]),
        ]);
        assert_eq!(violations(&workspace, ALLOWED), [""; 0]);
    }

    #[test]
    fn a_dependency_that_points_outward_is_found() {
        let workspace = workspace(&[("stead-core", &["stead-stores"]), ("stead-stores", &[])]);
        assert_eq!(violations(&workspace, ALLOWED), ["stead-core must not depend on stead-stores"]);
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_is_found() {
        let problems = violations(&workspace(&[("stead-new", &[])]), ALLOWED);
        assert_eq!(problems, ["stead-new isn't in the table of allowed dependencies"]);
    }
}
