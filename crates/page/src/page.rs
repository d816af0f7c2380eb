//! A page: sections in order, and their data for programs.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::figure::Figure;

/// The shape of the data at the end of a page; another shape has another number.
const DATA_VERSION: u32 = 1;

/// The page itself, and what templates of sections share.
const TEMPLATES: [(&str, &str); 12] = [
    ("page.html", include_str!("templates/page.html")),
    ("shared.html", include_str!("templates/shared.html")),
    ("headline.html", include_str!("templates/headline.html")),
    ("phases.html", include_str!("templates/phases.html")),
    ("bench.html", include_str!("templates/bench.html")),
    ("memory.html", include_str!("templates/memory.html")),
    ("others.html", include_str!("templates/others.html")),
    ("ceilings.html", include_str!("templates/ceilings.html")),
    ("profile.html", include_str!("templates/profile.html")),
    ("records.html", include_str!("templates/records.html")),
    ("comparison.html", include_str!("templates/comparison.html")),
    ("state.html", include_str!("templates/state.html")),
];

/// How the page looks.
const STYLE: &str = include_str!("templates/style.css");

/// One part of a page.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its name in addresses: letters alone.
    pub id: &'static str,
    /// Its title; the first section is without.
    pub title: &'static str,
    /// The template's file.
    pub template: &'static str,
    /// What the template needs.
    pub view: minijinja::Value,
    /// The numbers in it.
    pub figures: Vec<Figure>,
}

impl Section {
    /// A section; `figures` are those that its template shows.
    pub fn new(id: &'static str, title: &'static str, view: impl Serialize, figures: Vec<Figure>) -> Section {
        Section { id, title, template: id, view: minijinja::Value::from(Serde(view)), figures }
    }
}

/// A page that is being put together.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    sections: Vec<Section>,
    data: Map<String, Value>,
}

impl Page {
    /// One without sections.
    pub fn new(title: impl Into<String>) -> Page {
        Page { title: title.into(), sections: Vec::new(), data: Map::new() }
    }

    /// Adds a section, where there is one.
    pub fn push(&mut self, section: impl Into<Option<Section>>) {
        self.sections.extend(section.into());
    }

    /// Adds data for programs under a name.
    pub fn data(&mut self, name: &str, value: Value) {
        self.data.insert(name.to_owned(), value);
    }

    /// The page as HTML.
    ///
    /// # Errors
    /// When a template cannot be filled, which would be a fault of duan.
    pub fn html(&self) -> Result<String> {
        let environment = environment()?;
        let mut sections = Vec::new();
        for section in &self.sections {
            let template = environment.get_template(&format!("{}.html", section.template))?;
            let body = minijinja::Value::from_safe_string(template.render(context! { view => section.view.clone() })?);
            sections.push(context! { id => section.id, title => section.title, body => body });
        }
        let page = environment.get_template("page.html")?;
        let data = minijinja::Value::from_safe_string(self.json()?);
        let style = minijinja::Value::from_safe_string(STYLE.to_owned());
        Ok(page.render(context! { title => self.title.clone(), sections, style, data })?)
    }

    /// What programs read, so that no text in it can end the block in which it stands.
    fn json(&self) -> Result<String> {
        let figures: BTreeMap<&str, f64> =
            self.sections.iter().flat_map(|section| &section.figures).map(|f| (f.name.as_str(), f.value)).collect();
        let mut all = Map::new();
        all.insert("duan_report".to_owned(), json!(DATA_VERSION));
        all.insert("title".to_owned(), json!(self.title));
        all.insert("figures".to_owned(), serde_json::to_value(figures)?);
        all.extend(self.data.clone());
        let text = serde_json::to_string(&all)?;
        // Outside of strings none of these can stand in JSON, and inside they mean the same.
        Ok([('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")]
            .into_iter()
            .fold(text, |text, (from, to)| text.replace(from, to)))
    }
}

fn environment() -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // A name that a template misspells is an error, not an empty place.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_place() {
        let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u{2028}";
        let mut page = Page::new(hostile);
        page.data("name", json!(hostile));
        let html = page.html().unwrap();
        assert_eq!(html.matches("<script").count(), 1, "the data alone");
        assert_eq!(html.matches("</script").count(), 1);
        assert!(!html.contains("<img") && html.contains("&lt;img"));
        let data = html.split_once(" id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["name"], json!(hostile));
        assert_eq!(data["title"], json!(hostile));
    }

    #[test]
    fn nothing_in_the_page_is_loaded() {
        let html = Page::new("x").html().unwrap();
        assert!(html.contains("default-src 'none'"));
        for what in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!html.contains(what), "{what}");
        }
        assert!(html.split("href=\"").skip(1).all(|link| link.starts_with('#') || link.starts_with("data:,\"")));
    }

    #[test]
    fn every_template_is_in_order() {
        let environment = environment().unwrap();
        for (name, _) in TEMPLATES {
            environment.get_template(name).unwrap();
        }
    }
}
