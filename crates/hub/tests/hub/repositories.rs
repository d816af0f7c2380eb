//! Models of Hugging Face and ModelScope, and the caches that their own programs share with duan.

use std::path::PathBuf;

use super::common::server::repositories::{COMMIT, git_blob, sha256};
use super::*;

const REPOSITORY: &str = "Org/Tiny-GGUF";

/// A repository with two quantizations, and what it holds.
fn put_gguf(stage: &Stage) -> (Vec<u8>, Vec<u8>) {
    let (four, eight) = (noise(4, 300_000), noise(8, 500_000));
    let files: &[(&str, &[u8])] =
        &[("README.md", b"# Tiny"), ("tiny-Q4_K_M.gguf", &four), ("sub/tiny-Q8_0.gguf", &eight)];
    stage.server.put_hugging_face(REPOSITORY, files);
    stage.server.put_model_scope(REPOSITORY, files);
    (four, eight)
}

/// A checkpoint folder, by its files.
fn checkpoint() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("config.json", br#"{"model_type": "llama"}"#.to_vec()),
        ("tokenizer.json", b"{}".to_vec()),
        ("model.safetensors", noise(7, 400_000)),
        ("README.md", b"# not needed to run it".to_vec()),
    ]
}

fn put_checkpoint(stage: &Stage) {
    let files = checkpoint();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (*path, &bytes[..])).collect();
    stage.server.put_hugging_face("Org/Tiny", &files);
}

fn hf(stage: &Stage) -> PathBuf {
    stage.cache.path().join("hf/models--Org--Tiny-GGUF")
}

fn offline(stage: &Stage) -> HubOptions {
    HubOptions { offline: Some(true), ..stage.options() }
}

/// All files below a folder, by their paths inside.
fn files_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[cfg(unix)]
#[test]
fn a_quantization_is_fetched_into_the_cache_that_python_shares() {
    let stage = Stage::new();
    let (four, eight) = put_gguf(&stage);
    let file = stage.resolve_called("hf:Org/Tiny-GGUF", stage.options()).0.unwrap();
    assert!(fs::read(&file.path).unwrap() == four);
    assert_eq!(file.path, hf(&stage).join("snapshots").join(COMMIT).join("tiny-Q4_K_M.gguf"));
    assert_eq!((file.bytes, file.sha256.as_deref()), (300_000, Some(sha256(&four).as_str())));
    assert_eq!(file.source.unwrap(), format!("hf:{REPOSITORY}@{COMMIT}"));
    let link = |path: &str| fs::read_link(hf(&stage).join("snapshots").join(COMMIT).join(path)).unwrap();
    assert_eq!(link("tiny-Q4_K_M.gguf"), Path::new("../../blobs").join(sha256(&four)));
    assert_eq!(fs::read_to_string(hf(&stage).join("refs/main")).unwrap(), COMMIT);

    stage.resolve_called("hf:Org/Tiny-GGUF:q8_0", stage.options()).0.unwrap();
    assert_eq!(link("sub/tiny-Q8_0.gguf"), Path::new("../../../blobs").join(sha256(&eight)));
    let mut expected = vec![
        format!("blobs/{}", sha256(&four)),
        format!("blobs/{}", sha256(&eight)),
        "refs/main".to_string(),
        format!("snapshots/{COMMIT}/sub/tiny-Q8_0.gguf"),
        format!("snapshots/{COMMIT}/tiny-Q4_K_M.gguf"),
    ];
    expected.sort();
    assert_eq!(files_in(&hf(&stage)), expected);

    // Once here, neither costs a request, and the packs of the first know it by its hash.
    let count = stage.server.request_count();
    for name in ["hf:Org/Tiny-GGUF", "hf:Org/Tiny-GGUF:Q8_0", "hf:Org/Tiny-GGUF/tiny-Q8_0.gguf"] {
        assert!(stage.resolve_called(name, offline(&stage)).0.is_ok(), "{name}");
    }
    assert_eq!(stage.server.request_count(), count);
    let known = |path: &Path| duan_hub::verified_sha256(stage.cache.path(), &path.canonicalize().unwrap());
    assert_eq!(known(&file.path), Some(sha256(&four)));
    assert_eq!(known(&stage.wheel_file()), None);
}

