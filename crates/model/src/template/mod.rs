//! Chat templates: from messages to a prompt, in which the template's own text is told from that of messages.
//!
//! Models come with a Jinja2 template that writes a conversation as they were trained to see it. It is rendered by minijinja,
//! set up as Hugging Face sets up Jinja2, with the functions and filters that templates expect (`environment.rs`, `python.rs`).
//!
//! # What messages say is text
//!
//! A message may hold `<|im_end|>`, and must not end its turn with it. So a prompt is a list of parts, and only
//! [`Part::Template`] may become control tokens. Which text is whose is found out like this:
//!
//! 1. The template is rendered with *marked* messages (`marks.rs`): each character but white space is replaced by a stand-in
//!    from Unicode's private use planes. However the template cuts, strips, joins or escapes them, a stand-in in the output
//!    comes from a message, and everything else does not.
//! 2. Where a template asks what messages say, as in `'</think>' in content`, it is answered by what the stand-ins stand for:
//!    operators (`operators.rs`, `values.rs`), methods and filters of texts (`text.rs`) look at the originals, and what they leave
//!    keeps its marks.
//! 3. Where the template refuses the conversation or fails, it is rendered once more with the messages as they are, so that its
//!    words can be read.
//!
//! So text of a message never becomes a control token, because only characters without a mark can, and each character of a
//! message that is no white space has one. What is not marked: white space (control
//! tokens of white space alone are never made from prompts, see [`crate::tokenizer::Tokenizer::encode_prompt`]), numbers and
//! truth values in arguments of tools, the roles that templates know, and the words of JSON Schema in definitions of tools,
//! all of which come from fixed lists or hold no letters.
//!
//! # Limits
//!
//! A template comes from a stranger's file. Its length is bounded, and so is the time for reading and for rendering it; stacks
//! are large enough for whatever it nests (`stack.rs`). What a rendering may cost grows with the messages (`FUEL_*`), and bounds
//! what operators, filters and methods make before they make it (`values.rs`, `bounds.rs`). A template can reach neither files nor network.

mod bounds;
mod environment;
#[cfg(test)]
mod limits_tests;
mod marks;
mod message;
mod operators;
mod python;
mod repair;
mod source;
mod stack;
#[cfg(test)]
mod tests;
mod text;
mod values;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::ZonedDateTime;
use minijinja::{Environment, ErrorKind};

pub(crate) use message::ROLES;
pub use message::{Message, RenderOptions, ToolCall};

use crate::answer::Format;
use crate::error::{Error, Result, quoted};
use crate::gguf::Metadata;
use crate::tokenizer::Tokenizer;
use environment::{MARKS, Refusal, TEMPLATE, environment};
use marks::Marks;
use message::{Context, Form, Unusable, Variables};
use stack::MOST_FUEL;

/// A piece of a rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text of the template itself, which may hold control tokens.
    Template(String),
    /// Text of a message, which is text whatever it says.
    Content(String),
}

impl Part {
    /// The text, whosever it is.
    pub fn text(&self) -> &str {
        match self {
            Part::Template(text) | Part::Content(text) => text,
        }
    }
}

/// A rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompt {
    /// In order; together they are the prompt's text.
    pub parts: Vec<Part>,
    /// What the template can write: its source, by which the tokenizer knows the tokens that messages must not bring. Empty
    /// for a prompt without a template.
    pub template: Arc<str>,
}

impl Prompt {
    /// A prompt of plain text, none of which becomes a control token.
    pub fn plain(text: impl Into<String>) -> Prompt {
        Prompt { parts: vec![Part::Content(text.into())], template: Arc::default() }
    }

    /// The whole text.
    pub fn text(&self) -> String {
        self.parts.iter().map(Part::text).collect()
    }

    /// What the template wrote after the last text of a message: the beginning of the model's turn, and maybe of its thoughts.
    /// This is what [`crate::answer::Parser::new`] must know of a prompt.
    pub fn generation_prompt(&self) -> &str {
        match self.parts.last() {
            Some(Part::Template(text)) => text,
            _ => "",
        }
    }
}

const DEFAULT_KEY: &str = "tokenizer.chat_template";
/// What the keys of further templates begin with; their names follow.
const NAMED_KEYS: &str = "tokenizer.chat_template.";
/// The named template for conversations with tools.
const TOOL_USE: &str = "tool_use";

