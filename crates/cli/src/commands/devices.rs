//! `duan devices`

use std::process::ExitCode;

use duan::{DeviceInfo, Engine, EngineOptions};
use serde_json::json;

use crate::args::{Common, threads_of_environment};
use crate::output::style::on_one_line;
use crate::output::units::ByteUnit;
use crate::output::{Align, Table, print, print_json};

/// List the devices of this machine: what they are, and what they use of it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Prints the devices in the order of preference.
pub(crate) fn run(_: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let options = EngineOptions { threads: threads_of_environment(), ..EngineOptions::default() };
    let devices = Engine::new(options)?.devices();
    if common.json {
        print_json(&json!({ "devices": devices }))?;
    } else {
        print(&table(&devices).text())?;
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
