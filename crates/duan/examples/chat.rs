//! Three lines to a first answer: `cargo run --release -p duan --example chat -- model.gguf`

use anyhow::Context as _;

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("give the path of a model: chat MODEL.gguf")?;

    let options = duan::EngineOptions { max_tokens: Some(100), ..duan::EngineOptions::default() };
    let mut engine = duan::Engine::new(options)?;
    engine.load_model(path)?;
    println!("{}", engine.chat("What is the capital of Japan?")?);
    Ok(())
}
