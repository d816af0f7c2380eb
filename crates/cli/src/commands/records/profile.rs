//! What the records of a chip say of its best settings, in one line.

use duan::records::{Best, Profile};

use crate::output::style::on_one_line;
use crate::output::units::{counted, three_digits};

/// "12 records of this chip, 10 of them from other machines: decode was fastest with 2 threads (cpu, avx2; 71.3 tokens/s with ...), ...".
pub(crate) fn profile_line(profile: &Profile) -> String {
    let elsewhere = match profile.from_elsewhere {
        0 => String::new(),
        all if all == profile.records => ", from other machines".to_owned(),
        some => format!(", {some} of them from other machines"),
    };
    let phases = [("decode", &profile.decode), ("prefill", &profile.prefill)];
    let told = phases
        .into_iter()
        .filter_map(|(phase, best)| Some(format!("{phase} was fastest with {}", told(best.as_ref()?))));
    let records = counted(profile.records, "record");
    on_one_line(&format!("{records} of this chip{elsewhere}: {}", told.collect::<Vec<_>>().join(", ")))
}

fn told(best: &Best) -> String {
    let Best { threads, backend, isa, test, model_type, tokens_per_s, .. } = best;
    let threads = counted(usize::try_from(*threads).unwrap_or(usize::MAX), "thread");
    let rate = three_digits(*tokens_per_s);
    format!("{threads} ({backend}, {isa}; {test} of {model_type}: {rate} tokens/s)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_stands_behind_it() {
        let best = |threads, test: &str, tokens_per_s| Best {
            threads,
            backend: "cpu".into(),
            isa: "avx2".into(),
            best_in: 1,
            comparisons: 1,
            record: 3,
            model_type: "llama 135M Q4_1".into(),
            test: test.into(),
            tokens_per_s,
        };
        let mut profile = Profile {
            chip: "a chip".into(),
            records: 12,
            from_elsewhere: 10,
            decode: Some(best(2, "tg128", 71.34)),
            prefill: Some(best(1, "pp512", 402.0)),
        };
        let expected = "12 records of this chip, 10 of them from other machines: decode was fastest with 2 threads (cpu, avx2; tg128 of \
                        llama 135M Q4_1: 71.3 tokens/s), prefill was fastest with 1 thread (cpu, avx2; pp512 of llama 135M Q4_1: 402 \
                        tokens/s)";
        assert_eq!(profile_line(&profile), expected);
        profile.from_elsewhere = 0;
        profile.prefill = None;
        assert!(profile_line(&profile).starts_with("12 records of this chip: decode was"));
    }
}
