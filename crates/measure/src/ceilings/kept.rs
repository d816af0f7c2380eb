//! Ceilings that were measured before: one file for each device, and when it no longer holds.
//!
//! A ceiling is only a ceiling for what it was measured with. So figures are measured anew when anything changed that they depend on,
//! when a number of threads is asked for that they lack, and after a week: what is not seen to change changes too.

use std::fs;
use std::io;
use std::path::PathBuf;

use duan_system::{Chip, Difference, State, differences};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Ceilings;
use crate::machine;

/// What the file says that it is.
const KIND: &str = "duan-ceilings";

/// Another shape of the file has another number.
const SCHEMA: u32 = 1;

/// Figures older than this are measured anew.
const MOST_AGE_S: i64 = 7 * 24 * 3600;

/// Letters of a device's name in the name of its file.
const NAME_LIMIT: usize = 80;

/// The folder of kept ceilings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    folder: PathBuf,
}

/// What figures must hold for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The version of duan.
    pub duan_version: &'a str,
    /// The chip.
    pub chip: &'a Chip,
    /// The instruction set.
    pub isa: &'a str,
    /// What threads are held to.
    pub pinning: &'a str,
    /// The numbers of threads that are asked for.
    pub threads: &'a [usize],
    /// The machine as it is now.
    pub state: &'a State,
}

/// Why figures are measured, or measured anew.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refresh {
    /// Nothing was kept.
    Missing,
    /// Somebody wants it.
    AskedFor,
    /// What is there is no such file, or damaged.
    Damaged {
        /// Where.
        path: PathBuf,
    },
    /// Another version of duan measured.
    Version {
        /// Which.
        before: String,
    },
    /// Another chip was measured.
    Chip {
        /// Which.
        before: String,
    },
    /// Another instruction set was used.
    Isa {
        /// Which.
        before: String,
    },
    /// Threads were held to something else.
    Pinning {
        /// To what.
        before: String,
    },
    /// These numbers of threads were not measured.
    Threads {
        /// Which.
        lacking: Vec<usize>,
    },
    /// Memory was not read.
    Incomplete {
        /// Why not.
        because: String,
    },
    /// The machine is in another state.
    State {
        /// In what.
        differences: Vec<Difference>,
    },
    /// Others used the machine when it was measured, and do not any more.
    Busy {
        /// The load average then.
        load_average: f64,
    },
    /// More than a week has passed, or less than no time.
    Age {
        /// When it was measured.
        measured_at: String,
    },
}

/// The file. Fields of later versions are ignored.
#[derive(Serialize)]
struct File<'a> {
    kind: &'a str,
    schema: u32,
    #[serde(flatten)]
    ceilings: &'a Ceilings,
}

/// What is read first, since what another version wrote need not have all fields.
#[derive(Deserialize)]
struct Head {
    kind: String,
    schema: u32,
    duan_version: String,
}

impl Kept {
    /// What is kept in a folder, which need not be there.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The file of a chip.
    pub fn path(&self, chip: &Chip) -> PathBuf {
        self.folder.join(format!("{}.json", file_name(&chip.to_string())))
    }

    /// The figures that were kept, where they hold.
    ///
    /// # Errors
    /// Why they must be measured.
    pub fn find(&self, wanted: &Wanted<'_>) -> Result<Ceilings, Refresh> {
        let path = self.path(wanted.chip);
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Err(Refresh::Missing);
        }
        let damaged = || Refresh::Damaged { path: path.clone() };
        let head: Head = duan_files::read_json(&path).ok_or_else(damaged)?;
        if head.kind != KIND {
            return Err(damaged());
        }
        if head.duan_version != wanted.duan_version || head.schema != SCHEMA {
            return Err(Refresh::Version { before: head.duan_version });
        }
        let ceilings: Ceilings = duan_files::read_json(&path).ok_or_else(damaged)?;
        if !is_sound(&ceilings) {
            return Err(damaged());
        }
        match stale(&ceilings, wanted, Timestamp::now()) {
            Some(reason) => Err(reason),
            None => Ok(ceilings),
        }
    }

    /// Keeps figures in place of those before, and says where.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn keep(&self, ceilings: &Ceilings) -> io::Result<PathBuf> {
        let path = self.path(&ceilings.chip);
        fs::create_dir_all(&self.folder)?;
        duan_files::write_json(&path, &File { kind: KIND, schema: SCHEMA, ceilings })?;
        Ok(path)
    }
}

