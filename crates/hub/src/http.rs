//! One door to the network: agents with the system's certificates and proxy variables, and errors in our words.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use ureq::http::HeaderValue;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy, Timeout, http};

use crate::address::{absolute, host_of, origin, without_credentials};
use crate::error::{Error, ErrorKind, Result};
use crate::retry::Failure;

/// A chain of redirects that is longer than this has no end.
const REDIRECTS_LIMIT: usize = 10;

/// What a server says of a file before it sends the client elsewhere for its bytes. The last answer gets these headers of
/// whoever said them first: who only keeps the bytes does not say what they shall be.
const KEPT_HEADERS: [&str; 3] = ["X-Linked-Etag", "X-Linked-Size", "X-Repo-Commit"];

/// What to ask a server for.
#[derive(Default)]
pub(crate) struct Request<'a> {
    pub(crate) url: &'a str,
    /// The `Accept` header, where the form of the answer can be chosen.
    pub(crate) accept: Option<&'a str>,
    /// The bytes wanted, from the first one to, where it is known, one behind the last; none for the whole file.
    pub(crate) range: Option<(u64, Option<u64>)>,
    /// The validator of the bytes that are here already.
    pub(crate) if_range: Option<&'a str>,
    /// Who asks.
    pub(crate) token: Option<&'a Token>,
    /// Whether only the headers are wanted.
    pub(crate) is_head: bool,
}

/// Who asks, and the one server that is told.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    text: String,
    origin: String,
}

impl Token {
    /// For the server of `url`, whatever its answers name.
    pub(crate) fn new(text: String, url: &str) -> Token {
        Token { text, origin: origin(url) }
    }

    /// The token, where `url` is on its server.
    fn for_url(&self, url: &str) -> Option<&str> {
        (origin(url) == self.origin).then_some(&self.text)
    }
}

/// Without the token: what holds one may end up in a message.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token(... for {})", self.origin)
    }
}

/// Agents for plain and for encrypted addresses: proxy variables differ by scheme.
pub(crate) struct Http {
    connect_timeout: Duration,
    stall_timeout: Duration,
    plain: OnceLock<Agent>,
    encrypted: OnceLock<Agent>,
}

impl Http {
    pub(crate) fn new(connect_timeout: Duration, stall_timeout: Duration) -> Http {
        Http { connect_timeout, stall_timeout, plain: OnceLock::new(), encrypted: OnceLock::new() }
    }

    /// Sends a request and returns the answer, whatever its status, before its body is read. Redirects are followed, but
    /// the token goes to its own server alone.
    pub(crate) fn get(&self, request: &Request<'_>) -> std::result::Result<http::Response<Body>, Failure> {
        let mut url = request.url.to_string();
        let mut kept: Vec<(&str, HeaderValue)> = Vec::new();
        for _ in 0..=REDIRECTS_LIMIT {
            let mut response = self.get_once(request, &url)?;
            let Some(next) = redirect_of(&response, &url) else {
                for (name, value) in kept {
                    response.headers_mut().insert(name, value);
                }
                return Ok(response);
            };
            for name in KEPT_HEADERS {
                if let Some(value) = response.headers().get(name)
                    && kept.iter().all(|(other, _)| *other != name)
                {
                    kept.push((name, value.clone()));
                }
            }
            if starts_with_ignoring_case(&url, "https://") && !starts_with_ignoring_case(&next, "https://") {
                return Err(Failure::last(network_error(&url, &host_of(&url), ureq::Error::RequireHttpsOnly(next))));
            }
            url = next;
        }
        Err(Failure::last(network_error(request.url, &host_of(request.url), ureq::Error::TooManyRedirects)))
    }

    fn get_once(&self, request: &Request<'_>, url: &str) -> std::result::Result<http::Response<Body>, Failure> {
        let agent = self.agent(url).map_err(Failure::last)?;
        let mut call = if request.is_head { agent.head(url) } else { agent.get(url) };
        if let Some(accept) = request.accept {
            call = call.header("Accept", accept);
        } else {
            // A file is wanted as it is: lengths and ranges count its own bytes.
            call = call.header("Accept-Encoding", "identity");
        }
        if let Some((from, to)) = request.range {
            let last = to.map_or_else(String::new, |to| to.saturating_sub(1).to_string());
            call = call.header("Range", format!("bytes={from}-{last}"));
            if let Some(validator) = request.if_range {
                call = call.header("If-Range", validator);
            }
        }
        if let Some(token) = request.token.and_then(|token| token.for_url(url)) {
            call = call.header("Authorization", format!("Bearer {token}"));
        }
        call.call().map_err(|error| {
            let host = host_of(url);
            let proxy = agent.config().proxy();
            let used = proxy.filter(|proxy| url.parse().is_ok_and(|uri| !proxy.is_no_proxy(&uri)));
            let reached = match used {
                Some(proxy) => format!("{host} through the proxy {}:{}", proxy.host(), proxy.port()),
                None => host,
            };
            Failure::of_connection(url, &reached, error)
        })
    }

