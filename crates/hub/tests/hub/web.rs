//! Plain web addresses, redirects to other hosts, and encryption.

use std::io::Write as _;
use std::sync::Arc;

use super::common::server::Served;
use super::common::server::repositories::sha256;
use super::*;

fn url(stage: &Stage) -> String {
    format!("http://{}/dir/Model.gguf", stage.server.address)
}

fn put(stage: &Stage) -> Vec<u8> {
    let bytes = noise(5, 300_000);
    stage.server.put("/dir/Model.gguf", bytes.clone(), "application/octet-stream", Some("\"one\""));
    bytes
}

#[test]
fn an_address_is_fetched_once_with_or_without_a_hash() {
    let stage = Stage::new();
    let bytes = put(&stage);
    let file = stage.resolve_called(&url(&stage), stage.options()).0.unwrap();
    assert!(fs::read(&file.path).unwrap() == bytes);
    assert_eq!(file.path.file_name().unwrap(), "Model.gguf");
    assert_eq!((file.sha256.unwrap(), file.source.unwrap()), (sha256(&bytes), url(&stage)));
    let count = stage.server.request_count();
    stage.resolve_called(&url(&stage), HubOptions { offline: Some(true), ..stage.options() }).0.unwrap();
    assert_eq!(stage.server.request_count(), count);
    let hub = Hub::new(stage.options()).unwrap();
    assert_eq!(hub.list().unwrap()[0].name, url(&stage));
    assert_eq!(hub.remove(&url(&stage)).unwrap().bytes / 1000, 300);

    let good = format!("{}#sha256={}", url(&stage), sha256(&bytes));
    assert!(stage.resolve_called(&good, stage.options()).0.is_ok());
    let wrong = format!("{}#sha256={}", url(&stage), "0".repeat(64));
    let error = stage.resolve_called(&wrong, stage.options()).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongHash, "{error}");
    assert_eq!(hub.list().unwrap().len(), 1);
}

#[test]
fn without_a_hash_only_the_same_validator_lets_a_part_go_on() {
    let stage = Stage::new();
    let bytes = put(&stage);
    let path = "/dir/Model.gguf";
    let ranges = || stage.server.requests(path).iter().filter_map(|r| r.header("range").map(str::to_owned)).collect();
    // The first of the two requests asks for the headers.
    let cut = || stage.server.script(path, [Answer::Status(405, ""), Answer::CutAfter(100_000)]);
    let once = || stage.resolve_called(&url(&stage), HubOptions { retries: 0, ..stage.options() }).0;
    cut();
    assert_eq!(once().unwrap_err().kind(), ErrorKind::Network);
    assert!(fs::read(once().unwrap().path).unwrap() == bytes);
    assert_eq!(Vec::<String>::from_iter::<Vec<String>>(ranges()), ["bytes=100000-"]);

    // Another validator: another file, from its beginning.
    Hub::new(stage.options()).unwrap().remove(&url(&stage)).unwrap();
    cut();
    once().unwrap_err();
    let other = noise(6, 300_000);
    stage.server.put(path, other.clone(), "application/octet-stream", Some("\"two\""));
    assert!(fs::read(once().unwrap().path).unwrap() == other);

    // No validator at all: nothing could tell, so nothing is continued.
    Hub::new(stage.options()).unwrap().remove(&url(&stage)).unwrap();
    stage.server.put(path, bytes.clone(), "application/octet-stream", None);
    cut();
    once().unwrap_err();
    let before: Vec<String> = ranges();
    assert!(fs::read(once().unwrap().path).unwrap() == bytes);
    assert_eq!(Vec::<String>::from_iter::<Vec<String>>(ranges()), before);
}

#[test]
fn pages_pointers_and_refusals_have_their_names() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n".to_vec();
    for (answer, kind, text) in [
        (Answer::Body("text/html", b"<html>sign in".to_vec()), ErrorKind::WebPage, "web page"),
        (Answer::Body("text/plain", pointer), ErrorKind::LfsPointer, "Git LFS pointer"),
        (Answer::Status(401, ""), ErrorKind::Denied, "browser"),
        (Answer::Status(404, ""), ErrorKind::NotFound, "check the address"),
        (Answer::Status(429, "Retry-After: 9999\r\n"), ErrorKind::TooManyRequests, "429"),
    ] {
        let stage = Stage::new();
        put(&stage);
        // Some servers do not answer a request for the headers.
        stage.server.script("/dir/Model.gguf", [Answer::Status(405, ""), answer]);
        let error = stage.resolve_called(&url(&stage), stage.options()).0.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(Hub::new(stage.options()).unwrap().list().unwrap(), []);
    }
}

#[test]
fn an_address_of_hugging_face_is_verified_by_what_it_announces() {
    let stage = Stage::new();
    let bytes = noise(8, 200_000);
    let serve = |announced: &str| {
        let headers = format!("X-Linked-Etag: \"{announced}\"\r\nX-Linked-Size: {}\r\n", bytes.len());
        let moved_to = Some(format!("http://{}/cdn/x", stage.server.address));
        let served = Served { bytes: Arc::new(Vec::new()), content_type: "x/y", etag: None, headers, moved_to };
        stage.server.serve("/o/n/resolve/main/m.gguf", served);
    };
    stage.server.put("/cdn/x", bytes.clone(), "application/octet-stream", Some("\"c\""));
    let url = format!("http://{}/o/n/resolve/main/m.gguf", stage.server.address);
    serve(&"0".repeat(64));
    assert_eq!(stage.resolve_called(&url, stage.options()).0.unwrap_err().kind(), ErrorKind::WrongHash);
    serve(&sha256(&bytes));
    assert_eq!(stage.resolve_called(&url, stage.options()).0.unwrap().sha256.unwrap(), sha256(&bytes));
    // The user's hash and the server's differ: nothing is fetched.
    let sent = stage.server.sent_bytes("/cdn/x");
    let other = format!("{url}#sha256={}", "1".repeat(64));
    let error = stage.resolve_called(&other, stage.options()).0.unwrap_err();
    assert!(error.to_string().contains("the server announces"), "{error}");
    assert_eq!(stage.server.sent_bytes("/cdn/x"), sent);
}

