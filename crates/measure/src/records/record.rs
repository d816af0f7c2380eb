//! What a record is: the settings beside every number, and the numbers with their raw samples.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Error;
use crate::bench::statistics::{median, median_interval};

/// The unit of rates of prefill and decode.
pub const TOKENS_PER_S: &str = "tokens/s";

/// [`Head::kind`] of what `duan bench` measures.
pub const BENCH: &str = "bench";

/// [`Head::engine`] of what duan itself measured with its own engine.
pub const DUAN: &str = "duan";

/// No name, version or reason is longer, in bytes.
const TEXT_LIMIT_BYTES: usize = 4096;
/// No list of reasons, tags or names is longer.
pub(super) const LIST_LIMIT: usize = 1000;
/// No record has more figures.
pub(super) const FIGURES_LIMIT: usize = 1000;
/// What a later version says besides is no longer, in bytes of JSON.
const MORE_LIMIT_BYTES: usize = 64 << 10;
/// Clocks of two machines may differ by so much.
const FUTURE_LIMIT_S: i64 = 86_400;
/// No tag is longer, in characters.
const TAG_LIMIT: usize = 64;

/// The settings beside every number. Names are those of the JSON, llama-bench's where it has the same.
///
/// What is not known is `None` (or an empty text); [`Head::missing`] says which of it has to be known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Head {
    /// When the first figure was taken: RFC 3339, `2026-01-31T23:59:59Z`.
    pub taken_at: String,
    /// What was done: "bench".
    pub kind: String,
    /// The program that computed: "duan", "llama.cpp".
    pub engine: String,
    /// Its version.
    pub engine_version: String,
    /// How it was compiled: "release", "debug".
    pub build_profile: Option<String>,
    /// The machine by its random id, see [`super::Records::machine`].
    pub machine: Option<String>,
    /// What identifies the chip: processor, architecture, cores.
    pub chip: Option<String>,
    /// The model's file, or its folder.
    pub model_filename: String,
    /// SHA-256 of the file, in lower hexadecimal digits.
    pub model_sha256: Option<String>,
    /// Family, size and format: "llama 1.24B Q4_0".
    pub model_type: String,
    /// Bytes of all tensors.
    pub model_size: Option<u64>,
    /// Weights of all tensors.
    pub model_n_params: Option<u64>,
    /// Bits for each weight, on average.
    pub bits_per_weight: Option<f64>,
    /// The devices that ran it, separated by commas.
    pub backend: String,
    /// What ran on a device of last resort, one line for each; empty where nothing did.
    pub fallbacks: Option<Vec<String>>,
    /// The instruction set that kernels used; "none" for a device without.
    pub isa: Option<String>,
    /// Threads of prefill.
    pub threads_prefill: Option<u64>,
    /// Threads of decode.
    pub threads_decode: Option<u64>,
    /// How threads are held to processors; "none" where they are not.
    pub pinning: Option<String>,
    /// How keys are kept.
    pub type_k: String,
    /// How values are kept.
    pub type_v: String,
    /// The most tokens of a pass.
    pub n_batch: Option<u64>,
    /// Positions of the context.
    pub n_ctx: Option<u64>,
    /// Whether weights were laid out for the device.
    pub packed: Option<bool>,
    /// The fusions that were at work; empty where none was.
    pub fused: Option<Vec<String>>,
    /// Runs before each test that do not count.
    pub warm_up_runs: Option<u64>,
    /// Pause between two counted rounds.
    pub pause_ms: Option<u64>,
    /// The hottest sensor before the first test.
    pub temperature_before_millicelsius: Option<i64>,
    /// The same sensor after the last.
    pub temperature_after_millicelsius: Option<i64>,
    /// What moved under the run and speaks against its numbers, one line for each; empty where nothing did.
    pub doubtful: Option<Vec<String>>,
    /// Names that a person gave it.
    pub tags: Vec<String>,
    /// What a later version of duan says beside these.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Head {
    /// The names of what has to be known and is not: a number without its settings has no place in the records.
    ///
    /// Of every engine: when, what, by which version, on which model, backend and threads, and how keys and values were kept. Of
    /// duan's own benchmarks all that it can know of itself.
    pub fn missing(&self) -> Vec<&'static str> {
        let texts = [
            ("taken_at", &self.taken_at),
            ("kind", &self.kind),
            ("engine", &self.engine),
            ("engine_version", &self.engine_version),
            ("model_filename", &self.model_filename),
            ("model_type", &self.model_type),
            ("backend", &self.backend),
            ("type_k", &self.type_k),
            ("type_v", &self.type_v),
        ]
        .map(|(name, text)| (name, text.is_empty()));
        let numbers = [
            ("model_size", self.model_size.is_none()),
            ("model_n_params", self.model_n_params.is_none()),
            ("threads_prefill", self.threads_prefill.is_none()),
            ("threads_decode", self.threads_decode.is_none()),
            ("n_batch", self.n_batch.is_none()),
        ];
        let all = texts.into_iter().chain(numbers).chain(self.missing_of_own());
        all.filter(|(_, is_missing)| *is_missing).map(|(name, _)| name).collect()
    }

    /// What only duan's own benchmarks must say; others may not know it of themselves.
    fn missing_of_own(&self) -> Vec<(&'static str, bool)> {
        if !self.is_own() {
            return Vec::new();
        }
        vec![
            ("build_profile", self.build_profile.is_none()),
            ("chip", self.chip.is_none()),
            ("model_sha256", self.model_sha256.is_none()),
            ("bits_per_weight", self.bits_per_weight.is_none()),
            ("fallbacks", self.fallbacks.is_none()),
            ("isa", self.isa.is_none()),
            ("pinning", self.pinning.is_none()),
            ("n_ctx", self.n_ctx.is_none()),
            ("packed", self.packed.is_none()),
            ("fused", self.fused.is_none()),
            ("warm_up_runs", self.warm_up_runs.is_none()),
            ("pause_ms", self.pause_ms.is_none()),
            ("doubtful", self.doubtful.is_none()),
        ]
    }

    /// Whether another run had the same program, chip, model and settings. The length of the context is none of them: it follows from which
    /// tests ran.
    pub fn is_set_as(&self, other: &Head) -> bool {
        // Everything is the same but what belongs to one run.
        let of_settings = |head: &Head| Head {
            taken_at: String::new(),
            machine: None,
            model_filename: String::new(),
            n_ctx: None,
            temperature_before_millicelsius: None,
            temperature_after_millicelsius: None,
            doubtful: None,
            tags: Vec::new(),
            ..head.clone()
        };
        of_settings(self) == of_settings(other)
    }

    /// Whether duan's own engine was measured.
    pub fn is_own(&self) -> bool {
        self.engine == DUAN
    }

    /// When it was taken, in seconds since 1970, where the text is a time.
    pub fn taken_unix_s(&self) -> Option<i64> {
        self.taken_at.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
    }

    /// Every text in it, with its name.
    fn texts(&self) -> Vec<(&'static str, &str)> {
        let always = [
            ("taken_at", &self.taken_at),
            ("kind", &self.kind),
            ("engine", &self.engine),
            ("engine_version", &self.engine_version),
            ("model_filename", &self.model_filename),
            ("model_type", &self.model_type),
            ("backend", &self.backend),
            ("type_k", &self.type_k),
            ("type_v", &self.type_v),
        ];
        let perhaps = [
            ("build_profile", &self.build_profile),
            ("machine", &self.machine),
            ("chip", &self.chip),
            ("model_sha256", &self.model_sha256),
            ("isa", &self.isa),
            ("pinning", &self.pinning),
        ];
        let lists = self.lists();
        let of_lists = lists.into_iter().flat_map(|(name, list)| list.iter().map(move |text| (name, text.as_str())));
        always
            .into_iter()
            .map(|(name, text)| (name, text.as_str()))
            .chain(perhaps.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?))))
            .chain(of_lists)
            .collect()
    }

    fn lists(&self) -> [(&'static str, &[String]); 4] {
        [
            ("fallbacks", self.fallbacks.as_deref().unwrap_or_default()),
            ("fused", self.fused.as_deref().unwrap_or_default()),
            ("doubtful", self.doubtful.as_deref().unwrap_or_default()),
            ("tags", &self.tags),
        ]
    }
}

