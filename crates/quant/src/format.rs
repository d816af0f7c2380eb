//! What a weight format is: a row of facts.

use crate::{Error, Result};

/// How activations are coded before their dot product with weights of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Activations stay `f32`.
    F32,
    /// Groups of 32 `i8` codes with one `f32` scale, see [`crate::activation`].
    Int8,
}

/// A scalar decoder: bytes of whole blocks to values.
pub type Dequantize = fn(&[u8], &mut [f32]);

/// A scalar encoder: values of whole blocks to bytes.
pub type Quantize = fn(&[f32], &mut [u8]);

/// A scalar encoder that searches: values of whole blocks, how much the error of each counts, to bytes.
pub type Search = fn(&[f32], Option<&[f32]>, &mut [u8]);

/// A weight format: how a row of weights is written as bytes.
///
/// They stand in [`crate::FORMATS`], each once; compare formats by [`Format::name`] or with `==`.
#[derive(Debug)]
pub struct Format {
    /// Name as in GGUF, for example `Q4_K`, or of our own, for example `int4-g64`.
    pub name: &'static str,
    /// Type id in GGUF files; `None` for a format that has no place in them.
    pub gguf_id: Option<u32>,
    /// Weights in a block; 1 for the float formats.
    pub block_weights: usize,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// How activations are coded before the dot product.
    pub activation: Activation,
    /// Largest magnitude that the format holds in every block, whatever the other weights and the sign are.
    pub largest: f32,
    /// Decodes whole blocks: `[blocks * block_bytes]` bytes to `[blocks * block_weights]` values.
    ///
    /// Every bit pattern gives a value (perhaps NaN or infinite, where a scale is). Panics where the two
    /// lengths do not belong together; [`Format::decode`] returns an error instead.
    pub dequantize: Dequantize,
    /// Encodes whole blocks: `[blocks * block_weights]` values to `[blocks * block_bytes]` bytes, or `None` where
    /// duan reads the format only.
    ///
    /// Codes are computed from the scale as it is stored. A block format never writes a scale that is not
    /// finite: NaN counts as 0, and magnitudes above [`Format::largest`] may saturate. F32 keeps the bits, F16
    /// and BF16 round to nearest even as IEEE 754 says (so infinities and NaN stay). [`Format::encode`] refuses
    /// such values instead. Panics where the two lengths do not belong together.
    pub quantize: Option<Quantize>,
    /// Encodes whole blocks with the least squared error that a search finds (`search/mod.rs`), or `None` where duan only reads the
    /// format, or where there is nothing to search.
    ///
    /// The second argument has one weight for each value: what the square of its error is multiplied by. Where it says
    /// nothing ([`crate::importance`]) all count alike. Any values give finite scales, as with [`Format::quantize`]; those
    /// too large saturate. [`Format::encode_best`] checks first. Panics where the lengths do not belong together.
    pub search: Option<Search>,
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

impl Format {
    /// Bytes of a row of `columns` weights, or `None` where `columns` is not a whole number of blocks or the
    /// number of bytes does not fit a `usize`.
    pub fn row_bytes(&self, columns: usize) -> Option<usize> {
        if !columns.is_multiple_of(self.block_weights) {
            return None;
        }
        (columns / self.block_weights).checked_mul(self.block_bytes)
    }

    /// Average bits per weight, scales included.
    pub fn bits_per_weight(&self) -> f64 {
        self.block_bytes as f64 * 8.0 / self.block_weights as f64
    }

    /// Decodes `bytes` into `values` `[n]`, like [`Format::dequantize`].
    ///
    /// # Errors
    /// [`Error::Length`] where the two lengths do not belong together.
    pub fn decode(&self, bytes: &[u8], values: &mut [f32]) -> Result<()> {
        self.check_lengths(values.len(), bytes.len())?;
        (self.dequantize)(bytes, values);
        Ok(())
    }

    /// Encodes `values` `[n]` into `bytes`, after checking that the format can hold them: with [`Format::quantize`], or with
    /// [`Format::search`] where the format has nothing quicker.
    ///
    /// # Errors
    /// [`Error::CannotQuantize`], [`Error::Length`], and [`Error::NotFinite`] or [`Error::TooLarge`] with the index
    /// of the first such value. `bytes` is untouched then.
    pub fn encode(&self, values: &[f32], bytes: &mut [u8]) -> Result<()> {
        let Some(quantize) = self.quantize else {
            return self.encode_best(values, None, bytes);
        };
        self.check_values(values, bytes)?;
        quantize(values, bytes);
        Ok(())
    }

    /// Encodes `values` `[n]` into `bytes` with the least squared error that a search finds, after checking that the format can
    /// hold them. With `importance` `[n]` the error is weighted: that of each value, squared, counts as often as its entry says.
    ///
    /// Importance with an entry that is NaN, infinite or negative, or with nothing but zeros, counts as none;
    /// [`crate::importance::clean`] tells of it. Formats without a search, F32, F16 and BF16, are encoded as
    /// [`Format::encode`] does.
    ///
    /// # Errors
    /// As for [`Format::encode`], and [`Error::Importance`] where there are not as many entries as values.
    pub fn encode_best(&self, values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) -> Result<()> {
        self.check_values(values, bytes)?;
        if let Some(importance) = importance.filter(|importance| importance.len() != values.len()) {
            return Err(Error::Importance { values: values.len(), importance: importance.len() });
        }
        match (self.search, self.quantize) {
            (Some(search), _) => search(values, importance, bytes),
            (None, Some(quantize)) => quantize(values, bytes),
            (None, None) => return Err(Error::CannotQuantize { format: self.name }),
        }
        Ok(())
    }

    /// Whether the format can be written: [`Format::encode`] works, as long as the values fit.
    pub fn is_writable(&self) -> bool {
        self.quantize.is_some() || self.search.is_some()
    }

    fn check_values(&self, values: &[f32], bytes: &[u8]) -> Result<()> {
        if !self.is_writable() {
            return Err(Error::CannotQuantize { format: self.name });
        }
        self.check_lengths(values.len(), bytes.len())?;
        // The position is looked for only when there is one. NaN is not at most anything either.
        let mut fits = [true; 16];
        let (runs, rest) = values.as_chunks::<16>();
        for run in runs {
            for (fits, x) in fits.iter_mut().zip(run) {
                *fits &= x.abs() <= self.largest;
            }
        }
        if !fits.contains(&false) && rest.iter().all(|x| x.abs() <= self.largest) {
            return Ok(());
        }
        for (index, &value) in values.iter().enumerate() {
            if !value.is_finite() {
                return Err(Error::NotFinite { index, value });
            }
            if value.abs() > self.largest {
                return Err(Error::TooLarge { index, value, largest: self.largest, format: self.name });
            }
        }
        Ok(())
    }

    fn check_lengths(&self, values: usize, bytes: usize) -> Result<()> {
        if self.row_bytes(values) == Some(bytes) {
            return Ok(());
        }
        let Format { name, block_weights, block_bytes, .. } = *self;
        Err(Error::Length { format: name, block_weights, block_bytes, values, bytes })
    }
}
