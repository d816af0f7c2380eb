//! Whose a model is and where it comes from: the keys `general.*` of the GGUF format document.

use duan_model::gguf::{Array, Metadata, Value};
use serde::Serialize;

use super::text;

/// A file that names more models than this as its base is not listed further.
const MOST_BASE_MODELS: u32 = 16;

/// Whose a model is and where it comes from, as far as the file says.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct AboutFacts {
    /// What the file holds: `model`, `adapter`, `mmproj`, `imatrix`, ...
    pub kind: Option<String>,
    /// Name of the kind of model, without size and tuning.
    pub basename: Option<String>,
    /// What it was tuned for.
    pub finetune: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its size in short: `7B`, `8x7B`.
    pub size_label: Option<String>,
    /// What it is, in its makers' words.
    pub description: Option<String>,
    /// Who made it.
    pub author: Option<String>,
    /// For whom they made it.
    pub organization: Option<String>,
    /// Who quantized it.
    pub quantized_by: Option<String>,
    /// The mixture of formats that the file was written as, for example `Q4_K_M`; the file's own word (`general.file_type`).
    pub file_type: Option<String>,
    /// The licence, mostly an SPDX expression.
    pub license: Option<String>,
    /// The licence's name, where the expression is not enough.
    pub license_name: Option<String>,
    /// Where the licence stands.
    pub license_link: Option<String>,
    /// The model's page.
    pub url: Option<String>,
    /// Where the model's files are.
    pub repo_url: Option<String>,
    /// The page of what it was converted from.
    pub source_url: Option<String>,
    /// Its digital object identifier.
    pub doi: Option<String>,
    /// What it was made from.
    pub base_models: Vec<BaseModelFacts>,
    /// Languages that it was trained for.
    pub languages: Vec<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
}

/// A model that another one was made from.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct BaseModelFacts {
    /// Its name.
    pub name: Option<String>,
    /// Who made it.
    pub author: Option<String>,
    /// For whom they made it.
    pub organization: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its page, or where its files are.
    pub url: Option<String>,
}

impl AboutFacts {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let text = |key: &str| text(metadata, &format!("general.{key}"));
        Self {
            kind: text("type"),
            basename: text("basename"),
            finetune: text("finetune"),
            version: text("version"),
            size_label: text("size_label"),
            description: text("description"),
            author: text("author"),
            organization: text("organization"),
            quantized_by: text("quantized_by"),
            file_type: file_type(metadata),
            license: text("license"),
            license_name: text("license.name"),
            license_link: text("license.link"),
            url: text("url"),
            repo_url: text("repo_url"),
            source_url: text("source.url").or_else(|| text("source.repo_url")),
            doi: text("doi"),
            base_models: base_models(metadata),
            languages: strings(metadata, "general.languages"),
            tags: strings(metadata, "general.tags"),
        }
    }
}

fn base_models(metadata: &Metadata) -> Vec<BaseModelFacts> {
    let count = metadata.u32("general.base_model.count").ok().flatten().unwrap_or(0);
    let model = |number: u32| {
        let text = |key: &str| text(metadata, &format!("general.base_model.{number}.{key}"));
        BaseModelFacts {
            name: text("name"),
            author: text("author"),
            organization: text("organization"),
            version: text("version"),
            url: text("repo_url").or_else(|| text("url")),
        }
    };
    let models = (0..count.min(MOST_BASE_MODELS)).map(model);
    models.filter(|model| *model != BaseModelFacts::default()).collect()
}

/// A list of strings, or the one string that older files have there.
fn strings(metadata: &Metadata, key: &str) -> Vec<String> {
    let strings: Vec<String> = match metadata.get(key) {
        Some(Value::Array(Array::String(strings))) => strings.iter().map(str::to_owned).collect(),
        Some(Value::String(string)) => vec![string.clone()],
        _ => Vec::new(),
    };
    strings.into_iter().filter(|string| !string.trim().is_empty()).collect()
}

/// Names of `general.file_type`, by the enumeration of the reference implementation.
const FILE_TYPES: &[(u32, &str)] = &[
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (10, "Q2_K"),
    (11, "Q3_K_S"),
    (12, "Q3_K_M"),
    (13, "Q3_K_L"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (19, "IQ2_XXS"),
    (20, "IQ2_XS"),
    (21, "Q2_K_S"),
    (22, "IQ3_XS"),
    (23, "IQ3_XXS"),
    (24, "IQ1_S"),
    (25, "IQ4_NL"),
    (26, "IQ3_S"),
    (27, "IQ3_M"),
    (28, "IQ2_S"),
    (29, "IQ2_M"),
    (30, "IQ4_XS"),
    (31, "IQ1_M"),
    (32, "BF16"),
    (36, "TQ1_0"),
    (37, "TQ2_0"),
    (38, "MXFP4"),
    (39, "NVFP4"),
    (40, "Q1_0"),
];

/// The name of the mixture of formats, where the file says it.
pub(crate) fn file_type(metadata: &Metadata) -> Option<String> {
    let number = metadata.u32("general.file_type").ok().flatten()?;
    FILE_TYPES.iter().find(|row| row.0 == number).map(|row| row.1.to_owned())
}
