//! Which files of a repository are the model that was asked for. A pure function of the name and the list of files.

use super::RepositoryFile;
use super::strays::TEMPLATES;
use crate::error::{Error, ErrorKind, Result};
use crate::name::{RepositoryName, Wanted};

/// The quantization that is taken when none is named: what the field takes, as the best quality for its size.
const USUAL: &str = "Q4_K_M";

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
                models.sort_by_key(|file| &file.path);
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
    let mut found = Vec::new();
    for index in 1..=count {
        let path = format!("{stem}-{index:05}-of-{count:05}.gguf");
        match files.iter().find(|file| file.path == path) {
            Some(file) => found.push(file),
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
    let has_tokenizer = ["tokenizer.json", "tokenizer.model", "vocab.json"].iter().any(|path| has(path));
    let is_whole = has("config.json") && has_tokenizer && top.iter().any(|file| is_weights(&file));
    if !is_whole {
        return Err(Error::new(
            ErrorKind::NotInRepository,
            format!(
                "{} has neither a GGUF file nor a checkpoint folder (config.json, *.safetensors and a tokenizer); {}",
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
    fn without_the_usual_quantization_the_first_file_is_taken_but_not_for_certain() {
        let paths = &["x-Q8_0.gguf", "x-F16.gguf"];
        assert_eq!(chosen("hf:a/b", paths).unwrap(), (vec!["x-F16.gguf".to_string()], false, false));
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
    }
}
