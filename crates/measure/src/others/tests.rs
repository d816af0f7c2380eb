//! Commands, what they print, and pairs.

use std::path::Path;

use serde_json::{Value, json};

use super::*;

const PP: Test = Test { prompt: 512, generate: 0, depth: 64 };
const TG: Test = Test { prompt: 0, generate: 128, depth: 0 };

fn filled(command: &str, model: &str, test: Test) -> Vec<String> {
    let command = Command::parse(command).unwrap();
    let words = command.filled(Values { model: Path::new(model), test, threads: 3 });
    words.iter().map(|word| word.to_str().unwrap().to_owned()).collect()
}

#[test]
fn places_are_filled_and_words_are_a_shells() {
    let words = filled(
        "one=bench -m {model} -p {n_prompt} -n {n_gen} -d {n_depth} --threads={threads},{threads}",
        "a b's/{n_prompt}.gguf",
        PP,
    );
    assert_eq!(words, ["bench", "-m", "a b's/{n_prompt}.gguf", "-p", "512", "-n", "0", "-d", "64", "--threads=3,3"]);
    // Quotes hold words together; other braces, and an = behind the first, are the command's own.
    let words = filled("two = sh -c 'awk \"{print}\" x=1' {q} {n_gen}", "m", TG);
    assert_eq!(words, ["sh", "-c", "awk \"{print}\" x=1", "{q}", "128"]);
    let command = Command::parse("two = sh {model}").unwrap();
    assert_eq!((command.name(), command.names_model()), ("two", true));
    assert!(!Command::parse("two=sh {n_prompt}").unwrap().names_model());
}

#[cfg(unix)]
#[test]
fn a_file_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let path = Path::new(std::ffi::OsStr::from_bytes(b"a\xff.gguf"));
    let words = Command::parse("x=y --model={model}").unwrap().filled(Values { model: path, test: TG, threads: 1 });
    assert_eq!(words[1].as_bytes(), b"--model=a\xff.gguf");
}

#[test]
fn commands_that_cannot_be_are_refused() {
    let refused = |text: &str| Command::parse(text).unwrap_err();
    assert_eq!(refused("llama-bench"), "expected NAME=COMMAND, found no =");
    assert_eq!(refused("=llama-bench"), "expected a name before the =");
    assert_eq!(refused("a\u{1b}[31m=llama-bench"), "expected a name before the =");
    assert_eq!(refused("a="), "no command stands behind the =");
    assert_eq!(refused("a=''"), "no command stands behind the =");
    assert_eq!(refused("a=b 'c"), "a quote in the command is not closed");
    assert_eq!(refused(&format!("a={}", "b ".repeat(1001))), "the command has more than 1000 words");
}

