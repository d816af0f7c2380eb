//! The devices of this machine.

use std::ops::ControlFlow;

use duan_backend::{Backend, Precision, Reference};
use duan_cpu::{Cpu, CpuOptions};
use duan_engine::{Offer, Plan, make_plan};
use duan_model::Model;
use duan_quant::Format;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::kernels::{KernelProgress, KernelReport};
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
    /// What is known of a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuInfo>,
}

/// What is known of the CPU, and what it settled on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuInfo {
    /// What the processor calls itself, where the system tells.
    pub model: Option<String>,
    /// Processors that this process may run on.
    pub processors: usize,
    /// Threads while one token is computed.
    pub threads_decode: usize,
    /// Threads while a prompt is computed.
    pub threads_prefill: usize,
    /// Why decode has that many.
    pub thread_reason: String,
    /// How many are held to some of the processors.
    pub threads_held: usize,
    /// The instruction set that kernels use.
    pub isa: String,
    /// The instruction sets that kernels exist for and this CPU has, the best last.
    pub isas_available: Vec<String>,
    /// Weight formats with kernels of their own.
    pub kernel_formats: Vec<String>,
}

impl CpuInfo {
    fn of(cpu: &Cpu) -> Self {
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        Self {
            model: cpu.model_name().map(str::to_owned),
            processors: cpu.allowed_processors(),
            threads_decode: cpu.threads_decode(),
            threads_prefill: cpu.threads_prefill(),
            thread_reason: cpu.thread_reason().to_owned(),
            threads_held: cpu.threads_held(),
            isa: cpu.isa().to_owned(),
            isas_available: owned(Cpu::isas_available()),
            kernel_formats: owned(Cpu::kernel_formats()),
        }
    }
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
            no_fuse: options.no_fuse.clone(),
            distrust: options.distrust.clone(),
            isa: options.isa.clone(),
            pinning: options.pinning,
        })?;
        let reference = Reference::new(Precision::Coded).with_memory_available(cpu.memory_available_bytes());
        Ok(Self { cpu, reference, only_reference })
    }

    /// The devices that plans may use, in the order of preference.
    pub(crate) fn backends(&self) -> Vec<&dyn Backend> {
        if self.only_reference { vec![&self.reference] } else { vec![&self.cpu, &self.reference] }
    }

    /// Whether a device lays weights out in another order than the file's.
    pub(crate) fn lay_weights_out(&self) -> bool {
        !self.only_reference
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
        Ok(make_plan(&model.graph, &offers, allow_fallback)?.with_fusions(model, &self.backends()))
    }

    /// What runs for each of `formats` on the CPU, and how fast it is.
    pub(crate) fn kernels(
        &self,
        formats: &[&'static Format],
        on_progress: &mut dyn FnMut(&KernelProgress) -> ControlFlow<()>,
    ) -> Result<Option<KernelReport>> {
        let report = self.cpu.kernel_rates(formats, &mut |progress| on_progress(&progress.into()))?;
        Ok(report.map(KernelReport::from))
    }

    /// The CPU itself.
    pub(crate) fn cpu_device(&self) -> &Cpu {
        &self.cpu
    }

    /// What is known of the CPU.
    pub(crate) fn cpu(&self) -> CpuInfo {
        CpuInfo::of(&self.cpu)
    }

    /// All devices, for people.
    pub(crate) fn list(&self) -> Vec<DeviceInfo> {
        let all: [&dyn Backend; 2] = [&self.cpu, &self.reference];
        let info = |device: &dyn Backend| DeviceInfo {
            name: device.name().to_owned(),
            description: device.description(),
            memory_available_bytes: device.memory_available_bytes(),
            last_resort: device.name() == REFERENCE,
            cpu: (device.name() == CPU).then(|| CpuInfo::of(&self.cpu)),
        };
        all.into_iter().map(info).collect()
    }
}
