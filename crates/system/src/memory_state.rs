//! The memory: how much there is, who limits it, and in what pages it comes.
//!
//! Sources: the kernel's documents `filesystems/proc.rst`, `admin-guide/mm/transhuge.rst`, `admin-guide/cgroup-v2.rst`; the auxiliary
//! vector: `include/uapi/linux/auxvec.h`.

use serde::{Deserialize, Serialize};

use crate::groups::Groups;
use crate::memory::{MemoryFiles, UNLIMITED_BYTES, V1, V2, available_bytes, meminfo_bytes};
use crate::reading::Reading;
use crate::source::{Source, Unreadable, line, number, parse, quoted};

/// The memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// All that the system manages.
    pub total_bytes: Reading<u64>,
    /// What could be taken without swapping, by the system's estimate.
    pub available_bytes: Reading<u64>,
    /// What this process could take: the least of the above and of what its control groups leave.
    pub usable_bytes: Reading<u64>,
    /// The least limit of the process's control group and all its parents. `None` is no limit.
    pub limit_bytes: Reading<Option<u64>>,
    /// From here on the control groups slow the process down. `None` is no such limit.
    pub high_bytes: Reading<Option<u64>>,
    /// What the process's own control group uses.
    pub group_bytes: Reading<u64>,
    /// Swap in all.
    pub swap_total_bytes: Reading<u64>,
    /// Swap that is free.
    pub swap_free_bytes: Reading<u64>,
    /// Size of a page.
    pub page_bytes: Reading<u64>,
    /// Who gets large pages without asking for each: `always`, `madvise` (who says so), `never`.
    pub large_pages: Reading<String>,
    /// Size of a large page.
    pub large_page_bytes: Reading<u64>,
}

impl Memory {
    pub(crate) fn read(source: &dyn Source) -> Self {
        let meminfo = source.read("proc/meminfo");
        let bytes =
            |key| Reading::from(meminfo.as_ref().map_err(Clone::clone).and_then(|text| meminfo_bytes(text, key)));
        let available = bytes("MemAvailable");
        let usable = available_bytes(source).map_or_else(|| available.clone(), Reading::Known);
        const LARGE: &str = "sys/kernel/mm/transparent_hugepage";
        Self {
            total_bytes: bytes("MemTotal"),
            usable_bytes: usable,
            available_bytes: available,
            limit_bytes: limit_bytes(source, V2.limit, Some(V1.limit)).into(),
            high_bytes: limit_bytes(source, "memory.high", None).into(),
            group_bytes: group_bytes(source).into(),
            swap_total_bytes: bytes("SwapTotal"),
            swap_free_bytes: bytes("SwapFree"),
            page_bytes: page_bytes(source).into(),
            large_pages: chosen(source, &format!("{LARGE}/enabled")).into(),
            large_page_bytes: number(source, &format!("{LARGE}/hpage_pmd_size")).into(),
        }
    }
}

/// The least of the limits in the files `v2` and `v1` of the process's control group and all its parents.
fn limit_bytes(source: &dyn Source, v2: &str, v1: Option<&str>) -> Result<Option<u64>, Unreadable> {
    let groups = Groups::find(source, "memory")?;
    let files = groups.v2.iter().map(|folder| format!("{folder}/{v2}"));
    let files = files.chain(v1.into_iter().flat_map(|v1| groups.v1.iter().map(move |folder| format!("{folder}/{v1}"))));
    let limits: Vec<Result<Option<u64>, Unreadable>> = files.map(|path| limit_of(source, &path)).collect();
    groups.least(source, limits, u64::min)
}

fn limit_of(source: &dyn Source, path: &str) -> Result<Option<u64>, Unreadable> {
    let text = line(source, path)?;
    if text == "max" {
        Ok(None)
    } else {
        parse(path, &text).map(|limit| Some(limit).filter(|&limit| limit < UNLIMITED_BYTES))
    }
}

fn group_bytes(source: &dyn Source) -> Result<u64, Unreadable> {
    let groups = Groups::find(source, "memory")?;
    let of = |folders: &[String], files: &MemoryFiles| {
        folders.first().map(|folder| number(source, &format!("{folder}/{}", files.usage)))
    };
    let v1 = of(&groups.v1, &V1);
    let first = v1.or_else(|| of(&groups.v2, &V2));
    first.unwrap_or_else(|| Err(Unreadable::because("no control group counts memory")))
}

