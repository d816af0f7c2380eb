//! Numbers as people read them. Programs get plain numbers through `--json`.

/// Decimal units of bytes, as disks and downloads are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteUnit {
    name: &'static str,
    power: u32,
}

const BYTE_UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];

impl ByteUnit {
    /// The unit in which the largest number of a table has at most three digits before the point. A table chooses
    /// its unit once, so that its rows can be compared at a glance.
    pub(crate) fn for_largest(bytes: impl IntoIterator<Item = u64>) -> ByteUnit {
        let largest = bytes.into_iter().max().unwrap_or(0) as f64;
        let mut power = 0;
        while largest / 1000f64.powi(power as i32) >= 999.5 && (power as usize) + 1 < BYTE_UNITS.len() {
            power += 1;
        }
        ByteUnit { name: BYTE_UNITS[power as usize], power }
    }

    /// The unit's name, for a column's head.
    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// `bytes` in this unit, without its name: one digit after the point, two below ten.
    pub(crate) fn number(self, bytes: u64) -> String {
        if self.power == 0 {
            return bytes.to_string();
        }
        let value = bytes as f64 / 1000f64.powi(self.power as i32);
        if value < 9.995 { format!("{value:.2}") } else { format!("{value:.1}") }
    }
}

/// One number of bytes with its unit: "98.4 MB".
pub(crate) fn bytes_text(bytes: u64) -> String {
    let unit = ByteUnit::for_largest([bytes]);
    format!("{} {}", unit.number(bytes), unit.name())
}

/// A whole number with its thousands apart: "134,515,008".
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number and its noun: "1 token", "34 tokens".
pub(crate) fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", grouped(number as u64)) }
}

/// A rate with three digits that mean something: "412", "71.3", "0.92".
pub(crate) fn three_digits(value: f64) -> String {
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.digits$}")
}

/// A time that is left or has passed, in whole seconds: "8s", "3m05s", "2h10m".
pub(crate) fn seconds_text(seconds: f64) -> String {
    // A float that is too large or not a number becomes the nearest whole number or zero.
    let seconds = seconds.round() as u64;
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unit_serves_a_whole_table() {
        let unit = ByteUnit::for_largest([512, 98_362_432, 4_096]);
        assert_eq!(unit.name(), "MB");
        assert_eq!([512, 98_362_432, 4_096].map(|bytes| unit.number(bytes)), ["0.00", "98.4", "0.00"]);
        assert_eq!(ByteUnit::for_largest([]).name(), "bytes");
        assert_eq!(bytes_text(999), "999 bytes");
        assert_eq!(bytes_text(999_499), "999.5 kB");
        assert_eq!(bytes_text(999_500), "1.00 MB");
        assert_eq!(bytes_text(u64::MAX), "18446.7 PB");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(134_515_008), "134,515,008");
        assert_eq!(counted(1, "token"), "1 token");
        assert_eq!(counted(2048, "token"), "2,048 tokens");
        assert_eq!(
            [0.917, 9.99, 9.996, 71.34, 99.96, 412.4].map(three_digits),
            ["0.92", "9.99", "10.0", "71.3", "100", "412"]
        );
        assert_eq!([0.2, 59.4, 59.6, 185.0, 7800.0].map(seconds_text), ["0s", "59s", "1m00s", "3m05s", "2h10m"]);
        assert_eq!(seconds_text(f64::NAN), "0s");
    }
}
