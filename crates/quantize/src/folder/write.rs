//! From a plan to a folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use duan_model::groups::write::{Packer, Rest, quantization_config};
use duan_model::hugging_face::Untranslated;
use duan_model::quoted;
use serde_json::{Map, Value};

use super::layout::{Layout, SHARD_BYTES, Shard};
use super::plan::{COLUMNS_LIMIT, FolderPlan, Kind, packer};
use super::reader::Reader;
use super::shared::SharedScales;
use crate::coding::{Coder, Loss};
use crate::error::{Error, Result};
use crate::importance::{Importance, Matched};
use crate::output::Pieces;
use crate::pieces::{BLOCK_WEIGHTS, Cutter, WEIGHT_BYTES, piece_weights};
use crate::pipeline::Pipeline;
use crate::plan::{Plan, PlannedTensor, Target};
use crate::report::{ImportanceReport, Report};
use crate::run::{QuantizeOptions, THREADS_LIMIT};

/// Keys of a configuration that say how weights are quantized.
const QUANTIZATION_KEYS: [&str; 3] = ["quantization_config", "compression_config", "quantization"];

/// Files of a folder that the new one has too: whatever is there of them.
const CARRIED: &[&str] = &[
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "processor_config.json",
    "preprocessor_config.json",
    "LICENSE",
    "LICENSE.txt",
    "LICENSE.md",
    "NOTICE",
];

/// What threads may hold together of weights, where rows are long.
const BUDGET_BYTES: u64 = 256 << 20;

/// Writes the folder `path` as `plan` says: in pieces, by all threads, with at most 512 MB beside the mapped files. `on_progress` is told
/// of bytes written and bytes in all; a break ends it, which gives `None`. The folder appears whole or not at all, and takes no other's
/// place, whatever `options` say.
///
/// # Errors
/// As [`crate::quantize`].
pub fn quantize_folder(
    source: &Untranslated,
    plan: &FolderPlan,
    options: &QuantizeOptions<'_>,
    path: &Path,
    on_progress: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Option<Report>> {
    write(source, plan, options, path, SHARD_BYTES, on_progress)
}

/// What [`quantize_folder`] would write, but for the errors: formats and bytes, known at once.
///
/// # Errors
/// Where the importance is another model's.
pub fn foresee_folder(source: &Untranslated, plan: &FolderPlan, importance: Option<&Importance>) -> Result<Report> {
    let report = importance.map(|importance| match_all(importance, source, plan)).transpose()?.map(|found| found.1);
    let layout = Layout::new(source, plan, SHARD_BYTES)?;
    let losses = vec![Loss::default(); plan.plan.tensors.len()];
    Ok(plan.name_formats(Report::new(&plan.plan, &losses, layout.file_bytes(), report), plan.asked()))
}

/// [`quantize_folder`] with files of another size.
pub(super) fn write(
    source: &Untranslated,
    plan: &FolderPlan,
    options: &QuantizeOptions<'_>,
    path: &Path,
    shard_bytes: u64,
    mut on_progress: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Option<Report>> {
    let (matched, importance) = match options.importance {
        Some(importance) => {
            let (matched, report) = match_all(importance, source, plan)?;
            (matched, Some(report))
        }
        None => (plan.plan.tensors.iter().map(|_| None).collect(), None),
    };
    let (threads, limit) = shares(&plan.plan, options.threads);
    let (reader, scales) = (Reader::new(source, plan), SharedScales::new(plan));
    let tensors = &plan.plan.tensors;
    let coder = Coder { source: &reader, tensors, importance: &matched, shared: Some(&scales), checks_copies: true };
    let sizes = tensors.iter().map(|tensor| (tensor.source.elements(), tensor.columns())).collect();
    let pipeline = Pipeline::new(&coder, Cutter::new(sizes, limit), threads);
    let pieces = Pieces::new(&pipeline, tensors.len());
    let layout = Layout::new(source, plan, shard_bytes)?;
    let all = layout.file_bytes();
    let mut progress = Progress { done: 0, on_done: &mut |done| on_progress(done, all), is_cancelled: false };
    let written = duan_files::write_folder(path, all, |folder| {
        let result = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| pipeline.work());
            }
            let result = write_weights(source, plan, &layout, &pieces, folder, &mut progress);
            pipeline.end();
            result
        });
        if progress.is_cancelled {
            return Ok(false);
        }
        result?;
        write_words(source, plan, &layout, folder).map(|()| true)
    });
    // A piece that could not be coded is the reason why writing failed.
    let losses = pieces.finish()?;
    let is_done = written.map_err(Error::Write)?;
    Ok(is_done.then(|| plan.name_formats(Report::new(&plan.plan, &losses, all, importance), plan.asked())))
}