/// The size of a page: what the kernel told the process at its start, or a command.
fn page_bytes(source: &dyn Source) -> Result<u64, Unreadable> {
    const PATH: &str = "proc/self/auxv";
    let told = source.read_bytes(PATH).map(|bytes| auxiliary_page_bytes(&bytes));
    let error = match told {
        Ok(Some(bytes)) => return Ok(bytes),
        Ok(None) => Unreadable::unexpected(PATH, "says nothing of pages"),
        Err(error) => error,
    };
    let command = source.run("getconf", &["PAGESIZE"]);
    command.ok().and_then(|text| plausible_page(text.trim().parse().ok()?)).ok_or(error)
}

/// `AT_PAGESZ` of the auxiliary vector: pairs of words, of which the first names the second.
fn auxiliary_page_bytes(bytes: &[u8]) -> Option<u64> {
    let wide = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let narrow = bytes.as_chunks().0.iter().map(|word| u64::from(u32::from_le_bytes(*word))).collect();
    [wide, narrow].into_iter().find_map(page_of_words)
}

fn page_of_words(words: Vec<u64>) -> Option<u64> {
    const PAGE_SIZE: u64 = 6;
    let value = words.as_chunks().0.iter().find_map(|&[key, value]| (key == PAGE_SIZE).then_some(value));
    plausible_page(value?)
}

fn plausible_page(bytes: u64) -> Option<u64> {
    (bytes.is_power_of_two() && (4096..=1 << 20).contains(&bytes)).then_some(bytes)
}

/// The choice that stands in brackets: `always [madvise] never`.
fn chosen(source: &dyn Source, path: &str) -> Result<String, Unreadable> {
    let text = line(source, path)?;
    let choice = text.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0.to_owned()));
    choice.ok_or_else(|| Unreadable::unexpected(path, format!("{} has no choice in brackets", quoted(&text))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    fn auxiliary<const N: usize>(pairs: &[(u64, u64)], word: impl Fn(u64) -> [u8; N]) -> Vec<u8> {
        pairs.iter().flat_map(|&(key, value)| [word(key), word(value)].concat()).collect()
    }

    #[test]
    fn pages_by_the_auxiliary_vector_of_any_word() {
        let pairs = [(33, 0x7ffc), (16, 6), (6, 16_384), (17, 100), (0, 0)];
        assert_eq!(auxiliary_page_bytes(&auxiliary(&pairs, u64::to_le_bytes)), Some(16_384));
        assert_eq!(auxiliary_page_bytes(&auxiliary(&pairs, |word| (word as u32).to_le_bytes())), Some(16_384));
        assert_eq!(auxiliary_page_bytes(&auxiliary(&[(6, 5000)], u64::to_le_bytes)), None);
        assert_eq!(auxiliary_page_bytes(&[6; 15]), None);
    }

    #[test]
    fn pages_by_a_command() {
        let tree = Tree::new("linux").prints("getconf PAGESIZE", "4096\n");
        assert_eq!(page_bytes(&tree), Ok(4096));
        let error = page_bytes(&Tree::new("linux").prints("getconf PAGESIZE", "undefined\n")).unwrap_err();
        assert_eq!(error.to_string(), "/proc/self/auxv: no such file");
    }

    #[test]
    fn limits_are_the_least_of_all_parents_and_versions() {
        let tree = Tree::new("linux").file("proc/self/cgroup", "4:memory:/job\n0::/a/b\n");
        let hidden = limit_bytes(&tree, "memory.max", Some(V1.limit)).unwrap_err();
        assert_eq!(hidden.to_string(), "/sys/fs/cgroup/a/b/memory.max: no such file");
        let tree = tree.file("sys/fs/cgroup/cgroup.procs", "1\n");
        assert_eq!(limit_bytes(&tree, "memory.max", Some(V1.limit)), Ok(None), "no group has the controller");
        let tree = tree.file("sys/fs/cgroup/a/b/memory.max", "max\n").file("sys/fs/cgroup/a/memory.max", "900\n");
        let tree = tree.file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit_bytes(&tree, "memory.max", Some(V1.limit)), Ok(Some(900)));
        let odd = Tree::new("linux").file("proc/self/cgroup", "0::/\n").file("sys/fs/cgroup/memory.max", "-1\n");
        let says = "/sys/fs/cgroup/memory.max: \"-1\" is no number of the kind expected";
        assert_eq!(limit_bytes(&odd, "memory.max", None).unwrap_err().to_string(), says);
    }

    #[test]
    fn large_pages_are_what_stands_in_brackets() {
        let with = |text: &str| chosen(&Tree::new("linux").file("x", text), "x");
        assert_eq!(with("always defer [madvise] never\n").as_deref(), Ok("madvise"));
        assert_eq!(with("always\n").unwrap_err().to_string(), "/x: \"always\" has no choice in brackets");
        assert_eq!(with("").unwrap_err().to_string(), "/x: is empty");
    }
}