/// One figure of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What was measured: "tg128", "pp512 @ d4096", "first token".
    pub test: String,
    /// Tokens in passes of many.
    #[serde(default)]
    pub n_prompt: u64,
    /// Tokens one by one, after those.
    #[serde(default)]
    pub n_gen: u64,
    /// Tokens of context before.
    #[serde(default)]
    pub n_depth: u64,
    /// The unit of the samples: [`TOKENS_PER_S`], "ms", "bytes".
    pub unit: String,
    /// Every value as it was measured, in the order of the rounds.
    pub samples: Vec<f64>,
    /// The middle one.
    pub median: f64,
    /// The lower end of the median's 90 % interval; none of too few samples.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Measured {
    /// A figure with its median and interval (see [`median_interval`]).
    pub fn new(test: &str, tokens: [u64; 3], unit: &str, samples: Vec<f64>) -> Measured {
        let [n_prompt, n_gen, n_depth] = tokens;
        let interval = median_interval(&samples);
        Measured {
            test: test.to_owned(),
            n_prompt,
            n_gen,
            n_depth,
            unit: unit.to_owned(),
            median: median(&samples),
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            samples,
        }
    }

    /// The same figure, with the median and the interval that its samples have, whatever was said of them.
    pub(super) fn recomputed(&self) -> Measured {
        let Measured { test, n_prompt, n_gen, n_depth, unit, samples, .. } = self;
        // That there are none is told by others.
        if samples.is_empty() {
            return self.clone();
        }
        Measured::new(test, [*n_prompt, *n_gen, *n_depth], unit, samples.clone())
    }

    /// Whether it is a rate, of which more is better; of times, bytes and energy less is.
    pub fn is_rate(&self) -> bool {
        self.unit.ends_with("/s")
    }

    /// Whether it is the rate of decode and nothing else.
    pub fn is_decode(&self) -> bool {
        self.unit == TOKENS_PER_S && self.n_prompt == 0 && self.n_gen > 0
    }

    /// Whether it is the rate of prefill and nothing else.
    pub fn is_prefill(&self) -> bool {
        self.unit == TOKENS_PER_S && self.n_prompt > 0 && self.n_gen == 0
    }
}

