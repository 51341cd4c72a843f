//! Builds the binaries of a release: static ones if this machine has what they need, otherwise one that needs glibc.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::programs::{self, capture, cargo, program, run_shown, succeeds};

/// The architectures of the static binaries.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];

/// Builds a static binary for each architecture that this machine can build for. If there is none, builds for the
/// machine itself, and says what is missing.
pub(super) fn build_binaries() -> Result<Vec<PathBuf>> {
    let mut binaries = Vec::new();
    for architecture in ARCHITECTURES {
        let target = StaticTarget::new(architecture, std::env::consts::ARCH);
        match target.missing()? {
            None => binaries.push(target.build()?),
            Some(missing) => eprintln!("no static binary for {architecture}: {missing}"),
        }
    }
    if binaries.is_empty() {
        eprintln!(
            "building for this machine; the binary needs glibc in this machine's version or a newer one"
        );
        run_shown(cargo().args(["build", "--release", "--package", "stead-cli"]))?;
        binaries.push(programs::target().join("release/stead"));
    }
    Ok(binaries)
}

/// A target of rustc whose binaries run on every Linux of their architecture.
#[derive(Debug)]
struct StaticTarget {
    /// The name that rustc has for it.
    triple: String,
    /// The C compiler. SQLite is written in C.
    c_compiler: String,
    /// Whether another architecture is built for than that of this machine.
    is_cross: bool,
}

impl StaticTarget {
    fn new(architecture: &str, host: &str) -> Self {
        let is_cross = architecture != host;
        let c_compiler =
            if is_cross { format!("{architecture}-linux-musl-gcc") } else { "musl-gcc".to_owned() };
        StaticTarget { triple: format!("{architecture}-unknown-linux-musl"), c_compiler, is_cross }
    }

    /// What this machine lacks to build for the target.
    fn missing(&self) -> Result<Option<String>> {
        let triple = &self.triple;
        let libraries = capture(program("rustc").args(["--print", "target-libdir", "--target", triple]))?;
        if !Path::new(libraries.trim()).is_dir() {
            return Ok(Some(format!(
                "Rust's standard library is missing; `rustup target add {triple}` installs it"
            )));
        }
        let c_compiler = &self.c_compiler;
        Ok((!succeeds(&[c_compiler, "--version"])).then(|| {
            format!("the C compiler {c_compiler} is missing (musl-gcc is in the package musl-tools)")
        }))
    }

    fn build(&self) -> Result<PathBuf> {
        let variable = self.triple.replace('-', "_");
        let mut build = cargo();
        build.args(["build", "--release", "--package", "stead-cli", "--target", &self.triple]);
        build.env(format!("CC_{variable}"), &self.c_compiler);
        // Not for this machine's architecture: rustc brings musl's start files, and musl-gcc would add its own. Such a
        // binary crashes at its start.
        if self.is_cross {
            build.env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), &self.c_compiler);
        }
        run_shown(&mut build)?;
        Ok(programs::target().join(&self.triple).join("release/stead"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_architecture_needs_a_cross_compiler() {
        assert_eq!(StaticTarget::new("x86_64", "x86_64").c_compiler, "musl-gcc");
        assert_eq!(StaticTarget::new("aarch64", "x86_64").c_compiler, "aarch64-linux-musl-gcc");
        assert_eq!(StaticTarget::new("aarch64", "aarch64").triple, "aarch64-unknown-linux-musl");
    }
}
