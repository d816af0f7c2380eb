//! How much memory this process may still take: of the machine, and under the limits of its control groups.
//!
//! Where there are no such files (other systems), nothing is known and nothing is limited.
//! Sources: the kernel's documents `filesystems/proc.rst`, `admin-guide/cgroup-v2.rst`, `admin-guide/cgroup-v1/memory.rst`.

use crate::groups::Groups;
use crate::source::{Source, Unreadable, number, stat_of, value_of};

/// Limits of version 1 from here on mean "none": the kernel writes the largest multiple of a page there.
pub(crate) const UNLIMITED_BYTES: u64 = 1 << 62;

/// The memory in bytes that can be taken without swapping and without breaking a limit, or `None` when nothing says.
///
/// It is the least of `MemAvailable` and, for each control group this process is in, the limit minus what is used.
/// Of what is used, the file cache that the kernel would drop first (inactive) does not count.
pub fn available_bytes(source: &dyn Source) -> Option<u64> {
    let groups = Groups::read(source, "memory");
    let v2 = groups.v2.iter().filter_map(|folder| headroom_bytes(source, folder, &V2));
    let v1 = groups.v1.iter().filter_map(|folder| headroom_bytes(source, folder, &V1));
    let text = source.read("proc/meminfo").unwrap_or_default();
    meminfo_bytes(&text, "MemAvailable").ok().into_iter().chain(v2).chain(v1).min()
}

/// A line of `/proc/meminfo`, whose text is given.
pub(crate) fn meminfo_bytes(text: &str, key: &str) -> Result<u64, Unreadable> {
    const PATH: &str = "proc/meminfo";
    let value = value_of(text, key).ok_or_else(|| Unreadable::unexpected(PATH, format!("says nothing of {key}")))?;
    kilobytes(PATH, value)
}

/// Bytes of a text like `12 kB`.
pub(crate) fn kilobytes(path: &str, value: &str) -> Result<u64, Unreadable> {
    let bytes = value.strip_suffix("kB").and_then(|count| count.trim().parse::<u64>().ok()?.checked_mul(1024));
    bytes.ok_or_else(|| Unreadable::unexpected(path, format!("{value:?} is no number of kB")))
}

/// Names of the files of one version of the memory controller.
pub(crate) struct MemoryFiles {
    pub(crate) limit: &'static str,
    pub(crate) usage: &'static str,
    /// The line of `memory.stat` that counts the inactive file cache of the group and all groups in it.
    inactive_file: &'static str,
}

pub(crate) const V2: MemoryFiles =
    MemoryFiles { limit: "memory.max", usage: "memory.current", inactive_file: "inactive_file" };
pub(crate) const V1: MemoryFiles = MemoryFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    inactive_file: "total_inactive_file",
};

/// The limit of one control group, or `None` when it has none (then its file says `max`) or the file cannot be read.
pub(crate) fn limit_bytes(source: &dyn Source, folder: &str, files: &MemoryFiles) -> Option<u64> {
    number::<u64>(source, &format!("{folder}/{}", files.limit)).ok().filter(|&limit| limit < UNLIMITED_BYTES)
}

/// What one control group leaves, or `None` when it has no limit.
fn headroom_bytes(source: &dyn Source, folder: &str, files: &MemoryFiles) -> Option<u64> {
    let limit = limit_bytes(source, folder, files)?;
    // A limit alone still bounds what is left, so files that cannot be read count as zero.
    let usage = number::<u64>(source, &format!("{folder}/{}", files.usage)).unwrap_or(0);
    let path = format!("{folder}/memory.stat");
    let inactive = source.read(&path).and_then(|text| stat_of(&path, &text, files.inactive_file));
    Some(limit.saturating_sub(usage.saturating_sub(inactive.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    const V2_MOUNT: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const MEMINFO: &str = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n";

    fn v2(path: &str) -> Tree {
        Tree::new("linux").file("proc/self/cgroup", format!("0::{path}\n")).file("proc/self/mountinfo", V2_MOUNT)
    }

    #[test]
    fn nothing_known() {
        assert_eq!(available_bytes(&Tree::new("linux")), None);
        let wrong =
            Tree::new("linux").file("proc/meminfo", "MemAvailable: many kB\n").file("proc/self/cgroup", "0:\n\n::\n");
        assert_eq!(available_bytes(&wrong), None);
        let too_many = Tree::new("linux").file("proc/meminfo", "MemAvailable: 18446744073709551615 kB\n");
        assert_eq!(available_bytes(&too_many), None);
    }

    #[test]
    fn host_without_limits() {
        let tree = Tree::new("linux").file("proc/meminfo", MEMINFO);
        assert_eq!(available_bytes(&tree), Some(8000 * 1024));
        let unlimited = v2("/user.slice").file("proc/meminfo", MEMINFO);
        let unlimited = unlimited.file("sys/fs/cgroup/user.slice/memory.max", "max\n");
        assert_eq!(available_bytes(&unlimited), Some(8000 * 1024));
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
        assert_eq!(available_bytes(&tree), Some(3_500_000));
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
        assert_eq!(available_bytes(&tree), Some(100_000));
    }

    #[test]
    fn over_the_limit_and_unreadable_usage() {
        let full = v2("/").file("sys/fs/cgroup/memory.max", "1000\n").file("sys/fs/cgroup/memory.current", "1001\n");
        assert_eq!(available_bytes(&full), Some(0));
        let unknown = v2("/").file("sys/fs/cgroup/memory.max", "1000\n").file("sys/fs/cgroup/memory.current", "?\n");
        assert_eq!(available_bytes(&unknown), Some(1000));
        // The cache may be counted later than the use; the difference is not negative.
        let late = v2("/").file("sys/fs/cgroup/memory.max", "1000\n").file("sys/fs/cgroup/memory.current", "10\n");
        let late = late.file("sys/fs/cgroup/memory.stat", "inactive_file 20\n");
        assert_eq!(available_bytes(&late), Some(1000));
    }

    #[test]
    fn v1_counts_the_groups_inside() {
        let tree = Tree::new("linux")
            .file("proc/self/cgroup", "9:memory:/docker/abc\n8:cpu,cpuacct:/docker/abc\n")
            .file("proc/self/mountinfo", "40 39 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n")
            .file("proc/meminfo", MEMINFO)
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n")
            .file("sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000\n")
            // The line without `total_` leaves out the groups inside.
            .file("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 400000\n");
        assert_eq!(available_bytes(&tree), Some(900_000));
    }

    #[test]
    fn v1_says_unlimited_with_a_large_number() {
        let tree = Tree::new("linux")
            .file("proc/self/cgroup", "4:memory:/\n")
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(available_bytes(&tree), None);
    }

    #[test]
    fn the_least_of_both_versions() {
        let tree = Tree::new("linux")
            .file("proc/self/cgroup", "4:memory:/job\n1:name=systemd:/\n0::/unit\n")
            .file(
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
            )
            .file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "700\n")
            .file("sys/fs/cgroup/unified/unit/memory.max", "600\n");
        assert_eq!(available_bytes(&tree), Some(600));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_says_something() {
        let available = available_bytes(&crate::Local::here()).unwrap();
        assert!(available > 0 && available < UNLIMITED_BYTES, "{available}");
    }
}
