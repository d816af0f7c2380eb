//! Charts as SVG whose places are parts of a hundred of the room that there is.
//!
//! Lines and points scale with the page, text does not. Each chart has a title and a description for those who do not see it; each
//! point has its values as a tooltip and as `data-x` and `data-y`, and the axes have theirs as `data-x-low` and so on, so that a program can
//! check what was drawn.

use std::fmt::Write as _;

use crate::numbers::whole;

/// More points of a curve than this are no wider than a pixel.
const MOST_POINTS: usize = 400;
/// No axis is longer.
const MOST: f64 = 1e150;
/// The ticks that an axis has at most.
const MOST_TICKS: f64 = 5.0;

/// A direction of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
    name: String,
}

impl Axis {
    /// One that holds all values, with ticks at round numbers; `name` says what it counts, with its unit.
    pub(crate) fn around(values: impl IntoIterator<Item = f64>, name: &str) -> Axis {
        let (low, high) = range(values);
        // A single value lies in the middle.
        let room = if high > low { (high - low) * 0.1 } else { (low.abs() * 0.05).max(1e-9) };
        let low_with_room = if low >= 0.0 { (low - room).max(0.0) } else { low - room };
        Axis::between(low_with_room, high + room, name)
    }

    /// One from zero.
    pub(crate) fn from_zero(values: impl IntoIterator<Item = f64>, name: &str) -> Axis {
        let (_, high) = range(values);
        Axis::between(0.0, if high > 0.0 { high * 1.05 } else { 1.0 }, name)
    }

    /// One that counts: 1, 2, 3 and so on.
    pub(crate) fn counting(count: usize, name: &str) -> Axis {
        let high = count.max(1) as f64;
        let mut axis = Axis::between(0.5, high + 0.5, name);
        axis.ticks.retain(|(at, _)| at.fract() == 0.0);
        axis.ticks.iter_mut().for_each(|(at, text)| *text = format!("{at:.0}"));
        axis
    }

    /// Names instead of numbers, at 1, 2, 3 and so on.
    pub(crate) fn named(names: &[&str]) -> Axis {
        let ticks = names.iter().enumerate().map(|(index, name)| ((index + 1) as f64, (*name).to_owned()));
        Axis { low: 0.5, high: names.len() as f64 + 0.5, ticks: ticks.collect(), name: String::new() }
    }

    /// One between two values.
    pub(crate) fn between(low: f64, high: f64, name: &str) -> Axis {
        let step = step((high - low) / MOST_TICKS);
        let first = (low / step).ceil();
        let ticks = (0..=MOST_TICKS as usize + 1).map(|index| (first + index as f64) * step);
        let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let text = |at: f64| if digits == 0 { whole(at) } else { format!("{at:.digits$}") };
        let ticks = ticks.filter(|at| *at <= high).map(|at| (at, text(at))).collect();
        Axis { low, high, ticks, name: name.to_owned() }
    }

    /// Where a value lies, in parts of a hundred.
    fn place(&self, value: f64) -> f64 {
        if self.high > self.low {
            ((value - self.low) / (self.high - self.low) * 100.0).clamp(-1.0, 101.0)
        } else {
            50.0
        }
    }
}

/// The least and the greatest of those that are numbers; 0 and 1 of none.
fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    // Differences of what is left are numbers too.
    let finite = values.into_iter().filter(|value| value.is_finite()).map(|value| value.clamp(-MOST, MOST));
    let both = finite.fold(None, |both: Option<(f64, f64)>, value| {
        Some(both.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    both.unwrap_or((0.0, 1.0))
}

/// A round step that is no smaller: 1, 2 or 5 times a power of ten.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-12).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= least).unwrap_or(power * 10.0)
}

/// A point with what it says.
#[derive(Debug, Clone)]
pub(crate) struct Dot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Both ends of the interval around `y`.
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) text: String,
    /// A class of the style; empty for the usual.
    pub(crate) class: &'static str,
}

/// A chart.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    /// A name that no other chart of the page has.
    id: String,
    title: String,
    description: String,
    x: Axis,
    y: Axis,
    marks: String,
}

impl Chart {
    /// An empty one. `id` is of letters, digits and what else a name holds; other characters are left out.
    pub(crate) fn new(id: &str, title: &str, description: String, x: Axis, y: Axis) -> Chart {
        let id = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        Chart { id, title: title.to_owned(), description, x, y, marks: String::new() }
    }

