//! From a plan to a file.

use std::ops::ControlFlow;
use std::path::Path;

use duan_model::checkpoint::Checkpoint;
use duan_model::gguf::TensorInfo;
use duan_model::quoted;

use crate::coding::{Coder, Loss};
use crate::error::{Error, Result};
use crate::importance::{Importance, Matched};
use crate::output::{self, Output, Pieces};
use crate::pieces::{Cutter, piece_weights};
use crate::pipeline::Pipeline;
use crate::plan::{Plan, PlannedTensor, Reason, Target};
use crate::report::{ImportanceReport, Report};
use crate::source::{Prepared, Source};

/// More threads than this share too little memory to be of use.
pub(crate) const THREADS_LIMIT: usize = 256;

/// How a file is written.
#[derive(Debug, Clone, Copy)]
pub struct QuantizeOptions<'a> {
    /// How much each column counts, where that is known.
    pub importance: Option<&'a Importance>,
    /// Threads that code; at least 1.
    pub threads: usize,
    /// Whether a file that is there is replaced.
    pub force: bool,
}

/// Writes the file `path` as `plan` says: in pieces, by all threads, with at most 512 MB beside the mapped files. `on_progress` is told
/// of bytes written and bytes in all; a break ends it, which gives `None`. The file appears whole or not at all.
///
/// # Errors
/// For a weight that is not finite or too large for its format, which is named; importance of another model; a file that is there
/// (but for `force`) or that is the source; a disk with too little room; and what fails while reading or writing.
pub fn quantize(
    source: &dyn Source,
    plan: &Plan,
    options: &QuantizeOptions<'_>,
    path: &Path,
    mut on_progress: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Option<Report>> {
    if source.is_at(path)? {
        return Err(Error::over(path));
    }
    let (matched, importance) = match options.importance {
        Some(importance) => {
            let (matched, report) = match_all(importance, plan)?;
            (matched, Some(report))
        }
        None => (plan.tensors.iter().map(|_| None).collect(), None),
    };
    let written = write(source, plan, options, &matched, path, false, &mut on_progress)?;
    Ok(written.map(|(losses, file_bytes)| Report::new(plan, &losses, file_bytes, importance)))
}

/// Writes the model as a GGUF file: every tensor and every key as it has them. `on_progress` is told of bytes written and bytes in all; a
/// break ends it, which gives `None`, otherwise the length of the file. The file appears whole or not at all.
///
/// # Errors
/// For a type of a size that is not known, a file that is there (but for `force`) or that is the source, a disk with too little room,
/// and what fails while reading or writing.
pub fn copy(
    source: &Checkpoint,
    threads: usize,
    force: bool,
    path: &Path,
    on_progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Option<u64>> {
    if source.is_at(path)? {
        return Err(Error::over(path));
    }
    let source = Prepared::new(source)?;
    let planned = |info: &TensorInfo| PlannedTensor {
        source: info.clone(),
        target: Target::Copy,
        reason: Reason::Untouched,
        fallback_from: None,
        // Known of what could be prepared.
        bytes: info.bytes.unwrap_or(0),
        stored: info.format(),
    };
    let tensors: Vec<PlannedTensor> = source.tensors().iter().map(planned).collect();
    let matched: Vec<Option<Matched>> = tensors.iter().map(|_| None).collect();
    let plan = Plan { format: String::new(), file_type: None, tensors, measured: None };
    let options = QuantizeOptions { importance: None, threads, force };
    let written = write(&source, &plan, &options, &matched, path, true, on_progress)?;
    Ok(written.map(|(_, file_bytes)| file_bytes))
}

/// Writes the GGUF file of a plan; what was lost of each tensor, and the length of the file.
fn write(
    source: &dyn Source,
    plan: &Plan,
    options: &QuantizeOptions<'_>,
    matched: &[Option<Matched>],
    path: &Path,
    is_copy: bool,
    on_progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Option<(Vec<Loss>, u64)>> {
    let threads = options.threads.clamp(1, THREADS_LIMIT);
    let coder = Coder { source, tensors: &plan.tensors, importance: matched, shared: None, checks_copies: !is_copy };
    let sizes = plan.tensors.iter().map(|tensor| (tensor.source.elements(), tensor.columns())).collect();
    let pipeline = Pipeline::new(&coder, Cutter::new(sizes, piece_weights(threads)), threads);
    let pieces = Pieces::new(&pipeline, plan.tensors.len());
    let written = {
        let writer = output::gguf(source.label(), source.metadata(), plan, options.importance, Some(&pieces), is_copy)?;
        let file_bytes = Output::file_bytes(&writer);
        let mut on_bytes = |done| on_progress(done, file_bytes);
        let is_done = duan_files::write_whole(path, file_bytes, options.force, &mut on_bytes, |out| {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| pipeline.work());
                }
                let result = Output::write(&writer, out);
                pipeline.end();
                result
            })
        });
        is_done.map(|is_done| is_done.then_some(file_bytes))
    };
    // A piece that could not be coded is the reason why writing failed.
    let losses = pieces.finish()?;
    Ok(written?.map(|file_bytes| (losses, file_bytes)))
}

/// What [`quantize`] would write, but for the errors: formats and bytes, known at once.
///
/// # Errors
/// Where the importance is another model's, and the source has a key twice.
pub fn foresee(source: &dyn Source, plan: &Plan, importance: Option<&Importance>) -> Result<Report> {
    let report = importance.map(|importance| match_all(importance, plan)).transpose()?.map(|matched| matched.1);
    let writer = output::gguf(source.label(), source.metadata(), plan, importance, None, false)?;
    let losses = vec![Loss::default(); plan.tensors.len()];
    Ok(Report::new(plan, &losses, Output::file_bytes(&writer), report))
}

/// Finds the importance of every matrix that is coded.
fn match_all(importance: &Importance, plan: &Plan) -> Result<(Vec<Option<Matched>>, ImportanceReport)> {
    let mut report = ImportanceReport { file: importance.file_name(), ..ImportanceReport::default() };
    let mut matched = Vec::with_capacity(plan.tensors.len());
    for tensor in &plan.tensors {
        let is_coded = matches!(tensor.target, crate::Target::Coded(_)) && tensor.reason != Reason::Untouched;
        if !is_coded {
            matched.push(None);
            continue;
        }
        let found = importance.of_matrix(&tensor.source.name, tensor.columns(), tensor.stack().1)?;
        match &found {
            None => report.missing.push(tensor.source.name.clone()),
            Some(found) => {
                report.slices += found.slices();
                report.used += found.good_slices();
                if let Some(reason) = found.first_fault() {
                    report.faults.push(format!("{}: {reason}", quoted(&tensor.source.name)));
                }
            }
        }
        matched.push(found);
    }
    check_some_importance(importance, &report)?;
    Ok((matched, report))
}

/// Refuses importance that has nothing for what is quantized.
pub(crate) fn check_some_importance(importance: &Importance, report: &ImportanceReport) -> Result<()> {
    if report.slices > 0 || report.missing.is_empty() {
        return Ok(());
    }
    let what = "it has no entry for any tensor that is quantized";
    let remedy = "it was made for another model: make it from this one";
    Err(Error::importance(importance.label(), what, remedy))
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
