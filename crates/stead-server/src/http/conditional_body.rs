//! Ends a long response once its caller has lost access. A request that has no answer yet gets an error as its answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Interval;

/// How often the condition is checked while the body has nothing to send.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How much of an event is looked at to see what it is, in bytes.
const MAX_START: usize = 1 << 10;

/// A body that ends once `condition` returns `false`. No frame is sent after that, but the answer that the request still needs.
pub(super) struct ConditionalBody<F> {
    body: BoxBody<Bytes, Infallible>,
    condition: F,
    interval: Interval,
    /// What answers the request if the body ends early; `None` if it needs no answer, or has one.
    refusal: Option<Bytes>,
    has_ended: bool,
}

impl<F: Fn() -> bool> ConditionalBody<F> {
    /// `refusal` is the event that answers the request if the body ends early.
    pub(super) fn new(body: BoxBody<Bytes, Infallible>, refusal: Option<Bytes>, condition: F) -> Self {
        let mut interval = tokio::time::interval(CHECK_INTERVAL);
        interval.reset();
        ConditionalBody { body, condition, interval, refusal, has_ended: false }
    }
}

impl<F: Fn() -> bool + Unpin> Body for ConditionalBody<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let mut must_check = matches!(frame, Poll::Ready(Some(_)));
        // Polled until it is pending, so that the next tick wakes this task.
        while frame.is_pending() && self.interval.poll_tick(context).is_ready() {
            must_check = true;
        }
        if must_check && !(self.condition)() {
            self.has_ended = true;
            return Poll::Ready(self.refusal.take().map(|refusal| Ok(Frame::data(refusal))));
        }
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && frame.data_ref().is_some_and(|data| has_answer(data))
        {
            self.refusal = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // The body may end early, and the refusal may be longer.
        SizeHint::default()
    }
}

/// Whether an event is an answer. A notification, or a question to the client, names its method first. No text in a message contains
/// the patterns: quotes in it are escaped.
fn has_answer(event: &[u8]) -> bool {
    let event = &event[..event.len().min(MAX_START)];
    let first = |pattern: &[u8]| event.windows(pattern.len()).position(|part| part == pattern);
    let method = first(b"\"method\":").unwrap_or(usize::MAX);
    [&b",\"result\":"[..], b",\"error\":"].into_iter().any(|key| first(key).is_some_and(|at| at < method))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;
    use std::collections::VecDeque;

    use http_body_util::{BodyExt, Full};

    use super::*;

    /// A body that never has a frame.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    /// A body with these frames.
    struct Events(VecDeque<Bytes>);

    impl Body for Events {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|event| Ok(Frame::data(event))))
        }
    }

    #[tokio::test]
    async fn a_frame_is_sent_only_while_the_condition_holds() {
        for condition in [true, false] {
            let body = Full::new(Bytes::from_static(b"event")).boxed();
            let frame = ConditionalBody::new(body, None, move || condition).frame().await;
            assert_eq!(frame.is_some(), condition);
        }
    }

    #[tokio::test]
    async fn f12_a_request_without_an_answer_gets_the_refusal_when_the_condition_fails() {
        let sent = async |events: &[&'static str]| -> String {
            let late = events.iter().chain(&["late"]).map(|event| Bytes::from_static(event.as_bytes()));
            let (body, left) = (Events(late.collect()).boxed(), Cell::new(events.len()));
            let condition = move || left.replace(left.get().saturating_sub(1)) > 0;
            let body = ConditionalBody::new(body, Some(Bytes::from_static(b"refused")), condition);
            String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned()
        };
        let notification =
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"result\":1,\"error\":2}}";
        let answer = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"method\":1}}";
        let error = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}";
        assert_eq!(sent(&[":\n\n"]).await, ":\n\nrefused");
        assert_eq!(sent(&[notification]).await, format!("{notification}refused"));
        assert_eq!(sent(&[answer]).await, answer);
        assert_eq!(sent(&[notification, error]).await, format!("{notification}{error}"));
    }

    #[tokio::test]
    async fn a_body_without_frames_ends_once_the_condition_fails() {
        assert!(ConditionalBody::new(Silent.boxed(), None, || false).frame().await.is_none());
    }
}
