//! Methods and filters of texts, as Python has them, and modulo marks: what is looked for is found whether it is marked or not, and
//! what is left keeps its marks.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::bounds::{BYTES_PER_FUEL, charge_text, passed_on};
use super::environment::{indentation, marks, python_str};
use super::marks::Marks;
use super::values::{charged_items, plain};

/// Puts the filters that are methods of texts into an environment.
pub(super) fn add_filters(environment: &mut Environment<'static>) {
    environment.add_filter("upper", |state: &State, value: &Value| filter(state, value, "upper", &[]));
    environment.add_filter("lower", |state: &State, value: &Value| filter(state, value, "lower", &[]));
    environment.add_filter("capitalize", |state: &State, value: &Value| filter(state, value, "capitalize", &[]));
    environment.add_filter("title", |state: &State, value: &Value| {
        let value = python_str(state, value)?;
        mapped(state, value.as_str().unwrap_or_default(), titles)
    });
    environment.add_filter("indent", indent);
    environment.add_filter("trim", |state: &State, value: &Value, arguments: Rest<ValueOrKwargs>| {
        filter(state, value, "strip", &passed_on(arguments))
    });
    environment.add_filter("replace", |state: &State, value: &Value, arguments: Rest<ValueOrKwargs>| {
        filter(state, value, "replace", &passed_on(arguments))
    });
}

