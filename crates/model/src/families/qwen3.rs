//! Qwen 3, dense: norms on the heads of queries and keys, heads of a width of their own.

use super::qwen2::like_qwen;
use super::{ConfigReader, Family};
use crate::config::{ActivationFunction, ModelConfig, RopeStyle};
use crate::error::Result;
use crate::hugging_face::{PLAIN, Translation};

pub(super) const FAMILY: Family = Family { name: "qwen3", read, folders: FOLDERS };

const FOLDERS: &[Translation] =
    &[Translation { model_types: &["qwen3"], keys: like_qwen, tensors: PLAIN, is_tied: false }];

fn read(file: &ConfigReader<'_>) -> Result<ModelConfig> {
    file.uniform(RopeStyle::SplitHalves, file.attention(0)?, file.gated(ActivationFunction::Silu)?)
}
