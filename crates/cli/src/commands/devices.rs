//! `duan devices`

use std::process::ExitCode;

use duan::{CpuInfo, DeviceInfo, Engine, EngineOptions};
use serde_json::json;

use crate::args::{Common, isa_of_environment, threads_of_environment};
use crate::output::style::on_one_line;
use crate::output::units::ByteUnit;
use crate::output::{Align, Table, print, print_json};

/// List the devices of this machine: what they are, and what they use of it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Prints the devices in the order of preference.
pub(crate) fn run(_: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let (threads, isa) = (threads_of_environment(), isa_of_environment());
    let options = EngineOptions { threads, isa, ..EngineOptions::default() };
    let devices = Engine::new(options)?.devices();
    if common.json {
        print_json(&json!({ "devices": devices }))?;
    } else {
        print(&table(&devices).text())?;
        for cpu in devices.iter().filter_map(|device| device.cpu.as_ref()) {
            print("\n")?;
            print(&facts(cpu).text())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(devices: &[DeviceInfo]) -> Table {
    let unit = ByteUnit::for_largest(devices.iter().filter_map(|device| device.memory_available_bytes));
    let free = format!("FREE {}", unit.name());
    let mut table = Table::new(&[("DEVICE", Align::Left), (&free, Align::Right), ("WHAT IT IS", Align::Left)]);
    for device in devices {
        let memory = device.memory_available_bytes.map_or("?".to_owned(), |bytes| unit.number(bytes));
        let last = if device.last_resort { " (last resort: runs what the others refuse)" } else { "" };
        table.row([device.name.clone(), memory, on_one_line(&device.description) + last]);
    }
    table
}

/// What the CPU settled on, and why.
fn facts(cpu: &CpuInfo) -> Table {
    let mut table = Table::new(&[("CPU", Align::Left), ("", Align::Left)]);
    let threads = if cpu.threads_prefill == cpu.threads_decode {
        cpu.threads_decode.to_string()
    } else {
        format!("{} for decode, {} for prefill", cpu.threads_decode, cpu.threads_prefill)
    };
    let model = cpu.model.as_deref().map_or("not readable".to_owned(), on_one_line);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("processor", model);
    row("processors usable", cpu.processors.to_string());
    let held = match cpu.threads_held {
        0 => String::new(),
        held => format!("; {held} held to the fast cores"),
    };
    row("threads", format!("{threads}: {}{held}", cpu.thread_reason));
    row("instruction sets", format!("{} used; {} found", cpu.isa, cpu.isas_available.join(", ")));
    row("formats with kernels", cpu.kernel_formats.join(", "));
    table
}
