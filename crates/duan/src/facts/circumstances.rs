//! What a verdict depends on, found out on this machine or, as far as it is known, about another.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use duan_files::{can_create_in, free_bytes, nearest_folder};
use duan_hub::CatalogueEntry;
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::TensorInfo;

use super::odd::OddityKind;
use super::verdict::{Circumstances, MemoryNeeded, ReasonKind, Talks, Unknown, Verdict};
use super::{FileFacts, Machine, MemoryFacts, SlowMount, TemplateStatus};
use crate::engine::Engine;
use crate::packs::{PackFolder, PackOptions, Packing};

impl Circumstances {
    /// What is known of an open file; `stops` were found while it was read.
    pub(super) fn of(
        facts: &FileFacts,
        (file, model): (&Checkpoint, Option<&Model>),
        engine: &Engine,
        machine: &Machine,
        stops: Vec<ReasonKind>,
    ) -> Self {
        let options = engine.options();
        let mut known = Self {
            stops,
            memory: facts.memory.as_ref().and_then(|memory| needed(memory, facts.config.context_length)),
            is_context_asked_for: options.context.is_some(),
            talks: talks(facts),
            slow_formats: match (&machine.kernel_formats, model) {
                (Some(kernels), Some(model)) => slow_formats(file, model, kernels),
                _ => Vec::new(),
            },
            ..Self::default()
        };
        if facts.memory.as_ref().is_some_and(|memory| memory.available_bytes.is_none()) {
            known.unknown.push(Unknown::Memory);
        }
        if machine.is_here {
            known.find_out_here(file, model, engine);
        } else {
            known.unknown.extend(machine.kernel_formats.is_none().then_some(Unknown::Kernels));
            known.unknown.extend([Unknown::Operators, Unknown::Disk]);
        }
        known
    }

    /// What only the machine itself can tell: what its devices refuse, its mounts, its disk.
    fn find_out_here(&mut self, file: &Checkpoint, model: Option<&Model>, engine: &Engine) {
        let options = engine.options();
        let devices = engine.device_set();
        match model.map(|model| devices.plan(model, options.allow_fallback)) {
            Some(Err(error)) => self.stops.push(ReasonKind::Operators { problem: error.to_string() }),
            // Whoever prefers the reference knows what it is.
            Some(Ok(plan)) if devices.lay_weights_out() => {
                let decode = plan.fallbacks().into_iter().filter(|segment| segment.phase == duan_engine::Phase::Decode);
                self.slow_ops = decode.map(|segment| segment.ops).sum();
            }
            _ => {}
        }
        let path = file.path().canonicalize();
        self.mount = path.ok().and_then(|path| SlowMount::of(Path::new("/"), &path));
        if let Packing::Kept(packs) = &options.packing {
            self.unwritable_cache = unwritable(&packs.cache_dir);
            if self.unwritable_cache.is_none() && devices.lay_weights_out() {
                self.packs = model.and_then(|_| packs_of(file, packs));
            }
        }
    }
}

impl Verdict {
    /// What can be said of a model of the catalogue before it is fetched: whether its weights and an ordinary conversation fit in
    /// the memory, and its download on the disk of the cache at `cache_dir`.
    pub fn before_fetching(entry: &CatalogueEntry, cache_dir: &Path, machine: &Machine) -> Self {
        let memory = machine.memory_available_bytes.map(|available_bytes| MemoryNeeded {
            needed_bytes: entry.memory_bytes(),
            available_bytes,
            context: None,
            largest_context: None,
            whole_context: None,
        });
        let mut known = Circumstances {
            memory,
            talks: if entry.is_chat { Talks::Chat } else { Talks::Base },
            unknown: vec![Unknown::Model],
            ..Circumstances::default()
        };
        known.unknown.extend(memory.is_none().then_some(Unknown::Memory));
        if machine.is_here {
            let free = nearest_folder(cache_dir).and_then(|folder| free_bytes(&folder));
            known.fetch = free.map(|free| (entry.download_bytes(), free, cache_dir.to_owned()));
            known.unwritable_cache = unwritable(cache_dir);
        } else {
            known.unknown.push(Unknown::Disk);
        }
        Self::of(&known)
    }

