//! What a measurement was made on.

use std::fs;

use duan::model::checkpoint::Checkpoint;
use duan::packs::PackOptions;
use duan::state::{DeviceState, ModelState, Reading};
use duan::{Engine, EngineOptions, PackFolder, Packing};
use sha2::{Digest, Sha256};

use crate::support::{fixture, options};

#[test]
fn the_hash_of_a_model_is_that_of_its_file_and_of_its_packs() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cache) = (folder.path().join("model.gguf"), folder.path().join("cache"));
    fs::copy(fixture("smollm2"), &path).unwrap();
    let digest = Sha256::digest(fs::read(&path).unwrap());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = Checkpoint::open(&path).unwrap();
    let model = ModelState::of(&file, &options());
    assert_eq!(model.sha256, Reading::Known(hash.clone()));
    assert_eq!(model.bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(model.parameters, file.tensors().iter().map(|tensor| tensor.elements()).sum::<u64>());
    assert_eq!((model.kv_format, model.context, model.max_rows), ("f16", options().context, options().prefill_rows));
    assert!(model.context_length.is_some() && model.bits_per_weight.is_some_and(|bits| bits > 0.0), "{model:?}");

    let kept = EngineOptions { packing: Packing::Kept(PackOptions::new(&cache)), ..options() };
    let mut engine = Engine::new(kept.clone()).unwrap();
    engine.load_model(&path).unwrap();
    engine.settle();
    assert_eq!(PackFolder::new(&cache).list()[0].id, hash);
    // What is remembered of a file is taken for it: here a hash that is not its own.
    let other = "0".repeat(64);
    fs::rename(cache.join("packed").join(&hash), cache.join("packed").join(&other)).unwrap();
    assert_eq!(ModelState::of(&file, &kept).sha256, Reading::Known(other));
    assert_eq!(ModelState::of(&file, &options()).sha256, Reading::Known(hash));
}

#[test]
fn a_state_is_read_back_from_json() {
    let engine = Engine::new(EngineOptions { threads: Some(3), ..options() }).unwrap();
    let state = engine.state();
    assert_eq!((state.duan.threads_decode, state.duan.thread_reason.as_str()), (3, "as asked for"));
    assert!(state.duan.isas_found.contains(&state.duan.isa_used), "{state:?}");
    let json = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<DeviceState>(&json).unwrap(), state);
    // Who keeps only the machine reads it from the same document.
    assert_eq!(serde_json::from_str::<duan::state::State>(&json).unwrap(), state.machine);
}
