//! Commands inside a chat: what begins with a slash.

use crate::args::{SETTINGS, Setting};
use crate::output::{Align, Table};

/// A command of the person to the chat.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Slash {
    /// Show the commands.
    Help,
    /// Forget the conversation; the system text stays.
    Reset,
    /// Set the system text, which begins a new conversation; without text, remove it.
    System(String),
    /// Show the last answer's figures.
    Stats,
    /// Show the settings.
    Settings,
    /// Change a setting for the answers that follow.
    Set(Setting),
    /// Leave.
    Exit,
}

/// Name, argument and meaning of each command, in the order that `/help` shows.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("/help", "", "this list"),
    ("/reset", "", "forget the conversation, and free the context"),
    ("/system", "TEXT", "begin anew with TEXT as the system message; without TEXT, with none"),
    ("/stats", "", "time and tokens of the last answer"),
    ("/set", "NAME VALUE", "change how tokens are chosen, for example `/set temp 0.7`; alone, show all"),
    ("/exit", "", "leave (also Ctrl-D)"),
];

/// The command in `text`; none where the text is a message.
///
/// # Errors
/// A line for the person, where no command is called so, or its value makes no sense.
pub(crate) fn parse(text: &str) -> Result<Option<Slash>, String> {
    if !text.starts_with('/') {
        return Ok(None);
    }
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let alone = |slash: Slash| {
        if rest.is_empty() { Ok(Some(slash)) } else { Err(format!("{name} takes nothing after it")) }
    };
    match name {
        "/help" | "/?" => alone(Slash::Help),
        "/reset" | "/clear" => alone(Slash::Reset),
        "/system" => Ok(Some(Slash::System(rest.to_owned()))),
        "/stats" => alone(Slash::Stats),
        "/set" if rest.is_empty() => Ok(Some(Slash::Settings)),
        "/set" => set(rest).map(|setting| Some(Slash::Set(setting))),
        "/exit" | "/quit" | "/bye" => alone(Slash::Exit),
        _ => Err(format!(
            "no command is called {name}; /help lists them, and a blank before the slash makes it a message"
        )),
    }
}

fn set(rest: &str) -> Result<Setting, String> {
    let (name, value) = rest.split_once([' ', '\t', '=']).unwrap_or((rest, ""));
    if value.trim().is_empty() {
        return Err(format!("/set {name} needs a value, for example `/set temp 0.7`"));
    }
    Setting::parse(name.trim_start_matches("--"), value.trim())
}

/// What Tab offers for the beginning of a line.
pub(crate) fn completions(typed: &str) -> Vec<String> {
    if let Some(begun) = typed.strip_prefix("/set ") {
        let names = SETTINGS.iter().filter(|setting| setting.name.starts_with(begun));
        return names.map(|setting| format!("/set {} ", setting.name)).collect();
    }
    if !typed.starts_with('/') {
        return Vec::new();
    }
    let begun = COMMANDS.iter().filter(|(name, _, _)| name.starts_with(typed));
    begun.map(|(name, argument, _)| if argument.is_empty() { (*name).into() } else { format!("{name} ") }).collect()
}

/// The text of `/help`.
pub(crate) fn help() -> String {
    let mut table = Table::of_talk(&[Align::Left, Align::Left]);
    for (name, argument, meaning) in COMMANDS {
        table.row([format!("{name} {argument}"), (*meaning).to_owned()]);
    }
    table.text()
        + "A line that ends in \\ goes on in the next one, and so does everything between ``` and ```. Pasted lines stay \
           one message. The arrow up brings earlier messages back."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_messages() {
        assert_eq!(parse("hello /help"), Ok(None));
        assert_eq!(parse(" /usr/bin"), Ok(None));
        assert_eq!(parse("/help"), Ok(Some(Slash::Help)));
        assert_eq!(parse("/quit"), Ok(Some(Slash::Exit)));
        assert_eq!(parse("/system You are\nbrief. "), Ok(Some(Slash::System("You are\nbrief.".into()))));
        assert_eq!(parse("/system"), Ok(Some(Slash::System(String::new()))));
        assert_eq!(parse("/set"), Ok(Some(Slash::Settings)));
        assert!(parse("/usr/bin").unwrap_err().contains("/usr/bin"));
        assert!(parse("/reset all").unwrap_err().contains("/reset takes nothing"));
    }

    #[test]
    fn settings_are_checked_as_the_options_are() {
        assert_eq!(parse("/set temp 0.7"), Ok(Some(Slash::Set(Setting::Temp(0.7)))));
        assert_eq!(parse("/set --top-k=40"), Ok(Some(Slash::Set(Setting::TopK(40)))));
        assert!(parse("/set temp").unwrap_err().contains("needs a value"));
        assert!(parse("/set temp nan").unwrap_err().contains("temp"));
        assert!(parse("/set warmth 1").unwrap_err().contains("top-k"));
    }

    #[test]
    fn tab_completes_names() {
        assert_eq!(completions("/s"), ["/system ", "/stats", "/set "]);
        assert_eq!(completions("/set te"), ["/set temp "]);
        assert!(completions("he").is_empty());
        assert!(COMMANDS.iter().all(|(name, _, _)| help().contains(name)));
    }
}
