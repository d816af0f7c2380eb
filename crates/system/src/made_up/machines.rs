//! The machines.

use super::Tree;

const CPUS: &str = "sys/devices/system/cpu";

/// A phone with one very large core, three large and four small ones, kept in the background, warm, on battery.
pub fn phone() -> Tree {
    let mut tree = Tree::new("android")
        .prints("getprop ro.build.version.release", "15\n")
        .prints("getprop ro.soc.model", "SX8000\n")
        .prints("getprop ro.soc.manufacturer", "Maker\n")
        .prints("settings get global low_power", "1\n")
        .prints("uname -m", "aarch64\n")
        .file(
            "proc/cpuinfo",
            "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\nCPU implementer\t: 0x41\nCPU part\t: 0xd46\n",
        )
        .file("proc/sys/kernel/osrelease", "6.1.75-android14-11\n")
        .denied("proc/sys/kernel/version")
        .file("proc/self/cpuset", "/background\n")
        .file("dev/cpuset/background/cpus", "0-2\n")
        .file("proc/self/cgroup", "3:cpuset:/background\n2:cpu:/system\n0::/uid_10000/pid_100\n")
        .file("proc/self/auxv", auxiliary(16_384))
        .denied("proc/pressure/cpu")
        .denied("proc/pressure/memory")
        .denied("proc/pressure/io")
        .denied("proc/stat")
        .denied("proc/loadavg");
    tree = process(tree, "0-2", 0, 10).file("proc/meminfo", meminfo(11_000_000, 4_000_000, 6_000_000, 2_500_000));
    tree = tree.file(&format!("{CPUS}/online"), "0-7\n");
    for cpu in 0..8 {
        let (capacity, khz) = match cpu {
            0..4 => (325, 2_016_000),
            4..7 => (828, 2_803_200),
            _ => (1024, 3_187_200),
        };
        tree = core(tree, cpu, &cpu.to_string(), Some(khz));
        tree = tree.file(&format!("{CPUS}/cpu{cpu}/cpu_capacity"), format!("{capacity}\n"));
    }
    for (first, cpus, built, allowed) in
        [(0, "0 1 2 3\n", 2_016_000, 2_016_000), (4, "4 5 6\n", 2_803_200, 2_112_000), (7, "7\n", 3_187_200, 2_073_600)]
    {
        tree = policy(tree, first, cpus, "walt", (307_200, built, allowed, allowed));
    }
    tree = zone(tree, 0, "cpu-1-0", "71300\n", &[("passive", "95000\n"), ("critical", "115000\n")]);
    // Some makers write tenths, some degrees; a sensor that is off says 0.
    tree = zone(zone(zone(tree, 1, "battery", "389\n", &[]), 2, "skin", "41\n", &[]), 3, "modem", "0\n", &[]);
    tree = cooling(cooling(tree, 0, "cpufreq-cpu4", "5\n", "18\n"), 1, "cpufreq-cpu7", "9\n", "21\n");
    tree.files(
        "sys/class/power_supply/battery",
        &[
            ("type", "Battery\n"),
            ("status", "Discharging\n"),
            ("capacity", "64\n"),
            ("current_now", "-812000\n"),
            ("voltage_now", "3911000\n"),
            ("temp", "389\n"),
        ],
    )
    .files("sys/class/power_supply/usb", &[("type", "USB\n"), ("online", "0\n")])
}

