//! Vectors in which each lane is one row of a panel of weights: the vocabulary of the matrix kernels.
//!
//! A panel holds sixteen rows side by side (see [`crate::panels`]), so a vector register takes four consecutive columns of
//! as many rows as it has 32-bit lanes: [`RowSimd::ROWS`], which divides [`PANEL_ROWS`]. An activation is the same for all
//! of them and is broadcast. Nothing is summed across lanes, so every row gets the same additions in the same order on
//! every instruction set. Attention uses the same vectors with a position or a dimension for each lane.

/// Rows of a panel.
pub(crate) const PANEL_ROWS: usize = 16;

/// What the codes of a format are; known at compile time wherever it is used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeKind {
    /// Bits of a code, 2 to 6, which then is unsigned; or 8: signed bytes.
    pub(crate) bits: u32,
    /// The code that stands for 0, a multiple of 4; of signed bytes 0.
    pub(crate) zero: i32,
}

/// Operations on one lane per row. Slices that are loaded from may be longer than what is read.
pub(crate) trait RowSimd: Copy + Send + Sync + 'static {
    /// Four bytes per row: codes of four columns, or a whole number.
    type Words: Copy;
    /// One f32 per row.
    type Floats: Copy;

    /// Rows of a vector: 8 or 16.
    const ROWS: usize;
    /// Whether [`RowSimd::step`] is one instruction, so that two vectors of rows can share each broadcast activation.
    const STEPWISE: bool;
    /// Tokens that a tile of quantized weights takes.
    const CODE_TOKENS: usize;
    /// Tokens that a tile of float weights takes.
    const FLOAT_TOKENS: usize;

    /// Zeros.
    fn zeros(self) -> Self::Words;
    /// Four bytes for each row.
    fn words(self, from: &[u8]) -> Self::Words;
    /// Stores four bytes for each row.
    fn put_words(self, a: Self::Words, to: &mut [u8]);
    /// Two bytes for each row, as an unsigned number.
    fn words_of_u16(self, from: &[u8]) -> Self::Words;
    /// One byte for each row, as an unsigned number.
    fn words_of_u8(self, from: &[u8]) -> Self::Words;
    /// Each byte shifted right by `N` and masked; `mask` must keep no more than the `8 - N` bits that are the byte's own.
    fn field<const N: u32>(self, a: Self::Words, mask: u8) -> Self::Words;
    /// The same with a shift that is not known at compile time.
    fn field_at(self, a: Self::Words, shift: u32, mask: u8) -> Self::Words;
    /// Each byte shifted left by `N`; the bits that leave must be 0.
    fn raise<const N: u32>(self, a: Self::Words) -> Self::Words;
    /// Bits of either.
    fn either(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// For each byte of `a`, at most 15, the number of `table` that it names.
    fn names(self, table: &[i8; 16], a: Self::Words) -> Self::Words;
    /// Byte `index` of each row's word, as an unsigned number.
    fn byte(self, a: Self::Words, index: usize) -> Self::Words;
    /// Byte `index` of each row's word, as a signed number.
    fn signed_byte(self, a: Self::Words, index: usize) -> Self::Words;

    /// For each row the sum over its codes, less the one that stands for 0, times the activations: exact. `codes` are `N`
    /// vectors of four columns each, `minus_eight_sums` is
    /// minus eight times the sum of the activations.
    fn dot<const N: usize>(
        self,
        kind: CodeKind,
        codes: &[Self::Words; N],
        activations: &[[i8; 4]; N],
        minus_eight_sums: i32,
    ) -> Self::Words;

    /// Whether one instruction multiplies several rows with two tokens, so that [`RowSimd::dot_two`] is what many tokens want.
    const PAIRWISE: bool = false;
    /// Codes of eight columns, four and the next four of each row, as [`RowSimd::dot_two`] wants them.
    #[inline(always)]
    fn for_two(self, codes: [Self::Words; 2]) -> [Self::Words; 2] {
        codes
    }
    /// [`RowSimd::dot`] for two tokens at once; `N` is a multiple of 4.
    #[inline(always)]
    fn dot_two<const N: usize>(
        self,
        kind: CodeKind,
        codes: &[Self::Words; N],
        activations: [&[[i8; 4]; N]; 2],
        minus_eight_sums: [i32; 2],
    ) -> [Self::Words; 2] {
        let [first, second] = activations;
        let first = self.dot(kind, codes, first, minus_eight_sums[0]);
        [first, self.dot(kind, codes, second, minus_eight_sums[1])]
    }

    /// Codes as [`RowSimd::step`] wants them.
    fn for_steps(self, kind: CodeKind, codes: Self::Words) -> Self::Words;
    /// Begins a sum that ends as that of [`RowSimd::dot`]; `minus_eight_sums` as there.
    fn start(self, kind: CodeKind, minus_eight_sums: i32) -> Self::Words;
    /// Adds four columns.
    fn step(self, kind: CodeKind, sum: Self::Words, codes: Self::Words, activations: [i8; 4]) -> Self::Words;

    /// Whole numbers as floats.
    fn floats(self, a: Self::Words) -> Self::Floats;
    /// The bits of floats.
    fn floats_of_bits<const SHIFT: u32>(self, a: Self::Words) -> Self::Floats;
    /// One half float for each row.
    fn floats_of_f16(self, from: &[u8]) -> Self::Floats;
    /// The same from numbers instead of bytes.
    fn floats_of_halves(self, from: &[half::f16]) -> Self::Floats;
    /// One float for each row.
    fn get(self, from: &[f32]) -> Self::Floats;
    /// The same number for each row.
    fn all(self, x: f32) -> Self::Floats;
    /// `a * b`.
    fn times(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a + b`.
    fn plus(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once.
    fn times_plus(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Stores one float for each row.
    fn put(self, a: Self::Floats, to: &mut [f32]);
}
