//! Rules by hand: which tensors get which format, whatever mix or recipe says.

use duan_model::quoted;
use duan_quant::{Format, format_by_name};
use regex::{Regex, RegexBuilder};

use crate::error::{Error, Result, writable};

/// A compiled pattern may take so much memory.
const PATTERN_LIMIT_BYTES: usize = 1 << 20;

/// One rule: tensors whose name has a match of a regular expression get a format. Matching takes time in proportion to the name.
#[derive(Debug, Clone)]
pub struct KeepRule {
    text: String,
    pattern: Regex,
    format: &'static Format,
}

impl KeepRule {
    /// Reads `REGEX=FORMAT`, as in `attn_.*=q8_0`. The format stands behind the last `=`; its case does not matter. The expression may
    /// match anywhere in a name, unless `^` and `$` say otherwise.
    ///
    /// # Errors
    /// Where there is no `=`, no such format, or the expression is none.
    pub fn parse(text: &str) -> Result<KeepRule> {
        let wrong = |what: String, remedy| Error::Keep { rule: quoted(text), what, remedy };
        const SHAPE: &str = "write it as REGEX=FORMAT, for example 'attn_.*=q8_0'";
        let (pattern, format) =
            text.rsplit_once('=').ok_or_else(|| wrong("there is no `=` in it".to_owned(), SHAPE))?;
        if pattern.is_empty() {
            return Err(wrong("there is nothing before the `=`".to_owned(), SHAPE));
        }
        let format = format_by_name(format.trim()).ok_or_else(|| {
            let names: Vec<&str> = writable().collect();
            let what = format!("\"{}\" is no format of a tensor", quoted(format));
            let what = format!("{what}; there are {}", names.join(", "));
            wrong(what, SHAPE)
        })?;
        let pattern = RegexBuilder::new(pattern).size_limit(PATTERN_LIMIT_BYTES).build().map_err(|error| {
            let last = error.to_string();
            let last = last.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
            let last = last.strip_prefix("error: ").unwrap_or(last);
            wrong(format!("no regular expression stands before the `=`: {last}"), SHAPE)
        })?;
        Ok(KeepRule { text: text.to_owned(), pattern, format })
    }

    /// The rule as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The format that tensors get.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Whether the rule is for the tensor of this name.
    pub fn matches(&self, name: &str) -> bool {
        self.pattern.is_match(name)
    }
}

/// The rule for each of `names`, the first that matches: its index. Every rule must be for some tensor.
///
/// # Errors
/// For the first rule that is for none, and for one all of whose tensors earlier rules took.
pub(crate) fn assign(rules: &[KeepRule], names: &[&str]) -> Result<Vec<Option<usize>>> {
    assign_any(rules, &names.iter().map(|name| vec![*name]).collect::<Vec<_>>())
}

/// The same for tensors that have several names each.
pub(crate) fn assign_any(rules: &[KeepRule], names: &[Vec<&str>]) -> Result<Vec<Option<usize>>> {
    let matches = |rule: &KeepRule, names: &[&str]| names.iter().any(|name| rule.matches(name));
    let assigned: Vec<Option<usize>> =
        names.iter().map(|names| rules.iter().position(|rule| matches(rule, names))).collect();
    for (index, rule) in rules.iter().enumerate() {
        if assigned.contains(&Some(index)) {
            continue;
        }
        let is_shadowed = names.iter().any(|names| matches(rule, names));
        let (what, remedy) = if is_shadowed {
            ("earlier rules take every tensor that it matches", "the first match wins: put it before them")
        } else {
            (
                "it matches no tensor that can be quantized",
                "`duan inspect --tensors` lists the names; norms, biases and routers are never quantized",
            )
        };
        return Err(Error::Keep { rule: quoted(rule.text()), what: what.to_owned(), remedy });
    }
    Ok(assigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<KeepRule> {
        texts.iter().map(|text| KeepRule::parse(text).unwrap()).collect()
    }

    #[test]
    fn the_first_rule_that_matches_wins() {
        let names = ["token_embd.weight", "blk.0.attn_q.weight", "blk.10.attn_q.weight", "blk.10.ffn_up.weight"];
        let assigned = assign(&rules(&["blk.0\\.=f16", "attn_.*=Q8_0", "^tok=f32"]), &names).unwrap();
        assert_eq!(assigned, [Some(2), Some(0), Some(1), None]);
        let rule = KeepRule::parse("a=b=bf16").unwrap();
        assert!(rule.matches("xa=by") && !rule.matches("a=") && rule.format().name == "BF16");
    }

    #[test]
    fn a_rule_that_does_nothing_is_an_error() {
        let message = |texts: &[&str]| assign(&rules(texts), &["blk.0.attn_q.weight"]).unwrap_err().to_string();
        assert!(message(&["ffn=f16"]).starts_with("--keep ffn=f16: it matches no tensor"));
        assert!(message(&["attn=f16", "attn_q=f32"]).starts_with("--keep attn_q=f32: earlier rules take"));
    }

    #[test]
    fn what_is_no_rule_is_refused_in_one_line() {
        for text in ["attn", "=q8_0", "attn=q9_0", "attn=", "(=q8_0", "a{1000}{1000}{1000}=q8_0", "\u{1b}[31m("] {
            let error = KeepRule::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("--keep ") && !error.contains(['\n', '\u{1b}']), "{error}");
        }
    }
}
