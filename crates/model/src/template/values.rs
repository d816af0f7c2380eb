//! What operators do with values, as Python does it, and modulo marks.
//!
//! Templates ask what messages say: `'</think>' in content`, `content == 'ping'`. Messages may be marked (see [`super::marks`]), so
//! every comparison of two values looks at the originals (chains such as `a == b == c` stay with the engine, which sees the
//! marks). What is joined keeps its marks, and is charged for before it is made.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::bounds::{BYTES_PER_FUEL, charge_text, check_depth};
use super::environment::{marks, python_str};
use super::marks::Marks;

/// Puts the functions that operators become, and the tests that ask the same, into an environment.
pub(super) fn add_operators(environment: &mut Environment<'static>) {
    environment.add_function("duan_add", sum);
    environment.add_function("duan_concat", concat);
    environment.add_function("duan_equal", |state: &State, a: &Value, b: &Value| equal(state, a, b, 0));
    environment.add_function("duan_contains", |state: &State, list: &Value, item: &Value| contains(state, list, item));
    environment.add_function("duan_less", |state: &State, a: &Value, b: &Value| {
        compare(state, a, b, 0).map(|ordering| ordering == Some(Ordering::Less))
    });
    environment.add_function("duan_less_or_equal", |state: &State, a: &Value, b: &Value| {
        compare(state, a, b, 0).map(|ordering| matches!(ordering, Some(Ordering::Less | Ordering::Equal)))
    });
    environment.add_function("duan_items", items);
    for name in ["eq", "equalto", "==", "sameas"] {
        environment.add_test(name, |state: &State, a: &Value, b: &Value| equal(state, a, b, 0));
    }
    for name in ["ne", "!="] {
        environment.add_test(name, |state: &State, a: &Value, b: &Value| equal(state, a, b, 0).map(|is| !is));
    }
    environment.add_test("in", |state: &State, item: &Value, list: &Value| contains(state, list, item));
}

fn failed(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// The name of a value's type, as Python would say it.
fn type_name(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => "undefined".to_owned(),
        ValueKind::None => "none".to_owned(),
        kind => kind.to_string(),
    }
}

/// What a text says, without marks; `None` for what is no text.
pub(super) fn plain<'v>(state: &State, value: &'v Value) -> Option<Cow<'v, str>> {
    let text = value.as_str()?;
    let holder = marks(state);
    Some(match holder.as_ref().and_then(|marks| marks.downcast_object_ref::<Marks>()) {
        Some(marks) if marks.are_in(text) => marks.plain(text).into(),
        _ => Cow::Borrowed(text),
    })
}

/// `a + b + ...`.
fn sum(state: &State, operands: Rest<Value>) -> Result<Value, Error> {
    // The common case in one go: no text is copied again for each that is added to it.
    if operands.iter().all(|operand| operand.as_str().is_some() && !operand.is_safe()) {
        return concat(state, operands).map(Value::from);
    }
    let mut operands = operands.0.into_iter();
    let first = operands.next().unwrap_or_default();
    operands.try_fold(first, |sum, operand| add(state, &sum, &operand))
}

/// `a + b`.
fn add(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    match (a.as_str(), b.as_str()) {
        (Some(x), Some(y)) => {
            charge_bytes(state, x.len() + y.len())?;
            return Ok(if a.is_safe() == b.is_safe() {
                let text = [x, y].concat();
                if a.is_safe() { Value::from_safe_string(text) } else { Value::from(text) }
            } else {
                // Markup stays markup, and what is added to it is escaped.
                let escaped = |value: &Value, text: &str| {
                    if value.is_safe() { text.to_owned() } else { escaped(state, text) }
                };
                Value::from_safe_string(escaped(a, x) + &escaped(b, y))
            });
        }
        (None, None) => {}
        _ => return Err(not_for("+", a, b)),
    }
    if is_number(a) && is_number(b) {
        if let (Ok(x), Ok(y)) = (integer(a), integer(b)) {
            return x.checked_add(y).map(number).ok_or_else(|| failed("the sum is too large"));
        }
        return Ok(Value::from(float(a)? + float(b)?));
    }
    if !is_list(a) || !is_list(b) || a.is_tuple() != b.is_tuple() {
        return Err(not_for("+", a, b));
    }
    let mut list = Vec::new();
    for item in a.try_iter()?.chain(b.try_iter()?) {
        // Half a unit, as the engine charges for places in lists.
        if list.len() % 2 == 0 {
            state.consume_fuel(1)?;
        }
        list.push(item);
    }
    Ok(if a.is_tuple() { Value::from(minijinja::value::Tuple::from(list)) } else { Value::from(list) })
}

