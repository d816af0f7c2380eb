//! What `duan inspect` shows to people: whether it runs, what it is, what it needs, what is odd.

use duan::FileFacts;
use duan::facts::{BaseModelFacts, DiskFile, MemoryFacts, MemoryRow, OddityKind, TypeFacts};

use super::rows::{Group, joined, shown};
use super::{Findings, layers, words};
use crate::output::style::on_one_line;
use crate::output::units::{ByteUnit, bytes_text, counted, grouped};
use crate::output::{Align, Style, Table};

/// The tokenizer may have something to say of every token; after so many remarks the rest is counted.
const MOST_TOKENIZER_REMARKS: usize = 3;

/// Files of a model that are named; large ones have dozens.
const MOST_FILES: usize = 6;

/// Longest sentence from a file's errors and remarks, in characters.
const LONGEST_SENTENCE: usize = 500;

/// The page that answers most questions.
pub(super) fn page(found: &Findings) -> String {
    let style = Style::stdout();
    let facts = &found.facts;
    let mut out = super::verdict::lines(&facts.verdict, &found.name, style) + "\n";
    out += &file(found).text(style);
    out += &layers::group(facts).text(style);
    out += &words::group(facts).text(style);
    if !facts.types.is_empty() {
        out += &with_bold_head(&types(facts), style);
    }
    if let Some(memory) = &facts.memory {
        out += &with_bold_head(&need(memory, found.is_context_chosen), style);
    }
    out += &odd(facts, style);
    out.truncate(out.trim_end_matches('\n').len());
    out + "\n"
}

/// A table with its head emphasized, and an empty line behind it.
fn with_bold_head(table: &str, style: Style) -> String {
    let (head, rows) = table.split_once('\n').unwrap_or((table, ""));
    format!("{}\n{rows}\n", style.bold(head))
}

fn file(found: &Findings) -> Group {
    let (facts, about) = (&found.facts, &found.facts.about);
    let mut group = Group::new("FILE");
    group.row("path", on_one_line(&found.file.path().to_string_lossy()));
    let pieces = (facts.pieces > 1).then(|| format!("split into {} files", facts.pieces));
    let container = match facts.version {
        Some(version) => format!("{} {version}", facts.container),
        None => facts.container.to_owned(),
    };
    group.row("format", joined([Some(container), Some(bytes_text(facts.bytes)), pieces]));
    group.rows("files", files(facts));
    group.maybe("name", facts.name.as_deref().map(shown));
    group.maybe("kind", about.kind.as_deref().filter(|&kind| kind != "model").map(shown));
    group.maybe("about", about.description.as_deref().map(shown));
    let quantized_by = about.quantized_by.as_deref().map(|name| format!("quantized by {}", shown(name)));
    let maker = joined([about.author.as_deref().map(shown), about.organization.as_deref().map(shown), quantized_by]);
    group.maybe("made by", Some(maker).filter(|maker| !maker.is_empty()));
    group.rows("made from", about.base_models.iter().map(base_model));
    let link = about.url.as_deref().or(about.repo_url.as_deref()).or(about.source_url.as_deref());
    group.maybe("page", link.map(shown));
    let licence = [&about.license, &about.license_name, &about.license_link].map(|text| text.as_deref().map(shown));
    group.maybe("licence", Some(joined(licence)).filter(|licence| !licence.is_empty()));
    group.maybe("languages", Some(about.languages.join(", ")).filter(|list| !list.is_empty()).as_deref().map(shown));
    group
}

/// The files of a model that has several, each with its length.
fn files(facts: &FileFacts) -> Vec<String> {
    if facts.files.len() < 2 {
        return Vec::new();
    }
    let line = |file: &DiskFile| format!("{}, {}", shown(&file.name), bytes_text(file.bytes));
    let mut lines: Vec<String> = facts.files.iter().take(MOST_FILES).map(line).collect();
    let more = facts.files.len() - lines.len();
    lines.extend((more > 0).then(|| format!("{}; --json has all", counted(more, "more file"))));
    lines
}

fn base_model(base: &BaseModelFacts) -> String {
    let maker = base.organization.as_deref().or(base.author.as_deref()).map(|name| format!("by {}", shown(name)));
    let name = [base.name.as_deref().map(shown), base.version.as_deref().map(shown), maker];
    let name = name.into_iter().flatten().collect::<Vec<_>>().join(" ");
    joined([Some(name).filter(|name| !name.is_empty()), base.url.as_deref().map(shown)])
}

