//! The benchmarks, each with its name on the command line.

mod audit;
mod displaced_content;
mod door;
mod files;
mod fork;
mod forks;
mod grep;
mod growth;
mod history;
mod large;
mod managed;
mod mcp;
mod mount;
mod org;
mod rename;
mod state;
mod threads;
mod writers;

use std::path::Path;

use crate::Result;
use crate::table::Table;

/// How long the benchmarks may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Enough rounds to trust the median.
    Full,
    /// A few rounds, and no million files: to see that it works, and roughly how fast.
    Quick,
}

impl Effort {
    /// How many rounds count.
    pub fn rounds(self) -> usize {
        match self {
            Effort::Full => 9,
            Effort::Quick => 3,
        }
    }
}

/// One benchmark.
pub struct Case {
    /// What it is called on the command line, and its section in docs/benchmarks.md.
    pub name: &'static str,
    /// Measures in a directory that starts empty and that no other benchmark uses.
    pub run: fn(&Path, Effort) -> Result<Vec<Table>>,
}

/// All benchmarks, in the order of docs/benchmarks.md.
pub const CASES: &[Case] = &[
    Case { name: "files", run: files::run },
    Case { name: "large", run: large::run },
    Case { name: "rename", run: rename::run },
    Case { name: "grep", run: grep::run },
    Case { name: "writers", run: writers::run },
    Case { name: "growth", run: growth::run },
    Case { name: "history", run: history::run },
    Case { name: "keeping", run: displaced_content::run },
    Case { name: "fork", run: fork::run },
    Case { name: "forks", run: forks::run },
    Case { name: "fork-sizes", run: forks::run_sizes },
    Case { name: "fork-space", run: forks::run_space },
    Case { name: "fork-depth", run: forks::run_depth },
    Case { name: "door", run: door::run },
    Case { name: "audit", run: audit::run },
    Case { name: "mcp", run: mcp::run },
    Case { name: "mount", run: mount::run },
    Case { name: "org", run: org::run },
    Case { name: "state", run: state::run },
    Case { name: "threads", run: threads::run },
    Case { name: "managed", run: managed::run },
];
