//! How much memory this process may still take, and the control groups (cgroups) that limit it.
//!
//! Everything is read below a root folder that is given, so that tests can hand in a made-up tree; it is `/` otherwise.
//! Where there are no such files (other systems), nothing is known and nothing is limited.
//! Sources: the kernel's documents `filesystems/proc.rst`, `admin-guide/cgroup-v2.rst`, `admin-guide/cgroup-v1/memory.rst`.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// At most this much of a file is read: the list of mounts of a busy host fits, a file that never ends does no harm.
const READ_LIMIT_BYTES: u64 = 512 << 10;

/// Limits of version 1 from here on mean "none": the kernel writes the largest multiple of a page there.
const UNLIMITED_BYTES: u64 = 1 << 62;

/// The text of a file, up to its first 512 KiB, or `None` when it cannot be read.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(READ_LIMIT_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The one value that a file holds, or `None` when it cannot be read or is something else.
pub(crate) fn read_value<T: FromStr>(path: &Path) -> Option<T> {
    read_text(path)?.trim().parse().ok()
}

/// The memory in bytes that can be taken without swapping and without breaking a limit, or `None` when nothing says.
///
/// It is the least of `MemAvailable` and, for each control group this process is in, the limit minus what is used.
/// Of what is used, the file cache that the kernel would drop first (inactive) does not count.
pub(crate) fn available_bytes(root: &Path) -> Option<u64> {
    let groups = Groups::read(root, "memory");
    let v2 = groups.v2.iter().filter_map(|folder| headroom_bytes(folder, &V2));
    let v1 = groups.v1.iter().filter_map(|folder| headroom_bytes(folder, &V1));
    mem_available_bytes(root).into_iter().chain(v2).chain(v1).min()
}

fn mem_available_bytes(root: &Path) -> Option<u64> {
    let text = read_text(&root.join("proc/meminfo"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    value.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// Names of the files of one version of the memory controller.
struct MemoryFiles {
    limit: &'static str,
    usage: &'static str,
    /// The line of `memory.stat` that counts the inactive file cache of the group and all groups in it.
    inactive_file: &'static str,
}

const V2: MemoryFiles = MemoryFiles { limit: "memory.max", usage: "memory.current", inactive_file: "inactive_file" };
const V1: MemoryFiles = MemoryFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    inactive_file: "total_inactive_file",
};

/// What one control group leaves, or `None` when it has no limit (then its file says `max`, which is no number).
fn headroom_bytes(folder: &Path, files: &MemoryFiles) -> Option<u64> {
    let limit = read_value::<u64>(&folder.join(files.limit)).filter(|&limit| limit < UNLIMITED_BYTES)?;
    // A limit alone still bounds what is left, so files that cannot be read count as zero.
    let usage = read_value::<u64>(&folder.join(files.usage)).unwrap_or(0);
    let stat = read_text(&folder.join("memory.stat")).unwrap_or_default();
    let inactive = stat.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        if name == files.inactive_file { value.trim().parse::<u64>().ok() } else { None }
    });
    Some(limit.saturating_sub(usage.saturating_sub(inactive.unwrap_or(0))))
}

/// The folders of the control groups that this process is in, from its own outwards, by version of the interface.
///
/// Both lists can be filled: systems exist that run both versions side by side, with some controllers on each.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Groups {
    /// Folders of the one tree of version 2.
    pub(crate) v2: Vec<PathBuf>,
    /// Folders of the tree of version 1 that has the controller asked for.
    pub(crate) v1: Vec<PathBuf>,
}

impl Groups {
    /// Finds them by `/proc/self/cgroup` and `/proc/self/mountinfo`; `controller` is `cpu`, `cpuset` or `memory`.
    pub(crate) fn read(root: &Path, controller: &str) -> Self {
        let mut groups = Self::default();
        let memberships = read_text(&root.join("proc/self/cgroup")).unwrap_or_default();
        let mounts = read_text(&root.join("proc/self/mountinfo")).unwrap_or_default();
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        for line in memberships.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(hierarchy), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            if hierarchy == "0" && controllers.is_empty() {
                groups.v2 = folders(root, path, mounts.iter().filter(|mount| mount.is_v2), "/sys/fs/cgroup");
            } else if controllers.split(',').any(|name| name == controller) {
                let with_controller = mounts.iter().filter(|mount| !mount.is_v2 && mount.has_option(controller));
                groups.v1 = folders(root, path, with_controller, &format!("/sys/fs/cgroup/{controller}"));
            }
        }
        groups
    }
}

/// A mounted tree of control groups.
struct Mount {
    is_v2: bool,
    /// The group that is seen at the mount point; in a container this is often the container's own.
    group: String,
    point: String,
    options: String,
}

