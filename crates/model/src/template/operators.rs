//! Operators of expressions, made into calls of functions.
//!
//! The template engine does not let its operators be replaced, and three things are wrong with them here: marked text is never
//! equal to a literal, some of Python's errors are no errors, and `~` and `+` make values of any size before anybody asks what
//! they cost. So `a == b` is made `duan_equal(a,b)` and so on, before the engine reads the template; the functions are in
//! `values.rs`. The same is done for the list of a `for` tag, and for `a.items` where it is not called: in Python this is the method
//! of a dictionary, also where the dictionary has a key of that name.
//!
//! The precedence is Jinja2's: `or`, `and`, `not`, comparisons, `+ -`, `~`, `* / // %`, `**`, then what belongs to one operand.

/// Deeper brackets are refused; the engine's own bound is 150.
const DEEPEST: usize = 160;

/// Operands that one call may have; the engine's own bound is 2000.
const MOST_OPERANDS: usize = 100;

/// Brackets nested deeper than [`DEEPEST`].
#[derive(Debug)]
pub(super) struct TooDeep;

/// What an expression is made of.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    kind: Kind,
    /// White space in front of it.
    space: String,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A literal, a bracket with all that is in it, or a name that is no word of the language.
    Operand,
    /// A word such as `and`, `in`, `is`.
    Word,
    /// `+`, `==`, `|` and so on.
    Operator,
}

impl Item {
    fn is(&self, text: &str) -> bool {
        self.kind != Kind::Operand && self.text == text
    }
}

/// The brackets that are open, each with the items before it.
struct Level {
    open: String,
    space: String,
    items: Vec<Item>,
}

/// Rewrites the expression at the start of `text`, up to and without `end`, which counts only outside of brackets and literals.
/// `is_loop` for the tag `for`. Gives the rewritten expression, and what of `text` was read. What is not finished is given back
/// as it stands.
///
/// # Errors
/// Where brackets are nested too deep.
pub(super) fn rewritten(text: &str, end: &str, is_loop: bool) -> Result<(String, usize), TooDeep> {
    let mut levels = vec![Level { open: String::new(), space: String::new(), items: Vec::new() }];
    let mut index = 0;
    loop {
        let rest = &text[index..];
        let trimmed = rest.trim_start();
        let space = &rest[..rest.len() - trimmed.len()];
        if trimmed.is_empty() {
            // The end is missing: the engine says so.
            return Ok((text.to_owned(), text.len()));
        }
        let is_end = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed).starts_with(end) || trimmed.starts_with(end);
        if levels.len() == 1 && is_end {
            let items = levels.pop().map(|level| level.items).unwrap_or_default();
            let expression = if is_loop { loop_tag(items) } else { expression(&items) };
            return Ok((expression + space, index + space.len()));
        }
        let length = token_length(trimmed);
        let token = &trimmed[..length];
        index += space.len() + length;
        match token {
            "(" | "[" | "{" => {
                if levels.len() > DEEPEST {
                    return Err(TooDeep);
                }
                levels.push(Level { open: token.to_owned(), space: space.to_owned(), items: Vec::new() });
            }
            ")" | "]" | "}" if levels.len() > 1 => {
                let Some(level) = levels.pop() else { continue };
                let text = format!("{}{}{space}{token}", level.open, expression(&level.items));
                push(&mut levels, Item { kind: Kind::Operand, space: level.space, text });
            }
            _ => {
                let before = levels.last().and_then(|level| level.items.last());
                let is_name = before.is_some_and(|item| item.is(".") || item.is("|"));
                let kind = kind(token, is_name);
                push(&mut levels, Item { kind, space: space.to_owned(), text: token.to_owned() });
            }
        }
    }
}

fn push(levels: &mut [Level], item: Item) {
    if let Some(level) = levels.last_mut() {
        level.items.push(item);
    }
}

const WORDS: &[&str] = &["and", "or", "not", "in", "is", "if", "else", "recursive", "with", "without", "as"];

