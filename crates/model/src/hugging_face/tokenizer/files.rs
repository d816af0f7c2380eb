//! The files of a folder that say something about its tokenizer.

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::error::{Error, Result, file_label};
use crate::safetensors::open_regular;

/// The longest vocabulary that is read. The largest known ones have 35 MB.
const LONGEST_VOCABULARY_BYTES: u64 = 512 << 20;

/// The longest of the other files. The largest known ones have 1.5 MB.
const LONGEST_SETTINGS_BYTES: u64 = 16 << 20;

/// The most templates beside the usual one.
const MOST_TEMPLATES: usize = 64;

/// What the files of a folder hold; those that are missing are `None`.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The folder, as messages name it; empty for none.
    pub folder: String,
    /// `tokenizer.json`: everything in one file.
    pub tokenizer: Option<Vec<u8>>,
    /// `tokenizer.model`: SentencePiece's file; counts where there is no `tokenizer.json`.
    pub sentencepiece: Option<Vec<u8>>,
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<Vec<u8>>,
    /// `special_tokens_map.json`.
    pub special_tokens_map: Option<Vec<u8>>,
    /// `added_tokens.json`.
    pub added_tokens: Option<Vec<u8>>,
    /// `generation_config.json`.
    pub generation_config: Option<Vec<u8>>,
    /// `config.json`.
    pub config: Option<Vec<u8>>,
    /// `chat_template.jinja`.
    pub chat_template: Option<Vec<u8>>,
    /// `chat_template.json`.
    pub chat_template_json: Option<Vec<u8>>,
    /// The files `NAME.jinja` in `additional_chat_templates`: their names, and what they hold.
    pub named_chat_templates: Vec<(String, Vec<u8>)>,
    /// Rows of the model's embedding, where they are known: a token for each, whatever `config.json` says.
    pub embedding_rows: Option<u64>,
}

impl Files {
    /// Reads the files of a folder. Which of them are needed is for [`super::translate`] to say.
    ///
    /// # Errors
    /// Where a file that is there cannot be read, or is larger than such a file can be.
    pub fn read(folder: &Path) -> Result<Files> {
        let large = |name: &str| read(&folder.join(name), LONGEST_VOCABULARY_BYTES);
        let small = |name: &str| read(&folder.join(name), LONGEST_SETTINGS_BYTES);
        let tokenizer = large("tokenizer.json")?;
        Ok(Files {
            folder: file_label(folder),
            sentencepiece: if tokenizer.is_none() { large("tokenizer.model")? } else { None },
            tokenizer,
            tokenizer_config: small("tokenizer_config.json")?,
            special_tokens_map: small("special_tokens_map.json")?,
            added_tokens: small("added_tokens.json")?,
            generation_config: small("generation_config.json")?,
            config: small("config.json")?,
            chat_template: small("chat_template.jinja")?,
            chat_template_json: small("chat_template.json")?,
            named_chat_templates: named_chat_templates(&folder.join("additional_chat_templates"))?,
            embedding_rows: None,
        })
    }

    /// A file of the folder, as messages name it.
    pub(super) fn label(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }
}

/// The bytes of a file, or `None` where it is missing.
fn read(path: &Path, most_bytes: u64) -> Result<Option<Vec<u8>>> {
    let refused = |source| Error::io(file_label(path), "read it", source);
    if std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(None);
    }
    let file = open_regular(path, &file_label(path))?;
    let mut bytes = Vec::new();
    file.take(most_bytes + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > most_bytes {
        let found = format!("this file has more than {most_bytes} bytes");
        return Err(Error::wrong_file(file_label(path), found, "such a file is never that large, fetch it again"));
    }
    Ok(Some(bytes))
}

/// The templates in a folder, in order of their names.
fn named_chat_templates(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let refused = |source| Error::io(file_label(folder), "read it", source);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        entries => entries.map_err(refused)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(refused)?.path();
        if path.extension().is_some_and(|extension| extension == "jinja") {
            paths.push(path);
        }
        if paths.len() > MOST_TEMPLATES {
            let found = format!("this folder has more than {MOST_TEMPLATES} templates");
            return Err(Error::wrong_file(file_label(folder), found, "remove those that are not needed"));
        }
    }
    paths.sort();
    let mut templates = Vec::new();
    for path in paths {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(bytes) = read(&path, LONGEST_SETTINGS_BYTES)? {
            templates.push((name, bytes));
        }
    }
    Ok(templates)
}
