//! Qwen 3, dense: norms on the heads of queries and keys, heads of a width of their own.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "qwen3", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.uniform(RopeStyle::SplitHalves, file.attention(0)?, file.gated(ActivationFunction::Silu)?)
}
