//! A file out of a wheel. A wheel is a zip archive (PEP 427); only its list of files and one file's bytes are used,
//! and no name from inside ever becomes a path without being checked.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::{Error, ErrorKind, Result, bytes_text};
use crate::files::{CHUNK_BYTES, Throttle, open_own};
use crate::name::is_plain_relative_path;
use crate::progress::{Progress, Sink};

/// Deflate cannot pack better than 1032 to 1; what claims more is a bomb.
const DEFLATE_LIMIT: u64 = 1032;

/// A wheel with one file in it picked.
pub(crate) struct Picked {
    archive: ZipArchive<BufReader<File>>,
    index: usize,
    /// What the wheel is called, for messages.
    wheel: String,
    /// The whole name inside.
    pub(crate) name: String,
    /// Its length as the archive states it; never more is written.
    pub(crate) bytes: u64,
}

/// Opens the wheel at `path`, called `wheel`, and finds `file` in it: by its whole name, by its last parts, or without
/// a name the only GGUF file.
pub(crate) fn pick(path: &Path, wheel: &str, file: Option<&str>) -> Result<Picked> {
    let opened = open_own(File::options().read(true), path)?;
    let mut archive = ZipArchive::new(BufReader::new(opened)).map_err(|error| zip_error(wheel, error))?;
    if archive.has_duplicate_names() {
        return Err(not_a_wheel(wheel, "it holds two files of the same name"));
    }
    let mut names = Vec::with_capacity(archive.len());
    for name in archive.file_names() {
        names.push(name.map_err(|error| zip_error(wheel, error))?.into_owned());
    }
    let name = choose(&names, wheel, file)?.to_string();
    if !is_plain_relative_path(&name) {
        return Err(not_a_wheel(wheel, &format!("the file {name} would lie outside its folder")));
    }
    let index = archive
        .index_for_name(&name)
        .ok_or_else(|| not_a_wheel(wheel, &format!("the file {name} is listed but not there")))?;
    let entry = archive.by_index(index).map_err(|error| zip_error(wheel, error))?;
    let (bytes, packed_bytes) = (entry.size(), entry.compressed_size());
    if entry.is_symlink() || entry.is_dir() {
        return Err(not_a_wheel(wheel, &format!("{name} is not a file in it")));
    }
    if bytes > packed_bytes.saturating_add(1).saturating_mul(DEFLATE_LIMIT) {
        return Err(not_a_wheel(
            wheel,
            &format!("{name} claims to hold {} in {}", bytes_text(bytes), bytes_text(packed_bytes)),
        ));
    }
    drop(entry);
    Ok(Picked { archive, index, wheel: wheel.to_string(), name, bytes })
}

fn choose<'a>(names: &'a [String], wheel: &str, file: Option<&str>) -> Result<&'a str> {
    let models = || names.iter().filter(|name| name.to_ascii_lowercase().ends_with(".gguf"));
    let found: Vec<&String> = match file {
        Some(file) => match names.iter().find(|name| *name == file) {
            Some(name) => vec![name],
            None => names.iter().filter(|name| name.ends_with(&format!("/{file}"))).collect(),
        },
        None => models().collect(),
    };
    if let [only] = found[..] {
        return Ok(only);
    }
    let listed: Vec<&str> = models().take(20).map(String::as_str).collect();
    let there = if listed.is_empty() {
        "there is no GGUF file in it".to_string()
    } else {
        format!("the GGUF files in it: {}", listed.join(", "))
    };
    let problem = match (file, found.len()) {
        (Some(file), 0) => format!("{wheel} holds no file {file}"),
        (Some(file), _) => format!("{wheel} holds several files {file}, name the folder too"),
        (None, 0) => format!("{wheel} holds no model"),
        (None, _) => format!("{wheel} holds several models, name one as pypi:package/file"),
    };
    Err(Error::new(ErrorKind::NotInWheel, format!("{problem}; {there}")))
}

impl Picked {
    /// Writes the file to `out` at its position, hashing on the way; the archive's checksum is compared at the end.
    pub(crate) fn extract(
        mut self,
        out: &mut File,
        out_path: &Path,
        hasher: &mut Sha256,
        progress: Sink<'_>,
    ) -> Result<()> {
        let wheel = &self.wheel;
        let entry = self.archive.by_index(self.index).map_err(|error| zip_error(wheel, error))?;
        // One byte more than stated shows a file that is longer, without ever writing it.
        let mut reader = entry.take(self.bytes.saturating_add(1));
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut throttle = Throttle::new();
        let mut done: u64 = 0;
        let mut report = |done_bytes| {
            progress(Progress::Extracting { file: self.name.clone(), done_bytes, total_bytes: self.bytes })
        };
        report(0);
        loop {
            let got = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) => return Err(not_a_wheel(wheel, &format!("{} cannot be unpacked: {error}", self.name))),
            };
            done += got as u64;
            if done > self.bytes {
                return Err(not_a_wheel(
                    wheel,
                    &format!("{} is longer than the {} bytes stated", self.name, self.bytes),
                ));
            }
            out.write_all(&buffer[..got]).map_err(|error| Error::io("write", out_path, &error))?;
            hasher.update(&buffer[..got]);
            if throttle.is_due() {
                report(done);
            }
        }
        report(done);
        if done < self.bytes {
            return Err(not_a_wheel(wheel, &format!("{} ends after {done} of {} bytes", self.name, self.bytes)));
        }
        Ok(())
    }
}

