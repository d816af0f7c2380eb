//! The default model, from end to end. Fetched through duan's own code into the ordinary cache.

use crate::common::{Home, real_model};

#[test]
fn greedy_text_is_the_same_twice_and_with_any_threads() {
    let Some(model) = real_model() else { return };
    let model = model.to_str().expect("the cache has a printable path");
    let home = Home::new();
    let complete = |threads: &str| {
        let arguments =
            ["complete", model, "-p", "The capital of France is", "-n", "8", "--temp", "0", "--json", "-t", threads];
        home.run(&arguments).json()
    };
    let first = complete("1");
    assert_eq!(first["finish_reason"], "length");
    assert_eq!(first["tokens"].as_array().unwrap().len(), 8);
    assert!(first["text"].as_str().unwrap().contains("Paris"), "{first}");
    for threads in ["1", "2"] {
        assert_eq!(complete(threads)["tokens"], first["tokens"], "{threads} threads");
    }
}

#[test]
fn chat_answers_and_ends_its_turn() {
    let Some(model) = real_model() else { return };
    let model = model.to_str().expect("the cache has a printable path");
    let json = Home::new()
        .run(&["chat", model, "-p", "What is 2+2? Answer with one number.", "-n", "48", "--temp", "0", "--json"])
        .json();
    assert_eq!(json["finish_reason"], "stop", "{json}");
    let text = json["text"].as_str().unwrap();
    assert!(!text.trim().is_empty() && !text.contains("<|im_"), "{json}");
}

#[test]
fn tokenize_agrees_with_the_vocabulary() {
    let Some(model) = real_model() else { return };
    let model = model.to_str().expect("the cache has a printable path");
    let json = Home::new().run(&["tokenize", model, "Hello world", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "ids": [19556, 905] }));
}

#[cfg(unix)]
mod interrupted {
    use std::io::{Read as _, Write as _};
    use std::process::{Child, Command, Stdio};

    use crate::common::{Home, real_model};

    /// Starts the program, waits for the first piece of an answer, presses Ctrl-C, and gives what was printed.
    fn press_during_the_answer(mut command: Command, input: &[u8]) -> (Option<i32>, String, String) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child: Child = command.spawn().expect("the program starts");
        child.stdin.take().expect("stdin is piped").write_all(input).expect("the program reads");
        let mut stdout = child.stdout.take().expect("stdout is piped");
        let mut printed = [0; 1];
        stdout.read_exact(&mut printed).expect("an answer begins");
        let pressed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(pressed.expect("kill starts").success());
        let mut rest = printed.to_vec();
        stdout.read_to_end(&mut rest).expect("the answer ends");
        let output = child.wait_with_output().expect("the program ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes UTF-8");
        (output.status.code(), text(rest), text(output.stderr))
    }

    #[test]
    fn ctrl_c_ends_the_answer_and_not_the_conversation() {
        let Some(model) = real_model() else { return };
        let model = model.to_str().expect("the cache has a printable path");
        let home = Home::new();
        let command = home.command(&["chat", model, "-n", "96", "--temp", "0", "--stats"]);
        let input = b"Tell me a long story about a river.\nName one colour.\n";
        let (code, stdout, stderr) = press_during_the_answer(command, input);
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(stderr.matches("(stopped)").count(), 1, "{stderr}");
        assert_eq!(stderr.matches("prefill ").count(), 2, "the second message was answered: {stderr}");
        assert!(stdout.lines().count() >= 2, "{stdout}");
    }

    #[test]
    fn ctrl_c_ends_a_completion_with_what_is_there() {
        let Some(model) = real_model() else { return };
        let model = model.to_str().expect("the cache has a printable path");
        let home = Home::new();
        let command = home.command(&["complete", model, "-p", "Once upon a time", "-n", "3000", "--temp", "0"]);
        let (code, stdout, stderr) = press_during_the_answer(command, b"");
        assert_eq!(code, Some(130), "{stderr}");
        assert!(stdout.ends_with('\n') && stderr.contains("(stopped)"), "{stdout}{stderr}");
    }
}
