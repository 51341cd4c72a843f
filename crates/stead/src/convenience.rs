//! Calls on a stead that do what its parts do, for programs that need no more than these.

use stead_core::vfs::{BytesRead, IntoPath, WriteResult};

use crate::error::Result;
use crate::stead::Stead;

impl Stead {
    /// Reads a file. It is [`Vfs::read`](stead_core::Vfs::read), with the same checks and the same audit record.
    pub fn read_file(&self, path: impl IntoPath) -> Result<BytesRead> {
        Ok(self.vfs.read(path)?)
    }

    /// Writes a file, and creates it if it is missing. It is [`Vfs::write`](stead_core::Vfs::write), with the same checks and
    /// the same audit record.
    pub fn write_file(&self, path: impl IntoPath, content: impl Into<Vec<u8>>) -> Result<WriteResult> {
        Ok(self.vfs.write(path, content)?)
    }
}
