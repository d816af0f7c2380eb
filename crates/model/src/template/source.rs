//! The source text of templates: finding tags, and what is changed in them before the engine reads them.

use super::operators::{self, TooDeep};

/// `source` with what the template engine does otherwise than Jinja2 put in its words: operators as calls of functions (see
/// [`operators`]), and `{% generation %}` blocks as blocks that do nothing but keep their variables to themselves. Templates mark
/// with these what the model wrote, for training; for inference they have no effect.
///
/// Lines stay lines, so that errors name the right one.
///
/// # Errors
/// Where brackets are nested too deep.
pub(super) fn prepared(source: &str) -> Result<String, TooDeep> {
    let mut out = String::with_capacity(source.len() + source.len() / 4);
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        rest = match tag.as_bytes().get(1) {
            Some(b'#') => {
                let end = tag.find("#}").map_or(tag.len(), |end| end + 2);
                out.push_str(&tag[..end]);
                &tag[end..]
            }
            Some(b'{') => expression(tag, &mut out)?,
            Some(b'%') => block(tag, &mut out)?,
            _ => {
                out.push('{');
                &tag[1..]
            }
        };
    }
    out.push_str(rest);
    Ok(out)
}

/// Takes over `{{ ... }}` at the start of `tag`; gives what comes after.
fn expression<'s>(tag: &'s str, out: &mut String) -> Result<&'s str, TooDeep> {
    let start = if tag[2..].starts_with(['-', '+']) { 3 } else { 2 };
    let (expression, length) = operators::rewritten(&tag[start..], "}}", false)?;
    out.push_str(&tag[..start]);
    out.push_str(&expression);
    Ok(close(&tag[start + length..], "}}", out))
}

/// Takes over `{% ... %}` at the start of `tag`, and for `{% raw %}` all up to `{% endraw %}`; gives what comes after.
fn block<'s>(tag: &'s str, out: &mut String) -> Result<&'s str, TooDeep> {
    let inside = tag[2..].trim_start_matches(['-', '+']).trim_start();
    let start = tag.len() - inside.len();
    let length = inside.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inside.len());
    let name = &inside[..length];
    out.push_str(&tag[..start]);
    out.push_str(match name {
        "generation" => "with duan_generation = true",
        "endgeneration" => "endwith",
        name => name,
    });
    let (expression, read) = operators::rewritten(&inside[length..], "%}", name == "for")?;
    out.push_str(&expression);
    let rest = close(&inside[length + read..], "%}", out);
    if name != "raw" {
        return Ok(rest);
    }
    let end = rest
        .match_indices("{%")
        .map(|(index, _)| index)
        .find(|&index| rest[index + 2..].trim_start_matches(['-', '+']).trim_start().starts_with("endraw"));
    let end = end.unwrap_or(rest.len());
    out.push_str(&rest[..end]);
    Ok(&rest[end..])
}

/// Takes over the end of a tag, where it is there.
fn close<'s>(rest: &'s str, end: &str, out: &mut String) -> &'s str {
    let length = rest.find(end).map_or(rest.len(), |index| index + end.len());
    out.push_str(&rest[..length]);
    &rest[length..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_scopes() {
        assert_eq!(
            prepared("a{%- generation -%}x{%endgeneration%}b{{ generation }}{# {% generation %} #}").unwrap(),
            "a{%- with duan_generation = true -%}x{%endwith%}b{{ generation }}{# {% generation %} #}"
        );
        let raw = "{% raw %}{% generation %}{{ a ~ b }}{% endraw %}{{ 'x' }}";
        assert_eq!(prepared(raw).unwrap(), raw);
    }

    #[test]
    fn only_expressions_change() {
        assert_eq!(
            prepared("a ~ b{{- a ~ '}}' -}}{# a ~ b #}{%+ if a == b %}{ a ~ b }{% endif %}").unwrap(),
            "a ~ b{{- duan_concat( a , '}}') -}}{# a ~ b #}{%+ if duan_equal( a , b) %}{ a ~ b }{% endif %}"
        );
        let lines = "{{ a\n ~\n b }}\n{% if a\n == b %}\n";
        assert_eq!(prepared(lines).unwrap().lines().count(), lines.lines().count());
    }

    #[test]
    fn unfinished_sources_are_copied() {
        for source in
            ["{", "{{", "{%", "{#", "{% ", "{{ '", "{{ '\\", "{% raw", "{% raw %}", "{{ é", "{%-+ é", "{{ )]}"]
        {
            assert_eq!(prepared(source).unwrap(), source);
        }
    }
}
