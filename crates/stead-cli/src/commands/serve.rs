use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use stead::tools::ResultFormat;
use stead::{Config, Tokens};
use stead_server::{HttpOptions, PublicUrl, ServerLimits, SteadRegistry};

use super::demo::{Demo, DemoKind};
use super::server_lock;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::session::Session;
use crate::telemetry::Telemetry;

/// The address that a server listens on by default.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4747);

/// Serve agents over MCP on HTTP
///
/// MCP is at /mcp, a health check at /healthz, metrics for Prometheus at /metrics. Once there is a token (see `stead
/// token`), every client needs one. Before that, only clients on this machine are served, as the agent that --agent
/// names, or as the only agent, in the thread that --thread names. Changes to the configuration are used without a restart.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The address to listen on [default: 127.0.0.1:4747]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// The server's URL as clients see it, if it is behind a proxy, such as `https://stead.example.com`
    #[arg(long, value_name = "URL")]
    public_url: Option<PublicUrl>,
    /// Add structured content to results, for programs; don't use it for models
    #[arg(long)]
    structured: bool,
    /// Create a demo stead, and print what to paste into an MCP client; the demo is deleted when the server ends. `--demo
    /// org` has an organization with teams
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_missing_value = "agents")]
    demo: Option<DemoKind>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    if let Some(kind) = args.demo {
        return serve_demo(kind, &args, session);
    }
    let config = session.config()?;
    let agent = session.named_agent().map(|_| session.agent(&config)).transpose()?;
    if let Some(agent) = &agent
        && !config.has_agent(agent)
    {
        return Err(stead::Error::unknown_agent(&config, agent).into());
    }
    let has_no_tokens = !Tokens::of(&config).was_any_created()?;
    let thread = session.named_thread().map(str::to_owned);
    let options = HttpOptions { agent, thread, public_url: args.public_url };
    let result_format = ResultFormat::structured_if(args.structured);
    serve(&config, args.listen.unwrap_or(DEFAULT_ADDRESS), result_format, options, |url| {
        if session.wants_json() {
            // A program that started the server may wait for this line. If it is gone, the server runs all the same.
            let _ = session.print_json(&json::listening(&url)).and_then(|()| session.flush());
        } else {
            session.say(format_args!("Serving MCP at {url}"));
        }
        if has_no_tokens {
            session.say("There are no tokens yet, so only clients on this machine are served.");
            session.say(
                "`stead token create --agent NAME` creates one; from then on every client needs a token.",
            );
        }
    })
}

fn serve(
    config: &Config,
    listen: SocketAddr,
    result_format: ResultFormat,
    options: HttpOptions,
    on_ready: impl FnOnce(String),
) -> CommandResult {
    let _telemetry = Telemetry::init()?;
    let _lock = server_lock::take(config)?;
    let steads = Arc::new(SteadRegistry::of(config, ServerLimits::default()).with_results(result_format));
    stead_server::run_http(listen, &steads, options, |address| on_ready(format!("http://{address}/mcp")))?;
    Ok(Exit::OK)
}

fn serve_demo(kind: DemoKind, args: &Args, session: &mut Session) -> CommandResult {
    let demo = Demo::create(kind)?;
    let listen = args.listen.unwrap_or_else(free_address);
    let options = HttpOptions { agent: None, thread: None, public_url: args.public_url.clone() };
    let mut printed: Result<(), CommandError> = Ok(());
    let result_format = ResultFormat::structured_if(args.structured);
    let served = serve(demo.config(), listen, result_format, options, |url| {
        printed = demo.print_instructions(&url, session)
    });
    printed.and(served)
}

/// The default address or, if it is taken, one with a free port: a user who tries the demo hasn't chosen the port.
fn free_address() -> SocketAddr {
    match TcpListener::bind(DEFAULT_ADDRESS) {
        Ok(_) => DEFAULT_ADDRESS,
        Err(_) => SocketAddr::new(DEFAULT_ADDRESS.ip(), 0),
    }
}
