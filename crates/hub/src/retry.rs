//! When a request is worth another try, and how long to wait before it.

use std::io;
use std::time::Duration;

use ureq::{Body, Timeout, http};

use crate::error::{Error, Result};
use crate::http::network_error;
use crate::progress::{Progress, Sink};

/// Servers may ask for a pause; one longer than this is reported instead of waited for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A failed try: the error, and whether another one makes sense.
pub(crate) struct Failure {
    pub(crate) error: Error,
    is_worth_another: bool,
    pause: Option<Duration>,
    /// The server said that it has too much to do.
    is_busy: bool,
}

impl Failure {
    /// Nothing will change by asking again.
    pub(crate) fn last(error: Error) -> Failure {
        Failure { error, is_worth_another: false, pause: None, is_busy: false }
    }

    /// The next try may succeed.
    pub(crate) fn again(error: Error) -> Failure {
        Failure { error, is_worth_another: true, pause: None, is_busy: false }
    }

    /// No answer at all. A machine without a network should hear so at once; silence and cuts may pass.
    pub(crate) fn of_connection(url: &str, host: &str, error: ureq::Error) -> Failure {
        let is_worth_another = match &error {
            ureq::Error::Timeout(timeout) => !matches!(timeout, Timeout::Resolve | Timeout::Connect),
            ureq::Error::Io(io) => matches!(
                io.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::Interrupted
            ),
            ureq::Error::Protocol(_) => true,
            _ => false,
        };
        Failure { error: network_error(url, host, error), is_worth_another, pause: None, is_busy: false }
    }

    /// The server answered with a status that is no answer; busy and broken servers recover.
    pub(crate) fn of_status(error: Error, status: u16, pause: Option<Duration>) -> Failure {
        let is_passing = status == 408 || status == 425 || status == 429 || (500..600).contains(&status);
        let is_short = pause.is_none_or(|pause| pause <= LONGEST_PAUSE);
        Failure { error, is_worth_another: is_passing && is_short, pause, is_busy: matches!(status, 429 | 503) }
    }

    /// Whether the server wants fewer requests, which says nothing of those that it answers.
    pub(crate) fn is_of_a_busy_server(&self) -> bool {
        self.is_busy
    }

    /// The same failure, with another try allowed whatever it is.
    pub(crate) fn or_again(mut self, is_worth_another: bool) -> Failure {
        self.is_worth_another |= is_worth_another;
        self
    }
}

/// The pause that the server asks for in seconds; the form with a date is not used by package servers.
pub(crate) fn pause_asked_for(response: &http::Response<Body>) -> Option<Duration> {
    let value = response.headers().get("Retry-After")?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// Counts tries of one file and waits between them.
pub(crate) struct Retry {
    limit: u32,
    first_pause: Duration,
    failures: u32,
}

impl Retry {
    /// Up to `limit` tries after the first; the pause doubles each time.
    pub(crate) fn new(limit: u32, first_pause: Duration) -> Retry {
        Retry { limit, first_pause, failures: 0 }
    }

    /// Something arrived: the count begins anew, so that a long file over a poor line comes through.
    pub(crate) fn forget_failures(&mut self) {
        self.failures = 0;
    }

    /// Waits before the next try, or returns the error if there shall be none.
    pub(crate) fn pause_or_fail(&mut self, failure: Failure, progress: Sink<'_>) -> Result<()> {
        if !failure.is_worth_another || self.failures >= self.limit {
            return Err(failure.error);
        }
        let doubled = self.first_pause.saturating_mul(1 << self.failures.min(10));
        let pause = failure.pause.unwrap_or(doubled).min(LONGEST_PAUSE);
        self.failures += 1;
        progress(Progress::Retrying {
            attempt: self.failures + 1,
            wait_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            reason: failure.error.to_string(),
        });
        std::thread::sleep(pause);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn pauses_double_and_end() {
        let mut retry = Retry::new(3, Duration::from_millis(1));
        let mut waits = Vec::new();
        let mut note = |event| {
            if let Progress::Retrying { attempt, wait_ms, .. } = event {
                waits.push((attempt, wait_ms));
            }
        };
        let cut = || Failure::again(Error::new(ErrorKind::Network, "cut"));
        for _ in 0..3 {
            retry.pause_or_fail(cut(), &mut note).unwrap();
        }
        assert_eq!(retry.pause_or_fail(cut(), &mut note).unwrap_err().kind(), ErrorKind::Network);
        retry.forget_failures();
        retry.pause_or_fail(cut(), &mut note).unwrap();
        assert_eq!(waits, [(2, 1), (3, 2), (4, 4), (2, 1)]);
    }

    #[test]
    fn only_what_can_pass_is_tried_again() {
        let tries = |status, pause| {
            let failure = Failure::of_status(Error::status("u", status), status, pause);
            failure.is_worth_another
        };
        assert!(tries(500, None) && tries(503, Some(Duration::from_secs(1))) && tries(429, None));
        assert!(!tries(404, None) && !tries(403, None) && !tries(416, None));
        assert!(!tries(429, Some(Duration::from_secs(3600))));
    }
}
