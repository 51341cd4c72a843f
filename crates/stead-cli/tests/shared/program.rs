//! A copy of the real binary. Tests include this file by its path.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Copies the real binary to where other users can run it. The build directory may be closed to them.
pub(crate) fn copy_program(to: &Path) {
    // This process never has the copy open for writing: a child that another thread starts would have it open as well until it
    // runs its own program, and a program that some process has open for writing can't be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_stead")).arg(to).status().unwrap();
    assert!(copied.success());
    set_permissions(to, Permissions::from_mode(0o755)).unwrap();
}
