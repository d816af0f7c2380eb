//! What is done to one piece: read, decode, check, encode, and decode again to know what was lost.

use duan_model::bytes::SharedBytes;
use duan_model::gguf::TensorInfo;
use duan_model::quoted;
use duan_quant::Format;

use crate::error::{Error, Result};
use crate::folder::SharedScales;
use crate::importance::Matched;
use crate::pieces::Piece;
use crate::plan::{PlannedTensor, Target};
use crate::source::{Source, bytes_of};

/// Weights that are decoded at a time: a row, or this much of a longer one. They stay in the near caches.
const CHUNK_WEIGHTS: usize = 1 << 15;

/// A piece as it will be written, and what was lost.
pub(crate) struct Coded {
    /// The bytes.
    pub(crate) bytes: SharedBytes,
    /// What was lost.
    pub(crate) loss: Loss,
}

/// Sums of squares over weights.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Loss {
    /// Of errors.
    pub(crate) error: f64,
    /// Of weights.
    pub(crate) weight: f64,
    /// Of errors, each as often as its column's importance says.
    pub(crate) weighted_error: f64,
    /// Of weights, the same way.
    pub(crate) weighted_weight: f64,
}

impl Loss {
    /// Adds another piece's.
    pub(crate) fn add(&mut self, other: &Loss) {
        self.error += other.error;
        self.weight += other.weight;
        self.weighted_error += other.weighted_error;
        self.weighted_weight += other.weighted_weight;
    }
}

/// What is needed for the pieces of all tensors; shared by all threads.
pub(crate) struct Coder<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) tensors: &'a [PlannedTensor],
    /// The importance of each tensor, where there is some.
    pub(crate) importance: &'a [Option<Matched>],
    /// Scales that more than a block shares, where there are some. Pieces are of whole rows then.
    pub(crate) shared: Option<&'a SharedScales>,
    /// Whether weights that are copied are looked at.
    pub(crate) checks_copies: bool,
}

/// Buffers of one thread, kept between pieces.
#[derive(Default)]
pub(crate) struct Scratch {
    values: Vec<f32>,
    decoded: Vec<f32>,
    importance: Vec<f32>,
}

