use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use stead::Tokens;
use stead_server::{HttpOptions, Limits, PublicUrl, Steads};

use crate::failure::{Ended, Exit};
use crate::session::Session;

/// Serve agents over MCP on HTTP
///
/// MCP is at /mcp, /healthz says that it is up, /metrics has numbers for Prometheus. Once there is a token (see `stead
/// token`), everybody needs one; before that, only this machine is served, as the agent that --agent names or the only
/// one there is. Changes of the configuration are picked up while it runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4747")]
    listen: SocketAddr,
    /// The URL by which it is known outside, where a proxy stands before it: https://stead.example.com
    #[arg(long, value_name = "URL")]
    public_url: Option<PublicUrl>,
}

pub(super) fn run(args: Args, session: &mut Session) -> Ended {
    let config = session.config()?;
    let agent = session.named_agent().map(str::to_owned);
    if let Some(agent) = &agent
        && !config.agents.contains_key(agent)
    {
        let known = config.agents.keys().cloned().collect();
        return Err(stead::Error::UnknownAgent { name: agent.clone(), known }.into());
    }
    let open = !Tokens::of(&config).are_in_use()?;
    let steads = Arc::new(Steads::of(&config, Limits::default()));
    let options = HttpOptions { agent, public_url: args.public_url };
    stead_server::run_http(args.listen, &steads, options, |bound| {
        let url = format!("http://{bound}/mcp");
        if session.wants_json() {
            // Whoever waits for it reads one line; if they have gone, the server is of no less use.
            let _ = session.json(&json!({ "listening": url })).and_then(|()| session.flush());
        } else {
            session.say(format_args!("Serving MCP at {url}"));
        }
        if open {
            session.say("There are no tokens yet, so only this machine is served.");
            session.say("`stead token create --agent NAME` makes one; from then on everybody needs one.");
        }
    })?;
    Ok(Exit::OK)
}
