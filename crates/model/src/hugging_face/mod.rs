//! Checkpoints as Hugging Face publishes them, translated to what GGUF would say of the same model.
//!
//! A folder has `config.json`, weights in `*.safetensors`, and `tokenizer.json` with its neighbours. The way through it:
//! `config` reads `config.json`, `keys` and the file of each family ([`crate::families`]) turn it into GGUF's metadata, `names`
//! says what tensors are called there, `tensors` puts them together (rows of queries and keys re-ordered, experts stacked, types),
//! `quantized` is where checkpoints that are quantized already come in. Nothing is copied: rows that are not slices of a file are
//! made when somebody asks for them. `tokenizer` is a way of its own, from its files to the same metadata.

mod config;
mod grouped;
mod keys;
mod names;
mod quantized;
mod tensors;
pub mod tokenizer;
mod untranslated;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::checkpoint::most_used;
use crate::error::{Error, Result, file_label, quoted};
use crate::families::{FAMILIES, Family};
use crate::gguf::{FileLength, Metadata, TensorInfo};
use crate::pieces::{Piece, disk_files};
use crate::rows::TensorData;
use crate::safetensors::{SafetensorsFile, read_index};

pub use config::Config;
pub use keys::{Keys, Translation};
pub use names::{PLAIN, Tensors, To};
pub use untranslated::{GgufPlace, Untranslated, UntranslatedTensor};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A folder that was opened, checked and translated.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) label: String,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<TensorInfo>,
    pub(crate) index: HashMap<String, usize>,
    /// Of each tensor.
    origins: Vec<tensors::Origin>,
    files: Vec<SafetensorsFile>,
    /// What the configuration was read from, mapped so that it can be told whether it is still the same.
    config: Piece,
    pub(crate) left_out: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// The file that the chat template was in.
    pub(crate) template_file: Option<&'static str>,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let label = file_label(path);
        let config_path = path.join(CONFIG);
        if !config_path.is_file() {
            let found = "this folder has no config.json, so it is no checkpoint";
            let remedy = "name a .gguf file, or a folder with config.json, *.safetensors and tokenizer.json";
            return Err(Error::wrong_file(label, found, remedy));
        }
        let config_file = crate::safetensors::open_regular(&config_path, &label)?;
        let bytes = crate::bytes::SharedBytes::map(config_file)
            .map_err(|error| Error::io(file_label(&config_path), "map it to memory", error))?;
        let piece = Piece { label: file_label(&config_path), path: config_path.clone(), bytes };
        let mut config = Config::open(&config_path)?;
        config.add_quantization(path)?;
        let family = family_of(&config)?;
        let files = open_files(path, &label)?;
        let mut folder = translate(path.to_owned(), label, &config, family, files, piece)?;
        match folder.translate_tokenizer() {
            Ok(notes) => folder.warnings.extend(notes),
            // The weights can be looked at and written without words; whoever needs some gets the same error.
            Err(error) => folder.warnings.push(format!("without a tokenizer: {error}")),
        }
        Ok(folder)
    }

    /// The tokenizer's files, with the number of tokens that the embedding has rows for.
    fn tokenizer_files(&self) -> Result<tokenizer::Files> {
        let embedding = self.index.get("token_embd.weight").map(|&index| &self.tensors[index]);
        let rows = embedding.and_then(|tensor| tensor.dims.get(1).copied());
        Ok(tokenizer::Files { embedding_rows: rows, ..tokenizer::Files::read(&self.path)? })
    }

    /// Adds the tokenizer's keys to the metadata, and returns what is odd about them.
    fn translate_tokenizer(&mut self) -> Result<Vec<String>> {
        let translation = tokenizer::translate(&self.tokenizer_files()?)?;
        for (key, value) in translation.entries {
            if self.metadata.get(&key).is_none() {
                self.metadata.insert(key, value)?;
            }
        }
        self.template_file = translation.template_file;
        Ok(translation.notes)
    }

    /// Fails where the folder has no tokenizer that can be used.
    pub(crate) fn check_tokenizer(&self) -> Result<()> {
        tokenizer::translate(&self.tokenizer_files()?).map(|_| ())
    }

    /// A folder that is in memory: the text of its `config.json`, and its files of weights with their names.
    pub(crate) fn from_bytes(name: &str, config: Vec<u8>, weights: Vec<(String, Vec<u8>)>) -> Result<Self> {
        let path = PathBuf::from(name);
        let label = file_label(&path);
        let piece = Piece { path: path.join(CONFIG), label: format!("{label}/{CONFIG}"), bytes: config.into() };
        let config = Config::parse(&piece.label, &piece.bytes)?;
        let family = family_of(&config)?;
        let open = |(file, bytes): (String, Vec<u8>)| SafetensorsFile::from_bytes(bytes, &format!("{name}/{file}"));
        let files = check_once(weights.into_iter().map(open).collect::<Result<_>>()?)?;
        translate(path, label, &config, family, files, piece)
    }

    pub(crate) fn data(&self, tensor: &TensorInfo) -> Result<TensorData> {
        let index = self.index.get(&tensor.name).copied();
        let Some(index) = index else {
            return Err(Error::tensor(&self.label, &tensor.name, "a tensor of this model", "no such tensor"));
        };
        match &self.origins[index] {
            tensors::Origin::Numbers(bytes) => Ok(TensorData::Shared(bytes.clone())),
            tensors::Origin::Grouped(grouped) => {
                // Rows are made of mapped bytes, which must still be there.
                self.length().check()?;
                Ok(grouped.data())
            }
            tensors::Origin::Rows(source) => {
                let pieces: Vec<&Piece> = self.files.iter().map(|file| &file.piece).collect();
                source.data(&self.label, &self.tensors[index], &pieces)
            }
        }
    }

    /// The type of a tensor's numbers in the files.
    pub(crate) fn type_on_disk(&self, tensor: &TensorInfo) -> String {
        match self.index.get(&tensor.name).map(|&index| &self.origins[index]) {
            Some(tensors::Origin::Rows(source)) => source.dtype().name().to_owned(),
            _ => tensor.type_name().into_owned(),
        }
    }

    /// The matrices that a tensor is made of, where they are quantized already.
    pub(crate) fn grouped(&self, tensor: &TensorInfo) -> Option<&grouped::Grouped> {
        match self.index.get(&tensor.name).map(|&index| &self.origins[index])? {
            tensors::Origin::Grouped(grouped) => Some(grouped),
            tensors::Origin::Rows(_) | tensors::Origin::Numbers(_) => None,
        }
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.piece.bytes.len() as u64).sum()
    }

    pub(crate) fn piece_count(&self) -> usize {
        self.files.len()
    }

    /// Weights and configuration: what rows are made of.
    fn pieces(&self) -> Vec<Piece> {
        std::iter::once(&self.config).chain(self.files.iter().map(|file| &file.piece)).cloned().collect()
    }

    pub(crate) fn length(&self) -> FileLength {
        // A configuration that becomes shorter was read to its end already.
        FileLength::of(self.files.iter().map(|file| file.piece.clone()).collect())
    }

    pub(crate) fn disk_files(&self) -> Result<Option<Vec<(PathBuf, File)>>> {
        disk_files(&self.pieces())
    }
}