/// Lines as Python's `splitlines` gives them.
fn lines(text: &str) -> Vec<&str> {
    let is_end = |c: char| matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(is_end) {
        lines.push(&rest[..end]);
        let ending = rest[end..].chars().next().map_or(0, char::len_utf8);
        rest = &rest[if rest[end..].starts_with("\r\n") { end + 2 } else { end + ending }..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// The filter `indent`: a number of spaces, or a text, before each line but the first and empty ones.
fn indent(state: &State, value: &Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = passed_on(arguments);
    let (width, first, blank, named): (Option<Value>, Option<bool>, Option<bool>, Kwargs) = from_args(&arguments)?;
    let width: Option<Value> = width.or(named.get("width")?);
    let is_first = first.or(named.get("first")?).unwrap_or(false);
    let is_blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    let indentation = match width {
        None => " ".repeat(4),
        Some(width) => indentation(width)?,
    };
    let text = python_str(state, value)?;
    let text = format!("{}\n", text.as_str().unwrap_or_default());
    let lines = lines(&text);
    let made = lines.len().saturating_mul(indentation.len() + 1).saturating_add(text.len());
    state.consume_fuel((made / BYTES_PER_FUEL) as u64)?;
    let mut out = String::new();
    for (index, line) in lines.into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if index == 0 && is_first || index > 0 && (is_blank || !line.is_empty()) {
            out.push_str(&indentation);
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

/// A filter that is a method of texts, for any value.
fn filter(state: &State, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let text = python_str(state, value)?;
    call(state, text.as_str().unwrap_or_default(), name, arguments)
        .unwrap_or_else(|| Err(Error::from(ErrorKind::UnknownMethod)))
}

/// A method that is not called.
#[derive(Debug)]
struct Method;

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// Methods of Python's types.
pub(super) fn method(state: &mut State, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    if let Some(attribute) = name.strip_prefix("duan_attribute_") {
        // A namespace is a map to the engine, and none to Python.
        let is_namespace = value.as_object().is_some_and(|object| object.type_name().contains("Namespace"));
        let is_dictionary = value.kind() == ValueKind::Map && !is_namespace;
        return if is_dictionary { Ok(Value::from_object(Method)) } else { value.get_attr(attribute) };
    }
    let Some(text) = value.as_str() else {
        return pycompat::unknown_method_callback(state, value, name, arguments);
    };
    if let Some(result) = call(state, text, name, arguments) {
        return result;
    }
    match name {
        "join" => {
            let (list,): (&Value,) = from_args(arguments)?;
            let list = charged_items(state, list)?;
            pycompat::unknown_method_callback(state, value, name, &[list])
        }
        "splitlines" if arguments.is_empty() => {
            charge_list(state, text.len() / 2)?;
            Ok(list(lines(text)))
        }
        // Questions that are answered with yes or no.
        _ if name.starts_with("is") => {
            let text = plain(state, value).unwrap_or_default().into_owned();
            pycompat::unknown_method_callback(state, &Value::from(text), name, arguments)
        }
        _ => {
            for argument in arguments {
                charge_text(state, argument, 0)?;
            }
            pycompat::unknown_method_callback(state, value, name, arguments)
        }
    }
}

/// A text and what it says without marks: equal but for stand-ins, character by character.
struct Twin<'t> {
    text: &'t str,
    plain: Cow<'t, str>,
}

impl<'t> Twin<'t> {
    fn new(state: &State, text: &'t str) -> Twin<'t> {
        let holder = marks(state);
        let plain = match holder.as_ref().and_then(|marks| marks.downcast_object_ref::<Marks>()) {
            Some(marks) if marks.are_in(text) => Cow::Owned(marks.plain(text)),
            _ => Cow::Borrowed(text),
        };
        Twin { text, plain }
    }

    /// The pieces of `text` between places of `plain`, which are in order: one more than places.
    fn pieces(&self, places: impl IntoIterator<Item = usize>) -> Vec<&'t str> {
        let mut pieces = Vec::new();
        let (mut start, mut at) = (0, 0);
        let mut twins = self.text.chars().zip(self.plain.chars());
        let mut done = 0;
        for place in places {
            if matches!(self.plain, Cow::Borrowed(_)) {
                at = place;
            }
            while done < place && matches!(self.plain, Cow::Owned(_)) {
                let Some((character, original)) = twins.next() else { break };
                done += original.len_utf8();
                at += character.len_utf8();
            }
            pieces.push(&self.text[start..at]);
            start = at;
        }
        pieces.push(&self.text[start..]);
        pieces
    }

    /// What is left of `text` without `front` and `back` bytes of `plain`.
    fn inside(&self, front: usize, back: usize) -> &'t str {
        let end = self.plain.len().saturating_sub(back).max(front);
        self.pieces([front, end])[1]
    }

    /// The pieces of `text` between parts of `plain`, each given by its start; all of `length`.
    fn split(&self, starts: &[usize], length: usize) -> Vec<&'t str> {
        let places = starts.iter().flat_map(|&start| [start, start + length]);
        self.pieces(places).into_iter().step_by(2).collect()
    }
}

/// A method of texts that looks for its arguments or changes case; `None` for all others.
fn call(state: &State, text: &str, name: &str, arguments: &[Value]) -> Option<Result<Value, Error>> {
    let twin = Twin::new(state, text);
    Some(match name {
        "strip" | "lstrip" | "rstrip" => strip(state, &twin, name, arguments),
        "split" | "rsplit" => split(state, &twin, name == "rsplit", arguments),
        "partition" | "rpartition" => partition(state, &twin, name == "rpartition", arguments),
        "replace" => replace(state, &twin, arguments),
        "removeprefix" | "removesuffix" => remove(state, &twin, name == "removesuffix", arguments),
        "startswith" | "endswith" => is_at_an_end(state, &twin, name == "endswith", arguments),
        "find" | "rfind" | "index" | "rindex" | "count" => find(state, &twin, name, arguments),
        "upper" => mapped(state, text, |text| text.to_uppercase()),
        "lower" => mapped(state, text, |text| text.to_lowercase()),
        "capitalize" => mapped(state, text, capitalized),
        "title" => mapped(state, text, titled),
        _ => return None,
    })
}

fn failed(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// A text among the arguments, without marks.
fn argument<'v>(state: &State, value: &'v Value, name: &str) -> Result<Cow<'v, str>, Error> {
    plain(state, value)
        .ok_or_else(|| failed(format!("{name}: a text is needed, and not a value of type {}", value.kind())))
}

fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

fn strip(state: &State, twin: &Twin<'_>, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (set,): (Option<&Value>,) = from_args(arguments)?;
    let set = set.filter(|set| !set.is_none()).map(|set| argument(state, set, name)).transpose()?;
    let is_cut = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set.contains(c));
    let all = twin.plain.as_ref();
    let front = if name == "rstrip" { 0 } else { all.len() - all.trim_start_matches(is_cut).len() };
    let back = if name == "lstrip" { 0 } else { all.len() - all.trim_end_matches(is_cut).len() };
    Ok(Value::from(twin.inside(front, back)))
}

