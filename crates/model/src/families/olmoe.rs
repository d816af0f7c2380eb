//! OLMoE: norms on all heads of queries and keys together; the chosen experts' weights are left as the softmax over all
//! experts gave them.

use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "olmoe", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.uniform(RopeStyle::SplitHalves, file.attention(0)?, file.experts(ActivationFunction::Silu, false)?)
}