/// The family of a checkpoint, and how it is translated.
fn family_of(config: &Config) -> Result<(&'static Family, &'static Translation)> {
    let name = config.family();
    for family in FAMILIES {
        if let Some(translation) = family.folders.iter().find(|row| row.model_types.contains(&name.as_str())) {
            return Ok((family, translation));
        }
    }
    let mut known: Vec<&str> =
        FAMILIES.iter().flat_map(|family| family.folders).flat_map(|row| row.model_types).copied().collect();
    known.retain(|name| !name.contains(' '));
    known.sort_unstable();
    let what =
        format!("the model is of the family `{}` (key `model_type`), which this version does not read", quoted(&name));
    Err(Error::unsupported(config.label(), what, format!("get a model of one of {}", known.join(", "))))
}

/// Opens the files of weights: those of the index, else the one that models of one file have, else all there are.
fn open_files(folder: &Path, label: &str) -> Result<Vec<SafetensorsFile>> {
    let index = folder.join(INDEX);
    if index.is_file() {
        let (names, places) = read_index(&index)?;
        let files: Vec<SafetensorsFile> =
            names.iter().map(|name| open_named(folder, name, names.len())).collect::<Result<_>>()?;

        // Large models have many tensors, and a file of each is looked through once for each of its own.
        let names: Vec<std::collections::HashSet<&str>> =
            files.iter().map(|file| file.tensors().iter().map(|tensor| tensor.name.as_str()).collect()).collect();
        if let Some((name, &place)) = places.iter().find(|(name, place)| !names[**place].contains(name.as_str())) {
            return Err(Error::tensor(
                files[place].label(),
                name,
                "it in this file, as the index says",
                "no such tensor",
            )
            .with_remedy("fetch all files of the checkpoint again, from one place"));
        }
        return check_once(files);
    }
    let single = folder.join(WEIGHTS);
    if single.is_file() {
        return Ok(vec![SafetensorsFile::open(&single)?]);
    }
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map_err(|error| Error::io(label, "list what is in it", error))?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".safetensors") && !name.starts_with("adapter"))
        .collect();
    names.sort();
    if names.is_empty() {
        let has_pickles =
            ["pytorch_model.bin", "pytorch_model.bin.index.json"].iter().any(|name| folder.join(name).exists());
        let found = if has_pickles {
            "this folder has its weights as PyTorch pickles, which can run any code when they are read"
        } else {
            "this folder has a config.json and no weights (*.safetensors)"
        };
        return Err(Error::wrong_file(label, found, "get the model's *.safetensors, or a GGUF file of it"));
    }
    let files = names.iter().map(|name| open_named(folder, name, names.len())).collect::<Result<_>>()?;
    check_once(files)
}