/// How many threads share the memory, and the weights of a piece: whole rows, however long they are.
fn shares(plan: &Plan, threads: usize) -> (usize, u64) {
    let threads = threads.clamp(1, THREADS_LIMIT);
    let longest = plan.tensors.iter().filter(|tensor| tensor.target != Target::Copy).map(PlannedTensor::columns).max();
    let longest = longest.unwrap_or(1).min(COLUMNS_LIMIT).next_multiple_of(BLOCK_WEIGHTS);
    let limit = piece_weights(threads).max(longest);
    let most = (BUDGET_BYTES / WEIGHT_BYTES / limit).max(1);
    (threads.min(usize::try_from(most).unwrap_or(1)), limit)
}

/// Bytes that were written, and whether that is to end.
struct Progress<'a> {
    done: u64,
    on_done: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    is_cancelled: bool,
}

impl Progress<'_> {
    fn put(&mut self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        duan_files::write_all_at(file, bytes, at)?;
        self.done += bytes.len() as u64;
        if (self.on_done)(self.done).is_break() {
            self.is_cancelled = true;
            return Err(io::Error::other("cancelled"));
        }
        Ok(())
    }
}

/// Writes the files of weights.
fn write_weights(
    source: &Untranslated,
    plan: &FolderPlan,
    layout: &Layout,
    pieces: &Pieces<'_>,
    folder: &Path,
    progress: &mut Progress<'_>,
) -> io::Result<()> {
    let mut index = 0;
    for (number, shard) in layout.shards.iter().enumerate() {
        let file = File::create_new(folder.join(&shard.name))?;
        progress.put(&file, &shard.head, 0)?;
        let mut place = 0;
        while layout.shard_of.get(index) == Some(&number) {
            let at = Place { file: &file, shard, first: place };
            place += write_tensor(source, plan, index, pieces, &at, progress)?;
            index += 1;
        }
    }
    Ok(())
}

/// Where a tensor of the plan is written.
struct Place<'a> {
    file: &'a File,
    shard: &'a Shard,
    /// The number of its first tensor in the file.
    first: usize,
}

/// Writes tensor number `index` of the plan, whose turn it is, and returns how many tensors it became.
fn write_tensor(
    source: &Untranslated,
    plan: &FolderPlan,
    index: usize,
    pieces: &Pieces<'_>,
    place: &Place<'_>,
    progress: &mut Progress<'_>,
) -> io::Result<usize> {
    let planned = &plan.plan.tensors[index];
    let coded_bytes = match planned.target {
        Target::Copy => planned.bytes,
        Target::Coded(format) => planned.source.elements() / format.block_weights as u64 * format.block_bytes as u64,
    };
    let at = |part: usize| place.shard.tensors[place.first + part].1;
    let Kind::Grouped(format, _) = plan.kinds[index] else {
        let mut out = Plain { file: place.file, at: at(0), progress };
        pieces.write(index, coded_bytes, &mut out)?;
        return Ok(1);
    };
    let tensor = &source.tensors()[plan.numbers[index]];
    let packer = packer(source.label(), tensor, format).map_err(io::Error::other)?;
    let mut out = Packed { packer, packed: Vec::new(), file: place.file, at: at(0), progress: &mut *progress };
    pieces.write(index, coded_bytes, &mut out)?;
    let Rest { scale, zero_point, shape } = out.packer.finish();
    let mut part = 1;
    for bytes in [Some(scale), zero_point, Some(shape)].into_iter().flatten() {
        progress.put(place.file, &bytes, at(part))?;
        part += 1;
    }
    Ok(part)
}

