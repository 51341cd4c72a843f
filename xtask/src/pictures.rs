//! `cargo xtask pictures`: records the terminal session at the top of the README, by running the real binary.
//!
//! `--check` records it again and fails if the picture shows something else than the binary prints today.

mod recording;
mod svg;

use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::programs::{self, capture, cargo, root};

/// What happens to the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Picture {
    /// The picture is written.
    Written,
    /// The picture has to show what the binary prints today.
    Checked,
}

/// Runs the command.
pub(crate) fn run(picture: Picture) -> Result {
    capture(cargo().args(["build", "--package", "stead-cli"]))?;
    let recorded = svg::draw(&recording::record(&programs::target().join("debug/stead"))?);
    let path = path();
    match picture {
        Picture::Written => {
            fs::create_dir_all(path.parent().expect("the picture is in a directory"))?;
            fs::write(&path, recorded)?;
            println!("wrote {}", path.display());
            Ok(())
        }
        Picture::Checked if fs::read_to_string(&path).is_ok_and(|shown| shown == recorded) => Ok(()),
        Picture::Checked => Err(format!(
            "{} doesn't show what the binary prints today; run `cargo xtask pictures`, look at the picture, and commit it",
            path.display()
        )
        .into()),
    }
}

fn path() -> PathBuf {
    root().join("docs/pictures/session.svg")
}
