//! The transport of stdio: one JSON message per line.
//!
//! It bounds what a client can make it hold. A line that is too long is refused while it is read, a line that isn't a
//! message is answered with an error, and from a client that doesn't read its answers nothing more is read.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, ServiceExt, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio_util::sync::CancellationToken;

use super::ActiveHandler;
use super::message::{MessageRefusal, duplicate_id, parse, too_long};
use super::request_id_scanner::RequestIdScanner;
use crate::limits::MAX_MESSAGE_BYTES;

/// How many requests may be unanswered before further ones are parked. An answer counts once it is written.
const MAX_UNANSWERED: usize = 32;
/// How many bytes of answers may be unwritten before no further request is started.
const MAX_UNWRITTEN_BYTES: usize = 4 << 20;
/// How many requests may be parked. Other messages overtake them: the running requests may be waiting for those.
const MAX_PARKED: usize = 64;
/// How many bytes the parked requests may have.
const MAX_PARKED_BYTES: usize = 4 << 20;

/// Serves one client until it closes either of its ends. `client_disconnected` resolves when the client has closed the
/// end that it reads from, if that can be known before something is written.
pub(crate) async fn serve_lines<R, W>(
    handler: ActiveHandler,
    reader: R,
    writer: W,
    client_disconnected: impl Future<Output = ()>,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let lines = LineTransport::new(reader, writer);
    let disconnected = lines.flow.disconnected.clone();
    let served = async {
        // Whatever the reason, the client is gone, so there is nobody to report an error to.
        if let Ok(running) = handler.serve(lines).await {
            let _ = running.waiting().await;
        }
    };
    let mut served = std::pin::pin!(served);
    tokio::select! {
        () = served.as_mut() => return,
        () = client_disconnected => disconnected.cancel(),
    }
    served.await;
}

struct LineTransport<R, W> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// While a line that is too long is skipped: the scanner that looks for its request id.
    oversized: Option<RequestIdScanner>,
    /// Whether a request has come. Other messages before the first request are ignored.
    has_request: bool,
    parked: VecDeque<(RxJsonRpcMessage<RoleServer>, usize)>,
    parked_bytes: usize,
    writer: Arc<AsyncMutex<Option<W>>>,
    flow: Arc<FlowControl>,
}

/// What the reading side has to know of the writing side.
#[derive(Debug, Default)]
struct FlowControl {
    unanswered: Mutex<HashSet<RequestId>>,
    /// The ids of requests whose answers aren't being written yet. No other request may use them.
    in_flight: Mutex<HashSet<RequestId>>,
    /// The requests that this server sent to the client and that aren't answered. The calls behind them wait for a
    /// person, so they don't count as unanswered.
    open_questions: Mutex<HashSet<RequestId>>,
    unwritten_bytes: AtomicUsize,
    capacity_freed: Notify,
    /// Cancelled when the client can't receive anything any more.
    disconnected: CancellationToken,
}

impl FlowControl {
    /// Whether the client has left so much unread that nothing more is read from it.
    fn is_output_full(&self) -> bool {
        self.unwritten_bytes.load(Ordering::Relaxed) >= MAX_UNWRITTEN_BYTES
    }

    /// Whether no further request may start.
    fn is_full(&self) -> bool {
        let open = self.open_questions.lock().len();
        self.is_output_full() || self.unanswered.lock().len().saturating_sub(open) >= MAX_UNANSWERED
    }
}

