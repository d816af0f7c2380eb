//! Reads arbitrary bytes as a recipe, and as a rule of what to keep.
//!
//! Beyond not crashing, a recipe that was read and written is read as the same.

#![no_main]

use duan_quantize::{KeepRule, Recipe};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Recipe::parse(bytes, "fuzz") {
        Ok(recipe) => match Recipe::parse(recipe.to_json().as_bytes(), "again") {
            Ok(again) => assert_eq!(again, recipe),
            Err(error) => panic!("what was written cannot be read: {error}"),
        },
        Err(error) => assert_one_line(&error.to_string()),
    }
    let text = String::from_utf8_lossy(bytes);
    match KeepRule::parse(&text) {
        Ok(rule) => {
            rule.matches("blk.0.attn_q.weight");
            rule.matches(&text);
        }
        Err(error) => assert_one_line(&error.to_string()),
    }
});

fn assert_one_line(message: &str) {
    assert!(!message.contains('\n'), "a message of several lines: {message:?}");
}