fn split(state: &State, twin: &Twin<'_>, is_reverse: bool, arguments: &[Value]) -> Result<Value, Error> {
    let (separator, most, named): (Option<&Value>, Option<i64>, Kwargs) = from_args(arguments)?;
    let named_separator: Option<Value> = named.get("sep")?;
    let separator = separator.or(named_separator.as_ref()).filter(|separator| !separator.is_none());
    let most: Option<i64> = most.or(named.get("maxsplit")?);
    named.assert_all_used()?;
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let Some(separator) = separator else { return Ok(list(words(twin.text, is_reverse, most))) };
    let separator = argument(state, separator, "split")?;
    if separator.is_empty() {
        return Err(failed("split: the separator is empty"));
    }
    let starts: Vec<usize> = if is_reverse {
        let mut starts: Vec<usize> = twin.plain.rmatch_indices(separator.as_ref()).take(most).map(|m| m.0).collect();
        starts.reverse();
        starts
    } else {
        twin.plain.match_indices(separator.as_ref()).take(most).map(|m| m.0).collect()
    };
    charge_list(state, starts.len())?;
    Ok(list(twin.split(&starts, separator.len())))
}

fn list(texts: Vec<&str>) -> Value {
    texts.into_iter().map(Value::from).collect()
}

/// As the engine charges for places in lists.
fn charge_list(state: &State, items: usize) -> Result<(), Error> {
    state.consume_fuel(items as u64 / 2)
}

/// The words of a text; what comes after `most` splits stays one piece. White space is never marked.
fn words(text: &str, is_reverse: bool, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = if is_reverse { text.trim_end_matches(is_space) } else { text.trim_start_matches(is_space) };
    while !rest.is_empty() {
        if words.len() == most {
            words.push(rest);
            break;
        }
        if is_reverse {
            let start = rest.trim_end_matches(|c| !is_space(c)).len();
            words.push(&rest[start..]);
            rest = rest[..start].trim_end_matches(is_space);
        } else {
            let end = rest.len() - rest.trim_start_matches(|c| !is_space(c)).len();
            words.push(&rest[..end]);
            rest = rest[end..].trim_start_matches(is_space);
        }
    }
    words.retain(|word| !word.is_empty());
    if is_reverse {
        words.reverse();
    }
    words
}

fn partition(state: &State, twin: &Twin<'_>, is_reverse: bool, arguments: &[Value]) -> Result<Value, Error> {
    let (separator,): (&Value,) = from_args(arguments)?;
    let separator = argument(state, separator, "partition")?;
    if separator.is_empty() {
        return Err(failed("partition: the separator is empty"));
    }
    let plain = &twin.plain;
    let start = if is_reverse { plain.rfind(separator.as_ref()) } else { plain.find(separator.as_ref()) };
    let parts = match start {
        Some(start) => twin.pieces([start, start + separator.len()]),
        None if is_reverse => vec!["", "", twin.text],
        None => vec![twin.text, "", ""],
    };
    Ok(Value::from(minijinja::value::Tuple::from(parts.into_iter().map(Value::from).collect::<Vec<_>>())))
}

fn replace(state: &State, twin: &Twin<'_>, arguments: &[Value]) -> Result<Value, Error> {
    let (old, new, most): (&Value, &Value, Option<i64>) = from_args(arguments)?;
    let old = argument(state, old, "replace")?;
    let new = new.as_str().ok_or_else(|| failed("replace: a text is replaced by a text"))?;
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let starts: Vec<usize> = twin.plain.match_indices(old.as_ref()).take(most).map(|found| found.0).collect();
    let made = starts.len().saturating_mul(new.len()).saturating_add(twin.text.len());
    state.consume_fuel((made / BYTES_PER_FUEL) as u64)?;
    Ok(Value::from(twin.split(&starts, old.len()).join(new)))
}