/// The result of reading a line.
enum LineRead {
    Complete,
    /// The line was too long. Holds its request id, if one was found.
    TooLong(Option<RequestId>),
    End,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> LineTransport<R, W> {
    fn new(reader: R, writer: W) -> Self {
        LineTransport {
            reader: BufReader::with_capacity(64 << 10, reader),
            line: Vec::new(),
            oversized: None,
            has_request: false,
            parked: VecDeque::new(),
            parked_bytes: 0,
            writer: Arc::new(AsyncMutex::new(Some(writer))),
            flow: Arc::default(),
        }
    }

    /// Reads one line into `self.line`. Cancel safe: the next call continues where a dropped one stopped.
    async fn read_line(&mut self) -> io::Result<LineRead> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                // The last line may lack its newline.
                return Ok(match self.oversized.take() {
                    Some(scanner) => LineRead::TooLong(scanner.finish()),
                    None if self.line.is_empty() => LineRead::End,
                    None => LineRead::Complete,
                });
            }
            let newline = memchr::memchr(b'\n', available);
            let (end, used) = newline.map_or((available.len(), available.len()), |index| (index, index + 1));
            if self.oversized.is_none() && self.line.len() + end > MAX_MESSAGE_BYTES {
                let mut scanner = RequestIdScanner::default();
                scanner.feed(&std::mem::take(&mut self.line));
                self.oversized = Some(scanner);
            }
            match &mut self.oversized {
                Some(scanner) => scanner.feed(&available[..end]),
                None => self.line.extend_from_slice(&available[..end]),
            }
            self.reader.consume(used);
            if newline.is_some() {
                let oversized = self.oversized.take();
                return Ok(
                    oversized.map_or(LineRead::Complete, |scanner| LineRead::TooLong(scanner.finish()))
                );
            }
        }
    }

    /// The message in `self.line`; `None` if the line is empty.
    fn parse_line(&mut self) -> Result<Option<RxJsonRpcMessage<RoleServer>>, MessageRefusal> {
        let line = std::mem::take(&mut self.line);
        let text = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line).trim_ascii();
        let parsed = if text.is_empty() { Ok(None) } else { parse(text) };
        if line.capacity() <= 1 << 20 {
            // Reuses the buffer for the next line, unless it is large.
            self.line = line;
            self.line.clear();
        }
        parsed
    }

    /// Answers a line with an error.
    fn send_refusal(&self, MessageRefusal { error, id }: MessageRefusal) {
        let message: TxJsonRpcMessage<RoleServer> = JsonRpcMessage::error(error, id);
        if let Ok(line) = to_line(&message) {
            // In a task of its own: if this future is dropped, half a line must not be left in the output.
            tokio::spawn(write_line(&self.writer, &self.flow, line, None));
        }
    }

    /// Forgets a cancelled request: it gets no answer, and doesn't run if it is parked.
    fn drop_cancelled(&mut self, id: &RequestId) {
        self.flow.unanswered.lock().remove(id);
        self.flow.in_flight.lock().remove(id);
        self.parked.retain(|(message, _)| match message {
            JsonRpcMessage::Request(request) => request.id != *id,
            _ => true,
        });
        self.parked_bytes = self.parked.iter().map(|(_, bytes)| bytes).sum();
    }

    /// Records that a message is handed to the service.
    fn note_delivered(&mut self, message: &RxJsonRpcMessage<RoleServer>) {
        match message {
            JsonRpcMessage::Request(request) => {
                self.has_request = true;
                self.flow.in_flight.lock().insert(request.id.clone());
                // A subscription isn't answered until it ends, so it doesn't count.
                if !matches!(request.request, ClientRequest::SubscriptionsListenRequest(_)) {
                    self.flow.unanswered.lock().insert(request.id.clone());
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.drop_cancelled(id);
                }
            }
            JsonRpcMessage::Response(response) => {
                self.flow.open_questions.lock().remove(&response.id);
            }
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.flow.open_questions.lock().remove(id);
                }
            }
        }
    }

    /// Whether a request with this id has come and isn't answered yet.
    fn is_in_flight(&self, id: &RequestId) -> bool {
        let is_parked = |message: &RxJsonRpcMessage<RoleServer>| match message {
            JsonRpcMessage::Request(request) => request.id == *id,
            _ => false,
        };
        self.flow.in_flight.lock().contains(id) || self.parked.iter().any(|(message, _)| is_parked(message))
    }

    /// An error answer to one of the open questions, once the client is gone.
    fn error_for_open_question(&self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let id = self.flow.open_questions.lock().iter().next().cloned()?;
        Some(JsonRpcMessage::error(ErrorData::internal_error("the client is gone", None), Some(id)))
    }

    /// The next message for the service; `None` when no more will come.
    async fn next_message(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if !self.flow.is_full()
                && let Some((message, bytes)) = self.parked.pop_front()
            {
                self.parked_bytes -= bytes;
                self.note_delivered(&message);
                return Some(message);
            }
            let flow = Arc::clone(&self.flow);
            if flow.is_output_full()
                || self.parked.len() >= MAX_PARKED
                || self.parked_bytes >= MAX_PARKED_BYTES
            {
                flow.capacity_freed.notified().await;
                continue;
            }
            let line = tokio::select! {
                line = self.read_line() => line,
                () = flow.capacity_freed.notified(), if !self.parked.is_empty() => continue,
            };
            let bytes = self.line.len();
            let message = match line {
                Ok(LineRead::Complete) => self.parse_line(),
                Ok(LineRead::TooLong(id)) => Err(too_long(id)),
                Ok(LineRead::End) if self.parked.is_empty() => {
                    // Calls that wait for a person would wait in vain.
                    let answer = self.error_for_open_question()?;
                    self.note_delivered(&answer);
                    return Some(answer);
                }
                Ok(LineRead::End) => {
                    // Requests that came before the end are still run.
                    flow.capacity_freed.notified().await;
                    continue;
                }
                Err(_) => return None,
            };
            match message {
                Ok(Some(message)) => {
                    let is_request = matches!(message, JsonRpcMessage::Request(_));
                    if !is_request && !self.has_request {
                        continue;
                    }
                    if let JsonRpcMessage::Request(request) = &message
                        && self.is_in_flight(&request.id)
                    {
                        self.send_refusal(duplicate_id(request.id.clone()));
                        continue;
                    }
                    if is_request && (flow.is_full() || !self.parked.is_empty()) {
                        self.parked.push_back((message, bytes));
                        self.parked_bytes += bytes;
                        continue;
                    }
                    self.note_delivered(&message);
                    return Some(message);
                }
                Ok(None) => {}
                Err(refusal) => self.send_refusal(refusal),
            }
        }
    }
}

