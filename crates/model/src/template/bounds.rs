//! Bounds on what filters make of lists that are longer than they look.
//!
//! The engine charges fuel for the bytes that it makes, and checks most sizes before it makes them. What it does not see
//! beforehand is a list that says the same long text many times over: `[x] * n` takes no memory itself, whatever its length, until
//! something writes it out. So every operator, filter and method that writes values into a text or copies a list is charged for
//! that first, at the engine's own price of one unit of fuel for 64 bytes; what cannot be paid is never made. For operators see
//! [`super::values`].

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

use super::environment::python_str;
use super::values::{charged_items, escaped, generator, items, plain};

/// Bytes that one unit of fuel pays for, as in the engine.
pub(super) const BYTES_PER_FUEL: usize = 64;

/// Values nested deeper than this are refused.
const DEEPEST: usize = 200;

/// Puts filters in place of the engine's that are charged for, that know marks, or that give what Jinja2's give.
pub(super) fn add_filters(environment: &mut Environment<'static>) {
    // The engine's own filters stay under names that no template can write.
    macro_rules! bound {
        ($($name:literal: $filter:path),* $(,)?) => {$(
            environment.add_filter(concat!("duan ", $name), $filter);
            environment.add_filter($name, |state: &mut State, arguments: Rest<ValueOrKwargs>| {
                let arguments = passed_on(arguments);
                // Texts were charged for when they came in, and are again in what comes out.
                for argument in arguments.iter().filter(|argument| argument.as_str().is_none()) {
                    charge_text(state, argument, 0)?;
                }
                state.apply_filter(concat!("duan ", $name), &arguments)
            });
        )*};
    }
    bound! {
        "safe": filters::safe, "format": filters::format, "pprint": filters::pprint,
    }
    // What is no list in Jinja2 must not become one here.
    macro_rules! generators {
        ($($name:literal: $filter:path),* $(,)?) => {$(
            environment.add_filter(concat!("duan ", $name), $filter);
            environment.add_filter($name, |state: &mut State, arguments: Rest<ValueOrKwargs>| {
                state.apply_filter(concat!("duan ", $name), &passed_on(arguments)).and_then(generator)
            });
        )*};
    }
    generators! {
        "map": filters::map, "select": filters::select, "reject": filters::reject, "selectattr": filters::selectattr,
        "rejectattr": filters::rejectattr, "unique": filters::unique, "batch": filters::batch, "slice": filters::slice,
        "items": filters::items, "reverse": filters::reverse,
    }
    // The engine takes `none` for an empty list.
    macro_rules! of_lists {
        ($($name:literal: $filter:path),* $(,)?) => {$(
            environment.add_filter(concat!("duan ", $name), $filter);
            environment.add_filter($name, |state: &mut State, arguments: Rest<ValueOrKwargs>| {
                let arguments = passed_on(arguments);
                arguments.first().map(items).transpose()?;
                state.apply_filter(concat!("duan ", $name), &arguments)
            });
        )*};
    }
    of_lists! {
        "list": filters::list, "first": filters::first, "sum": filters::sum, "min": filters::min,
        "max": filters::max,
    }
    for name in ["escape", "e"] {
        environment.add_filter(name, |state: &State, value: &Value| {
            let text = python_str(state, value)?;
            let text = text.as_str().unwrap_or_default();
            Ok::<Value, Error>(if value.is_safe() {
                value.clone()
            } else {
                Value::from_safe_string(escaped(state, text))
            })
        });
    }
    environment.add_filter("duan join", filters::join);
    environment.add_filter("join", |state: &mut State, arguments: Rest<ValueOrKwargs>| {
        let mut arguments = passed_on(arguments);
        if let Some(list) = arguments.first_mut() {
            *list = charged_items(state, list)?;
        }
        state.apply_filter("duan join", &arguments)
    });
    for (name, own) in [("int", "duan int"), ("float", "duan float")] {
        environment.add_filter(name, move |state: &mut State, arguments: Rest<ValueOrKwargs>| {
            let mut arguments = passed_on(arguments);
            if let Some(value) = arguments.first_mut()
                && let Some(text) = plain(state, value)
            {
                *value = Value::from(text.into_owned());
            }
            let Some(value) = arguments.first().filter(|value| !value.is_undefined()).cloned() else {
                return Err(Error::new(ErrorKind::UndefinedError, "a number is made of something undefined"));
            };
            match state.apply_filter(own, &arguments) {
                Err(error) if error.kind() != ErrorKind::OutOfFuel => Ok(default_of(&arguments, own, &value)),
                other => other,
            }
        });
    }
    environment.add_filter("duan int", filters::int);
    environment.add_filter("duan float", filters::float);
    environment.add_filter("duan sort", filters::sort);
    environment.add_filter("sort", sort);
    environment.add_filter("duan dictsort", filters::dictsort);
    environment.add_filter("dictsort", dictsort);
    // It writes everything that the template knows.
    environment.remove_global("debug");
}

