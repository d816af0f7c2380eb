//! Which tensor gets which format, and why: a pure function of names, shapes, keys and what the person said.

use std::collections::HashMap;

use duan_model::gguf::write::type_id;
use duan_model::gguf::{Metadata, TensorInfo};
use duan_model::quoted;
use duan_quant::{Format, TypeStatus};

use crate::error::{Error, Result};
use crate::fallback::fallback;
use crate::keep::{self, KeepRule};
use crate::mixed::Mixture;
use crate::mixes::{Mix, ModelFacts, Place};
use crate::recipe::Recipe;
use crate::roles::{Role, is_matrix, layer, role};
use crate::source::{Source, bytes_of};

/// What a plan is made of.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions<'a> {
    /// Where formats come from.
    pub choice: Choice<'a>,
    /// Rules that come before it.
    pub keep: &'a [KeepRule],
    /// Whether importance is given, which some mixes ask for.
    pub has_importance: bool,
}

/// Where formats come from.
#[derive(Debug, Clone, Copy)]
pub enum Choice<'a> {
    /// A mix that people know by its name.
    Mix(&'static Mix),
    /// A recipe; it names every matrix that no rule takes.
    Recipe(&'a Recipe),
    /// What was found by measuring; likewise.
    Measured(&'a Mixture),
}

/// What becomes of every tensor of a model.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the mix.
    pub format: String,
    /// `general.file_type`, where the mix is a known one.
    pub file_type: Option<u32>,
    /// All tensors, in the source's order.
    pub tensors: Vec<PlannedTensor>,
    /// What was measured, where formats were found so.
    pub measured: Option<Mixture>,
}

/// What becomes of one tensor.
#[derive(Debug, Clone)]
pub struct PlannedTensor {
    /// The tensor as it is.
    pub source: TensorInfo,
    /// What is written.
    pub target: Target,
    /// Why.
    pub reason: Reason,
    /// The format that was wanted, where the rows do not divide into its blocks.
    pub fallback_from: Option<&'static Format>,
    /// Bytes that it will have.
    pub bytes: u64,
    /// The format that it is stored in, which is not always the one that it is read in.
    pub stored: Option<&'static Format>,
}

/// What is written of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Its bytes as they are.
    Copy,
    /// Its weights in this format.
    Coded(&'static Format),
}

/// Why a tensor gets its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It is no matrix, or one that is never quantized.
    Untouched,
    /// The mix says so.
    Mix,
    /// The recipe says so.
    Recipe,
    /// It was found by measuring.
    Measured,
    /// A rule says so: its text.
    Keep(String),
}

impl Plan {
    /// Looks at every tensor and chooses its format.
    ///
    /// # Errors
    /// For a rule that matches nothing, a recipe that is another model's, a format that cannot be written, and a tensor that cannot be
    /// read.
    pub fn new(source: &dyn Source, options: &PlanOptions<'_>) -> Result<Plan> {
        let infos = source.tensors();
        let matrices: Vec<usize> =
            (0..infos.len()).filter(|&index| is_matrix(&infos[index].name, &infos[index].dims)).collect();
        if matrices.is_empty() {
            let what = "there are no matrices in it, so that there is nothing to quantize";
            return Err(
                duan_model::Error::unsupported(source.label(), what, "name the file that has the weights").into()
            );
        }
        let names: Vec<&str> = matrices.iter().map(|&index| &*infos[index].name).collect();
        let kept = keep::assign(options.keep, &names)?;
        let chosen = match options.choice {
            Choice::Mix(mix) => by_mix(source, mix, &matrices, options.has_importance)?,
            Choice::Recipe(recipe) => by_recipe(source.label(), recipe, &names, &kept)?,
            Choice::Measured(mixture) => by_recipe(source.label(), &mixture.recipe, &names, &kept)?,
        };
        let mut tensors = Vec::with_capacity(infos.len());
        let mut next = 0;
        for (index, info) in infos.iter().enumerate() {
            let (wanted, reason) = if matrices.get(next) == Some(&index) {
                next += 1;
                match (kept[next - 1], &options.choice) {
                    (Some(rule), _) => {
                        let rule = &options.keep[rule];
                        (Some(rule.format()), Reason::Keep(rule.text().to_owned()))
                    }
                    (None, Choice::Mix(_)) => (chosen[next - 1], Reason::Mix),
                    (None, Choice::Recipe(_)) => (chosen[next - 1], Reason::Recipe),
                    (None, Choice::Measured(_)) => (chosen[next - 1], Reason::Measured),
                }
            } else {
                (None, Reason::Untouched)
            };
            let mut tensor = planned(source.label(), info, wanted, reason)?;
            tensor.stored = source.stored_format(index);
            tensors.push(tensor);
        }
        let (recipe, measured) = match options.choice {
            Choice::Mix(_) => (None, None),
            Choice::Recipe(recipe) => (Some(recipe), None),
            Choice::Measured(mixture) => (Some(&mixture.recipe), Some(mixture.clone())),
        };
        let (format, file_type) = match (options.choice, recipe) {
            (Choice::Mix(mix), _) => (mix.name.to_owned(), Some(mix.file_type)),
            (_, recipe) => {
                let format = recipe.map_or("", |recipe| &recipe.format);
                let mix = crate::MIXES.iter().find(|mix| mix.name.eq_ignore_ascii_case(format));
                (format.to_owned(), mix.map(|mix| mix.file_type))
            }
        };
        Ok(Plan { format, file_type, tensors, measured })
    }

