//! Which settings were best on a chip, by all records of it: where to begin on another device with the same one.

use std::collections::{BTreeMap, BTreeSet};

use duan_system::Chip;
use serde::Serialize;

use super::record::{Measured, Record};
use super::{Filter, Records, Result};

/// What the records of one chip say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// The chip.
    pub chip: String,
    /// How many records stand behind it.
    pub records: usize,
    /// How many of these come from other machines.
    pub from_elsewhere: usize,
    /// The best settings for decode.
    pub decode: Option<Best>,
    /// The best settings for prefill.
    pub prefill: Option<Best>,
}

/// Settings of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// Threads of the phase.
    pub threads: u64,
    /// The devices.
    pub backend: String,
    /// The instruction set.
    pub isa: String,
    /// In how many comparisons (of one model and one test) it was the fastest.
    pub best_in: usize,
    /// How many comparisons there were.
    pub comparisons: usize,
    /// The fastest record with these settings.
    pub record: i64,
    /// Its model.
    pub model_type: String,
    /// Its test.
    pub test: String,
    /// Its median rate, in tokens per second.
    pub tokens_per_s: f64,
}

/// A phase: which figures are its rates, and the threads that it had.
#[derive(Clone, Copy)]
struct Phase {
    is_its: fn(&Measured) -> bool,
    threads: fn(&Record) -> Option<u64>,
}

const DECODE: Phase = Phase { is_its: Measured::is_decode, threads: |record| record.head.threads_decode };
const PREFILL: Phase = Phase { is_its: Measured::is_prefill, threads: |record| record.head.threads_prefill };

/// What can be chosen: threads, backend, instruction set.
type Settings = (u64, String, String);

/// One rate with what it was measured with.
struct Run<'a> {
    record: &'a Record,
    figure: &'a Measured,
    settings: Settings,
}

impl Records {
    /// What the records of a chip say of its best settings; none where there are none, or nobody knows what the chip is.
    ///
    /// Only rates of the same model and the same test can be compared, so the settings that were fastest most often are the best; where
    /// two were as often, those of the newer record. Records that were marked doubtful, and those of other engines, do not count.
    ///
    /// # Errors
    /// As every reading.
    pub fn profile_for(&self, chip: &Chip) -> Result<Option<Profile>> {
        if chip.model.get().is_none() {
            return Ok(None);
        }
        let chip = chip.to_string();
        let machine = self.machine()?;
        let filter = Filter { chip: Some(chip.clone()), ..Filter::default() };
        let is_sound = |record: &Record| {
            let head = &record.head;
            head.is_own()
                && head.chip.as_deref() == Some(&*chip)
                && head.doubtful.as_deref().is_some_and(<[_]>::is_empty)
        };
        let records: Vec<Record> = self.list(&filter)?.into_iter().filter(is_sound).collect();
        let from_elsewhere = records.iter().filter(|record| record.head.machine.as_deref() != Some(&*machine)).count();
        let profile = Profile {
            chip,
            records: records.len(),
            from_elsewhere,
            decode: best(&records, DECODE),
            prefill: best(&records, PREFILL),
        };
        Ok((profile.decode.is_some() || profile.prefill.is_some()).then_some(profile))
    }
}

/// The settings that were fastest most often. `records` are the newest first.
fn best(records: &[Record], phase: Phase) -> Option<Best> {
    let mut comparisons: BTreeMap<(&str, &str), Vec<Run<'_>>> = BTreeMap::new();
    for record in records {
        let Some(threads) = (phase.threads)(record) else { continue };
        let head = &record.head;
        let isa = head.isa.clone().unwrap_or_default();
        for figure in record.results.iter().filter(|figure| (phase.is_its)(figure)) {
            let model = head.model_sha256.as_deref().unwrap_or(&head.model_filename);
            let settings = (threads, head.backend.clone(), isa.clone());
            comparisons.entry((model, &figure.test)).or_default().push(Run { record, figure, settings });
        }
    }
    let fastest = |runs: &Vec<Run<'_>>| -> Option<Settings> {
        let run = runs.iter().max_by(|a, b| a.figure.median.total_cmp(&b.figure.median))?;
        Some(run.settings.clone())
    };
    let winners: Vec<Settings> = comparisons.values().filter_map(fastest).collect();
    let newest = |settings: &Settings| {
        let runs = comparisons.values().flatten().filter(|run| run.settings == *settings);
        runs.map(|run| (run.record.head.taken_unix_s(), run.record.id)).max()
    };
    let count = |settings: &Settings| winners.iter().filter(|winner| *winner == settings).count();
    let candidates: BTreeSet<&Settings> = winners.iter().collect();
    let settings = candidates.into_iter().max_by_key(|settings| (count(settings), newest(settings)))?;
    let runs = comparisons.values().flatten().filter(|run| run.settings == *settings);
    let run = runs.max_by(|a, b| a.figure.median.total_cmp(&b.figure.median))?;
    let (threads, backend, isa) = settings.clone();
    Some(Best {
        threads,
        backend,
        isa,
        best_in: count(settings),
        comparisons: comparisons.len(),
        record: run.record.id,
        model_type: run.record.head.model_type.clone(),
        test: run.figure.test.clone(),
        tokens_per_s: run.figure.median,
    })
}
