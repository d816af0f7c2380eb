//! Logs, for those who ask for them with `DUAN_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::warn;

/// Those who log requests as they go over the line, with the token of who asks.
const TALKATIVE: [&str; 4] = ["ureq", "ureq_proto", "rustls", "native_tls"];

/// Sends what the filter in `DUAN_LOG` lets through to stderr. Without the variable nothing is logged.
pub(crate) fn start() {
    let Some(filter) = std::env::var("DUAN_LOG").ok().filter(|filter| !filter.trim().is_empty()) else { return };
    match EnvFilter::try_new(&filter) {
        Ok(filter) => tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()))
            .finish()
            .with(filter_fn(|metadata| !tells_secrets(metadata.target(), *metadata.level() == LevelFilter::TRACE)))
            .init(),
        Err(error) => warn(&format!("DUAN_LOG={filter}: {error}; try `DUAN_LOG=debug`")),
    }
}

/// Whether a line may hold what nobody else may see, whatever the filter asks for: logs are shown around.
fn tells_secrets(target: &str, is_trace: bool) -> bool {
    is_trace && TALKATIVE.contains(&target.split("::").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_never_logged_as_they_go_over_the_line() {
        for target in ["ureq_proto::util", "ureq_proto", "ureq::run", "rustls::client::hs"] {
            assert!(tells_secrets(target, true), "{target}");
            assert!(!tells_secrets(target, false), "{target}");
        }
        for target in ["duan_hub::download", "duan", "ureq_other"] {
            assert!(!tells_secrets(target, true), "{target}");
        }
    }
}
