//! The entries for whoever has no runtime of their own.

use std::io;
use std::sync::Arc;

use stead::Identity;
use tokio::runtime::{Builder, Runtime};

use crate::stdio;
use crate::steads::Steads;

/// Serves one identity over standard input and output, until the client closes its end.
pub fn run_stdio(steads: &Arc<Steads>, identity: &Identity) -> stead::Result<()> {
    let served = steads.get(identity)?;
    let runtime = runtime().map_err(no_runtime)?;
    let steads = Arc::clone(steads);
    runtime.block_on(async move {
        tokio::spawn(crate::watching::keep_current(steads));
        stdio::stdio(served).await.map_err(|cause| stead::Error::Host {
            what: "standard input and output can't be used".into(),
            cause,
        })
    })?;
    // What still runs has nobody to answer to.
    runtime.shutdown_background();
    Ok(())
}

pub(crate) fn runtime() -> io::Result<Runtime> {
    // More workers than cores: a call holds one while it waits for a disk.
    let workers = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    Builder::new_multi_thread().worker_threads(workers).enable_all().thread_name("stead").build()
}

pub(crate) fn no_runtime(cause: io::Error) -> stead::Error {
    stead::Error::Host { what: "the server can't be started".into(), cause }
}
