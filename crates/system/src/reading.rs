//! A value that was read, or why it was not.

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::source::Unreadable;

/// A value, or the reason in one line why it could not be read. Nothing is ever put in its place.
///
/// In JSON it is the value itself, or `{"not_readable": "reason"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// What was read.
    Known(T),
    /// Why it was not.
    NotReadable(String),
}

impl<T> Reading<T> {
    /// The value, where it is known.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::NotReadable(_) => None,
        }
    }

    /// Why it is not known, where it is not.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::NotReadable(reason) => Some(reason),
        }
    }

    /// Whether it is known.
    pub fn is_known(&self) -> bool {
        self.get().is_some()
    }

    /// What is made of the value.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Known(value) => Reading::Known(of(value)),
            Self::NotReadable(reason) => Reading::NotReadable(reason),
        }
    }

    /// The same by reference.
    pub fn as_ref(&self) -> Reading<&T> {
        match self {
            Self::Known(value) => Reading::Known(value),
            Self::NotReadable(reason) => Reading::NotReadable(reason.clone()),
        }
    }

    /// What is made of both, where both are known; else the reason of the first that is not.
    pub fn zip_with<U, V>(&self, other: &Reading<U>, of: impl FnOnce(&T, &U) -> V) -> Reading<V> {
        match (self, other) {
            (Self::Known(one), Reading::Known(two)) => Reading::Known(of(one, two)),
            (Self::NotReadable(reason), _) | (_, Reading::NotReadable(reason)) => Reading::NotReadable(reason.clone()),
        }
    }
}

/// What an older report lacks was not recorded.
impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self::NotReadable("not recorded".to_owned())
    }
}

impl<T> From<Result<T, Unreadable>> for Reading<T> {
    fn from(result: Result<T, Unreadable>) -> Self {
        result.map_or_else(|error| Self::NotReadable(error.to_string()), Self::Known)
    }
}

impl<T: Serialize> Serialize for Reading<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(value) => value.serialize(serializer),
            Self::NotReadable(reason) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("not_readable", reason)?;
                map.end()
            }
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Reading<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Not {
            not_readable: String,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either<T> {
            Not(Not),
            Known(T),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Not(Not { not_readable }) => Self::NotReadable(not_readable),
            Either::Known(value) => Self::Known(value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_value_or_the_reason() {
        fn there_and_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
            reading: Reading<T>,
            json: &str,
        ) {
            assert_eq!(serde_json::to_string(&reading).unwrap(), json);
            assert_eq!(serde_json::from_str::<Reading<T>>(json).unwrap(), reading);
        }
        there_and_back(Reading::Known(18_446_744_073_709_551_615u64), "18446744073709551615");
        there_and_back(Reading::Known("x".to_owned()), "\"x\"");
        there_and_back(Reading::Known(vec![1usize, 2]), "[1,2]");
        there_and_back(Reading::Known(None::<f64>), "null");
        there_and_back(Reading::Known(Some(0.5)), "0.5");
        there_and_back(Reading::<u64>::NotReadable("no such file".to_owned()), r#"{"not_readable":"no such file"}"#);
        there_and_back(Reading::<Vec<u64>>::NotReadable(String::new()), r#"{"not_readable":""}"#);
        assert!(serde_json::from_str::<Reading<u64>>(r#"{"not_readable":"x","more":1}"#).is_err());
        assert!(serde_json::from_str::<Reading<u64>>("\"x\"").is_err());
    }

    #[test]
    fn two_readings_are_known_together_or_not() {
        let (one, two) = (Reading::Known(1), Reading::Known(2));
        let no = |why: &str| Reading::<i32>::NotReadable(why.to_owned());
        assert_eq!(one.zip_with(&two, |a, b| a + b), Reading::Known(3));
        assert_eq!(one.zip_with(&no("b"), |a, b| a + b), no("b"));
        assert_eq!(no("a").zip_with(&no("b"), |a, b| a + b), no("a"));
    }
}
