//! GGUF bytes put together by hand, so that they can be wrong in ways that the writer refuses.

use duan_model::gguf::GgufFile;

/// Bytes of a file so far.
#[derive(Clone)]
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Raw {
    /// Magic, version, number of tensors, number of metadata entries.
    pub(crate) fn header(version: u32, tensors: u64, entries: u64) -> Raw {
        Raw(b"GGUF".to_vec()).u32(version).u64(tensors).u64(entries)
    }

    pub(crate) fn u32(self, value: u32) -> Raw {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(self, value: u64) -> Raw {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Raw {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn string(self, string: &str) -> Raw {
        self.u64(string.len() as u64).bytes(string.as_bytes())
    }

    /// A key and the type of its value.
    pub(crate) fn key(self, key: &str, type_id: u32) -> Raw {
        self.string(key).u32(type_id)
    }

    /// A tensor entry.
    pub(crate) fn tensor(self, name: &str, dims: &[u64], type_id: u32, offset: u64) -> Raw {
        let raw = self.string(name).u32(dims.len() as u32);
        dims.iter().fold(raw, |raw, &dim| raw.u64(dim)).u32(type_id).u64(offset)
    }

    /// Zeros up to the next multiple of 32, then `count` more.
    pub(crate) fn data(mut self, count: usize) -> Raw {
        let start = self.0.len().next_multiple_of(32);
        self.0.resize(start + count, 0);
        self
    }
}

/// The one-line reason for which a file is refused.
pub(crate) fn refused(bytes: &[u8]) -> String {
    match GgufFile::from_bytes(bytes.to_vec(), "m.gguf") {
        Ok(_) => panic!("a wrong file of {} bytes was accepted", bytes.len()),
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("m.gguf: "), "no file name: {message}");
            assert!(!message.contains('\n') && message.len() < 400, "not one line: {message}");
            message
        }
    }
}

/// Checks that a file is refused for a reason in which all of `parts` stand.
pub(crate) fn refused_with(bytes: &[u8], parts: &[&str]) -> String {
    let message = refused(bytes);
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
    message
}
