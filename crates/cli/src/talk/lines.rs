//! Messages from a pipe or a file: one per line.

use std::io::{BufRead, Read};

use anyhow::{Context as _, bail};

use super::Input;

/// The longest text that is read from stdin or a file at once. Far beyond every context; a wrong file stops here.
const LIMIT_BYTES: u64 = 64 << 20;

/// The next line of `source` that is not blank.
///
/// # Errors
/// Where reading fails, a line is longer than the limit, or is not UTF-8.
pub(crate) fn next_message(source: &mut impl BufRead) -> anyhow::Result<Input> {
    loop {
        let mut line = Vec::new();
        let read = source.take(LIMIT_BYTES + 1).read_until(b'\n', &mut line).context("cannot read from stdin")?;
        if read == 0 {
            return Ok(Input::End);
        }
        let text = text_of(line, "stdin")?;
        if !text.trim().is_empty() {
            return Ok(Input::Text(text.trim_end().to_owned()));
        }
    }
}

/// All of `source` as text; `name` is what errors call it.
///
/// # Errors
/// As [`next_message`].
pub(crate) fn whole_text(source: &mut impl Read, name: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    source.take(LIMIT_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    text_of(bytes, name)
}

fn text_of(bytes: Vec<u8>, name: &str) -> anyhow::Result<String> {
    if bytes.len() as u64 > LIMIT_BYTES {
        bail!("{name}: more than {} MiB of text; give a shorter prompt", LIMIT_BYTES >> 20);
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("{name}: byte {at} is not UTF-8 text; convert it, for example with `iconv -t UTF-8`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_no_messages() {
        let mut source: &[u8] = b"one\r\n\n   \ntwo";
        assert_eq!(next_message(&mut source).unwrap(), Input::Text("one".into()));
        assert_eq!(next_message(&mut source).unwrap(), Input::Text("two".into()));
        assert_eq!(next_message(&mut source).unwrap(), Input::End);
    }

    #[test]
    fn what_is_not_text_is_named_with_its_place() {
        let error = whole_text(&mut &b"ab\xff"[..], "prompt.txt").unwrap_err().to_string();
        assert!(error.starts_with("prompt.txt: byte 2 is not UTF-8"), "{error}");
        assert_eq!(whole_text(&mut "你好\n".as_bytes(), "x").unwrap(), "你好\n");
    }
}
