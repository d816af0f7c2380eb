//! The machine as its operating system shows it: what it is, what this process may use of it, and what moves while something runs.
//!
//! * [`State`] is a snapshot: processor, limits, memory, power, heat. [`differences`] names what would make a measurement
//!   differ between two, [`Chip`] is what does not change.
//! * [`Counters`] are cheap to read before and after a run; [`Movement`] is what happened between.
//! * [`Topology`] says which cores there are and how many threads to run by default, [`available_bytes`] how much memory may still be
//!   taken.
//!
//! Everything is read through a [`Source`]: [`Local`] is a root folder and a way to run commands, [`made_up`] has machines that do not
//! exist. What cannot be read is a [`Reading::NotReadable`] with the reason in one line; nothing is guessed, and nothing that a file says
//! is believed where it cannot be so.
//!
//! This crate must never know models, measurements, terminals or an instruction set. Start reading at `source.rs`, then `state.rs`.

mod chip;
mod command;
mod counters;
mod differences;
mod frequency;
mod groups;
mod limits;
mod macos;
pub mod made_up;
mod memory;
mod memory_state;
mod movement;
mod power;
mod pressure;
mod process;
mod process_memory;
mod processor;
mod reading;
mod source;
mod state;
mod thermal;
mod topology;
mod virtualization;

pub use chip::{Chip, ChipCores};
pub use command::{Ended, NoCommands, RunCommand, SystemCommands, run_to_end};
pub use counters::{Counters, Energy, FrequencyNow, TemperatureNow};
pub use differences::{Difference, differences};
pub use frequency::{Frequency, FrequencyPolicy};
pub use limits::{Limits, Throttling};
pub use memory::available_bytes;
pub use memory_state::Memory;
pub use movement::{CoolingMoved, EnergyUsed, FrequencyMoved, Movement, TemperatureMoved};
pub use power::{Battery, Power, PowerSource};
pub use pressure::{Pressure, Stall, StallShares, load_average};
pub use process_memory::{ProcessMemory, reset_peak_resident};
pub use processor::{Cache, CoreState, Processor};
pub use reading::Reading;
pub use source::{FILE_LIMIT_BYTES, LIST_LIMIT, Local, Source, Unreadable, Why};
pub use state::{OperatingSystem, State};
pub use thermal::{CoolingDevice, PiThrottling, Sensor, Thermal, ThermalZone, ThrottleCounts, TripPoint};
pub use topology::{Core, CoreClass, ThreadChoice, Topology, affinity};
pub use virtualization::Virtualization;

/// CPUs as the kernel lists them: `0-3,8`.
pub fn cpu_list(cpus: &[usize]) -> String {
    differences::list(cpus)
}