    fn agent(&self, url: &str) -> Result<&Agent> {
        let is_encrypted = starts_with_ignoring_case(url, "https://");
        if !is_encrypted && !starts_with_ignoring_case(url, "http://") {
            return Err(Error::new(
                ErrorKind::BadIndex,
                format!("{} is not an http or https address", without_credentials(url)),
            ));
        }
        let slot = if is_encrypted { &self.encrypted } else { &self.plain };
        if let Some(agent) = slot.get() {
            return Ok(agent);
        }
        let proxy = proxy_for(is_encrypted, |variable| std::env::var(variable).ok())?;
        Ok(slot.get_or_init(|| self.build_agent(is_encrypted, proxy)))
    }

    fn build_agent(&self, is_encrypted: bool, proxy: Option<Proxy>) -> Agent {
        Agent::config_builder()
            .http_status_as_error(false)
            // They are followed here, where it is known what must not be told to others.
            .max_redirects(0)
            .https_only(is_encrypted)
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .proxy(proxy)
            .user_agent(concat!("duan/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(self.connect_timeout))
            .timeout_connect(Some(self.connect_timeout))
            .timeout_per_read(Some(self.stall_timeout))
            .timeout_per_write(Some(self.stall_timeout))
            .build()
            .into()
    }
}

/// Where an answer sends the client, if it does.
fn redirect_of(response: &http::Response<Body>, url: &str) -> Option<String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get("Location")?.to_str().ok()?;
    Some(absolute(url, location))
}

fn starts_with_ignoring_case(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// The proxy that the customary variables name for addresses of this kind; lower case goes before upper case.
/// The machine itself is never reached through a proxy.
fn proxy_for(is_encrypted: bool, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Proxy>> {
    let names: [&str; 4] = if is_encrypted {
        ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    } else {
        ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
    };
    let set = |name: &str| variable(name).map(|v| v.trim().to_string()).filter(|v| !v.is_empty());
    let Some((name, value)) = names.iter().find_map(|name| Some((*name, set(name)?))) else {
        return Ok(None);
    };
    let unusable = |error: ureq::Error| {
        Error::new(
            ErrorKind::Proxy,
            format!(
                "{name}={} cannot be used as a proxy ({error}); write it as http://host:port or unset it",
                without_credentials(&value)
            ),
        )
    };
    let parsed = Proxy::new(&value).map_err(unusable)?;
    let mut builder = Proxy::builder(parsed.protocol())
        .host(parsed.host())
        .port(parsed.port())
        .resolve_target(parsed.resolve_target())
        .no_proxy("localhost")
        .no_proxy("127.*")
        .no_proxy("[::1]");
    if let Some(user) = parsed.username() {
        builder = builder.username(user);
    }
    if let Some(password) = parsed.password() {
        builder = builder.password(password);
    }
    let exceptions = set("no_proxy").or_else(|| set("NO_PROXY")).unwrap_or_default();
    for exception in exceptions.split([',', ' ']).map(str::trim).filter(|text| !text.is_empty()) {
        builder = builder.no_proxy(exception);
        // By custom a name stands for the hosts below it too.
        if !exception.starts_with(['.', '*']) {
            builder = builder.no_proxy(&format!(".{exception}"));
        }
    }
    builder.build().map(Some).map_err(unusable)
}

/// Whether the body of a response announces itself as a web page.
pub(crate) fn is_web_page(response: &http::Response<Body>) -> bool {
    response.body().mime_type().is_some_and(|mime| {
        mime.eq_ignore_ascii_case("text/html") || mime.eq_ignore_ascii_case("application/xhtml+xml")
    })
}

/// An error of the connection, or while a body was read, in our words. `host` is what could not be reached, as it is
/// to be shown.
pub(crate) fn network_error(url: &str, host: &str, error: ureq::Error) -> Error {
    let text = error.to_string();
    match error {
        ureq::Error::HostNotFound => Error::new(
            ErrorKind::Network,
            format!("the address of {host} cannot be found; is there a network? Check it and the proxy variables"),
        ),
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => Error::new(
            ErrorKind::Network,
            format!("{host} does not answer; is there a network? Check it and the proxy variables"),
        ),
        ureq::Error::Timeout(_) => {
            Error::new(ErrorKind::Timeout, format!("{host} went silent; try again, what has arrived is kept"))
        }
        ureq::Error::ConnectProxyFailed(_) | ureq::Error::InvalidProxyUrl => Error::new(
            ErrorKind::Proxy,
            format!("the proxy does not let {host} through ({text}); check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"),
        ),
        ureq::Error::RequireHttpsOnly(_) => Error::new(
            ErrorKind::Certificate,
            format!(
                "{} redirects to an address without encryption; a proxy on the way may do that, try another network or \
                 another server",
                without_credentials(url)
            ),
        ),
        ureq::Error::TooManyRedirects => Error::new(
            ErrorKind::Server,
            format!("{} redirects without end; try again later or name another server", without_credentials(url)),
        ),
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => certificate_error(host, &text),
        ureq::Error::Io(io) if is_certificate_failure(&io) => certificate_error(host, &io.to_string()),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Error::new(
            ErrorKind::BadIndex,
            format!("{} is not an address that can be asked ({text})", without_credentials(url)),
        ),
        ureq::Error::Io(io) => Error::new(
            ErrorKind::Network,
            format!("no connection to {host} ({io}); is there a network? Check it and the proxy variables"),
        ),
        _ => Error::new(
            ErrorKind::Network,
            format!("the connection to {host} failed ({text}); try again, what has arrived is kept"),
        ),
    }
}

/// Whether a failure of the connection comes from the encryption layer, which hands its errors on as invalid data.
fn is_certificate_failure(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData && error.get_ref().is_some()
}

fn certificate_error(host: &str, reason: &str) -> Error {
    Error::new(
        ErrorKind::Certificate,
        format!(
            "the encrypted connection to {host} was refused on this side ({reason}); check the clock, install the \
             system's certificates (package ca-certificates), or name a company's own in SSL_CERT_FILE"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(is_encrypted: bool, variables: &[(&str, &str)]) -> Result<Option<Proxy>> {
        proxy_for(is_encrypted, |name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn proxies_go_by_scheme_and_exceptions() {
        let variables = [
            ("HTTPS_PROXY", "http://user:p%40ss@secure.example:3128"),
            ("http_proxy", "plain.example:8080"),
            ("ALL_PROXY", "socks5h://all.example"),
            ("NO_PROXY", "inner.example, .corp,10.0.0.1"),
        ];
        let secure = proxy(true, &variables).unwrap().unwrap();
        assert_eq!((secure.host(), secure.port()), ("secure.example", 3128));
        assert_eq!((secure.username(), secure.password()), (Some("user"), Some("p@ss")));
        let plain = proxy(false, &variables).unwrap().unwrap();
        assert_eq!((plain.host(), plain.port()), ("plain.example", 8080));
        let all = proxy(true, &variables[2..]).unwrap().unwrap();
        assert_eq!((all.host(), all.port(), all.resolve_target()), ("all.example", 1080, false));
        assert!(proxy(true, &[("HTTP_PROXY", "http://x"), ("HTTPS_PROXY", " ")]).unwrap().is_none());

        for (url, bypassed) in [
            ("https://inner.example/x", true),
            ("https://a.inner.example/x", true),
            ("https://notinner.example/x", false),
            ("https://a.corp/x", true),
            ("https://10.0.0.1/x", true),
            ("http://127.0.0.1:99/x", true),
            ("http://localhost:99/x", true),
            ("https://elsewhere.example/x", false),
        ] {
            assert_eq!(secure.is_no_proxy(&url.parse().unwrap()), bypassed, "{url}");
        }
    }

    #[test]
    fn a_proxy_that_is_not_there_is_named() {
        let http = Http::new(Duration::from_secs(9), Duration::from_secs(9));
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let agent = http.build_agent(false, proxy(false, &[("HTTP_PROXY", &closed.to_string())]).unwrap());
        assert!(http.plain.set(agent).is_ok());
        let request = Request { url: "http://elsewhere.invalid/x", ..Request::default() };
        let error = http.get(&request).err().unwrap().error;
        assert_eq!(error.kind(), ErrorKind::Network);
        assert!(error.to_string().contains(&format!("elsewhere.invalid through the proxy {closed}")), "{error}");
    }

    #[test]
    fn an_unusable_proxy_is_named_without_its_password() {
        let error = proxy(true, &[("HTTPS_PROXY", "ftp://me:secret@host:1")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Proxy);
        assert!(error.to_string().contains("HTTPS_PROXY=ftp://host:1"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
