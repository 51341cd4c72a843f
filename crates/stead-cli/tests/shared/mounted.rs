//! A stead that the real binary has mounted. Tests include this file by its path.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A mounted stead. Dropping it unmounts it.
pub(crate) struct Mounted(Child);

impl Mounted {
    /// Starts `stead mount`, and waits until it reports that the stead is mounted.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Mounted at "), "{line:?}");
        Mounted(child)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}