    /// Points, with intervals where they have them.
    pub(crate) fn dots(mut self, dots: &[Dot]) -> Chart {
        for dot in dots.iter().filter(|dot| dot.x.is_finite() && dot.y.is_finite()) {
            let Dot { x, y, interval, text, class } = dot;
            let at = self.x.place(*x);
            if let Some((low, high)) = interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
                let (top, bottom) = (100.0 - self.y.place(high), 100.0 - self.y.place(low));
                _ = write!(
                    self.marks,
                    r#"<line class="whisker {class}" x1="{at:.3}%" x2="{at:.3}%" y1="{top:.3}%" y2="{bottom:.3}%"/>"#
                );
            }
            let up = 100.0 - self.y.place(*y);
            // What is told apart has another shape too.
            let (name, shape) = match *class {
                "square" => (
                    "rect",
                    format!(r#"x="{at:.3}%" y="{up:.3}%" width="9" height="9" transform="translate(-4.5 -4.5)""#),
                ),
                _ => ("circle", format!(r#"cx="{at:.3}%" cy="{up:.3}%" r="4""#)),
            };
            let text = escaped(text);
            _ = write!(
                self.marks,
                r#"<{name} class="dot {class}" data-x="{x}" data-y="{y}" {shape}><title>{text}</title></{name}>"#
            );
        }
        self
    }

    /// A curve through points whose x ascends.
    pub(crate) fn line(mut self, points: &[(f64, f64)], class: &str) -> Chart {
        let points = thinned(points);
        let mut path = String::new();
        for (x, y) in &points {
            let (x, y) = (self.x.place(*x) * 10.0, 1000.0 - self.y.place(*y) * 10.0);
            _ = write!(path, "{}{x:.1},{y:.1}", if path.is_empty() { "" } else { " " });
        }
        _ = write!(
            self.marks,
            r#"<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%"><polyline class="curve {class}" data-points="{}" points="{path}"/></svg>"#,
            points.len()
        );
        self
    }

    /// What lies between two heights.
    pub(crate) fn band(mut self, low: f64, high: f64, text: &str) -> Chart {
        let (top, bottom) = (100.0 - self.y.place(high), 100.0 - self.y.place(low));
        let height = (bottom - top).max(0.0);
        _ = write!(
            self.marks,
            r#"<rect class="band" x="0" width="100%" y="{top:.3}%" height="{height:.3}%"><title>{}</title></rect>"#,
            escaped(text)
        );
        self
    }

    /// A height with its name.
    pub(crate) fn level(mut self, y: f64, text: &str) -> Chart {
        let up = 100.0 - self.y.place(y);
        _ = write!(self.marks, r#"<line class="level" x1="0" x2="100%" y1="{up:.3}%" y2="{up:.3}%"/>"#);
        _ = write!(
            self.marks,
            r#"<text class="label" x="100%" y="{up:.3}%" dy="-5" text-anchor="end">{}</text>"#,
            escaped(text)
        );
        self
    }

    /// A place on the x axis with its name, `row` lines of text below the top.
    pub(crate) fn mark(mut self, x: f64, text: &str, row: usize) -> Chart {
        let at = self.x.place(x);
        let (anchor, dx) = if at > 60.0 { ("end", -5) } else { ("start", 5) };
        let down = 12 + 15 * row;
        _ = write!(
            self.marks,
            r#"<line class="level" data-mark="{x}" x1="{at:.3}%" x2="{at:.3}%" y1="0" y2="100%"/><text class="label" x="{at:.3}%" dx="{dx}" y="{down}" text-anchor="{anchor}">{}</text>"#,
            escaped(text)
        );
        self
    }

    /// A thin line at a place on the x axis, without a name.
    pub(crate) fn border(mut self, x: f64) -> Chart {
        let at = self.x.place(x);
        _ = write!(self.marks, r#"<line class="border" x1="{at:.3}%" x2="{at:.3}%" y1="0" y2="100%"/>"#);
        self
    }

    /// The picture. It wants a box with room for ticks around it (`.chart` in the style).
    pub(crate) fn svg(&self) -> String {
        let Chart { id, title, description, x, y, marks } = self;
        let mut axes = String::new();
        for (value, text) in &y.ticks {
            let up = 100.0 - y.place(*value);
            _ = write!(
                axes,
                r#"<line class="grid" x1="0" x2="100%" y1="{up:.3}%" y2="{up:.3}%"/><text class="tick" x="-8" y="{up:.3}%" dy="4" text-anchor="end">{}</text>"#,
                escaped(text)
            );
        }
        for (value, text) in &x.ticks {
            let at = x.place(*value);
            _ = write!(
                axes,
                r#"<text class="tick" x="{at:.3}%" y="100%" dy="18" text-anchor="middle">{}</text>"#,
                escaped(text)
            );
        }
        axes.push_str(r#"<line class="axis" x1="0" x2="100%" y1="100%" y2="100%"/>"#);
        format!(
            r#"<div class="chart"><div class="axis-name">{}</div><svg class="plot" role="img" aria-labelledby="{id}-title {id}-description" data-x-low="{}" data-x-high="{}" data-y-low="{}" data-y-high="{}"><title id="{id}-title">{}</title><desc id="{id}-description">{}</desc>{axes}{marks}</svg><div class="axis-name below">{}</div></div>"#,
            escaped(&y.name),
            x.low,
            x.high,
            y.low,
            y.high,
            escaped(title),
            escaped(description),
            escaped(&x.name),
        )
    }
}

/// Points of a curve: where there are many, of each stretch the lowest and the highest, so that no peak is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    if points.len() <= MOST_POINTS {
        return points;
    }
    let stretch = points.len().div_ceil(MOST_POINTS / 2);
    let of = |stretch: &[(f64, f64)]| {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let mut both: Vec<(f64, f64)> =
            stretch.iter().min_by(by).into_iter().chain(stretch.iter().max_by(by)).copied().collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        both
    };
    points.chunks(stretch).flat_map(of).collect()
}

/// Text that stands in SVG.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(x: f64, y: f64) -> Dot {
        Dot { x, y, interval: None, text: "</title><script>".to_owned(), class: "" }
    }

    #[test]
    fn ticks_are_round_numbers_inside() {
        let texts = |axis: Axis| axis.ticks.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(Axis::between(0.0, 100.0, "")), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(Axis::between(70.1, 72.3, "")), ["70.5", "71.0", "71.5", "72.0"]);
        assert_eq!(texts(Axis::counting(3, "")), ["1", "2", "3"]);
        assert_eq!(texts(Axis::named(&["A", "B"])), ["A", "B"]);
        for odd in [vec![], vec![f64::NAN], vec![0.0], vec![5.0, 5.0], vec![f64::INFINITY, 3.0], vec![1e300, -1e300]] {
            for axis in [Axis::around(odd.clone(), ""), Axis::from_zero(odd, "")] {
                assert!(axis.low < axis.high && axis.ticks.len() <= 7, "{axis:?}");
                assert!(axis.ticks.iter().all(|(at, _)| at.is_finite()), "{axis:?}");
            }
        }
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let (x, y) = (Axis::between(0.0, 10.0, "x"), Axis::between(0.0, 4.0, "y"));
        let chart = Chart::new("a b", "t", "d".to_owned(), x, y).dots(&[dot(2.5, 1.0), dot(f64::NAN, 1.0)]);
        let svg = chart.line(&[(0.0, 0.0), (10.0, 4.0)], "").svg();
        assert!(svg.contains(r#"data-x="2.5" data-y="1" cx="25.000%" cy="75.000%""#), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 1, "what is no number has no place");
        assert!(svg.contains(r#"points="0.0,1000.0 1000.0,0.0""#), "{svg}");
        assert!(svg.contains(r#"id="a-b-title""#) && !svg.contains("<script"), "{svg}");
    }

    #[test]
    fn thinned_curves_keep_their_peaks() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|x| (f64::from(x), 1.0)).collect();
        (points[777].1, points[7_777].1) = (9.0, 0.1);
        let thin = thinned(&points);
        assert!(thin.len() <= MOST_POINTS, "{}", thin.len());
        assert!(thin.contains(&(777.0, 9.0)) && thin.contains(&(7_777.0, 0.1)));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thinned(&points[..400]).len(), 400);
    }
}
