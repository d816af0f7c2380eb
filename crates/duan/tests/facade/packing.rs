//! Laid-out weights that are kept: what a later load reads, and what happens where that cannot be.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use duan::model::gguf::write::GgufWriter;
use duan::model::gguf::{GgufFile, Value};
use duan::packs::{PackOptions, PackReading, Packed};
use duan::{Engine, EngineOptions, OpKind, PackFolder, Packing};
use tempfile::TempDir;

use crate::support::{Told, engine, fixture, options};

const TOKENS: [u32; 9] = [5, 17, 3, 33, 41, 41, 2, 8, 60];

/// A cache, and a model of its own that may be changed.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::copy(fixture("smollm2"), place.model()).unwrap();
        place
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("model.gguf")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn kept(&self) -> PackOptions {
        PackOptions::new(self.cache())
    }

    fn list(&self) -> Vec<Packed> {
        PackFolder::new(&self.cache()).list()
    }

    /// The one pack that there is.
    fn pack(&self) -> PathBuf {
        let packs = files(&self.cache().join("packed"), "pack");
        assert_eq!(packs.len(), 1, "{packs:?}");
        packs.into_iter().next().unwrap()
    }

    /// Logits of a fresh engine as bits, and what it told of packs.
    fn run(&self, packing: Packing) -> (Vec<u32>, Vec<String>) {
        run(&self.model(), EngineOptions { packing, ..options() })
    }

    fn run_kept(&self) -> (Vec<u32>, Vec<String>) {
        self.run(Packing::Kept(self.kept()))
    }
}

fn run(model: &Path, options: EngineOptions) -> (Vec<u32>, Vec<String>) {
    let mut told = Told::default();
    let mut engine = Engine::new(options).unwrap();
    engine.load_model_with(model, |event| told.note(event)).unwrap();
    let told = told.words.into_iter().filter(|word| word.starts_with("Pack")).collect();
    let bits = bits(&mut engine);
    engine.settle();
    (bits, told)
}

fn bits(engine: &mut Engine) -> Vec<u32> {
    let mut bits = Vec::new();
    let add = |_, row: &[f32]| {
        bits.extend(row.iter().map(|x| x.to_bits()));
        ControlFlow::Continue(())
    };
    engine.logits(&TOKENS, add).unwrap();
    bits
}

/// Files below `folder` whose name ends so.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.is_dir() {
        true => files(&path, extension),
        false if path.extension().is_some_and(|found| found == extension) => vec![path],
        false => Vec::new(),
    };
    entries.flat_map(of).collect()
}

fn is_one(told: &[String], what: &str, reason: &str) -> bool {
    told.len() == 1 && told[0].starts_with(what) && told[0].contains(reason)
}

#[test]
fn a_second_load_reads_what_the_first_one_kept_and_gives_the_same_bits() {
    let place = Place::new();
    let (expected, told) = place.run(Packing::InMemory);
    assert_eq!((told.len(), place.cache().exists()), (0, false));
    let (bits, told) = place.run_kept();
    assert!(bits == expected && is_one(&told, "PackKept", "packed"), "{told:?}");
    let list = place.list();
    assert_eq!((list.len(), list[0].packs, &list[0].paths), (1, 1, &vec![place.model().canonicalize().unwrap()]));
    assert_eq!(list[0].bytes, fs::metadata(place.pack()).unwrap().len());
    assert_eq!(files(&place.cache(), "part"), [""; 0].map(PathBuf::from));
    let pack = fs::read(place.pack()).unwrap();
    for reading in [PackReading::Copy, PackReading::Map] {
        let (bits, told) = place.run(Packing::Kept(PackOptions { reading, ..place.kept() }));
        assert!(bits == expected && told.is_empty(), "{reading:?} {told:?}");
    }
    assert!(fs::read(place.pack()).unwrap() == pack, "nothing was written again");
}

#[test]
fn what_is_read_is_the_pack_and_not_the_file() {
    let place = Place::new();
    let (expected, _) = place.run_kept();
    // The weights change behind the pack's back: same inode, length and time. What is not laid out is left alone.
    let modified = fs::metadata(place.model()).unwrap().modified().unwrap();
    let file = GgufFile::open(&place.model()).unwrap();
    let tensor = file.tensor("blk.0.ffn_down.weight").unwrap();
    let mut bytes = fs::read(place.model()).unwrap();
    bytes[tensor.offset as usize..][..64].fill(0x3e);
    let handle = fs::File::options().write(true).open(place.model()).unwrap();
    std::io::Write::write_all(&mut &handle, &bytes).unwrap();
    handle.set_modified(modified).unwrap();
    assert!(place.run_kept().0 == expected);
    assert!(place.run(Packing::InMemory).0 != expected);
}

