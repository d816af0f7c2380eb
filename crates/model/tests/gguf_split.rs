//! Models that are split into several files.

use std::path::PathBuf;

use duan_model::gguf::write::GgufWriter;
use duan_model::gguf::{GgufFile, PIECES_LIMIT, Value};
use tempfile::TempDir;

/// A folder with the pieces of a model.
struct Folder(TempDir);

/// One piece: number, count, tensors in all, and the tensors in it, each eight floats.
type Piece<'a> = (u16, u16, i32, &'a [(&'a str, f32)]);

const PIECES: [Piece<'static>; 3] = [
    (0, 3, 4, &[("token_embd.weight", 1.0)]),
    (1, 3, 4, &[("blk.0.attn_q.weight", 2.0), ("blk.0.attn_k.weight", 3.0)]),
    (2, 3, 4, &[("output.weight", 4.0)]),
];

impl Folder {
    fn of(pieces: &[Piece<'_>]) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for &piece in pieces {
            folder.put(piece.0 + 1, piece);
        }
        folder
    }

    /// Writes a piece as the file with this number, from 1.
    fn put(&self, file_number: u16, (number, count, total, tensors): Piece<'_>) {
        let keys = [("split.no", Value::U16(number)), ("split.count", Value::U16(count))];
        let total = [("split.tensors.count", Value::I32(total))];
        let path = self.path(file_number);
        std::fs::write(path, bytes(number == 0, keys.into_iter().chain(total), tensors)).unwrap();
    }

    fn path(&self, file_number: u16) -> PathBuf {
        self.0.path().join(format!("tiny-{file_number:05}-of-00003.gguf"))
    }

    fn open(&self, file_number: u16) -> GgufFile {
        GgufFile::open(&self.path(file_number)).unwrap()
    }

    /// The one-line reason for which the model is refused, without the folder. Reading it gives the same one.
    fn refused(&self, file_number: u16) -> String {
        let message = GgufFile::open(&self.path(file_number)).unwrap_err().to_string();
        assert_eq!(GgufFile::read(&self.path(file_number)).unwrap_err().to_string(), message);
        assert!(!message.contains('\n'), "{message}");
        message.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn bytes(is_first: bool, keys: impl IntoIterator<Item = (&'static str, Value)>, tensors: &[(&str, f32)]) -> Vec<u8> {
    let mut writer = GgufWriter::new("piece");
    if is_first {
        writer.key("general.architecture", "llama").unwrap();
        // The pieces do not agree on it, and need not.
        writer.key("general.alignment", 64u32).unwrap();
    }
    for (key, value) in keys {
        writer.key(key, value).unwrap();
    }
    for (name, value) in tensors {
        let bytes: Vec<u8> = [*value; 8].iter().flat_map(|x| x.to_le_bytes()).collect();
        writer.tensor(name, &[8], 0, bytes).unwrap();
    }
    writer.to_bytes()
}

#[test]
fn any_piece_opens_the_whole_model() {
    let folder = Folder::of(&PIECES);
    let total: u64 = (1..=3).map(|number| std::fs::metadata(folder.path(number)).unwrap().len()).sum();
    for number in 1..=3 {
        for open in [GgufFile::open, GgufFile::read] {
            let file = open(&folder.path(number)).unwrap();
            assert_eq!((file.path(), file.piece_count()), (folder.path(1).as_path(), 3));
            assert_eq!(file.file_bytes(), total);
            assert_eq!(file.metadata().string("general.architecture").unwrap(), Some("llama"));
            let found: Vec<(&str, usize)> = file.tensors().iter().map(|info| (&*info.name, info.piece)).collect();
            let expected = [
                ("token_embd.weight", 0),
                ("blk.0.attn_q.weight", 1),
                ("blk.0.attn_k.weight", 1),
                ("output.weight", 2),
            ];
            assert_eq!(found, expected);
            for (index, info) in file.tensors().iter().enumerate() {
                assert_eq!(file.tensor(&info.name), Some(info));
                assert_eq!(&file.tensor_data(info).unwrap()[..4], (index as f32 + 1.0).to_le_bytes());
            }
        }
    }
}

#[test]
fn every_piece_is_mapped() {
    let file = Folder::of(&PIECES).open(1);
    for info in file.tensors() {
        assert!(file.tensor_data(info).unwrap().is_mapped(), "{}", info.name);
    }
}

#[test]
fn the_first_piece_may_have_no_tensors() {
    let folder = Folder::of(&[(0, 3, 2, &[]), (1, 3, 2, &[("a", 1.0)]), (2, 3, 2, &[("b", 2.0)])]);
    assert_eq!(folder.open(1).tensors().len(), 2);
}

#[test]
fn a_model_in_one_piece_is_a_whole_one() {
    let folder = Folder::of(&[]);
    folder.put(1, (0, 1, 1, &[("a", 1.0)]));
    let file = folder.open(1);
    assert_eq!((file.piece_count(), file.tensors().len()), (1, 1));
}

#[test]
fn a_missing_piece_is_named() {
    for opened in [1, 3] {
        let folder = Folder::of(&PIECES);
        std::fs::remove_file(folder.path(2)).unwrap();
        assert_eq!(
            folder.refused(opened),
            "tiny-00002-of-00003.gguf: this is piece 2 of 3 of a split model, and it is missing; fetch it into the folder \
             where the others are"
        );
    }
    let folder = Folder::of(&PIECES);
    std::fs::write(folder.path(3), b"").unwrap();
    assert!(folder.refused(1).starts_with("tiny-00003-of-00003.gguf: this file is empty"));
}

#[test]
fn pieces_in_the_wrong_order_are_told_by_their_names() {
    let folder = Folder::of(&PIECES);
    folder.put(2, PIECES[2]);
    folder.put(3, PIECES[1]);
    assert_eq!(
        folder.refused(1),
        "tiny-00002-of-00003.gguf: by its name this is piece 2 of 3 of a split model that has 4 tensors in all, by its \
         metadata piece 3 of 3 of a split model; fetch all pieces again, from one place and with the names that they have there"
    );
    assert_eq!(
        folder.refused(3),
        "tiny-00003-of-00003.gguf: this is piece 2 of 3 of a split model, but its name does not end in \
         `-00002-of-00003.gguf`; give all pieces the names that they were published with, in one folder"
    );
}

#[test]
fn a_piece_with_another_name_says_what_it_is() {
    let folder = Folder::of(&PIECES);
    let renamed = folder.0.path().join("model.gguf");
    std::fs::rename(folder.path(1), &renamed).unwrap();
    let message = GgufFile::open(&renamed).unwrap_err().to_string();
    assert!(
        message.contains("this is piece 1 of 3") && message.contains("does not end in `-00001-of-00003.gguf`"),
        "{message}"
    );
}

#[test]
fn pieces_of_other_models_are_refused() {
    let other_pieces = [
        ((1, 4, 4, &[("x", 1.0)][..]), "by its metadata piece 2 of 4 of a split model that has 4 tensors in all"),
        ((1, 3, 5, &[("x", 1.0)]), "by its metadata piece 2 of 3 of a split model that has 5 tensors in all"),
    ];
    for (other, part) in other_pieces {
        let folder = Folder::of(&PIECES);
        folder.put(2, other);
        let message = folder.refused(1);
        assert!(message.starts_with("tiny-00002-of-00003.gguf: ") && message.contains(part), "{message}");
        assert!(message.contains("fetch all pieces again"), "{message}");
    }
    let folder = Folder::of(&PIECES);
    std::fs::write(folder.path(2), bytes(true, [], &[("x", 1.0)])).unwrap();
    assert!(folder.refused(1).contains("by its metadata a whole model; fetch all pieces again"));
}

#[test]
fn a_tensor_may_stand_in_one_piece_only() {
    let folder = Folder::of(&PIECES);
    folder.put(3, (2, 3, 4, &[("blk.0.attn_k.weight", 4.0)]));
    assert_eq!(
        folder.refused(1),
        "tiny-00003-of-00003.gguf: tensor `blk.0.attn_k.weight`: expected it in one piece only, found it in \
         tiny-00002-of-00003.gguf too; fetch all pieces again, from one place"
    );
}

#[test]
fn the_tensors_of_all_pieces_are_counted() {
    let folder = Folder::of(&PIECES);
    folder.put(3, (2, 3, 4, &[]));
    assert_eq!(
        folder.refused(2),
        "tiny-00001-of-00003.gguf: metadata key `split.tensors.count`: expected 4 tensors, found 3 in the 3 pieces; fetch all \
         pieces again, from one place and with the names that they have there"
    );
}

#[test]
fn numbers_that_make_no_sense_are_named() {
    let refused = |keys: Vec<(&'static str, Value)>| {
        let message = GgufFile::from_bytes(bytes(true, keys, &[]), "m.gguf").unwrap_err().to_string();
        assert!(message.starts_with("m.gguf: metadata key `split.") && !message.contains('\n'), "{message}");
        message
    };
    let with = |number: Value, count: Value| {
        refused(vec![("split.no", number), ("split.count", count), ("split.tensors.count", Value::I32(1))])
    };
    for count in [Value::U16(0), Value::U16(u16::MAX), Value::U32(u32::MAX), Value::U32(PIECES_LIMIT + 1)] {
        let message = with(Value::U16(0), count);
        assert!(message.contains("`split.count`: expected 1 to 999 pieces, found "), "{message}");
    }
    assert!(with(Value::U16(3), Value::U16(3)).contains("expected a number below 3, the number of pieces, found 3"));
    assert!(with(Value::I32(-1), Value::U16(3)).contains("`split.no`: expected a whole number"));
    assert!(with(Value::U16(0), Value::I64(-1)).contains("`split.count`: expected a whole number"));
    assert!(with(Value::U16(0), Value::String("3".into())).contains("found string"));
    assert!(
        refused(vec![("split.no", Value::U16(0))])
            .contains("`split.count`: expected a number, as pieces of a split model have, found no such key")
    );
    assert!(refused(vec![("split.count", Value::U16(2))]).contains("`split.no`: expected a number"));
    let no_total = refused(vec![("split.no", Value::U16(0)), ("split.count", Value::U16(2))]);
    assert!(no_total.contains("`split.tensors.count`: expected a number"), "{no_total}");
}

#[test]
fn a_piece_in_memory_is_refused_for_want_of_the_others() {
    let folder = Folder::of(&PIECES);
    let message = GgufFile::from_bytes(std::fs::read(folder.path(2)).unwrap(), "m.gguf").unwrap_err().to_string();
    assert_eq!(
        message,
        "m.gguf: this is piece 2 of 3 of a split model, and the others are not at hand; open it by its path, beside the others"
    );
}

#[test]
fn a_piece_that_shrinks_while_open_is_noticed() {
    let folder = Folder::of(&PIECES);
    let file = folder.open(1);
    let length = file.length();
    length.check().unwrap();
    let whole = std::fs::metadata(folder.path(2)).unwrap().len();
    std::fs::File::options().write(true).open(folder.path(2)).unwrap().set_len(whole - 1).unwrap();
    let message = length.check().unwrap_err().to_string();
    assert!(message.contains("tiny-00002-of-00003.gguf: the file was cut from"), "{message}");
    let message = file.tensor_data(file.tensor("blk.0.attn_k.weight").unwrap()).unwrap_err().to_string();
    assert!(message.contains("tiny-00002-of-00003.gguf: tensor `blk.0.attn_k.weight`"), "{message}");
    assert!(file.tensor_data(file.tensor("output.weight").unwrap()).is_ok());
}
