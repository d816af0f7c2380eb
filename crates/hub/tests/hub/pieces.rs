//! Large files in pieces over several connections.

use duan_hub::Connections;

use super::*;

const PIECE_BYTES: u64 = 200_000;

/// Pieces of 200 kB over three connections, for everything from 100 kB on.
fn in_pieces(stage: &Stage) -> HubOptions {
    let connections = Connections { count: 3, from_bytes: 100_000, piece_bytes: PIECE_BYTES };
    HubOptions { connections, ..stage.options() }
}

fn range_of(start: u64, end: u64) -> String {
    format!("bytes={start}-{}", end - 1)
}

/// All pieces of the wheel.
fn all_pieces(stage: &Stage) -> Vec<String> {
    let starts = (0..stage.wheel_bytes()).step_by(PIECE_BYTES as usize);
    starts.map(|start| range_of(start, (start + PIECE_BYTES).min(stage.wheel_bytes()))).collect()
}

fn sorted(ranges: Vec<Option<String>>) -> Vec<String> {
    let mut ranges: Vec<String> =
        ranges.into_iter().map(|range| range.expect("every request is for a piece")).collect();
    ranges.sort_by_key(|range| range[6..].split('-').next().unwrap().parse::<u64>().unwrap());
    ranges
}

#[test]
fn every_piece_is_fetched_once_and_the_whole_is_verified() {
    let stage = Stage::new();
    let (result, events) = stage.resolve_with(in_pieces(&stage));
    stage.assert_whole(&result.unwrap());
    assert_eq!(sorted(stage.ranges()), all_pieces(&stage));
    assert_eq!(stage.server.sent_bytes(&stage.path), stage.wheel_bytes());
    // All pieces but the first say which file they shall be of.
    let requests = stage.server.requests(&stage.path);
    assert!(requests[1..].iter().all(|request| request.header("if-range") == Some("\"one\"")));
    let whole = Some(stage.wheel_bytes());
    assert!(events.iter().any(|event| matches!(event, Progress::Downloading { done_bytes, total_bytes, .. }
        if Some(*done_bytes) == whole && *total_bytes == whole)));
    assert!(events.iter().any(|event| matches!(event, Progress::Verifying { .. })));
}

#[test]
fn what_is_cut_is_fetched_and_nothing_else() {
    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::Good, Answer::CutAfter(70_000), Answer::Close, Answer::CutAfter(10)]);
    let (result, _) = stage.resolve_with(in_pieces(&stage));
    stage.assert_whole(&result.unwrap());
    assert_eq!(stage.server.sent_bytes(&stage.path), stage.wheel_bytes());

    // An earlier run that grew from the beginning is taken up, and so is one in pieces by one connection alone.
    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::CutAfter(500_000)]);
    stage.resolve_once().unwrap_err();
    stage.assert_whole(&stage.resolve_with(in_pieces(&stage)).0.unwrap());
    assert_eq!(stage.server.sent_bytes(&stage.path), stage.wheel_bytes());

    let stage = Stage::new();
    // Whoever asks a fourth time has a whole piece already.
    let answers = (0..6).map(|at| if at < 3 { Answer::Good } else { Answer::CutAfter(9) });
    stage.server.script(&stage.path, answers);
    let options = HubOptions { retries: 0, ..in_pieces(&stage) };
    assert_eq!(stage.resolve_with(options).0.unwrap_err().kind(), ErrorKind::Network);
    let listed = &Hub::new(stage.options()).unwrap().list().unwrap()[0];
    assert!(listed.state == CacheState::Partial && listed.bytes >= PIECE_BYTES, "{listed:?}");
    // One connection alone goes on with what is there from the beginning.
    stage.server.forget_scripts();
    stage.assert_whole(&stage.resolve_once().unwrap());
    assert!(stage.ranges().pop().unwrap().is_none_or(|range| range.ends_with('-')));
}

#[test]
fn a_server_that_sends_no_pieces_gets_one_connection() {
    for answer in [
        Answer::IgnoreRange,
        Answer::Range(None),
        Answer::Range(Some("bytes 1-200000/1500000")),
        Answer::Status(416, ""),
    ] {
        let stage = Stage::new();
        stage.server.script(&stage.path, [answer]);
        let (result, _) = stage.resolve_with(in_pieces(&stage));
        stage.assert_whole(&result.unwrap());
        let first = range_of(0, PIECE_BYTES);
        assert_eq!(stage.ranges(), [Some(first), None], "asked once, then for the whole");
    }
    // A server that stops sending pieces in the middle: what is there from the beginning is kept.
    let stage = Stage::new();
    let answers = [Answer::Good, Answer::IgnoreRange, Answer::IgnoreRange, Answer::IgnoreRange];
    stage.server.script(&stage.path, answers);
    stage.assert_whole(&stage.resolve_with(in_pieces(&stage)).0.unwrap());
    assert!(stage.ranges().pop().unwrap().is_none_or(|range| range.ends_with('-')), "{:?}", stage.ranges());
}

#[test]
fn a_file_that_changes_between_two_pieces_is_not_mixed() {
    let stage = Stage::new();
    let (arrived_tx, arrived) = channel();
    let (go, go_rx) = channel();
    stage.server.script(&stage.path, [Answer::Wait(arrived_tx, go_rx)]);
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| stage.resolve_with(in_pieces(&stage)).0);
        arrived.recv().unwrap();
        // The validator changes, the bytes do not; pieces of two validators are not put together all the same.
        stage.server.put(&stage.path, stage.wheel.clone(), "application/octet-stream", Some("\"two\""));
        go.send(()).unwrap();
        stage.assert_whole(&fetching.join().unwrap().unwrap());
    });
    assert!(stage.ranges().len() >= 3, "{:?}", stage.ranges());
    assert!(stage.ranges().iter().any(|range| range.as_ref().is_none_or(|range| range.ends_with('-'))));
}

#[test]
fn damage_is_found_and_a_busy_server_is_asked_less() {
    let stage = Stage::new();
    let page = stage.server.requests("/simple/tiny-model/").len();
    assert_eq!(page, 0);
    let mut damaged = stage.wheel.clone();
    damaged[700_000] ^= 1;
    stage.server.put(&stage.path, damaged, "application/octet-stream", Some("\"one\""));
    let error = stage.resolve_with(in_pieces(&stage)).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongHash, "{error}");
    stage.assert_empty();

    // The first connection is served, the others are told to wait.
    let stage = Stage::new();
    let busy = || Answer::Status(429, "Retry-After: 0\r\n");
    stage.server.script(&stage.path, [Answer::Good, busy(), busy(), busy()]);
    let (result, _) = stage.resolve_with(in_pieces(&stage));
    stage.assert_whole(&result.unwrap());
    assert_eq!(stage.server.sent_bytes(&stage.path), stage.wheel_bytes());

    // One that is not there at all says so, whoever asks.
    let stage = Stage::new();
    stage.server.script(&stage.path, [Answer::Status(404, "")]);
    assert_eq!(stage.resolve_with(in_pieces(&stage)).0.unwrap_err().kind(), ErrorKind::NotFound);
    stage.assert_empty();
}
