//! What other processes do to packs and models between one look and the next.

use duan_model::gguf::write::GgufWriter;
use tempfile::TempDir;

use super::*;

/// A cache with one fetched model in it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.model().parent().unwrap()).unwrap();
        place.put_model("first");
        place
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("models/m/model.gguf")
    }

    /// Replaces the model by another one, and gives the hash that the hub knows it by.
    fn put_model(&self, contents: &str) -> String {
        let beside = self.model().with_extension("new");
        let mut writer = GgufWriter::new("m");
        writer.key("general.version", contents).unwrap();
        fs::write(&beside, writer.to_bytes()).unwrap();
        fs::rename(&beside, self.model()).unwrap();
        let metadata = fs::metadata(self.model()).unwrap();
        let modified = metadata.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let sha256 = format!("{:02x}", contents.len()).repeat(32);
        let manifest = serde_json::json!({
            "name": "m", "source": "a test", "file": "model.gguf", "bytes": metadata.len(), "sha256": sha256,
            "licence": null, "fetched_unix_s": 1, "verified_mtime_ns": modified.as_nanos() as u64,
        });
        fs::write(self.model().with_file_name("manifest.json"), manifest.to_string()).unwrap();
        sha256
    }

    fn packs(&self, max_bytes: u64) -> ModelPacks {
        let options = PackOptions { max_bytes, ..PackOptions::new(self.folder.path()) };
        ModelPacks::of(&Checkpoint::open(&self.model()).unwrap(), &options).unwrap()
    }

    fn parts(&self) -> usize {
        let entries = fs::read_dir(self.folder.path().join("packed")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|found| found == "part")).count()
    }
}

fn keep(packs: &ModelPacks, key: &str) {
    let mut writer = packs.create(key, 1000).unwrap();
    writer.write(&[7; 1000]).unwrap();
    writer.finish().unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_that_was_replaced_while_it_was_open_does_not_get_the_new_ones_id() {
    let place = Place::new();
    let old = Checkpoint::open(&place.model()).unwrap();
    let new_id = place.put_model("another one");
    let options = PackOptions::new(place.folder.path());
    let packs = ModelPacks::of(&old, &options).unwrap();
    assert_eq!(packs.id, None);
    // It is nowhere any more, so nothing is kept of it either.
    let writer = packs.create("key", 1000).unwrap();
    writer.finish().unwrap_err();
    assert_eq!((PackFolder::new(place.folder.path()).list(), place.parts()), (Vec::new(), 0));
    assert_eq!(place.packs(u64::MAX).id, Some(new_id));
}

#[cfg(unix)]
#[test]
fn only_the_pack_that_was_read_is_thrown_away() {
    let place = Place::new();
    let packs = place.packs(u64::MAX);
    keep(&packs, "key");
    let path = packs.folder.pack(packs.id.as_ref().unwrap(), "key");
    assert_eq!(packs.open("key").unwrap().bytes(), 1000);
    // Another process makes it anew.
    let old = fs::read(&path).unwrap();
    fs::write(path.with_extension("new"), &old).unwrap();
    fs::rename(path.with_extension("new"), &path).unwrap();
    packs.discard("key", "damaged");
    assert_eq!(fs::read(&path).unwrap(), old);
    assert!(packs.open("key").is_some());
    packs.discard("key", "damaged");
    assert!(!path.exists());
    assert_eq!(packs.take_notices().iter().filter(|notice| matches!(notice, Notice::Discarded(_))).count(), 2);
}

#[test]
fn packs_make_room_only_for_one_that_will_be_written() {
    let place = Place::new();
    let packs = place.packs(u64::MAX);
    keep(&packs, "a");
    let packed = || PackFolder::new(place.folder.path()).list().iter().map(|packed| packed.packs).sum::<usize>();
    let writing = packs.create("b", 1000).unwrap();
    // There is room for one.
    let others = place.packs(1100);
    assert!(others.create("b", 1000).is_none());
    assert_eq!((packed(), others.take_notices()), (1, Vec::new()), "another process writes it");
    assert!(others.create("c", 1100).is_none());
    assert_eq!((packed(), place.parts()), (1, 1));
    let told = others.take_notices();
    assert!(matches!(&told[..], [Notice::NotKept(reason)] if reason.contains("1100 may be taken")), "{told:?}");
    drop(writing);
    assert_eq!(place.parts(), 0);
    keep(&others, "b");
    assert_eq!(packed(), 1, "the older one made room");
}

#[test]
fn what_is_arranged_is_not_told_at_each_start() {
    let place = Place::new();
    let packs = place.packs(0);
    assert!(packs.create("key", 1000).is_none());
    fs::write(packs.path(), "a file in the way of the folder").unwrap();
    let packs = place.packs(u64::MAX);
    assert!(packs.create("key", 1000).is_none());
    assert_eq!(packs.take_notices(), []);
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_part_destroys_nothing() {
    let place = Place::new();
    let packs = place.packs(u64::MAX);
    let mine = place.folder.path().join("mine");
    fs::write(&mine, "precious").unwrap();
    fs::create_dir_all(packs.path()).unwrap();
    std::os::unix::fs::symlink(&mine, packs.folder.part(&packs.model, "key").unwrap()).unwrap();
    assert!(packs.create("key", 1000).is_none());
    assert_eq!(fs::read(&mine).unwrap(), b"precious");
}

#[test]
fn what_dead_processes_left_goes_when_a_model_is_opened() {
    let place = Place::new();
    let packs = place.packs(u64::MAX);
    keep(&packs, "key");
    fs::write(packs.path().join("cpu-1-2.part"), "half").unwrap();
    assert_eq!(place.parts(), 1);
    assert!(place.packs(u64::MAX).open("key").is_some());
    assert_eq!(place.parts(), 0);
}
