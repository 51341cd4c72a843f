use std::time::Duration;

use stead::tools::ResultFormat;
use stead::{Clock, SystemClock, Timestamp, Tokens};

use crate::command_error::{CommandResult, Exit};
use crate::commands::parse_nonzero_duration;
use crate::session::Session;
use crate::{human, json};

/// Create a token for an agent, and show it once
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long the token is valid: 12h, 30d [default: until it is revoked]
    #[arg(long, value_name = "DURATION", value_parser = parse_nonzero_duration)]
    expires: Option<Duration>,
    /// Add structured content to results, for programs; don't use it for models
    #[arg(long)]
    structured: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    let identity = session.identity(&config)?;
    if !config.has_agent(&identity.agent) {
        return Err(stead::Error::unknown_agent(&config, &identity.agent).into());
    }
    let now = SystemClock.now();
    let nanos = args.expires.map(|duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX));
    let expires = nanos.map(|nanos| Timestamp(now.0.saturating_add(nanos)));
    let result_format = ResultFormat::structured_if(args.structured);
    let (token, secret) = Tokens::of(&config).create_with_results(identity, expires, result_format, now)?;
    if session.wants_json() {
        session.print_json(&json::new_token(&token, &secret))?;
        return Ok(Exit::OK);
    }
    session.print_line(&secret)?;
    let validity = match token.expires {
        Some(expires) => format!("It is valid until {}.", human::time(Some(expires))),
        None => "It is valid until it is revoked.".to_owned(),
    };
    session.say(format_args!(
        "This is the token `{}` of `{}`. Copy it now: it isn't shown again. {validity}",
        token.id,
        human::escape_text(&token.identity.agent)
    ));
    Ok(Exit::OK)
}
