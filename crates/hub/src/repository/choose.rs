//! Which files of a repository are the model that was asked for. A pure function of the name and the list of files.

use std::collections::HashMap;

use super::RepositoryFile;
use super::strays::TEMPLATES;
use crate::error::{Error, ErrorKind, Result};
use crate::name::{RepositoryName, Wanted};

/// The quantization that is taken when none is named: what the field takes, as the best quality for its size.
const USUAL: &str = "Q4_K_M";

/// Those that are taken where it is missing: others of four and five bits, then of six and eight. What says none of any list
/// comes next, then what loses more, and what is not quantized at all and needs a multiple of the memory last but for what
/// hardly makes sense any more.
const NEXT: [&str; 17] = [
    "Q4_K_L", "Q4_K_XL", "Q4_K_S", "Q5_K_M", "Q5_K_S", "IQ4_NL", "IQ4_XS", "Q4_1", "Q4_0", "MXFP4", "NVFP4", "Q5_1",
    "Q5_0", "Q6_K", "Q6_K_L", "Q8_0", "Q8_K_XL",
];
const LAST: [&str; 23] = [
    "Q3_K_L", "Q3_K_XL", "Q3_K_M", "Q3_K_S", "IQ3_M", "IQ3_S", "IQ3_XS", "IQ3_XXS", "BF16", "F16", "FP16", "F32",
    "FP32", "Q2_K_L", "Q2_K", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS", "TQ2_0", "IQ1_M", "IQ1_S", "TQ1_0",
];

/// More pieces than this has no split model.
const PIECES_LIMIT: u32 = 999;

/// The files of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice<'a> {
    /// All of them; the model itself is the first one.
    pub(crate) files: Vec<&'a RepositoryFile>,
    /// Whether they are a checkpoint folder, and the folder is the model.
    pub(crate) is_folder: bool,
    /// Whether other files of the repository could not change the choice.
    pub(crate) is_certain: bool,
}

/// Chooses among the files of a repository.
///
/// # Errors
/// [`ErrorKind::NotInRepository`] with what there is instead.
pub(crate) fn choose<'a>(name: &RepositoryName, files: &'a [RepositoryFile]) -> Result<Choice<'a>> {
    let mut models: Vec<&RepositoryFile> = files.iter().filter(|file| is_model(&file.path)).collect();
    // The shortest name first: a variant of a quantization has something before or behind.
    models.sort_by_key(|file| (file.path.len(), &file.path));
    match &name.wanted {
        Wanted::Folder => folder(name, files),
        Wanted::File(path) => file(name, path, files),
        Wanted::Quantization(quantization) => {
            match models.iter().find(|file| has_quantization(&file.path, quantization)) {
                Some(file) => with_its_pieces(name, file, files, true),
                None => Err(no_quantization(name, quantization, &models)),
            }
        }
        Wanted::Best => match models.iter().find(|file| has_quantization(&file.path, USUAL)) {
            Some(file) => with_its_pieces(name, file, files, true),
            None if models.is_empty() => Ok(Choice { is_certain: false, ..folder(name, files)? }),
            None => {
                models.sort_by_key(|file| (place_in_order(&file.path), file.path.len(), &file.path));
                with_its_pieces(name, models[0], files, false)
            }
        },
    }
}

