//! Packs in a store that is memory: what is written is read back, and whatever is wrong with one is found.

use std::collections::HashMap;

use duan_backend::conformance::models;
use duan_backend::{PackReading, PackStore, Packing};
use duan_model::Model;
use duan_model::graph::Op;

use super::super::weights::DeviceWeights;
use super::*;
use crate::isa::Isa;
use crate::placement::Placement;
use crate::self_test::Picker;

#[derive(Debug, Default)]
struct Shared {
    packs: HashMap<String, Vec<u8>>,
    told: Vec<String>,
}

#[derive(Debug, Default, Clone)]
struct Store(Arc<Mutex<Shared>>);

struct Writer {
    store: Store,
    key: String,
    bytes: Vec<u8>,
    announced: u64,
}

#[derive(Debug)]
struct Reader(Vec<u8>);

impl Store {
    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.0.lock().unwrap()
    }

    /// What was asked of it since this was last asked.
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.shared().told)
    }

    fn only_pack(&self) -> (String, Vec<u8>) {
        let packs: Vec<_> = self.shared().packs.iter().map(|(key, bytes)| (key.clone(), bytes.clone())).collect();
        assert_eq!(packs.len(), 1);
        packs.into_iter().next().unwrap()
    }
}

impl PackStore for Store {
    fn open(&self, key: &str) -> Option<Box<dyn PackReader>> {
        let bytes = self.shared().packs.get(key).cloned()?;
        self.shared().told.push("opened".to_owned());
        Some(Box::new(Reader(bytes)))
    }

    fn discard(&self, key: &str, reason: &str) {
        self.shared().packs.remove(key).unwrap();
        self.shared().told.push(format!("discarded: {reason}"));
    }

    fn create(&self, key: &str, bytes: u64) -> Option<Box<dyn PackWriter>> {
        self.shared().told.push("created".to_owned());
        Some(Box::new(Writer { store: self.clone(), key: key.to_owned(), bytes: Vec::new(), announced: bytes }))
    }
}

impl PackWriter for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> std::io::Result<()> {
        assert_eq!(self.bytes.len() as u64, self.announced);
        self.store.shared().packs.insert(self.key.clone(), self.bytes.clone());
        self.store.shared().told.push("finished".to_owned());
        Ok(())
    }
}

impl PackReader for Reader {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        let part = self.0.get(offset as usize..).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(part.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn map(&self) -> std::io::Result<SharedBytes> {
        Ok(SharedBytes::from(self.0.clone()))
    }
}

fn model(name: &str) -> Model {
    models().into_iter().find(|tiny| tiny.name == name).unwrap().model
}

/// Loads the weights that `ops` read, and waits until they are kept.
fn load(model: &Model, ops: &[&Op], packing: Packing<'_>) -> DeviceWeights {
    let mut pool = Pool::new(Placement::free(2)).unwrap();
    let mut picker = Picker::new(&Isa::available(), &[]).unwrap();
    let mut weights = DeviceWeights::new(model, ops, packing, &mut pool, &mut picker).unwrap();
    weights.settle();
    weights
}

fn all_ops(model: &Model) -> Vec<&Op> {
    model.graph.nodes.iter().map(|node| &node.op).collect()
}

#[test]
fn a_second_load_has_the_same_panels_and_makes_nothing() {
    for name in ["F32", "Q4_K", "experts in Q4_0"] {
        let (model, store) = (model(name), Store::default());
        let ops = all_ops(&model);
        let expected = load(&model, &ops, Packing::InMemory);
        assert!(!expected.panels().is_empty());
        for reading in [PackReading::Copy, PackReading::Map] {
            store.shared().packs.clear();
            let packing = Packing::Kept { store: &store, reading };
            let first = load(&model, &ops, packing);
            assert_eq!(store.told(), ["created", "finished"]);
            let pack = store.only_pack().1;
            // Head, panels, and eight bytes for each MiB begun.
            let chunks = expected.panels().len().div_ceil(1 << 20);
            assert_eq!((pack.len() - expected.panels().len() - 8 * chunks) % (64 << 10), 0);
            let second = load(&model, &ops, packing);
            assert_eq!(store.told(), ["opened"]);
            assert!(first.panels() == expected.panels() && second.panels() == expected.panels(), "{name} {reading:?}");
            assert_eq!(second.bytes(), expected.bytes());
        }
    }
}

#[test]
fn whatever_is_wrong_with_a_pack_is_found_and_made_good() {
    let (model, store) = (model("F32"), Store::default());
    let ops = all_ops(&model);
    let expected = load(&model, &ops, Packing::InMemory);
    load(&model, &ops, Packing::Kept { store: &store, reading: PackReading::Copy });
    let (key, good) = store.only_pack();
    let data_end = good.len() - 8 * expected.panels().len().div_ceil(1 << 20);
    let data_start = data_end - expected.panels().len();
    store.told();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let damaged: [(Vec<u8>, &str); 12] = [
        (flipped(0), "it is no pack"),
        (b"GGUF".to_vec(), "it cannot be read"),
        (Vec::new(), "it cannot be read"),
        (flipped(8), "another version of duan made it"),
        (flipped(20), "it is of other matrices or layouts"),
        (flipped(data_start - 1), "it is of other matrices or layouts"),
        (flipped(data_start), "it is damaged near byte 0 "),
        (flipped(data_end - 1), "it is damaged near byte"),
        (flipped(good.len() - 1), "it is damaged near byte"),
        (good[..good.len() - 1].to_vec(), "it has "),
        (good[..data_start + 5].to_vec(), "it has "),
        ([&good[..], &[0]].concat(), "it has "),
    ];
    for (bytes, reason) in damaged {
        for reading in [PackReading::Copy, PackReading::Map] {
            store.shared().packs.insert(key.clone(), bytes.clone());
            let weights = load(&model, &ops, Packing::Kept { store: &store, reading });
            let told = store.told();
            assert!(told[1].starts_with(&format!("discarded: {reason}")), "{told:?} for {reason}");
            assert_eq!((&told[0][..], &told[2..]), ("opened", &["created".to_owned(), "finished".to_owned()][..]));
            assert!(weights.panels() == expected.panels(), "{reason}");
            assert!(store.only_pack() == (key.clone(), good.clone()), "{reason}");
        }
    }
}

#[test]
fn other_parts_of_a_model_have_a_pack_of_their_own() {
    let (model, store) = (model("Q4_0"), Store::default());
    let packing = Packing::Kept { store: &store, reading: PackReading::Copy };
    let ops = all_ops(&model);
    load(&model, &ops, packing);
    let (whole_key, whole) = store.only_pack();
    load(&model, &ops[..ops.len() - 2], packing);
    assert_eq!(store.told(), ["created", "finished", "created", "finished"]);
    let shared = store.shared();
    let part = shared.packs.iter().find(|(key, _)| **key != whole_key).unwrap().1;
    assert_eq!((shared.packs.len(), &shared.packs[&whole_key]), (2, &whole));
    assert!(part.len() < whole.len());
}

#[test]
fn weights_that_stay_in_the_file_have_neither_panels_nor_a_pack() {
    let model = model("Q4_0");
    let ops = all_ops(&model);
    let (in_file, in_memory) = (load(&model, &ops, Packing::AsInFile), load(&model, &ops, Packing::InMemory));
    assert_eq!(in_file.panels().len(), 0);
    assert!(in_file.bytes() <= in_memory.bytes());
}