/// The longest template that is read. The longest known one has about 60 thousand bytes.
const LONGEST_SOURCE_BYTES: usize = 128 << 10;

/// What to do where a template cannot be used as it is.
const REMEDY: &str = "this version cannot use the template: get the model from another source";

/// What a render may cost: about one unit for each instruction, and for each 64 bytes that are made.
const FUEL: u64 = 500_000;
/// More for each byte of the messages, which may pass through several filters.
const FUEL_PER_BYTE: u64 = 1;
/// More for each message.
const FUEL_PER_MESSAGE: u64 = 2_000;

/// The most bytes that all messages, tools and documents may have: more than any context holds, and few enough for
/// [`MOST_FUEL`] to let a template copy them several times.
const MOST_BYTES: usize = 5 << 20;

/// The chat template of a model.
#[derive(Debug)]
pub struct ChatTemplate {
    default: Compiled,
    /// For conversations with tools, where the file has one of its own.
    tool_use: Option<Compiled>,
    /// Further templates by name, or why they cannot be read.
    named: Vec<(String, std::result::Result<Compiled, String>)>,
    /// What names the template in errors: the file, or nothing.
    file: String,
    bos: String,
    eos: String,
}

/// A template that was read without errors.
#[derive(Debug)]
struct Compiled {
    /// Where it comes from: the key in the file.
    name: String,
    source: String,
    /// See [`Prompt::template`].
    markup: Arc<str>,
    environment: Environment<'static>,
    /// Set once a render was given up for its time; it may still be running, and no other one is started.
    is_given_up: AtomicBool,
}

impl Compiled {
    fn new(name: &str, source: &str, file: &str) -> Result<Compiled> {
        let label = label(file, name);
        if source.len() > LONGEST_SOURCE_BYTES {
            let found = format!("the template has {} bytes, more than {LONGEST_SOURCE_BYTES}; {REMEDY}", source.len());
            return Err(Error::template(label, found));
        }
        let environment = environment(source).map_err(|error| failure(&label, &error))?;
        // Quotes inside literals may be escaped.
        let unescaped = source.replace("\\\"", "\"").replace("\\'", "'");
        let markup = if unescaped == source { source.to_owned() } else { format!("{source}\n{unescaped}") };
        Ok(Compiled {
            name: name.to_owned(),
            source: source.to_owned(),
            markup: markup.into(),
            environment,
            is_given_up: AtomicBool::new(false),
        })
    }
}

impl ChatTemplate {
    /// The template in a file's metadata, or `None` where it has none: a base model. An empty template counts as none.
    ///
    /// The template is `tokenizer.chat_template`, and `tokenizer.chat_template.tool_use` for conversations with tools. Others,
    /// `tokenizer.chat_template.NAME`, are used where [`RenderOptions::template`] names them.
    ///
    /// # Errors
    /// Where one of the first two is there and cannot be read. There is no other template to fall back to. What is wrong with
    /// another one is said when it is asked for, and by [`ChatTemplate::unreadable`].
    pub fn from_gguf(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        let read = |key: &str| -> Result<Option<Compiled>> {
            let source = metadata.string(key)?.filter(|source| !source.trim().is_empty());
            source.map(|source| Compiled::new(key, source, metadata.file())).transpose()
        };
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default().to_owned();
        let (default, tool_use) = match (read(DEFAULT_KEY)?, read(&format!("{NAMED_KEYS}{TOOL_USE}"))?) {
            (Some(default), tool_use) => (default, tool_use),
            (None, Some(tool_use)) => (tool_use, None),
            (None, None) => return Ok(None),
        };
        let keys = metadata.iter().filter_map(|(key, _)| Some((key, key.strip_prefix(NAMED_KEYS)?)));
        let mut named = Vec::new();
        for (key, name) in keys.filter(|(_, name)| *name != TOOL_USE) {
            match read(key) {
                Ok(Some(template)) => named.push((name.to_owned(), Ok(template))),
                Ok(None) => {}
                Err(Error::Template { message, .. }) => named.push((name.to_owned(), Err(message))),
                Err(other) => named.push((name.to_owned(), Err(other.to_string()))),
            }
        }
        let file = metadata.file().to_owned();
        Ok(Some(ChatTemplate {
            default,
            tool_use,
            named,
            file,
            bos: text(tokenizer.bos()),
            eos: text(tokenizer.eos()),
        }))
    }

