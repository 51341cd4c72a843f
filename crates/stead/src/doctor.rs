//! Checks what this host offers, and what is missing for which part of Stead.
//!
//! ```
//! for finding in stead::doctor::check_host() {
//!     println!("{}: {} (for {})", finding.name, finding.state.as_str(), finding.needed_for);
//! }
//! ```

use std::fs;
use std::path::Path;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostFinding {
    /// What was checked.
    pub name: &'static str,
    /// What it is needed for.
    pub needed_for: &'static str,
    /// The result.
    pub state: Readiness,
    /// A sentence on what was found, or what to do about it.
    pub detail: String,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It is available.
    Ready,
    /// It works, but not as well as it could.
    Limited,
    /// It is missing.
    Missing,
}

impl Readiness {
    /// The result in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Readiness::Ready => "ready",
            Readiness::Limited => "limited",
            Readiness::Missing => "missing",
        }
    }
}

/// Runs all checks.
pub fn check_host() -> Vec<HostFinding> {
    vec![kernel(), openat2(), fuse(), fusermount()]
}

const PHYSICAL_STORES: &str = "Physical Stores";
const MOUNTING: &str = "mounting a stead";

fn finding(
    name: &'static str,
    needed_for: &'static str,
    state: Readiness,
    detail: impl Into<String>,
) -> HostFinding {
    HostFinding { name, needed_for, state, detail: detail.into() }
}

fn read_trimmed(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn kernel() -> HostFinding {
    match (std::env::consts::OS, read_trimmed("/proc/sys/kernel/osrelease")) {
        ("linux", Some(release)) => {
            finding("kernel", "everything", Readiness::Ready, format!("Linux {release}"))
        }
        (system, _) => finding(
            "kernel",
            "everything",
            Readiness::Limited,
            format!("{system}: Virtual Stores and the server work; Physical Stores and mounting need Linux"),
        ),
    }
}

fn openat2() -> HostFinding {
    match has_openat2() {
        true => finding(
            "openat2",
            PHYSICAL_STORES,
            Readiness::Ready,
            "the kernel confines every open to the Store's directory",
        ),
        false => finding(
            "openat2",
            PHYSICAL_STORES,
            Readiness::Limited,
            "not available (Linux 5.6 has it, some sandboxes block it): each part of a path is opened separately, \
             which is as safe but slower",
        ),
    }
}

/// Whether the kernel can confine an open to a directory.
fn has_openat2() -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
    rustix::fs::openat2(CWD, ".", OFlags::PATH, Mode::empty(), ResolveFlags::BENEATH).is_ok()
}

fn fuse() -> HostFinding {
    let device = Path::new("/dev/fuse");
    match fs::OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => finding("FUSE", MOUNTING, Readiness::Ready, "/dev/fuse can be opened"),
        Err(_) if device.exists() => finding(
            "FUSE",
            MOUNTING,
            Readiness::Missing,
            "/dev/fuse exists, but this user may not open it; set its mode to 0666, or run as another user",
        ),
        Err(_) => finding(
            "FUSE",
            MOUNTING,
            Readiness::Missing,
            "/dev/fuse doesn't exist; load the kernel module `fuse`",
        ),
    }
}

fn fusermount() -> HostFinding {
    match is_on_path("fusermount3") {
        true => finding("fusermount3", "mounting without being root", Readiness::Ready, "found"),
        false => finding(
            "fusermount3",
            "mounting without being root",
            Readiness::Missing,
            "not found; install the package `fuse3`",
        ),
    }
}

/// Whether a program of this name is in `PATH`.
fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_says_what_it_is_needed_for_and_has_a_detail() {
        let findings = check_host();
        assert!(findings.iter().any(|finding| finding.name == "FUSE" && finding.needed_for == MOUNTING));
        assert!(findings.iter().all(|finding| !finding.detail.is_empty()));
    }
}