#[test]
fn without_packing_nothing_is_written_and_the_answer_is_the_same() {
    let place = Place::new();
    let expected = place.run(Packing::InMemory);
    assert!(place.run(Packing::AsInFile) == expected);
    assert!(!place.cache().exists());
    let engine = engine(&place.model(), EngineOptions { packing: Packing::AsInFile, ..options() });
    // Nothing is filled up to whole panels.
    assert_eq!(engine.memory().unwrap()[0].weights_bytes, engine.summary().unwrap().memory.weights_bytes - 4 * 5 * 48);
    drop(engine);
    let kept = EngineOptions { packing: Packing::Kept(place.kept()), device: Some("reference".into()), ..options() };
    run(&place.model(), kept);
    assert!(!place.cache().exists(), "the reference lays nothing out");
}

#[test]
fn a_pack_that_is_damaged_cut_or_foreign_is_made_anew() {
    let place = Place::new();
    let (expected, _) = place.run_kept();
    let good = fs::read(place.pack()).unwrap();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let id = good.len() - 64;
    let wrong: [(Vec<u8>, &str); 8] = [
        (flipped(0), "no pack"),
        (flipped(8), "another version"),
        (flipped(30), "other matrices or layouts"),
        (flipped(70_000), "damaged near byte"),
        (flipped(id), "another model's"),
        (good[..good.len() / 2].to_vec(), "does not end"),
        (b"x".to_vec(), "1 bytes only"),
        (Vec::new(), "0 bytes only"),
    ];
    for (bytes, reason) in wrong {
        fs::write(place.pack(), bytes).unwrap();
        let (bits, told) = place.run_kept();
        assert!(bits == expected, "{reason}");
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("PackDiscarded") && told[0].contains(reason), "{told:?} for {reason}");
        assert!(told[1].starts_with("PackKept"), "{told:?}");
        assert!(fs::read(place.pack()).unwrap() == good, "{reason}");
    }
}

#[test]
fn another_file_under_the_same_name_is_another_model() {
    let place = Place::new();
    let (old, _) = place.run_kept();
    // The same length, other weights.
    let file = GgufFile::open(&place.model()).unwrap();
    let at = file.tensor("blk.1.ffn_up.weight").unwrap().offset as usize;
    let mut bytes = fs::read(place.model()).unwrap();
    bytes[at..at + 400].fill(0x3d);
    fs::remove_file(place.model()).unwrap();
    fs::write(place.model(), &bytes).unwrap();
    let expected = place.run(Packing::InMemory).0;
    assert!(expected != old);
    let (bits, told) = place.run_kept();
    assert!(bits == expected && is_one(&told, "PackKept", ""), "{told:?}");
    let list = place.list();
    assert_eq!((list.len(), list[0].packs), (1, 1), "nobody needs the old one");
    assert_eq!(place.run_kept(), (expected, Vec::new()));
}

#[test]
fn packs_go_with_a_file_that_changed_and_stay_where_only_its_device_has_another_number() {
    let place = Place::new();
    place.run_kept();
    let note = place.pack().with_file_name("model.json");
    let change = |key: &str| {
        let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
        let value = &mut json["places"][0][0][key];
        *value = (value.as_u64().unwrap() + 1).into();
        fs::write(&note, json.to_string()).unwrap();
    };
    let run_other = |name: &str| {
        run(&fixture(name), EngineOptions { packing: Packing::Kept(place.kept()), ..options() });
        place.list().len()
    };
    // As another computer that shares the disk sees it.
    change("device");
    change("inode");
    assert_eq!(run_other("qwen2"), 2);
    change("mtime_ns");
    assert_eq!(run_other("gemma3"), 2, "the one that changed has made place");
    assert!(!note.exists());
}

