//! The devices of this machine.

use duan_backend::{Backend, Precision, Reference};
use duan_cpu::{Cpu, CpuOptions};
use duan_engine::{Offer, Plan, make_plan};
use duan_model::Model;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::options::EngineOptions;

const CPU: &str = "cpu";
const REFERENCE: &str = "reference";

/// A device that models can run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// The name to give to [`EngineOptions::device`].
    pub name: String,
    /// What it is and what it uses.
    pub description: String,
    /// Bytes that it could still give to a model, where that can be read.
    pub memory_available_bytes: Option<u64>,
    /// Whether it only runs what the other devices refuse, unless it is asked for.
    pub last_resort: bool,
}

/// All devices, opened once.
#[derive(Debug)]
pub(crate) struct Devices {
    cpu: Cpu,
    reference: Reference,
    only_reference: bool,
}

impl Devices {
    /// Opens the devices; which is preferred is checked here.
    pub(crate) fn open(options: &EngineOptions) -> Result<Self> {
        let only_reference = match options.device.as_deref() {
            None | Some(CPU) => false,
            Some(REFERENCE) => true,
            Some(other) => {
                let known = [CPU, REFERENCE].join(", ");
                return Err(Error::UnknownDevice { name: other.escape_debug().to_string(), known });
            }
        };
        let cpu = Cpu::new(CpuOptions {
            threads_decode: options.threads,
            threads_prefill: options.threads_prefill,
            refuse: options.refuse.clone(),
            ..CpuOptions::default()
        })?;
        Ok(Self { cpu, reference: Reference::new(Precision::Coded), only_reference })
    }

    /// The devices that plans may use, in the order of preference.
    pub(crate) fn backends(&self) -> Vec<&dyn Backend> {
        if self.only_reference { vec![&self.reference] } else { vec![&self.cpu, &self.reference] }
    }

    /// The device that is preferred.
    pub(crate) fn preferred(&self) -> &dyn Backend {
        if self.only_reference { &self.reference } else { &self.cpu }
    }

    /// Gives each op of a model its device.
    pub(crate) fn plan(&self, model: &Model, allow_fallback: bool) -> Result<Plan> {
        let offer = |backend: &dyn Backend| Offer {
            device: backend.name().to_owned(),
            refusals: backend.refusals(model),
            last_resort: backend.name() == REFERENCE,
        };
        let offers: Vec<Offer> = self.backends().into_iter().map(offer).collect();
        Ok(make_plan(&model.graph, &offers, allow_fallback)?)
    }

    /// All devices, for people.
    pub(crate) fn list(&self) -> Vec<DeviceInfo> {
        let all: [&dyn Backend; 2] = [&self.cpu, &self.reference];
        let info = |device: &dyn Backend| DeviceInfo {
            name: device.name().to_owned(),
            description: device.description(),
            memory_available_bytes: device.memory_available_bytes(),
            last_resort: device.name() == REFERENCE,
        };
        all.into_iter().map(info).collect()
    }
}
