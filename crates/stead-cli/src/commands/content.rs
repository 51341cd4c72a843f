//! Content that is given on the command line, or by standard input.

use std::io::{self, Read};

use crate::failure::Failure;

/// What is to be written.
#[derive(Debug, clap::Args)]
pub(crate) struct Content {
    /// The content; `-`, or nothing, reads standard input
    #[arg(value_name = "CONTENT")]
    content: Option<String>,
}

impl Content {
    /// The content if it was given as an argument; otherwise it comes from standard input.
    pub(super) fn given(self) -> Option<String> {
        self.content.filter(|content| content != "-")
    }

    /// All of it.
    pub(super) fn whole(self) -> Result<Vec<u8>, Failure> {
        match self.given() {
            Some(content) => Ok(content.into_bytes()),
            None => {
                let mut content = Vec::new();
                let read = io::stdin().lock().read_to_end(&mut content);
                read.map_err(|error| Failure::host("standard input can't be read", error))?;
                Ok(content)
            }
        }
    }
}
