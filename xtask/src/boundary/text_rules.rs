//! Rules for every text file of the repository, whatever its kind.

/// Hosts of package registries, split into labels so that this file doesn't name them either.
///
/// Each machine decides where its packages come from: a host that is named in the repository breaks every build behind
/// a mirror.
const REGISTRIES: [&[&str]; 7] = [
    &["index", "crates", "io"],
    &["static", "crates", "io"],
    &["registry", "npmjs", "org"],
    &["registry", "yarnpkg", "com"],
    &["pypi", "org"],
    &["files", "pythonhosted", "org"],
    &["deb", "debian", "org"],
];

/// The beginning of a line in npm's lock file that names the host of a package.
const NPM_RESOLVED_PREFIX: &str = "\"resolved\": \"http";

/// The lines that break a rule, and what is wrong with them.
pub(super) fn violations(text: &str) -> Vec<(usize, String)> {
    let hosts = REGISTRIES.map(|labels| labels.join("."));
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let host = hosts.iter().find(|host| line.contains(&***host));
        if let Some(host) = host {
            found.push((index + 1, format!("names the package registry {host}")));
        } else if line.trim_start().starts_with(NPM_RESOLVED_PREFIX) {
            found.push((index + 1, "names the host that a package came from".to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_registry_is_found() {
        let host = REGISTRIES[2].join(".");
        let text = format!("one\nregistry=https://{host}/\nthree\n");
        assert_eq!(violations(&text), [(2, format!("names the package registry {host}"))]);
    }

    #[test]
    fn a_lock_file_that_names_the_host_of_a_package_is_found() {
        assert_eq!(violations(&format!("  {NPM_RESOLVED_PREFIX}://mirror/package.tgz\"")).len(), 1);
    }

    #[test]
    fn ordinary_lines_are_allowed() {
        assert_eq!(violations("source = \"registry+https://host/an-index\"\n"), []);
    }
}