#[test]
fn the_token_is_told_to_its_own_server_and_to_no_other() {
    let (stage, other) = (Stage::new(), Server::start());
    let bytes = noise(9, 200_000);
    stage.server.put_hugging_face("o/n", &[("m-Q4_K_M.gguf", &bytes)]);
    other.put("/cdn/x", bytes.clone(), "application/octet-stream", Some("\"c\""));
    let resolve = format!("/o/n/resolve/{}/m-Q4_K_M.gguf", server::repositories::COMMIT);
    stage.server.script(&resolve, [Answer::Redirect(format!("http://{}/cdn/x", other.address))]);
    let file = stage.resolve_called("hf:o/n", stage.options()).0.unwrap();
    assert!(fs::read(&file.path).unwrap() == bytes);
    let with_token = |requests: Vec<server::Logged>| {
        requests.iter().map(|request| request.header("authorization").map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(with_token(stage.server.requests(&resolve)), [Some("Bearer hf_secret".to_string())]);
    assert_eq!(with_token(other.requests("/cdn/x")), [None]);
}

/// A page of a list may name the next one on whatever server: it is asked for on the server that was named, and where a page
/// or a redirect leads elsewhere all the same, the token stays behind.
#[test]
fn a_link_to_the_next_page_does_not_carry_the_token_away() {
    let (stage, other) = (Stage::new(), Server::start());
    let bytes = noise(9, 200_000);
    stage.server.put_hugging_face("o/n", &[("m-Q4_K_M.gguf", &bytes)]);
    let tree = format!("/api/models/o/n/tree/{}?recursive=1", server::repositories::COMMIT);
    let bearer = Some("Bearer hf_secret");
    for slashes in ["/", "//", "///"] {
        let link = format!("Link: <http://x{slashes}{}/steal>; rel=\"next\"\r\n", other.address);
        let page = Served {
            bytes: Arc::new(b"[]".to_vec()),
            content_type: "application/json",
            etag: None,
            headers: link,
            moved_to: None,
        };
        stage.server.serve(&tree, page);
        let next = format!("/{}/steal", other.address);
        let asked = stage.server.requests(&next).len();
        stage.resolve_called("hf:o/n", HubOptions { retries: 0, ..stage.options() }).0.unwrap_err();
        let requests = stage.server.requests(&next);
        assert_eq!((requests.len(), requests[asked].header("authorization")), (asked + 1, bearer), "{slashes}");
        assert_eq!(other.request_count(), 0, "{slashes}");
    }
    // The list itself moved to another server.
    stage.server.script(&tree, [Answer::Redirect(format!("//{}/steal", other.address))]);
    other.put("/steal", b"[]".to_vec(), "application/json", None);
    stage.resolve_called("hf:o/n", HubOptions { retries: 0, ..stage.options() }).0.unwrap_err();
    assert_eq!(stage.server.requests(&tree).pop().unwrap().header("authorization"), bearer);
    assert_eq!(other.requests("/steal").iter().map(|r| r.header("authorization")).collect::<Vec<_>>(), [None]);
}

/// Who keeps the bytes does not say what they shall be.
#[test]
fn the_first_server_says_what_the_file_shall_be() {
    let (stage, other) = (Stage::new(), Server::start());
    let (good, bad) = (noise(8, 200_000), noise(9, 100_000));
    let announce = |bytes: &[u8]| format!("X-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\n", sha256(bytes), bytes.len());
    let served = |bytes: &[u8], headers: String, moved_to: Option<String>| Served {
        bytes: Arc::new(bytes.to_vec()),
        content_type: "x/y",
        etag: None,
        headers,
        moved_to,
    };
    let path = "/o/n/resolve/main/m.gguf";
    stage.server.serve(path, served(b"", announce(&good), Some(format!("http://{}/cdn/x", other.address))));
    other.serve("/cdn/x", served(&bad, announce(&bad), None));
    let url = format!("http://{}{path}", stage.server.address);
    let error = stage.resolve_called(&url, stage.options()).0.unwrap_err();
    assert!(error.to_string().contains("expected 200000 bytes, found 100000"), "{error}");
    other.serve("/cdn/x", served(&good, announce(&bad), None));
    assert_eq!(stage.resolve_called(&url, stage.options()).0.unwrap().sha256.unwrap(), sha256(&good));
}

#[test]
fn a_certificate_of_nobody_is_refused_with_the_remedy() {
    let certificate = rustls::pki_types::CertificateDer::from(include_bytes!("fixtures/self-signed.der").to_vec());
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(include_bytes!("fixtures/self-signed.key.der").to_vec());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key.into()).unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            // The client hangs up when it has seen the certificate.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let stage = Stage::new();
    for name in [format!("https://localhost:{}/m.gguf", address.port()), "hf:o/n".to_string()] {
        let mut options = stage.options();
        options.hugging_face.endpoint = Some(format!("https://localhost:{}", address.port()));
        let error = stage.resolve_called(&name, options).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Certificate, "{error}");
        assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    }
}