    /// A template from elsewhere; `bos` and `eos` are the texts of the tokens that begin and end a text.
    ///
    /// # Errors
    /// Where `source` is no template.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate> {
        let default = Compiled::new("chat template", source, "")?;
        Ok(ChatTemplate {
            default,
            tool_use: None,
            named: Vec::new(),
            file: String::new(),
            bos: bos.to_owned(),
            eos: eos.to_owned(),
        })
    }

    /// Where the template comes from: the key in the file.
    pub fn source_name(&self) -> &str {
        &self.default.name
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.default.source
    }

    /// Where the template for conversations with tools comes from, where it is another one.
    pub fn tool_use_source_name(&self) -> Option<&str> {
        self.tool_use.as_ref().map(|template| template.name.as_str())
    }

    /// Names by which [`RenderOptions::template`] can ask for further templates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tool_use.iter().map(|_| TOOL_USE).chain(self.named.iter().map(|(name, _)| name.as_str()))
    }

    /// Further templates that cannot be read: their names, and why.
    pub fn unreadable(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named.iter().filter_map(|(name, template)| Some((name.as_str(), template.as_ref().err()?.as_str())))
    }

    /// The template for a conversation with or without tools: its key and its text, as [`ChatTemplate::render`] takes it.
    ///
    /// # Errors
    /// Where `options` names a template that is not there, or that cannot be read.
    pub fn chosen(&self, options: &RenderOptions) -> Result<(&str, &str)> {
        self.choose(options).map(|template| (template.name.as_str(), template.source.as_str()))
    }

    /// How the template asks the model to write thoughts and calls of tools.
    ///
    /// # Errors
    /// As for [`ChatTemplate::chosen`].
    pub fn answer_format(&self, options: &RenderOptions) -> Result<&'static Format> {
        self.chosen(options).map(|(_, source)| Format::of(source))
    }

    fn choose(&self, options: &RenderOptions) -> Result<&Compiled> {
        let Some(name) = &options.template else {
            return Ok(self.tool_use.as_ref().filter(|_| !options.tools.is_empty()).unwrap_or(&self.default));
        };
        let of_tools = self.tool_use.iter().map(|template| (TOOL_USE, Ok(template)));
        let others = self.named.iter().map(|(name, template)| (name.as_str(), template.as_ref()));
        match of_tools.chain(others).find(|(other, _)| *other == name.as_str()) {
            Some((_, Ok(template))) => Ok(template),
            Some((_, Err(why))) => Err(Error::template(label(&self.file, &format!("{NAMED_KEYS}{name}")), why)),
            None => {
                let names: Vec<&str> = self.names().collect();
                let there = if names.is_empty() { "none has a name".to_owned() } else { names.join(", ") };
                let found = format!("there is no template named \"{}\"; there are: {there}", quoted(name));
                Err(Error::template(label(&self.file, DEFAULT_KEY), found))
            }
        }
    }

    /// The prompt for a conversation.
    ///
    /// With [`RenderOptions::repair`], a conversation that the template refuses is changed, one step after the other until
    /// it fits: neighbours of one role are joined, then system messages go in front of the first user's. The same happens
    /// where the template drops system messages without a word. What was said stays in the prompt, once. Where nothing helps,
    /// the arguments of calls are given to the template as texts of JSON, then no tools as an empty list, which few templates want.
    ///
    /// # Errors
    /// [`Error::Refused`] with the template's own words where it refuses the conversation, [`Error::Template`] where it fails
    /// or takes too long.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<Prompt> {
        let template = self.choose(options)?;
        let now = options.now.clone().unwrap_or_else(ZonedDateTime::now);
        let render = |messages: &[Message], form| self.render_once(template, messages, form, options, &now);
        let first = render(messages, Form::Usual);
        if !options.repair || is_fit(&first, messages) {
            return first;
        }
        let joined = repair::joined_neighbours(messages);
        let merged = repair::joined_neighbours(&repair::system_in_first_user_turn(&joined));
        for repaired in [joined, merged] {
            let prompt = render(&repaired, Form::Usual);
            if is_fit(&prompt, &repaired) {
                return prompt;
            }
        }
        for form in [Form::TextArguments, Form::EmptyLists] {
            let prompt = render(messages, form);
            if is_fit(&prompt, messages) {
                return prompt;
            }
        }
        first
    }

    fn render_once(
        &self,
        template: &Compiled,
        messages: &[Message],
        form: Form,
        options: &RenderOptions,
        now: &ZonedDateTime,
    ) -> Result<Prompt> {
        let label = label(&self.file, &template.name);
        let context = |variables: Variables| {
            variables.context(messages, options, (&self.bos, &self.eos), now).map_err(|unusable| {
                Error::template(
                    &label,
                    match unusable {
                        Unusable::Characters => "the messages hold more different characters than can be told apart",
                        Unusable::Depth => "arguments or tools are nested too deep",
                        Unusable::Length => "the messages together have more than 5 MiB of text",
                    },
                )
            })
        };
        let render = |environment: &Environment<'static>, context: &Context| {
            let costs = FUEL_PER_BYTE * context.bytes as u64 + FUEL_PER_MESSAGE * messages.len() as u64;
            run(environment.clone(), context, FUEL.saturating_add(costs).min(MOST_FUEL), &template.is_given_up)
        };
        let marked = context(Variables::marked(form))?;
        let rendered = match render(&template.environment, &marked) {
            Ok(rendered) => rendered,
            Err(error) if error.kind() == ErrorKind::OutOfFuel => return Err(failure(&label, &error)),
            // What a template says of marked messages nobody can read.
            Err(_) => match render(&template.environment, &context(Variables::plain(form))?) {
                Err(error) => return Err(failure(&label, &error)),
                Ok(_) => {
                    let found = "the template depends on what messages say in a way that cannot be kept safe";
                    return Err(Error::template(&label, found));
                }
            },
        };
        let marks = marked.value.get_attr(MARKS).ok().and_then(|value| value.downcast_object::<Marks>());
        Ok(Prompt { parts: marks.unwrap_or_default().parts(&rendered), template: template.markup.clone() })
    }
}

