//! Quality against size, and against speed where it was measured, as an SVG picture.
//!
//! A column for each text; the upper panel has the models' sizes, the lower one their rates of decode. Quality is the mean divergence
//! from the reference, or the perplexity where there is no reference; lower is better, and bars are one standard error. Names of
//! models lose what all of them begin with, which stands over the picture.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Row;

/// Pixels of a panel.
const PANEL: (u32, u32) = (560, 360);
/// Pixels above the panels, for the caption.
const CAPTION: u32 = 44;
const INK: RGBColor = RGBColor(0x22, 0x2b, 0x38);
const POINT: RGBColor = RGBColor(0x1f, 0x5f, 0xbf);
const FAINT: RGBColor = RGBColor(0xe3, 0xe6, 0xea);
/// Pixels of a line of a label.
const LABEL: i32 = 13;

/// The picture of some rows; none where there are no rows.
///
/// # Errors
/// What the drawing library says.
pub fn svg(rows: &[Row]) -> Result<Option<String>, String> {
    let mut texts: Vec<&str> = Vec::new();
    for row in rows {
        if !texts.contains(&row.text.as_str()) {
            texts.push(&row.text);
        }
    }
    if texts.is_empty() {
        return Ok(None);
    }
    let mut axes = vec![Axis::Size];
    if rows.iter().any(|row| row.decode_ts.is_some()) {
        axes.push(Axis::Rate);
    }
    let size = (PANEL.0 * texts.len() as u32, PANEL.1 * axes.len() as u32 + CAPTION);
    let mut picture = String::new();
    draw(&mut picture, size, rows, &texts, &axes).map_err(|error| error.to_string())?;
    Ok(Some(picture))
}

/// What quality is drawn against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    Size,
    Rate,
}

impl Axis {
    fn title(self) -> &'static str {
        match self {
            Self::Size => "size of the tensors, MB",
            Self::Rate => "decode, tokens per second",
        }
    }

    fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::Size => Some(row.model_bytes as f64 / 1e6),
            Self::Rate => row.decode_ts,
        }
    }
}

/// A model in a panel.
struct Point {
    x: f64,
    y: f64,
    error: f64,
    label: String,
}

type Drawn<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn draw(picture: &mut String, size: (u32, u32), rows: &[Row], texts: &[&str], axes: &[Axis]) -> Drawn {
    let root = SVGBackend::with_string(picture, size).into_drawing_area();
    root.fill(&WHITE)?;
    let names: Vec<&str> = rows.iter().map(|row| stem(&row.model)).collect();
    let common = common_beginning(&names);
    let by_divergence = rows.iter().all(|row| row.kl_mean.is_some());
    let (head, panels) = root.split_vertically(CAPTION);
    head.draw(&Text::new(caption(rows, common, by_divergence), (16, 16), font(16, HPos::Left)))?;
    let panels = panels.split_evenly((axes.len(), texts.len()));
    for (panel, (axis, text)) in
        panels.iter().zip(axes.iter().flat_map(|axis| texts.iter().map(move |text| (*axis, *text))))
    {
        let of_text = rows.iter().zip(&names).filter(|(row, _)| row.text == text);
        let points: Vec<Point> = of_text
            .filter_map(|(row, name)| {
                let label =
                    if common.len() == name.len() { (*name).to_owned() } else { name[common.len()..].to_owned() };
                let (y, error) = match (row.kl_mean, row.kl_mean_error) {
                    (Some(mean), Some(error)) if by_divergence => (mean, error),
                    _ => (row.perplexity, row.perplexity_error),
                };
                Some(Point { x: axis.of(row)?, y, error, label })
            })
            .filter(|point| point.x.is_finite() && point.y.is_finite() && point.error.is_finite())
            .collect();
        draw_panel(panel, axis, text, &points, by_divergence)?;
    }
    root.present()?;
    Ok(())
}

fn caption(rows: &[Row], common: &str, by_divergence: bool) -> String {
    let what = if by_divergence { "divergence" } else { "perplexity" };
    let common = common.trim_end_matches(is_separator);
    let of = if common.is_empty() { String::new() } else { format!(" of {common}") };
    let reference = rows.iter().find_map(|row| row.reference.as_deref()).filter(|_| by_divergence);
    let from = reference.map_or(String::new(), |reference| format!(" from {}", stem(reference)));
    format!("{what}{of}{from}: lower is better, bars are one standard error")
}