/// What is to become a record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewRecord {
    /// The settings.
    pub head: Head,
    /// The figures, in the order of the tests.
    pub results: Vec<Measured>,
    /// The whole report, as it was printed for programs, with the machine's `state` in it where it was read.
    pub document: Value,
}

/// A record as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Its number here; none is given twice.
    pub id: i64,
    /// Its name everywhere, 32 hexadecimal digits: a record that comes back from elsewhere is known by it.
    pub uid: String,
    /// The settings.
    pub head: Head,
    /// The figures.
    pub results: Vec<Measured>,
}

/// Whether a record may be kept: nothing that it needs is missing, and everything is as it should be.
pub(super) fn check(head: &Head, results: &[Measured]) -> Result<(), Error> {
    let missing = head.missing();
    if !missing.is_empty() {
        return Err(Error::Missing { names: missing.join(", ") });
    }
    let wrong = |what: String| Err(Error::Wrong { what });
    if head.taken_unix_s().is_none() {
        return wrong("taken_at is no time such as 2026-01-31T23:59:59Z".to_owned());
    }
    if let Some((name, _)) = head.texts().into_iter().find(|(_, text)| text.len() > TEXT_LIMIT_BYTES) {
        return wrong(format!("{name} is longer than {TEXT_LIMIT_BYTES} bytes"));
    }
    if let Some((name, _)) = head.lists().into_iter().find(|(_, list)| list.len() > LIST_LIMIT) {
        return wrong(format!("{name} has more than {LIST_LIMIT} entries"));
    }
    if serde_json::to_vec(&head.more).map_or(usize::MAX, |text| text.len()) > MORE_LIMIT_BYTES {
        return wrong(format!(
            "what it says beside the settings that are known is longer than {MORE_LIMIT_BYTES} bytes"
        ));
    }
    head.tags.iter().try_for_each(|tag| check_tag(tag))?;
    if results.is_empty() {
        return wrong("it has no figures".to_owned());
    }
    if results.len() > FIGURES_LIMIT {
        return wrong(format!("it has more than {FIGURES_LIMIT} figures"));
    }
    results.iter().try_for_each(check_figure)
}