fn to_line(message: &TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes a line. Its bytes count as unwritten from the call on, not from the first poll.
fn write_line<W: AsyncWrite + Send + Unpin + 'static>(
    writer: &Arc<AsyncMutex<Option<W>>>,
    flow: &Arc<FlowControl>,
    line: Vec<u8>,
    answered_id: Option<RequestId>,
) -> impl Future<Output = io::Result<()>> + Send + 'static {
    let (writer, flow) = (Arc::clone(writer), Arc::clone(flow));
    flow.unwritten_bytes.fetch_add(line.len(), Ordering::Relaxed);
    async move {
        let result = match &mut *writer.lock().await {
            Some(writer) => match writer.write_all(&line).await {
                Ok(()) => writer.flush().await,
                error => error,
            },
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        if result.is_err() {
            flow.disconnected.cancel();
        }
        flow.unwritten_bytes.fetch_sub(line.len(), Ordering::Relaxed);
        if let Some(id) = &answered_id {
            flow.unanswered.lock().remove(id);
        }
        flow.capacity_freed.notify_one();
        result
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (writer, flow) = (Arc::clone(&self.writer), Arc::clone(&self.flow));
        match &item {
            JsonRpcMessage::Request(question) => {
                flow.open_questions.lock().insert(question.id.clone());
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(withdrawn) = &notification.notification
                    && let Some(id) = &withdrawn.params.request_id
                {
                    flow.open_questions.lock().remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        async move {
            let line = to_line(&item)?;
            let answered_id = match item {
                JsonRpcMessage::Response(response) => Some(response.id),
                JsonRpcMessage::Error(error) => error.id,
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
            };
            // Before the write: a client that has read the answer may use its id again at once.
            if let Some(id) = &answered_id {
                flow.in_flight.lock().remove(id);
            }
            write_line(&writer, &flow, line, answered_id).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        // From a client that reads no answers, nothing more is accepted, whatever else it has written.
        let disconnected = self.flow.disconnected.clone();
        disconnected.run_until_cancelled(self.next_message()).await.flatten()
    }

    async fn close(&mut self) -> io::Result<()> {
        match self.writer.lock().await.take() {
            Some(mut writer) => writer.shutdown().await,
            None => Ok(()),
        }
    }
}
