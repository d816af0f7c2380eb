//! The parser: markers are found in the text as it comes, and sections are read once they are whole.

use super::format::{Call, End, Format, Input, Next, Rule, Section, Then, Within};
use super::section::{Found, Scan};
use super::tools::Tools;

/// White space that is held back at most, in bytes.
const LONGEST_SPACE_BYTES: usize = 4096;

/// How often a marker that began nothing is taken as text and the rest read again; after that, a whole section is text. So work
/// stays linear.
const MOST_RETRIES: usize = 16;

/// What came of a piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// More of the model's thoughts.
    Reasoning(String),
    /// More of its answer.
    Content(String),
    /// A call of a tool.
    ToolCall(ToolCall),
}

/// A call of a tool, as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Counts the calls of an answer, from 0.
    pub index: usize,
    /// What the model wrote to name the call; most formats have no such thing.
    pub id: Option<String>,
    /// Name of the tool; it need not be one of the request's.
    pub name: String,
    /// The arguments: the text of a JSON object, nearly always. Where the model wrote JSON, this is it to the letter; otherwise it
    /// was made of what the model wrote.
    pub arguments: String,
    /// Whether the call has its end. If not, the answer ended in the middle of it, and `arguments` is what there is of them, which
    /// may be no JSON.
    pub is_complete: bool,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The model's thoughts.
    pub reasoning: String,
    /// Its text.
    pub content: String,
    /// The tools that it calls.
    pub tool_calls: Vec<ToolCall>,
}

impl Answer {
    /// An answer from its events.
    pub fn new(events: impl IntoIterator<Item = Event>) -> Answer {
        let mut answer = Answer::default();
        for event in events {
            match event {
                Event::Reasoning(text) => answer.reasoning.push_str(&text),
                Event::Content(text) => answer.content.push_str(&text),
                Event::ToolCall(call) => answer.tool_calls.push(call),
            }
        }
        answer
    }
}

/// How many bytes of an answer became what; together they are all that were fed and are not held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accounted {
    /// Thoughts and content.
    pub text: usize,
    /// Calls, with their markers.
    pub calls: usize,
    /// Other markers and headers, which mean something and are no text.
    pub markers: usize,
    /// White space around them.
    pub space: usize,
}

impl Accounted {
    /// All bytes.
    pub fn total(&self) -> usize {
        self.text + self.calls + self.markers + self.space
    }
}

/// Which text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Reasoning,
    Content,
}

enum State {
    Text(Mode),
    Section(Open),
}

/// A section that is being written.
struct Open {
    section: &'static Section,
    /// The marker that began it; empty where the prompt held it.
    marker: &'static str,
    /// What was written before it.
    mode: Mode,
    name: Option<String>,
    scan: Scan,
}

/// Thoughts or content, of which white space at the end is held back.
#[derive(Default)]
struct Channel {
    space: String,
    has_text: bool,
    /// Whether a marker stands before what comes next.
    is_after_marker: bool,
    /// Whether what comes next is a message of its own.
    is_apart: bool,
}

/// What stands between messages of one answer.
const APART: &str = "\n\n";

/// Divides an answer into thoughts, content and calls, piece by piece. See the module for what it promises.
pub struct Parser {
    format: &'static Format,
    tools: Tools,
    /// What was fed and not yet told; it begins at `start`.
    buffer: String,
    start: usize,
    state: State,
    reasoning: Channel,
    content: Channel,
    /// Whether there was no content yet, or none since the last call.
    is_fresh: bool,
    calls: usize,
    retries: usize,
    accounted: Accounted,
    events: Vec<Event>,
}

impl std::fmt::Debug for Parser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rest = &self.buffer[self.start..];
        f.debug_struct("Parser").field("format", &self.format.name).field("rest", &rest).finish_non_exhaustive()
    }
}

impl Parser {
    /// A parser for one answer.
    ///
    /// `generation_prompt` is the end of the prompt, see [`crate::template::Prompt::generation_prompt`]: it says whether the thoughts
    /// are begun already. `tools` are the definitions that the request had, as in [`crate::template::RenderOptions::tools`].
    pub fn new(format: &'static Format, generation_prompt: &str, tools: &[serde_json::Value]) -> Parser {
        let mut parser = Parser {
            format,
            tools: Tools::new(tools),
            buffer: String::new(),
            start: 0,
            state: State::Text(Mode::Content),
            reasoning: Channel { is_after_marker: true, ..Channel::default() },
            content: Channel::default(),
            is_fresh: true,
            calls: 0,
            retries: 0,
            accounted: Accounted::default(),
            events: Vec::new(),
        };
        parser.begin(generation_prompt.trim_end());
        parser
    }

