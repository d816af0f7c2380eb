//! Changing a conversation so that a strict template takes it.

use super::Message;

/// Neighbours of one role as one message, their contents apart by an empty line. Calls of tools, their results and thoughts
/// stay as they are.
pub(super) fn joined_neighbours(messages: &[Message]) -> Vec<Message> {
    let mut joined: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match joined.last_mut() {
            Some(last) if last.role == message.role && is_plain(last) && is_plain(message) => {
                append(&mut last.content, &message.content);
            }
            _ => joined.push(message.clone()),
        }
    }
    joined
}

/// The contents of all system messages in front of the first user's, or as a user's message where there is none.
pub(super) fn system_in_first_user_turn(messages: &[Message]) -> Vec<Message> {
    let (system, mut others): (Vec<Message>, Vec<Message>) = messages.iter().cloned().partition(is_system);
    if system.is_empty() {
        return others;
    }
    let mut content = String::new();
    system.iter().for_each(|message| append(&mut content, &message.content));
    match others.iter_mut().find(|message| message.role == "user") {
        Some(user) => {
            append(&mut content, &user.content);
            user.content = content;
        }
        None => others.insert(0, Message::user(content)),
    }
    others
}

/// Whether a message tells the model about its task.
pub(super) fn is_system(message: &Message) -> bool {
    matches!(message.role.as_str(), "system" | "developer")
}

fn is_plain(message: &Message) -> bool {
    message.tool_calls.is_empty()
        && message.tool_call_id.is_none()
        && message.name.is_none()
        && message.reasoning_content.is_none()
        && matches!(message.role.as_str(), "system" | "developer" | "user" | "assistant")
}

fn append(content: &mut String, more: &str) {
    if !content.is_empty() && !more.is_empty() {
        content.push_str("\n\n");
    }
    content.push_str(more);
}