fn kind(token: &str, is_name: bool) -> Kind {
    match token.chars().next() {
        Some('"' | '\'') => Kind::Operand,
        Some(first) if is_word(first) => {
            if !is_name && WORDS.contains(&token) {
                Kind::Word
            } else {
                Kind::Operand
            }
        }
        _ => Kind::Operator,
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Bytes of the token at the start of `text`, which is not empty.
fn token_length(text: &str) -> usize {
    let first = text.chars().next().unwrap_or(' ');
    match first {
        '"' | '\'' => literal_length(text, first),
        '0'..='9' => number_length(text),
        _ if is_word(first) => text.find(|c: char| !is_word(c)).unwrap_or(text.len()),
        _ if ["==", "!=", "<=", ">=", "**", "//"].iter().any(|operator| text.starts_with(operator)) => 2,
        _ => first.len_utf8(),
    }
}

/// Bytes up to and with the quote that closes a literal.
fn literal_length(text: &str, quote: char) -> usize {
    let mut is_escaped = true; // The first quote opens.
    for (index, character) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if character == quote {
            return index + 1;
        }
    }
    text.len()
}

/// Bytes of a number, with its fraction and the sign of its exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut length = 0;
    while let Some(&byte) = bytes.get(length) {
        let next_is_digit = bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
        let is_exponent = length > 0 && matches!(bytes[length - 1], b'e' | b'E') && !text.starts_with("0x");
        match byte {
            b'.' if next_is_digit => {}
            b'+' | b'-' if is_exponent && next_is_digit => {}
            _ if byte.is_ascii_alphanumeric() || byte == b'_' => {}
            _ => break,
        }
        length += 1;
    }
    length.max(1)
}

/// The inside of a `for` tag: the targets as they stand, the list as a list that Python would take, and the rest.
fn loop_tag(items: Vec<Item>) -> String {
    let Some(start) = items.iter().position(|item| item.is("in")) else { return expression(&items) };
    let list = &items[start + 1..];
    let end = list.iter().position(|item| item.is("if") || item.is("recursive")).unwrap_or(list.len());
    let (list, rest) = list.split_at(end);
    let mut out = verbatim(&items[..=start]);
    if list.is_empty() || list.iter().any(|item| item.is(",")) {
        out.push_str(&expression(list));
    } else {
        out.push_str(&format!(" duan_items({})", expression(list)));
    }
    out.push_str(&expression(rest));
    out
}

/// Methods that every dictionary has.
const METHODS: &[&str] = &["clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

fn verbatim(items: &[Item]) -> String {
    items.iter().flat_map(|item| [item.space.as_str(), item.text.as_str()]).collect()
}

/// Items without operators that are made into calls.
fn operand(items: &[Item]) -> String {
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        let is_attribute = index > 0 && items[index - 1].is(".") && METHODS.contains(&item.text.as_str());
        out.push_str(&item.space);
        if is_attribute && !items.get(index + 1).is_some_and(|next| next.text.starts_with('(')) {
            out.push_str(&format!("duan_attribute_{}()", item.text));
        } else {
            out.push_str(&item.text);
        }
    }
    out
}

/// Rewrites what stands between two brackets: comparisons, apart by words and signs that bind less.
fn expression(items: &[Item]) -> String {
    let mut out = String::new();
    let mut start = 0;
    for (index, item) in items.iter().enumerate() {
        let is_test = index > 0 && items[index - 1].is("is");
        let is_negation = item.is("not") && !is_test && !items.get(index + 1).is_some_and(|next| next.is("in"));
        let is_apart =
            is_negation || [",", ":", "=", "if", "else", "or", "and", "recursive"].iter().any(|w| item.is(w));
        if is_apart {
            // What is assigned to is no expression.
            let left = &items[start..index];
            out.push_str(&if item.is("=") { verbatim(left) } else { comparison(left) });
            out.push_str(&verbatim(&items[index..=index]));
            start = index + 1;
        }
    }
    out.push_str(&comparison(&items[start..]));
    out
}