impl Coder<'_> {
    /// Codes one piece.
    ///
    /// # Errors
    /// Where it cannot be read, and for the first weight that is not finite or too large.
    pub(crate) fn code(&self, piece: Piece, scratch: &mut Scratch) -> Result<Coded> {
        let tensor = &self.tensors[piece.tensor];
        let bytes = self.source.read(piece.tensor, piece.first, piece.weights)?;
        assert_eq!(Some(bytes.len()), bytes_of(&tensor.source, piece.weights), "a source gives what it is asked for");
        let Some(from) = tensor.source.format() else {
            // Only copies have types without a codec.
            return Ok(Coded { bytes, loss: Loss::default() });
        };
        match tensor.target {
            Target::Copy => {
                if self.checks_copies {
                    self.check(piece, from, &bytes, scratch)?;
                }
                self.source.release(piece.tensor, piece.first, piece.weights);
                Ok(Coded { bytes, loss: Loss::default() })
            }
            Target::Coded(to) => self.recode(piece, from, to, &bytes, scratch),
        }
    }

    /// Looks at every weight of a piece that is copied.
    fn check(&self, piece: Piece, from: &Format, bytes: &[u8], scratch: &mut Scratch) -> Result<()> {
        let chunk = CHUNK_WEIGHTS - CHUNK_WEIGHTS % from.block_weights;
        let mut done = 0;
        while done < piece.weights as usize {
            let weights = chunk.min(piece.weights as usize - done);
            scratch.values.resize(weights, 0.0);
            self.decode(piece, from, part(bytes, from, done, weights), &mut scratch.values)?;
            if let Some(at) = scratch.values.iter().position(|value| !value.is_finite()) {
                return Err(self.not_finite(piece, (done + at) as u64, scratch.values[at]));
            }
            done += weights;
        }
        Ok(())
    }

    fn recode(&self, piece: Piece, from: &Format, to: &Format, bytes: &[u8], scratch: &mut Scratch) -> Result<Coded> {
        let tensor = &self.tensors[piece.tensor];
        let columns = tensor.columns();
        let all = piece.weights as usize;
        let shared = self.shared.map(|shared| shared.of(self, piece.tensor)).transpose()?.flatten();
        let longest = if shared.is_some() { usize::MAX } else { CHUNK_WEIGHTS };
        let mut out = vec![0; all / to.block_weights * to.block_bytes];
        let mut loss = Loss::default();
        let mut slice = None;
        let mut done = 0;
        while done < all {
            let first = piece.first + done as u64;
            // To the end of the row, of the chunk, or of the piece.
            let weights = ((columns - first % columns) as usize).min(longest).min(all - done);
            let Scratch { values, decoded, importance } = scratch;
            values.resize(weights, 0.0);
            decoded.resize(weights, 0.0);
            self.decode(piece, from, part(bytes, from, done, weights), values)?;
            let matched = self.importance[piece.tensor].as_ref();
            let mut has_importance = false;
            if let Some(matched) = matched {
                let wanted = first / columns / tensor.stack().0;
                if slice.map(|(number, _)| number) != Some(wanted) {
                    slice = Some((wanted, matched.weights(wanted, importance)));
                }
                has_importance = slice.is_some_and(|(_, is_good)| is_good);
            }
            let column = (first % columns) as usize;
            let importance = has_importance.then(|| &importance[column..column + weights]);
            let start = done / to.block_weights * to.block_bytes;
            let coded = &mut out[start..start + weights / to.block_weights * to.block_bytes];
            let unencodable = |error| self.unencodable(piece, done as u64, &error);
            match shared {
                None => to.encode_best(values, importance, coded).map_err(unencodable)?,
                Some(shared) => {
                    // First as the format has it, which looks for what no code can hold.
                    to.encode(values, coded).map_err(unencodable)?;
                    shared.encode(values, importance, coded);
                }
            }
            self.decode(piece, to, coded, decoded)?;
            let lost = loss_of(values, decoded, importance);
            // Looked for only where there is one: it makes the sum infinite or NaN.
            if !lost.error.is_finite()
                && let Some(at) = decoded.iter().position(|value| !value.is_finite())
            {
                return Err(self.not_finite(piece, (done + at) as u64, decoded[at]));
            }
            loss.add(&lost);
            done += weights;
        }
        Ok(Coded { bytes: out.into(), loss })
    }

    /// The weights of a tensor from weight `first` on, however they are stored.
    pub(crate) fn values(&self, tensor: usize, first: u64, weights: u64, values: &mut Vec<f32>) -> Result<()> {
        let bytes = self.source.read(tensor, first, weights)?;
        let from = self.tensors[tensor].source.format().expect("what is coded has a codec");
        values.resize(weights as usize, 0.0);
        self.decode(Piece { tensor, first, weights }, from, &bytes, values)
    }

    fn decode(&self, piece: Piece, format: &Format, bytes: &[u8], values: &mut [f32]) -> Result<()> {
        format.decode(bytes, values).map_err(|error| self.unencodable(piece, 0, &error))
    }

    /// The error for what the format says of a value that stands `before` weights behind the piece's first.
    fn unencodable(&self, piece: Piece, before: u64, error: &duan_quant::Error) -> Error {
        let info = self.info(piece);
        match *error {
            duan_quant::Error::NotFinite { index, value } => self.not_finite(piece, before + index as u64, value),
            duan_quant::Error::TooLarge { index, value, largest, format } => {
                let what = format!("is {value:e}, and {format} holds at most {largest:e}");
                let remedy =
                    format!("keep the tensor wider, as in --keep '^{}$=bf16'", quoted(&info.name).replace('.', "\\."));
                self.weight(piece, before + index as u64, what, remedy)
            }
            ref other => self.weight(piece, before, format!("cannot be coded: {other}"), "report this".to_owned()),
        }
    }

    fn not_finite(&self, piece: Piece, at: u64, value: f32) -> Error {
        let what = if value.is_nan() { "is NaN".to_owned() } else { "is infinite".to_owned() };
        self.weight(
            piece,
            at,
            what,
            "the source is damaged or was made wrongly: get it again, or make it anew".to_owned(),
        )
    }

    fn weight(&self, piece: Piece, at: u64, what: String, remedy: String) -> Error {
        let columns = self.tensors[piece.tensor].columns();
        let index = piece.first + at;
        let (row, column) = (index / columns, index % columns);
        let tensor = quoted(&self.info(piece).name);
        Error::Weight { file: self.source.label().to_owned(), tensor, index, row, column, what, remedy }
    }

    fn info(&self, piece: Piece) -> &TensorInfo {
        &self.tensors[piece.tensor].source
    }
}