fn open_named(folder: &Path, name: &str, count: usize) -> Result<SafetensorsFile> {
    let path = folder.join(name);
    SafetensorsFile::open(&path).map_err(|error| match error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let found = format!("this is one of the {count} files of a checkpoint, and it is missing");
            Error::wrong_file(file_label(&path), found, "fetch it into the folder where the others are")
        }
        other => other,
    })
}

/// Refuses a tensor that two files have.
fn check_once(files: Vec<SafetensorsFile>) -> Result<Vec<SafetensorsFile>> {
    let mut seen: HashMap<&str, &SafetensorsFile> = HashMap::new();
    for file in &files {
        for tensor in file.tensors() {
            if let Some(first) = seen.insert(&tensor.name, file) {
                let found = format!("it in {} too", first.label());
                return Err(Error::tensor(file.label(), &tensor.name, "it in one file only", found)
                    .with_remedy("fetch all files of the checkpoint again, from one place"));
            }
        }
    }
    Ok(files)
}

/// Configuration and files, as GGUF sees them.
fn translate(
    path: PathBuf,
    label: String,
    config: &Config,
    (family, translation): (&'static Family, &'static Translation),
    files: Vec<SafetensorsFile>,
    piece: Piece,
) -> Result<Folder> {
    let mut metadata = Metadata::new(&label);
    metadata.insert("general.architecture", family.name)?;
    metadata.insert("general.type", "model")?;
    metadata.insert("general.name", model_name(&path))?;
    let mut keys = Keys::new(config, family.name, &mut metadata);
    (translation.keys)(&mut keys)?;
    let ((heads, kv_heads), numbers) = (keys.heads()?, keys.numbers);
    let mut warnings = Vec::new();
    let logical = quantized::logical(config, &files, &mut warnings)?;
    let shape = tensors::Shape {
        label: &label,
        names: translation.tensors,
        heads,
        kv_heads: kv_heads.unwrap_or(heads),
        is_head_tied: is_head_tied(config, translation, &logical, &files, &mut warnings)?,
    };
    let translated = tensors::translate(&logical, &shape, numbers)?;
    if let Some(id) = most_used(&translated.tensors) {
        metadata.insert("general.file_type", id)?;
    }
    metadata.insert("general.quantization_version", 2u32)?;
    if translated.not_text > 0 {
        let count = translated.not_text;
        warnings.push(format!(
            "{count} tensors are for images or sound, which this version leaves out: the model reads text only"
        ));
    }
    if let [first, ..] = &config.unread()[..] {
        let count = config.unread().len();
        let keys = if count == 1 { "key of config.json is" } else { "keys of config.json are" };
        let first = quoted(first);
        warnings.push(format!(
            "{count} {keys} unknown here, for example `{first}`: what they are for is left out, and answers may be wrong"
        ));
    }
    let tensors::Translated { tensors, origins, index, left_out, .. } = translated;
    Ok(Folder {
        path,
        label,
        metadata,
        tensors,
        index,
        origins,
        files,
        config: piece,
        left_out,
        warnings,
        template_file: None,
    })
}

