//! What becomes of every tensor of a folder.

use duan_model::groups::write::{Packer, Scheme, Strategy};
use duan_model::hugging_face::{Untranslated, UntranslatedTensor};
use duan_model::quoted;
use duan_quant::Format;
use duan_quant::groups::Groups;

use super::formats::GroupFormat;
use crate::error::{Error, Result};
use crate::fallback::known;
use crate::keep::{self, KeepRule};
use crate::plan::{Plan, PlannedTensor, Reason, Target};
use crate::report::Report;
use crate::roles::is_matrix;

/// Rows longer than this stay as they are: a row is coded at once.
pub(crate) const COLUMNS_LIMIT: u64 = 1 << 20;

/// What becomes of every tensor of a folder: linear layers get groups of integers, the rest stays as it is, but for what rules say.
#[derive(Debug, Clone)]
pub struct FolderPlan {
    /// Formats, reasons and bytes, by the names of the folder. Formats are those of the blocks that weights are coded in; what shares a
    /// scale beyond that is told by [`FolderPlan::format_name`].
    pub plan: Plan,
    /// Of each tensor of the plan, what it becomes.
    pub(crate) kinds: Vec<Kind>,
    /// Of each tensor of the plan, its number in the folder.
    pub(crate) numbers: Vec<usize>,
}

/// What a tensor becomes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// What it is, or floats of another type.
    Plain,
    /// Integers.
    Grouped(&'static GroupFormat, Groups),
}

/// One tensor of the files that are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) name: String,
    /// As safetensors spells it.
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: u64,
    /// Bytes of a number.
    pub(crate) alignment: u64,
}

impl FolderPlan {
    /// Looks at every tensor and chooses what it becomes. Rules may name a tensor as it is called in the folder or in GGUF.
    ///
    /// # Errors
    /// Where there is nothing to quantize, for a rule that matches nothing, and for a format that has no place in such a folder.
    pub fn new(source: &Untranslated, format: &'static GroupFormat, keep: &[KeepRule]) -> Result<FolderPlan> {
        let tensors = source.tensors();
        if !tensors.iter().any(|tensor| tensor.is_linear) {
            let what = "there are no linear layers in it, so that there is nothing to quantize";
            let remedy = "name a folder of a model that writes text";
            return Err(duan_model::Error::unsupported(source.label(), what, remedy).into());
        }
        let matrices: Vec<usize> = (0..tensors.len()).filter(|&index| is_candidate(&tensors[index])).collect();
        let names: Vec<Vec<&str>> = matrices
            .iter()
            .map(|&index| {
                let tensor = &tensors[index];
                std::iter::once(&*tensor.name).chain(tensor.place.iter().map(|place| &*place.name)).collect()
            })
            .collect();
        let kept = keep::assign_any(keep, &names)?;
        let (mut planned, mut kinds, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = 0;
        for (index, tensor) in tensors.iter().enumerate() {
            let rule = if matrices.get(next) == Some(&index) {
                next += 1;
                kept[next - 1].map(|rule| &keep[rule])
            } else {
                None
            };
            // What has no numbers has no pieces; it is written all the same.
            if tensor.elements() > 0 {
                let (tensor, kind) = of_tensor(source.label(), tensor, format, rule)?;
                planned.push(tensor);
                kinds.push(kind);
                numbers.push(index);
            }
        }
        let plan = Plan { format: format.name.to_owned(), file_type: None, tensors: planned, measured: None };
        Ok(FolderPlan { plan, kinds, numbers })
    }

    /// What tensor number `index` of the plan is called by its format: `int4-g64`, `int8-channel`, `BF16`.
    pub fn format_name(&self, index: usize) -> String {
        let tensor = &self.plan.tensors[index];
        let plain = || tensor.source.type_name().into_owned();
        match (self.kinds[index], tensor.format()) {
            (Kind::Grouped(format, _), _) if format.strategy() != Strategy::Group => format.name.to_owned(),
            (_, Some(format)) => format.name.to_owned(),
            (_, None) => plain(),
        }
    }

    /// The report of the plan, with formats by the names that were asked for.
    pub(crate) fn name_formats(&self, mut report: Report, format: &GroupFormat) -> Report {
        for (index, row) in report.tensors.iter_mut().enumerate() {
            row.format = self.format_name(index);
            if let Some(stored) = self.plan.tensors[index].stored {
                row.from = stored.name.to_owned();
            }
        }
        for row in &mut report.fallbacks {
            if row.from == format.wanted().name {
                row.from = format.name;
            }
        }
        report
    }

    /// The format that was asked for.
    pub(crate) fn asked(&self) -> &'static GroupFormat {
        GroupFormat::by_name(&self.plan.format).expect("a plan is made of one of the table")
    }

