//! Ends a long response once its caller has lost access.

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

/// A body that ends once `condition` returns `false`. No frame is sent after that.
pub(super) struct ConditionalBody<F> {
    body: BoxBody<Bytes, Infallible>,
    condition: F,
    interval: Interval,
}

impl<F: Fn() -> bool> ConditionalBody<F> {
    pub(super) fn new(body: BoxBody<Bytes, Infallible>, condition: F) -> Self {
        let mut interval = tokio::time::interval(CHECK_INTERVAL);
        interval.reset();
        ConditionalBody { body, condition, interval }
    }
}

impl<F: Fn() -> bool + Unpin> Body for ConditionalBody<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let mut must_check = matches!(frame, Poll::Ready(Some(_)));
        // Polled until it is pending, so that the next tick wakes this task.
        while frame.is_pending() && self.interval.poll_tick(context).is_ready() {
            must_check = true;
        }
        if must_check && !(self.condition)() { Poll::Ready(None) } else { frame }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
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

    #[tokio::test]
    async fn a_frame_is_sent_only_while_the_condition_holds() {
        for condition in [true, false] {
            let body = Full::new(Bytes::from_static(b"event")).boxed();
            let frame = ConditionalBody::new(body, move || condition).frame().await;
            assert_eq!(frame.is_some(), condition);
        }
    }

    #[tokio::test]
    async fn a_body_without_frames_ends_once_the_condition_fails() {
        assert!(ConditionalBody::new(Silent.boxed(), || false).frame().await.is_none());
    }
}
