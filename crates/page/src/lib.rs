//! What was measured, as one HTML page that needs nothing else: no network, no script, no file beside it.
//!
//! A [`Page`] is a list of [`Section`]s. Each section is made by one file in `sections/`: a function from measured data to what its
//! template in `templates/` needs. [`reports`] puts sections together: a benchmark, a profile, a comparison, a record. A new section is a file, a
//! template and a line there.
//!
//! * Numbers stand in the page as text, as `data-figure` and `data-value` beside it, and in a block of JSON at its end, so that the page is
//!   a file for programs too ([`figure`]).
//! * Everything that comes from outside (names of models and processors, tags, imported records) is text: templates escape it, and the
//!   page's policy allows neither scripts nor anything that is loaded.
//! * Charts are drawn by `chart.rs`. It is our own and not a plotting library's since its places are parts of a hundred of the width that
//!   the page has: text keeps its size on a phone, colours come from the style (light and dark), and each point carries its values.
//!
//! This crate must never know files, terminals, HTTP or how anything is measured: data in, text out. Start reading at `page.rs`, then
//! `reports.rs`.

mod chart;
mod error;
mod facts;
pub mod figure;
mod numbers;
mod page;
pub mod reports;
mod sections;
mod test;

pub use error::{Error, Result};
pub use figure::Figure;
pub use page::{Page, Section};
pub use reports::{BenchReport, History, Past, ProfileReport};
pub use test::Test;