/// Small letters, digits and dashes.
fn file_name(chip: &str) -> String {
    let letters =
        chip.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { ' ' });
    let words: String = letters.collect();
    let mut name = words.split_whitespace().collect::<Vec<_>>().join("-");
    name.truncate(NAME_LIMIT);
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Whether the figures can be figures at all: files can be written by anybody.
fn is_sound(ceilings: &Ceilings) -> bool {
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    let clocks = || ceilings.clock.iter().flat_map(|clock| clock.best_hz.iter().chain(&clock.median_hz));
    ceilings.read.iter().all(|read| is_rate(read.bytes_per_s))
        && ceilings.multiply_adds.iter().all(|peak| is_rate(peak.per_s))
        && clocks().all(|&hz| is_rate(hz))
}

/// Why figures do not hold, the first reason there is.
fn stale(ceilings: &Ceilings, wanted: &Wanted<'_>, now: Timestamp) -> Option<Refresh> {
    // One name may stand for chips that differ, as by their highest frequency.
    if ceilings.chip != *wanted.chip {
        return Some(Refresh::Chip { before: ceilings.chip.to_string() });
    }
    if ceilings.isa != wanted.isa {
        return Some(Refresh::Isa { before: ceilings.isa.clone() });
    }
    if ceilings.pinning != wanted.pinning {
        return Some(Refresh::Pinning { before: ceilings.pinning.clone() });
    }
    let differences = differences(&ceilings.state, wanted.state);
    if !differences.is_empty() {
        return Some(Refresh::State { differences });
    }
    let mut lacking: Vec<usize> =
        wanted.threads.iter().copied().filter(|threads| !ceilings.threads.contains(threads)).collect();
    lacking.dedup();
    if !lacking.is_empty() {
        return Some(Refresh::Threads { lacking });
    }
    if let Some(because) = ceilings.read_skipped.clone() {
        return Some(Refresh::Incomplete { because });
    }
    // While others still use the machine, to measure again would bring nothing.
    if let Some(load_average) = ceilings.load_of_others()
        && load_of_others(wanted.state, &ceilings.threads).is_none()
    {
        return Some(Refresh::Busy { load_average });
    }
    let is_recent = age_s(&ceilings.measured_at, now).is_some_and(|age| (0..=MOST_AGE_S).contains(&age));
    (!is_recent).then(|| Refresh::Age { measured_at: ceilings.measured_at.clone() })
}

/// Seconds from then to now, where that is a time.
fn age_s(measured_at: &str, now: Timestamp) -> Option<i64> {
    let then: Timestamp = measured_at.parse().ok()?;
    Some(now.as_second() - then.as_second())
}

/// The load average, where others used processors that the most of these numbers of threads need.
fn load_of_others(state: &State, threads: &[usize]) -> Option<f64> {
    let load = *state.pressure.load_average.get()?;
    let processors = state.limits.affinity.get()?.len();
    let most = threads.iter().copied().max().unwrap_or(1);
    machine::is_shared(load, processors, most).then_some(load)
}

impl Ceilings {
    /// The load average, where others used the machine when this was measured, or a moment before: then figures are too low.
    pub fn load_of_others(&self) -> Option<f64> {
        load_of_others(&self.state, &self.threads)
    }

    /// How many seconds ago this was measured; none where the date is none.
    pub fn age_s(&self) -> Option<i64> {
        age_s(&self.measured_at, Timestamp::now())
    }
}