    /// Modules by what their matrices become, that of the most first, which stands for all that the others do not name.
    pub(crate) fn schemes(&self, source: &Untranslated) -> Vec<Scheme> {
        let mut schemes: Vec<Scheme> = Vec::new();
        for (kind, &number) in self.kinds.iter().zip(&self.numbers) {
            let Kind::Grouped(format, mut groups) = *kind else { continue };
            let strategy = format.strategy();
            if strategy != Strategy::Group {
                // How the engine cuts a row into blocks is no matter of the file.
                groups.weights = 32;
            }
            let module = source.tensors()[number].module().to_owned();
            match schemes.iter_mut().find(|scheme| (scheme.groups, scheme.strategy) == (groups, strategy)) {
                Some(scheme) => scheme.modules.push(module),
                None => schemes.push(Scheme { groups, strategy, modules: vec![module] }),
            }
        }
        schemes.sort_by_key(|scheme| std::cmp::Reverse(scheme.modules.len()));
        if let Some(first) = schemes.first_mut() {
            first.modules.clear();
        }
        schemes
    }

    /// Modules that may be linear layers and stay as they are.
    pub(crate) fn ignored(&self, source: &Untranslated) -> Vec<String> {
        const HEAD: &str = "lm_head";
        let mut ignored = vec![HEAD.to_owned()];
        for (kind, &number) in self.kinds.iter().zip(&self.numbers) {
            let tensor = &source.tensors()[number];
            let is_embedding = tensor.place.as_ref().is_some_and(|place| place.name == "token_embd.weight");
            let is_layer = tensor.shape.len() == 2 && tensor.name.ends_with(".weight") && !is_embedding;
            if *kind == Kind::Plain && is_layer && tensor.module() != HEAD {
                ignored.push(tensor.module().to_owned());
            }
        }
        ignored
    }

    /// The tensors that tensor number `index` of the plan becomes, codes first.
    ///
    /// # Errors
    /// None that planning did not have.
    pub(crate) fn written(&self, source: &Untranslated, index: usize) -> Result<Vec<Written>> {
        let tensor = &source.tensors()[self.numbers[index]];
        if let Kind::Grouped(format, _) = self.kinds[index] {
            return written_groups(source.label(), tensor, format);
        }
        let (dtype, bits) = match self.plan.tensors[index].target {
            Target::Copy => (tensor.dtype.name(), tensor.dtype.bits()),
            Target::Coded(format) => (format.name, format.block_bytes as u64 * 8),
        };
        let bytes = tensor.elements().saturating_mul(bits) / 8;
        let alignment = bits.div_ceil(8);
        Ok(vec![Written { name: tensor.name.clone(), dtype, shape: tensor.shape.clone(), bytes, alignment }])
    }
}

/// Whether a rule may be for a tensor.
fn is_candidate(tensor: &UntranslatedTensor) -> bool {
    let dims: Vec<u64> = tensor.shape.iter().rev().copied().collect();
    let is_named = || tensor.place.as_ref().is_some_and(|place| is_matrix(&place.name, &dims));
    tensor.elements() > 0 && (tensor.is_linear || (tensor.dtype.format().is_some() && is_named()))
}

