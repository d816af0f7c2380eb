//! The template engine, set up as Hugging Face sets up Jinja2 for chat templates.

use std::fmt;
use std::sync::atomic::AtomicBool;

use jiff::ZonedDateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Object, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};

use super::marks::Marks;
use super::operators::TooDeep;
use super::python::{self, JsonStyle, Scope};
use super::{bounds, stack, text, values};

/// Name of the one template in an environment.
pub(super) const TEMPLATE: &str = "chat_template";

/// Names under which a render finds its marks and its clock; no template can write them.
pub(super) const MARKS: &str = "duan marks";
/// See [`MARKS`].
pub(super) const CLOCK: &str = "duan clock";

/// The time that a prompt may state.
#[derive(Debug)]
pub(super) struct Clock(pub(super) ZonedDateTime);

impl Object for Clock {}

/// What a template said with `raise_exception`.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// An environment that holds `source` as [`TEMPLATE`].
///
/// # Errors
/// Where `source` is no template, or takes too long to read.
pub(super) fn environment(source: &str) -> Result<Environment<'static>, Error> {
    // What is put into the source nests no deeper than the source did, but for brackets, which the engine counts.
    let stack_bytes = stack::bytes_to_read(source);
    let source = super::source::prepared(source)
        .map_err(|TooDeep| Error::new(ErrorKind::SyntaxError, "brackets are nested too deep"))?;
    stack::run(stack_bytes, &AtomicBool::new(false), move || read(source))
}

/// See [`environment`]; needs the stack for it.
fn read(source: String) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(false).build()?,
    );
    environment.set_debug(false);
    environment.set_recursion_limit(100);
    environment.set_unknown_method_callback(text::method);
    environment.set_formatter(print);
    bounds::add_filters(&mut environment);
    text::add_filters(&mut environment);
    values::add_operators(&mut environment);
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", |state: &State, value: &Value| python_str(state, value));
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_template_owned(TEMPLATE, source)?;
    Ok(environment)
}

/// The marks of this render, in a value that holds [`Marks`]; `None` where messages are not marked.
pub(super) fn marks(state: &State) -> Option<Value> {
    state.lookup(MARKS).filter(|value| value.downcast_object_ref::<Marks>().is_some())
}

/// Runs `write` with the marks of this render, where it has any, and with its fuel.
fn with_scope<R>(state: &State, write: impl FnOnce(&Scope<'_>) -> R) -> R {
    let value = marks(state);
    let marks = value.as_ref().and_then(|value| value.downcast_object_ref::<Marks>());
    // Writing costs more than copying, for which the engine charges one for 64 bytes.
    write(&Scope { marks, charge: &|bytes| state.consume_fuel(bytes.div_ceil(16) as u64) })
}

/// Prints a value as Python's `str` does.
fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::Number => {
            let text = python_str(state, value)?;
            out.write_str(text.as_str().unwrap_or_default()).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// `str(VALUE)`; markup stays markup.
pub(super) fn python_str(state: &State, value: &Value) -> Result<Value, Error> {
    if value.as_str().is_some() {
        return Ok(value.clone());
    }
    with_scope(state, |scope| python::to_str(value, scope)).map(Value::from)
}

/// Whether Python could iterate over a value. The engine lets templates iterate over `none`, which Python refuses, and
/// templates ask this before they count tools.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Whether a value has a length and places, as Python sees it: texts and dictionaries have.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map => true,
        ValueKind::Iterable => value.len().is_some(),
        _ => false,
    }
}

/// `raise_exception(MESSAGE)`: the template refuses the conversation.
fn raise_exception(state: &State, message: &Value) -> Result<Value, Error> {
    let message = python_str(state, message)?.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Refusal(message)))
}

/// `strftime_now(FORMAT)`: the date and time of the render.
fn strftime_now(state: &State, format: &str) -> Result<String, Error> {
    let clock = state.lookup(CLOCK);
    let clock = clock.as_ref().and_then(|clock| clock.downcast_object_ref::<Clock>());
    let clock = clock.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "strftime_now: there is no clock"))?;
    jiff::fmt::strtime::format(format, &clock.0)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now({format:?}): {error}")))
}

/// `tojson`, with the arguments that Hugging Face gives it: those of `json.dumps`, and Unicode left as it is.
fn to_json(
    state: &State,
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    arguments: Kwargs,
) -> Result<Value, Error> {
    let ensure_ascii = ensure_ascii.or(arguments.get("ensure_ascii")?);
    let indent = indent.or(arguments.get("indent")?).filter(|value| !value.is_none());
    let separators = arguments.get::<Option<Value>>("separators")?.filter(|value| !value.is_none());
    let sort_keys: Option<bool> = arguments.get("sort_keys")?;
    arguments.assert_all_used()?;
    let indent = indent.map(indentation).transpose()?;
    let (item_separator, key_separator) = match separators {
        Some(pair) => (text_item(&pair, 0)?, text_item(&pair, 1)?),
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let style = JsonStyle {
        ensure_ascii: ensure_ascii.unwrap_or(false),
        sort_keys: sort_keys.unwrap_or(false),
        indent,
        item_separator,
        key_separator,
    };
    with_scope(state, |scope| python::to_json(value, &style, scope)).map(Value::from)
}

/// The `indent` of `json.dumps`, or the width of the filter of that name: a number of spaces, or the text itself.
pub(super) fn indentation(value: Value) -> Result<String, Error> {
    const WIDEST: usize = 64;
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let width = if value.kind() == ValueKind::Bool { usize::from(value.is_true()) } else { usize::try_from(value)? };
    if width > WIDEST {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("indent: {width} is more than {WIDEST}")));
    }
    Ok(" ".repeat(width))
}

fn text_item(pair: &Value, index: usize) -> Result<String, Error> {
    let item = pair.get_item_by_index(index)?;
    item.as_str().map(str::to_owned).ok_or_else(|| {
        Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two texts, for items and for keys")
    })
}
