//! Earlier runs with the same settings, from the records of this machine.

use duan_measure::bench::Row;
use duan_measure::records::{TOKENS_PER_S, from_rows};

use crate::records;

/// So many of the newest runs are asked: a device that became slower a month ago has left them behind.
const RUNS: usize = 20;

/// Tells a row what earlier runs with the same settings had. Where there are no records, or they cannot be read, it stays as it is: whoever
/// adds to them is told why.
pub(super) fn set_beside(row: &mut Row) {
    let Some(medians) = medians(row) else { return };
    row.set_beside(&medians);
}

fn medians(row: &Row) -> Option<Vec<f64>> {
    let records = records::open_existing().ok().flatten()?;
    let head = from_rows(&[serde_json::to_value(row).ok()?]).ok()?.into_iter().next()?.head;
    records.medians(&head, &row.test, TOKENS_PER_S, RUNS).ok()
}
