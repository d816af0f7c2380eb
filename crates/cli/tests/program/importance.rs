//! `duan importance`: from a text to a file that `quantize` weighs with. What is gathered is tested in `duan`.

use duan::quantize::importance::Importance;

use crate::common::Home;

const ENGLISH: &str = "the model and a text of it, again and again. ";
const CHINESE: &str = "四 个 字 的 文 本，一 次 又 一 次。";

fn home() -> Home {
    let home = Home::new();
    home.fixture("smollm2");
    home.file("en.txt", ENGLISH.repeat(20).as_bytes());
    home.file("zh.txt", CHINESE.repeat(20).as_bytes());
    home
}

const BOTH: [&str; 9] =
    ["importance", "tiny.gguf", "--text", "en.txt", "--text", "zh.txt", "--context", "16", "--no-pack"];

#[test]
fn two_languages_become_one_file_that_quantize_uses() {
    let home = home();
    let ran = home.run(&[&BOTH[..], &["--chunks", "2", "-o", "a.gguf"]].concat());
    assert_eq!(ran.done(), "a.gguf\n");
    assert!(ran.stderr.contains("read in 4 windows of 16 tokens"), "{ran:?}");
    let told = home.run(&[&BOTH[..], &["--chunks", "2", "-o", "b.gguf", "--json", "-t", "1"]].concat()).json();
    assert_eq!(told["texts"], serde_json::json!(["en.txt", "zh.txt"]));
    assert_eq!((&told["windows"], &told["context"], &told["path"]), (&4.into(), &16.into(), &"b.gguf".into()));
    let read = |name: &str| std::fs::read(home.path().join(name)).unwrap();
    assert!(read("a.gguf") == read("b.gguf"), "the same text gives the same file");
    let file = Importance::open(&home.path().join("a.gguf")).unwrap();
    assert_eq!((file.datasets(), file.chunk_count()), (&["en.txt".to_owned(), "zh.txt".to_owned()][..], 4));
    assert_eq!(told["tensors"], file.len());
    // The other language, and the head, make other files.
    let english = ["importance", "tiny.gguf", "--text", "en.txt", "--context", "16", "-o", "en.gguf"];
    home.run(&english).done();
    let head = [&BOTH[..], &["--chunks", "2", "--head", "-o", "head.gguf"]].concat();
    home.run(&head).done();
    assert!(read("en.gguf") != read("a.gguf"));
    assert_eq!(Importance::open(&home.path().join("head.gguf")).unwrap().len(), file.len() + 1);

    let quantize = ["quantize", "tiny.gguf", "--format", "q4_0", "--json", "--importance"];
    let told = home.run(&[&quantize[..], &["a.gguf", "q.gguf"]].concat()).json();
    assert_eq!(told["importance"]["used"], told["importance"]["slices"], "{told}");
    assert_eq!(told["importance"]["missing"], serde_json::json!(["token_embd.weight"]), "{told}");
    home.run(&["quantize", "tiny.gguf", "--format", "q4_0", "plain.gguf"]).done();
    assert!(read("q.gguf") != read("plain.gguf"), "it makes a difference");
    home.run(&["complete", "q.gguf", "-p", "a", "-n", "1"]).done();
}

#[test]
fn what_cannot_be_read_is_one_line_and_leaves_nothing() {
    let home = home();
    home.file("empty.txt", b"");
    home.file("latin.txt", b"caf\xe9");
    home.file("short.txt", b"it");
    let before = home.names();
    let failed = |text: &str| {
        let ran =
            home.run(&["importance", "tiny.gguf", "--text", text, "-o", "a.gguf", "--context", "16", "--no-pack"]);
        ran.failed().to_owned()
    };
    assert!(failed("none.txt").contains("none.txt: cannot read the text"));
    assert!(failed("empty.txt").contains("empty.txt: the text is empty"));
    assert!(failed("latin.txt").contains("latin.txt: expected UTF-8, found another byte at offset 3"));
    assert!(failed("short.txt").contains("short.txt: the text has "));
    let ran = home.run(&["importance", "none.gguf", "--text", "en.txt", "-o", "a.gguf"]);
    assert!(ran.failed().contains("none.gguf"), "{ran:?}");
    assert!(home.run(&["importance", "tiny.gguf", "-o", "a.gguf"]).refused().contains("--text"));
    assert!(home.run(&["importance", "tiny.gguf", "--text", "en.txt"]).refused().contains("--out"));
    assert_eq!(home.names(), before);
}

/// That there is no place for the file is said before the work, and what is read is never written over.
#[test]
fn a_place_that_cannot_be_written_is_told_first() {
    let home = home();
    home.file("a.gguf", b"mine");
    let read = |name: &str| std::fs::read(home.path().join(name)).unwrap();
    let (model, text) = (read("tiny.gguf"), read("en.txt"));
    let ran = home.run(&[&BOTH[..], &["-o", "a.gguf"]].concat());
    assert!(ran.failed().contains("a.gguf exists already") && ran.failed().contains("--force"), "{ran:?}");
    for (out, word) in [
        ("tiny.gguf", "name another file"),
        ("en.txt", "name another file"),
        (".", "is no name for a file"),
        ("no/a.gguf", "create the folder first"),
    ] {
        let ran = home.run(&[&BOTH[..], &["-o", out, "--force"]].concat());
        assert!(ran.failed().contains(word), "{ran:?}");
    }
    assert!(read("tiny.gguf") == model && read("en.txt") == text && read("a.gguf") == b"mine");
    home.run(&[&BOTH[..], &["--chunks", "1", "-o", "a.gguf", "--force"]].concat()).done();
    assert!(read("a.gguf").starts_with(b"GGUF"));
}

#[test]
fn importance_of_another_model_or_a_damaged_one_is_refused() {
    let home = home();
    home.run(&[&BOTH[..], &["--chunks", "1", "-o", "a.gguf"]].concat()).done();
    let other = home.changed_fixture("other.gguf", "gemma3", &[], |_| Some(0));
    let quantize =
        |model: &str, file: &str| home.run(&["quantize", model, "q.gguf", "--format", "q4_0", "--importance", file]);
    let ran = quantize(other, "a.gguf");
    assert!(ran.code == Some(0) || ran.failed().contains("a.gguf"), "{ran:?}");
    let whole = std::fs::read(home.path().join("a.gguf")).unwrap();
    for length in [0, 20, whole.len() / 2, whole.len() - 64] {
        let cut = home.file("cut.gguf", &whole[..length]);
        assert!(quantize("tiny.gguf", cut).failed().contains("cut.gguf"), "{length}");
    }
    assert!(quantize("tiny.gguf", "tiny.gguf").failed().contains("tiny.gguf"));
    let onto = ["quantize", "tiny.gguf", "a.gguf", "--format", "q4_0", "--importance", "a.gguf", "--force"];
    assert!(home.run(&onto).failed().contains("name another file"));
    assert!(std::fs::read(home.path().join("a.gguf")).unwrap() == whole, "what is read is not written over");
    assert!(quantize("tiny.gguf", "none.gguf").failed().contains("none.gguf"));
}