/// Takes pieces as they are.
struct Plain<'a, 'p> {
    file: &'a File,
    at: u64,
    progress: &'a mut Progress<'p>,
}

impl Write for Plain<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.progress.put(self.file, bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes pieces of whole rows of blocks, and puts their codes into the file.
struct Packed<'a, 'p> {
    packer: Packer,
    /// Codes of the rows that came last.
    packed: Vec<u8>,
    file: &'a File,
    at: u64,
    progress: &'a mut Progress<'p>,
}

impl Write for Packed<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.packed.resize(self.packer.packed_bytes(bytes.len()), 0);
        self.packer.take(bytes, &mut self.packed);
        self.progress.put(self.file, &self.packed, self.at)?;
        self.at += self.packed.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the configuration, the index, and what the source has for words.
fn write_words(source: &Untranslated, plan: &FolderPlan, layout: &Layout, folder: &Path) -> io::Result<()> {
    let mut config: Map<String, Value> = source.config().clone();
    QUANTIZATION_KEYS.iter().for_each(|key| drop(config.shift_remove(*key)));
    let schemes = plan.schemes(source);
    if !schemes.is_empty() {
        config.insert(QUANTIZATION_KEYS[0].to_owned(), quantization_config(&schemes, &plan.ignored(source)));
    }
    let json = |name: &str, value: &Value| {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        fs::write(folder.join(name), text)
    };
    json("config.json", &Value::Object(config))?;
    if let Some(index) = layout.index() {
        json("model.safetensors.index.json", &index)?;
    }
    for name in CARRIED {
        let from = source.path().join(name);
        if from.is_file() {
            // Not fs::copy, which would make them read-only where the source's are.
            io::copy(&mut File::open(&from)?, &mut File::create_new(folder.join(name))?)?;
        }
    }
    Ok(())
}

/// Finds the importance of every matrix that becomes integers.
fn match_all(
    importance: &Importance,
    source: &Untranslated,
    plan: &FolderPlan,
) -> Result<(Vec<Option<Matched>>, ImportanceReport)> {
    let mut report = ImportanceReport { file: importance.file_name(), ..ImportanceReport::default() };
    let mut all = Vec::with_capacity(plan.kinds.len());
    for (index, kind) in plan.kinds.iter().enumerate() {
        let tensor = &source.tensors()[plan.numbers[index]];
        if *kind == Kind::Plain {
            all.push(None);
            continue;
        }
        let columns = plan.plan.tensors[index].columns();
        let found = match &tensor.place {
            Some(place) => importance.of_matrix(&place.name, columns, place.slices)?.map(|all| all.only(place.slice)),
            None => None,
        };
        match &found {
            None => report.missing.push(tensor.name.clone()),
            Some(found) => {
                report.slices += found.slices();
                report.used += found.good_slices();
                if let Some(reason) = found.first_fault() {
                    report.faults.push(format!("{}: {reason}", quoted(&tensor.name)));
                }
            }
        }
        all.push(found);
    }
    crate::run::check_some_importance(importance, &report)?;
    Ok((all, report))
}

impl Error {
    /// Integers in groups were asked for, and the source at `path` is no folder.
    pub fn no_folder(path: &Path, format: &str) -> Error {
        let what = format!(
            "{}: this is no folder, and {format} is written as a folder, with the names and the tokenizer of one",
            quoted(&path.display().to_string())
        );
        let remedy = format!(
            "name the folder of config.json, *.safetensors and tokenizer.json that it was made of, or run it with --format {format}"
        );
        Error::Format { what, remedy }
    }
}