fn types(facts: &FileFacts) -> String {
    let unit = ByteUnit::for_largest(facts.types.iter().filter_map(|row| row.bytes));
    let mut table = Table::new(&[
        ("TYPE", Align::Left),
        ("TENSORS", Align::Right),
        ("WEIGHTS", Align::Right),
        (unit.name(), Align::Right),
        ("BITS/WEIGHT", Align::Right),
        ("", Align::Left),
    ]);
    for row in &facts.types {
        table.row([
            row.name.clone(),
            grouped(row.tensors as u64),
            grouped(row.weights),
            row.bytes.map_or("?".to_owned(), |bytes| unit.number(bytes)),
            row.bits_per_weight.map_or("?".to_owned(), |bits| format!("{bits:.2}")),
            type_remark(row).to_owned(),
        ]);
    }
    table.text() + &on_disk(facts)
}

/// What a folder's weights are in its files, where that is another type than what they are read as.
fn on_disk(facts: &FileFacts) -> String {
    let is_same = facts
        .disk_types
        .iter()
        .all(|row| facts.types.iter().any(|own| own.name == row.name && own.tensors == row.tensors));
    if is_same {
        return String::new();
    }
    let rows: Vec<String> = facts
        .disk_types
        .iter()
        .map(|row| format!("{} in {}", shown(&row.name), counted(row.tensors, "tensor")))
        .collect();
    format!("on the disk: {}\n", rows.join(", "))
}

fn type_remark(row: &TypeFacts) -> &'static str {
    match row.status {
        "supported" => "",
        "removed" => "removed from GGUF, not read by this version",
        "unknown" => "unknown, not read by this version",
        _ => "not read by this version",
    }
}

/// The memory at several contexts.
fn need(memory: &MemoryFacts, is_context_chosen: bool) -> String {
    let unit = ByteUnit::for_largest(memory.rows.iter().map(|row| row.need.total_bytes));
    let total = format!("{} IN ALL", unit.name());
    let mut table = Table::new(&[
        ("CONTEXT", Align::Right),
        ("WEIGHTS", Align::Right),
        ("KV CACHE", Align::Right),
        ("BUFFERS", Align::Right),
        (&total, Align::Right),
        ("", Align::Left),
    ]);
    for row in &memory.rows {
        let need = &row.need;
        table.row([
            grouped(need.context as u64),
            unit.number(need.weights_bytes),
            unit.number(need.kv_bytes),
            unit.number(need.scratch_bytes),
            unit.number(need.total_bytes),
            row_remark(row, is_context_chosen),
        ]);
    }
    table.text() + &there(memory)
}

fn row_remark(row: &MemoryRow, is_context_chosen: bool) -> String {
    let fits = match row.fits {
        Some(true) => Some("fits"),
        Some(false) => Some("does not fit"),
        None => None,
    };
    let chosen = row.is_chosen.then_some(if is_context_chosen { "as asked for" } else { "the default" });
    let whole = row.is_whole.then_some("the whole context");
    joined([fits, chosen, whole].map(|text| text.map(str::to_owned)))
}

/// What the device has, and what a token takes.
fn there(memory: &MemoryFacts) -> String {
    let device = on_one_line(&memory.device);
    let available = match memory.available_bytes {
        Some(bytes) => format!("{device} has {} free", bytes_text(bytes)),
        None => format!("the memory of {device} is not known"),
    };
    let mut text = format!("{available}; each token takes {} of KV cache", bytes_text(memory.kv_bytes_per_token));
    if memory.state_bytes_per_page > 0 {
        let state = bytes_text(memory.state_bytes_per_page);
        text += &format!(", and short convolutions {state} for every {}", memory.page_tokens);
    }
    text + "\n"
}

fn odd(facts: &FileFacts, style: Style) -> String {
    if facts.odd.is_empty() {
        return String::new();
    }
    let mut table = Table::without_head(&[Align::Left, Align::Left]);
    let is_remark = |kind: OddityKind| kind == OddityKind::Tokenizer;
    let mut remarks = 0;
    for odd in &facts.odd {
        remarks += usize::from(is_remark(odd.kind));
        if !is_remark(odd.kind) || remarks <= MOST_TOKENIZER_REMARKS {
            table.row(["-".to_owned(), sentence(&odd.text) + remedy(odd.kind)]);
        }
    }
    if let Some(more @ 1..) = remarks.checked_sub(MOST_TOKENIZER_REMARKS) {
        let more = counted(more, "more remark");
        table.row(["-".to_owned(), format!("{more} of the tokenizer; --json has them all")]);
    }
    format!("{}\n{}\n", style.bold("WORTH KNOWING"), table.text())
}

/// What to do about it with this program.
fn remedy(kind: OddityKind) -> &'static str {
    match kind {
        OddityKind::NoTemplate => " (`duan complete`)",
        OddityKind::NoEndOfTurn | OddityKind::UnknownTurnEnd => "; -n limits them",
        OddityKind::LargeContext => " (--context)",
        OddityKind::UnusedTensors => "; --tensors lists all",
        _ => "",
    }
}

/// A sentence that may quote a file, on one line.
fn sentence(text: &str) -> String {
    crate::output::style::shortened(&on_one_line(text), LONGEST_SENTENCE)
}
