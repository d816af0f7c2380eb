//! The order of versions of Python packages (PEP 440), as far as choosing the newest needs it.

use std::cmp::Ordering;

/// A version that can be compared.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    epoch: u64,
    /// Without zeros at the end: 1.0 and 1 are the same release.
    release: Vec<u64>,
    /// Where it stands around its release: (phase, number), by phase dev < a < b < rc < final.
    phase: (i8, u64),
    post: Option<u64>,
    dev: Option<u64>,
    local: String,
}

impl Version {
    /// Reads a version; none if it is not written as PEP 440 says.
    pub(crate) fn parse(text: &str) -> Option<Version> {
        let text = text.trim().to_ascii_lowercase();
        let text = text.strip_prefix('v').unwrap_or(&text);
        let (public, local) = text.split_once('+').unwrap_or((text, ""));
        let (epoch, public) = match public.split_once('!') {
            Some((epoch, rest)) => (epoch.parse().ok()?, rest),
            None => (0, public),
        };
        let (mut release, mut rest) = release(public)?;
        while release.last() == Some(&0) {
            release.pop();
        }
        let (mut pre, mut post, mut dev) = (None, None, None);
        while !rest.is_empty() {
            let (label, number, after) = suffix(rest)?;
            rest = after;
            let slot = match label {
                "a" | "alpha" => pre.replace((1, number)).map(|_| ()),
                "b" | "beta" => pre.replace((2, number)).map(|_| ()),
                "c" | "rc" | "pre" | "preview" => pre.replace((3, number)).map(|_| ()),
                "" | "post" | "rev" | "r" => post.replace(number).map(|_| ()),
                "dev" => dev.replace(number).map(|_| ()),
                _ => return None,
            };
            if slot.is_some() {
                return None;
            }
        }
        // A development release of the final version comes before its first alpha.
        let phase = pre.unwrap_or(if dev.is_some() && post.is_none() { (0, 0) } else { (4, 0) });
        Some(Version { epoch, release, phase, post, dev, local: local.replace(['-', '_'], ".") })
    }

    /// Whether it is an alpha, beta, candidate or development release.
    pub(crate) fn is_prerelease(&self) -> bool {
        self.phase.0 < 4 || self.dev.is_some()
    }
}

/// The numbers at the beginning, and what follows them.
fn release(text: &str) -> Option<(Vec<u64>, &str)> {
    let mut numbers = Vec::new();
    let mut rest = text;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        numbers.push(rest[..digits].parse().ok()?);
        rest = &rest[digits..];
        match rest.strip_prefix('.') {
            Some(after) if after.starts_with(|c: char| c.is_ascii_digit()) => rest = after,
            _ => return Some((numbers, rest)),
        }
    }
}

/// One of `rc1`, `.post2`, `-3`, `.dev`: label, number (0 if left out), and what follows.
fn suffix(text: &str) -> Option<(&str, u64, &str)> {
    let inner = text.strip_prefix(['.', '-', '_']).unwrap_or(text);
    let letters = inner.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (label, rest) = inner.split_at(letters);
    let rest = if label.is_empty() { rest } else { rest.strip_prefix(['.', '-', '_']).unwrap_or(rest) };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    // A bare number is a post release only behind a hyphen.
    if label.is_empty() && (digits == 0 || !text.starts_with('-')) {
        return None;
    }
    let number = if digits == 0 { 0 } else { rest[..digits].parse().ok()? };
    Some((label, number, &rest[digits..]))
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let dev = |version: &Version| version.dev.unwrap_or(u64::MAX);
        (self.epoch, &self.release, self.phase, self.post, dev(self), &self.local).cmp(&(
            other.epoch,
            &other.release,
            other.phase,
            other.post,
            dev(other),
            &other.local,
        ))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn order_is_that_of_pep_440() {
        let rising = [
            "0.1",
            "0.1.1",
            "0.1.2",
            "0.9",
            "0.10",
            "1.0.dev1",
            "1.0a1.dev1",
            "1.0a1",
            "1.0a2",
            "1.0b1",
            "1.0rc1",
            "1.0",
            "1.0+local",
            "1.0.post1.dev1",
            "1.0.post1",
            "1.0.post2",
            "1.1",
            "1.10",
            "2024.1",
            "1!0.1",
        ];
        for pair in rising.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{} < {}", pair[0], pair[1]);
        }
    }

    #[test]
    fn spellings_of_the_same_version_are_equal() {
        for (a, b) in
            [("1", "1.0.0"), ("1.0RC1", "1.0-c1"), ("v1.2", "1.2"), ("1.0-1", "1.0.post1"), ("1.0a", "1.0alpha0")]
        {
            assert_eq!(version(a), version(b));
        }
        assert!(version("2.0rc1").is_prerelease() && version("2.dev3").is_prerelease());
        assert!(!version("2.0.post1").is_prerelease());
        for text in ["", "x", "1.0foo", "1..2", "1.0a1a2", "99999999999999999999"] {
            assert!(Version::parse(text).is_none(), "{text}");
        }
    }
}
