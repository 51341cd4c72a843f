//! A server's own diagnostics: log lines on stderr, and traces for a collector.
//!
//! `STEAD_LOG` sets the log level (`info`, `stead_server=debug`); without it nothing is logged. In a build with the
//! feature `otel`, `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector that gets a span per tool call: the tool, the agent,
//! the thread, the outcome and the time. Paths and content are never sent; they belong in the audit.

use tracing_subscriber::filter::{FilterExt, FilterFn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::command_error::CommandError;

/// Runs until dropped. Dropping it sends the spans that aren't sent yet.
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    tracer_provider: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

impl Telemetry {
    /// Starts logging and tracing, if the environment asks for them.
    pub(crate) fn init() -> Result<Self, CommandError> {
        let log_layer = match std::env::var("STEAD_LOG") {
            Ok(filter) => {
                let invalid_filter =
                    |error| CommandError::invalid(format!("STEAD_LOG isn't a valid filter: {error}"));
                let filter = EnvFilter::try_new(filter).map_err(invalid_filter)?;
                // The MCP library logs whole requests: paths, arguments, content. Whatever the log level, these belong
                // in the audit only.
                let without_rmcp = FilterFn::new(|metadata| !metadata.target().starts_with("rmcp"));
                let log_layer = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
                // To stderr: over stdio, standard output belongs to the client.
                Some(log_layer.with_filter(filter.and(without_rmcp)))
            }
            Err(_) => None,
        };
        let registry = tracing_subscriber::registry().with(log_layer);
        #[cfg(feature = "otel")]
        {
            let tracer_provider = otel::provider()?;
            let span_layer = tracer_provider.as_ref().map(otel::span_layer);
            let _ = registry.with(span_layer).try_init();
            Ok(Telemetry { tracer_provider })
        }
        #[cfg(not(feature = "otel"))]
        {
            if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_some() {
                stead_server::print_to_stderr(
                    "stead: this build can't send traces; build it with `--features otel`",
                );
            }
            let _ = registry.try_init();
            Ok(Telemetry {})
        }
    }
}

#[cfg(feature = "otel")]
impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(tracer_provider) = &self.tracer_provider {
            // A collector that can't be reached is ignored: there is nobody to report it to.
            let _ = tracer_provider.shutdown();
        }
    }
}

#[cfg(feature = "otel")]
mod otel {
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_otlp::SpanExporter;
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
    use tracing_opentelemetry::OpenTelemetryLayer;
    use tracing_subscriber::Layer;
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::filter::{Filtered, Targets};
    use tracing_subscriber::registry::LookupSpan;

    use crate::command_error::CommandError;

    /// The provider that sends traces, if a collector is named.
    pub(super) fn provider() -> Result<Option<SdkTracerProvider>, CommandError> {
        if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_http().build();
        let exporter =
            exporter.map_err(|error| CommandError::invalid(format!("traces can't be sent: {error}")))?;
        let resource = Resource::builder().with_service_name("stead").build();
        Ok(Some(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build()))
    }

    /// The layer that turns the spans of this server into traces.
    pub(super) fn span_layer<S>(
        provider: &SdkTracerProvider,
    ) -> Filtered<OpenTelemetryLayer<S, SdkTracer>, Targets, S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        let own_targets = Targets::new().with_target("stead_server", LevelFilter::INFO);
        tracing_opentelemetry::layer().with_tracer(provider.tracer("stead")).with_filter(own_targets)
    }
}
