//! Starts of the program up to the first token: the first one of a model, which lays its weights out, and later ones, which read them
//! as they were laid out; with the files in the page cache, and from the disk.
//!
//! Measured is what `duan complete` does from opening the file on; that the program itself is started, and its threads are, is not in it.
//! A first start keeps nothing on the disk here: it would write beside the answer, not before it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use duan_engine::{Event, Session};
use duan_measure::bench::StartFigures;
use duan_model::checkpoint::Checkpoint;
use duan_model::page_cache;
use duan_system::Reading;

use super::BenchEvent;
use crate::devices::Devices;
use crate::error;
use crate::loaded::{Loaded, Opened};
use crate::options::EngineOptions;
use crate::packs::{self, Packing};

/// A start is cold where no more of its files is in the memory than this part: headers that this program has just read.
const COLD_SHARE: f64 = 0.05;

/// Tokens of the prompt before the first token of the answer.
const PROMPT_TOKENS: usize = 16;

/// Measures each start once that there is. Files are brought into the page cache before a warm one, and taken out of it before a cold one;
/// where that cannot be done the cold ones are left out, and that is told.
pub(super) fn measure(
    path: &Path,
    engine: &EngineOptions,
    devices: &Devices,
    on_event: &mut dyn FnMut(&BenchEvent<'_>),
) -> error::Result<Vec<StartFigures>> {
    let in_memory = EngineOptions { packing: Packing::InMemory, ..engine.clone() };
    let mut kinds = vec![("first", &in_memory)];
    if matches!(engine.packing, Packing::Kept(_)) && devices.lay_weights_out() {
        kinds.push(("second", engine));
    }
    let mut figures = Vec::new();
    for (start, options) in kinds {
        let files = files(path, options)?;
        for page_cache in ["warm", "cold"] {
            if engine.cancel.load(std::sync::atomic::Ordering::Relaxed) {
                return Ok(figures);
            }
            on_event(&BenchEvent::Starting { start, page_cache });
            let prepared =
                if page_cache == "warm" { files.read().map_err(|error| error.to_string()) } else { files.make_cold() };
            if let Err(reason) = prepared {
                let message = format!("no {page_cache} {start} start was measured: {reason}");
                on_event(&BenchEvent::Warning { message: &message });
                continue;
            }
            let files_in_page_cache = files.share_in_page_cache();
            let measured = one(path, options, devices)?;
            figures.push(StartFigures {
                start: start.to_owned(),
                page_cache: page_cache.to_owned(),
                files_in_page_cache,
                ..measured
            });
        }
    }
    Ok(figures)
}

/// One start.
fn one(path: &Path, engine: &EngineOptions, devices: &Devices) -> error::Result<StartFigures> {
    let started = Instant::now();
    let opened = Opened::open(path, engine)?;
    let plan = devices.plan(&opened.model, engine.allow_fallback)?;
    let mut figures = StartFigures::default();
    let mut loaded = Loaded::load(opened, plan, engine, devices, started, &mut |event| match event {
        Event::Loaded { load_ns, .. } => figures.load_ns = *load_ns,
        Event::WarmedUp { warm_up_ns } => figures.warm_up_ns = *warm_up_ns,
        _ => {}
    })?;
    let prompt_started = Instant::now();
    let executor = &mut loaded.executor;
    let mut session = Session::open(executor);
    let count = PROMPT_TOKENS.min(executor.context() - 1);
    let tokens: Vec<u32> = (0..count).map(|token| (token % executor.vocab_size()) as u32).collect();
    let _ = session.feed(executor, &tokens, |_| std::ops::ControlFlow::Continue(()))?;
    std::hint::black_box(executor.logits(1).iter().copied().fold(f32::NEG_INFINITY, f32::max));
    figures.prompt_ns = u64::try_from(prompt_started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    figures.first_token_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    session.close(executor);
    Ok(figures)
}

/// Which part of a model's files is in the page cache.
pub(super) fn share_in_page_cache(file: &Checkpoint) -> Reading<f64> {
    match file.disk_files() {
        Ok(Some(files)) => Files(files).share_in_page_cache(),
        Ok(None) => Reading::NotReadable("the model is in memory".to_owned()),
        Err(error) => Reading::NotReadable(error.to_string()),
    }
}

/// What a start reads.
struct Files(Vec<(PathBuf, File)>);

fn files(path: &Path, engine: &EngineOptions) -> error::Result<Files> {
    let checkpoint = engine.open(path)?;
    let mut files = checkpoint.disk_files()?.unwrap_or_default();
    if let Packing::Kept(options) = &engine.packing {
        files.extend(packs::files_of(&checkpoint, options));
    }
    Ok(Files(files))
}

impl Files {
    /// Reads all from end to end.
    fn read(&self) -> std::io::Result<()> {
        let mut buffer = vec![0; 1 << 20];
        for (_, file) in &self.0 {
            let bytes = file.metadata()?.len();
            let mut done = 0;
            while done < bytes {
                let length = usize::try_from(bytes - done).unwrap_or(usize::MAX).min(buffer.len());
                duan_files::read_exact_at(file, &mut buffer[..length], done)?;
                done += length as u64;
            }
        }
        Ok(())
    }

    /// Has the system forget all, and asks whether it did.
    fn make_cold(&self) -> Result<(), String> {
        for (_, file) in &self.0 {
            duan_files::drop_from_page_cache(file).map_err(|error| error.to_string())?;
        }
        match self.share_in_page_cache() {
            Reading::Known(share) if share <= COLD_SHARE => Ok(()),
            Reading::Known(share) => {
                let percent = share * 100.0;
                Err(format!(
                    "{percent:.0} % of its files stayed in the memory, since other programs have them mapped; end those"
                ))
            }
            Reading::NotReadable(reason) => Err(format!("nobody can tell whether it would be cold: {reason}")),
        }
    }

    fn share_in_page_cache(&self) -> Reading<f64> {
        let (mut all, mut there) = (0.0, 0.0);
        for (path, file) in &self.0 {
            let share = page_cache::share_in_page_cache(file);
            match share.and_then(|share| Ok((share, file.metadata()?.len() as f64))) {
                Ok((share, bytes)) => {
                    all += bytes;
                    there += share * bytes;
                }
                Err(error) => return Reading::NotReadable(format!("{}: {error}", path.display())),
            }
        }
        Reading::Known(if all > 0.0 { there / all } else { 1.0 })
    }
}
