//! The shapes of public models, as data. Source: the `config.json` that each model was published with, and the keys and
//! tensors that its GGUF files have.

/// The rotary embedding of a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RopeScaling {
    None,
    /// Llama 3's bands of frequencies, which GGUF files have as divisors.
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original_context: usize,
    },
    /// Two lists of divisors (LongRoPE): the short one all 1.
    LongRope {
        original_context: usize,
        long: &'static [f32],
    },
}

/// How texts become tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenizerKind {
    /// Byte-pair encoding with the pre-tokenizer of this name, and as many merges.
    Merges { pre: &'static str, merges: usize },
    /// SentencePiece's, by scores.
    Scores,
}

/// The vocabulary of a shape, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VocabularyShape {
    pub(super) kind: TokenizerKind,
    /// All rows of the embedding table.
    pub(super) tokens: usize,
    /// Of these, so many at the end are no text.
    pub(super) reserved: usize,
    /// Names of the tokens that begin and end a text, and whether texts begin with the former.
    pub(super) bos: &'static str,
    pub(super) eos: &'static str,
    pub(super) adds_bos: bool,
}

/// A public model's shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// What people type.
    pub name: &'static str,
    /// `general.architecture`.
    pub(super) family: &'static str,
    pub(super) layers: usize,
    pub(super) hidden_size: usize,
    pub(super) intermediate_size: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) context_length: usize,
    pub(super) epsilon: f32,
    pub(super) rope_base: f32,
    /// How many of a head's dimensions are rotated.
    pub(super) rope_dims: usize,
    pub(super) rope_scaling: RopeScaling,
    /// Positions that a layer with a window sees.
    pub(super) window: Option<usize>,
    /// The head reads the embedding table.
    pub(super) tied: bool,
    pub(super) qkv_bias: bool,
    pub(super) qk_norm: bool,
    /// Norms behind attention and MLP too.
    pub(super) post_norms: bool,
    /// Queries, keys and values in one tensor; gate and up in another.
    pub(super) fused: bool,
    pub(super) vocabulary: VocabularyShape,
}

/// What most of them have; rows below name what is different.
const PLAIN: Shape = Shape {
    name: "",
    family: "llama",
    layers: 0,
    hidden_size: 0,
    intermediate_size: 0,
    heads: 0,
    kv_heads: 0,
    head_dim: 128,
    context_length: 0,
    epsilon: 1e-5,
    rope_base: 1e4,
    rope_dims: 128,
    rope_scaling: RopeScaling::None,
    window: None,
    tied: true,
    qkv_bias: false,
    qk_norm: false,
    post_norms: false,
    fused: false,
    vocabulary: LLAMA_2,
};

const LLAMA_2: VocabularyShape = VocabularyShape {
    kind: TokenizerKind::Scores,
    tokens: 32_000,
    reserved: 0,
    bos: "<s>",
    eos: "</s>",
    adds_bos: true,
};

const LLAMA_3: VocabularyShape = VocabularyShape {
    kind: TokenizerKind::Merges { pre: "llama-bpe", merges: 280_147 },
    tokens: 128_256,
    reserved: 256,
    bos: "<|begin_of_text|>",
    eos: "<|end_of_text|>",
    adds_bos: true,
};

const QWEN: VocabularyShape = VocabularyShape {
    kind: TokenizerKind::Merges { pre: "qwen2", merges: 151_387 },
    tokens: 151_936,
    reserved: 293,
    bos: "<|endoftext|>",
    eos: "<|im_end|>",
    adds_bos: false,
};

const GEMMA_3: VocabularyShape = VocabularyShape {
    kind: TokenizerKind::Scores,
    tokens: 262_144,
    reserved: 0,
    bos: "<bos>",
    eos: "<eos>",
    adds_bos: true,
};

const PHI_4_MINI: VocabularyShape = VocabularyShape {
    kind: TokenizerKind::Merges { pre: "gpt-4o", merges: 199_742 },
    tokens: 200_064,
    reserved: 66,
    bos: "<|endoftext|>",
    eos: "<|end|>",
    adds_bos: false,
};

const PHI_4_MINI_LONG: [f32; 48] = [
    1.0,
    1.118_320_7,
    1.250_641_1,
    1.398_617_9,
    1.564_103_2,
    1.749_169,
    1.956_131_8,
    2.187_582_7,
    2.446_419,
    2.735_880_9,
    3.059_592,
    3.421_605,
    3.826_451_8,
    4.279_2,
    4.785_518,
    5.351_743_7,
    5.984_965_3,
    6.693_110_5,
    7.485_044,
    8.370_679,
    9.361_104,
    10.468_716,
    11.707_381,
    13.092_607,
    14.641_733,
    16.374_151,
    18.311_553,
    20.478_188,
    22.901_18,
    25.610_865,
    28.641_16,
    32.03,
    32.1,
    32.13,
    32.23,
    32.6,
    32.61,
    32.64,
    32.66,
    32.7,
    32.71,
    32.93,
    32.97,
    33.28,
    33.49,
    33.5,
    44.16,
    47.77,
];