    /// Goes to where the generation prompt left off.
    fn begin(&mut self, prompt: &str) {
        let last = |is: fn(&Then) -> bool| {
            let markers = self.format.all_rules().filter(move |rule| is(&rule.then));
            markers.filter_map(|rule| prompt.rfind(rule.marker.trim_end())).max()
        };
        let (opened, closed) =
            (last(|then| matches!(then, Then::Reasoning)), last(|then| matches!(then, Then::Content)));
        let is_at_end = |rule: &&Rule| prompt.ends_with(rule.marker.trim_end());
        let header = self.format.all_rules().filter(is_at_end).find_map(|rule| match &rule.then {
            Then::Header(section) => Some(section),
            _ => None,
        });
        if let Some(section) = header {
            let scan = Scan::default();
            self.state = State::Section(Open { section, marker: "", mode: Mode::Content, name: None, scan });
        } else if opened > closed {
            self.state = State::Text(Mode::Reasoning);
        } else {
            self.content.is_after_marker = closed.is_some();
        }
    }

    /// Takes the next piece of the answer, of any length, and gives what is certain by now.
    pub fn feed(&mut self, text: &str) -> Vec<Event> {
        self.buffer.push_str(text);
        while self.step(false) {}
        if self.start > self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        std::mem::take(&mut self.events)
    }

    /// The answer is over: gives what was held back.
    pub fn finish(mut self) -> Vec<Event> {
        self.end();
        self.events
    }

    /// The same, with what each byte of the answer became.
    pub fn finish_accounted(mut self) -> (Vec<Event>, Accounted) {
        self.end();
        (self.events, self.accounted)
    }

    /// What the bytes became that are told so far.
    pub fn accounted(&self) -> Accounted {
        self.accounted
    }

    fn end(&mut self) {
        while self.step(true) {}
        for mode in [Mode::Reasoning, Mode::Content] {
            let channel = self.channel(mode);
            let space = std::mem::take(&mut channel.space);
            if channel.is_after_marker {
                self.accounted.space += space.len();
            } else if !space.is_empty() {
                self.tell(mode, &space);
            }
        }
    }

    fn channel(&mut self, mode: Mode) -> &mut Channel {
        match mode {
            Mode::Reasoning => &mut self.reasoning,
            Mode::Content => &mut self.content,
        }
    }

    /// Does the next thing that is certain; false where there is none.
    fn step(&mut self, is_end: bool) -> bool {
        match std::mem::replace(&mut self.state, State::Text(Mode::Content)) {
            State::Text(mode) => {
                self.state = State::Text(mode);
                self.step_text(mode, is_end)
            }
            State::Section(open) => self.step_section(open, is_end),
        }
    }

    fn step_text(&mut self, mode: Mode, is_end: bool) -> bool {
        let (length, rule) = self.search(mode, is_end);
        let text = self.take(length);
        self.text(mode, &text);
        let Some(rule) = rule else { return false };
        self.start += rule.marker.len();
        self.reasoning.is_after_marker = true;
        self.content.is_after_marker = true;
        match &rule.then {
            Then::Calls(section) | Then::Header(section) => {
                if section.has_marker {
                    self.start -= rule.marker.len();
                }
                let marker = rule.marker;
                self.state = State::Section(Open { section, marker, mode, name: None, scan: Scan::default() });
            }
            then => {
                self.accounted.markers += rule.marker.len();
                match then {
                    Then::Reasoning => self.state = State::Text(Mode::Reasoning),
                    Then::Content => self.state = State::Text(Mode::Content),
                    _ => {}
                }
            }
        }
        true
    }

    /// Takes bytes off the front of what is not told yet.
    fn take(&mut self, length: usize) -> String {
        let text = self.buffer[self.start..self.start + length].to_owned();
        self.start += length;
        text
    }

