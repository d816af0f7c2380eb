//! `duan compare A B`

mod page;

use std::path::PathBuf;
use std::process::ExitCode;

use duan::records::{compare, side};

use crate::args::Common;
use crate::output::page::PageFile;
use crate::output::{print, print_json};

/// Compare two benchmarks: first whether they can be compared, then by how much they differ
///
/// A and B are numbers that `duan records list` shows, tags, `last` or `last~1`, or files that `duan bench --json`, `duan records export` or
/// `llama-bench -o json` wrote. Five questions come first, each answered yes, no or unknown; what was not noted is unknown. A ratio
/// is B's value by A's, the median over all pairs of samples, with the interval that holds it in 90 % of cases; where the interval
/// holds 1, the difference is within the noise of these samples.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A record, or a file
    a: String,
    /// Another
    b: String,
    /// Write the comparison as one HTML page too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the page's file if it is there
    #[arg(long, requires = "html")]
    force: bool,
}

/// Prints both answers and differences.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let file = PageFile::checked(args.html.as_deref(), args.force, &[])?;
    let (a, b) = (side(&args.a)?, side(&args.b)?);
    let comparison = compare(&a, &b);
    if common.json {
        print_json(&comparison)?;
    } else {
        print(&page::text(&a, &b, &comparison))?;
    }
    if let Some(file) = file {
        file.write(&duan::page::of_comparison(&a, &b, &comparison)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
