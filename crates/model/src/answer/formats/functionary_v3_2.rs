//! `>>>NAME`, a line break and the arguments, or `>>>all` and text: Functionary 3.2. The prompt ends with the first `>>>`.

use crate::answer::format::{End, Format, Input, Next, Rule, Section, Then, Within, is_name};
use crate::answer::json;

pub(super) static FORMAT: Format = Format { name: "functionary-v3.2", signs: &[&[">>>all"]], rules: &[RULES] };

const RULES: &[Rule] = &[
    Rule { marker: ">>>", within: Within::Any, then: Then::Header(Section::header(&["\n"], header)) },
    Rule { marker: "<|eot_id|>", within: Within::Any, then: Then::Nothing },
];

static ARGUMENTS: Section = Section::calls(
    End::Text { texts: &[">>>", "<|eot_id|>"], quotes: crate::answer::format::JSON, is_left: true },
    json::read_arguments,
);

fn header(input: &Input<'_>) -> Option<Next> {
    match input.text.trim() {
        "all" => Some(Next::Content),
        name if is_name(name) && (input.tools.is_empty() || input.tools.has(name)) => {
            Some(Next::Arguments(name.to_owned(), &ARGUMENTS))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, incomplete};

    #[test]
    fn answers_are_read() {
        let prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n>>>";
        let call = |(name, arguments): (&str, &str)| format!("{name}\n{arguments}");
        expect(&FORMAT, prompt, &call(WEATHER), "", "", &[WEATHER]);
        let both = format!("{}>>>{}", call(WEATHER), call(SEARCH));
        expect(&FORMAT, prompt, &both, "", "", &[WEATHER, SEARCH]);
        let text = format!("all\nLet me look.\n>>>{both}");
        expect(&FORMAT, prompt, &text, "", "Let me look.", &[WEATHER, SEARCH]);
        expect(&FORMAT, prompt, "all\nIt >> rains.", "", "It >> rains.", &[]);
        expect(&FORMAT, prompt, "all\n>>> print(1)\n1", "", ">>> print(1)\n1", &[]);
        expect(&FORMAT, prompt, "It rains.", "", "It rains.", &[]);
        expect(&FORMAT, "", "It rains.\n>>>f\n{}", "", "It rains.", &[("f", "{}")]);
        incomplete(&FORMAT, prompt, "f\n{\"a\":", "f", "{\"a\":");
        incomplete(&FORMAT, prompt, "f\nx", "f", "x");
    }
}