    /// What can be said of a model that is neither here nor in the catalogue: nothing.
    pub fn of_nothing() -> Self {
        Self::of(&Circumstances { unknown: vec![Unknown::Model], ..Circumstances::default() })
    }
}

fn needed(memory: &MemoryFacts, whole_context: Option<usize>) -> Option<MemoryNeeded> {
    let need = memory.chosen()?.need;
    Some(MemoryNeeded {
        needed_bytes: need.total_bytes,
        available_bytes: memory.available_bytes?,
        context: Some(need.context),
        largest_context: memory.largest_context,
        whole_context,
    })
}

fn talks(facts: &FileFacts) -> Talks {
    let odd = |kind: OddityKind| facts.odd.iter().find(|odd| odd.kind == kind);
    match facts.template.status {
        _ if facts.is_vocabulary_only() => Talks::Chat,
        _ if odd(OddityKind::NoTextModel).is_some() => {
            Talks::NoText(odd(OddityKind::NoTextModel).map(|odd| odd.text.clone()).unwrap_or_default())
        }
        TemplateStatus::None | TemplateStatus::Blank => Talks::Base,
        TemplateStatus::Broken => Talks::BrokenTemplate,
        TemplateStatus::Ready if facts.template.trial_error.is_some() => Talks::BrokenTemplate,
        TemplateStatus::Ready => Talks::Chat,
    }
}

/// What is multiplied: all matrices but an embedding that is only looked up.
fn multiplied<'f>(file: &'f Checkpoint, model: &Model) -> impl Iterator<Item = &'f TensorInfo> {
    let is_looked_up = file.tensor("output.weight").is_some();
    let unused: Vec<String> = model.unused_tensors.clone();
    file.tensors().iter().filter(move |tensor| {
        let is_embedding = is_looked_up && tensor.name == "token_embd.weight";
        tensor.dims.len() >= 2 && !is_embedding && !unused.contains(&tensor.name)
    })
}

/// Formats of matrices that `kernels` do not name, with their shares of all matrices' weights.
fn slow_formats(file: &Checkpoint, model: &Model, kernels: &[String]) -> Vec<(String, f64)> {
    let mut weights: HashMap<&str, f64> = HashMap::new();
    let mut all = 0.0;
    for tensor in multiplied(file, model) {
        let count = tensor.elements() as f64;
        all += count;
        let Ok(format) = file.format_of(tensor) else { continue };
        if kernels.iter().all(|name| name != format.name) {
            *weights.entry(format.name).or_default() += count;
        }
    }
    let mut formats: Vec<(String, f64)> = weights.into_iter().map(|(name, sum)| (name.to_owned(), sum / all)).collect();
    formats.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    formats
}

/// The folder, where nothing can be written to it.
fn unwritable(cache_dir: &Path) -> Option<PathBuf> {
    (can_create_in(cache_dir) == Some(false)).then(|| cache_dir.to_owned())
}

/// Bytes that the laid-out weights of a model take, about, and what they may take; `None` where they are kept already.
fn packs_of(file: &Checkpoint, options: &PackOptions) -> Option<(u64, u64, PathBuf)> {
    let folder = PackFolder::new(&options.cache_dir);
    let path = file.path().canonicalize().ok()?;
    if folder.list().iter().any(|packed| packed.paths.contains(&path)) {
        return None;
    }
    let matrices = file.tensors().iter().filter(|tensor| tensor.dims.len() >= 2);
    let needed = matrices.filter_map(|tensor| tensor.bytes).fold(0, u64::saturating_add);
    let room = folder.room_bytes(options.max_bytes)?;
    Some((needed, room, folder.path().to_owned()))
}
