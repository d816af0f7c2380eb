//! Files in a checkpoint folder that its reader would take for the model's, and that are not.
//!
//! ModelScope's own program keeps one folder for a model. What an earlier state of the repository left there, such as the index
//! of weights that are now in one file, or a template that is gone, would decide what is run.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

/// The folder of templates that have names.
pub(super) const TEMPLATES: &str = "additional_chat_templates";

/// What a reader of folders takes by its name. Of weights only these two; others only where neither is there.
const READ: [&str; 12] = [
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "quantize_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
];

/// Refuses a folder that holds what a reader would read and `listed` does not have. `name` is the model that is wanted.
pub(crate) fn refuse_strays<'a>(name: &str, root: &Path, listed: impl Iterator<Item = &'a str>) -> Result<()> {
    let listed: HashSet<&str> = listed.collect();
    let has_named_weights = listed.contains("model.safetensors") || listed.contains("model.safetensors.index.json");
    let is_weights = |path: &str| path.ends_with(".safetensors") && !path.starts_with("adapter");
    let is_read = |path: &str| READ.contains(&path) || !has_named_weights && is_weights(path);
    let is_template = |path: &str| path.ends_with(".jinja");
    let strays = names_in(root).into_iter().filter(|path| is_read(path));
    let templates = names_in(&root.join(TEMPLATES)).into_iter().filter(|path| is_template(path));
    let mut all = strays.chain(templates.map(|path| format!("{TEMPLATES}/{path}")));
    match all.find(|path| !listed.contains(path.as_str())) {
        Some(stray) => Err(Error::new(
            ErrorKind::Damaged,
            format!(
                "{} is not of {name}, but would be read with it: it is left of another revision, or somebody else put it \
                 there; remove it and try again",
                root.join(stray).display()
            ),
        )),
        None => Ok(()),
    }
}

/// The names of what is in a folder, in order; nothing where there is none.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_would_be_read_and_is_not_listed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join(TEMPLATES)).unwrap();
        let check = |listed: &[&str]| refuse_strays("ms:a/b", root, listed.iter().copied());
        let listed = ["config.json", "tokenizer.json", "model.safetensors"];
        for harmless in ["README.md", "notes.json", "consolidated.safetensors", "vocab.json", "x.gguf"] {
            fs::write(root.join(harmless), "").unwrap();
        }
        check(&listed).unwrap();
        let error = check(&["config.json", "model-00001-of-00001.safetensors"]).unwrap_err();
        assert!(error.to_string().contains("consolidated.safetensors is not of ms:a/b"), "{error}");
        for stray in ["model.safetensors.index.json", "chat_template.jinja", "additional_chat_templates/tool.jinja"] {
            fs::write(root.join(stray), "").unwrap();
            let error = check(&listed).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
            assert!(error.to_string().contains(stray), "{error}");
            check(&[&listed[..], &[stray]].concat()).unwrap();
            fs::remove_file(root.join(stray)).unwrap();
        }
    }
}