/// Whether the head is the embedding: as the configuration says, unless there is a head with other weights, as fine-tuned models can
/// have; where it does not, as there is a head or not, unless the family always has none.
fn is_head_tied(
    config: &Config,
    translation: &Translation,
    tensors: &[tensors::Logical],
    files: &[SafetensorsFile],
    warnings: &mut Vec<String>,
) -> Result<bool> {
    const KEY: &str = "tie_word_embeddings";
    let named = |part: &str| tensors.iter().find(|tensor| names::Parts::of(&tensor.name).part == part);
    let head = named("lm_head");
    match (config.optional_flag(KEY)?, head.is_some()) {
        (Some(true), true) => {
            let is_same = head.zip(named("embed_tokens")).is_none_or(|(head, table)| are_same(head, table, files));
            if !is_same {
                warnings.push(
                    "config.json says that the head is the embedding (`tie_word_embeddings`), and the files have a head with \
                     other weights, which is used"
                        .to_owned(),
                );
            }
            Ok(is_same)
        }
        (Some(false), false) => {
            let error = Error::tensor(
                config.label(),
                "lm_head.weight",
                "a head, as `tie_word_embeddings` is false",
                "no such tensor",
            );
            Err(error.with_remedy("the checkpoint is incomplete; fetch all of its files"))
        }
        (Some(is_tied), _) => Ok(is_tied),
        (None, has_head) => Ok(!has_head || translation.is_tied),
    }
}

/// Whether two tensors have the same bytes; those that are put together of several are taken for the same.
fn are_same(a: &tensors::Logical, b: &tensors::Logical, files: &[SafetensorsFile]) -> bool {
    let bytes = |tensor: &tensors::Logical| files[tensor.piece].piece.slice(&tensor.name, tensor.offset, tensor.bytes);
    if a.grouped.is_some() || b.grouped.is_some() {
        return true;
    }
    let is_same_kind = (a.dtype, &a.shape) == (b.dtype, &b.shape);
    is_same_kind && bytes(a).ok().zip(bytes(b).ok()).is_some_and(|(a, b)| a[..] == b[..])
}

/// The model's name: the folder's, or the repository's where the folder is one of the cache of Hugging Face.
fn model_name(path: &Path) -> String {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let parent = path.parent().filter(|parent| name(parent) == "snapshots").and_then(Path::parent);
    match parent.map(name).as_deref().and_then(|name| name.strip_prefix("models--")) {
        Some(repository) => repository.rsplit("--").next().unwrap_or(repository).to_owned(),
        None => name(&path),
    }
}

#[cfg(test)]
mod tests;
