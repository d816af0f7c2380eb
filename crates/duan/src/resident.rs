//! From a plan to weights that are resident, and what is told of those that are kept between starts.

use duan_engine::{Event, Executor, Plan};
use duan_model::Model;
use duan_model::checkpoint::Checkpoint;

use crate::devices::Devices;
use crate::error::{Error, Result};
use crate::options::EngineOptions;
use crate::packs::{ModelPacks, Notice, PackOptions, Packing};

/// Compiles a model with the packing of the options.
pub(crate) fn load(
    file: &Checkpoint,
    model: &Model,
    plan: &Plan,
    options: &EngineOptions,
    devices: &Devices,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Executor> {
    let packs = match &options.packing {
        Packing::Kept(packs) if devices.lay_weights_out() => Some((ModelPacks::of(file, packs), packs)),
        Packing::Kept(_) | Packing::InMemory | Packing::AsInFile => None,
    };
    let packing = match (&options.packing, &packs) {
        (Packing::AsInFile, _) => duan_backend::Packing::AsInFile,
        (_, Some((Some(store), PackOptions { reading, .. }))) => {
            duan_backend::Packing::Kept { store, reading: *reading }
        }
        _ => duan_backend::Packing::InMemory,
    };
    let loaded = Executor::load_packed(model, &devices.backends(), plan, &options.sizes(), packing);
    if let Some((Some(packs), _)) = &packs {
        let folder = packs.path().to_string_lossy();
        for notice in packs.take_notices() {
            on_event(&match &notice {
                Notice::NotKept(reason) => Event::PackNotKept { reason },
                Notice::Discarded(reason) => Event::PackDiscarded { reason },
                Notice::Kept(bytes) => Event::PackKept { bytes: *bytes, folder: &folder },
            });
        }
    }
    let executor = loaded.map_err(|source| Error::Load { file: file.label().to_owned(), source })?;
    for (device, message) in executor.warnings() {
        on_event(&Event::DeviceWarning { device: &device, message: &message });
    }
    Ok(executor)
}