#[cfg(unix)]
#[test]
fn what_python_fetched_is_found_and_verified_without_a_request() {
    let stage = Stage::new();
    let (_, eight) = put_gguf(&stage);
    let snapshot = hf(&stage).join("snapshots").join(COMMIT);
    fs::create_dir_all(snapshot.join("sub")).unwrap();
    fs::create_dir_all(hf(&stage).join("blobs")).unwrap();
    fs::create_dir_all(hf(&stage).join("refs")).unwrap();
    let blob = hf(&stage).join("blobs").join(sha256(&eight));
    fs::write(&blob, &eight).unwrap();
    let target = Path::new("../../../blobs").join(sha256(&eight));
    std::os::unix::fs::symlink(target, snapshot.join("sub/tiny-Q8_0.gguf")).unwrap();
    fs::write(hf(&stage).join("refs/main"), COMMIT).unwrap();

    let name = "hf:Org/Tiny-GGUF:Q8_0";
    let (result, events) = stage.resolve_called(name, stage.options());
    assert_eq!(result.unwrap().path, snapshot.join("sub/tiny-Q8_0.gguf"));
    assert!(events.iter().any(|event| matches!(event, Progress::Verifying { .. })));
    assert!(!stage.resolve_called(name, stage.options()).1.iter().any(|e| matches!(e, Progress::Verifying { .. })));
    assert_eq!(stage.server.request_count(), 0);
    // Without a quantization another file may be meant: only where nobody can be asked it is this one.
    assert!(stage.resolve_called("hf:Org/Tiny-GGUF", offline(&stage)).0.is_ok());
    // What another program brought is not duan's to delete.
    let hub = Hub::new(stage.options()).unwrap();
    let removed = hub.remove(name).unwrap();
    assert_eq!(removed.kept, Some(snapshot.join("sub/tiny-Q8_0.gguf")));
    assert!(blob.exists());

    // A file that is not what its name says is fetched anew.
    fs::write(&blob, noise(1, 500_000)).unwrap();
    let file = stage.resolve_called(name, stage.options()).0.unwrap();
    assert!(fs::read(&file.path).unwrap() == eight);
    assert!(stage.server.request_count() > 0);
    hub.remove(name).unwrap();
    assert!(!blob.exists() && !snapshot.join("sub").exists());
}

