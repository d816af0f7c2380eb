//! SentencePiece's precompiled rules for normalization (`tokenizer.ggml.precompiled_charsmap`), such as NFKC.
//!
//! The rules replace the longest of their keys with which the rest of the text begins, again and again. The format is
//! SentencePiece's (`normalizer.cc`): four bytes of length, a double-array trie of that length (as darts-clone writes it,
//! units of 32 bits), and the replacements, each closed by a zero byte.

/// The longest key that is looked for, in bytes; those of NFKC have at most 18. It bounds the time for each position of a
/// text, whatever the file says.
const LONGEST_KEY_BYTES: usize = 128;

/// The longest replacement; those of NFKC have at most 33 bytes. It bounds what a text can grow to.
const LONGEST_REPLACEMENT_BYTES: usize = 64;

/// The rules of a file.
#[derive(Debug)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    replacements: Vec<u8>,
}

impl Charsmap {
    /// # Errors
    /// A message where the trie is longer than the blob, or not of whole units, or a replacement is not closed.
    pub(super) fn new(blob: &[u8]) -> Result<Charsmap, String> {
        let (length, rest) = blob.split_first_chunk::<4>().ok_or_else(|| format!("{} bytes", blob.len()))?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > rest.len() || !length.is_multiple_of(4) {
            return Err(format!("a trie of {length} bytes in the {} that follow", rest.len()));
        }
        let (trie, replacements) = rest.split_at(length);
        let (units, _) = trie.as_chunks::<4>();
        let longest = replacements.split(|&byte| byte == 0).map(<[u8]>::len).max().unwrap_or(0);
        if longest > LONGEST_REPLACEMENT_BYTES || replacements.last().is_some_and(|&byte| byte != 0) {
            return Err(format!("a replacement that is not closed, or longer than {LONGEST_REPLACEMENT_BYTES} bytes"));
        }
        Ok(Charsmap {
            units: units.iter().map(|&unit| u32::from_le_bytes(unit)).collect(),
            replacements: replacements.to_vec(),
        })
    }

    /// What the beginning of `text` becomes, and how many bytes of it that is. Where no rule applies, the first character
    /// stays; nothing for an empty text.
    pub(super) fn normalize_prefix<'t>(&'t self, text: &'t str) -> (&'t str, usize) {
        if let Some((replacement, bytes)) = self.longest(text) {
            return (replacement, bytes);
        }
        let first = text.chars().next().map_or(0, char::len_utf8);
        (&text[..first], first)
    }

    /// The replacement for the longest key with which `text` begins, and the key's length. What the trie points to beyond
    /// its own end, and replacements that are no text, count as no rule.
    fn longest(&self, text: &str) -> Option<(&str, usize)> {
        let mut longest = None;
        let mut place = offset(*self.units.first()?);
        for (index, &byte) in text.as_bytes().iter().enumerate().take(LONGEST_KEY_BYTES) {
            place ^= u32::from(byte);
            let Some(&unit) = self.units.get(place as usize) else { break };
            // The label of a leaf has its upper bit set, and is never a byte.
            if unit & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            place ^= offset(unit);
            let has_leaf = unit >> 8 & 1 == 1;
            if has_leaf && text.is_char_boundary(index + 1) {
                let leaf = self.units.get(place as usize).map(|leaf| leaf & !(1 << 31));
                longest = leaf.and_then(|at| self.replacement(at)).map(|text| (text, index + 1)).or(longest);
            }
        }
        longest
    }

    fn replacement(&self, at: u32) -> Option<&str> {
        let rest = self.replacements.get(at as usize..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}

/// How far the children of a unit are from it.
fn offset(unit: u32) -> u32 {
    (unit >> 10) << ((unit & 1 << 9) >> 6)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The blob for rules with keys of one or two ASCII letters. Units: the root at 0 points to 256, a first letter `c` stands
    /// at 256 ^ c and points to a table of its own, where its leaf is at 0 and second letters at their bytes.
    pub(in super::super) fn blob(rules: &[(&str, &str)]) -> Vec<u8> {
        let mut units = vec![0u32; 256 * 2];
        let mut replacements = Vec::new();
        units[0] = 256 << 10;
        let table_of = |units: &mut Vec<u32>, place: usize, label: u8| {
            if units[place] == 0 {
                let table = units.len();
                units.resize(table + 256, 0);
                units[place] = ((table ^ place) as u32) << 10 | u32::from(label);
            }
            place ^ (units[place] >> 10) as usize
        };
        for (key, replacement) in rules {
            let mut place = 256;
            let mut parent = 0;
            for &byte in key.as_bytes() {
                parent = place ^ usize::from(byte);
                place = table_of(&mut units, parent, byte);
            }
            units[parent] |= 1 << 8;
            units[place] = replacements.len() as u32 | 1 << 31;
            replacements.extend_from_slice(replacement.as_bytes());
            replacements.push(0);
        }
        let mut blob = (units.len() as u32 * 4).to_le_bytes().to_vec();
        blob.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        blob.extend(replacements);
        blob
    }

    #[test]
    fn the_longest_key_counts() {
        let map = Charsmap::new(&blob(&[("a", "x"), ("ab", "yy"), ("c", "")])).unwrap();
        assert_eq!(map.normalize_prefix("abc"), ("yy", 2));
        assert_eq!(map.normalize_prefix("ac"), ("x", 1));
        assert_eq!(map.normalize_prefix("cd"), ("", 1));
        assert_eq!(map.normalize_prefix("éa"), ("é", 2));
        assert_eq!(map.normalize_prefix(""), ("", 0));
    }

    #[test]
    fn broken_blobs_are_errors_or_no_rules() {
        for blob in [&b""[..], b"\x04\0\0", b"\x08\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0", b"\0\0\0\0x"] {
            assert!(Charsmap::new(blob).is_err(), "{blob:?}");
        }
        let long = [&[0; 4][..], &[b'x'; 257], &[0]].concat();
        assert!(Charsmap::new(&long).unwrap_err().contains("64"));
        assert_eq!(Charsmap::new(&[0; 4]).unwrap().normalize_prefix("a"), ("a", 1));
        let good = blob(&[("a", "x")]);
        for index in 4..good.len() - 2 {
            let mut bad = good.clone();
            bad[index] ^= 0xff;
            let map = Charsmap::new(&bad).unwrap();
            let (_, bytes) = map.normalize_prefix("aa");
            assert!(bytes == 1 || bytes == 2);
        }
    }
}
