//! Ends a long response once its caller has lost access.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Interval;

/// How often the condition is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A body that ends as soon as `condition` returns `false`.
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
        while self.interval.poll_tick(context).is_ready() {
            if !(self.condition)() {
                return Poll::Ready(None);
            }
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