fn remove(state: &State, twin: &Twin<'_>, is_end: bool, arguments: &[Value]) -> Result<Value, Error> {
    let (part,): (&Value,) = from_args(arguments)?;
    let part = argument(state, part, "removeprefix")?;
    let is_there = if is_end { twin.plain.ends_with(part.as_ref()) } else { twin.plain.starts_with(part.as_ref()) };
    let cut = if is_there { part.len() } else { 0 };
    Ok(Value::from(if is_end { twin.inside(0, cut) } else { twin.inside(cut, 0) }))
}

fn is_at_an_end(state: &State, twin: &Twin<'_>, is_end: bool, arguments: &[Value]) -> Result<Value, Error> {
    let (parts, start, end): (&Value, Option<i64>, Option<i64>) = from_args(arguments)?;
    let (text, _) = section(&twin.plain, start, end);
    let is_there = |part: &Value| {
        let part = argument(state, part, "startswith")?;
        Ok::<bool, Error>(if is_end { text.ends_with(part.as_ref()) } else { text.starts_with(part.as_ref()) })
    };
    if parts.kind() != ValueKind::Seq {
        return is_there(parts).map(Value::from);
    }
    for part in parts.try_iter()? {
        if is_there(&part)? {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

/// The characters of a text from `start` to `end`, counted as Python does, and how many stand before them.
fn section(text: &str, start: Option<i64>, end: Option<i64>) -> (&str, usize) {
    if start.is_none() && end.is_none() {
        return (text, 0);
    }
    let count = text.chars().count();
    let place = |index: i64| {
        let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        if index < 0 { count.saturating_sub(distance) } else { distance.min(count) }
    };
    let (start, end) = (start.map_or(0, place), end.map_or(count, place));
    let byte = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte);
    (text.get(byte(start)..byte(end)).unwrap_or_default(), start)
}

fn find(state: &State, twin: &Twin<'_>, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (part, start, end): (&Value, Option<i64>, Option<i64>) = from_args(arguments)?;
    let part = argument(state, part, name)?;
    let (text, before) = section(&twin.plain, start, end);
    if name == "count" {
        return Ok(Value::from(text.matches(part.as_ref()).count()));
    }
    let found = if name.starts_with('r') { text.rfind(part.as_ref()) } else { text.find(part.as_ref()) };
    match found {
        Some(byte) => Ok(Value::from(before + text[..byte].chars().count())),
        None if name.ends_with("find") => Ok(Value::from(-1)),
        None => Err(failed(format!("{name}: the text is not there"))),
    }
}

/// A text whose characters `map` changes; those that come of marked ones are marked.
fn mapped(state: &State, text: &str, map: impl Fn(&str) -> String) -> Result<Value, Error> {
    let holder = marks(state);
    let Some(marks) = holder.as_ref().and_then(|marks| marks.downcast_object_ref::<Marks>()) else {
        return Ok(Value::from(map(text)));
    };
    let changed = map(&marks.plain(text));
    let marked = |original: char, changed: char| match marks.original(original) {
        Some(_) => marks.known_stand_in(changed),
        None => Some(changed),
    };
    let out: Option<String> = if changed.chars().count() == text.chars().count() {
        text.chars().zip(changed.chars()).map(|(original, changed)| marked(original, changed)).collect()
    } else if text.chars().any(|character| marks.original(character).is_some()) {
        // Some character became several; all of them are the message's.
        changed.chars().map(|character| marks.known_stand_in(character)).collect()
    } else {
        Some(changed)
    };
    out.map(Value::from).ok_or_else(|| failed("a message has characters that cannot be marked"))
}

/// `str.capitalize`.
fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters.as_str().to_lowercase().chars()).collect(),
        None => String::new(),
    }
}

/// `str.title`: each letter after another character begins a word.
fn titled(text: &str) -> String {
    title(text, |before| !before.is_alphabetic())
}

/// The filter `title`: words begin after white space and some brackets.
fn titles(text: &str) -> String {
    title(text, |before| before.is_whitespace() || "-({[<".contains(before))
}

fn title(text: &str, begins_after: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for character in text.chars() {
        if begins_after(before) {
            out.extend(character.to_uppercase());
        } else {
            out.extend(character.to_lowercase());
        }
        before = character;
    }
    out
}
