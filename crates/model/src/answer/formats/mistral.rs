//! `[TOOL_CALLS]NAME[ARGS]{...}`, with `[CALL_ID]ID` after the name or not, and thoughts in `[THINK]`: Mistral since 2025.

use crate::answer::format::{Call, End, Format, Input, Next, Rule, Section, Then, Within, some};
use crate::answer::json::named;

pub(super) static FORMAT: Format =
    Format { name: "mistral", signs: &[&["[TOOL_CALLS]", "[ARGS]"]], rules: &[THINK, RULES] };

/// Thoughts as Mistral's models write them.
pub(super) const THINK: &[Rule] = &[
    Rule { marker: "[THINK]", within: Within::Any, then: Then::Reasoning },
    Rule { marker: "[/THINK]", within: Within::Any, then: Then::Content },
];

const RULES: &[Rule] = &[Rule {
    marker: "[TOOL_CALLS]",
    within: Within::Any,
    then: Then::Calls(Section::calls(End::Json { after: "[ARGS]" }, read)),
}];

fn read(input: &Input<'_>) -> Option<Next> {
    let (name, arguments) = input.text.split_once("[ARGS]")?;
    let (name, id) = match name.split_once("[CALL_ID]") {
        Some((name, id)) => (name, Some(id.trim().to_owned())),
        None => (name, None),
    };
    some(vec![Call { id, ..named(name, arguments, input.is_whole)? }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{SEARCH, WEATHER, expect, incomplete, read, usual};

    #[test]
    fn answers_are_read() {
        let call = |(name, arguments): (&str, &str)| format!("[TOOL_CALLS]{name}[ARGS]{arguments}");
        let both = format!("{}{}", call(WEATHER), call(SEARCH));
        usual(&FORMAT, "[/INST]", &call(WEATHER), &both, ("[THINK]", "[/THINK]"));
        let with_id = call(WEATHER).replace("[ARGS]", "[CALL_ID]abcdefgh1[ARGS]");
        usual(&FORMAT, "[/INST]", &with_id, &format!("{with_id}{}", call(SEARCH)), ("[THINK]", "[/THINK]"));
        assert_eq!(read(&FORMAT, "", &with_id).tool_calls[0].id.as_deref(), Some("abcdefgh1"));
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in [
            "[TOOL_CALLS]",
            "[TOOL_CALLS]f",
            "[TOOL_CALLS]f[ARGS]x{}",
            "[TOOL_CALLS]a b[ARGS]{}",
            "[TOOL_CALLS]f[ARGS]{x}",
        ] {
            expect(&FORMAT, "", text, "", text, &[]);
        }
        incomplete(&FORMAT, "", "[TOOL_CALLS]f[ARGS]{\"a\": ", "f", "{\"a\":");
    }
}
