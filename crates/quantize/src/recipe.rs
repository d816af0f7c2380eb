//! Which tensor gets which format, as a small file.
//!
//! ```json
//! {
//!   "duan_recipe": 1,
//!   "format": "Q4_K_M",
//!   "tensors": {
//!     "token_embd.weight": "Q8_0",
//!     "blk.0.attn_q.weight": "Q4_K"
//!   }
//! }
//! ```
//!
//! `format` is the name of a [`crate::Mix`], for `general.file_type` and for people; `tensors` names every matrix. Whatever finds out
//! which format suits which tensor writes such a file, and [`crate::Plan`] takes it from there.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use duan_model::quoted;
use duan_quant::{Format, format_by_name};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// A recipe longer than this is none: 200 thousand tensors fit.
const LIMIT_BYTES: u64 = 16 << 20;

/// The longest name of a mix, in characters.
const LONGEST_NAME: usize = 64;

/// The version of the file that is written here.
const VERSION: u32 = 1;

const REMEDY: &str = "write one with `duan quantize ... --save-recipe FILE`, and change formats in it";

/// A format for each matrix of a model, in an order of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Name of the mix that the file is called by.
    pub format: String,
    /// Names of tensors and their formats; each name once.
    pub tensors: Vec<(String, &'static Format)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    duan_recipe: u32,
    format: String,
    tensors: Tensors,
}

/// Names and formats as the file has them, in its order.
struct Tensors(Vec<(String, String)>);

impl Recipe {
    /// Reads a recipe from its text; `file` is what messages call it.
    ///
    /// # Errors
    /// Where it is no recipe, of another version, or names a tensor twice or a format that is not known.
    pub fn parse(text: &[u8], file: &str) -> Result<Recipe> {
        let document: Document = serde_json::from_slice(text).map_err(|error| {
            Error::recipe(file, format!("this is no recipe: {}", quoted(&error.to_string())), REMEDY)
        })?;
        if document.duan_recipe != VERSION {
            let what = format!("a recipe of version {}, and {VERSION} is known", document.duan_recipe);
            return Err(Error::recipe(file, what, "update duan, or make the recipe anew"));
        }
        if document.format.chars().count() > LONGEST_NAME || document.format.chars().any(char::is_control) {
            let what = format!("its format is called \"{}\", which is no name", quoted(&document.format));
            return Err(Error::recipe(file, what, REMEDY));
        }
        let mut tensors = Vec::with_capacity(document.tensors.0.len());
        for (name, format) in document.tensors.0 {
            let found = format_by_name(&format).ok_or_else(|| {
                let what = format!("tensor `{}`: no format is called \"{}\"", quoted(&name), quoted(&format));
                Error::recipe(file, what, REMEDY)
            })?;
            tensors.push((name, found));
        }
        Ok(Recipe { format: document.format, tensors })
    }

    /// Reads a recipe's file.
    ///
    /// # Errors
    /// As [`Recipe::parse`], and where it cannot be read.
    pub fn read(path: &Path) -> Result<Recipe> {
        let label = path.display().to_string();
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LIMIT_BYTES + 1).read_to_end(&mut text));
        read.map_err(|error| duan_model::Error::io(quoted(&label), "read it", error))?;
        if text.len() as u64 > LIMIT_BYTES {
            return Err(Error::recipe(
                &label,
                format!("longer than {LIMIT_BYTES} bytes, so this is no recipe"),
                REMEDY,
            ));
        }
        Recipe::parse(&text, &quoted(&label))
    }

    /// The text of the file, indented, with a line for each tensor.
    pub fn to_json(&self) -> String {
        let tensors = self.tensors.iter().map(|(name, format)| (name.clone(), format.name.to_owned())).collect();
        let document = Document { duan_recipe: VERSION, format: self.format.clone(), tensors: Tensors(tensors) };
        let mut text = serde_json::to_string_pretty(&document).expect("strings and numbers become JSON");
        text.push('\n');
        text
    }

    /// Writes the file, whole or not at all. One that is there is replaced only with `force`.
    ///
    /// # Errors
    /// As [`duan_files::write_whole`].
    pub fn write(&self, path: &Path, force: bool) -> Result<()> {
        let text = self.to_json();
        let mut go_on = |_| std::ops::ControlFlow::Continue(());
        duan_files::write_whole(path, text.len() as u64, force, &mut go_on, |out| out.write_all(text.as_bytes()))?;
        Ok(())
    }
}

impl Serialize for Tensors {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, format) in &self.0 {
            map.serialize_entry(name, format)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Tensors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Tensors, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Tensors;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names of tensors and of formats")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Tensors, A::Error> {
                let (mut tensors, mut names) = (Vec::new(), HashSet::new());
                while let Some((name, format)) = map.next_entry::<String, String>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("duplicate tensor `{name}`")));
                    }
                    tensors.push((name, format));
                }
                Ok(Tensors(tensors))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_the_same_order() {
        let text = br#"{"duan_recipe": 1, "format": "Q4_K_M", "tensors": {"b": "q4_k", "a.weight": "F16"}}"#;
        let recipe = Recipe::parse(text, "r.json").unwrap();
        assert_eq!(
            recipe.tensors.iter().map(|row| (&*row.0, row.1.name)).collect::<Vec<_>>(),
            [("b", "Q4_K"), ("a.weight", "F16")]
        );
        assert_eq!(Recipe::parse(recipe.to_json().as_bytes(), "again").unwrap(), recipe);
        assert!(recipe.to_json().contains("\n    \"b\": \"Q4_K\",\n"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        recipe.write(&path, false).unwrap();
        assert!(recipe.write(&path, false).unwrap_err().to_string().contains("exists already"));
        assert_eq!(Recipe::read(&path).unwrap(), recipe);
        assert!(Recipe::read(folder.path()).unwrap_err().to_string().contains("cannot read it"));
    }

    #[test]
    fn what_is_no_recipe_is_refused_in_one_line() {
        let message = |text: &str| Recipe::parse(text.as_bytes(), "r.json").unwrap_err().to_string();
        for (text, part) in [
            ("", "this is no recipe: EOF"),
            ("[]", "this is no recipe"),
            (r#"{"duan_recipe": 2, "format": "", "tensors": {}}"#, "version 2"),
            (r#"{"duan_recipe": 1, "format": "", "tensors": {"a": "F16", "a": "F32"}}"#, "duplicate tensor `a`"),
            (r#"{"duan_recipe": 1, "format": "", "tensors": {"a": "Q9\n"}}"#, "no format is called \"Q9\\n\""),
            (r#"{"duan_recipe": 1, "format": "", "tensors": {}, "x": 1}"#, "unknown field"),
            (
                r#"{"duan_recipe": 1, "format": "Q\u001b[2J", "tensors": {}}"#,
                "is called \"Q\\u{1b}[2J\", which is no name",
            ),
        ] {
            assert!(message(text).contains(part) && !message(text).contains('\n'), "{}", message(text));
        }
    }
}
