//! Granite 3 and 4, mixtures of experts: as the dense ones; weights are a softmax over the chosen experts, which is the one
//! over all experts made to add up to 1.

use super::granite::scaled;
use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig};
use crate::error::Result;

pub(super) const FAMILY: Family = Family { name: "granitemoe", read };

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    scaled(file, file.experts(ActivationFunction::Silu, true)?)
}