/// A comparison in a row of items: where it stands, how many items it has, and which it is.
fn comparisons(items: &[Item]) -> Vec<(usize, usize, &str)> {
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &items[before]);
        let is_test = before.is_some_and(|before| before.is("is"))
            || index > 1 && before.is_some_and(|before| before.is("not")) && items[index - 2].is("is");
        match item.text.as_str() {
            _ if item.kind == Kind::Operand => {}
            "==" | "!=" | "<" | ">" | "<=" | ">=" => found.push((index, 1, item.text.as_str())),
            "in" if is_test => {}
            "in" if before.is_some_and(|before| before.is("not")) => found.push((index - 1, 2, "not in")),
            "in" => found.push((index, 1, "in")),
            _ => {}
        }
    }
    found
}

fn comparison(items: &[Item]) -> String {
    let found = comparisons(items);
    let &[(index, length, operator)] = &found[..] else {
        // None, or a chain of several.
        let mut out = String::new();
        let mut start = 0;
        for (index, length, _) in found {
            out.push_str(&sum(&items[start..index]));
            out.push_str(&verbatim(&items[index..index + length]));
            start = index + length;
        }
        return out + &sum(&items[start..]);
    };
    let (left, right) = (sum(&items[..index]), sum(&items[index + length..]));
    if left.is_empty() || right.is_empty() {
        return verbatim(items);
    }
    let (function, is_negated, is_turned) = match operator {
        "==" => ("duan_equal", false, false),
        "!=" => ("duan_equal", true, false),
        "in" => ("duan_contains", false, true),
        "not in" => ("duan_contains", true, true),
        "<" => ("duan_less", false, false),
        ">" => ("duan_less", false, true),
        "<=" => ("duan_less_or_equal", false, false),
        _ => ("duan_less_or_equal", false, true),
    };
    let (first, second) = if is_turned { (right, left) } else { (left, right) };
    let call = format!(" {function}({first}{},{second})", items[index].space);
    if is_negated { format!(" (not{call})") } else { call }
}

/// Operands and the operators between them, where `is_operator`; no operator without an operand before it.
fn operands(items: &[Item], is_operator: impl Fn(&Item) -> bool) -> (Vec<&[Item]>, Vec<&Item>) {
    let (mut operands, mut operators) = (Vec::new(), Vec::new());
    let mut start = 0;
    for (index, item) in items.iter().enumerate() {
        if index > start && is_operator(item) && items[index - 1].kind != Kind::Operator {
            operands.push(&items[start..index]);
            operators.push(item);
            start = index + 1;
        }
    }
    operands.push(&items[start..]);
    (operands, operators)
}

fn sum(items: &[Item]) -> String {
    let (operands, operators) = operands(items, |item| item.is("+") || item.is("-"));
    let operands = operands.into_iter().map(concatenation).collect();
    // Only numbers can be subtracted, and sums of numbers need no bounds.
    let is_bounded = operators.iter().all(|operator| operator.is("+"));
    joined(is_bounded.then_some("duan_add"), operands, &operators)
}

fn concatenation(items: &[Item]) -> String {
    let (operands, operators) = operands(items, |item| item.is("~"));
    joined(Some("duan_concat"), operands.into_iter().map(operand).collect(), &operators)
}

