//! `duan devices`

mod card;
mod ceilings;
mod kernels;
mod state;

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use duan::quant::{FORMATS, Format, format_by_name};
use duan::records::profile_from_elsewhere;
use duan::{CpuInfo, DeviceInfo, Engine, EngineOptions};
use serde_json::json;

use super::records::profile_line;
use crate::args::{Cli, Common, isa_of_environment, threads_of_environment};
use crate::interrupt::Interrupt;
use crate::output::style::on_one_line;
use crate::output::units::ByteUnit;
use crate::output::{Align, Table, print, print_json};

/// List the devices of this machine: what they are, what they use of it, and the state that it is in
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure what runs for each weight format on the CPU, or for these: --kernels=q4_0,q6_k; takes half a minute for all
    ///
    /// Made-up weights are multiplied with one token (decode: GB/s of weights, and the share of the memory's read bandwidth) and
    /// with 256 (prefill: thousand million multiply-adds a second, and the share of what the kernel's own instructions give in
    /// registers), each beside its ceiling in the same run, the best of some rounds. Whatever else runs on the machine meanwhile
    /// takes part of it. SELF-TEST says whether a kernel computed what the format's definition says; a model's are asked before
    /// it is loaded. RUN ON says whether the project ever ran this instruction set on a real CPU.
    #[arg(long, value_name = "FORMAT,..", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    kernels: Option<Vec<String>>,
    /// Show what this machine can do at most; measures it, which takes some seconds, where nothing was kept that still holds
    ///
    /// How fast memory is read and how long threads wait for each other, for each number of threads; how fast each sequence of
    /// instructions multiplies; and the clock of the cores, by counted additions. What is measured is kept for this device for a week,
    /// and measured anew when the machine's state differs. docs/ceilings.md explains the figures.
    #[arg(long, group = "figures", conflicts_with = "kernels")]
    ceilings: bool,
    /// Say what this device is good for: formats, models, rates to expect, and what stands in its way
    ///
    /// Rests on the ceilings (kept, or measured now), the memory that is free now, the built-in catalogue and the state of the machine;
    /// each line says on which of them. Rates are forecasts, at 60 to 100 % of the ceiling.
    #[arg(long, group = "figures", conflicts_with = "kernels")]
    card: bool,
    /// Measure the ceilings anew, though those that were kept still hold
    #[arg(long, requires = "figures")]
    again: bool,
}

/// Prints the devices in the order of preference with the state of the machine, or the kernels of the CPU.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let formats = args.kernels.map(|names| names.iter().map(|name| format(name)).collect::<Vec<_>>());
    let (threads, isa) = (threads_of_environment(), isa_of_environment());
    let options = EngineOptions { threads, isa, ..EngineOptions::default() };
    let engine = Engine::new(options)?;
    if let Some(formats) = formats {
        return kernels::run(&engine, &formats, common);
    }
    if args.card {
        return card::run(&engine, &Interrupt::install()?, args.again, common);
    }
    if args.ceilings {
        return ceilings::run(&engine, &Interrupt::install()?, args.again, common);
    }
    let (devices, state) = (engine.devices(), engine.state());
    let profile = profile_from_elsewhere(&state.machine.chip());
    if common.json {
        print_json(&json!({ "devices": devices, "state": state, "profile": profile }))?;
    } else {
        print(&table(&devices).text())?;
        for cpu in devices.iter().filter_map(|device| device.cpu.as_ref()) {
            print("\n")?;
            print(&facts(cpu).text())?;
        }
        print(&state::text(&state.machine))?;
        if let Some(profile) = profile {
            print(&format!("\n{}\n", profile_line(&profile)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The format of a name; another one is wrong usage.
fn format(name: &str) -> &'static Format {
    format_by_name(name).unwrap_or_else(|| {
        let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        let message = format!("{} is no weight format; there are {}", on_one_line(name), known.join(", "));
        Cli::command().error(ErrorKind::InvalidValue, message).exit()
    })
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

/// Names of formats, where those of integers in groups are too many to be told one by one.
fn format_names<T: AsRef<str>>(names: &[T]) -> String {
    let is_group = |name: &str| format_by_name(name).is_some_and(|format| format.gguf_id.is_none());
    let mut told: Vec<&str> = names.iter().map(T::as_ref).filter(|name| !is_group(name)).collect();
    if told.len() < names.len() {
        told.push("int4 and int8 in groups");
    }
    told.join(", ")
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
    row("formats with kernels", format_names(&cpu.kernel_formats));
    table
}