type Rendered = std::result::Result<String, minijinja::Error>;

/// Renders on a stack that is large enough for whatever `fuel` can build, before the deadline.
///
/// Fuel counts steps, and single steps of a hostile template (comparing a list that contains itself twice, thirty times over)
/// can take for ever. `is_given_up` remembers one that did.
fn run(mut environment: Environment<'static>, context: &Context, fuel: u64, is_given_up: &AtomicBool) -> Rendered {
    environment.set_fuel(Some(fuel));
    let value = context.value.clone();
    stack::run(stack::bytes_to_render(fuel), is_given_up, move || {
        environment.get_template(TEMPLATE).and_then(|template| template.render(value))
    })
}

/// Whether a rendering needs no repair: it succeeded and holds what every system message says.
fn is_fit(prompt: &Result<Prompt>, messages: &[Message]) -> bool {
    match prompt {
        Err(error) => !matches!(error, Error::Refused { .. } | Error::Template { .. }),
        Ok(prompt) => {
            let text = prompt.text();
            // Templates may strip lines or take switches out of them, so one line that is there is enough.
            let is_said = |message: &Message| {
                let mut lines = message.content.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
                lines.peek().is_none() || lines.any(|line| text.contains(line))
            };
            messages.iter().filter(|message| repair::is_system(message)).all(is_said)
        }
    }
}

fn label(file: &str, name: &str) -> String {
    if file.is_empty() { name.to_owned() } else { format!("{file}: {name}") }
}

/// The engine's error as ours: a refusal with the template's words, or what failed and where.
fn failure(label: &str, error: &minijinja::Error) -> Error {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = source {
        if let Some(Refusal(message)) = current.downcast_ref::<Refusal>() {
            return Error::Refused { template: label.to_owned(), message: one_line(message) };
        }
        source = current.source();
    }
    if error.kind() == ErrorKind::OutOfFuel {
        let message = "the template takes too long or makes too much text, and was stopped; shorten the conversation, or get \
                       the model from another source";
        return Error::template(label, message);
    }
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(current) = source {
        message = format!("{message}: {current}");
        source = current.source();
    }
    Error::template(label, format!("{}; {REMEDY}", one_line(&message)))
}

/// Words of a template as an error may show them: on one line, without control characters, of bounded length.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let joined = lines.collect::<Vec<_>>().join(" ");
    let short: String = joined.chars().take(600).collect();
    short.split_inclusive(char::is_whitespace).map(quoted).collect()
}
