//! What kind of mount a file lies on, by the kernel's list `mountinfo` (its document `filesystems/proc.rst`, section 3.5).
//!
//! The list is read below a root folder that is given, so that tests can hand in a made-up tree; it is `/` otherwise. Where there is
//! none (other systems), nothing is known.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// At most this much of the list is read.
const READ_LIMIT_BYTES: u64 = 4 << 20;

/// File systems whose bytes come over a network.
const NETWORK: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "ceph",
    "lustre",
    "gfs2",
    "ocfs2",
    "orangefs",
    "pvfs2",
    "gpfs",
    "beegfs",
    "coda",
    "ncpfs",
    "davfs",
    "glusterfs",
];

/// File systems of FUSE whose name says that they read over a network.
const FUSE_NETWORK: &[&str] = &[
    "sshfs",
    "s3fs",
    "rclone",
    "glusterfs",
    "gcsfuse",
    "goofys",
    "blobfuse",
    "blobfuse2",
    "davfs2",
    "juicefs",
    "curlftpfs",
    "ceph-fuse",
    "cephfs",
    "smbnetfs",
    "moosefs",
    "seaweedfs",
    "mountpoint-s3",
];

/// File systems that reach a host through a narrow door.
const SHARED_BY_HOST: &[&str] = &["9p", "vboxsf", "prl_fs", "fuseblk", "fuse", "vmhgfs"];

/// A mount from which a model is slow to read at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowMount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// The type of the file system: `nfs4`, `fuse.sshfs`, ...
    pub fs_type: String,
    /// Whether it comes over a network.
    pub is_network: bool,
}

impl SlowMount {
    /// The mount that `path`, an absolute path without links, lies on; `None` where it is a fast one or nothing is known.
    pub(super) fn of(root: &Path, path: &Path) -> Option<Self> {
        let mut text = Vec::new();
        File::open(root.join("proc/self/mountinfo")).ok()?.take(READ_LIMIT_BYTES).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        // What is mounted later hides what is at the same point already, so of equal ones the last counts.
        let mounts = text.lines().filter_map(parse).filter(|(point, _)| path.starts_with(point));
        let (point, fs_type) = mounts.max_by_key(|(point, _)| point.components().count())?;
        let fuse = fs_type.strip_prefix("fuse.");
        let is_network = NETWORK.contains(&fs_type.as_str()) || fuse.is_some_and(|name| FUSE_NETWORK.contains(&name));
        let is_slow = is_network || fuse.is_some() || SHARED_BY_HOST.contains(&fs_type.as_str());
        is_slow.then_some(Self { point, fs_type, is_network })
    }
}

/// Mount point and type of a line: `31 23 0:28 ROOT POINT rw,relatime shared:1 - TYPE SOURCE OPTIONS`.
fn parse(line: &str) -> Option<(PathBuf, String)> {
    let (before, after) = line.split_once(" - ")?;
    let point = before.split(' ').nth(4)?;
    let fs_type = after.split(' ').next().filter(|name| !name.is_empty())?;
    Some((PathBuf::from(unescaped(point)), fs_type.to_owned()))
}

/// Undoes what the list does to blanks, ends of lines and backslashes: `\040` and so on.
fn unescaped(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
        22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        30 22 0:40 / /mnt/models rw,relatime shared:9 - nfs4 server:/models rw,vers=4.2\n\
        31 22 0:41 / /mnt/my\\040cloud rw - fuse.rclone cloud: rw,user_id=0\n\
        32 22 0:42 / /mnt/usb rw - fuseblk /dev/sdb1 rw\n\
        33 22 0:43 / /mnt/host rw - 9p share rw\n\
        34 30 254:1 / /mnt/models/local rw - xfs /dev/vdb rw\n\
        35 22 0:44 / /mnt/twice rw - nfs server:/x rw\n\
        36 22 254:2 / /mnt/twice rw - ext4 /dev/vdc rw\n\
        37 22 0:45 / /mnt/zip rw - fuse.archivemount x rw\n\
        nonsense\n\
        38 22\n";

    fn of(path: &str) -> Option<(String, String, bool)> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        std::fs::write(folder.path().join("proc/self/mountinfo"), LIST).unwrap();
        let mount = SlowMount::of(folder.path(), Path::new(path))?;
        Some((mount.point.to_str().unwrap().to_owned(), mount.fs_type, mount.is_network))
    }

    fn slow(point: &str, fs_type: &str, is_network: bool) -> Option<(String, String, bool)> {
        Some((point.to_owned(), fs_type.to_owned(), is_network))
    }

    #[test]
    fn the_innermost_mount_decides() {
        assert_eq!(of("/home/me/m.gguf"), None);
        assert_eq!(of("/mnt/models/m.gguf"), slow("/mnt/models", "nfs4", true));
        assert_eq!(of("/mnt/models/local/m.gguf"), None);
        // A name that only begins like a mount point is another one.
        assert_eq!(of("/mnt/models-old/m.gguf"), None);
    }

    #[test]
    fn kinds_are_told_apart() {
        assert_eq!(of("/mnt/my cloud/m.gguf"), slow("/mnt/my cloud", "fuse.rclone", true));
        assert_eq!(of("/mnt/usb/m.gguf"), slow("/mnt/usb", "fuseblk", false));
        assert_eq!(of("/mnt/host/m.gguf"), slow("/mnt/host", "9p", false));
        assert_eq!(of("/mnt/zip/m.gguf"), slow("/mnt/zip", "fuse.archivemount", false));
    }

    #[test]
    fn a_later_mount_hides_an_earlier_one() {
        assert_eq!(of("/mnt/twice/m.gguf"), None);
    }

    #[test]
    fn without_a_list_nothing_is_known() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(SlowMount::of(folder.path(), Path::new("/mnt/models/m.gguf")), None);
    }

    #[test]
    fn codes_are_undone_and_other_backslashes_stay() {
        assert_eq!(unescaped("a\\040b\\134040\\"), "a b\\040\\");
        assert_eq!(unescaped("\\9\\777\u{e9}"), "\\9\\777\u{e9}");
    }
}
