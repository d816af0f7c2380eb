//! Metadata values as GGUF files write them.

/// One value of a GGUF file's metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Type 0.
    U8(u8),
    /// Type 1.
    I8(i8),
    /// Type 2.
    U16(u16),
    /// Type 3.
    I16(i16),
    /// Type 4.
    U32(u32),
    /// Type 5.
    I32(i32),
    /// Type 6.
    F32(f32),
    /// Type 7: one byte, 0 or 1.
    Bool(bool),
    /// Type 8.
    String(String),
    /// Type 9.
    Array(Array),
    /// Type 10.
    U64(u64),
    /// Type 11.
    I64(i64),
    /// Type 12.
    F64(f64),
}

/// An array of a GGUF file's metadata: all items have one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Items of type 0.
    U8(Vec<u8>),
    /// Items of type 1.
    I8(Vec<i8>),
    /// Items of type 2.
    U16(Vec<u16>),
    /// Items of type 3.
    I16(Vec<i16>),
    /// Items of type 4.
    U32(Vec<u32>),
    /// Items of type 5.
    I32(Vec<i32>),
    /// Items of type 6.
    F32(Vec<f32>),
    /// Items of type 7.
    Bool(Vec<bool>),
    /// Items of type 8.
    String(StringArray),
    /// Items of type 9: arrays, which may differ in type and length.
    Nested(Vec<Array>),
    /// Items of type 10.
    U64(Vec<u64>),
    /// Items of type 11.
    I64(Vec<i64>),
    /// Items of type 12.
    F64(Vec<f64>),
}

/// Many strings in one buffer, so that a vocabulary of 128 thousand tokens takes two allocations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StringArray {
    /// All strings, one after the other.
    text: String,
    /// `ends[i]` is where string `i` ends in `text`; it begins where the one before ends.
    ends: Vec<usize>,
}

impl Value {
    /// Name of the value's type, as messages show it: `u32`, `string`, `array of f32`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::U8(_) => "u8",
            Value::I8(_) => "i8",
            Value::U16(_) => "u16",
            Value::I16(_) => "i16",
            Value::U32(_) => "u32",
            Value::I32(_) => "i32",
            Value::F32(_) => "f32",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(array) => array.type_name(),
            Value::U64(_) => "u64",
            Value::I64(_) => "i64",
            Value::F64(_) => "f64",
        }
    }

    /// The value as a whole number, whatever integer type it has; `None` for other types.
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(x) => x.into(),
            Value::I8(x) => x.into(),
            Value::U16(x) => x.into(),
            Value::I16(x) => x.into(),
            Value::U32(x) => x.into(),
            Value::I32(x) => x.into(),
            Value::U64(x) => x.into(),
            Value::I64(x) => x.into(),
            _ => return None,
        })
    }
}

impl Array {
    /// Name of the array's type, as messages show it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Array::U8(_) => "array of u8",
            Array::I8(_) => "array of i8",
            Array::U16(_) => "array of u16",
            Array::I16(_) => "array of i16",
            Array::U32(_) => "array of u32",
            Array::I32(_) => "array of i32",
            Array::F32(_) => "array of f32",
            Array::Bool(_) => "array of bool",
            Array::String(_) => "array of string",
            Array::Nested(_) => "array of arrays",
            Array::U64(_) => "array of u64",
            Array::I64(_) => "array of i64",
            Array::F64(_) => "array of f64",
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(items) => items.len(),
            Array::I8(items) => items.len(),
            Array::U16(items) => items.len(),
            Array::I16(items) => items.len(),
            Array::U32(items) => items.len(),
            Array::I32(items) => items.len(),
            Array::F32(items) => items.len(),
            Array::Bool(items) => items.len(),
            Array::String(items) => items.len(),
            Array::Nested(items) => items.len(),
            Array::U64(items) => items.len(),
            Array::I64(items) => items.len(),
            Array::F64(items) => items.len(),
        }
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items as whole numbers, whatever integer type they have; `None` for other types.
    pub fn integers(&self) -> Option<Box<dyn ExactSizeIterator<Item = i128> + '_>> {
        Some(match self {
            Array::U8(items) => Box::new(items.iter().map(|&x| x.into())),
            Array::I8(items) => Box::new(items.iter().map(|&x| x.into())),
            Array::U16(items) => Box::new(items.iter().map(|&x| x.into())),
            Array::I16(items) => Box::new(items.iter().map(|&x| x.into())),
            Array::U32(items) => Box::new(items.iter().map(|&x| x.into())),
            Array::I32(items) => Box::new(items.iter().map(|&x| x.into())),
            Array::U64(items) => Box::new(items.iter().map(|&x| x.into())),
            Array::I64(items) => Box::new(items.iter().map(|&x| x.into())),
            _ => return None,
        })
    }
}

