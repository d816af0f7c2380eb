//! What the machine can do at most.

use duan_measure::bench::Bandwidth;
use duan_measure::ceilings::{Barrier, Ceilings, CeilingsAt, Clock, Peak};
use serde::Serialize;

use super::width;
use crate::chart::{Axis, Chart, Dot};
use crate::figure::Figure;
use crate::numbers::three_digits;
use crate::page::Section;

/// So many formats of a sequence are named.
const MOST_FORMATS: usize = 12;

#[derive(Serialize)]
struct View {
    measured_at: String,
    isa: String,
    read: Vec<Row>,
    read_chart: String,
    read_skipped: Option<String>,
    knee: Option<usize>,
    peaks: Vec<Row>,
    clock: Vec<Row>,
    clock_skipped: Option<String>,
    barriers: Vec<Row>,
}

/// A line of a table with a bar.
#[derive(Serialize)]
struct Row {
    threads: usize,
    what: String,
    more: String,
    figure: Option<Figure>,
    width: f64,
}

/// Of all numbers of threads.
pub(crate) fn of_all(ceilings: &Ceilings) -> Section {
    let Ceilings { measured_at, isa, read, read_skipped, multiply_adds, clock, clock_skipped, barriers, .. } = ceilings;
    let (read, barriers): (Vec<_>, Vec<_>) = (read.iter().collect(), barriers.iter().collect());
    made(View {
        measured_at: measured_at.clone(),
        isa: isa.clone(),
        read_chart: read_chart(&read),
        read: read_rows(&read),
        read_skipped: read_skipped.clone(),
        knee: ceilings.knee(),
        peaks: peak_rows(multiply_adds),
        clock: clock_rows(clock),
        clock_skipped: clock_skipped.clone(),
        barriers: barrier_rows(&barriers),
    })
}

/// Of the threads that a model ran with.
pub(crate) fn of_one(ceilings: &CeilingsAt) -> Section {
    let CeilingsAt { measured_at, isa, read, read_skipped, multiply_adds, clock, barrier, .. } = ceilings;
    let read: Vec<_> = read.iter().collect();
    made(View {
        measured_at: measured_at.clone(),
        isa: isa.clone(),
        read_chart: String::new(),
        read: read_rows(&read),
        read_skipped: read_skipped.clone(),
        knee: None,
        peaks: peak_rows(multiply_adds),
        clock: clock_rows(clock.as_slice()),
        clock_skipped: None,
        barriers: barrier_rows(&barrier.iter().collect::<Vec<_>>()),
    })
}

fn made(view: View) -> Section {
    let View { read, peaks, clock, barriers, .. } = &view;
    let figures = [read, peaks, clock, barriers].into_iter().flatten().filter_map(|row| row.figure.clone()).collect();
    Section::new("ceilings", "Ceilings of this machine", view, figures)
}

/// Bars as long as their numbers are of the greatest.
fn with_widths(mut rows: Vec<Row>) -> Vec<Row> {
    let values = || rows.iter().filter_map(|row| Some(row.figure.as_ref()?.value));
    let longest = values().fold(0.0, f64::max);
    let widths: Vec<f64> =
        rows.iter().map(|row| row.figure.as_ref().map_or(0.0, |f| width(f.value, longest))).collect();
    rows.iter_mut().zip(widths).for_each(|(row, width)| row.width = width);
    rows
}

fn row(threads: usize, what: impl Into<String>, more: impl Into<String>, figure: Option<Figure>) -> Row {
    Row { threads, what: what.into(), more: more.into(), figure, width: 0.0 }
}

fn read_rows(read: &[&Bandwidth]) -> Vec<Row> {
    let of = |read: &&Bandwidth| {
        let name = format!("ceilings.read.{}_threads_bytes_per_s", read.threads);
        let more = format!("{} pages, {}", read.pages, read.way);
        row(read.threads, "", more, Figure::scaled(name, read.bytes_per_s, "GB/s", 1e9))
    };
    with_widths(read.iter().map(of).collect())
}

fn peak_rows(peaks: &[Peak]) -> Vec<Row> {
    let of = |(index, peak): (usize, &Peak)| {
        let name = format!("ceilings.peak{}.{}_threads_per_s", index + 1, peak.threads);
        let mut formats = peak.formats.iter().take(MOST_FORMATS).cloned().collect::<Vec<_>>().join(" ");
        if peak.formats.len() > MOST_FORMATS {
            formats += &format!(" and {} more", peak.formats.len() - MOST_FORMATS);
        }
        row(peak.threads, &peak.instruction, formats, Figure::scaled(name, peak.per_s, "G multiply-adds/s", 1e9))
    };
    with_widths(peaks.iter().enumerate().map(of).collect())
}

fn clock_rows(clocks: &[Clock]) -> Vec<Row> {
    let of = |clock: &Clock| {
        let name = format!("ceilings.clock.{}_threads_hz", clock.threads);
        let effective = clock.slowest_effective_hz().map(|hz| format!("{} GHz in the middle", three_digits(hz / 1e9)));
        let figure = Figure::scaled(name, clock.slowest_hz(), "GHz", 1e9);
        row(clock.threads, "", effective.unwrap_or_default(), figure)
    };
    with_widths(clocks.iter().map(of).collect())
}

fn barrier_rows(barriers: &[&Barrier]) -> Vec<Row> {
    let of = |barrier: &&Barrier| {
        let name = format!("ceilings.barrier.{}_threads_ns", barrier.threads);
        let best = format!("{} µs at best", three_digits(barrier.best_ns as f64 / 1e3));
        row(barrier.threads, "", best, Figure::scaled(name, barrier.median_ns as f64, "µs", 1e3))
    };
    with_widths(barriers.iter().map(of).collect())
}

/// A curve over threads; none where there are not two of them.
fn read_chart(read: &[&Bandwidth]) -> String {
    if read.len() < 2 {
        return String::new();
    }
    let points: Vec<(f64, f64)> = read.iter().map(|read| (read.threads as f64, read.bytes_per_s / 1e9)).collect();
    let most = read.iter().map(|read| read.threads).max().unwrap_or(1);
    let dot = |&(x, y): &(f64, f64)| {
        let text = format!("{x} threads: {} GB/s", three_digits(y));
        Dot { x, y, interval: None, text, class: "" }
    };
    let description = "How fast memory is read by each number of threads, in GB/s.".to_owned();
    let y = Axis::from_zero(points.iter().map(|(_, rate)| *rate), "GB/s");
    let chart = Chart::new("read", "Read bandwidth by threads", description, Axis::counting(most, "threads"), y);
    chart.line(&points, "").dots(&points.iter().map(dot).collect::<Vec<_>>()).svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(threads: usize, bytes_per_s: f64) -> Bandwidth {
        Bandwidth { bytes_per_s, bytes: 1, reads: 1, threads, pages: "large".to_owned(), way: "fast".to_owned() }
    }

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        let (one, two, none) = (read(1, 5e9), read(2, 10e9), read(3, f64::NAN));
        let rows = read_rows(&[&one, &two, &none]);
        assert_eq!(rows.iter().map(|row| row.width).collect::<Vec<_>>(), [50.0, 100.0, 0.0]);
        assert!(rows[2].figure.is_none());
        assert_eq!(rows[1].figure.as_ref().unwrap().text, "10.0");
        assert_eq!(read_chart(&[&one]), "");
        assert_eq!(read_chart(&[&one, &two]).matches("<circle").count(), 2);
    }
}
