//! Where duan keeps what it measured.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder that the environment asks for: `DUAN_STATE`, else `duan` in the system's folder for state: what should outlive a
/// restart, and is neither a setting nor a file that can be made again. None where there is no home folder either.
///
/// Source: the XDG Base Directory Specification; `~/.local/state` where `XDG_STATE_HOME` is not set. The system of macOS and Windows
/// have no folder for state alone, so it is that of an application's own files.
pub fn state_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG rules say that a path that is not absolute counts as not set.
    let xdg = || set("XDG_STATE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("duan"));
    let home = || {
        if cfg!(windows) {
            set("LOCALAPPDATA").map(|path| path.join("duan").join("state"))
        } else if cfg!(target_os = "macos") {
            set("HOME").map(|path| path.join("Library").join("Application Support").join("duan"))
        } else {
            set("HOME").map(|path| path.join(".local").join("state").join("duan"))
        }
    };
    set("DUAN_STATE").or_else(xdg).or_else(home)
}

#[cfg(all(test, unix, not(target_os = "macos")))]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_environment_places_the_folder() {
        let folder = |variables: &[(&str, &str)]| {
            state_folder(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        let home = ("HOME", "/home/a");
        assert_eq!(folder(&[home]).as_deref(), Some(Path::new("/home/a/.local/state/duan")));
        assert_eq!(folder(&[home, ("XDG_STATE_HOME", "/s")]).as_deref(), Some(Path::new("/s/duan")));
        assert_eq!(folder(&[home, ("XDG_STATE_HOME", "s")]).as_deref(), Some(Path::new("/home/a/.local/state/duan")));
        assert_eq!(
            folder(&[home, ("XDG_STATE_HOME", "/s"), ("DUAN_STATE", "here")]).as_deref(),
            Some(Path::new("here"))
        );
        assert_eq!(folder(&[("HOME", ""), ("DUAN_STATE", "")]), None);
    }
}