fn is_list(value: &Value) -> bool {
    value.kind() == ValueKind::Seq || is_slice(value)
}

/// Whether a value is a list that the engine makes when it is asked for, such as a slice.
fn is_slice(value: &Value) -> bool {
    value.kind() == ValueKind::Iterable && value.downcast_object_ref::<Generator>().is_none()
}

fn is_number(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}

fn integer(value: &Value) -> Result<i128, Error> {
    match value.kind() {
        ValueKind::Bool => Ok(i128::from(value.is_true())),
        _ if value.is_integer() => i128::try_from(value.clone()),
        _ => Err(failed("no integer")),
    }
}

fn float(value: &Value) -> Result<f64, Error> {
    if value.kind() == ValueKind::Bool {
        Ok(f64::from(u8::from(value.is_true())))
    } else {
        f64::try_from(value.clone())
    }
}

fn number(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

fn not_for(operator: &str, a: &Value, b: &Value) -> Error {
    failed(format!("{operator} is not for {} and {}", type_name(a), type_name(b)))
}

/// `a ~ b ~ ...`: all as texts, in a row.
fn concat(state: &State, operands: Rest<Value>) -> Result<String, Error> {
    let mut out = String::new();
    for operand in operands.0 {
        // What is no text is charged for as it is written.
        let text = if operand.as_str().is_some() { operand } else { python_str(state, &operand)? };
        let text = text.as_str().unwrap_or_default();
        charge_bytes(state, text.len())?;
        out.push_str(text);
    }
    Ok(out)
}

fn charge_bytes(state: &State, bytes: usize) -> Result<(), Error> {
    state.consume_fuel((bytes / BYTES_PER_FUEL) as u64)
}

/// `a == b`.
pub(super) fn equal(state: &State, a: &Value, b: &Value, depth: usize) -> Result<bool, Error> {
    check_depth(depth)?;
    if let (Some(x), Some(y)) = (plain(state, a), plain(state, b)) {
        charge_bytes(state, x.len().min(y.len()))?;
        return Ok(x == y);
    }
    if is_list(a) && is_list(b) {
        if a.is_tuple() != b.is_tuple() {
            return Ok(false);
        }
        let (mut left, mut right) = (a.try_iter()?, b.try_iter()?);
        loop {
            state.consume_fuel(1)?;
            match (left.next(), right.next()) {
                (None, None) => return Ok(true),
                (Some(x), Some(y)) if equal(state, &x, &y, depth + 1)? => {}
                _ => return Ok(false),
            }
        }
    }
    if a.kind() == ValueKind::Map && b.kind() == ValueKind::Map {
        if a.len() != b.len() {
            return Ok(false);
        }
        for key in a.try_iter()? {
            state.consume_fuel(1)?;
            let Some(other) = item_of(state, b, &key)? else { return Ok(false) };
            if !equal(state, &a.get_item(&key)?, &other, depth + 1)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    Ok(a == b)
}

/// The value of a key that is the same but for marks.
fn item_of(state: &State, map: &Value, key: &Value) -> Result<Option<Value>, Error> {
    let value = map.get_item(key)?;
    if !value.is_undefined() || marks(state).is_none() {
        return Ok(Some(value).filter(|value| !value.is_undefined()));
    }
    for other in map.try_iter()? {
        state.consume_fuel(1)?;
        if let (Some(x), Some(y)) = (plain(state, key), plain(state, &other))
            && x == y
        {
            return map.get_item(&other).map(Some);
        }
    }
    Ok(None)
}

/// `item in list`.
fn contains(state: &State, list: &Value, item: &Value) -> Result<bool, Error> {
    if let Some(text) = plain(state, list) {
        charge_bytes(state, text.len())?;
        let part = plain(state, item).ok_or_else(|| {
            failed(format!("in: a text is looked for in a text, and not a value of type {}", type_name(item)))
        })?;
        return Ok(text.contains(part.as_ref()));
    }
    match list.kind() {
        ValueKind::Undefined => Ok(false),
        ValueKind::Map => item_of(state, list, item).map(|found| found.is_some()),
        ValueKind::Seq | ValueKind::Iterable => {
            for other in list.try_iter()? {
                state.consume_fuel(1)?;
                if equal(state, &other, item, 0)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Err(not_iterable(list)),
    }
}

fn not_iterable(value: &Value) -> Error {
    failed(format!("a value of type {} is not iterable", type_name(value)))
}

/// How two numbers, two texts or two lists are ordered.
fn compare(state: &State, a: &Value, b: &Value, depth: usize) -> Result<Option<Ordering>, Error> {
    check_depth(depth)?;
    if let (Some(x), Some(y)) = (plain(state, a), plain(state, b)) {
        charge_bytes(state, x.len().min(y.len()))?;
        return Ok(Some(x.cmp(&y)));
    }
    if is_list(a) && is_list(b) && a.is_tuple() == b.is_tuple() {
        let (mut left, mut right) = (a.try_iter()?, b.try_iter()?);
        loop {
            state.consume_fuel(1)?;
            match (left.next(), right.next()) {
                (Some(x), Some(y)) if equal(state, &x, &y, depth + 1)? => {}
                (Some(x), Some(y)) => return compare(state, &x, &y, depth + 1),
                (left, right) => return Ok(Some(left.is_some().cmp(&right.is_some()))),
            }
        }
    }
    if !is_number(a) || !is_number(b) {
        return Err(not_for("<", a, b));
    }
    match (integer(a), integer(b)) {
        (Ok(x), Ok(y)) => Ok(Some(x.cmp(&y))),
        _ => Ok(float(a)?.partial_cmp(&float(b)?)),
    }
}

/// What a loop goes through, where Python can iterate over it. The engine iterates over `none` as well, and does not know which
/// item of a generator is the last.
pub(super) fn items(list: &Value) -> Result<Value, Error> {
    match list.kind() {
        ValueKind::Iterable if !is_slice(list) => Ok(list.try_iter()?.collect()),
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            Ok(list.clone())
        }
        _ => Err(not_iterable(list)),
    }
}

/// `text` with what means something in HTML escaped, as the Python package markupsafe does it.
pub(super) fn escaped(state: &State, text: &str) -> String {
    let holder = marks(state);
    let marks = holder.as_ref().and_then(|marks| marks.downcast_object_ref::<Marks>());
    let mut out = String::with_capacity(text.len());
    super::python::push_escaped(text, marks, &mut out, |character, out| match character {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '\'' => out.push_str("&#39;"),
        '"' => out.push_str("&#34;"),
        _ => out.push(character),
    });
    out
}

/// What Jinja2's `map`, `select` and others make: something that can be gone through, and is no list. It has no length and no
/// places, is never empty, and cannot be written.
#[derive(Debug)]
pub(super) struct Generator(Vec<Value>);

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let list = self.clone();
        // The engine takes an iterator whose length it can see for a list.
        let mut index = 0;
        Enumerator::Iter(Box::new(std::iter::from_fn(move || {
            index += 1;
            list.0.get(index - 1).cloned()
        })))
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
}

/// The items of `list` as a [`Generator`], where it is a list.
pub(super) fn generator(list: Value) -> Result<Value, Error> {
    if !matches!(list.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(list);
    }
    Ok(Value::from_object(Generator(list.try_iter()?.collect())))
}

/// Refuses to write a [`Generator`].
pub(super) fn check_written(value: &Value) -> Result<(), Error> {
    match value.downcast_object_ref::<Generator>() {
        Some(_) => Err(failed("what map, select and their like give is no list; `| list` makes it one")),
        None => Ok(()),
    }
}

/// Charges for the texts of a list that is to be joined, and gives them.
pub(super) fn charged_items(state: &State, list: &Value) -> Result<Value, Error> {
    if !matches!(list.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return items(list);
    }
    let mut items = Vec::new();
    for item in list.try_iter()? {
        charge_text(state, &item, 0)?;
        items.push(item);
    }
    Ok(Value::from(items))
}