fn draw_panel<DB: DrawingBackend>(
    panel: &DrawingArea<DB, plotters::coord::Shift>,
    axis: Axis,
    text: &str,
    points: &[Point],
    by_divergence: bool,
) -> Drawn
where
    DB::ErrorType: 'static,
{
    let x = around(points.iter().map(|point| point.x..point.x));
    let y = around(points.iter().map(|point| point.y - point.error..point.y + point.error));
    // Those of 0, the reference itself among them, and bars down to 0 end on the axis.
    let lows = points.iter().filter(|point| point.y > 0.0).map(|point| (point.y - point.error).max(point.y / 4.0));
    let least = lows.fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|point| point.y).fold(0.0, f64::max);
    let title = if by_divergence { "mean KL divergence, nats" } else { "perplexity" };
    let frame = |floor: f64| Frame { panel, axis, text, title, points, floor };
    // Divergences of formats are factors of ten apart.
    if by_divergence && most > 20.0 * least {
        frame(least / 1.5).draw(x, (least / 1.5..most * 2.0).log_scale())
    } else {
        frame(f64::NEG_INFINITY).draw(x, if by_divergence { 0.0..y.end } else { y })
    }
}

/// A panel and what is in it.
struct Frame<'a, DB: DrawingBackend> {
    panel: &'a DrawingArea<DB, plotters::coord::Shift>,
    axis: Axis,
    text: &'a str,
    title: &'static str,
    points: &'a [Point],
    /// Where the axis begins on a scale that has no 0.
    floor: f64,
}

impl<DB: DrawingBackend> Frame<'_, DB>
where
    DB::ErrorType: 'static,
{
    fn draw<Y>(&self, x: Range<f64>, y: Y) -> Drawn
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let Self { panel, axis, text, title, points, floor } = self;
        let mut chart = ChartBuilder::on(panel)
            .margin(14)
            .caption(stem(text), ("sans-serif", 14, &INK))
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d::<Range<f64>, Y>(x, y)?;
        chart
            .configure_mesh()
            .x_desc(axis.title())
            .y_desc(*title)
            .axis_desc_style(("sans-serif", 13, &INK))
            .label_style(("sans-serif", 12, &INK))
            .axis_style(INK.mix(0.6))
            .bold_line_style(FAINT)
            .light_line_style(WHITE)
            .x_labels(6)
            .y_labels(6)
            .x_label_formatter(&number)
            .y_label_formatter(&number)
            .draw()?;
        for point in *points {
            let ends = [point.y - point.error, point.y + point.error].map(|y| (point.x, y.max(*floor)));
            chart.draw_series([PathElement::new(ends.to_vec(), POINT.stroke_width(2))])?;
            chart.draw_series([Circle::new((point.x, point.y.max(*floor)), 4, POINT.filled())])?;
        }
        let place = |point: &Point| chart.backend_coord(&(point.x, point.y.max(*floor)));
        let places: Vec<(i32, i32)> = points.iter().map(place).collect();
        let (across, down) = chart.plotting_area().get_pixel_range();
        let (corner, _) = panel.get_pixel_range();
        let top = panel.get_pixel_range().1.start;
        for ((x, y), hpos, point) in labels(&places, points, across.end, down) {
            let label =
                if point.y < *floor { format!("{}: {}", point.label, number(&point.y)) } else { point.label.clone() };
            panel.draw(&Text::new(label, (x - corner.start, y - top), font(12, hpos)))?;
        }
        Ok(())
    }
}

/// Where labels go: beside their points, on the side where there is room, and not over each other.
fn labels<'a>(
    places: &[(i32, i32)],
    points: &'a [Point],
    right: i32,
    down: Range<i32>,
) -> Vec<((i32, i32), HPos, &'a Point)> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|&index| places[index].1);
    let mut taken: Vec<(Range<i32>, i32)> = Vec::new();
    let mut labels = Vec::new();
    for index in order {
        let ((x, y), point) = (places[index], &points[index]);
        // Not across the axis.
        let mut y = y.min(down.end - LABEL);
        // No font is loaded: a letter is taken for seven pixels.
        let width = point.label.chars().count() as i32 * 7;
        let to_the_left = x + 9 + width > right;
        let (at, hpos) = if to_the_left { (x - 9, HPos::Right) } else { (x + 9, HPos::Left) };
        let across = if to_the_left { at - width..at } else { at..at + width };
        let meets = |y: i32| {
            taken
                .iter()
                .any(|(other, line)| other.start < across.end && across.start < other.end && (line - y).abs() < LABEL)
        };
        while meets(y) && y + LABEL < down.end {
            y += 1;
        }
        taken.push((across, y));
        labels.push(((at, y), hpos, point));
    }
    labels
}

fn font(size: i32, hpos: HPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&INK).pos(Pos::new(hpos, VPos::Center))
}

/// The ranges together, with some room around; a single number gets a range of its own.
fn around(ranges: impl Iterator<Item = Range<f64>>) -> Range<f64> {
    let all = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0.0..1.0);
    let room = if all.end > all.start { (all.end - all.start) * 0.15 } else { all.end.abs().max(1e-6) * 0.1 };
    all.start - room..all.end + room
}