    /// The same as a recipe: a line for each matrix.
    pub fn recipe(&self) -> Recipe {
        let matrices = self.tensors.iter().filter(|tensor| tensor.reason != Reason::Untouched);
        let tensors = matrices.filter_map(|tensor| Some((tensor.source.name.clone(), tensor.format()?))).collect();
        Recipe { format: self.format.clone(), tensors }
    }

    /// Formats of the matrices that are quantized already and get another format: what was lost in them stays lost.
    pub fn requantized_from(&self) -> Vec<&'static Format> {
        let mut found: Vec<&'static Format> = Vec::new();
        for tensor in self.tensors.iter().filter(|tensor| tensor.target != Target::Copy) {
            match tensor.stored {
                Some(format) if format.block_weights > 1 && !found.contains(&format) => found.push(format),
                _ => {}
            }
        }
        found
    }

    /// Weights of all tensors.
    pub fn weights(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.source.elements()).fold(0, u64::saturating_add)
    }

    /// Bytes of all tensors, as they will be.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).fold(0, u64::saturating_add)
    }
}

impl PlannedTensor {
    /// The format that it will have; none where it is copied in a type without a codec here.
    pub fn format(&self) -> Option<&'static Format> {
        match self.target {
            Target::Coded(format) => Some(format),
            Target::Copy => self.source.format(),
        }
    }

    /// The GGUF type that it will have.
    pub(crate) fn type_id(&self) -> u32 {
        match self.target {
            Target::Coded(format) => format.gguf_id.expect("formats that GGUF does not know were refused"),
            Target::Copy => self.source.type_id,
        }
    }

    /// Weights of a row, at least 1.
    pub(crate) fn columns(&self) -> u64 {
        self.source.dims.first().copied().unwrap_or(1).max(1)
    }

    /// Rows of each matrix of a stack, and how many matrices there are.
    pub(crate) fn stack(&self) -> (u64, u64) {
        let rows = self.source.dims.get(1).copied().unwrap_or(1);
        (rows.max(1), self.source.dims.iter().skip(2).product())
    }
}

/// What becomes of `info`, for which `wanted` was chosen.
pub(crate) fn planned(
    label: &str,
    info: &TensorInfo,
    wanted: Option<&'static Format>,
    reason: Reason,
) -> Result<PlannedTensor> {
    // Also where another format would take its place: nobody asked for that one.
    if let Some(wanted) = wanted {
        let id = type_id(label, &info.name, wanted)?;
        if !wanted.is_writable() && id != info.type_id {
            return Err(Error::unwritable(wanted.name));
        }
    }
    let columns = info.dims.first().copied().unwrap_or(1);
    let format = wanted.map(|wanted| fallback(wanted, columns));
    let fallback_from = wanted.filter(|wanted| Some(*wanted) != format);
    let target = match format {
        Some(format) if info.format() != Some(format) => Target::Coded(format),
        _ => Target::Copy,
    };
    if let (Target::Copy, Some(own)) = (target, info.own_format) {
        // GGUF has no place for it.
        type_id(label, &info.name, own)?;
    }
    let stored = info.format();
    let mut planned = PlannedTensor { source: info.clone(), stored, target, reason, fallback_from, bytes: 0 };
    planned.bytes = match target {
        Target::Copy => {
            let bytes = bytes_of(info, info.elements()).ok_or_else(|| cannot_read(label, info))?;
            bytes as u64
        }
        Target::Coded(format) => {
            if !matches!(info.type_status(), TypeStatus::Supported(_)) {
                return Err(cannot_read(label, info));
            }
            let blocks = info.elements() / format.block_weights as u64;
            blocks.checked_mul(format.block_bytes as u64).ok_or_else(|| cannot_read(label, info))?
        }
    };
    Ok(planned)
}

fn cannot_read(label: &str, info: &TensorInfo) -> Error {
    let error = duan_model::Error::tensor(label, &info.name, "a type that duan reads", info.type_name());
    error.with_remedy("get the model in another type such as F16 or Q8_0").into()
}

