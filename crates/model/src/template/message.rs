//! Messages, tools and options, and the values that templates see of them.

use jiff::ZonedDateTime;
use minijinja::Value;
use serde_json::Value as Json;

use super::environment::{CLOCK, Clock, MARKS};
use super::marks::{Marks, TooManyCharacters};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`, or what else the template knows.
    pub role: String,
    /// What is said; may be empty.
    pub content: String,
    /// Name of the speaker, or of the tool that answers.
    pub name: Option<String>,
    /// What the model thought before it answered.
    pub reasoning_content: Option<String>,
    /// Tools that the model calls.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a message of role `tool` answers.
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message with nothing but role and content.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into(), ..Message::default() }
    }

    /// What the model is told about itself and its task.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new("system", content)
    }

    /// What the person says.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new("user", content)
    }

    /// What the model said.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new("assistant", content)
    }
}

/// A call of a tool in a message of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// By which the answer refers to the call.
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// Arguments by name. Interfaces send them as a string of JSON; [`ToolCall::new`] decodes it. What is no JSON object stays
    /// the string that it is.
    pub arguments: Json,
}

impl ToolCall {
    /// A call; `arguments` may be an object, or a string that holds one.
    pub fn new(name: impl Into<String>, arguments: impl Into<Json>) -> ToolCall {
        ToolCall { id: None, name: name.into(), arguments: decoded(arguments.into()) }
    }
}

/// The object that a string holds; everything else as it is.
fn decoded(arguments: Json) -> Json {
    match arguments {
        Json::String(text) => match serde_json::from_str(&text) {
            Ok(object @ Json::Object(_)) => object,
            _ => Json::String(text),
        },
        other => other,
    }
}

/// What a prompt is rendered with, beside the messages.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    /// Whether the prompt ends where the model's answer begins. True by default.
    pub add_generation_prompt: bool,
    /// Tools that the model may call, as JSON: `{"type": "function", "function": {"name": ..., ...}}`.
    pub tools: Vec<Json>,
    /// Documents to answer from, as JSON.
    pub documents: Vec<Json>,
    /// Other variables of the template, such as `enable_thinking`. These are the caller's own words: unlike messages, tools
    /// and documents, they may bring control tokens.
    pub variables: serde_json::Map<String, Json>,
    /// The name of a further template of the file, see [`super::ChatTemplate::names`]; `None` is the usual one.
    pub template: Option<String>,
    /// The time that `strftime_now` tells; `None` is the time of the render. A fixed one keeps prompts equal.
    pub now: Option<ZonedDateTime>,
    /// Whether a conversation that the template refuses is changed until it fits, see [`super::ChatTemplate::render`]. False
    /// by default.
    pub repair: bool,
}

impl Default for RenderOptions {
    fn default() -> RenderOptions {
        RenderOptions {
            add_generation_prompt: true,
            tools: Vec::new(),
            documents: Vec::new(),
            variables: serde_json::Map::new(),
            template: None,
            now: None,
            repair: false,
        }
    }
}

/// Roles that templates write into their own markup. Any other role is text of the message: `<|` + role + `|>` must not make
/// whatever control token a caller likes.
pub(crate) const ROLES: &[&str] =
    &["system", "developer", "user", "assistant", "tool", "function", "ipython", "model", "observation", "environment"];

/// Words of tool definitions that templates look up and compare. Any other name or text in them is marked.
const SCHEMA_WORDS: &[&str] = &[
    "additionalProperties",
    "allOf",
    "anyOf",
    "arguments",
    "array",
    "boolean",
    "const",
    "content",
    "default",
    "description",
    "enum",
    "example",
    "examples",
    "format",
    "function",
    "id",
    "integer",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "name",
    "null",
    "nullable",
    "number",
    "object",
    "oneOf",
    "parameters",
    "pattern",
    "properties",
    "required",
    "response",
    "return",
    "returns",
    "strict",
    "string",
    "text",
    "title",
    "type",
    "$defs",
    "$ref",
];

/// Values nested deeper than this are refused; the parser of JSON has a similar limit.
const DEEPEST: usize = 128;

/// Why a conversation cannot be given to a template.
#[derive(Debug)]
pub(super) enum Unusable {
    /// More different characters than can be marked.
    Characters,
    /// Values nested deeper than [`DEEPEST`].
    Depth,
    /// More bytes than [`super::MOST_BYTES`].
    Length,
}

impl From<TooManyCharacters> for Unusable {
    fn from(_: TooManyCharacters) -> Unusable {
        Unusable::Characters
    }
}

/// Makes the variables of a render, with or without marks.
pub(super) struct Variables {
    marks: Option<Marks>,
    /// Bytes of all texts: what a render is allowed to cost grows with them.
    bytes: usize,
    form: Form,
}

/// What templates see of what can be shown in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As Hugging Face shows it, which nearly all templates want.
    Usual,
    /// Arguments of calls as texts of JSON, and not as objects.
    TextArguments,
    /// No tools and no documents as empty lists, and not as `none`.
    EmptyLists,
}

/// The variables of a render, and the marks again, which the template's filters share.
pub(super) struct Context {
    pub(super) value: Value,
    pub(super) bytes: usize,
}

impl Variables {
    pub(super) fn plain(form: Form) -> Variables {
        Variables { marks: None, bytes: 0, form }
    }

    pub(super) fn marked(form: Form) -> Variables {
        Variables { marks: Some(Marks::default()), bytes: 0, form }
    }

    /// All variables of the template.
    pub(super) fn context(
        mut self,
        messages: &[Message],
        options: &RenderOptions,
        (bos, eos): (&str, &str),
        now: &ZonedDateTime,
    ) -> Result<Context, Unusable> {
        let mut entries: Vec<(String, Value)> = Vec::new();
        let mut set = |name: &str, value: Value| entries.push((name.to_owned(), value));
        for (name, json) in &options.variables {
            set(name, self.trusted(json, 0)?);
        }
        let messages = messages.iter().map(|message| self.message(message)).collect::<Result<Vec<_>, _>>()?;
        set("messages", Value::from(messages));
        let tools = self.list(&options.tools)?;
        set("tools", tools);
        let documents = self.list(&options.documents)?;
        set("documents", documents);
        set("bos_token", Value::from(bos));
        set("eos_token", Value::from(eos));
        set("add_generation_prompt", Value::from(options.add_generation_prompt));
        set(CLOCK, Value::from_object(Clock(now.clone())));
        if let Some(marks) = self.marks.take() {
            set(MARKS, Value::from_object(marks));
        }
        Ok(Context { value: Value::from_pairs(entries), bytes: self.bytes })
    }

    fn message(&mut self, message: &Message) -> Result<Value, Unusable> {
        let role = if ROLES.contains(&message.role.as_str()) {
            Value::from(message.role.as_str())
        } else {
            self.text(&message.role)?
        };
        let mut entries = Vec::new();
        if let Some(reasoning) = &message.reasoning_content {
            // Some templates know it by this name, and Hugging Face gives them both.
            entries.push(("thinking", self.text(reasoning)?));
        }
        entries.extend([("role", role), ("content", self.text(&message.content)?)]);
        if let Some(name) = &message.name {
            entries.push(("name", self.text(name)?));
        }
        if let Some(reasoning) = &message.reasoning_content {
            entries.push(("reasoning_content", self.text(reasoning)?));
        }
        if !message.tool_calls.is_empty() {
            let calls = message.tool_calls.iter().map(|call| self.tool_call(call)).collect::<Result<Vec<_>, _>>()?;
            entries.push(("tool_calls", Value::from(calls)));
        }
        if let Some(id) = &message.tool_call_id {
            entries.push(("tool_call_id", self.text(id)?));
        }
        Ok(Value::from_pairs(entries))
    }

    fn tool_call(&mut self, call: &ToolCall) -> Result<Value, Unusable> {
        let arguments = match &call.arguments {
            Json::String(text) if self.form == Form::TextArguments => self.text(text)?,
            other if self.form == Form::TextArguments => self.text(&other.to_string())?,
            Json::String(_) => self.json(&decoded(call.arguments.clone()), 0, false)?,
            other => self.json(other, 0, false)?,
        };
        let function = Value::from_pairs([("name", self.text(&call.name)?), ("arguments", arguments)]);
        let mut entries = vec![("type", Value::from("function")), ("function", function)];
        if let Some(id) = &call.id {
            entries.insert(0, ("id", self.text(id)?));
        }
        Ok(Value::from_pairs(entries))
    }

    /// Tools or documents; `none` where there are none, as Hugging Face gives them to templates.
    fn list(&mut self, items: &[Json]) -> Result<Value, Unusable> {
        if items.is_empty() && self.form != Form::EmptyLists {
            return Ok(Value::from(()));
        }
        Ok(Value::from(items.iter().map(|item| self.json(item, 0, true)).collect::<Result<Vec<_>, _>>()?))
    }

    fn text(&mut self, text: &str) -> Result<Value, Unusable> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > super::MOST_BYTES {
            return Err(Unusable::Length);
        }
        Ok(match &mut self.marks {
            Some(marks) => Value::from(marks.mark(text)?),
            None => Value::from(text),
        })
    }

    /// Like [`Variables::text`], except for words of tool definitions where `is_schema`.
    fn word(&mut self, text: &str, is_schema: bool) -> Result<Value, Unusable> {
        if is_schema && SCHEMA_WORDS.contains(&text) { Ok(Value::from(text)) } else { self.text(text) }
    }

    fn json(&mut self, json: &Json, depth: usize, is_schema: bool) -> Result<Value, Unusable> {
        if depth > DEEPEST {
            return Err(Unusable::Depth);
        }
        Ok(match json {
            Json::Null => Value::from(()),
            Json::Bool(value) => Value::from(*value),
            Json::Number(number) => self::number(number),
            Json::String(text) => self.word(text, is_schema)?,
            Json::Array(items) => Value::from(
                items.iter().map(|item| self.json(item, depth + 1, is_schema)).collect::<Result<Vec<_>, _>>()?,
            ),
            Json::Object(object) => self.object(object, depth, is_schema)?,
        })
    }

    fn object(
        &mut self,
        object: &serde_json::Map<String, Json>,
        depth: usize,
        is_schema: bool,
    ) -> Result<Value, Unusable> {
        let mut entries = Vec::with_capacity(object.len());
        for (key, value) in object {
            entries.push((self.word(key, is_schema)?, self.json(value, depth + 1, is_schema)?));
        }
        Ok(Value::from_pairs(entries))
    }

    /// A value of the caller's own, without marks.
    fn trusted(&mut self, json: &Json, depth: usize) -> Result<Value, Unusable> {
        let mut plain = Variables::plain(self.form);
        let value = plain.json(json, depth, false)?;
        self.bytes += plain.bytes;
        Ok(value)
    }
}

fn number(number: &serde_json::Number) -> Value {
    match (number.as_i64(), number.as_u64()) {
        (Some(value), _) => Value::from(value),
        (None, Some(value)) => Value::from(value),
        (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
    }
}
