//! Everything that knows the MCP library: what it asks for is answered here, out of a [`crate::Served`].

mod call;
mod convert;
mod endpoint;
mod handler;
mod head;
mod lines;
mod methods;
mod notify;
mod question;
mod resources;
mod uri;

pub(crate) use endpoint::{Begins, Endpoint, Handled};
pub(crate) use handler::Handler;
pub(crate) use head::{Head, Wrong};
pub(crate) use lines::over_lines;
