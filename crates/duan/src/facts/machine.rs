//! The machine that a model is judged for: this one, or another of which something is known.

use std::path::Path;

use serde::Deserialize;

use crate::devices::DeviceInfo;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// The machine that a model is judged for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Machine {
    /// Name of its device.
    pub device: String,
    /// Bytes that it can give to a model, where that is known.
    pub memory_available_bytes: Option<u64>,
    /// Weight formats with kernels of their own, where that is known.
    pub kernel_formats: Option<Vec<String>>,
    /// Whether it is this one, so that more can be found out.
    pub is_here: bool,
}

/// What `duan devices --json` prints, as far as it is read.
#[derive(Deserialize)]
struct Devices {
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    name: String,
    memory_available_bytes: Option<u64>,
    #[serde(default)]
    last_resort: bool,
    cpu: Option<Cpu>,
}

#[derive(Deserialize)]
struct Cpu {
    kernel_formats: Option<Vec<String>>,
}

impl Machine {
    /// This machine, by the device that the engine's options prefer.
    pub fn here(engine: &Engine) -> Self {
        let devices = engine.devices();
        // The engine has refused names that are none of theirs; without a name the first is the preferred one.
        let wanted = engine.options().device.as_deref();
        let device = devices.into_iter().find(|device| wanted.is_none_or(|name| name == device.name));
        let formats = |device: &DeviceInfo| Some(device.cpu.as_ref()?.kernel_formats.clone());
        Self {
            kernel_formats: device.as_ref().and_then(formats),
            memory_available_bytes: device.as_ref().and_then(|device| device.memory_available_bytes),
            device: device.map(|device| device.name).unwrap_or_default(),
            is_here: true,
        }
    }

    /// A machine of which only the memory is known that it can give to a model.
    pub fn with_memory(bytes: u64) -> Self {
        let device = "the other device".to_owned();
        Self { device, memory_available_bytes: Some(bytes), kernel_formats: None, is_here: false }
    }

    /// The machine that wrote the file at `path` with `duan devices --json`, by its preferred device.
    ///
    /// # Errors
    /// [`Error::NoMachine`] where the file cannot be read or says something else.
    pub fn read(path: &Path) -> Result<Self> {
        let read: Option<Devices> = duan_files::read_json(path);
        let device = read.and_then(|read| read.devices.into_iter().find(|device| !device.last_resort));
        let Some(device) = device else { return Err(Error::NoMachine { file: path.to_string_lossy().into_owned() }) };
        Ok(Self {
            device: device.name,
            memory_available_bytes: device.memory_available_bytes,
            kernel_formats: device.cpu.and_then(|cpu| cpu.kernel_formats),
            is_here: false,
        })
    }
}
