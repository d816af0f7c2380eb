//! What the system says of this process.
//!
//! Source: the kernel's document `filesystems/proc.rst`.

use std::str::FromStr;

use crate::source::{Source, Unreadable, parse, value_of};

const STAT: &str = "proc/self/stat";

/// `/proc/self/stat`, of the whole process.
pub(crate) struct Stat(Vec<String>);

impl Stat {
    /// # Errors
    /// Where it cannot be read or has no name in brackets, after which the numbers stand.
    pub(crate) fn read(source: &dyn Source) -> Result<Self, Unreadable> {
        let text = source.read(STAT)?;
        // The name may hold anything, brackets too.
        let (_, fields) = text.rsplit_once(')').ok_or_else(|| Unreadable::unexpected(STAT, "holds no name"))?;
        Ok(Self(fields.split_whitespace().map(str::to_owned).collect()))
    }

    /// The field that the document gives the number `number`, from 3 on.
    ///
    /// # Errors
    /// Where it is missing or no such number.
    pub(crate) fn field<T: FromStr>(&self, number: usize) -> Result<T, Unreadable> {
        let field = number.checked_sub(3).and_then(|index| self.0.get(index));
        parse(STAT, field.ok_or_else(|| Unreadable::unexpected(STAT, format!("has no field {number}")))?)
    }
}

/// Faults for which the disk was read.
pub(crate) const MAJOR_FAULTS: usize = 12;
/// Time in user code, in ticks.
pub(crate) const USER_TICKS: usize = 14;
/// Time in the kernel, in ticks.
pub(crate) const SYSTEM_TICKS: usize = 15;
/// From -20, which goes first, to 19.
pub(crate) const NICE: usize = 19;
/// The scheduling class as a number.
pub(crate) const POLICY: usize = 41;

/// A line of a file like `/proc/self/status`, whose text is given.
pub(crate) fn status<'a>(path: &str, text: &'a str, key: &str) -> Result<&'a str, Unreadable> {
    value_of(text, key).ok_or_else(|| Unreadable::unexpected(path, format!("says nothing of {key}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    #[test]
    fn names_may_hold_brackets_and_blanks() {
        let stat = |text: &str| Stat::read(&Tree::new("linux").file("proc/self/stat", text));
        let read = stat("7 (a) b (c) S 1 2 -3").unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!((read.field::<u64>(4), read.field::<i32>(6)), (Ok(1), Ok(-3)));
        let error = |result: Result<u64, Unreadable>| result.unwrap_err().to_string();
        assert_eq!(error(read.field(6)), "/proc/self/stat: \"-3\" is no number of the kind expected");
        assert_eq!(error(read.field(7)), "/proc/self/stat: has no field 7");
        assert_eq!(error(read.field(1)), "/proc/self/stat: has no field 1");
        assert_eq!(error(stat("7 a S").map(|_| 0)), "/proc/self/stat: holds no name");
    }
}