/// What `int` and `float` give for what is no number: the default that they were given, or zero.
fn default_of(arguments: &[Value], own: &str, value: &Value) -> Value {
    let named = arguments.last().filter(|last| last.is_kwargs()).and_then(|named| named.get_attr("default").ok());
    let default = arguments.get(1).filter(|second| !second.is_kwargs()).cloned();
    let zero = if own == "duan int" { Value::from(0) } else { Value::from(0.0) };
    let is_infinite = value.as_str().is_none() && f64::try_from(value.clone()).is_ok_and(f64::is_infinite);
    if is_infinite { zero } else { named.filter(|named| !named.is_undefined()).or(default).unwrap_or(zero) }
}

/// Arguments as they are passed on, with the named ones as the last.
pub(super) fn passed_on(arguments: Rest<ValueOrKwargs>) -> Vec<Value> {
    arguments.0.into_iter().map(ValueOrKwargs::into_value).collect()
}

/// A list of texts in the order of what they say, in lower case. Any other order is left to the engine.
fn sort(state: &mut State, list: &Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let list = items(list)?;
    let arguments: Vec<Value> = [list.clone()].into_iter().chain(passed_on(arguments)).collect();
    let mut texts = Vec::new();
    for item in list.try_iter()? {
        state.consume_fuel(1)?;
        match plain(state, &item).filter(|_| arguments.len() == 1) {
            Some(text) => texts.push((text.to_lowercase(), item.clone())),
            None => return state.apply_filter("duan sort", &arguments),
        }
    }
    texts.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(texts.into_iter().map(|(_, item)| item).collect())
}

/// The entries of a map in the order of what their keys say, in lower case. Any other order is left to the engine.
fn dictsort(state: &mut State, map: &Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = passed_on(arguments);
    if map.kind() != ValueKind::Map || !arguments.is_empty() {
        let arguments: Vec<Value> = [map.clone()].into_iter().chain(arguments).collect();
        return state.apply_filter("duan dictsort", &arguments);
    }
    let mut entries = Vec::new();
    for key in map.try_iter()? {
        state.consume_fuel(1)?;
        let Some(name) = plain(state, &key) else {
            return state.apply_filter("duan dictsort", std::slice::from_ref(map));
        };
        entries.push((name.to_lowercase(), key.clone(), map.get_item(&key)?));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let pairs = entries.into_iter().map(|(_, key, value)| Value::from(minijinja::value::Tuple::from([key, value])));
    Ok(Value::from(pairs.collect::<Vec<_>>()))
}

/// Refuses values that are nested too deep.
pub(super) fn check_depth(depth: usize) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("values are nested deeper than {DEEPEST}")));
    }
    Ok(())
}

/// Charges for the text that a value is as part of a text.
pub(super) fn charge_text(state: &State, value: &Value, depth: usize) -> Result<(), Error> {
    check_depth(depth)?;
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
