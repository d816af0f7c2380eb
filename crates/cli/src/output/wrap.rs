//! Lines that end between words, so that talk stays readable in a narrow terminal.

/// Lines narrower than this are left as they are: a terminal that narrow has other troubles.
const LEAST_WIDTH: usize = 20;

/// Breaks the lines of `text` that are longer than `width` between words. What follows is indented as its line was.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    if width < LEAST_WIDTH {
        return text.to_owned();
    }
    text.split('\n').map(|line| wrapped_line(line, width)).collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str, width: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let indent = &line[..line.len() - line.trim_start_matches(' ').len()];
    let mut out = indent.to_owned();
    let mut used = columns(indent);
    let mut is_first = true;
    for word in line[indent.len()..].split(' ') {
        let needed = columns(word);
        if !is_first && used + 1 + needed > width {
            out.push('\n');
            out.push_str(indent);
            used = columns(indent);
        } else if !is_first {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += needed;
        is_first = false;
    }
    out
}

/// The columns that a text takes: characters, without the codes for colours between ESC and `m`.
fn columns(text: &str) -> usize {
    let mut count = 0;
    let mut in_code = false;
    for character in text.chars() {
        match character {
            '\x1b' => in_code = true,
            'm' if in_code => in_code = false,
            _ if in_code => {}
            _ => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_keep_their_indent() {
        let text = "short\n  a line that is too long for twenty columns";
        assert_eq!(wrapped(text, 20), "short\n  a line that is too\n  long for twenty\n  columns");
        assert_eq!(wrapped("averyveryverylongwordalone", 20), "averyveryverylongwordalone");
        assert_eq!(wrapped("never in so narrow a place", 5), "never in so narrow a place");
    }

    #[test]
    fn colours_take_no_columns() {
        let text = "\x1b[2mprefill 34 tokens\x1b[0m x";
        assert_eq!(columns(text), 19);
        assert_eq!(wrapped(text, 20), text);
    }
}
