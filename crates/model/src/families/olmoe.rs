//! OLMoE: norms on all heads of queries and keys together; the chosen experts' weights are left as the softmax over all
//! experts gave them.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, LayerConfig, Mixer, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "olmoe", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    let attention = file.attention(0)?;
    let rope = file.rope(RopeStyle::SplitHalves, attention.key_dim)?;
    let layer = LayerConfig::new(Mixer::Attention(attention), file.experts(ActivationFunction::Silu, false)?);
    file.model(vec![rope], vec![layer; file.layers()?])
}