impl StringArray {
    /// An array without strings.
    pub fn new() -> StringArray {
        StringArray::default()
    }

    /// From the buffer and where each string ends in it: ascending, the last one at the buffer's end.
    ///
    /// # Errors
    /// The index of the first string that ends elsewhere or inside a character.
    pub(super) fn from_parts(text: String, ends: Vec<usize>) -> std::result::Result<StringArray, usize> {
        let mut start = 0;
        for (index, &end) in ends.iter().enumerate() {
            if end < start || !text.is_char_boundary(end) {
                return Err(index);
            }
            start = end;
        }
        if start == text.len() { Ok(StringArray { text, ends }) } else { Err(ends.len()) }
    }

    /// Adds a string at the end.
    pub fn push(&mut self, string: &str) {
        self.text.push_str(string);
        self.ends.push(self.text.len());
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `index`, or `None` where there are not as many.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.text[start..end])
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator + '_ {
        (0..self.len()).map(|index| {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            &self.text[start..self.ends[index]]
        })
    }

    /// Bytes of all strings together.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }
}

impl<S: AsRef<str>> FromIterator<S> for StringArray {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> StringArray {
        let mut array = StringArray::new();
        for string in strings {
            array.push(string.as_ref());
        }
        array
    }
}

/// Conversions for those who write metadata: a value from what it holds.
macro_rules! value_from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value::$variant(value.into())
            }
        }
    )*};
}

value_from!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, f32 => F32, bool => Bool,
    &str => String, String => String, Array => Array, u64 => U64, i64 => I64, f64 => F64);

impl From<StringArray> for Value {
    fn from(strings: StringArray) -> Value {
        Value::Array(Array::String(strings))
    }
}

impl From<&[&str]> for Value {
    fn from(strings: &[&str]) -> Value {
        Value::Array(Array::String(strings.iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_arrays_keep_strings_apart() {
        let array: StringArray = ["", "ab", "", "字"].iter().collect();
        assert_eq!(array.len(), 4);
        assert_eq!(array.iter().collect::<Vec<_>>(), ["", "ab", "", "字"]);
        assert_eq!(array.iter().next_back(), Some("字"));
        assert_eq!((array.get(1), array.get(3), array.get(4)), (Some("ab"), Some("字"), None));
        assert_eq!(array.text_bytes(), 5);
        assert!(StringArray::new().get(0).is_none());
    }

    #[test]
    fn string_arrays_refuse_ends_that_do_not_fit() {
        let text = || "a字".to_owned();
        assert!(StringArray::from_parts(text(), vec![1, 4]).is_ok());
        assert_eq!(StringArray::from_parts(text(), vec![2, 4]), Err(0), "inside a character");
        assert_eq!(StringArray::from_parts(text(), vec![1]), Err(1), "text left over");
        assert_eq!(StringArray::from_parts(text(), vec![4, 1]), Err(1), "not ascending");
        assert_eq!(StringArray::from_parts(text(), vec![1, 5]), Err(1), "beyond the end");
        assert_eq!(StringArray::from_parts(String::new(), vec![]), Ok(StringArray::new()));
    }
}