fn printed(stdout: &str, stderr: &str) -> Printed {
    Printed { stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

fn rate(pattern: &str, printed: &Printed, test: Test) -> Result<f64, String> {
    let other = Other {
        command: Command::parse("x=y").unwrap(),
        pattern: Some(Pattern::parse(&format!("x={pattern}")).unwrap()),
    };
    other.read(printed, test).map(|ran| ran.ts)
}

#[test]
fn patterns_find_rates_and_times() {
    let talk =
        printed("prompt eval: 80.0 tokens/s\neval: 20.5 tokens/s\n", "prompt done in 2.5 s\nall done in 4000 ms\n");
    assert_eq!(rate("^prompt eval: ([0-9.]+)", &talk, PP), Ok(80.0));
    let both = "^(prompt eval: (?<prefill>[0-9.]+)|eval: (?<decode>[0-9.]+))";
    assert_eq!((rate(both, &talk, PP), rate(both, &talk, TG)), (Ok(80.0), Ok(20.5)));
    // Times are those of all tokens of the test, on stderr as well.
    assert_eq!(rate("done in (?<s>[0-9.]+) s", &talk, PP), Ok(512.0 / 2.5));
    assert_eq!(rate("done in (?<ms>[0-9.]+) ms", &talk, TG), Ok(32.0));
    // Found more than once: the median.
    assert_eq!(rate("(?<rate>[0-9.]+) tok", &printed("1 tok\n9 tok\n2 tok", ""), TG), Ok(2.0));
}

#[test]
fn what_a_pattern_does_not_find_is_said() {
    let refused = |pattern: &str| Pattern::parse(pattern).unwrap_err();
    assert!(refused("x=(").starts_with("no regular expression: "), "{}", refused("x=("));
    assert!(refused("x=[0-9]+").starts_with("no group of the pattern holds a rate"));
    assert!(refused("x=(?<speed>[0-9]+)").starts_with("no group of the pattern holds a rate"));
    assert_eq!(refused("([0-9]+)"), "expected NAME=REGEX, found no =");
    let error = rate("(?<decode>[0-9.]+) t/s", &printed("", "one\nsegmentation fault\n\n"), TG).unwrap_err();
    assert_eq!(error, "the pattern finds no rate of tg128 in what it printed (its last line: \"segmentation fault\")");
    let error = rate("(?<prefill>[0-9.]+) t/s", &printed("5 t/s", ""), TG).unwrap_err();
    assert_eq!(error, "the pattern finds no rate of tg128 in what it printed (its last line: \"5 t/s\")");
    for odd in ["1,234", "0", "-3", "nan", "inf", ""] {
        let error = rate("rate (.*)$", &printed(&format!("rate {odd}\n"), ""), TG).unwrap_err();
        assert_eq!(error, format!("the pattern finds {odd:?} where a number above 0 should stand"));
    }
}

/// A row as llama-bench writes it.
fn row(n_prompt: usize, n_gen: usize, n_depth: usize, rates: &[f64]) -> Value {
    let tokens = (n_prompt + n_gen) as f64;
    json!({
        "build_commit": "0a1b2c3", "build_number": 9999, "cpu_info": "A Processor", "gpu_info": "", "backends": "CPU",
        "model_filename": "a.gguf", "model_type": "llama ?B Q4_1", "model_size": 80_000, "model_n_params": 128_000,
        "n_batch": 2048, "n_ubatch": 512, "n_threads": 2, "type_k": "f16", "type_v": "f16",
        "n_prompt": n_prompt, "n_gen": n_gen, "n_depth": n_depth, "test_time": "2026-11-30T12:00:01Z",
        "samples_ns": rates.iter().map(|rate| (tokens * 1e9 / rate) as u64).collect::<Vec<_>>(),
    })
}

fn read_rows(stdout: &str, test: Test) -> Result<Ran, String> {
    Other { command: Command::parse("x=y").unwrap(), pattern: None }.read(&printed(stdout, "loading\n"), test)
}

#[test]
fn rows_of_llama_bench_are_found_by_their_test() {
    let rows = json!([row(512, 0, 64, &[100.0, 128.0, 110.0]), row(0, 128, 0, &[16.0])]);
    for text in [rows.to_string(), format!("{}\n{}\n", rows[0], rows[1])] {
        let ran = read_rows(&text, PP).unwrap();
        assert!((ran.ts / 110.0 - 1.0).abs() < 1e-6, "{}", ran.ts);
        assert_eq!((ran.row.as_ref(), ran.head.unwrap().threads_prefill), (Some(&rows[0]), Some(2)));
        assert_eq!(read_rows(&text, TG).unwrap().row.as_ref(), Some(&rows[1]));
    }
    let other = Test { depth: 1, ..TG };
    let error = read_rows(&rows.to_string(), other).unwrap_err();
    assert_eq!(
        error,
        "it measured pp512 @ d64, tg128 and not tg128 @ d1; write -p {n_prompt} -n {n_gen} -d {n_depth} into its command"
    );
    for text in ["", "| model | t/s |\n", "{}", "[]", "[{\"n_prompt\": 1}]"] {
        let error = read_rows(text, TG).unwrap_err();
        assert!(error.starts_with("it printed no rows of llama-bench; add -o json"), "{error}");
        assert!(error.ends_with("(its last line: \"loading\")"), "{error}");
    }
}

#[test]
fn ratios_are_those_of_pairs() {
    // The machine became twice as slow under both: each pair says the same, while the medians of both sides are apart by chance.
    let ratio = Ratio::of(&[20.0, 10.0, 22.0, 11.0, 30.0], &[10.0, 5.0, 11.0, 5.0, 15.0]).unwrap();
    assert_eq!((ratio.median, ratio.samples.len()), (2.0, 5));
    let interval = ratio.interval.unwrap();
    assert_eq!((interval.low, interval.high), (2.0, 2.2));
    assert_eq!(ratio.is_within_noise(), Some(false));
    assert_eq!(
        Ratio::of(&[1.0, 1.0, 1.0, 1.0, 1.0], &[1.1, 0.9, 1.0, 1.0, 1.0]).unwrap().is_within_noise(),
        Some(true)
    );
    // A run without its partner is no pair.
    let short = Ratio::of(&[2.0, 4.0, 6.0], &[1.0, 2.0]).unwrap();
    assert_eq!((short.median, short.samples.len(), short.is_within_noise()), (2.0, 2, None));
    assert_eq!(Ratio::of(&[1.0], &[]), None);
}