/// Operands with the operators between them as they stand, or as the arguments of a function, from left to right. A single
/// operand stays as it is.
fn joined(function: Option<&str>, operands: Vec<String>, operators: &[&Item]) -> String {
    let mut operands = operands.into_iter();
    let mut out = operands.next().unwrap_or_default();
    for operators in operators.chunks(MOST_OPERANDS) {
        if let Some(function) = function {
            out = format!(" {function}({out}");
        }
        for (operator, operand) in operators.iter().zip(operands.by_ref()) {
            out.push_str(&operator.space);
            out.push_str(if function.is_some() { "," } else { &operator.text });
            out.push_str(&operand);
        }
        if function.is_some() {
            out.push(')');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An expression rewritten, without white space that means nothing.
    fn short(expression: &str) -> String {
        let (out, length) = rewritten(&format!("{expression}}}}}"), "}}", false).unwrap();
        assert_eq!(length, expression.len());
        let mut out = out.trim().replace("duan_", "");
        for (long, short) in [("( ", "("), (" (", "("), ("[ ", "["), (", ", ","), (" ,", ","), (" )", ")"), (": ", ":")]
        {
            while out.contains(long) {
                out = out.replace(long, short);
            }
        }
        out
    }

    #[test]
    fn operators_become_calls() {
        for (expression, expected) in [
            ("a == b", "equal(a,b)"),
            ("a != 'b' ~ c", "(not equal(a,concat('b',c)))"),
            ("a + b ~ c", "add(a,concat(b,c))"),
            ("a + b + c", "add(a,b,c)"),
            ("a ~ b|trim ~ c.d(e + f)[0]", "concat(a,b|trim,c.d(add(e,f))[0])"),
            ("'x' in c and not y not in z", "contains(c,'x') and not(not contains(z,y))"),
            ("a if b == c else d + 'e'", "a if equal(b,c) else add(d,'e')"),
            ("a < b or b >= 1e+5", "less(a,b) or less_or_equal(1e+5,b)"),
            ("a - b + c", "a - b + c"),
            ("-a + +b", "add(-a,+b)"),
            ("a * -b + 1", "add(a * -b,1)"),
            ("1 < 2 <= 2", "1 < 2 <= 2"),
            ("a is not none and b is in([1])", "a is not none and b is in([1])"),
            ("b is not in [x + y] == c", "equal(b is not in [add(x,y)],c)"),
            ("f(a=b == c, *d, **e)", "f(a= equal(b,c),*d,**e)"),
            ("{'a': b ~ c, 'd': {}}", "{'a':concat(b,c),'d':{}}"),
            ("x[1:] + x[::-1]", "add(x[1:],x[::-1])"),
            ("a.in + b.not.is", "add(a.in,b.not.is)"),
            ("a.items + b.items() + c.items[0]", "add(a.attribute_items(),b.items(),c.attribute_items()[0])"),
            ("ns.items = a.get", "ns.items = a.attribute_get()"),
            ("'==' ~ \"~\\\"+\"", "concat('==',\"~\\\"+\")"),
            ("x ==", "x =="),
        ] {
            assert_eq!(short(expression), expected, "{expression}");
        }
    }

    #[test]
    fn lists_of_loops_are_checked() {
        let tag = |text: &str| rewritten(&format!("{text}%}}"), "%}", true).unwrap().0;
        assert_eq!(tag(" x in y"), " x in duan_items( y)");
        assert_eq!(tag(" (a, b) in y or [] if a == b "), " (a, b) in duan_items( y or []) if duan_equal( a , b) ");
        assert_eq!(tag(" a in b, c"), " a in b, c");
        assert_eq!(tag(" x in y recursive "), " x in duan_items( y) recursive ");
    }

    #[test]
    fn what_ends_an_expression_is_found() {
        assert_eq!(rewritten("a}}b", "}}", false).unwrap(), ("a".to_owned(), 1));
        assert_eq!(rewritten(" {'a': {}} -}}b", "}}", false).unwrap(), (" {'a': {}} ".to_owned(), 11));
        assert_eq!(rewritten("'}}' ~ x}}", "}}", false).unwrap(), (" duan_concat('}}' , x)".to_owned(), 8));
        for unfinished in ["a + b", "a + (b", "'a }}", "a ~ 'b", "", " ", "{{}}"] {
            assert_eq!(rewritten(unfinished, "}}", false).unwrap(), (unfinished.to_owned(), unfinished.len()));
        }
        assert_eq!(rewritten("a)) + b}}", "}}", false).unwrap().1, 7);
    }

    #[test]
    fn long_chains_are_cut_and_deep_brackets_refused() {
        let chain = vec!["1"; 250].join("+");
        let (out, _) = rewritten(&format!("{chain}}}}}"), "}}", false).unwrap();
        assert_eq!(out.matches("duan_add(").count(), 3);
        assert_eq!(out.matches('1').count(), 250);
        assert!(rewritten(&"(".repeat(DEEPEST), "}}", false).is_ok());
        assert!(rewritten(&"(".repeat(DEEPEST + 1), "}}", false).is_err());
    }
}