impl Mount {
    /// Reads a line of `mountinfo`: `31 23 0:28 GROUP POINT rw,relatime shared:1 - TYPE SOURCE OPTIONS`.
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let is_v2 = match after.next()? {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        let mut before = before.split(' ').skip(3);
        let (group, point) = (unescape(before.next()?), unescape(before.next()?));
        Some(Self { is_v2, group, point, options: after.nth(1)?.to_owned() })
    }

    fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }
}

/// Undoes what `mountinfo` does to blanks and backslashes: `\040` and so on.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// The parts of an absolute path, or `None` when it leads outside of what is visible (`/../other`).
fn parts(path: &str) -> Option<PathBuf> {
    let parts = Path::new(path.strip_prefix('/')?);
    parts.components().all(|part| matches!(part, Component::Normal(_))).then(|| parts.to_owned())
}

/// The folder of the group `path` and those of its parents, up to the mount point.
///
/// When no mount shows the group, what is at the mount point is the nearest parent that can be seen.
fn folders<'a>(root: &Path, path: &str, mounts: impl Iterator<Item = &'a Mount>, usual_point: &str) -> Vec<PathBuf> {
    let mut nearest = None;
    for mount in mounts {
        let Some(point) = parts(&mount.point) else { continue };
        let inside = parts(path).zip(parts(&mount.group));
        if let Some(inside) = inside.and_then(|(path, group)| path.strip_prefix(group).map(Path::to_owned).ok()) {
            return upwards(&root.join(point), &inside);
        }
        nearest.get_or_insert(point);
    }
    match nearest {
        Some(point) => vec![root.join(point)],
        None => upwards(&root.join(usual_point.trim_start_matches('/')), &parts(path).unwrap_or_default()),
    }
}

