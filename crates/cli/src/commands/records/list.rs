//! `duan records list`

use duan::records::{self, Filter, Record, TOKENS_PER_S};
use serde_json::json;

use super::filter::FilterArgs;
use crate::args::Common;
use crate::output::style::{on_one_line, shortened};
use crate::output::units::{grouped, three_digits};
use crate::output::{Align, Table, print, print_json, say};

/// So many lines are a list that a person reads.
const SHOWN: usize = 50;
/// A model's type, a tag or the rates of a record are cut at so many characters in a list.
const CELL_CHARACTERS: usize = 60;

/// Prints the records that are meant. Programs get all of them, people the newest.
pub(super) fn run(args: &FilterArgs, common: &Common) -> anyhow::Result<()> {
    let filter = args.filter()?;
    let Some(records) = records::open_existing()? else { return tell_none(common) };
    if common.json {
        return print_json(&json!({ "records": records.list(&filter)? }));
    }
    let limit = filter.limit.unwrap_or(SHOWN);
    let shown = records.list(&Filter { limit: Some(limit), ..filter.clone() })?;
    if shown.is_empty() {
        return tell_none(common);
    }
    print(&table(&shown).text())?;
    let all = if filter.limit.is_some() { shown.len() } else { records.count(&filter)? };
    if all > shown.len() {
        let shown = shown.len();
        say(&format!("the newest {shown} of {} records; --limit {all} shows all", grouped(all as u64)));
    }
    Ok(())
}

fn tell_none(common: &Common) -> anyhow::Result<()> {
    if common.json {
        return print_json(&json!({ "records": [] }));
    }
    say("no such records; `duan bench` makes one, `duan records import` brings some from elsewhere");
    Ok(())
}

fn table(records: &[Record]) -> Table {
    let mut table = Table::new(&[
        ("RECORD", Align::Right),
        ("TAKEN", Align::Left),
        ("MODEL", Align::Left),
        ("ENGINE", Align::Left),
        ("BACKEND", Align::Left),
        ("THREADS", Align::Right),
        ("TOKENS/S", Align::Left),
        ("TAGS", Align::Left),
    ]);
    let cell = |text: &str| shortened(&on_one_line(text), CELL_CHARACTERS);
    for record in records {
        let head = &record.head;
        table.row([
            record.id.to_string(),
            cell(&head.taken_at),
            cell(&head.model_type),
            cell(&engine(record)),
            cell(&head.backend),
            threads(record),
            cell(&rates(record)),
            cell(&head.tags.join(", ")),
        ]);
    }
    table
}

/// A record in one line.
pub(super) fn line(record: &Record) -> String {
    let head = &record.head;
    on_one_line(&format!("{}, {}, {}, {}", head.taken_at, head.model_type, engine(record), rates(record)))
}

/// "duan 0.1.0".
pub(crate) fn engine(record: &Record) -> String {
    format!("{} {}", record.head.engine, record.head.engine_version)
}

/// "2", or "4/2" for prefill and decode.
fn threads(record: &Record) -> String {
    let text = |threads: Option<u64>| threads.map_or("?".to_owned(), |threads| threads.to_string());
    let (prefill, decode) = (text(record.head.threads_prefill), text(record.head.threads_decode));
    if prefill == decode { decode } else { format!("{prefill}/{decode}") }
}

/// The median rates, or how many other figures there are.
fn rates(record: &Record) -> String {
    let rates = record.results.iter().filter(|figure| figure.unit == TOKENS_PER_S);
    let rates: Vec<String> = rates.map(|figure| format!("{} {}", figure.test, three_digits(figure.median))).collect();
    let doubt = record.head.doubtful.as_deref().is_some_and(|reasons| !reasons.is_empty());
    let doubt = if doubt { "doubtful: " } else { "" };
    if rates.is_empty() { format!("{doubt}none") } else { format!("{doubt}{}", rates.join(", ")) }
}
