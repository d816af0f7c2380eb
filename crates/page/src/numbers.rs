//! Numbers as people read them.

/// Three digits that mean something: "412", "71.3", "0.92"; small ones keep two of them.
pub(crate) fn three_digits(value: f64) -> String {
    if !value.is_finite() {
        return "not known".to_owned();
    }
    let digits = match value.abs() {
        0.0 => 0,
        size if size < 0.00995 => 4,
        size if size < 0.0995 => 3,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if digits == 0 { grouped(&text) } else { text }
}

/// A number without what stands behind its point: "12", "1,500".
pub(crate) fn whole(value: f64) -> String {
    if value.is_finite() { grouped(&format!("{value:.0}")) } else { "not known".to_owned() }
}

/// A whole number with its thousands apart: "134,515,008".
fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut out = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A part as per cent: "54 %", "0.4 %".
pub(crate) fn percent(part: f64) -> String {
    let value = part * 100.0;
    let digits = if value.abs() < 9.95 { 1 } else { 0 };
    if value.is_finite() { format!("{value:.digits$} %") } else { "not known".to_owned() }
}

/// Bytes in decimal units: "98.4 MB".
pub(crate) fn bytes(bytes: f64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut power = 0;
    while bytes.abs() / 1000f64.powi(power) >= 999.5 && (power as usize) + 1 < units.len() {
        power += 1;
    }
    format!("{} {}", three_digits(bytes / 1000f64.powi(power)), units[power as usize])
}

/// A whole number, in words where it counts something: "1 round", "34 rounds".
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(&number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digits_that_mean_something() {
        let texts = [0.0, 0.0012, 0.0456, 0.5, 71.26, 412.4, 1_234_567.0, -3.0].map(three_digits);
        assert_eq!(texts, ["0", "0.0012", "0.046", "0.50", "71.3", "412", "1,234,567", "-3.00"]);
        assert_eq!([f64::NAN, f64::INFINITY].map(three_digits), ["not known", "not known"]);
        assert_eq!([0.544, 0.0044, 1.25, f64::NAN].map(percent), ["54 %", "0.4 %", "125 %", "not known"]);
        assert_eq!([0.0, 999.0, 98_400_000.0, 2.5e9].map(bytes), ["0 bytes", "999 bytes", "98.4 MB", "2.50 GB"]);
        assert_eq!((counted(1, "round"), counted(1200, "round")), ("1 round".to_owned(), "1,200 rounds".to_owned()));
    }
}
