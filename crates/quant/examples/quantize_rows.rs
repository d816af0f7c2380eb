//! Quantizes rows of `f32` with the search, for comparing with others: `scripts/quantizers.py` runs it.
//!
//!     quantize_rows FORMAT COLUMNS VALUES.f32 OUT.bytes [IMPORTANCE.f32] [--plain] [--repeat N]
//!
//! `IMPORTANCE.f32` has `COLUMNS` entries, the same for all rows. With `--repeat` everything is done N times, for timing.

fn floats(path: &str) -> std::io::Result<Vec<f32>> {
    let bytes = std::fs::read(path)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = Vec::new();
    let (mut plain, mut repeat) = (false, 1);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--plain" => plain = true,
            "--repeat" => repeat = words.next().ok_or("--repeat needs a number")?.parse()?,
            _ => arguments.push(word),
        }
    }
    let [name, columns, values, out, importance @ ..] = &arguments[..] else {
        return Err("FORMAT COLUMNS VALUES.f32 OUT.bytes [IMPORTANCE.f32] [--plain] [--repeat N]".into());
    };
    let format = duan_quant::format_by_name(name).ok_or("no such format")?;
    let columns: usize = columns.parse()?;
    let row_bytes = format.row_bytes(columns).ok_or("columns are not whole blocks")?;
    let values = floats(values)?;
    let importance = importance.first().map(|path| floats(path)).transpose()?;
    let mut bytes = vec![0u8; values.len() / columns * row_bytes];
    for _ in 0..repeat {
        for (values, bytes) in values.chunks_exact(columns).zip(bytes.chunks_exact_mut(row_bytes)) {
            match plain {
                true => format.encode(values, bytes)?,
                false => format.encode_best(values, importance.as_deref(), bytes)?,
            }
        }
    }
    std::fs::write(out, bytes)?;
    Ok(())
}