fn upwards(point: &Path, inside: &Path) -> Vec<PathBuf> {
    // The last ancestor of a relative path is the empty one: the mount point itself.
    inside
        .ancestors()
        .map(|part| if part.as_os_str().is_empty() { point.to_owned() } else { point.join(part) })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A made-up tree of system files.
    pub(crate) struct Tree(tempfile::TempDir);

    impl Tree {
        pub(crate) fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        /// Adds a file, with the folders above it.
        pub(crate) fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            self
        }

        pub(crate) fn root(&self) -> &Path {
            self.0.path()
        }
    }

    const V2_MOUNT: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const MEMINFO: &str = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n";

    fn v2(path: &str) -> Tree {
        Tree::new().file("proc/self/cgroup", format!("0::{path}\n")).file("proc/self/mountinfo", V2_MOUNT)
    }

    fn relative(tree: &Tree, folders: &[PathBuf]) -> Vec<String> {
        folders.iter().map(|path| path.strip_prefix(tree.root()).unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn nothing_known() {
        assert_eq!(available_bytes(Tree::new().root()), None);
        let wrong = Tree::new().file("proc/meminfo", "MemAvailable: many kB\n").file("proc/self/cgroup", "0:\n\n::\n");
        assert_eq!(available_bytes(wrong.root()), None);
        let too_many = Tree::new().file("proc/meminfo", "MemAvailable: 18446744073709551615 kB\n");
        assert_eq!(available_bytes(too_many.root()), None);
    }

    #[test]
    fn host_without_limits() {
        let tree = Tree::new().file("proc/meminfo", MEMINFO);
        assert_eq!(available_bytes(tree.root()), Some(8000 * 1024));
        let unlimited = v2("/user.slice").file("proc/meminfo", MEMINFO);
        let unlimited = unlimited.file("sys/fs/cgroup/user.slice/memory.max", "max\n");
        assert_eq!(available_bytes(unlimited.root()), Some(8000 * 1024));
    }

    #[test]
    fn inactive_file_cache_of_v2_is_available() {
        let tree = v2("/app")
            .file("proc/meminfo", MEMINFO)
            .file("sys/fs/cgroup/app/memory.max", "5000000\n")
            .file("sys/fs/cgroup/app/memory.current", "4500000\n")
            .file(
                "sys/fs/cgroup/app/memory.stat",
                "anon 100\nfile 3500000\ninactive_file 3000000\nactive_file 500000\n",
            );
        assert_eq!(available_bytes(tree.root()), Some(3_500_000));
    }

    #[test]
    fn least_of_all_parents() {
        let tree = v2("/a/b/c")
            .file("proc/meminfo", MEMINFO)
            .file("sys/fs/cgroup/a/b/c/memory.max", "max\n")
            .file("sys/fs/cgroup/a/b/memory.max", "3000000\n")
            .file("sys/fs/cgroup/a/b/memory.current", "1000000\n")
            .file("sys/fs/cgroup/a/memory.max", "4000000\n")
            .file("sys/fs/cgroup/a/memory.current", "3900000\n");
        assert_eq!(available_bytes(tree.root()), Some(100_000));
    }

    #[test]
    fn over_the_limit_and_unreadable_usage() {
        let full = v2("/").file("sys/fs/cgroup/memory.max", "1000\n").file("sys/fs/cgroup/memory.current", "1001\n");
        assert_eq!(available_bytes(full.root()), Some(0));
        let unknown = v2("/").file("sys/fs/cgroup/memory.max", "1000\n").file("sys/fs/cgroup/memory.current", "?\n");
        assert_eq!(available_bytes(unknown.root()), Some(1000));
        // The cache may be counted later than the use; the difference is not negative.
        let late = v2("/").file("sys/fs/cgroup/memory.max", "1000\n").file("sys/fs/cgroup/memory.current", "10\n");
        let late = late.file("sys/fs/cgroup/memory.stat", "inactive_file 20\n");
        assert_eq!(available_bytes(late.root()), Some(1000));
    }

    #[test]
    fn v1_in_a_container_sees_its_own_group_at_the_mount_point() {
        let tree = Tree::new()
            .file("proc/self/cgroup", "9:memory:/docker/abc\n8:cpu,cpuacct:/docker/abc\n")
            .file(
                "proc/self/mountinfo",
                "40 39 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                 41 39 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
            )
            .file("proc/meminfo", MEMINFO)
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n")
            .file("sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000\n")
            // The line without `total_` leaves out the groups inside.
            .file("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 400000\n");
        assert_eq!(available_bytes(tree.root()), Some(900_000));
        assert_eq!(relative(&tree, &Groups::read(tree.root(), "memory").v1), ["sys/fs/cgroup/memory"]);
        assert_eq!(relative(&tree, &Groups::read(tree.root(), "cpu").v1), ["sys/fs/cgroup/cpu,cpuacct"]);
        assert_eq!(Groups::read(tree.root(), "cpuset"), Groups::default());
    }

    #[test]
    fn v1_says_unlimited_with_a_large_number() {
        let tree = Tree::new()
            .file("proc/self/cgroup", "4:memory:/\n")
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(available_bytes(tree.root()), None);
    }

    #[test]
    fn both_versions_side_by_side() {
        let tree = Tree::new()
            .file("proc/self/cgroup", "4:memory:/job\n1:name=systemd:/\n0::/unit\n")
            .file(
                "proc/self/mountinfo",
                "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
            )
            .file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "700\n")
            .file("sys/fs/cgroup/unified/unit/memory.max", "600\n");
        let groups = Groups::read(tree.root(), "memory");
        assert_eq!(relative(&tree, &groups.v1), ["sys/fs/cgroup/memory/job", "sys/fs/cgroup/memory"]);
        assert_eq!(relative(&tree, &groups.v2), ["sys/fs/cgroup/unified/unit", "sys/fs/cgroup/unified"]);
        assert_eq!(available_bytes(tree.root()), Some(600));
    }

    #[test]
    fn groups_without_a_mount_list_are_looked_for_at_the_usual_place() {
        let tree = Tree::new().file("proc/self/cgroup", "5:cpuset:/x\n0::/a/b\n");
        let groups = Groups::read(tree.root(), "cpuset");
        assert_eq!(relative(&tree, &groups.v1), ["sys/fs/cgroup/cpuset/x", "sys/fs/cgroup/cpuset"]);
        assert_eq!(relative(&tree, &groups.v2), ["sys/fs/cgroup/a/b", "sys/fs/cgroup/a", "sys/fs/cgroup"]);
    }

    #[test]
    fn groups_outside_of_what_is_mounted() {
        // The group lies outside the namespace: only the mount point can be read, and nothing outside the root is.
        let outside = v2("/../../etc");
        assert_eq!(relative(&outside, &Groups::read(outside.root(), "cpu").v2), ["sys/fs/cgroup"]);
        let other = Tree::new()
            .file("proc/self/cgroup", "0::/pod/one\n")
            .file("proc/self/mountinfo", "30 23 0:26 /pod/two /my\\040cg rw - cgroup2 cgroup2 rw\n");
        assert_eq!(relative(&other, &Groups::read(other.root(), "cpu").v2), ["my cg"]);
        let second = Tree::new().file("proc/self/cgroup", "0::/pod/one/in\n").file(
            "proc/self/mountinfo",
            "30 23 0:26 /pod/on /first rw - cgroup2 cgroup2 rw\n31 23 0:26 /pod/one /second rw - cgroup2 cgroup2 rw\n",
        );
        assert_eq!(relative(&second, &Groups::read(second.root(), "cpu").v2), ["second/in", "second"]);
    }

    #[test]
    fn reading_is_bounded() {
        let size = usize::try_from(READ_LIMIT_BYTES).unwrap();
        let tree = Tree::new().file("long", vec![b'x'; size + 10]).file("bytes", b"4\xff2");
        assert_eq!(read_text(&tree.root().join("long")).unwrap().len(), size);
        assert_eq!(read_value::<u64>(&tree.root().join("bytes")), None);
        assert_eq!(read_text(tree.root()), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_says_something() {
        let available = available_bytes(Path::new("/")).unwrap();
        assert!(available > 0 && available < UNLIMITED_BYTES, "{available}");
    }
}
