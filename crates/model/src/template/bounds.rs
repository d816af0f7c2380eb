//! Bounds on what filters make of lists that are longer than they look.
//!
//! The engine charges fuel for the bytes that it makes, and checks most sizes before it makes them. What it does not see
//! beforehand is a list that says the same long text many times over: `x + x` and `[x] * n` take no memory themselves, whatever
//! their length, until something writes them out. So every filter and method that writes values into a text is charged here for
//! that text first, at the engine's own price of one unit of fuel for 64 bytes; what cannot be paid is never made.
//!
//! # What stays open
//!
//! Operators cannot be replaced. `~` writes a list into a text without asking, and the 33rd `+` in a row on the same list copies
//! it. A template that doubles a list thirty times and then does either can fill the memory; the deadline ends the waiting for
//! it, not the filling. No known template joins lists so.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

/// Bytes that one unit of fuel pays for, as in the engine.
const BYTES_PER_FUEL: usize = 64;

/// Values nested deeper than this are refused.
const DEEPEST: usize = 200;

/// Puts charged filters in place of those that write any value into a text.
pub(super) fn bound_filters(environment: &mut Environment<'static>) {
    // The engine's own filters stay under names that no template can write.
    macro_rules! bound {
        ($($name:literal: $filter:path),* $(,)?) => {$(
            environment.add_filter(concat!("duan ", $name), $filter);
            environment.add_filter($name, |state: &mut State, arguments: Rest<ValueOrKwargs>| {
                let arguments = values(arguments);
                // Texts were charged for when they came in, and are again in what comes out.
                for argument in arguments.iter().filter(|argument| argument.as_str().is_none()) {
                    charge_text(state, argument, 0)?;
                }
                state.apply_filter(concat!("duan ", $name), &arguments)
            });
        )*};
    }
    bound! {
        "safe": filters::safe, "escape": filters::escape, "e": filters::escape, "lower": filters::lower,
        "upper": filters::upper, "title": filters::title, "capitalize": filters::capitalize, "replace": filters::replace,
        "trim": filters::trim, "indent": filters::indent, "format": filters::format, "pprint": filters::pprint,
    }
    environment.add_filter("duan join", filters::join);
    environment.add_filter("join", |state: &mut State, arguments: Rest<ValueOrKwargs>| {
        let mut arguments = values(arguments);
        if let Some(list) = arguments.first_mut() {
            *list = charged_items(state, list)?;
        }
        state.apply_filter("duan join", &arguments)
    });
    // It writes everything that the template knows.
    environment.remove_global("debug");
}

/// Arguments as they are passed on, with the named ones as the last.
fn values(arguments: Rest<ValueOrKwargs>) -> Vec<Value> {
    arguments.0.into_iter().map(ValueOrKwargs::into_value).collect()
}

/// The items of a list that is to be joined, after their texts were charged for. What is no list is given back.
pub(super) fn charged_items(state: &State, list: &Value) -> Result<Value, Error> {
    if !matches!(list.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(list.clone());
    }
    let mut items = Vec::new();
    for item in list.try_iter()? {
        charge_text(state, &item, 0)?;
        items.push(item);
    }
    Ok(Value::from(items))
}

/// Charges for the text that a value is as part of a text.
pub(super) fn charge_text(state: &State, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("values are nested deeper than {DEEPEST}")));
    }
    let bytes = value.as_str().map_or(0, str::len);
    state.consume_fuel(bytes.div_ceil(BYTES_PER_FUEL).max(1) as u64)?;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                charge_text(state, &item, depth + 1)?;
            }
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                charge_text(state, &key, depth + 1)?;
                charge_text(state, &value.get_item(&key)?, depth + 1)?;
            }
        }
        _ => {}
    }
    Ok(())
}