/// A laptop with eight performance and twelve efficiency cores, on the wall.
pub fn laptop() -> Tree {
    let mut tree = Tree::new("linux")
        .file("proc/cpuinfo", cpuinfo("Laptop CPU 20-core", "0x4128", "fpu sse avx2 avx_vnni"))
        .file("etc/os-release", "NAME=\"Some Linux\"\nPRETTY_NAME=\"Some Linux 24.04\"\n")
        .file("proc/sys/kernel/osrelease", "6.11.0-20-generic\n")
        .file("proc/sys/kernel/version", "#20-Some SMP PREEMPT_DYNAMIC\n")
        .file("proc/sys/kernel/arch", "x86_64\n")
        .file("proc/self/cgroup", "0::/user.slice/session.scope\n")
        .file("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .file("sys/fs/cgroup/user.slice/session.scope/memory.current", "812000000\n")
        .file("sys/fs/cgroup/user.slice/session.scope/memory.max", "max\n")
        .file("sys/fs/cgroup/user.slice/session.scope/memory.high", "max\n")
        .file("sys/fs/cgroup/cpuset.cpus.effective", "0-19\n")
        .file("sys/fs/cgroup/cgroup.procs", "1\n")
        .file("proc/self/auxv", auxiliary(4096))
        .files("sys/class/dmi/id", &[("sys_vendor", "A Maker\n"), ("product_name", "A Laptop\n")])
        .file("sys/firmware/acpi/platform_profile", "balanced\n")
        .file(&format!("{CPUS}/intel_pstate/no_turbo"), "0\n")
        .file("sys/devices/cpu_core/cpus", "0-7\n")
        .file("sys/devices/cpu_atom/cpus", "8-19\n")
        .file(&format!("{CPUS}/online"), "0-19\n");
    tree = process(tree, "0-19", 0, 0).file("proc/meminfo", meminfo(32_000_000, 20_000_000, 8_000_000, 8_000_000));
    tree = busy(large_pages(tree, "always [madvise] never\n"), 0);
    for cpu in 0..20 {
        let (khz, second) = if cpu < 8 { (5_400_000, cpu.to_string()) } else { (4_600_000, quad(cpu)) };
        tree = core(tree, cpu, &cpu.to_string(), Some(khz));
        tree = policy(tree, cpu, &format!("{cpu}\n"), "powersave", (800_000, khz, khz, 1_200_000));
        let folder = format!("{CPUS}/cpufreq/policy{cpu}");
        tree = tree.file(&format!("{folder}/energy_performance_preference"), "balance_performance\n");
        let (own, size) = if cpu < 8 { ("48K\n", "3072K\n") } else { ("32K\n", "4096K\n") };
        tree = cache(tree, cpu, 0, ("1", "Data", own, &cpu.to_string()));
        tree = cache(tree, cpu, 1, ("2", "Unified", size, &second));
        tree = cache(tree, cpu, 2, ("3", "Unified", "36864K\n", "0-19"));
        let folder = format!("{CPUS}/cpu{cpu}/thermal_throttle");
        tree = tree.files(&folder, &[("core_throttle_count", "0\n"), ("package_throttle_count", "12\n")]);
    }
    tree = zone(tree, 0, "acpitz", "47000\n", &[("critical", "119000\n")]);
    tree = zone(tree, 1, "x86_pkg_temp", "52000\n", &[("passive", "-274000\n")]);
    tree = cooling(cooling(tree, 0, "Fan", "0\n", "1\n"), 1, "Processor", "0\n", "10\n");
    tree.files(
        "sys/class/hwmon/hwmon3",
        &[("name", "coretemp\n"), ("temp1_label", "Package id 0\n"), ("temp1_input", "52000\n")],
    )
    .files("sys/class/power_supply/AC", &[("type", "Mains\n"), ("online", "1\n")])
    .files("sys/class/power_supply/BAT0", &[("type", "Battery\n"), ("status", "Full\n"), ("capacity", "100\n")])
    .files(
        "sys/class/power_supply/hidpp_battery_0",
        &[("type", "Battery\n"), ("scope", "Device\n"), ("status", "Discharging\n")],
    )
    .files("sys/class/powercap/intel-rapl:0", &[("name", "package-0\n"), ("max_energy_range_uj", "262143328850\n")])
    .denied("sys/class/powercap/intel-rapl:0/energy_uj")
    .file("sys/class/powercap/intel-rapl/enabled", "1\n")
}

/// A container on a large host that grants it half a CPU and 512 MiB.
pub fn container() -> Tree {
    let mut tree = Tree::new("linux")
        .file("proc/cpuinfo", cpuinfo("Server CPU 32-core", "0xa101", "fpu sse avx2 avx512f"))
        .file("etc/os-release", "PRETTY_NAME='Small Linux 3'\n")
        .file("proc/sys/kernel/osrelease", "6.8.0\n")
        .file("proc/sys/kernel/version", "#1 SMP\n")
        .prints("uname -m", "x86_64\n")
        .prints("getconf PAGESIZE", "4096\n")
        .denied("proc/self/auxv")
        .file("proc/self/cgroup", "0::/\n")
        .file("proc/self/mountinfo", "40 39 0:29 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n")
        .file("run/.containerenv", "")
        .files(
            "sys/fs/cgroup",
            &[
                ("cpu.max", "50000 100000\n"),
                ("cpu.stat", "usage_usec 90\nnr_periods 400\nnr_throttled 310\nthrottled_usec 15500000\n"),
                ("cpuset.cpus.effective", "0-31\n"),
                ("memory.max", "536870912\n"),
                ("memory.high", "max\n"),
                ("memory.current", "201326592\n"),
                ("memory.stat", "anon 100\ninactive_file 67108864\n"),
            ],
        )
        .file(&format!("{CPUS}/online"), "0-31\n");
    tree = process(tree, "0-31", 0, 0).file("proc/meminfo", meminfo(128_000_000, 90_000_000, 0, 0));
    tree = busy(large_pages(tree, "[always] madvise never\n"), 0);
    for cpu in 0..32 {
        tree = core(tree, cpu, &cpu.to_string(), None);
    }
    tree
}

/// A Raspberry Pi that its supply does not feed well.
pub fn raspberry_pi() -> Tree {
    let mut tree = Tree::new("linux")
        .file("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd asimddp\nCPU part\t: 0xd0b\n\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n")
        .file("proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")
        .file("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n")
        .file("proc/sys/kernel/osrelease", "6.6.31+rpt-rpi-2712\n")
        .file("proc/sys/kernel/version", "#1 SMP PREEMPT\n")
        .file("proc/sys/kernel/arch", "aarch64\n")
        .prints("vcgencmd get_throttled", "throttled=0x50005\n")
        .file("proc/self/cgroup", "0::/user.slice\n")
        .file("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .file("sys/fs/cgroup/cgroup.procs", "1\n")
        .file("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n")
        .file("proc/self/auxv", auxiliary(16_384))
        .file(&format!("{CPUS}/online"), "0-3\n");
    tree = process(tree, "0-3", 0, 0).file("proc/meminfo", meminfo(8_000_000, 6_500_000, 200_000, 200_000));
    tree = busy(large_pages(tree, "[always] madvise never\n"), 0);
    for cpu in 0..4 {
        tree = core(tree, cpu, &cpu.to_string(), Some(2_400_000));
        tree = tree.file(&format!("{CPUS}/cpu{cpu}/cpu_capacity"), "1024\n");
        tree = cache(tree, cpu, 0, ("1", "Data", "64K\n", &cpu.to_string()));
        tree = cache(tree, cpu, 1, ("2", "Unified", "512K\n", &cpu.to_string()));
        tree = cache(tree, cpu, 2, ("3", "Unified", "2048K\n", "0-3"));
    }
    tree = policy(tree, 0, "0 1 2 3\n", "ondemand", (1_500_000, 2_400_000, 1_800_000, 1_800_000));
    tree = zone(tree, 0, "cpu-thermal", "83450\n", &[("critical", "110000\n"), ("active", "50000\n")]);
    cooling(tree, 0, "pwm-fan", "4\n", "4\n")
}

/// A virtual machine that shows next to nothing of the one below it, with control groups of both versions.
pub fn virtual_machine() -> Tree {
    let mut tree = Tree::new("linux")
        .file("proc/cpuinfo", cpuinfo("Server Processor", "0x1", "fpu sse hypervisor avx2 avx512f"))
        .file("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n")
        .file("proc/sys/kernel/osrelease", "6.18.44\n")
        .file("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n")
        .file("proc/sys/kernel/arch", "x86_64\n")
        .file(".dockerenv", "")
        .file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/box/1\n3:cpuset:/\n1:cpu:/\n0::/\n")
        .file(
            "proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
             32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
             34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
             35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        )
        .files("sys/fs/cgroup/cpu", &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")])
        .file("sys/fs/cgroup/cpu/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n")
        .file("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-1\n")
        .file("sys/fs/cgroup/memory/box/1/memory.limit_in_bytes", "9223372036854771712\n")
        .file("sys/fs/cgroup/memory/box/1/memory.usage_in_bytes", "5000000000\n")
        .file("sys/fs/cgroup/unified/cpu.stat", "usage_usec 100\nuser_usec 60\nsystem_usec 40\n")
        .file("proc/self/auxv", auxiliary(4096))
        .file(&format!("{CPUS}/online"), "0-1\n")
        // Folders that are there and empty.
        .folder(&format!("{CPUS}/cpufreq"))
        .folder("sys/class/thermal")
        .folder("sys/class/power_supply");
    tree = process(tree, "0-1", 0, 0).file("proc/meminfo", meminfo(24_000_000, 21_000_000, 0, 0));
    tree = busy(large_pages(tree, "always defer defer+madvise [madvise] never\n"), 140);
    for cpu in 0..2 {
        tree = core(tree, cpu, &cpu.to_string(), None);
        tree = tree.file(&format!("{CPUS}/cpu{cpu}/cpu_capacity"), "1024\n");
        tree = cache(tree, cpu, 0, ("1", "Data", "48K\n", &cpu.to_string()));
        tree = cache(tree, cpu, 1, ("1", "Instruction", "64K\n", &cpu.to_string()));
        tree = cache(tree, cpu, 2, ("2", "Unified", "2048K\n", &cpu.to_string()));
        tree = cache(tree, cpu, 3, ("3", "Unified", "491520K\n", "0-1"));
    }
    tree
}

fn cpuinfo(model: &str, microcode: &str, flags: &str) -> String {
    format!("processor\t: 0\nmodel name\t: {model}\nmicrocode\t: {microcode}\nflags\t\t: {flags}\n\n")
}

fn meminfo(total_kb: u64, available_kb: u64, swap_kb: u64, swap_free_kb: u64) -> String {
    format!(
        "MemTotal:       {total_kb} kB\nMemFree:        1000000 kB\nMemAvailable:   {available_kb} kB\n\
         SwapTotal:      {swap_kb} kB\nSwapFree:       {swap_free_kb} kB\n"
    )
}

/// What the kernel tells a program at its start, with the size of a page.
fn auxiliary(page_bytes: u64) -> Vec<u8> {
    [33, 0x7ffc_0000, 6, page_bytes, 17, 100, 0, 0].iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
}

/// What the system says of this process, which may run on `cpus` and has two threads.
fn process(tree: Tree, cpus: &str, policy: u32, nice: i32) -> Tree {
    let status = |voluntary: u32| {
        format!(
            "Name:\tduan\nThreads:\t2\nVmHWM:\t  250000 kB\nVmRSS:\t  200000 kB\nCpus_allowed_list:\t{cpus}\n\
             voluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t3\n"
        )
    };
    let stat = format!(
        "100 (duan) R 1 1 1 0 -1 4194304 900 0 12 0 250 50 0 0 20 {nice} 2 0 5000 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 0 0 {policy} 0 0\n"
    );
    tree.file("proc/self/stat", stat)
        .file("proc/self/status", status(40))
        .file("proc/thread-self/status", status(40))
        .file("proc/self/task/100/status", status(40))
        .file("proc/self/task/101/status", status(2))
        .file("proc/self/io", "rchar: 9000\nread_bytes: 4096000\nwrite_bytes: 0\n")
}

/// What the machine did, of which the hypervisor took so many ticks.
fn busy(tree: Tree, steal: u64) -> Tree {
    let pressure =
        "some avg10=1.50 avg60=0.50 avg300=0.10 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    tree.file("proc/stat", format!("cpu  4000 100 900 8000 60 0 40 {steal} 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"))
        .file("proc/loadavg", "0.42 0.30 0.20 1/90 4000\n")
        .files("proc/pressure", &[("cpu", pressure), ("memory", pressure), ("io", pressure)])
}

fn large_pages(tree: Tree, enabled: &str) -> Tree {
    tree.files("sys/kernel/mm/transparent_hugepage", &[("enabled", enabled), ("hpage_pmd_size", "2097152\n")])
}

fn core(tree: Tree, cpu: usize, siblings: &str, khz: Option<u64>) -> Tree {
    let folder = format!("{CPUS}/cpu{cpu}");
    let tree =
        tree.files(&folder, &[("topology/physical_package_id", "0\n"), ("topology/thread_siblings_list", siblings)]);
    match khz {
        Some(khz) => tree.file(&format!("{folder}/cpufreq/cpuinfo_max_freq"), format!("{khz}\n")),
        None => tree,
    }
}

/// Frequencies: the least and the most it is built for, the most that is allowed, and the present one.
fn policy(
    tree: Tree,
    first: usize,
    cpus: &str,
    governor: &str,
    (least, built, allowed, now): (u64, u64, u64, u64),
) -> Tree {
    let folder = format!("{CPUS}/cpufreq/policy{first}");
    let files = [
        ("affected_cpus", cpus.to_owned()),
        ("scaling_driver", "some-driver\n".to_owned()),
        ("scaling_governor", format!("{governor}\n")),
        ("cpuinfo_min_freq", format!("{least}\n")),
        ("cpuinfo_max_freq", format!("{built}\n")),
        ("scaling_min_freq", format!("{least}\n")),
        ("scaling_max_freq", format!("{allowed}\n")),
        ("scaling_cur_freq", format!("{now}\n")),
    ];
    files.iter().fold(tree, |tree, (name, text)| tree.file(&format!("{folder}/{name}"), text))
}

fn cache(tree: Tree, cpu: usize, index: usize, (level, kind, size, cpus): (&str, &str, &str, &str)) -> Tree {
    let folder = format!("{CPUS}/cpu{cpu}/cache/index{index}");
    tree.files(&folder, &[("level", level), ("type", kind), ("size", size), ("shared_cpu_list", cpus)])
}

/// The four efficiency cores that share a cache, of which `cpu` is one.
fn quad(cpu: usize) -> String {
    let first = cpu / 4 * 4;
    format!("{first}-{}", first + 3)
}

fn zone(tree: Tree, number: usize, kind: &str, temperature: &str, trips: &[(&str, &str)]) -> Tree {
    let folder = format!("sys/class/thermal/thermal_zone{number}");
    let mut tree = tree.files(&folder, &[("type", kind), ("temp", temperature)]);
    for (index, (kind, temperature)) in trips.iter().enumerate() {
        tree = tree.file(&format!("{folder}/trip_point_{index}_type"), kind);
        tree = tree.file(&format!("{folder}/trip_point_{index}_temp"), temperature);
    }
    tree
}

fn cooling(tree: Tree, number: usize, kind: &str, state: &str, most: &str) -> Tree {
    let folder = format!("sys/class/thermal/cooling_device{number}");
    tree.files(&folder, &[("type", kind), ("cur_state", state), ("max_state", most)])
}