/// Whether a record that comes from elsewhere may be kept: nobody here has seen its clock and its samples.
pub(super) fn check_imported(head: &Head, results: &[Measured]) -> Result<(), Error> {
    check(head, results)?;
    let now = jiff::Timestamp::now().as_second();
    if head.taken_unix_s().is_some_and(|taken| taken > now.saturating_add(FUTURE_LIMIT_S)) {
        let taken_at = head.taken_at.escape_debug();
        let what = format!(
            "taken_at is {taken_at}, more than a day in the future by this machine's clock; set the clock, or correct the file"
        );
        return Err(Error::Wrong { what });
    }
    let is_above_0 = |figure: &&Measured| figure.samples.iter().all(|sample| *sample > 0.0);
    match results.iter().filter(|figure| figure.is_rate()).find(|figure| !is_above_0(figure)) {
        Some(figure) => {
            Err(Error::Wrong { what: format!("the figure {:?} has a rate that is not above 0", figure.test) })
        }
        None => Ok(()),
    }
}

fn check_figure(figure: &Measured) -> Result<(), Error> {
    let Measured { test, unit, samples, .. } = figure;
    let wrong = |what: &str| Err(Error::Wrong { what: format!("the figure {test:?} {what}") });
    if test.is_empty() || unit.is_empty() {
        return wrong("has no name or no unit");
    }
    if test.len() > TEXT_LIMIT_BYTES || unit.len() > TEXT_LIMIT_BYTES {
        return Err(Error::Wrong { what: format!("a figure's name or unit is longer than {TEXT_LIMIT_BYTES} bytes") });
    }
    // A number that was not measured but made up has no samples.
    if samples.is_empty() {
        return wrong("has no samples");
    }
    let sums = [Some(figure.median), figure.low, figure.high];
    if !samples.iter().chain(sums.iter().flatten()).all(|value| value.is_finite()) {
        return wrong("has a value that is no number");
    }
    if [figure.n_prompt, figure.n_gen, figure.n_depth].iter().any(|&tokens| i64::try_from(tokens).is_err()) {
        return wrong("counts more tokens than there can be");
    }
    Ok(())
}

/// What a person calls a record by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Called {
    /// Its number; none where no record can have it.
    Number(Option<i64>),
    /// So many before the last one; none where there can be no such.
    Back(Option<u32>),
    /// Anything else is a tag.
    Tag,
}

impl Called {
    /// A number has digits alone; `last` and `last~2` are those and nothing else.
    pub(super) fn of(name: &str) -> Called {
        let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        match name.strip_prefix("last~") {
            _ if is_number(name) => Called::Number(name.parse().ok()),
            _ if name == "last" => Called::Back(Some(0)),
            Some(back) if is_number(back) => Called::Back(back.parse().ok()),
            _ => Called::Tag,
        }
    }
}

/// Whether a name means a record by its number or as `last`, and never one by a tag.
pub fn is_number_or_last(name: &str) -> bool {
    Called::of(name) != Called::Tag
}

/// Characters that are not seen, or that turn the direction of writing: two tags would look the same.
fn is_format(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Whether a tag can be told from a record's number, from `last`, and from other tags.
pub(super) fn check_tag(tag: &str) -> Result<(), Error> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || is_format(c) || matches!(c, ',' | '~' | '/' | '\\');
    let is_taken = tag.is_empty() || is_number_or_last(tag) || tag.starts_with('-');
    if tag.chars().count() > TAG_LIMIT || tag.chars().any(is_odd) || is_taken {
        return Err(Error::Tag { tag: tag.escape_debug().to_string(), limit: TAG_LIMIT });
    }
    Ok(())
}
