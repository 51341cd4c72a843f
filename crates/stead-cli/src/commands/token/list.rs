use stead::{Clock, SystemClock, Tokens};

use crate::command_error::{CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// List the tokens, oldest first
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_args: Args, session: &mut Session) -> CommandResult {
    let tokens = Tokens::of(&session.config_without_records()?).list()?;
    if tokens.is_empty() {
        session.say("There are no tokens.");
    }
    let now = SystemClock.now();
    for token in &tokens {
        if session.wants_json() {
            session.print_json(&json::token(token))?;
            continue;
        }
        let id = session.paint(Colour::Yellow, &token.id);
        let agent = human::escape_text(&token.identity.agent).to_string();
        let thread = match &token.identity.thread {
            Some(thread) => format!(" in {}", human::escape_text(thread)),
            None => String::new(),
        };
        let expires = match token.expires {
            None => "does not expire".to_owned(),
            Some(time) if token.is_expired(now) => format!("expired {}", human::time(Some(time))),
            Some(time) => format!("expires {}", human::time(Some(time))),
        };
        let created = human::time(Some(token.created));
        let last_used = human::time(token.last_used);
        session
            .print_line(format_args!("{id}  {agent}{thread}  made {created}  {expires}  used {last_used}"))?;
    }
    Ok(Exit::OK)
}
