//! Logits in two bytes each, for a reference that does not fit in memory beside the model.
//!
//! A row's logits are rounded to 65,536 steps between its smallest and its largest: with 60 between them, which is much, a step is
//! 0.0009, and the divergence of a row from its own rounding is below 1e-7 nats. The likeliest token is kept as it was, because
//! rounding makes equals.

/// Bytes before a row's codes: smallest logit, step (f32 each) and likeliest token (u32), little-endian.
const HEAD_BYTES: usize = 12;
const LARGEST_CODE: f32 = 65535.0;

/// Bytes of a row of so many logits.
pub fn row_bytes(vocab_size: usize) -> usize {
    HEAD_BYTES + 2 * vocab_size
}

/// Appends a row of finite logits, whose likeliest token is `top`.
pub fn write(logits: &[f32], top: u32, bytes: &mut Vec<u8>) {
    let smallest = logits.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // Halves, so that the distance of two finite numbers stays finite.
    let step = (largest / 2.0 - smallest / 2.0) / LARGEST_CODE * 2.0;
    bytes.extend(smallest.to_le_bytes());
    bytes.extend(step.to_le_bytes());
    bytes.extend(top.to_le_bytes());
    let per_step = if step > 0.0 { f64::from(step).recip() } else { 0.0 };
    let code = |logit: f32| ((f64::from(logit) - f64::from(smallest)) * per_step).round() as u16;
    bytes.extend(logits.iter().flat_map(|&logit| code(logit).to_le_bytes()));
}

/// Reads a row of [`row_bytes`] back, and gives the likeliest token. Panics where the bytes are not those of so many logits.
pub fn read(bytes: &[u8], logits: &mut [f32]) -> u32 {
    assert_eq!(bytes.len(), row_bytes(logits.len()), "the bytes of a row");
    let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    let (smallest, step) = (f32::from_le_bytes(word(0)), f32::from_le_bytes(word(4)));
    for (logit, code) in logits.iter_mut().zip(bytes[HEAD_BYTES..].chunks_exact(2)) {
        let code = u16::from_le_bytes([code[0], code[1]]);
        let value = f64::from(smallest) + f64::from(code) * f64::from(step);
        *logit = value.min(f64::from(f32::MAX)) as f32;
    }
    u32::from_le_bytes(word(8))
}
