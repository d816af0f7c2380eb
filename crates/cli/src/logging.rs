//! Logs, for those who ask for them with `DUAN_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::output::warn;

/// Sends what the filter in `DUAN_LOG` lets through to stderr. Without the variable nothing is logged.
pub(crate) fn start() {
    let Some(filter) = std::env::var("DUAN_LOG").ok().filter(|filter| !filter.trim().is_empty()) else { return };
    match EnvFilter::try_new(&filter) {
        Ok(filter) => tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()))
            .init(),
        Err(error) => warn(&format!("DUAN_LOG={filter}: {error}; try `DUAN_LOG=debug`")),
    }
}
