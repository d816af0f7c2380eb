//! What a hostile template may not do: overflow a stack, or make texts of any size.

use super::tests::template;
use super::*;

/// `start`, then as many `link`s as fit, then `end`.
fn chain(start: &str, link: &str, end: &str, bytes: usize) -> String {
    let links = (bytes - start.len() - end.len()) / link.len();
    format!("{start}{}{end}", link.repeat(links))
}

/// A stack that overflows ends the test's process.
#[test]
fn no_chain_overflows_the_stack() {
    for (start, link, end) in [
        ("{%if 0%}", "{%elif 0%}", "{%endif%}"),
        ("{{1", "+1", "}}"),
        ("{{1", "*1", "}}"),
        ("{{1", "**1", "}}"),
        ("{{", "-", "1}}"),
        ("{{", "not ", "1}}"),
        ("{{1", " and 1", "}}"),
        ("{{1", " or 1", "}}"),
        ("{{a", "()", "}}"),
        ("{{a", "[0]", "}}"),
        ("{{a", "[::]", "}}"),
        ("{{a", ".a", "}}"),
        ("{{a", ".a()", "}}"),
        ("{{1", "|e", "}}"),
        ("{{1", " is string", "}}"),
        ("{{1", " is not string", "}}"),
        ("{{1", " if 1", "}}"),
        ("{{", "1 if 1 else ", "1}}"),
        ("{{1", "<1", "}}"),
        ("{{1", " not in 1", "}}"),
        ("{%filter e", "|e", "%}{%endfilter%}"),
        ("{%set a|e", "|e", "%}{%endset%}"),
        ("{%set a", ".a", "=1%}"),
        // Cut off in the middle, so that what was read is dropped from the depths.
        ("{{", "-", ""),
        ("{{a", "()", ""),
        ("{%if 0%}", "{%elif 0%}", ""),
        ("{%for ", "(", ""),
        ("{{", "(", ""),
        ("{{", "[", ""),
        ("{{", "{1:", ""),
        ("{%if 1%}", "{%if 1%}", ""),
    ] {
        let source = chain(start, link, end, LONGEST_SOURCE_BYTES);
        match ChatTemplate::new(&source, "", "") {
            Ok(template) => assert_eq!(template.source().len(), source.len()),
            Err(error) => assert!(matches!(error, Error::Template { .. }), "{link}: {error}"),
        }
    }
    // The engine's time for this one grows with the square.
    let template = template(&chain("{{1", "~1", "}}", 4096));
    assert_eq!(template.render(&[], &RenderOptions::default()).unwrap().text(), "1".repeat(2046));
}

#[test]
fn known_lengths_are_read_and_longer_ones_refused() {
    let template = template(&"x".repeat(LONGEST_SOURCE_BYTES));
    assert_eq!(template.render(&[], &RenderOptions::default()).unwrap().text().len(), LONGEST_SOURCE_BYTES);
    let error = ChatTemplate::new(&"x".repeat(LONGEST_SOURCE_BYTES + 1), "", "").unwrap_err().to_string();
    assert!(error.contains("131073 bytes"), "{error}");
}

/// A list that takes no memory and is a text of some petabytes.
#[test]
fn texts_of_long_lists_are_paid_for_before_they_are_made() {
    let list =
        "{% set ns = namespace(x=['a' * 1000000]) %}{% for i in range(30) %}{% set ns.x = ns.x + ns.x %}{% endfor %}";
    for use_of_list in [
        "ns.x | join | length",
        "ns.x | join('b') | length",
        "'b'.join(ns.x) | length",
        "[ns.x] | join | length",
        "ns.x",
        "(ns.x ~ 'b') | length",
        "(['a' * 1000000] * 1000000 ~ 'b') | length",
        "(['a'] * 1000000000 + ['b']) | length",
        "'a' in ['b'] * 1000000000",
        "ns.x | string | length",
        "ns.x | tojson | length",
        "ns.x | upper",
        "ns.x | lower",
        "ns.x | title",
        "ns.x | capitalize",
        "ns.x | trim",
        "ns.x | safe",
        "ns.x | escape",
        "ns.x | e",
        "ns.x | indent",
        "ns.x | replace('a', 'b')",
        "'a' | replace('a', ns.x)",
        "ns.x | pprint",
        "'%s' | format(ns.x)",
        "'{}'.format(ns.x)",
        "ns.x | list | length",
        "ns.x | sort | length",
        "ns.x | batch(2) | list | length",
        "ns.x | map('upper') | list | length",
        "raise_exception(ns.x)",
        "range(10000) | tojson(separators=('a' * 1000000, ':')) | length",
        "[[[['a']]]] | tojson(indent='a' * 40000000) | length",
    ] {
        let source = format!("{list}{{{{ {use_of_list} }}}}");
        let error = template(&source).render(&[Message::user("x")], &RenderOptions::default()).unwrap_err();
        assert!(error.to_string().contains("too much text"), "{use_of_list}: {error}");
    }
    // The engine's own `+` copies a list at the 33rd one.
    let add = "{% set ns.x = ns.x + ns.x %}";
    let source = format!("{{% set ns = namespace(x=['a']) %}}{}{{{{ ns.x | length }}}}", add.repeat(40));
    let error = template(&source).render(&[], &RenderOptions::default()).unwrap_err();
    assert!(error.to_string().contains("too much text"), "{error}");
    let error = template("{{ debug() }}").render(&[], &RenderOptions::default()).unwrap_err().to_string();
    assert!(error.contains("debug"), "{error}");
}

#[test]
fn lists_are_written_as_python_does() {
    let rendered = |source: &str| template(source).render(&[], &RenderOptions::default()).unwrap().text();
    assert_eq!(rendered("{{ ['a'] + ['b', 1] }}"), "['a', 'b', 1]");
    assert_eq!(rendered("{{ (['a'] + ['b', 1]) | string }}"), "['a', 'b', 1]");
    assert_eq!(
        rendered("{{ ['a', 'b', 1] | join('-') }}{{ ',' .join(['a', 'b']) }}{{ 'abc' | join('.') }}"),
        "a-b-1a,ba.b.c"
    );
    assert_eq!(rendered("{{ [{'n': 1}, {'n': 2}] | join(', ', attribute='n') }}"), "1, 2");
    assert_eq!(
        rendered("{{ '%s-%d' | format('a', 2) }}{{ ' a ' | trim | upper }}{{ 'a' | replace('a', 'b') }}"),
        "a-2Ab"
    );
}