#[test]
fn a_checkpoint_folder_is_fetched_whole_and_verified_by_both_hashes() {
    let stage = Stage::new();
    put_checkpoint(&stage);
    let folder = stage.resolve_called("hf:Org/Tiny", stage.options()).0.unwrap();
    assert_eq!(files_in(&folder.path), ["config.json", "model.safetensors", "tokenizer.json"]);
    for (path, bytes) in checkpoint().iter().filter(|(path, _)| *path != "README.md") {
        assert!(fs::read(folder.path.join(path)).unwrap() == *bytes, "{path}");
    }
    assert_eq!((folder.bytes, folder.sha256.clone()), (400_025, None));
    let blob = folder.path.join("../../blobs").join(git_blob(&checkpoint()[0].1));
    assert!(blob.exists(), "small files have git's name");
    let hub = Hub::new(stage.options()).unwrap();
    assert_eq!((hub.list().unwrap()[0].bytes, hub.list().unwrap()[0].state), (400_025, CacheState::Verified));
    let removed = hub.remove("hf:Org/Tiny").unwrap();
    assert!(removed.bytes >= 400_025 && removed.kept.is_none(), "{removed:?}");
    assert!(!folder.path.exists() && !blob.exists());

    // A small file with other bytes of the same length is found out by git's name.
    let place = format!("/Org/Tiny/resolve/{COMMIT}/config.json");
    stage.server.script(&place, [Answer::Body("text/plain", br#"{"model_type": "llamb"}"#.to_vec())]);
    let error = stage.resolve_called("hf:Org/Tiny", stage.options()).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongHash, "{error}");
    assert_eq!(hub.list().unwrap(), []);
}

#[test]
fn a_split_model_is_fetched_as_a_set() {
    let stage = Stage::new();
    let (one, two) = (noise(1, 200_000), noise(2, 100_000));
    let files: &[(&str, &[u8])] =
        &[("Q8_0/m-00001-of-00002.gguf", &one), ("Q8_0/m-00002-of-00002.gguf", &two), ("m-F16.gguf", b"GGUF")];
    stage.server.put_hugging_face(REPOSITORY, files);
    let file = stage.resolve_called("hf:Org/Tiny-GGUF:Q8_0", stage.options()).0.unwrap();
    assert!(file.path.ends_with("Q8_0/m-00001-of-00002.gguf"), "{file:?}");
    assert_eq!((file.bytes, file.sha256), (300_000, None));
    assert!(fs::read(file.path.with_file_name("m-00002-of-00002.gguf")).unwrap() == two);
    assert!(stage.resolve_called("hf:Org/Tiny-GGUF:Q8_0", offline(&stage)).0.is_ok());
    // Where a piece is gone, only that one is fetched again.
    let cdn = format!("/cdn/{}", sha256(&two));
    let blob = file.path.with_file_name("m-00002-of-00002.gguf").canonicalize().unwrap();
    fs::remove_file(blob).unwrap();
    assert!(stage.resolve_called("hf:Org/Tiny-GGUF:Q8_0", stage.options()).0.is_ok());
    assert_eq!(stage.server.sent_bytes(&cdn), 200_000);
    assert_eq!(stage.server.sent_bytes(&format!("/cdn/{}", sha256(&one))), 200_000);
}

#[test]
fn an_interrupted_repository_is_listed_resumed_and_removed() {
    let stage = Stage::new();
    let (four, _) = put_gguf(&stage);
    let cdn = format!("/cdn/{}", sha256(&four));
    let once = || stage.resolve_called("hf:Org/Tiny-GGUF", HubOptions { retries: 0, ..stage.options() }).0;
    stage.server.script(&cdn, [Answer::CutAfter(100_000)]);
    assert_eq!(once().unwrap_err().kind(), ErrorKind::Network);
    let hub = Hub::new(stage.options()).unwrap();
    let listed = &hub.list().unwrap()[0];
    assert_eq!((listed.name.as_str(), listed.state), ("hf:Org/Tiny-GGUF", CacheState::Partial));
    assert!(listed.bytes >= 100_000, "{listed:?}");
    assert!(!hf(&stage).join("snapshots").join(COMMIT).join("tiny-Q4_K_M.gguf").exists());
    once().unwrap();
    assert_eq!(stage.server.sent_bytes(&cdn), 300_000, "nothing is fetched twice");
    hub.remove("hf:Org/Tiny-GGUF").unwrap();

    stage.server.script(&cdn, [Answer::CutAfter(100_000)]);
    once().unwrap_err();
    assert!(hub.remove("hf:Org/Tiny-GGUF").unwrap().bytes >= 100_000);
    assert!(files_in(&hf(&stage).join("blobs")).is_empty());
    assert_eq!(hub.list().unwrap(), []);
}

#[test]
fn refusals_and_absences_say_what_to_do() {
    let stage = Stage::new();
    put_gguf(&stage);
    let revision = "/api/models/Org/Tiny-GGUF/revision/main";
    let anonymous = || HubOptions {
        hugging_face: SiteOptions { token: Some("not a token".into()), ..stage.options().hugging_face },
        ..stage.options()
    };
    for (answer, options, kind, text) in [
        (Answer::Status(401, "X-Error-Code: GatedRepo\r\n"), anonymous(), ErrorKind::Denied, "set it as HF_TOKEN"),
        (Answer::Status(403, "X-Error-Code: GatedRepo\r\n"), stage.options(), ErrorKind::Denied, "accept it on"),
        (Answer::Status(401, ""), anonymous(), ErrorKind::Denied, "no such model"),
        (Answer::Status(404, "X-Error-Code: RepoNotFound\r\n"), stage.options(), ErrorKind::NotFound, "check the name"),
        (Answer::Body("text/html", b"<html>".to_vec()), stage.options(), ErrorKind::WebPage, "sign-in page"),
        (
            Answer::Body("application/json", b"{\"sha\": \"../x\"}".to_vec()),
            stage.options(),
            ErrorKind::BadIndex,
            "HF_ENDPOINT",
        ),
    ] {
        stage.server.script(revision, [answer]);
        let error = stage.resolve_called("hf:Org/Tiny-GGUF", options).0.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.to_string().contains("hf_secret"), "{error}");
    }
    let error = stage.resolve_called("hf:Org/Tiny-GGUF:Q2_K", stage.options()).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotInRepository);
    assert!(error.to_string().contains("its GGUF files: sub/tiny-Q8_0.gguf, tiny-Q4_K_M.gguf"), "{error}");
    let error = stage.resolve_called("hf:Org/Tiny-GGUF", offline(&stage)).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Offline);
    stage.server.script(revision, [Answer::Status(429, "Retry-After: 0\r\n")]);
    assert!(stage.resolve_called("hf:Org/Tiny-GGUF", stage.options()).0.is_ok(), "asked again after the pause");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut options = stage.options();
    options.hugging_face.endpoint = Some(format!("http://{closed}"));
    let error = stage.resolve_called("hf:Org/Other", options).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(error.to_string().contains("HF_ENDPOINT") && error.to_string().contains("ms:org/name"), "{error}");
    // A proposal's revision is one part of the address.
    let error = stage.resolve_called("hf:Org/Tiny-GGUF@refs/pr/1:Q8_0", stage.options()).0.unwrap_err();
    assert!(error.to_string().contains("revision/refs%2Fpr%2F1"), "{error}");
}

