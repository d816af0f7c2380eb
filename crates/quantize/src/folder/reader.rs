//! A folder as a source of pieces.

use std::path::Path;

use duan_model::bytes::SharedBytes;
use duan_model::gguf::{Metadata, TensorInfo};
use duan_model::hugging_face::Untranslated;

use super::plan::FolderPlan;
use crate::error::Result;
use crate::source::{Source, read_part};

/// The tensors of a plan, by their numbers in it.
pub(super) struct Reader<'a> {
    source: &'a Untranslated,
    plan: &'a FolderPlan,
    tensors: Vec<TensorInfo>,
    metadata: Metadata,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Untranslated, plan: &'a FolderPlan) -> Reader<'a> {
        let tensors = plan.plan.tensors.iter().map(|tensor| tensor.source.clone()).collect();
        Reader { source, plan, tensors, metadata: Metadata::new(source.label()) }
    }
}

impl Source for Reader<'_> {
    fn label(&self) -> &str {
        self.source.label()
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn read(&self, tensor: usize, first: u64, weights: u64) -> Result<SharedBytes> {
        let data = self.source.data(self.plan.numbers[tensor])?;
        read_part(&data, self.source.label(), &self.tensors[tensor], first, weights)
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        let files = self.source.disk_files()?.unwrap_or_default();
        Ok(path.exists() && files.iter().any(|(_, file)| duan_files::is_at(file, path)))
    }
}
