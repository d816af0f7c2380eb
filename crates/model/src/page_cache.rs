//! Whether files are in the system's page cache: what decides how long a model takes to load.

use std::fs::File;
use std::io;

/// Which part of a file is in the page cache, from 0 to 1.
///
/// # Errors
/// Where the system does not tell: it is no Linux, or the file belongs to somebody else and may not be written to. Linux would say
/// then that all is there, so that nobody learns what others read.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn share_in_page_cache(file: &File) -> io::Result<f64> {
    if !is_own(file)? && !is_writable(file) {
        let what = "the system tells only who owns the file or may write to it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    crate::map::Map::new(file.try_clone()?)?.resident_share()
}

/// Whether the file belongs to the user that this process acts as.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_own(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    // The second of four: real, effective, saved and that for files.
    let status = std::fs::read_to_string("/proc/self/status")?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let effective = ids.and_then(|ids| ids.split_whitespace().nth(1)?.parse::<u32>().ok());
    Ok(effective == Some(file.metadata()?.uid()))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_writable(file: &File) -> bool {
    use std::os::fd::AsRawFd as _;

    // Opened for writing only to learn whether it can be; nothing is written.
    File::options().write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd())).is_ok()
}

/// Which part of a file is in the page cache, from 0 to 1.
///
/// # Errors
/// Always: only Linux tells it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn share_in_page_cache(_: &File) -> io::Result<f64> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "duan can ask Linux only for what is in the page cache"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_was_just_written_is_there() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(share_in_page_cache(&file).unwrap(), 1.0, "of nothing all is there");
        file.write_all(&vec![7; 1 << 20]).unwrap();
        assert_eq!(share_in_page_cache(&file).unwrap(), 1.0);
        // A hole was never read from anywhere, so nothing of it is in the cache.
        file.set_len(4 << 20).unwrap();
        let share = share_in_page_cache(&file).unwrap();
        assert!((0.25..1.0).contains(&share), "{share}");
    }
}
