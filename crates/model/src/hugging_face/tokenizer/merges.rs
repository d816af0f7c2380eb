//! Merges: from the file's list to GGUF's, or to scores.

use super::json::{Merge, malformed};
use super::tokens::{NORMAL, Tokens, USER_DEFINED};
use crate::error::{Result, quoted};
use crate::tokenizer::load::MOST_MERGES;
use crate::tokenizer::vocabulary::METASPACE;

/// The longest token whose ways to be merged are all tried, in bytes. The longest known ones have 93; each place in a token is
/// tried, and takes time with the token's length.
const LONGEST_TRIED_BYTES: usize = 256;

/// The most places at which a merge that is written as one string is divided.
const MOST_DIVISIONS: usize = 8;

/// Both sides of each merge, best first; with `escapes`, their spaces are written `▁`, as those of `tokens` are.
///
/// # Errors
/// Where there are none or too many, or a string has no space between two sides.
pub(super) fn sides(
    file: &str,
    merges: Option<Vec<Merge>>,
    tokens: &Tokens,
    escapes: bool,
) -> Result<Vec<(String, String)>> {
    let spelled = |text: &str| if escapes { text.replace(' ', METASPACE) } else { text.to_owned() };
    let wrong = |expected: &str, found: String| malformed(file, "`model.merges`", expected, found);
    let merges = merges.ok_or_else(|| wrong("the merges of a byte-pair tokenizer", "no such key".to_owned()))?;
    if merges.len() > MOST_MERGES {
        return Err(wrong(&format!("at most {MOST_MERGES} merges"), merges.len().to_string()));
    }
    let mut sides = Vec::with_capacity(merges.len());
    for (index, merge) in merges.into_iter().enumerate() {
        match merge {
            Merge::Pair(left, right) if !escapes => sides.push((left, right)),
            Merge::Pair(left, right) => sides.push((spelled(&left), spelled(&right))),
            Merge::Text(text) if index == 0 && text.starts_with("#version") => {}
            Merge::Text(text) => {
                let divided = divided(&text, |text| tokens.find(&spelled(text)).is_some());
                let (left, right) = divided.ok_or_else(|| {
                    wrong("two sides with a space between them", format!("`{}` as merge {index}", quoted(&text)))
                })?;
                sides.push((spelled(left), spelled(right)));
            }
        }
    }
    Ok(sides)
}

/// Both sides of a merge that is one string. A side may have spaces itself; then the first division into two tokens that join to
/// a third counts.
fn divided(merge: &str, is_token: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let at = |space: usize| (&merge[..space], &merge[space + 1..]);
    let mut spaces = merge.match_indices(' ').map(|(index, _)| index).filter(|&index| index > 0);
    let first = spaces.next()?;
    if spaces.next().is_none() {
        return Some(at(first));
    }
    let spaces = merge.match_indices(' ').map(|(index, _)| index).filter(|&index| index > 0);
    let is_merge =
        |&(left, right): &(&str, &str)| is_token(left) && is_token(right) && is_token(&format!("{left}{right}"));
    spaces.take(MOST_DIVISIONS).map(at).find(is_merge).or(Some(at(first)))
}

/// A score for each token, with which SentencePiece's encoding does what the merges do; `None` where there are no such.
///
/// SentencePiece joins whatever two neighbours make a token, the one with the best score first. Merges that were made from its
/// scores do the same: all merges to one token stand together, and no two tokens that make a third are missing. Then the order
/// in which tokens come up is the order of their scores, and -1, -2, ... are as good as those that the file was made from (they
/// are the same for Llama 2, but for two tokens of spaces). What is found in text before merging has no say in this.
pub(super) fn scores(merges: &[(String, String)], tokens: &Tokens) -> Option<Vec<(u32, f32)>> {
    let mut scored = Vec::new();
    // How many bytes the left side has in each merge to the token that comes up now.
    let mut lefts: Vec<usize> = Vec::new();
    let mut current: Option<u32> = None;
    let mut done = std::collections::HashSet::new();
    let mut joined = String::new();
    for (left, right) in merges {
        joined.clear();
        joined.extend([left.as_str(), right]);
        let id = tokens.find(&joined)?;
        if tokens.get(id)?.is_added {
            continue;
        }
        if current != Some(id) {
            if current.is_some_and(|before| !is_complete(before, &mut lefts, tokens)) || !done.insert(id) {
                return None;
            }
            scored.push(id);
            current = Some(id);
        }
        lefts.push(left.len());
    }
    if current.is_some_and(|before| !is_complete(before, &mut lefts, tokens)) {
        return None;
    }
    // What no merge makes must not come up by two tokens that happen to stand side by side.
    for (id, token) in tokens.in_order() {
        if token.kind == NORMAL && !token.is_added && done.insert(id) {
            if !is_complete(id, &mut lefts, tokens) {
                return None;
            }
            scored.push(id);
        }
    }
    Some(scored.into_iter().enumerate().map(|(index, id)| (id, -(index as f32) - 1.0)).collect())
}

/// Whether `lefts` are all the places at which a token is divided in two others; empties the list.
fn is_complete(id: u32, lefts: &mut Vec<usize>, tokens: &Tokens) -> bool {
    let Some(token) = tokens.get(id) else { return false };
    let text = token.text.as_str();
    if text.len() > LONGEST_TRIED_BYTES {
        return false;
    }
    let is_text = |text: &str| {
        tokens.find(text).and_then(|id| tokens.get(id)).is_some_and(|t| matches!(t.kind, NORMAL | USER_DEFINED))
    };
    let places = text.char_indices().map(|(place, _)| place).filter(|&place| place > 0);
    let expected: Vec<usize> = places.filter(|&place| is_text(&text[..place]) && is_text(&text[place..])).collect();
    lefts.sort_unstable();
    lefts.dedup();
    // A merge of tokens that no text becomes is no merge.
    lefts.retain(|&left| is_text(&text[..left]) && is_text(&text[left..]));
    let is_complete = *lefts == expected;
    lefts.clear();
    is_complete
}

/// Whether a merge makes a token of a newline and something else.
pub(super) fn crosses_lines(merges: &[(String, String)]) -> bool {
    merges.iter().any(|(left, right)| {
        let newlines = left.matches('\n').count() + right.matches('\n').count();
        newlines > 0 && newlines < left.len() + right.len()
    })
}