#[test]
fn modelscope_is_fetched_verified_and_found_again() {
    let stage = Stage::new();
    let (four, eight) = put_gguf(&stage);
    let file = stage.resolve_called("ms:Org/Tiny-GGUF:Q8_0", stage.options()).0.unwrap();
    assert_eq!(file.path, stage.cache.path().join("ms/models/Org/Tiny-GGUF/sub/tiny-Q8_0.gguf"));
    assert!(fs::read(&file.path).unwrap() == eight);
    assert_eq!(file.sha256, Some(sha256(&eight)));
    assert_eq!(files_in(&stage.cache.path().join("ms")), ["models/Org/Tiny-GGUF/sub/tiny-Q8_0.gguf"]);
    let count = stage.server.request_count();
    assert!(stage.resolve_called("ms:Org/Tiny-GGUF:Q8_0", offline(&stage)).0.is_ok());
    assert_eq!(stage.server.request_count(), count);
    assert!(stage.server.requests("/api/v1/models/Org/Tiny-GGUF/repo/files?Revision=master&Recursive=true").len() == 1);

    // What its own program fetched needs no download: the list says whether it is right.
    let place = stage.cache.path().join("ms/models/Org/Tiny-GGUF/tiny-Q4_K_M.gguf");
    fs::write(&place, &four).unwrap();
    let url = "/api/v1/models/Org/Tiny-GGUF/repo?Revision=master&FilePath=tiny-Q4_K_M.gguf";
    assert_eq!(stage.resolve_called("ms:Org/Tiny-GGUF", stage.options()).0.unwrap().path, place);
    assert_eq!(stage.server.requests(url).len(), 0);
    // Damaged, it is fetched; a wrong one never gets the name.
    Hub::new(stage.options()).unwrap().remove("ms:Org/Tiny-GGUF").unwrap();
    fs::write(&place, &four[1..]).unwrap();
    stage.server.script(url, [Answer::Body("x/y", noise(1, 300_000))]);
    let error = stage.resolve_called("ms:Org/Tiny-GGUF", stage.options()).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongHash);
    assert_eq!(fs::read(&place).unwrap().len(), 299_999, "the old file stays until a whole one is there");
    assert!(stage.resolve_called("ms:Org/Tiny-GGUF", stage.options()).0.is_ok());
    assert!(fs::read(&place).unwrap() == four);
}

