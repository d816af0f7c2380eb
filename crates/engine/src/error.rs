//! What can go wrong between tokens in and tokens out.

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of planning, running, sampling or keeping the cache: one line with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device failed.
    #[error(transparent)]
    Device(#[from] duan_backend::Error),
    /// An option has a value that makes no sense.
    #[error("{name}: expected {expected}, found {found}")]
    Option {
        /// The option, as the field is called.
        name: &'static str,
        /// What it can be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// The prompt leaves no room for an answer.
    #[error(
        "the prompt has {tokens} tokens, and the context holds {context} with room for one of the answer; shorten it, or \
         {}", larger_context(*context, *model_context)
    )]
    PromptTooLong {
        /// Tokens of the whole prompt, the conversation so far included.
        tokens: usize,
        /// Positions of the context.
        context: usize,
        /// Positions that the model was trained for.
        model_context: usize,
    },
    /// More tokens were to be fed than the context has positions left.
    #[error(
        "{tokens} tokens do not fit behind {used} in a context of {context}; give fewer, or load the model with a larger context"
    )]
    ContextFull {
        /// Tokens that were to be fed.
        tokens: usize,
        /// Positions that are taken.
        used: usize,
        /// Positions of the context.
        context: usize,
    },
    /// The KV cache has no page left: other sequences hold them.
    #[error(
        "the KV cache has {free} of {pages} pages free, and {needed} are needed; close a conversation, or load \
             the model with a larger context"
    )]
    OutOfPages {
        /// Pages that are needed.
        needed: usize,
        /// Pages that no sequence holds.
        free: usize,
        /// All pages.
        pages: usize,
    },
    /// There is nothing to compute logits from.
    #[error("no tokens to start from; give a prompt of at least one token")]
    EmptyPrompt,
    /// A token that the model does not know.
    #[error("token {token} is not in the vocabulary of {vocab_size} tokens")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Tokens of the vocabulary.
        vocab_size: usize,
    },
    /// The model computed something that is no number.
    #[error(
        "the logit of token {token} is {value}, so no token can be chosen; the model file is damaged or its numbers \
         left the range of floats: verify the file, or try another quantization"
    )]
    NonFiniteLogit {
        /// The first token whose logit is not finite.
        token: usize,
        /// The logit.
        value: f32,
    },
    /// No device runs an op.
    #[error("no device runs op {op} ({kind}, {place}): {reasons}")]
    NoDevice {
        /// Index into the graph's nodes.
        op: usize,
        /// Kind of the op.
        kind: &'static str,
        /// The layer, or that it is outside of them.
        place: String,
        /// Each device with its reason.
        reasons: String,
    },
    /// An op would have to run on the device of last resort, and that is forbidden.
    #[error(
        "op {op} ({kind}, {place}) would fall back to {device}: {reason}; allow fallback, or choose another device"
    )]
    FallbackForbidden {
        /// Index into the graph's nodes.
        op: usize,
        /// Kind of the op.
        kind: &'static str,
        /// The layer, or that it is outside of them.
        place: String,
        /// Where it would fall back to.
        device: String,
        /// Why.
        reason: String,
    },
    /// The model does not fit in memory; nothing was allocated.
    #[error(
        "the model needs {} and {device} has {} available ({} of weights, {} of KV cache for a context of {context}, \
         {} of buffers); {}",
        bytes_text(*needed_bytes), bytes_text(*available_bytes), bytes_text(*weights_bytes), bytes_text(*kv_bytes),
        bytes_text(*scratch_bytes), memory_remedy(*weights_bytes, *available_bytes)
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// The context that was asked for, in positions.
        context: usize,
        /// All that is needed.
        needed_bytes: u64,
        /// What the device could still give.
        available_bytes: u64,
        /// The weights' part.
        weights_bytes: u64,
        /// The KV cache's part.
        kv_bytes: u64,
        /// The part of everything between.
        scratch_bytes: u64,
    },
}

/// A number of bytes as shops and disks count: three digits and a decimal unit.
fn bytes_text(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1_000_000 => (bytes as f64 / 1e3, "kB"),
        1_000_000..1_000_000_000 => (bytes as f64 / 1e6, "MB"),
        _ => (bytes as f64 / 1e9, "GB"),
    };
    let digits = usize::from(value < 99.95) + usize::from(value < 9.995);
    format!("{value:.digits$} {unit}")
}

/// The way to a larger context: the model's own, where that is larger, else another model's.
fn larger_context(context: usize, model_context: usize) -> String {
    if context < model_context {
        format!("load the model with a larger context, of which it allows {model_context}")
    } else {
        "use a model that allows a larger one".to_owned()
    }
}

/// A smaller context only helps while the weights themselves fit.
fn memory_remedy(weights_bytes: u64, available_bytes: u64) -> &'static str {
    if weights_bytes < available_bytes {
        "load it with a smaller context, close other programs, or use a smaller quantization"
    } else {
        "close other programs, or use a smaller quantization or model"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_context_is_advised_where_there_is_one() {
        let error = |model_context| Error::PromptTooLong { tokens: 70, context: 64, model_context }.to_string();
        assert_eq!(
            error(2048),
            "the prompt has 70 tokens, and the context holds 64 with room for one of the answer; shorten it, or load the \
             model with a larger context, of which it allows 2048"
        );
        assert!(error(64).ends_with("shorten it, or use a model that allows a larger one"), "{}", error(64));
    }

    #[test]
    fn bytes_have_three_digits_and_a_unit() {
        assert_eq!(bytes_text(0), "0.00 kB");
        assert_eq!(bytes_text(262_144), "262 kB");
        assert_eq!(bytes_text(93_100_000), "93.1 MB");
        assert_eq!(bytes_text(275_377_000_000), "275 GB");
    }
}
