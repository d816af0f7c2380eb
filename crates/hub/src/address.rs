//! Web addresses as text: shown without secrets, joined, compared, and put together of parts that may hold anything.

/// The address as it may be shown: without user and password.
pub(crate) fn without_credentials(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}{}", &rest[at + 1..]),
        None => url.to_string(),
    }
}

/// The host and port of an address, to show.
pub(crate) fn host_of(url: &str) -> String {
    let shown = without_credentials(url);
    let rest = shown.split_once("://").map_or(shown.as_str(), |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default().to_string()
}

/// The address `link` stands for on the page at `base` (RFC 3986, as far as servers use it), without its fragment.
pub(crate) fn absolute(base: &str, link: &str) -> String {
    let link = link.split('#').next().unwrap_or_default();
    if has_scheme(link) {
        return link.to_string();
    }
    let base = base.split(['#', '?']).next().unwrap_or_default();
    let scheme_end = base.find("://").map_or(0, |at| at + 3);
    if let Some(rest) = link.strip_prefix("//") {
        return format!("{}{rest}", &base[..scheme_end]);
    }
    // What stands in a query is no path, whatever it looks like.
    let (link, query) = link.split_at(link.find('?').unwrap_or(link.len()));
    let root_end = base[scheme_end..].find('/').map_or(base.len(), |at| scheme_end + at);
    let folder_end = base.rfind('/').filter(|at| *at >= root_end).unwrap_or(root_end);
    let path = match link {
        "" => base[root_end..].to_string(),
        link if link.starts_with('/') => link.to_string(),
        link => format!("{}/{link}", &base[root_end..folder_end]),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').skip(1) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("{}/{}{query}", &base[..root_end], parts.join("/"))
}

/// Whether a link begins with a scheme and a host, and not only has some further behind.
fn has_scheme(link: &str) -> bool {
    link.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

/// Scheme, host and port of an address: who may see what was meant for it. The port is written out, and case does not
/// matter.
pub(crate) fn origin(url: &str) -> String {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    let host = host_of(url).to_ascii_lowercase();
    let has_port =
        host.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let port = match scheme.as_str() {
        _ if has_port => "",
        "https" => ":443",
        _ => ":80",
    };
    format!("{scheme}://{host}{port}")
}

/// A part of an address in the form that servers read: what has a meaning of its own becomes `%` and two digits. The
/// separators of a path stay if `keeps_slashes`.
pub(crate) fn encoded(part: &str, keeps_slashes: bool) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            b'/' if keeps_slashes => out.push('/'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_URL: &str = "https://index.example/simple/a-b/";

    #[test]
    fn addresses_are_shown_without_credentials() {
        assert_eq!(without_credentials("https://me:pw@host/a@b?c"), "https://host/a@b?c");
        assert_eq!(without_credentials("https://host/a"), "https://host/a");
        assert_eq!(without_credentials("me:pw@host:1"), "host:1");
        assert_eq!(host_of("https://me:p@w@host:81/a/b"), "host:81");
        assert_eq!(host_of("http://h"), "h");
    }

    #[test]
    fn links_of_all_forms_become_addresses() {
        for (link, expected) in [
            ("https://files.example/x.whl", "https://files.example/x.whl"),
            ("//files.example/x.whl", "https://files.example/x.whl"),
            ("/f/x.whl#frag", "https://index.example/f/x.whl"),
            ("x.whl", "https://index.example/simple/a-b/x.whl"),
            ("./x.whl", "https://index.example/simple/a-b/x.whl"),
            ("../../../../x.whl", "https://index.example/x.whl"),
            (
                "x.whl?from=http://other.example/../y",
                "https://index.example/simple/a-b/x.whl?from=http://other.example/../y",
            ),
            ("/x?a=/../b", "https://index.example/x?a=/../b"),
            ("?page=2", "https://index.example/simple/a-b/?page=2"),
            ("/..//files.example/x", "https://index.example//files.example/x"),
        ] {
            assert_eq!(absolute(PAGE_URL, link), expected, "{link}");
        }
        assert_eq!(absolute("http://h", "x"), "http://h/x");
    }

    #[test]
    fn origins_are_compared_with_scheme_host_and_port() {
        assert_eq!(origin("https://Hub.example/a/b?c"), origin("https://me:pw@hub.example:443"));
        for other in
            ["http://hub.example/", "https://hub.example:444/", "https://cdn.hub.example/", "https://hub.example.org/"]
        {
            assert_ne!(origin("https://hub.example/"), origin(other), "{other}");
        }
    }

    #[test]
    fn parts_lose_what_has_a_meaning() {
        assert_eq!(encoded("a b/c?d#e&f=ä.gguf", true), "a%20b/c%3Fd%23e%26f%3D%C3%A4.gguf");
        assert_eq!(encoded("refs/pr/1", false), "refs%2Fpr%2F1");
    }
}
