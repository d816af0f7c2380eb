//! No calls, only thoughts: for templates that ask for nothing that is known.

use crate::answer::format::{Format, THINK};

pub(in crate::answer) static PLAIN: Format = Format { name: "plain", signs: &[], rules: &[THINK] };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::expect;

    #[test]
    fn thoughts_are_told_from_text() {
        expect(&PLAIN, "", " Hello \n", "", " Hello \n", &[]);
        expect(&PLAIN, "", "\n<think>\nHm <b>\n</think>\n\nHello\n", "Hm <b>", "Hello\n", &[]);
        expect(&PLAIN, "<|assistant|>\n<think>\n", "\nHm\n</think>\nHello", "Hm", "Hello", &[]);
        expect(&PLAIN, "<|assistant|><think></think>", "Hello", "", "Hello", &[]);
        expect(&PLAIN, "<think>", "Hm", "Hm", "", &[]);
        expect(&PLAIN, "", "</think>Hello", "", "Hello", &[]);
        expect(
            &PLAIN,
            "",
            "The tag <think> begins and </think> ends",
            "",
            "The tag <think> begins and </think> ends",
            &[],
        );
        expect(&PLAIN, "", "<think></think>", "", "", &[]);
        expect(&PLAIN, "", "<think>a</think>b<think>c</think>", "a", "b<think>c</think>", &[]);
        expect(&PLAIN, "", "<thin", "", "<thin", &[]);
        expect(&PLAIN, "", " ", "", " ", &[]);
        expect(&PLAIN, "", "", "", "", &[]);
    }
}
