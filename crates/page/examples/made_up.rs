//! Writes pages of made-up data into a folder, for looking at and for the check in a browser: `scripts/page/check.mjs`.

#[allow(dead_code, reason = "tests use all of it")]
#[path = "../tests/made_up/mod.rs"]
mod made_up;

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("a folder to write to"));
    std::fs::create_dir_all(&folder)?;
    let pages = [
        ("bench.html", made_up::bench_page("Small-135M")),
        ("compare.html", made_up::comparison_page("Small-135M")),
        ("hostile.html", made_up::bench_page(made_up::HOSTILE)),
        ("hostile-compare.html", made_up::comparison_page(made_up::HOSTILE)),
    ];
    pages.iter().try_for_each(|(name, html)| std::fs::write(folder.join(name), html))
}