/// What becomes of one tensor.
fn of_tensor(
    label: &str,
    tensor: &UntranslatedTensor,
    asked: &'static GroupFormat,
    rule: Option<&KeepRule>,
) -> Result<(PlannedTensor, Kind)> {
    let source = tensor.info(label)?;
    let columns = source.dims[0];
    let own_bytes = tensor.bytes();
    let reason = match rule {
        Some(rule) => Reason::Keep(rule.text().to_owned()),
        None if tensor.is_linear => Reason::Mix,
        None => Reason::Untouched,
    };
    let copy = |fallback_from, reason| PlannedTensor {
        source: source.clone(),
        target: Target::Copy,
        reason,
        fallback_from,
        bytes: own_bytes,
        stored: tensor.stored,
    };
    let floats = |format: &'static Format, reason| {
        if source.format() == Some(format) {
            return copy(None, reason);
        }
        let bytes = source.elements().saturating_mul(format.block_bytes as u64);
        PlannedTensor { target: Target::Coded(format), bytes, ..copy(None, reason) }
    };
    let wanted = match rule.map(KeepRule::format) {
        Some(format) if format.block_weights == 1 => return Ok((floats(format, reason), Kind::Plain)),
        Some(format) => match GroupFormat::of(format) {
            Some(wanted) if tensor.is_linear => wanted,
            found => return Err(has_no_place(tensor, format, found.is_some())),
        },
        None if tensor.is_linear => asked,
        // A head or a table that is quantized already.
        None if tensor.stored.is_some_and(|stored| stored.block_weights > 1) => {
            return Ok((floats(known("F16"), reason), Kind::Plain));
        }
        None => return Ok((copy(None, reason), Kind::Plain)),
    };
    let Some(blocks) = wanted.blocks(columns).filter(|_| columns <= COLUMNS_LIMIT) else {
        return Ok((copy(Some(wanted.wanted()), reason), Kind::Plain));
    };
    let groups = Groups::of(blocks).expect("blocks of groups");
    // Blocks in which a row or a matrix shares a scale give way to no others.
    let gave_way = wanted.strategy() == Strategy::Group && blocks != wanted.wanted();
    let planned = PlannedTensor {
        target: Target::Coded(blocks),
        bytes: written_groups(label, tensor, wanted)?.iter().map(|written| written.bytes).sum(),
        ..copy(gave_way.then(|| wanted.wanted()), reason)
    };
    Ok((planned, Kind::Grouped(wanted, groups)))
}

fn has_no_place(tensor: &UntranslatedTensor, format: &Format, is_groups: bool) -> Error {
    let name = quoted(&tensor.name);
    if is_groups {
        let what = format!("`{name}` is no linear layer of the layers, and {} is for those", format.name);
        return Error::Format { what, remedy: "keep it as f16, bf16 or f32".to_owned() };
    }
    let what = format!("{} has no place in a folder of integers in groups", format.name);
    Error::Format { what, remedy: "keep tensors as f16, bf16, f32, or int4 and int8 such as int8-g64".to_owned() }
}

/// The tensors that a matrix of integers becomes.
fn written_groups(label: &str, tensor: &UntranslatedTensor, format: &GroupFormat) -> Result<Vec<Written>> {
    let packer = packer(label, tensor, format)?;
    let written = packer.shapes().into_iter().map(|shape| {
        let alignment = match shape.dtype {
            "I64" => 8,
            "I32" => 4,
            "F16" => 2,
            _ => 1,
        };
        let dims: Vec<u64> = shape.dims.iter().map(|&dim| dim as u64).collect();
        Written {
            name: format!("{}.{}", tensor.module(), shape.suffix),
            dtype: shape.dtype,
            bytes: dims.iter().product::<u64>() * alignment,
            shape: dims,
            alignment,
        }
    });
    Ok(written.collect())
}

/// What takes the rows of a matrix apart.
pub(crate) fn packer(label: &str, tensor: &UntranslatedTensor, format: &GroupFormat) -> Result<Packer> {
    let dims = [tensor.shape[0], tensor.shape[1]].map(|dim| usize::try_from(dim).unwrap_or(usize::MAX));
    let blocks = format.blocks(tensor.shape[1]).unwrap_or(format.wanted());
    Ok(Packer::new(label, &tensor.name, blocks, format.strategy(), dims)?)
}
