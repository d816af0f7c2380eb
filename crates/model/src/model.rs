//! A checkpoint ready to be planned: configuration, graph and weights.

use std::sync::Arc;

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::families;
use crate::gguf::GgufFile;
use crate::graph::{self, Graph};
use crate::weights::{Binder, Weights};

/// What a forward pass needs of a checkpoint. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Model {
    /// The model as data.
    pub config: Arc<ModelConfig>,
    /// The forward pass.
    pub graph: Arc<Graph>,
    /// What the graph refers to.
    pub weights: Arc<Weights>,
    /// Tensors of the file that the graph does not use.
    pub unused_tensors: Vec<String>,
}

impl Model {
    /// Reads configuration and graph of `file` and binds its weights, without touching their bytes.
    ///
    /// # Errors
    /// When the family or a tensor type is not read here, or keys and tensors contradict each other.
    pub fn from_gguf(file: &GgufFile) -> Result<Self> {
        // A key or a tensor that is wrong in itself is nothing that its user can change.
        Model::read(file).map_err(Error::or_from_another_source)
    }

    fn read(file: &GgufFile) -> Result<Self> {
        file.check_types()?;
        let config = families::read_config(file)?;
        let mut binder = Binder::new(file);
        let graph = graph::record(&config, &mut binder)?;
        let (weights, mut unused_tensors) = binder.finish();
        // The configuration read the frequency divisors already.
        let divisors = ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"];
        unused_tensors.retain(|name| !divisors.contains(&name.as_str()));
        Ok(Self { config: Arc::new(config), graph: Arc::new(graph), weights: Arc::new(weights), unused_tensors })
    }
}
