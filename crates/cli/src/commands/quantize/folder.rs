//! `duan quantize FOLDER OUTFOLDER --format int4-g64`: integers in groups, which are written as a folder.

use std::path::PathBuf;
use std::process::ExitCode;

use duan::model::hugging_face::Untranslated;
use duan::quantize::importance::Importance;
use duan::quantize::{Error, FolderPlan, GroupFormat, QuantizeOptions, foresee_folder, quantize_folder};

use super::{Args, show, shown, threads, warn_of_source};
use crate::args::Common;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::open;

/// Chooses formats and writes the folder.
pub(super) fn run(args: &Args, format: &'static GroupFormat, common: &Common) -> anyhow::Result<ExitCode> {
    if args.save_recipe.is_some() {
        anyhow::bail!(
            "--save-recipe is for GGUF files; say --keep again, which is all that a folder's formats depend on"
        );
    }
    let importance = args.importance.as_deref().map(Importance::open).transpose()?;
    let path = PathBuf::from(&args.src);
    let path = if path.is_dir() { path } else { open::fetch(&args.src, common)?.file.path };
    if !path.is_dir() {
        return Err(Error::no_folder(&path, format.name).into());
    }
    let source = Untranslated::open(&path)?;
    let plan = FolderPlan::new(&source, format, &args.keep)?;
    warn_of_source(&plan.plan.requantized_from(), "folder", source.warnings(), &[]);
    if args.dry_run {
        let report = foresee_folder(&source, &plan, importance.as_ref())?;
        return show(args, &report, source.file_bytes(), common);
    }
    let options = QuantizeOptions { importance: importance.as_ref(), threads: threads(args), force: args.force };
    let interrupt = Interrupt::install()?;
    let written = shown(&interrupt, |on_progress| quantize_folder(&source, &plan, &options, &args.out, on_progress))?;
    let Some(report) = written else { return Ok(ExitCode::from(INTERRUPTED)) };
    show(args, &report, source.file_bytes(), common)
}
