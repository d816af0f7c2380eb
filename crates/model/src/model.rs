//! A checkpoint ready to be planned: configuration, graph and weights.

use std::collections::HashSet;
use std::sync::Arc;

use crate::checkpoint::Checkpoint;
use crate::config::ModelConfig;
use crate::error::{Error, Result, quoted};
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
    /// Tensors of the file or the folder that the graph does not use.
    pub unused_tensors: Vec<String>,
}

impl Model {
    /// Reads configuration and graph and binds the weights, without touching their bytes.
    ///
    /// # Errors
    /// When the family or a tensor type is not read here, or keys and tensors contradict each other.
    pub fn from_checkpoint(checkpoint: &Checkpoint) -> Result<Self> {
        // A key or a tensor that is wrong in itself is nothing that its user can change.
        Model::read(checkpoint).map_err(Error::or_from_another_source)
    }

    /// [`Model::from_checkpoint`] of a GGUF file.
    ///
    /// # Errors
    /// As there.
    pub fn from_gguf(file: &GgufFile) -> Result<Self> {
        Model::from_checkpoint(&file.into())
    }

    fn read(file: &Checkpoint) -> Result<Self> {
        file.check_types()?;
        let config = families::read_config(file)?;
        let mut binder = Binder::new(file);
        let graph = graph::record(&config, &mut binder)?;
        let (weights, mut unused_tensors) = binder.finish();
        // The configuration read the frequency divisors already.
        let read = |name: &str| config.ropes.iter().any(|rope| rope.scaling.tensors().contains(&name));
        unused_tensors.retain(|name| !read(name));
        unused_tensors.extend_from_slice(file.left_out());
        check_factors(file, &weights, &unused_tensors)?;
        Ok(Self { config: Arc::new(config), graph: Arc::new(graph), weights: Arc::new(weights), unused_tensors })
    }
}

/// Refuses a file whose matrices have factors of their own, as NVFP4 ones may: nothing multiplies with them, and without them
/// every result would be wrong.
fn check_factors(file: &Checkpoint, weights: &Weights, unused: &[String]) -> Result<()> {
    let matrices: HashSet<&str> =
        weights.matrices().iter().filter_map(|matrix| matrix.name().strip_suffix(".weight")).collect();
    let is_factor = |name: &&String| name.strip_suffix(".scale").is_some_and(|stem| matrices.contains(stem));
    let mut factors = unused.iter().filter(is_factor);
    let Some(first) = factors.next() else { return Ok(()) };
    let (count, first) = (1 + factors.count(), quoted(first));
    let noun = if count == 1 { "matrix" } else { "matrices" };
    let what = format!("duan cannot apply a factor to a whole matrix: the file has one for {count} {noun} (`{first}`)");
    Err(Error::unsupported(file.label(), what, "get the model in another format, or quantized without such factors"))
}