    /// How much of the buffer is text for certain, and the marker behind it.
    fn search(&self, mode: Mode, is_end: bool) -> (usize, Option<&'static Rule>) {
        let rest = &self.buffer[self.start..];
        let blank = rest.len() - rest.trim_start().len();
        let rules: Vec<&'static Rule> = self.format.all_rules().filter(|rule| self.counts(rule, mode)).collect();
        for (at, byte) in rest.bytes().enumerate() {
            let mut found: Option<&'static Rule> = None;
            let mut is_open = false;
            for rule in &rules {
                if rule.marker.as_bytes()[0] != byte || is_at_start(rule.within) && at > blank {
                    continue;
                }
                let (marker, text) = (rule.marker.as_bytes(), &rest.as_bytes()[at..]);
                if text.starts_with(marker) {
                    if found.is_none_or(|other| other.marker.len() < marker.len()) {
                        found = Some(rule);
                    }
                } else if marker.starts_with(text) {
                    is_open = true;
                }
            }
            match found {
                _ if is_open && !is_end => return (at, None),
                Some(rule) => return (at, Some(rule)),
                None => {}
            }
        }
        (rest.len(), None)
    }

    /// Whether a marker counts now, wherever it stands.
    fn counts(&self, rule: &Rule, mode: Mode) -> bool {
        let is_content = mode == Mode::Content;
        match rule.within {
            Within::Any => true,
            Within::Content => is_content,
            Within::Reasoning => !is_content,
            Within::Start => is_content && self.is_fresh,
            Within::StartWithTools => is_content && self.is_fresh && !self.tools.is_empty(),
            Within::ContentWithTools => is_content && !self.tools.is_empty(),
            Within::AfterCall => is_content && self.is_fresh && self.calls > 0,
        }
    }

    /// Takes text of a channel, and holds back the white space at its end.
    fn text(&mut self, mode: Mode, text: &str) {
        if text.is_empty() {
            return;
        }
        let channel = self.channel(mode);
        let core = text.trim_end();
        if core.is_empty() {
            channel.space.push_str(text);
        } else {
            let mut out = std::mem::take(&mut channel.space);
            let is_apart = std::mem::take(&mut channel.is_apart);
            let is_first = is_apart || !channel.has_text && channel.is_after_marker;
            let mut dropped = 0;
            if is_first {
                dropped = out.len() + core.len() - core.trim_start().len();
                out = core.trim_start().to_owned();
            } else {
                out.push_str(core);
            }
            if is_apart {
                out.insert_str(0, APART);
            }
            channel.space = text[core.len()..].to_owned();
            channel.has_text = true;
            channel.is_after_marker = false;
            if mode == Mode::Content {
                self.is_fresh = false;
            }
            self.accounted.space += dropped;
            self.tell(mode, &out);
            // The model did not write it.
            self.accounted.text -= if is_apart { APART.len() } else { 0 };
        }
        self.bound_space(mode);
    }

    /// Lets go of white space beyond [`LONGEST_SPACE_BYTES`].
    fn bound_space(&mut self, mode: Mode) {
        let channel = self.channel(mode);
        let Some(mut excess) = channel.space.len().checked_sub(LONGEST_SPACE_BYTES).filter(|&excess| excess > 0) else {
            return;
        };
        while !channel.space.is_char_boundary(excess) {
            excess += 1;
        }
        let space: String = channel.space.drain(..excess).collect();
        if channel.has_text && !channel.is_apart || !channel.is_after_marker {
            self.tell(mode, &space);
        } else {
            self.accounted.space += space.len();
        }
    }

    /// Gives text away.
    fn tell(&mut self, mode: Mode, text: &str) {
        self.accounted.text += text.len();
        match (mode, self.events.last_mut()) {
            (Mode::Reasoning, Some(Event::Reasoning(last))) | (Mode::Content, Some(Event::Content(last))) => {
                last.push_str(text);
            }
            (Mode::Reasoning, _) => self.events.push(Event::Reasoning(text.to_owned())),
            (Mode::Content, _) => self.events.push(Event::Content(text.to_owned())),
        }
    }

