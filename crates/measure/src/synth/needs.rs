//! What a model of a shape takes, without writing one: for forecasts.

use super::mix::Mix;
use super::shapes::Shape;
use super::tensors::tensors;

/// What a model takes of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapeNeeds {
    /// Weights in all tensors.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub weights_bytes: u64,
    /// Bytes of weights that a token of decode reads: all but a table that is only looked up.
    pub read_bytes: u64,
    /// Bytes that a position takes in a KV cache of half floats.
    pub kv_bytes_per_token: u64,
}

impl Shape {
    /// Positions that it was trained for.
    pub fn context_length(&self) -> usize {
        self.context_length
    }

    /// What a model of this shape takes whose matrices have these formats.
    pub fn needs(&self, mix: &Mix) -> ShapeNeeds {
        let mut needs = ShapeNeeds { parameters: 0, weights_bytes: 0, read_bytes: 0, kv_bytes_per_token: 0 };
        for tensor in tensors(self, mix) {
            let count: u64 = tensor.dims.iter().product();
            let bytes = count / tensor.format.block_weights as u64 * tensor.format.block_bytes as u64;
            needs.parameters += count;
            needs.weights_bytes += bytes;
            let is_looked_up = !self.tied && tensor.name == "token_embd.weight";
            needs.read_bytes += if is_looked_up { 0 } else { bytes };
        }
        let half_float_bytes = 2;
        needs.kv_bytes_per_token = (self.layers * self.kv_heads * self.head_dim * 2 * half_float_bytes) as u64;
        needs
    }
}
