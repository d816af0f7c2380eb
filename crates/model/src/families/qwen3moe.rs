//! Qwen 3, mixtures of experts: as the dense ones, with the chosen experts' weights made to add up to 1.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "qwen3moe", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.uniform(RopeStyle::SplitHalves, file.attention(0)?, file.experts(ActivationFunction::Silu, true)?)
}