    fn step_section(&mut self, mut open: Open, is_end: bool) -> bool {
        let rest = &self.buffer[self.start..];
        let limit = rest.floor_char_boundary(open.section.longest);
        let text = &rest[..limit];
        let (end, after) = match open.scan.advance(text, &open.section.end) {
            Found::Yes(end, after) => (end, after),
            Found::More if rest.len() > open.section.longest => return self.no_section(open, limit),
            Found::More if is_end => return self.unfinished(open),
            Found::Malformed => return self.no_section(open, 0),
            Found::More => {
                self.state = State::Section(open);
                return false;
            }
        };
        let name = open.name.as_deref();
        match (open.section.read)(&Input { text: &text[..end], name, is_whole: true, tools: &self.tools }) {
            Some(next) => self.go_on(&open, next, after),
            None => self.no_section(open, after),
        }
    }

    /// The answer ends before the section does.
    fn unfinished(&mut self, open: Open) -> bool {
        let text = &self.buffer[self.start..];
        let (length, name) = (text.len(), open.name.as_deref());
        // Where the end stands in quotes that are never closed, what is before it is no call.
        let has_end =
            matches!(&open.section.end, End::Text { texts, .. } if texts.iter().any(|end| text.contains(end)));
        let is_sure = |calls: &[Call]| !has_end || name.is_some() || calls.iter().all(|call| call.is_complete);
        let read = |text| (open.section.read)(&Input { text, name, is_whole: false, tools: &self.tools });
        // The beginning of an end is no part of calls that are whole without it.
        let is_whole = |next: &Next| match next {
            Next::Calls(calls) => calls.iter().all(|call| call.is_complete),
            _ => false,
        };
        match read(&text[..open.scan.certain(text)]).filter(is_whole).or_else(|| read(text)) {
            Some(Next::Calls(calls)) if is_sure(&calls) => self.go_on(&open, Next::Calls(calls), length),
            Some(Next::Unfinished(calls, rest)) if is_sure(&calls) => {
                self.go_on(&open, Next::Calls(calls), length);
                self.accounted.calls -= rest.len();
                self.text(Mode::Content, &rest);
                true
            }
            _ => self.no_section(open, length),
        }
    }

    /// Goes on after a section of `length` bytes.
    fn go_on(&mut self, open: &Open, next: Next, length: usize) -> bool {
        let bytes = length + if open.section.has_marker { 0 } else { open.marker.len() };
        match next {
            Next::Calls(calls) | Next::Unfinished(calls, _) => {
                self.start += length;
                self.accounted.calls += bytes;
                for call in calls {
                    self.call(call);
                }
                self.is_fresh = true;
                self.content.is_after_marker = true;
                self.state = State::Text(Mode::Content);
            }
            Next::Arguments(name, section) => {
                self.start += length;
                self.accounted.markers += bytes;
                let (marker, scan) = ("", Scan::default());
                self.state = State::Section(Open { section, marker, mode: open.mode, name: Some(name), scan });
            }
            Next::Reasoning | Next::Content => {
                self.start += length;
                self.accounted.markers += bytes;
                let mode = if matches!(next, Next::Content) { Mode::Content } else { Mode::Reasoning };
                // Each header begins a message of its own.
                let channel = self.channel(mode);
                let space = std::mem::take(&mut channel.space);
                channel.is_after_marker = true;
                channel.is_apart = channel.has_text;
                self.accounted.space += space.len();
                self.state = State::Text(mode);
            }
        }
        true
    }

    fn call(&mut self, call: Call) {
        let Call { id, name, arguments, is_complete } = call;
        self.events.push(Event::ToolCall(ToolCall { index: self.calls, id, name, arguments, is_complete }));
        self.calls += 1;
    }

    /// What began like a section of `length` bytes is none: the marker is text, and what follows it is read again.
    fn no_section(&mut self, open: Open, length: usize) -> bool {
        let marker = if open.section.has_marker { self.take(open.marker.len()) } else { open.marker.to_owned() };
        self.state = State::Text(open.mode);
        self.channel(open.mode).is_after_marker = false;
        self.text(open.mode, &marker);
        if self.retries < MOST_RETRIES {
            self.retries += 1;
        } else {
            let text = self.take(length.saturating_sub(if open.section.has_marker { marker.len() } else { 0 }));
            self.text(open.mode, &text);
        }
        if open.mode == Mode::Content {
            self.is_fresh = false;
        }
        true
    }
}

fn is_at_start(within: Within) -> bool {
    matches!(within, Within::Start | Within::StartWithTools | Within::AfterCall)
}