/// A number on an axis, without digits that say nothing.
fn number(value: &f64) -> String {
    let text = match value.abs() {
        0.0 => return "0".into(),
        size if size < 0.001 => return format!("{value:.1e}").replace(".0e", "e"),
        size if size < 1.0 => format!("{value:.4}"),
        size if size < 100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A file's name without folder and ending.
fn stem(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.strip_suffix(".gguf").or(name.strip_suffix(".txt")).unwrap_or(name)
}

fn is_separator(letter: char) -> bool {
    matches!(letter, '-' | '.' | ' ')
}

/// What all names begin with, up to the last separator within.
fn common_beginning<'a>(names: &[&'a str]) -> &'a str {
    let Some((first, others)) = names.split_first() else { return "" };
    let mut end = 0;
    for (index, letter) in first.char_indices() {
        let next = index + letter.len_utf8();
        if !others.iter().all(|name| name.as_bytes().get(..next) == Some(&first.as_bytes()[..next])) {
            break;
        }
        if is_separator(letter) {
            end = next;
        }
    }
    if names.iter().all(|name| name == first) { "" } else { &first[..end] }
}

#[cfg(test)]
mod tests {
    use super::super::{About, Beside, Estimate, Figures, Row};
    use super::*;

    fn row(model: &str, text: &str, bytes: u64, kl: Option<f64>, decode_ts: Option<f64>) -> Row {
        let estimate = |value: f64| Estimate { value, error: value / 10.0 };
        let beside = kl.map(|kl| Beside {
            perplexity: estimate(20.0),
            perplexity_ratio: estimate(1.1),
            kl_mean: estimate(kl),
            kl_median: estimate(kl),
            kl_p99: estimate(kl),
            top1_agreement: estimate(0.9),
        });
        let about = About { model: model.into(), model_bytes: bytes, parameters: bytes };
        let figures = Figures { perplexity: estimate(21.0), beside };
        Row::new(&about, text, (512, 2, 510), &figures, kl.map(|_| "ref.gguf"), decode_ts)
    }

    #[test]
    fn every_model_is_drawn_with_its_name() {
        let models =
            [("a/small-Q4_0.gguf", 80, 0.1), ("a/small-Q8_0.gguf", 140, 0.001), ("a/small-Q2_K.gguf", 60, 1.2)];
        let rows: Vec<Row> = ["en.txt", "zh.txt"]
            .iter()
            .flat_map(|text| models.map(|(model, bytes, kl)| row(model, text, bytes * 1_000_000, Some(kl), None)))
            .collect();
        let picture = svg(&rows).unwrap().unwrap();
        assert_eq!(picture.matches("<circle").count(), 6);
        for label in ["Q4_0", "Q8_0", "Q2_K"] {
            assert_eq!(picture.matches(&format!("\n{label}\n")).count(), 2, "{label}: {picture}");
        }
        assert!(picture.contains("divergence of small from ref"), "{picture}");
        assert!(!picture.contains("decode"));
        let timed: Vec<Row> = rows.iter().map(|row| Row { decode_ts: Some(100.0), ..row.clone() }).collect();
        let picture = svg(&timed).unwrap().unwrap();
        assert_eq!(picture.matches("<circle").count(), 12);
        assert!(picture.contains("decode, tokens per second"));
    }

    #[test]
    fn odd_rows_are_drawn_or_left_out() {
        assert_eq!(svg(&[]), Ok(None));
        // A name with letters that mean something to SVG, and no reference.
        let picture = svg(&[row("<&>.gguf", "t", 1, None, None)]).unwrap().unwrap();
        assert!(picture.contains("&lt;&amp;&gt;") && picture.contains("perplexity"), "{picture}");
        // The reference itself, at 0, and a number that is none.
        let rows = [row("a.gguf", "t", 9, Some(0.0), None), row("b.gguf", "t", 9, Some(f64::NAN), None)];
        assert_eq!(svg(&rows).unwrap().unwrap().matches("<circle").count(), 1);
        // On a scale without 0 it stands on the axis, below all others, and says so.
        let kls = [("ref", 0.0), ("q8", 0.001), ("q4", 0.1), ("q2", 1.2)];
        let rows = kls.map(|(model, kl)| row(model, "t", 9, Some(kl), None));
        let picture = svg(&rows).unwrap().unwrap();
        assert!(picture.contains("\nref: 0\n") && picture.contains("\nq8\n"), "{picture}");
        let middles: Vec<f64> = picture
            .split("<circle ")
            .skip(1)
            .map(|circle| circle.split("cy=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!(middles.is_sorted_by(|a, b| *a >= b + 10.0), "{middles:?}");
    }

    #[test]
    fn names_lose_what_they_share() {
        assert_eq!(common_beginning(&["m-1b.Q4_0", "m-1b.Q4_1"]), "m-1b.");
        assert_eq!(common_beginning(&["ab", "ac"]), "");
        assert_eq!(common_beginning(&["same-x", "same-x"]), "");
        assert_eq!(common_beginning(&["模-一", "模-二"]), "模-");
        assert_eq!(
            [0.0, 0.25, 1234.0, 0.00012, 6.0e-8 + 1e-23, 12.5].map(|value| number(&value)),
            ["0", "0.25", "1234", "1.2e-4", "6e-8", "12.5"]
        );
    }
}