#[test]
fn a_file_that_changed_in_a_shared_cache_is_verified_again() {
    let stage = Stage::new();
    put_gguf(&stage);
    let name = "ms:Org/Tiny-GGUF:Q4_K_M";
    let path = stage.resolve_called(name, stage.options()).0.unwrap().path;
    let mut bytes = fs::read(&path).unwrap();
    let touch = || {
        let time = fs::metadata(&path).unwrap().modified().unwrap() + Duration::from_secs(5);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    touch();
    let (result, events) = stage.resolve_called(name, offline(&stage));
    assert!(result.is_ok() && events.iter().any(|event| matches!(event, Progress::Verifying { .. })));
    bytes[1000] ^= 1;
    fs::write(&path, &bytes).unwrap();
    touch();
    let error = stage.resolve_called(name, stage.options()).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains(&format!("duan remove {name}")), "{error}");
    Hub::new(stage.options()).unwrap().remove(name).unwrap();
    assert!(stage.resolve_called(name, stage.options()).0.is_ok());
}

/// Two states of a repository: weights in several files with an index, then in one file.
fn put_two_revisions(stage: &Stage) -> [Vec<(&'static str, Vec<u8>)>; 2] {
    let one = vec![
        ("config.json", b"{1}".to_vec()),
        ("tokenizer.json", b"{1}".to_vec()),
        ("chat_template.jinja", b"one".to_vec()),
        ("model-00001-of-00001.safetensors", noise(1, 100_000)),
        ("model.safetensors.index.json", br#"{"weight_map": {"w": "model-00001-of-00001.safetensors"}}"#.to_vec()),
    ];
    let two = vec![
        ("config.json", b"{2}".to_vec()),
        ("tokenizer.json", b"{2}".to_vec()),
        ("model.safetensors", noise(2, 100_000)),
    ];
    for (revision, files) in [("r1", &one), ("r2", &two), ("master", &one)] {
        let files: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (*path, &bytes[..])).collect();
        stage.server.put_model_scope_at("Org/Tiny", revision, &files);
    }
    [one, two]
}

#[test]
fn a_folder_never_holds_what_is_of_another_revision() {
    let stage = Stage::new();
    let [one, two] = put_two_revisions(&stage);
    let holds = |folder: &Path, files: &[(&str, Vec<u8>)]| {
        let mut names: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
        names.sort_unstable();
        assert_eq!(files_in(folder), names);
        assert!(files.iter().all(|(path, bytes)| fs::read(folder.join(path)).unwrap() == *bytes));
    };
    let resolve = |name: &str, options: HubOptions| stage.resolve_called(name, options).0;
    let first = resolve("ms:Org/Tiny@r1/", stage.options()).unwrap().path;
    let second = resolve("ms:Org/Tiny@r2/", stage.options()).unwrap().path;
    holds(&first, &one);
    holds(&second, &two);
    // Also where nobody can be asked each is what it was.
    for (name, files) in [("ms:Org/Tiny@r1/", &one), ("ms:Org/Tiny@r2/", &two)] {
        holds(&resolve(name, offline(&stage)).unwrap().path, files);
    }
    assert_eq!(resolve("ms:Org/Tiny@r3/", offline(&stage)).unwrap_err().kind(), ErrorKind::Offline);

    // The main branch moves, and what its earlier state left would be read with the new one.
    let main = resolve("ms:Org/Tiny", stage.options()).unwrap().path;
    holds(&main, &one);
    let moved: Vec<(&str, &[u8])> = two.iter().map(|(path, bytes)| (*path, &bytes[..])).collect();
    stage.server.put_model_scope("Org/Tiny", &moved);
    let error = resolve("ms:Org/Tiny/", stage.options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("chat_template.jinja is not of ms:Org/Tiny/"), "{error}");
    Hub::new(stage.options()).unwrap().remove("ms:Org/Tiny").unwrap();
    let main = resolve("ms:Org/Tiny/", stage.options()).unwrap().path;
    holds(&main, &two);
    // What comes in later is seen as well.
    fs::write(main.join("model.safetensors.index.json"), "{}").unwrap();
    for options in [stage.options(), offline(&stage)] {
        let error = resolve("ms:Org/Tiny/", options).unwrap_err();
        assert!(error.to_string().contains("model.safetensors.index.json is not of"), "{error}");
    }
    fs::remove_file(main.join("model.safetensors.index.json")).unwrap();
    assert!(resolve("ms:Org/Tiny/", stage.options()).is_ok());
}

/// In a cache that others write to, a link may have been made to lead to a file of the user's.
#[cfg(unix)]
#[test]
fn removing_a_model_deletes_what_was_fetched_and_nothing_that_a_link_leads_to() {
    use std::os::unix::fs::symlink;
    let stage = Stage::new();
    let (four, _) = put_gguf(&stage);
    let mine = stage.cache.path().join("mine");
    fs::write(&mine, &four).unwrap();
    let mine = mine.canonicalize().unwrap();
    let name = "hf:Org/Tiny-GGUF";
    let hub = Hub::new(stage.options()).unwrap();
    let blob = hf(&stage).join("blobs").join(sha256(&four));
    // To a file of the user's, also by the name of the contents, and to other contents of the repository.
    let other_name = stage.cache.path().join(sha256(&four));
    fs::write(&other_name, &four).unwrap();
    let others = hf(&stage).join("blobs").join("1".repeat(64));
    for target in [&mine, &other_name, &others] {
        let path = stage.resolve_called(name, stage.options()).0.unwrap().path;
        fs::write(&others, &four).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(target, &path).unwrap();
        let removed = hub.remove(name).unwrap();
        assert_eq!((removed.left, removed.kept), (vec![target.canonicalize().unwrap()], None));
        assert!(removed.bytes < 10_000, "{}", removed.bytes);
        assert!(target.exists() && fs::symlink_metadata(&path).is_err());
    }
    assert!(blob.exists(), "no link led to it any more");

    // A folder of the snapshot that leads out of it.
    let name = "hf:Org/Tiny-GGUF:Q8_0";
    let path = stage.resolve_called(name, stage.options()).0.unwrap().path;
    let (folder, away) = (path.parent().unwrap().to_path_buf(), stage.cache.path().join("away"));
    fs::rename(&folder, &away).unwrap();
    symlink(&away, &folder).unwrap();
    assert_eq!(hub.remove(name).unwrap().left.len(), 1);
    assert!(fs::symlink_metadata(away.join("tiny-Q8_0.gguf")).is_ok());
    fs::remove_file(&folder).unwrap();

    // A note that names a folder outside the caches of the sites.
    let name = "ms:Org/Tiny-GGUF:Q4_K_M";
    let path = stage.resolve_called(name, stage.options()).0.unwrap().path;
    let mut options = stage.options();
    options.model_scope.cache_dir = Some(stage.cache.path().join("elsewhere"));
    let removed = Hub::new(options).unwrap().remove(name).unwrap();
    assert_eq!(removed.left, std::slice::from_ref(&path));
    assert!(path.exists());
    assert_eq!(hub.list().unwrap(), []);
}

/// What nobody gave a hash for is used, and not called verified.
#[cfg(unix)]
#[test]
fn what_was_compared_with_nothing_is_not_called_verified() {
    let stage = Stage::new();
    put_gguf(&stage);
    let compared = |name: &str, options: HubOptions| stage.resolve_called(name, options).0.unwrap().is_verified;
    let state = |name: &str| {
        let listed = Hub::new(stage.options()).unwrap().list().unwrap();
        listed.into_iter().find(|model| model.name == name).map(|model| model.state)
    };
    // A plain file in a snapshot, as it is where links are not possible, has nothing that names its hash.
    let path = stage.resolve_called("hf:Org/Tiny-GGUF", stage.options()).0.unwrap();
    assert!(path.is_verified);
    Hub::new(stage.options()).unwrap().remove("hf:Org/Tiny-GGUF").unwrap();
    fs::create_dir_all(path.path.parent().unwrap()).unwrap();
    fs::write(&path.path, b"tampered").unwrap();
    assert!(!compared("hf:Org/Tiny-GGUF", offline(&stage)));
    assert!(compared("hf:Org/Tiny-GGUF", stage.options()), "the server says what it shall be");
    assert_eq!(state("hf:Org/Tiny-GGUF"), Some(CacheState::Verified));

    // ModelScope does not give a hash for every file.
    let page = r#"{"Code": 200, "Success": true, "Data": {"Files": [
        {"Name": "m.gguf", "Path": "m.gguf", "Type": "blob", "Size": 4}]}}"#;
    let list = "/api/v1/models/Org/Bare/repo/files?Revision=master&Recursive=true";
    stage.server.put(list, page.as_bytes().to_vec(), "application/json", None);
    let file = "/api/v1/models/Org/Bare/repo?Revision=master&FilePath=m.gguf";
    stage.server.put(file, b"GGUF".to_vec(), "application/octet-stream", None);
    for options in [stage.options(), stage.options(), offline(&stage)] {
        assert!(!compared("ms:Org/Bare/m.gguf", options));
    }
    assert_eq!(state("ms:Org/Bare/m.gguf"), Some(CacheState::NotCompared));

    stage.server.put("/dir/m.gguf", b"GGUF".to_vec(), "application/octet-stream", None);
    let url = format!("http://{}/dir/m.gguf", stage.server.address);
    assert!(!compared(&url, stage.options()) && !compared(&url, offline(&stage)));
    assert_eq!(state(&url), Some(CacheState::NotCompared));
    let with_hash = format!("{url}#sha256={}", sha256(b"GGUF"));
    assert!(compared(&with_hash, stage.options()) && compared(&with_hash, offline(&stage)));
    assert!(compared(NAME, stage.options()) && compared(NAME, offline(&stage)));
}