/// Whether a file could be a model by itself. What belongs to one, such as the part that sees pictures, or the importance
/// of its weights, cannot.
fn is_model(path: &str) -> bool {
    let base = base(path).to_ascii_lowercase();
    base.ends_with(".gguf") && !base.starts_with("mmproj") && !base.contains("imatrix") && !is_later_piece(&base)
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a path names a quantization as a word of its own: `Q4_K` is not in `Q4_K_M`.
fn has_quantization(path: &str, quantization: &str) -> bool {
    let (path, quantization) = (path.to_ascii_lowercase(), quantization.to_ascii_lowercase());
    let is_edge = |c: Option<char>| c.is_none_or(|c| "-./".contains(c));
    path.match_indices(&quantization).any(|(at, _)| {
        let (before, behind) = (path[..at].chars().next_back(), path[at + quantization.len()..].chars().next());
        is_edge(before) && is_edge(behind)
    })
}

/// Where a file stands among those that are taken when nothing is named.
fn place_in_order(path: &str) -> usize {
    let place = |list: &[&str]| list.iter().position(|quantization| has_quantization(path, quantization));
    place(&NEXT).or_else(|| place(&LAST).map(|place| NEXT.len() + 1 + place)).unwrap_or(NEXT.len())
}

/// The stem, index and count of `STEM-00001-of-00003.gguf`.
fn piece(path: &str) -> Option<(&str, u32, u32)> {
    let stem = path.strip_suffix(".gguf")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (stem, index) = rest.rsplit_once('-')?;
    let number = |text: &str| (text.len() == 5).then(|| text.parse().ok()).flatten();
    Some((stem, number(index)?, number(count)?))
}

fn is_later_piece(path: &str) -> bool {
    piece(path).is_some_and(|(_, index, _)| index != 1)
}

/// A file, and where it is a piece of a split model, the others.
fn with_its_pieces<'a>(
    name: &RepositoryName,
    file: &'a RepositoryFile,
    files: &'a [RepositoryFile],
    is_certain: bool,
) -> Result<Choice<'a>> {
    let Some((stem, _, count)) = piece(&file.path) else {
        return Ok(Choice { files: vec![file], is_folder: false, is_certain });
    };
    if count == 0 || count > PIECES_LIMIT {
        let message =
            format!("{}: {} would be one of {count} files, at most {PIECES_LIMIT} are one model", name.id(), file.path);
        return Err(Error::new(ErrorKind::NotInRepository, message));
    }
    let by_path: HashMap<&str, &RepositoryFile> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut found = Vec::new();
    for index in 1..=count {
        let path = format!("{stem}-{index:05}-of-{count:05}.gguf");
        match by_path.get(path.as_str()) {
            Some(file) => found.push(*file),
            None => {
                return Err(Error::new(
                    ErrorKind::NotInRepository,
                    format!("{} lacks {path}, so this split model is not whole there; take another file", name.id()),
                ));
            }
        }
    }
    Ok(Choice { files: found, is_folder: false, is_certain })
}

fn file<'a>(name: &RepositoryName, path: &str, files: &'a [RepositoryFile]) -> Result<Choice<'a>> {
    let ending = format!("/{path}");
    let found: Vec<&RepositoryFile> = match files.iter().find(|file| file.path == path) {
        Some(file) => vec![file],
        None => files.iter().filter(|file| file.path.ends_with(&ending)).collect(),
    };
    match found[..] {
        [file] => with_its_pieces(name, file, files, true),
        [] => Err(Error::new(
            ErrorKind::NotInRepository,
            format!("{} has no file {path}; {}", name.id(), what_is_there(files)),
        )),
        _ => Err(Error::new(
            ErrorKind::NotInRepository,
            format!("{} has several files {path}; name the folder too", name.id()),
        )),
    }
}

/// The files of a checkpoint folder: configuration, weights, tokenizer and template at the top, and the templates that have
/// names.
fn folder<'a>(name: &RepositoryName, files: &'a [RepositoryFile]) -> Result<Choice<'a>> {
    let top: Vec<&RepositoryFile> = files.iter().filter(|file| !file.path.contains('/')).collect();
    let has = |path: &str| top.iter().any(|file| file.path == path);
    let weights = |file: &&&RepositoryFile| file.path.ends_with(".safetensors") && !file.path.starts_with("adapter");
    // Some repositories hold the same weights twice, under the maker's own names too.
    let has_usual_names = top.iter().any(|file| file.path.starts_with("model") && weights(&file));
    let is_weights = |file: &&&RepositoryFile| weights(file) && (!has_usual_names || file.path.starts_with("model"));
    let has_tokenizer = has("tokenizer.json") || has("tokenizer.model");
    let is_whole = has("config.json") && has_tokenizer && top.iter().any(|file| is_weights(&file));
    if !is_whole {
        return Err(Error::new(
            ErrorKind::NotInRepository,
            format!(
                "{} has neither a GGUF file nor a checkpoint folder (config.json, *.safetensors and \
                 tokenizer.json or tokenizer.model); {}",
                name.id(),
                what_is_there(files)
            ),
        ));
    }
    let is_beside = |file: &&&RepositoryFile| {
        let path = file.path.as_str();
        [".json", ".jinja", ".model"].iter().any(|ending| path.ends_with(ending))
            || ["merges.txt", "vocab.txt"].contains(&path)
    };
    let (mut chosen, mut rest): (Vec<&RepositoryFile>, Vec<&RepositoryFile>) =
        top.iter().filter(|file| is_weights(file) || is_beside(file)).partition(|file| file.path == "config.json");
    let template = |file: &&RepositoryFile| {
        let inside = file.path.strip_prefix(TEMPLATES).and_then(|rest| rest.strip_prefix('/'));
        inside.is_some_and(|base| base.ends_with(".jinja") && !base.contains('/'))
    };
    rest.extend(files.iter().filter(template));
    // What is small comes first: where it is refused, nobody waited for the weights.
    rest.sort_by_key(|file| (file.bytes, &file.path));
    chosen.append(&mut rest);
    Ok(Choice { files: chosen, is_folder: true, is_certain: true })
}