/// Every shape.
pub const SHAPES: &[Shape] = &[
    Shape {
        name: "llama-3.2-1b",
        layers: 16,
        hidden_size: 2048,
        intermediate_size: 8192,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        context_length: 131_072,
        rope_base: 5e5,
        rope_dims: 64,
        rope_scaling: RopeScaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original_context: 8192 },
        vocabulary: LLAMA_3,
        ..PLAIN
    },
    Shape {
        name: "llama-3.2-3b",
        layers: 28,
        hidden_size: 3072,
        intermediate_size: 8192,
        heads: 24,
        kv_heads: 8,
        context_length: 131_072,
        rope_base: 5e5,
        rope_scaling: RopeScaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original_context: 8192 },
        vocabulary: LLAMA_3,
        ..PLAIN
    },
    Shape {
        name: "qwen2.5-0.5b",
        family: "qwen2",
        layers: 24,
        hidden_size: 896,
        intermediate_size: 4864,
        heads: 14,
        kv_heads: 2,
        head_dim: 64,
        context_length: 32_768,
        epsilon: 1e-6,
        rope_base: 1e6,
        rope_dims: 64,
        qkv_bias: true,
        vocabulary: QWEN,
        ..PLAIN
    },
    Shape {
        name: "qwen2.5-1.5b",
        family: "qwen2",
        layers: 28,
        hidden_size: 1536,
        intermediate_size: 8960,
        heads: 12,
        kv_heads: 2,
        context_length: 32_768,
        epsilon: 1e-6,
        rope_base: 1e6,
        qkv_bias: true,
        vocabulary: QWEN,
        ..PLAIN
    },
    Shape {
        name: "qwen2.5-7b",
        family: "qwen2",
        layers: 28,
        hidden_size: 3584,
        intermediate_size: 18_944,
        heads: 28,
        kv_heads: 4,
        context_length: 32_768,
        epsilon: 1e-6,
        rope_base: 1e6,
        tied: false,
        qkv_bias: true,
        vocabulary: VocabularyShape { tokens: 152_064, reserved: 421, ..QWEN },
        ..PLAIN
    },
    Shape {
        name: "llama-2-7b",
        layers: 32,
        hidden_size: 4096,
        intermediate_size: 11_008,
        heads: 32,
        kv_heads: 32,
        context_length: 4096,
        tied: false,
        ..PLAIN
    },
    Shape {
        name: "gemma-3-1b",
        family: "gemma3",
        layers: 26,
        hidden_size: 1152,
        intermediate_size: 6912,
        heads: 4,
        kv_heads: 1,
        head_dim: 256,
        context_length: 32_768,
        epsilon: 1e-6,
        rope_base: 1e6,
        rope_dims: 256,
        window: Some(512),
        qk_norm: true,
        post_norms: true,
        vocabulary: GEMMA_3,
        ..PLAIN
    },
    Shape {
        name: "qwen3-4b",
        family: "qwen3",
        layers: 36,
        hidden_size: 2560,
        intermediate_size: 9728,
        heads: 32,
        kv_heads: 8,
        context_length: 40_960,
        epsilon: 1e-6,
        rope_base: 1e6,
        qk_norm: true,
        vocabulary: QWEN,
        ..PLAIN
    },
    Shape {
        name: "phi-4-mini",
        family: "phi3",
        layers: 32,
        hidden_size: 3072,
        intermediate_size: 8192,
        heads: 24,
        kv_heads: 8,
        context_length: 131_072,
        rope_dims: 96,
        rope_scaling: RopeScaling::LongRope { original_context: 4096, long: &PHI_4_MINI_LONG },
        window: Some(262_144),
        fused: true,
        vocabulary: PHI_4_MINI,
        ..PLAIN
    },
];

impl Shape {
    /// The shape of this name; case does not matter.
    pub fn by_name(name: &str) -> Option<&'static Shape> {
        SHAPES.iter().find(|shape| shape.name.eq_ignore_ascii_case(name))
    }

    /// The divisors of the rotary embedding that the file has as tensors: name and numbers [rope_dims / 2].
    pub(super) fn rope_tensors(&self) -> Vec<(&'static str, Vec<f32>)> {
        match self.rope_scaling {
            RopeScaling::None => Vec::new(),
            RopeScaling::Llama3 { factor, low, high, original_context } => {
                let pairs = 0..self.rope_dims / 2;
                let divisor = |pair: usize| self.llama_3_divisor(pair, factor, low, high, original_context as f64);
                vec![("rope_freqs.weight", pairs.map(divisor).collect())]
            }
            RopeScaling::LongRope { long, .. } => {
                vec![
                    ("rope_factors_long.weight", long.to_vec()),
                    ("rope_factors_short.weight", vec![1.0; self.rope_dims / 2]),
                ]
            }
        }
    }

    /// Waves that are short in the first training's context stay, long ones are divided by the whole factor, those between
    /// are blended.
    fn llama_3_divisor(&self, pair: usize, factor: f64, low: f64, high: f64, original_context: f64) -> f32 {
        let exponent = 2.0 * pair as f64 / self.rope_dims as f64;
        let wavelength = 2.0 * std::f64::consts::PI * f64::from(self.rope_base).powf(exponent);
        let turns = original_context / wavelength;
        let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
    }
}