#[test]
fn the_same_file_in_another_place_finds_its_pack() {
    let place = Place::new();
    let (expected, _) = place.run_kept();
    let copy = place.folder.path().join("copy.gguf");
    fs::copy(place.model(), &copy).unwrap();
    let kept = || EngineOptions { packing: Packing::Kept(place.kept()), ..options() };
    assert_eq!(run(&copy, kept()), (expected.clone(), Vec::new()));
    fs::remove_file(place.model()).unwrap();
    assert_eq!(run(&copy, kept()), (expected, Vec::new()));
    let list = place.list();
    let paths: Vec<_> = list[0].paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!((list.len(), paths), (1, vec!["copy.gguf", "model.gguf"]));
}

#[test]
fn where_the_cpu_multiplies_nothing_there_is_no_pack() {
    let place = Place::new();
    let refuse = vec![OpKind::Linear];
    let packing = Packing::Kept(place.kept());
    let (_, told) = run(&place.model(), EngineOptions { refuse, packing, ..options() });
    // All matrices but the table are multiplied with by the other device.
    assert!(told.is_empty(), "{told:?}");
    assert!(!place.cache().exists());
}

#[test]
fn where_nothing_can_be_written_the_start_goes_on() {
    let place = Place::new();
    let (expected, _) = place.run(Packing::InMemory);
    // A file where the folder should be is in the way of everybody, also of those who may do anything.
    fs::write(place.cache(), "").unwrap();
    let (bits, told) = place.run_kept();
    assert!(bits == expected && told.is_empty(), "a cache that cannot be written to is one by intent: {told:?}");
    fs::remove_file(place.cache()).unwrap();
    let (bits, told) = place.run(Packing::Kept(PackOptions { max_bytes: 100, ..place.kept() }));
    assert!(bits == expected && is_one(&told, "PackNotKept", "100 may be taken"), "{told:?}");
    assert_eq!(place.list(), []);
}

#[test]
fn the_pack_that_was_not_used_for_longest_makes_room() {
    let place = Place::new();
    let kept =
        |max_bytes| EngineOptions { packing: Packing::Kept(PackOptions { max_bytes, ..place.kept() }), ..options() };
    let all = u64::MAX;
    for name in ["smollm2", "qwen2", "gemma3"] {
        run(&fixture(name), kept(all));
    }
    let bytes_of = |name: &str| {
        let found = place.list().into_iter().find(|packed| packed.paths[0].ends_with(format!("{name}/model.gguf")));
        found.map(|packed| packed.bytes)
    };
    let (qwen2, gemma3) = (bytes_of("qwen2").unwrap(), bytes_of("gemma3").unwrap());
    // Files' times have steps, so they are set here: gemma3 was used last, and qwen2 before.
    for (index, name) in ["smollm2", "qwen2", "gemma3"].into_iter().enumerate() {
        let id =
            place.list().into_iter().find(|packed| packed.paths[0].ends_with(format!("{name}/model.gguf"))).unwrap().id;
        for pack in files(&place.cache().join("packed").join(id), "pack") {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 + index as u64);
            fs::File::open(pack).unwrap().set_modified(time).unwrap();
        }
    }
    let new = bytes_of("smollm2").unwrap();
    run(&fixture("smollm2"), kept(all));
    // A copy with one key more is another model.
    let other = place.folder.path().join("other.gguf");
    let file = GgufFile::open(&fixture("smollm2")).unwrap();
    let mut writer = GgufWriter::new("other");
    for (key, value) in file.metadata().iter() {
        writer.key(key, value.clone()).unwrap();
    }
    writer.key("general.version", "other").unwrap();
    for tensor in file.tensors() {
        let bytes = file.tensor_data(tensor).unwrap().to_vec();
        writer.tensor(&tensor.name, &tensor.dims, tensor.type_id, bytes).unwrap();
    }
    fs::write(&other, writer.to_bytes()).unwrap();
    // Room for all but one: the use of smollm2 just now made qwen2 the oldest.
    let (_, told) = run(&other, kept(2 * new + gemma3 + qwen2 - 1));
    assert!(is_one(&told, "PackKept", ""), "{told:?}");
    assert_eq!(bytes_of("qwen2"), None);
    assert_eq!((bytes_of("smollm2"), bytes_of("gemma3"), place.list().len()), (Some(new), Some(gemma3), 3));
    assert!(!place.list().iter().any(|packed| packed.packs == 0));
}

