//! Run large language models on the device you own: the one public API.
//!
//! ```no_run
//! let mut engine = duan::Engine::new(duan::EngineOptions::default())?;
//! engine.load_model("model.gguf")?;
//! println!("{}", engine.chat("Hello")?);
//! # Ok::<(), duan::Error>(())
//! ```
//!
//! An [`Engine`] opens the devices of this machine and holds one model with its conversation:
//!
//! * [`Engine::chat`] answers in a conversation of several turns, [`Engine::chat_with`] streams and can be stopped;
//! * [`Engine::complete`] continues a text without a template, [`Engine::logits`] gives what evaluation needs;
//! * [`Engine::inspect`] and [`Engine::plan_model`] say what a file is, needs and would run on, without loading it;
//! * [`FileFacts`] are all that can be said of a file, also of one that cannot run here;
//! * [`Packing`] says whether weights that were laid out for a device are kept on the disk, [`PackFolder`] what is kept;
//! * [`bench::bench`] measures prefill and decode beside the ceiling that the memory puts over decode;
//! * [`profile::profile`] says where the time of its passes goes, op by op, and writes that as a trace;
//! * [`eval::evaluate`] says how good models are on a text, and how far from a reference;
//! * [`importance::gather`] sums up what a model's matrices are multiplied with while it reads a text;
//! * [`sensitivity::measure`] says how much a model's output moves when one of its matrices is quantized;
//! * [`records`] keeps what was measured, with its settings, and compares it;
//! * [`page`] writes what was measured as one HTML page that needs nothing else;
//! * [`Engine::state`] is the machine as it is now, and what duan made of it; [`state::ModelState`] what is known of a model's file;
//! * [`Engine::ceilings`] says what the machine can do at most, and [`ceilings`] what a share of that means;
//! * [`Engine::card`] says what a device is good for;
//! * [`Engine::kernels`] measures what runs for each weight format, beside memory and multiplier;
//! * [`convert`] writes a model as GGUF, whatever it is read from;
//! * [`quantize`] writes a model's weights in fewer bits;
//! * [`synth`] writes models of random weights with the shapes of public ones, to be timed.
//!
//! A model is a path here. Names are resolved by [`hub`], whose result has a path. What happens on the way is told as
//! [`Event`]s; nothing here prints. Answers can be stopped from a signal handler or another thread through
//! [`EngineOptions::cancel`].
//!
//! This crate is one door for all faces, and must never know one of them: no words for terminals, no HTTP, no Python. Start
//! reading at `engine.rs`; `loaded.rs` is the way from a path to a model that answers.

mod answer;
pub mod bench;
pub mod card;
pub mod ceilings;
mod chat;
pub mod convert;
mod devices;
mod engine;
mod error;
pub mod eval;
pub mod facts;
pub mod importance;
mod kernels;
mod loaded;
mod options;
pub mod packs;
pub mod page;
mod place;
pub mod profile;
pub mod records;
mod resident;
pub mod sensitivity;
pub mod state;
mod summary;

pub use duan_backend::KvFormat;
pub use duan_cpu::{Fusion, Pinning};
pub use duan_engine::{
    DeviceMemory, Event, FinishReason, FusionCount, MemoryNeed, OnEvent, Phase, Plan, PlanSummary, SamplingOptions,
    SegmentSummary, Sizes, Timings,
};
pub use duan_hub as hub;
pub use duan_hub::Hub;
pub use duan_measure::synth;
pub use duan_model as model;
pub use duan_model::graph::OpKind;
pub use duan_model::template::Message;
pub use duan_model::tokenizer::Tokenizer;
pub use duan_quant as quant;
pub use duan_quantize as quantize;

pub use answer::Answer;
pub use devices::{CpuInfo, DeviceInfo};
pub use engine::Engine;
pub use error::{Error, Result};
pub use facts::FileFacts;
pub use kernels::{KernelProgress, KernelReport, KernelRow};
pub use options::{CompleteOptions, EngineOptions, writable_format};
pub use packs::{PackFolder, PackOptions, Packing};
pub use place::check_place;
pub use summary::{FormatCount, ModelSummary, SpecialToken, TokenizerSummary};
