//! Fetches a model and shows each event: `cargo run -p duan-hub --example fetch -- [MODEL]`.

use duan_hub::{DEFAULT_MODEL, Hub, HubOptions, ModelName};

fn main() -> Result<(), duan_hub::Error> {
    let argument = std::env::args().nth(1);
    let name = ModelName::parse(argument.as_deref().unwrap_or(DEFAULT_MODEL))?;
    let hub = Hub::new(HubOptions::default())?;
    let file = hub.resolve(&name, &mut |event| eprintln!("{event:?}"))?;
    println!("{}", file.path.display());
    for model in hub.list()? {
        println!("{model:?}");
    }
    Ok(())
}
