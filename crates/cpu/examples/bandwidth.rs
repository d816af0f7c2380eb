//! How fast the memory can be read: `cargo run --release -p duan-cpu --example bandwidth -- [THREADS]`

use duan_cpu::{Cpu, CpuOptions, Pages};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let isa = std::env::var("DUAN_ISA").ok();
    let cpu = Cpu::new(CpuOptions { isa, ..CpuOptions::default() })?;
    for pages in [Pages::Ordinary, Pages::Large] {
        let read = cpu.read_bandwidth(threads, pages)?;
        let (rate, bytes) = (read.bytes_per_s / 1e9, read.bytes as f64 / 1e9);
        println!(
            "{} pages: {rate:.2} GB/s, {} threads, {}, best of {} reads of {bytes:.2} GB",
            read.pages, read.threads, read.way, read.reads
        );
    }
    Ok(())
}