/// The bytes of `weights` weights that stand `done` weights behind the first; both are whole blocks.
fn part<'b>(bytes: &'b [u8], format: &Format, done: usize, weights: usize) -> &'b [u8] {
    let start = done / format.block_weights * format.block_bytes;
    &bytes[start..start + weights / format.block_weights * format.block_bytes]
}

/// Sums that are added side by side, so that the compiler may use vectors.
const LANES: usize = 16;
/// Weights whose squares are summed in f32; sums of more are kept in f64.
const RUN: usize = 256;

/// What was lost of `values` `[n]` that came back as `decoded` `[n]`, with the importance `[n]` of each. Sums run in a fixed order.
fn loss_of(values: &[f32], decoded: &[f32], importance: Option<&[f32]>) -> Loss {
    const ALIKE: [f32; RUN] = [1.0; RUN];
    let mut loss = Loss::default();
    for (at, (values, decoded)) in values.chunks(RUN).zip(decoded.chunks(RUN)).enumerate() {
        let [error, weight] = squares(values, decoded, &ALIKE[..values.len()]);
        loss.error += error;
        loss.weight += weight;
        let [error, weight] = match importance {
            Some(importance) => squares(values, decoded, &importance[at * RUN..][..values.len()]),
            None => [error, weight],
        };
        loss.weighted_error += error;
        loss.weighted_weight += weight;
    }
    loss
}

/// The sums of squares of errors and of values, each as often as `weights` says.
fn squares(values: &[f32], decoded: &[f32], weights: &[f32]) -> [f64; 2] {
    let ((values, values_rest), (decoded, decoded_rest)) = (values.as_chunks::<LANES>(), decoded.as_chunks::<LANES>());
    let (weights, weights_rest) = weights.as_chunks::<LANES>();
    let (mut errors, mut squares) = ([0.0f32; LANES], [0.0f32; LANES]);
    for ((values, decoded), weights) in values.iter().zip(decoded).zip(weights) {
        for lane in 0..LANES {
            let error = values[lane] - decoded[lane];
            errors[lane] += weights[lane] * (error * error);
            squares[lane] += weights[lane] * (values[lane] * values[lane]);
        }
    }
    let mut sums = [errors, squares].map(|lanes| lanes.iter().map(|&sum| f64::from(sum)).sum::<f64>());
    if sums.iter().any(|sum| !sum.is_finite()) {
        // Squares beyond f32, of weights that are not.
        sums = wide_squares(values.as_flattened(), decoded.as_flattened(), weights.as_flattened());
    }
    let rest = wide_squares(values_rest, decoded_rest, weights_rest);
    [sums[0] + rest[0], sums[1] + rest[1]]
}

/// [`squares`] in f64.
fn wide_squares(values: &[f32], decoded: &[f32], weights: &[f32]) -> [f64; 2] {
    values.iter().zip(decoded).zip(weights).fold([0.0; 2], |sums, ((&value, &decoded), &weight)| {
        let (value, weight) = (f64::from(value), f64::from(weight));
        let error = value - f64::from(decoded);
        [sums[0] + weight * error * error, sums[1] + weight * value * value]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_sums_of_squares() {
        let values: Vec<f32> = (0..19).map(|i| i as f32).collect();
        let decoded: Vec<f32> = values.iter().map(|x| x + 0.5).collect();
        let importance = vec![2.0; 19];
        let loss = loss_of(&values, &decoded, Some(&importance));
        let squares: f64 = (0..19).map(|i| f64::from(i * i)).sum();
        assert_eq!(
            loss,
            Loss { error: 19.0 * 0.25, weight: squares, weighted_error: 19.0 * 0.5, weighted_weight: 2.0 * squares }
        );
        let huge = loss_of(&[2e30; 300], &[1e30; 300], None);
        assert!((huge.error / 300e60 - 1.0).abs() < 1e-6 && (huge.weight / 1200e60 - 1.0).abs() < 1e-6, "{huge:?}");
        let plain = loss_of(&values, &decoded, None);
        assert_eq!((plain.weighted_error, plain.weighted_weight), (plain.error, plain.weight));
    }
}