#[test]
fn two_that_start_at_once_do_not_disturb_each_other() {
    let place = Place::new();
    let (expected, _) = place.run(Packing::InMemory);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| place.run_kept())).collect();
        for thread in threads {
            let (bits, told) = thread.join().unwrap();
            assert!(bits == expected && !told.iter().any(|word| !word.starts_with("PackKept")), "{told:?}");
        }
    });
    assert_eq!(place.list().len(), 1);
    assert_eq!(files(&place.cache(), "part").len(), 0);
    assert_eq!(place.run_kept(), (expected, Vec::new()));
}

#[test]
fn what_a_process_left_unfinished_is_cleaned_up_and_what_one_writes_is_not() {
    let place = Place::new();
    let packed = place.cache().join("packed");
    fs::create_dir_all(&packed).unwrap();
    let (left, written) = (packed.join("cpu-1-2.part"), packed.join("cpu-1-3.part"));
    fs::write(&left, "half").unwrap();
    fs::write(&written, "half").unwrap();
    let writer = fs::File::options().write(true).open(&written).unwrap();
    writer.lock().unwrap();
    place.run_kept();
    assert_eq!(files(&packed, "part"), [written]);
    assert_eq!(place.list().len(), 1);
}

#[test]
fn packs_are_removed_by_model_and_all_together() {
    let place = Place::new();
    let other = place.folder.path().join("other.gguf");
    fs::copy(fixture("qwen2"), &other).unwrap();
    place.run_kept();
    run(&other, EngineOptions { packing: Packing::Kept(place.kept()), ..options() });
    let list = place.list();
    assert_eq!(list.len(), 2);
    let folder = PackFolder::new(&place.cache());
    let removed = folder.remove(|packed| packed.paths[0].ends_with("other.gguf")).unwrap();
    let (gone, stays) =
        if list[0].paths[0].ends_with("other.gguf") { (&list[0], &list[1]) } else { (&list[1], &list[0]) };
    assert_eq!((removed.models, removed.bytes, &place.list()[..]), (1, gone.bytes, std::slice::from_ref(stays)));
    assert_eq!(folder.remove(|_| true).unwrap().models, 1);
    assert!(!folder.path().exists(), "nothing is left");
    assert_eq!(folder.remove(|_| true).unwrap().models, 0);
}

#[test]
fn a_model_of_several_files_has_one_pack() {
    let place = Place::new();
    let file = GgufFile::open(&place.model()).unwrap();
    let half = file.tensors().len() / 2;
    let mut paths = Vec::new();
    for (number, tensors) in [&file.tensors()[..half], &file.tensors()[half..]].into_iter().enumerate() {
        let name = format!("split-{:05}-of-00002.gguf", number + 1);
        let mut writer = GgufWriter::new(&name);
        if number == 0 {
            for (key, value) in file.metadata().iter() {
                writer.key(key, value.clone()).unwrap();
            }
        }
        writer.key("split.no", Value::U16(number as u16)).unwrap();
        writer.key("split.count", Value::U16(2)).unwrap();
        writer.key("split.tensors.count", Value::I32(file.tensors().len() as i32)).unwrap();
        for tensor in tensors {
            let bytes = file.tensor_data(tensor).unwrap().to_vec();
            writer.tensor(&tensor.name, &tensor.dims, tensor.type_id, bytes).unwrap();
        }
        paths.push(place.folder.path().join(name));
        fs::write(&paths[number], writer.to_bytes()).unwrap();
    }
    let kept = || EngineOptions { packing: Packing::Kept(place.kept()), ..options() };
    let (expected, told) = run(&paths[0], kept());
    assert!(is_one(&told, "PackKept", "") && expected == place.run(Packing::InMemory).0);
    // By whichever of its files it is opened.
    assert_eq!(run(&paths[1], kept()), (expected.clone(), Vec::new()));
    let list = place.list();
    assert_eq!((list.len(), list[0].packs), (1, 1));
    // A change of the second file is seen too.
    let mut bytes = fs::read(&paths[1]).unwrap();
    let at = bytes.len() - 4000;
    bytes[at..at + 400].fill(0x3d);
    fs::remove_file(&paths[1]).unwrap();
    fs::write(&paths[1], bytes).unwrap();
    let (bits, told) = run(&paths[0], kept());
    assert!(is_one(&told, "PackKept", "") && bits != expected, "{told:?}");
}
