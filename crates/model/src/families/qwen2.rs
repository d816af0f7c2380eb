//! Qwen 2 and 2.5: biases on queries, keys and values.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "qwen2", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.uniform(RopeStyle::SplitHalves, file.attention(0)?, file.gated(ActivationFunction::Silu)?)
}
