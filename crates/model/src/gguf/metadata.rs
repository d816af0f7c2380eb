//! The key-value part of a GGUF file, with readers that know the file's name for their errors.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::value::{Array, StringArray, Value};
use crate::error::{Error, Result, quoted};

/// All metadata of a file, in the file's order.
///
/// The readers (`u32`, `string`, ...) return `Ok(None)` where the key is missing, and an error that names file
/// and key where the value has a type that does not fit. [`Metadata::required`] turns a missing key into an
/// error.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    file: Arc<str>,
    entries: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl Metadata {
    /// Without entries; `file` is the name that errors show.
    pub fn new(file: &str) -> Metadata {
        Metadata { file: file.into(), ..Metadata::default() }
    }

    /// Name of the file, as errors show it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Adds an entry at the end.
    ///
    /// # Errors
    /// Where the key is there already: a file with duplicate keys means different things to different readers.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Result<()> {
        let key = key.into();
        if self.index.contains_key(&key) {
            return Err(Error::key(&*self.file, &key, "each key once", "a duplicate key")
                .with_remedy("the file was made wrongly, get it from another source"));
        }
        self.index.insert(key.clone(), self.entries.len());
        self.entries.push((key, value.into()));
        Ok(())
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Value of `key`, or `None` where it is missing.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|&index| &self.entries[index].1)
    }

    /// Keys and values in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + '_ {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// `value`, or the error that `key` is missing: `metadata.required(key, metadata.u32(key)?)`.
    ///
    /// # Errors
    /// Where `value` is `None`.
    pub fn required<T>(&self, key: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| {
            Error::key(&*self.file, key, "a value", "no such key").with_remedy(
                "the file lacks what its architecture needs, convert it again or get it from another source",
            )
        })
    }

    /// The string at `key`.
    ///
    /// # Errors
    /// Where the value has another type.
    pub fn string(&self, key: &str) -> Result<Option<&str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(string)) => Ok(Some(string)),
            Some(other) => Err(self.mismatch(key, "a string", other)),
        }
    }

    /// The truth value at `key`.
    ///
    /// # Errors
    /// Where the value has another type.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.mismatch(key, "a bool", other)),
        }
    }

    /// The number at `key`, of `f32` or `f64` type.
    ///
    /// # Errors
    /// Where the value has another type, or is an `f64` beyond the range of `f32`.
    pub fn f32(&self, key: &str) -> Result<Option<f32>> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::F32(value)) => Ok(Some(value)),
            Some(&Value::F64(value)) if (value as f32).is_finite() || !value.is_finite() => Ok(Some(value as f32)),
            Some(other) => Err(self.mismatch(key, "an f32", other)),
        }
    }

    /// The number at `key`, of any integer type, where it fits a `u32`.
    ///
    /// # Errors
    /// Where the value has another type or does not fit.
    pub fn u32(&self, key: &str) -> Result<Option<u32>> {
        self.integer(key, "a whole number from 0 to 4294967295")
    }

    /// The number at `key`, of any integer type, where it fits a `u64`.
    ///
    /// # Errors
    /// Where the value has another type or is negative.
    pub fn u64(&self, key: &str) -> Result<Option<u64>> {
        self.integer(key, "a whole number that is not negative")
    }

    /// The strings at `key`.
    ///
    /// # Errors
    /// Where the value has another type.
    pub fn strings(&self, key: &str) -> Result<Option<&StringArray>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::String(strings))) => Ok(Some(strings)),
            Some(other) => Err(self.mismatch(key, "an array of string", other)),
        }
    }

    /// The numbers at `key`, an array of `f32` or `f64`.
    ///
    /// # Errors
    /// Where the value has another type.
    pub fn f32s(&self, key: &str) -> Result<Option<Cow<'_, [f32]>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::F32(items))) => Ok(Some(Cow::Borrowed(items))),
            Some(Value::Array(Array::F64(items))) => Ok(Some(items.iter().map(|&x| x as f32).collect())),
            Some(other) => Err(self.mismatch(key, "an array of f32", other)),
        }
    }

    /// The numbers at `key`, an array of any integer type whose items fit an `i32`.
    ///
    /// # Errors
    /// Where the value has another type or an item does not fit.
    pub fn i32s(&self, key: &str) -> Result<Option<Cow<'_, [i32]>>> {
        match self.get(key) {
            Some(Value::Array(Array::I32(items))) => Ok(Some(Cow::Borrowed(items))),
            _ => Ok(self.integers(key, "an array of whole numbers that fit an i32")?.map(Cow::Owned)),
        }
    }

    /// The numbers at `key`, an array of any integer type whose items fit a `u32`.
    ///
    /// # Errors
    /// Where the value has another type or an item does not fit.
    pub fn u32s(&self, key: &str) -> Result<Option<Cow<'_, [u32]>>> {
        match self.get(key) {
            Some(Value::Array(Array::U32(items))) => Ok(Some(Cow::Borrowed(items))),
            _ => Ok(self.integers(key, "an array of whole numbers that fit a u32")?.map(Cow::Owned)),
        }
    }

    /// The truth values at `key`.
    ///
    /// # Errors
    /// Where the value has another type.
    pub fn bools(&self, key: &str) -> Result<Option<&[bool]>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Bool(items))) => Ok(Some(items)),
            Some(other) => Err(self.mismatch(key, "an array of bool", other)),
        }
    }

    fn integer<T: TryFrom<i128>>(&self, key: &str, expected: &'static str) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.as_integer().map(T::try_from) {
            Some(Ok(number)) => Ok(Some(number)),
            _ => Err(self.mismatch(key, expected, value)),
        }
    }

    fn integers<T: TryFrom<i128>>(&self, key: &str, expected: &'static str) -> Result<Option<Vec<T>>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let Value::Array(array) = value else {
            return Err(self.mismatch(key, expected, value));
        };
        let Some(items) = array.integers() else {
            return Err(self.mismatch(key, expected, value));
        };
        let mut numbers = Vec::with_capacity(items.len());
        for (index, item) in items.enumerate() {
            let number = T::try_from(item)
                .map_err(|_| Error::key(&*self.file, key, expected, format!("{item} at index {index}")))?;
            numbers.push(number);
        }
        Ok(Some(numbers))
    }

    fn mismatch(&self, key: &str, expected: &str, found: &Value) -> Error {
        let found = match found {
            Value::String(string) => format!("string \"{}\"", quoted(string)),
            Value::Bool(value) => format!("bool {value}"),
            Value::F32(value) => format!("f32 {value}"),
            Value::F64(value) => format!("f64 {value}"),
            Value::Array(array) => format!("{} with {} items", array.type_name(), array.len()),
            other => match other.as_integer() {
                Some(number) => format!("{} {number}", other.type_name()),
                None => other.type_name().to_owned(),
            },
        };
        Error::key(&*self.file, key, expected, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Metadata {
        let mut metadata = Metadata::new("m.gguf");
        metadata.insert("text", "hello").unwrap();
        metadata.insert("small", 7u8).unwrap();
        metadata.insert("negative", -1i32).unwrap();
        metadata.insert("big", u64::MAX).unwrap();
        metadata.insert("half", 0.5f64).unwrap();
        metadata.insert("flag", true).unwrap();
        metadata.insert("huge", 1e300f64).unwrap();
        metadata.insert("numbers", Array::I64(vec![1, -2])).unwrap();
        metadata
    }

    #[test]
    fn readers_take_every_type_that_fits() {
        let metadata = sample();
        assert_eq!(metadata.u32("small").unwrap(), Some(7));
        assert_eq!(metadata.u64("big").unwrap(), Some(u64::MAX));
        assert_eq!(metadata.f32("half").unwrap(), Some(0.5));
        assert_eq!(metadata.i32s("numbers").unwrap().as_deref(), Some(&[1, -2][..]));
        assert_eq!(metadata.bool("flag").unwrap(), Some(true));
        assert_eq!(metadata.string("text").unwrap(), Some("hello"));
        assert_eq!(metadata.u32("missing").unwrap(), None);
        assert_eq!(metadata.strings("missing").unwrap(), None);
        let keys: Vec<&str> = metadata.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["text", "small", "negative", "big", "half", "flag", "huge", "numbers"]);
    }

    #[test]
    fn errors_name_file_key_expected_and_found() {
        let metadata = sample();
        let message = |error: Error| error.to_string();
        assert_eq!(
            message(metadata.u32("negative").unwrap_err()),
            "m.gguf: metadata key `negative`: expected a whole number from 0 to 4294967295, found i32 -1"
        );
        assert_eq!(
            message(metadata.u32("big").unwrap_err()),
            "m.gguf: metadata key `big`: expected a whole number from 0 to 4294967295, found u64 18446744073709551615"
        );
        assert_eq!(
            message(metadata.string("numbers").unwrap_err()),
            "m.gguf: metadata key `numbers`: expected a string, found array of i64 with 2 items"
        );
        assert_eq!(
            message(metadata.u32s("numbers").unwrap_err()),
            "m.gguf: metadata key `numbers`: expected an array of whole numbers that fit a u32, found -2 at index 1"
        );
        assert_eq!(
            message(metadata.bool("text").unwrap_err()),
            "m.gguf: metadata key `text`: expected a bool, found string \"hello\""
        );
        assert!(metadata.f32("huge").is_err());
        assert!(message(metadata.required("gone", metadata.u32("gone").unwrap()).unwrap_err()).contains("`gone`"));
    }

    #[test]
    fn duplicate_keys_are_refused_by_that_word() {
        let mut metadata = sample();
        let error = metadata.insert("text", 1u32).unwrap_err().to_string();
        assert!(error.contains("duplicate") && error.contains("`text`"), "{error}");
        assert_eq!(metadata.len(), 8);
    }
}
