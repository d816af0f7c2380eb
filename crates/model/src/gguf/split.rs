//! Models that are split into several files, each a GGUF file of its own with some of the tensors.
//!
//! Source: the tool `llama-gguf-split` of the ggml project. The pieces are called `NAME-00001-of-00003.gguf` and so on. Each
//! has `split.no` (from 0), `split.count` and `split.tensors.count` (of all pieces); the first has all other metadata,
//! and perhaps no tensors.

use std::path::{Path, PathBuf};

use super::file::GgufFile;
use crate::error::{Error, Result, file_label};

/// A split model has at most so many pieces. All of them are kept open; the most in use are about a hundred.
pub const PIECES_LIMIT: u32 = 999;

const NUMBER_KEY: &str = "split.no";
const COUNT_KEY: &str = "split.count";
const TENSORS_KEY: &str = "split.tensors.count";

/// What to do about a piece that is not what its name says.
const FETCH_ALL: &str = "fetch all pieces again, from one place and with the names that they have there";

/// What a piece says of its place in a split model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// From 0.
    number: u32,
    /// Number of pieces, at least 2.
    count: u32,
    /// Number of tensors in all pieces.
    tensors: u64,
}

impl Place {
    /// The place of `file`, or `None` where it is a whole model.
    fn of(file: &GgufFile) -> Result<Option<Place>> {
        Place::read(file).map_err(Error::or_from_another_source)
    }

    fn read(file: &GgufFile) -> Result<Option<Place>> {
        let metadata = file.metadata();
        let (number, count) = (metadata.u32(NUMBER_KEY)?, metadata.u32(COUNT_KEY)?);
        if number.is_none() && count.is_none() {
            return Ok(None);
        }
        let missing =
            |key: &str| Error::key(file.label(), key, "a number, as pieces of a split model have", "no such key");
        let (number, count) = (number.ok_or_else(|| missing(NUMBER_KEY))?, count.ok_or_else(|| missing(COUNT_KEY))?);
        if !(1..=PIECES_LIMIT).contains(&count) {
            let expected = format!("1 to {PIECES_LIMIT} pieces");
            return Err(Error::key(file.label(), COUNT_KEY, expected, count.to_string()));
        }
        if number >= count {
            let expected = format!("a number below {count}, the number of pieces");
            return Err(Error::key(file.label(), NUMBER_KEY, expected, number.to_string()));
        }
        if count == 1 {
            return Ok(None);
        }
        let tensors = metadata.u64(TENSORS_KEY)?.ok_or_else(|| missing(TENSORS_KEY))?;
        Ok(Some(Place { number, count, tensors }))
    }

    /// "piece 2 of 3 of a split model".
    fn describe(&self) -> String {
        format!("piece {} of {} of a split model", self.number + 1, self.count)
    }

    /// How the file's name ends.
    fn suffix(&self) -> String {
        format!("-{:05}-of-{:05}.gguf", self.number + 1, self.count)
    }
}

/// Opens the model of which the file at `path` is the whole or any piece; `open_one` opens one file.
///
/// # Errors
/// Those of `open_one`, and where a piece is missing, in the wrong place, or not of this model.
pub(super) fn open_all(path: &Path, open_one: fn(&Path) -> Result<GgufFile>) -> Result<GgufFile> {
    let given = open_one(path)?;
    let Some(place) = Place::of(&given)? else { return Ok(given) };
    let prefix = prefix(path, &given, place)?;
    let mut given = Some(given);
    let mut open_piece = |number: u32| -> Result<GgufFile> {
        match given.take_if(|_| number == place.number) {
            Some(given) => Ok(given),
            None => open_sibling(&prefix, Place { number, ..place }, open_one),
        }
    };
    let mut whole = open_piece(0)?;
    for number in 1..place.count {
        whole.add_piece(open_piece(number)?)?;
    }
    if whole.tensors().len() as u64 != place.tensors {
        let found = format!("{} in the {} pieces", whole.tensors().len(), place.count);
        let expected = format!("{} tensors", place.tensors);
        return Err(Error::key(whole.label(), TENSORS_KEY, expected, found).with_remedy(FETCH_ALL));
    }
    Ok(whole)
}

/// Refuses a piece of a split model where only one file is at hand.
pub(super) fn check_is_whole(file: &GgufFile) -> Result<()> {
    match Place::of(file)? {
        None => Ok(()),
        Some(place) => {
            let found = format!("this is {}, and the others are not at hand", place.describe());
            Err(Error::wrong_file(file.label(), found, "open it by its path, beside the others"))
        }
    }
}

/// The path up to where the numbers in the name of a piece begin.
fn prefix(path: &Path, file: &GgufFile, place: Place) -> Result<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let suffix = place.suffix();
    match name.strip_suffix(&suffix) {
        Some(prefix) => Ok(path.with_file_name(prefix)),
        None => {
            let found = format!("this is {}, but its name does not end in `{suffix}`", place.describe());
            let remedy = "give all pieces the names that they were published with, in one folder";
            Err(Error::wrong_file(file.label(), found, remedy))
        }
    }
}

/// Opens another piece, which must be at the place that its name says.
fn open_sibling(prefix: &Path, place: Place, open_one: fn(&Path) -> Result<GgufFile>) -> Result<GgufFile> {
    let mut path = prefix.as_os_str().to_owned();
    path.push(place.suffix());
    let path = PathBuf::from(path);
    let file = open_one(&path).map_err(|error| match error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let found = format!("this is {}, and it is missing", place.describe());
            Error::wrong_file(file_label(&path), found, "fetch it into the folder where the others are")
        }
        other => other,
    })?;
    let found = match Place::of(&file)? {
        Some(found) if found == place => return Ok(file),
        None => "a whole model".to_owned(),
        Some(found) if (found.count, found.tensors) == (place.count, place.tensors) => found.describe(),
        Some(found) => format!("{} that has {} tensors in all", found.describe(), found.tensors),
    };
    let found = format!(
        "by its name this is {} that has {} tensors in all, by its metadata {found}",
        place.describe(),
        place.tensors
    );
    Err(Error::wrong_file(file.label(), found, FETCH_ALL))
}
