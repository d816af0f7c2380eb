//! Whole pages of made-up data: the numbers that can be read back, and text that stays text.

mod made_up;

use std::collections::BTreeMap;

use duan_page::BenchReport;
use serde_json::{Value, json};

fn data(html: &str) -> Value {
    let (_, rest) = html.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// Each figure of the page: its value, its scale, and its text.
fn figures(html: &str) -> BTreeMap<String, (f64, f64, String)> {
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!("{name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let mut figures = BTreeMap::new();
    for part in html.split("<span class=\"figure\" ").skip(1) {
        let (tag, rest) = part.split_once('>').unwrap();
        let text = rest.split_once("</span>").unwrap().0.to_owned();
        let [value, scale] = ["data-value", "data-scale"].map(|name| attribute(tag, name).parse::<f64>().unwrap());
        let earlier = figures.insert(attribute(tag, "data-figure"), (value, scale, text));
        assert!(earlier.is_none_or(|(earlier, ..)| earlier == value), "{tag}");
    }
    figures
}

#[test]
fn figures_are_read_back() {
    let html = made_up::bench_page("Small");
    let (figures, data) = (figures(&html), data(&html));
    let expected = [
        ("tg64.median_tokens_per_s", 71.32, "71.3"),
        ("tg64.low_tokens_per_s", 70.9, "70.9"),
        ("tg64.share", 0.6884, "69 %"),
        ("pp512.ceiling_tokens_per_s", 1490.0, "1,490"),
        ("tg64.with1.ratio", 1.1656, "1.166"),
        ("tg64.token.p95_ns", 14_640_000.0, "14.6"),
        ("memory.peak_bytes", 258e6, "258"),
        ("start2.first_token_ns", 169e6, "169"),
        ("ceilings.read.8_threads_bytes_per_s", 10.76e9, "10.8"),
        ("decode.kind1_part", 410.0 / 780.0, "53 %"),
        ("records.tg64.now_tokens_per_s", data["records"]["now"]["results"][1]["median"].as_f64().unwrap(), "71.5"),
    ];
    for (name, value, text) in expected {
        let found = figures.get(name).unwrap_or_else(|| panic!("{name} in {:?}", figures.keys()));
        assert_eq!((found.0, found.2.as_str()), (value, text), "{name}");
    }
    // The same figures for programs, and no other ones.
    let of_data: BTreeMap<String, f64> = serde_json::from_value(data["figures"].clone()).unwrap();
    let of_page: BTreeMap<String, f64> = figures.iter().map(|(name, (value, ..))| (name.clone(), *value)).collect();
    assert_eq!(of_page, of_data);
    assert_eq!(data["bench"][1]["median_ts"], json!(71.32));
}

#[test]
fn every_section_is_there_and_every_point() {
    let html = made_up::bench_page("Small");
    for id in ["headline", "bench", "others", "memory", "ceilings", "profile", "records", "state"] {
        assert_eq!(html.matches(&format!("<section id=\"{id}\">")).count(), 1, "{id}");
    }
    // Nine rounds twice, nine first tokens, eight numbers of threads, six earlier runs and this one, twice.
    assert_eq!(html.matches("<circle class=\"dot").count(), 9 + 9 + 9 + 8 + 6 + 6);
    assert_eq!(html.matches("<rect class=\"dot square").count(), 2);
    assert_eq!(html.matches("not readable: Small").count(), 1);
    assert!(html.contains("this run is worse, 0.992 times A"), "what the comparison says");
}

#[test]
fn hostile_text_stays_text() {
    for html in [made_up::bench_page(made_up::HOSTILE), made_up::comparison_page(made_up::HOSTILE)] {
        assert_eq!((html.matches("<script").count(), html.matches("</script").count()), (1, 1));
        assert!(!html.contains("<img") && !html.contains("<b>"));
        assert!(html.contains("{{ 7*7 }}"), "text is no template");
        assert!(data(&html)["title"].as_str().unwrap().len() < 400);
    }
}

#[test]
fn nothing_makes_a_page_too() {
    let odd = [
        json!(null),
        json!([]),
        json!([{}]),
        json!([{ "test": "tg8", "samples_ts": [0.0] }]),
        json!([{ "test": "tg8", "samples_ts": [5.0, 5.0], "median_ts": 5.0, "share": 1e300, "token_samples_ns": [[], [0]],
            "memory": { "curve": { "every_ms": 0, "resident_bytes": [1] } } }]),
        json!([{ "test": "tg8", "samples_ts": [-1e308, 1e308], "median_ts": 0.0, "interval": { "low": 1e308, "high": -1e308, "level": 5.0 },
            "outliers": [{ "round": u64::MAX, "ts": 1.0 }] }]),
    ];
    for rows in odd {
        let html = duan_page::reports::bench_page(&BenchReport { rows: rows.clone(), ..Default::default() }).unwrap();
        assert!(!html.contains("NaN") && !html.contains("inf%") && !html.contains("\"inf"), "{rows}");
        figures(&html);
    }
}

#[test]
fn a_comparison_says_its_difference() {
    let html = made_up::comparison_page("Small");
    let figures = figures(&html);
    let ratio = &figures["compare.tg64.tokens_per_s.ratio"];
    assert!((ratio.0 - 71.4 / 66.0).abs() < 0.01 && ratio.2 == format!("{:.3}", ratio.0), "{ratio:?}");
    assert!(html.contains("B is better, "));
    assert_eq!(data(&html)["comparison"]["tests"][1]["ratio"].as_f64(), Some(ratio.0));
    assert_eq!(html.matches("class=\"dot square\"").count(), 18, "the rounds of B");
}
