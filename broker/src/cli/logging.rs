//! The log: tracing to stdout, filtered by `KELDA_LOG` or `RUST_LOG`, as text or JSON lines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts the log; what was logged before is lost.
pub(super) fn start(format: &str) {
    let filter = std::env::var("KELDA_LOG")
        .or_else(|_| std::env::var("RUST_LOG"))
        .ok()
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    // A second start, such as in a test, keeps the first.
    let _ = if format == "json" {
        lines.json().flatten_event(true).try_init()
    } else {
        // Tools wait for texts in the log: no colours where no terminal is.
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        lines.with_ansi(colours).with_target(false).try_init()
    };
}