/// Sizes that together are more than a number holds.
#[test]
fn sizes_that_no_file_can_have_are_refused() {
    let stage = Stage::new();
    let half = 1_u64 << 63;
    let entries = |sizes: [u64; 2]| {
        let entry = |index: usize| {
            format!(
                r#"{{"type": "file", "path": "m-Q4_K_M-0000{}-of-00002.gguf", "size": {size}, "oid": "{oid}",
                    "lfs": {{"oid": "{sha256}", "size": {size}}}}}"#,
                index + 1,
                size = sizes[index],
                oid = "a".repeat(40),
                sha256 = "b".repeat(64)
            )
        };
        format!("[{}, {}]", entry(0), entry(1)).into_bytes()
    };
    put_gguf(&stage);
    for sizes in [[half, half], [half, 1], [i64::MAX as u64, 1], [u64::MAX, 0]] {
        let tree = format!("/api/models/Org/Tiny-GGUF/tree/{COMMIT}?recursive=1");
        stage.server.script(&tree, [Answer::Body("application/json", entries(sizes))]);
        let error = stage.resolve_called("hf:Org/Tiny-GGUF", stage.options()).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadIndex, "{error}");
        assert!(error.to_string().contains("larger than files can be"), "{error}");
    }
    // An address that is announced so.
    let headers = format!("X-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\n", "c".repeat(64), u64::MAX);
    let served = server::Served {
        bytes: std::sync::Arc::new(b"GGUF".to_vec()),
        content_type: "x/y",
        etag: None,
        headers,
        moved_to: None,
    };
    stage.server.serve("/m.gguf", served);
    let error =
        stage.resolve_called(&format!("http://{}/m.gguf", stage.server.address), stage.options()).0.unwrap_err();
    assert!(error.to_string().contains("which no file can have"), "{error}");
}

/// A server may list for ever, and say more than fits anywhere.
#[test]
fn lists_that_no_model_has_are_refused() {
    let stage = Stage::new();
    put_gguf(&stage);
    let tree = format!("/api/models/Org/Tiny-GGUF/tree/{COMMIT}?recursive=1");
    let page = |bytes: usize| {
        let mut text = vec![b' '; bytes];
        (text[0], text[bytes - 1]) = (b'[', b']');
        server::Served {
            bytes: std::sync::Arc::new(text),
            content_type: "application/json",
            etag: None,
            headers: format!("Link: <{tree}>; rel=\"next\"\r\n"),
            moved_to: None,
        }
    };
    for (bytes, pages) in [(2, 20), (5 << 20, 7), ((16 << 20) + 1, 1)] {
        let asked = stage.server.requests(&tree).len();
        stage.server.serve(&tree, page(bytes));
        let error = stage.resolve_called("hf:Org/Tiny-GGUF", stage.options()).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadIndex, "{error}");
        assert!(error.to_string().contains("more than any model has to list"), "{error}");
        assert_eq!(stage.server.requests(&tree).len() - asked, pages, "{bytes}");
    }
}