/// The formats that a mix gives to the matrices.
fn by_mix(
    source: &dyn Source,
    mix: &'static Mix,
    matrices: &[usize],
    has_importance: bool,
) -> Result<Vec<Option<&'static Format>>> {
    let infos = source.tensors();
    let facts = model_facts(source, has_importance)?;
    let is_tied = !infos.iter().any(|info| info.name == "output.weight");
    let roles: Vec<Role> = matrices.iter().map(|&index| role(&infos[index].name, is_tied)).collect();
    // Not every layer has attention, so values are counted; with experts, layers can have several ways down, so their layer counts.
    let numbers = numbers_by_role(&matrices.iter().map(|&index| &infos[index]).collect::<Vec<_>>(), &roles);
    let values = roles.iter().filter(|&&role| role == Role::Value).count();
    let chosen = matrices.iter().enumerate().map(|(at, &index)| {
        let info = &infos[index];
        let by_layer = layer(&info.name).map(|layer| layer as usize);
        let (index, count) = match roles[at] {
            Role::Value => (numbers[at], values),
            Role::Down if facts.experts > 1 => (by_layer.unwrap_or(numbers[at]), facts.layers),
            _ => (numbers[at], facts.layers),
        };
        let is_stacked = info.dims.get(2).is_some_and(|&dim| dim > 1);
        Some(mix.format_of(roles[at], Place { index, count, is_stacked }, &facts))
    });
    Ok(chosen.collect())
}

/// The number of each matrix among those of its role, by layer and name.
fn numbers_by_role(infos: &[&TensorInfo], roles: &[Role]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..infos.len()).collect();
    order.sort_by_key(|&at| (layer(&infos[at].name), &*infos[at].name));
    let (mut numbers, mut counts) = (vec![0; infos.len()], Vec::<(Role, usize)>::new());
    for at in order {
        match counts.iter_mut().find(|count| count.0 == roles[at]) {
            Some(count) => {
                count.1 += 1;
                numbers[at] = count.1;
            }
            None => counts.push((roles[at], 0)),
        }
    }
    numbers
}

fn model_facts(source: &dyn Source, has_importance: bool) -> Result<ModelFacts> {
    let metadata = source.metadata();
    let family = metadata.string("general.architecture")?.unwrap_or("");
    let number = |name: &str| first_number(metadata, &format!("{family}.{name}"));
    let named = source.tensors().iter().filter_map(|info| layer(&info.name)).max().map_or(0, |last| last as usize + 1);
    let heads = number("attention.head_count").unwrap_or(0);
    let kv_heads = number("attention.head_count_kv").unwrap_or(heads);
    Ok(ModelFacts {
        layers: number("block_count").unwrap_or(named),
        heads_per_kv_head: heads.checked_div(kv_heads).unwrap_or(0),
        experts: number("expert_count").unwrap_or(0),
        has_importance,
    })
}

/// The number at a key, or the first one where there is one for each layer. A key that is odd decides nothing here: the model may
/// still be of use to others.
fn first_number(metadata: &Metadata, key: &str) -> Option<usize> {
    let number = match metadata.u32(key) {
        Ok(number) => number,
        Err(_) => metadata.u32s(key).ok().flatten().and_then(|numbers| numbers.first().copied()),
    };
    number.map(|number| number as usize)
}

/// The formats that a recipe gives to the matrices called `names`; those that a rule takes need no line.
fn by_recipe(
    label: &str,
    recipe: &Recipe,
    names: &[&str],
    kept: &[Option<usize>],
) -> Result<Vec<Option<&'static Format>>> {
    const REMEDY: &str = "it was made for another model: make one for this, with --save-recipe";
    let formats: HashMap<&str, &'static Format> =
        recipe.tensors.iter().map(|(name, format)| (&**name, *format)).collect();
    let mut used = 0;
    let mut chosen = Vec::with_capacity(names.len());
    for (name, kept) in names.iter().zip(kept) {
        let format = formats.get(name).copied();
        used += usize::from(format.is_some());
        if format.is_none() && kept.is_none() {
            return Err(Error::recipe(
                "the recipe",
                format!("no line for tensor `{}` of {label}", quoted(name)),
                REMEDY,
            ));
        }
        chosen.push(format);
    }
    if used < formats.len() {
        let stranger = recipe.tensors.iter().find(|(name, _)| !names.contains(&&**name));
        let name = stranger.map_or("", |row| &*row.0);
        let what = format!("tensor `{}` is no matrix of {label}", quoted(name));
        return Err(Error::recipe("the recipe", what, REMEDY));
    }
    Ok(chosen)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