fn what_is_there(files: &[RepositoryFile]) -> String {
    let mut names: Vec<&str> = files.iter().map(|file| file.path.as_str()).filter(|path| is_model(path)).collect();
    names.sort_unstable();
    if !names.is_empty() {
        return format!("its GGUF files: {}", shortened(&names));
    }
    let mut names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    names.sort_unstable();
    format!("it holds: {}", shortened(&names))
}

fn shortened(names: &[&str]) -> String {
    let shown = names.iter().take(12).copied().collect::<Vec<_>>().join(", ");
    if names.len() > 12 { format!("{shown} and {} more", names.len() - 12) } else { shown }
}

fn no_quantization(name: &RepositoryName, quantization: &str, models: &[&RepositoryFile]) -> Error {
    let message = if models.is_empty() {
        format!(
            "{} has no GGUF files, so no {quantization}; leave :{quantization} out for its checkpoint folder, or look for \
             a repository of the same name that ends in -GGUF",
            name.id()
        )
    } else {
        let mut names: Vec<&str> = models.iter().map(|file| file.path.as_str()).collect();
        names.sort_unstable();
        format!("{} has no GGUF file of {quantization}; its GGUF files: {}", name.id(), shortened(&names))
    };
    Error::new(ErrorKind::NotInRepository, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Checksum;
    use crate::name::ModelName;

    fn files(paths: &[&str]) -> Vec<RepositoryFile> {
        let file = |path: &&str| RepositoryFile { path: path.to_string(), bytes: 1, checksum: Checksum::Unknown };
        paths.iter().map(file).collect()
    }

    fn chosen(name: &str, paths: &[&str]) -> Result<(Vec<String>, bool, bool)> {
        let ModelName::Repository(name) = ModelName::parse(name).unwrap() else { panic!("{name}") };
        let files = files(paths);
        let choice = choose(&name, &files)?;
        let paths = choice.files.iter().map(|file| file.path.clone()).collect();
        Ok((paths, choice.is_folder, choice.is_certain))
    }

    const MANY: &[&str] = &[
        "README.md",
        "imatrix_unsloth.gguf",
        "mmproj-F16.gguf",
        "m-UD-Q4_K_M.gguf",
        "m-Q4_K_M.gguf",
        "m-q4_k_s.gguf",
        "BF16/m-BF16-00001-of-00002.gguf",
        "BF16/m-BF16-00002-of-00002.gguf",
        "Q2_K/m-x-00002-of-00003.gguf",
        "Q2_K/m-x-00001-of-00003.gguf",
    ];

    #[test]
    fn a_quantization_is_a_word_of_the_name_whatever_its_case() {
        let one = |name: &str| chosen(name, MANY).map(|(paths, ..)| paths);
        assert_eq!(one("hf:a/b").unwrap(), ["m-Q4_K_M.gguf"]);
        assert_eq!(one("hf:a/b:q4_k_m").unwrap(), ["m-Q4_K_M.gguf"]);
        assert_eq!(one("hf:a/b:UD-Q4_K_M").unwrap(), ["m-UD-Q4_K_M.gguf"]);
        assert_eq!(one("hf:a/b:Q4_K_S").unwrap(), ["m-q4_k_s.gguf"]);
        let both = ["BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"];
        assert_eq!(one("hf:a/b:BF16").unwrap(), both);
        assert_eq!(one("hf:a/b/m-BF16-00002-of-00002.gguf").unwrap(), both, "any piece names the whole");
        let error = one("hf:a/b:Q4_K").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotInRepository);
        assert!(error.to_string().contains("no GGUF file of Q4_K; its GGUF files: BF16/m-BF16-0"), "{error}");
        assert!(!error.to_string().contains("mmproj"), "{error}");
        assert!(one("hf:a/b:Q2_K").unwrap_err().to_string().contains("lacks Q2_K/m-x-00003-of-00003.gguf"));
        assert_eq!(one("hf:a/b/mmproj-F16.gguf").unwrap(), ["mmproj-F16.gguf"], "what is named is taken");
        assert!(one("hf:a/b/none.gguf").unwrap_err().to_string().contains("m-Q4_K_M.gguf"));
    }

    #[test]
    fn without_the_usual_quantization_the_nearest_is_taken_but_not_for_certain() {
        let paths = &["x-Q8_0.gguf", "x-F16.gguf"];
        assert_eq!(chosen("hf:a/b", paths).unwrap(), (vec!["x-Q8_0.gguf".to_string()], false, false));
        // From the one that is taken first to the one that is taken last.
        let mut order = [
            "x-UD-Q4_K_XL",
            "q4_k_s/x",
            "x-Q5_K_M",
            "x.Q5_0",
            "x-Q6_K",
            "x-Q8_0",
            "x",
            "x-IQ3_S",
            "BF16/x",
            "x-f16",
            "x-Q2_K",
        ]
        .map(|stem| format!("{stem}.gguf"))
        .to_vec();
        while !order.is_empty() {
            let mut paths: Vec<&str> = order.iter().map(String::as_str).collect();
            paths.sort_unstable();
            assert_eq!(chosen("hf:a/b", &paths).unwrap().0, order[..1], "{paths:?}");
            order.remove(0);
        }
        assert_eq!(chosen("hf:a/b:Q8_0", paths).unwrap(), (vec!["x-Q8_0.gguf".to_string()], false, true));
    }

    #[test]
    fn a_checkpoint_folder_is_what_is_needed_to_run_it() {
        let paths = &[
            "model.safetensors.index.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "consolidated.safetensors",
            "config.json",
            "tokenizer.json",
            "chat_template.jinja",
            "additional_chat_templates/tool.jinja",
            "README.md",
            "original/tokenizer.model",
            "pytorch_model.bin",
        ];
        let (found, is_folder, is_certain) = chosen("hf:a/b", paths).unwrap();
        let expected = [
            "config.json",
            "additional_chat_templates/tool.jinja",
            "chat_template.jinja",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "tokenizer.json",
        ];
        assert_eq!((found, is_folder, is_certain), (expected.map(String::from).to_vec(), true, false));
        let mut with_gguf = paths.to_vec();
        with_gguf.push("m-Q8_0.gguf");
        assert!(!chosen("hf:a/b", &with_gguf).unwrap().1);
        assert_eq!(chosen("hf:a/b/", &with_gguf).unwrap(), (expected.map(String::from).to_vec(), true, true));
        let error = chosen("hf:a/b", &["pytorch_model.bin", "config.json"]).unwrap_err();
        assert!(error.to_string().contains("it holds: config.json, pytorch_model.bin"), "{error}");
        assert!(chosen("hf:a/b:Q4_0", paths).unwrap_err().to_string().contains("-GGUF"));
        // Without a tokenizer that can be read it could not talk.
        let slow = ["config.json", "model.safetensors", "vocab.json", "merges.txt"];
        let error = chosen("hf:a/b/", &slow).unwrap_err();
        assert!(error.to_string().contains("tokenizer.json or tokenizer.model"), "{error}");
        let spm = ["config.json", "model.safetensors", "tokenizer.model"];
        assert_eq!(chosen("hf:a/b/", &spm).unwrap().0.len(), 3);
    }

    #[test]
    fn a_model_in_more_pieces_than_there_can_be_is_refused() {
        let piece = |index: u32, count: u32| format!("m-{index:05}-of-{count:05}.gguf");
        let all = |count: u32| (1..=count).map(|index| piece(index, count)).collect::<Vec<String>>();
        let choose = |count: u32| {
            let paths = all(count);
            chosen("hf:a/b", &paths.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert_eq!(choose(999).unwrap().0, all(999));
        let error = choose(1000).unwrap_err();
        assert!(error.to_string().contains("one of 1000 files, at most 999"), "{error}");
        assert_eq!(chosen("hf:a/b", &["m-00001-of-00000.gguf"]).unwrap_err().kind(), ErrorKind::NotInRepository);
        assert_eq!(chosen("hf:a/b", &["m-00001-of-99999.gguf"]).unwrap_err().kind(), ErrorKind::NotInRepository);
    }
}
