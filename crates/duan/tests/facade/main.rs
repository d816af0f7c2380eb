//! The facade on tiny random models: what a face sees.

mod conversations;
mod eval;
mod importance;
mod loading;
mod logits;
mod packing;
mod state;
mod support;
mod texts;