fn not_a_wheel(wheel: &str, reason: &str) -> Error {
    Error::new(
        ErrorKind::NotAWheel,
        format!("{wheel} is not a wheel that can be used: {reason}; name another version or another file"),
    )
}

fn zip_error(wheel: &str, error: ZipError) -> Error {
    not_a_wheel(wheel, &error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Seek, SeekFrom};

    use zip::CompressionMethod;
    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    fn archive(files: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn picked(bytes: &[u8], file: Option<&str>) -> Result<Picked> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(bytes).unwrap();
        pick(on_disk.path(), "w.whl", file)
    }

    fn unpacked(bytes: &[u8], file: Option<&str>) -> Result<Vec<u8>> {
        let mut out = tempfile::tempfile().unwrap();
        let mut hasher = Sha256::new();
        picked(bytes, file)?.extract(&mut out, Path::new("out"), &mut hasher, &mut |_| {})?;
        let mut read = Vec::new();
        out.seek(SeekFrom::Start(0)).unwrap();
        out.read_to_end(&mut read).unwrap();
        assert_eq!(hasher.finalize(), Sha256::digest(&read));
        Ok(read)
    }

    /// Bytes that do not pack (SplitMix64).
    fn noise(length: u64) -> Vec<u8> {
        let mixed = |i: u64| {
            let z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z >> 56) as u8
        };
        (0..length).map(mixed).collect()
    }

    #[test]
    fn files_are_found_by_whole_name_by_last_parts_or_as_the_only_model() {
        let content = noise(300_000);
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let wheel = archive(&[("p/a/M.gguf", &content), ("p/a/x.bin", b"x"), ("p/b/x.bin", b"y")], method);
            assert_eq!(unpacked(&wheel, None).unwrap(), content);
            assert_eq!(unpacked(&wheel, Some("M.gguf")).unwrap(), content);
            assert_eq!(unpacked(&wheel, Some("a/x.bin")).unwrap(), b"x");
            assert_eq!(unpacked(&wheel, Some("p/b/x.bin")).unwrap(), b"y");
            let error = unpacked(&wheel, Some("x.bin")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotInWheel);
            let error = unpacked(&wheel, Some("other.gguf")).unwrap_err();
            assert!(error.to_string().ends_with("the GGUF files in it: p/a/M.gguf"), "{error}");
        }
        let two = archive(&[("a.gguf", b"1"), ("b.GGUF", b"2")], CompressionMethod::Stored);
        let error = unpacked(&two, None).unwrap_err();
        assert!(
            error.to_string().contains("several models") && error.to_string().ends_with("a.gguf, b.GGUF"),
            "{error}"
        );
        let none = archive(&[("a.txt", b"1")], CompressionMethod::Stored);
        assert!(unpacked(&none, None).unwrap_err().to_string().contains("no GGUF file in it"));
    }

    #[test]
    fn archives_cut_or_changed_anywhere_never_give_other_bytes() {
        let content = noise(2000);
        let wheel = archive(&[("m.gguf", &content)], CompressionMethod::Deflated);
        for cut in 0..wheel.len() {
            if let Ok(read) = unpacked(&wheel[..cut], None) {
                assert_eq!(read, content, "cut at {cut}");
            }
        }
        let mut refused = 0;
        for at in 0..wheel.len() {
            let mut changed = wheel.clone();
            changed[at] ^= 0x55;
            match unpacked(&changed, Some("m.gguf")) {
                Ok(read) => assert_eq!(read, content, "changed at {at}"),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::NotAWheel | ErrorKind::NotInWheel), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused >= content.len(), "every byte of the content is guarded, {refused} refused");
        assert_eq!(unpacked(b"not a zip", None).unwrap_err().kind(), ErrorKind::NotAWheel);
        assert_eq!(unpacked(b"", None).unwrap_err().kind(), ErrorKind::NotAWheel);
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for name in ["../m.gguf", "/m.gguf", "a/../../m.gguf", "c:/m.gguf", "a\\m.gguf"] {
            // The writer may tidy names up, so the tricky one is put in afterwards, at the same length.
            let plain = "x".repeat(name.len());
            let mut wheel = archive(&[(&plain, b"content")], CompressionMethod::Stored);
            let places: Vec<usize> =
                (0..wheel.len() - name.len()).filter(|at| wheel[*at..].starts_with(plain.as_bytes())).collect();
            assert_eq!(places.len(), 2);
            for at in places {
                wheel[at..at + name.len()].copy_from_slice(name.as_bytes());
            }
            let error = unpacked(&wheel, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotAWheel, "{name}: {error}");
        }
    }

    #[test]
    fn a_bomb_is_refused_before_anything_is_written() {
        let wheel = archive(&[("m.gguf", &[0; 4096])], CompressionMethod::Deflated);
        // The stated length in the central directory, 24 bytes after its signature.
        let at = wheel.windows(4).position(|four| four == b"PK\x01\x02").unwrap() + 24;
        let mut changed = wheel.clone();
        changed[at..at + 4].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
        let error = picked(&changed, None).err().unwrap();
        assert!(error.to_string().contains("claims to hold 2.15 GB"), "{error}");
        changed[at..at + 4].copy_from_slice(&100_u32.to_le_bytes());
        assert_eq!(unpacked(&changed, None).unwrap_err().kind(), ErrorKind::NotAWheel);
        assert_eq!(unpacked(&wheel, None).unwrap(), [0; 4096]);
    }
}
