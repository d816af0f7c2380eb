//! The control groups (cgroups) that this process is in.
//!
//! Sources: the kernel's documents `admin-guide/cgroup-v2.rst`, `admin-guide/cgroup-v1/`, `filesystems/proc.rst` (`mountinfo`).

use crate::source::{Source, Unreadable};

/// The folders of the control groups that this process is in, from its own outwards, by version of the interface.
///
/// Both lists can be filled: systems exist that run both versions side by side, with some controllers on each.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Groups {
    /// Folders of the one tree of version 2.
    pub(crate) v2: Vec<String>,
    /// Folders of the tree of version 1 that has the controller asked for.
    pub(crate) v1: Vec<String>,
}

impl Groups {
    /// Finds them by `/proc/self/cgroup` and `/proc/self/mountinfo`; `controller` is `cpu`, `cpuset` or `memory`. There are none
    /// on a kernel without control groups.
    ///
    /// # Errors
    /// Where the system does not say which groups they are.
    pub(crate) fn find(source: &dyn Source, controller: &str) -> Result<Self, Unreadable> {
        let memberships = source.read("proc/self/cgroup")?;
        let mounts = source.read("proc/self/mountinfo").unwrap_or_default();
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let mut groups = Self::default();
        for line in memberships.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(hierarchy), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            if hierarchy == "0" && controllers.is_empty() {
                groups.v2 = folders(path, mounts.iter().filter(|mount| mount.is_v2), "/sys/fs/cgroup");
            } else if controllers.split(',').any(|name| name == controller) {
                let with_controller = mounts.iter().filter(|mount| !mount.is_v2 && mount.has_option(controller));
                groups.v1 = folders(path, with_controller, &format!("/sys/fs/cgroup/{controller}"));
            }
        }
        Ok(groups)
    }

    /// Those that are found; none where the system does not say.
    pub(crate) fn read(source: &dyn Source, controller: &str) -> Self {
        Self::find(source, controller).unwrap_or_default()
    }

    /// The least of what these groups and their parents say of a limit: `None` where none of them has one.
    ///
    /// # Errors
    /// Where no limit is known, and a file cannot be understood or no group can be seen.
    pub(crate) fn least<T: Copy>(
        &self,
        source: &dyn Source,
        limits: Vec<Result<Option<T>, Unreadable>>,
        least: impl Fn(T, T) -> T,
    ) -> Result<Option<T>, Unreadable> {
        if let Some(least) = limits.iter().filter_map(|limit| *limit.as_ref().ok()?).reduce(least) {
            return Ok(Some(least));
        }
        let has_answer = limits.iter().any(Result::is_ok);
        let mut errors = limits.into_iter().filter_map(Result::err);
        // The outermost group has no such file, and no group has it where the controller is not on: then there is no limit.
        let Some(first) = errors.next() else { return Ok(None) };
        if let Some(error) = std::iter::once(first.clone()).chain(errors).find(|error| !error.is_absent()) {
            return Err(error);
        }
        let is_visible = || self.v2.iter().chain(&self.v1).any(|folder| source.list(folder).is_ok());
        if has_answer || is_visible() { Ok(None) } else { Err(first) }
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
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.contains(&"..")).then_some(parts)
}

/// The folder of the group `path` and those of its parents, up to the mount point.
///
/// When no mount shows the group, what is at the mount point is the nearest parent that can be seen.
fn folders<'a>(path: &str, mounts: impl Iterator<Item = &'a Mount>, usual_point: &str) -> Vec<String> {
    let mut nearest = None;
    for mount in mounts {
        let Some(point) = parts(&mount.point) else { continue };
        let inside = parts(path).zip(parts(&mount.group));
        if let Some(inside) = inside.as_ref().and_then(|(path, group)| path.strip_prefix(&group[..])) {
            return upwards(&point, inside);
        }
        nearest.get_or_insert(point);
    }
    match nearest {
        Some(point) => upwards(&point, &[]),
        None => upwards(&parts(usual_point).unwrap_or_default(), &parts(path).unwrap_or_default()),
    }
}

fn upwards(point: &[&str], inside: &[&str]) -> Vec<String> {
    (0..=inside.len()).rev().map(|count| [point, &inside[..count]].concat().join("/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Tree;

    fn v2(path: &str) -> Tree {
        let mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        Tree::new("linux").file("proc/self/cgroup", format!("0::{path}\n")).file("proc/self/mountinfo", mount)
    }

    #[test]
    fn a_container_of_v1_sees_its_own_group_at_the_mount_point() {
        let tree =
            Tree::new("linux").file("proc/self/cgroup", "9:memory:/docker/abc\n8:cpu,cpuacct:/docker/abc\n").file(
                "proc/self/mountinfo",
                "40 39 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                 41 39 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
            );
        assert_eq!(Groups::read(&tree, "memory").v1, ["sys/fs/cgroup/memory"]);
        assert_eq!(Groups::read(&tree, "cpu").v1, ["sys/fs/cgroup/cpu,cpuacct"]);
        assert_eq!(Groups::read(&tree, "cpuset"), Groups::default());
    }

    #[test]
    fn both_versions_side_by_side() {
        let tree = Tree::new("linux").file("proc/self/cgroup", "4:memory:/job\n1:name=systemd:/\n0::/unit\n").file(
            "proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
        );
        let groups = Groups::read(&tree, "memory");
        assert_eq!(groups.v1, ["sys/fs/cgroup/memory/job", "sys/fs/cgroup/memory"]);
        assert_eq!(groups.v2, ["sys/fs/cgroup/unified/unit", "sys/fs/cgroup/unified"]);
    }

    #[test]
    fn groups_without_a_mount_list_are_looked_for_at_the_usual_place() {
        let tree = Tree::new("linux").file("proc/self/cgroup", "5:cpuset:/x\n0::/a/b\n");
        let groups = Groups::read(&tree, "cpuset");
        assert_eq!(groups.v1, ["sys/fs/cgroup/cpuset/x", "sys/fs/cgroup/cpuset"]);
        assert_eq!(groups.v2, ["sys/fs/cgroup/a/b", "sys/fs/cgroup/a", "sys/fs/cgroup"]);
    }

    #[test]
    fn groups_outside_of_what_is_mounted() {
        // The group lies outside the namespace: only the mount point can be read, and nothing outside the root is.
        assert_eq!(Groups::read(&v2("/../../etc"), "cpu").v2, ["sys/fs/cgroup"]);
        let other = Tree::new("linux")
            .file("proc/self/cgroup", "0::/pod/one\n")
            .file("proc/self/mountinfo", "30 23 0:26 /pod/two /my\\040cg rw - cgroup2 cgroup2 rw\n");
        assert_eq!(Groups::read(&other, "cpu").v2, ["my cg"]);
        let second = Tree::new("linux").file("proc/self/cgroup", "0::/pod/one/in\n").file(
            "proc/self/mountinfo",
            "30 23 0:26 /pod/on /first rw - cgroup2 cgroup2 rw\n31 23 0:26 /pod/one /second rw - cgroup2 cgroup2 rw\n",
        );
        assert_eq!(Groups::read(&second, "cpu").v2, ["second/in", "second"]);
    }

    #[test]
    fn rubbish_is_no_group() {
        let tree = Tree::new("linux").file("proc/self/cgroup", "0:\n\n::\n0::relative\n7:cpu\n");
        assert_eq!(Groups::read(&tree, "cpu").v2, ["sys/fs/cgroup"]);
        assert_eq!(
            Groups::find(&Tree::new("linux"), "cpu").unwrap_err().to_string(),
            "/proc/self/cgroup: no such file"
        );
    }
}
