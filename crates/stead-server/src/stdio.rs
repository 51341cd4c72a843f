//! MCP over stdio: one client, whose identity was decided when the server was started.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::unix::pipe;

use crate::live_stead::LiveStead;
use crate::mcp::{self, ActiveHandler};

type StdioReader = Box<dyn AsyncRead + Send + Unpin>;
type StdioWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// Serves the client at standard input and output, until it closes either of them.
///
/// Must run inside a multi-threaded runtime: calls run on its workers.
pub async fn serve_stdio(live_stead: Arc<LiveStead>) -> io::Result<()> {
    let (reader, writer) = (open_reader(io::stdin().as_fd())?, open_writer(io::stdout().as_fd())?);
    let client_disconnected = wait_for_closed_reader(io::stdout().as_fd())?;
    mcp::serve_lines(ActiveHandler::new(live_stead), reader, writer, client_disconnected).await;
    Ok(())
}

/// Serves one client over a stream of lines in each direction, until the client closes its end.
pub async fn serve_stream<R, W>(live_stead: Arc<LiveStead>, reader: R, writer: W)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    mcp::serve_lines(ActiveHandler::new(live_stead), reader, writer, std::future::pending()).await;
}

// Clients start a server with a pipe or, if they run on Node, with a socket. Tokio can wait for both without an extra
// thread, which is what makes a small call fast. A pipe is opened again through /proc, so that making it non-blocking
// doesn't affect other processes that share it.

fn open_reader(descriptor: BorrowedFd<'_>) -> io::Result<StdioReader> {
    let file = File::from(descriptor.try_clone_to_owned()?);
    let file_type = file.metadata()?.file_type();
    if file_type.is_socket() {
        return Ok(Box::new(socket(file)?));
    }
    if file_type.is_fifo()
        && let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0")
    {
        return Ok(Box::new(pipe));
    }
    Ok(Box::new(tokio::fs::File::from_std(file)))
}

fn open_writer(descriptor: BorrowedFd<'_>) -> io::Result<StdioWriter> {
    let file = File::from(descriptor.try_clone_to_owned()?);
    let file_type = file.metadata()?.file_type();
    if file_type.is_socket() {
        return Ok(Box::new(socket(file)?));
    }
    if file_type.is_fifo()
        && let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1")
    {
        return Ok(Box::new(pipe));
    }
    Ok(Box::new(tokio::fs::File::from_std(file)))
}

/// Resolves when the client has closed the end that it reads from. Never resolves for a file or a terminal.
fn wait_for_closed_reader(
    descriptor: BorrowedFd<'_>,
) -> io::Result<Pin<Box<dyn Future<Output = ()> + Send>>> {
    let file = File::from(descriptor.try_clone_to_owned()?);
    let file_type = file.metadata()?.file_type();
    if file_type.is_socket() {
        let socket = socket(file)?;
        return Ok(Box::pin(async move {
            while let Ok(ready) = socket.ready(Interest::WRITABLE).await {
                if ready.is_write_closed() {
                    return;
                }
                // Clears readiness, so that the next `ready` waits for a new event.
                let _ = socket.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
            }
        }));
    }
    if file_type.is_fifo()
        && let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1")
    {
        // The only error that a pipe can have is that its reader is gone.
        return Ok(Box::pin(async move { drop(pipe.ready(Interest::ERROR).await) }));
    }
    Ok(Box::pin(std::future::pending()))
}

fn socket(file: File) -> io::Result<tokio::net::UnixStream> {
    let stream = UnixStream::from(std::os::fd::OwnedFd::from(file));
    stream.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(stream)
}
