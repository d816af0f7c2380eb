//! Against constants worked out by hand, and against what other programs make of small files (`tests/fixtures/groups.json`).

use super::*;

fn words(name: &str, shape: [usize; 2], words: &[u32]) -> Tensor {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Tensor { name: name.to_owned(), dtype: "I32".to_owned(), shape: shape.to_vec(), bytes: bytes.into() }
}

fn halves(name: &str, shape: [usize; 2], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
    Tensor { name: name.to_owned(), dtype: "F16".to_owned(), shape: shape.to_vec(), bytes: bytes.into() }
}

/// All values [rows, columns], in the order of the input.
fn values(matrix: &GroupedMatrix) -> Vec<f32> {
    let row_bytes = matrix.format().row_bytes(matrix.columns()).unwrap();
    let mut bytes = vec![0xaa; matrix.rows() * row_bytes];
    matrix.make(0, &mut bytes).unwrap();
    // Rows are the same however many are asked for at once.
    let mut row = vec![0xaa; row_bytes];
    for index in (0..matrix.rows()).rev() {
        matrix.make(index, &mut row).unwrap();
        assert_eq!(row, bytes[index * row_bytes..][..row_bytes], "row {index}");
    }
    let mut stored = vec![f32::NAN; matrix.rows() * matrix.columns()];
    matrix.format().decode(&bytes, &mut stored).unwrap();
    let Some(order) = matrix.order() else { return stored };
    let mut values = vec![f32::NAN; stored.len()];
    for (stored, values) in stored.chunks_exact(order.len()).zip(values.chunks_exact_mut(order.len())) {
        stored.iter().zip(&**order).for_each(|(value, &column)| values[column as usize] = *value);
    }
    values
}

/// In = 64, out = 16, groups of 32: every code 9 and every scale 0.5.
fn nines(zeros: u32, version: gptq::Version, symmetric: bool, g_idx: Option<Vec<u32>>) -> Result<GroupedMatrix> {
    let g_idx = g_idx.map(|groups| Tensor { shape: vec![64], ..words("g_idx", [8, 8], &groups) });
    let tensors = gptq::Tensors {
        qweight: words("qweight", [8, 16], &[0x9999_9999; 128]),
        qzeros: words("qzeros", [2, 2], &[zeros; 4]),
        scales: halves("scales", [2, 16], &[0.5; 32]),
        g_idx,
    };
    let config = gptq::Config { bits: 4, group_size: Some(32), version, symmetric };
    gptq::read("m", "w", &tensors, config)
}

#[test]
fn zero_points_of_gptq_are_one_less_in_its_first_version() {
    use gptq::Version::{V1, V2};
    let v1 = nines(0x7777_7777, V1, true, None).unwrap();
    let v2 = nines(0x8888_8888, V2, true, None).unwrap();
    for matrix in [&v1, &v2] {
        assert_eq!((matrix.format().name, matrix.is_exact(), matrix.warnings().len()), ("int4-g32", true, 0));
        assert_eq!(values(matrix), vec![0.5; 1024]);
    }
    assert_ne!(v1.recipe(), v2.recipe());
    // What says that it is one version and is the other is read as it says, and told of where it must be symmetric.
    let wrong = nines(0x8888_8888, V1, true, None).unwrap();
    assert_eq!((wrong.format().name, values(&wrong)), ("int4-g32-zp", vec![0.0; 1024]));
    let [warning] = wrong.warnings() else { panic!("{:?}", wrong.warnings()) };
    assert!(warning.contains("those of gptq_v2") && warning.contains("set checkpoint_format"), "{warning}");
    assert_eq!(nines(0x7777_7777, V2, true, None).unwrap().warnings().len(), 1);
    assert!(nines(0x8888_8888, V1, false, None).unwrap().warnings().is_empty());
    // Zero has no code that is one less: it stands as the highest.
    assert_eq!(values(&nines(0xffff_ffff, V1, false, None).unwrap()), vec![4.5; 1024]);
}

#[test]
fn groups_of_columns_may_be_shuffled_and_not_out_of_range() {
    // Column c has code c % 16 for all outputs; groups alternate, with scales 0.5 and 2, and zero points 8 and 3.
    let code = |column: usize| (column % 16) as u32;
    let qweight: Vec<u32> = (0..8)
        .flat_map(|word| [(0..8).fold(0, |bits, place| bits | code(8 * word + place) << (4 * place)); 16])
        .collect();
    let groups: Vec<u32> = (0..64).map(|column| (column * 7 % 64) / 32).collect();
    let scales: Vec<f32> = [0.5, 2.0].into_iter().flat_map(|scale| [scale; 16]).collect();
    let tensors = gptq::Tensors {
        qweight: words("qweight", [8, 16], &qweight),
        qzeros: words("qzeros", [2, 2], &[0x7777_7777, 0x7777_7777, 0x2222_2222, 0x2222_2222]),
        scales: halves("scales", [2, 16], &scales),
        g_idx: Some(Tensor { shape: vec![64], ..words("g_idx", [8, 8], &groups) }),
    };
    let config = gptq::Config { bits: 4, group_size: Some(32), version: gptq::Version::V1, symmetric: false };
    let matrix = gptq::read("m", "w", &tensors, config).unwrap();
    let expected = |column: usize| {
        let (scale, zero) = if groups[column] == 0 { (0.5, 8.0) } else { (2.0, 3.0) };
        (code(column) as f32 - zero) * scale
    };
    assert_eq!(values(&matrix), (0..1024).map(|place| expected(place % 64)).collect::<Vec<_>>());
    assert_eq!(matrix.format().name, "int4-g32-zp");
    assert!(matrix.order().is_some());

    let in_order = nines(0x7777_7777, gptq::Version::V1, true, Some((0..64).map(|column| column / 32).collect()));
    assert_eq!(in_order.unwrap().order(), None);
    let mut far = groups.clone();
    far[17] = 99;
    let error = nines(0x7777_7777, gptq::Version::V1, true, Some(far)).unwrap_err().to_string();
    assert!(error.contains("`g_idx`: expected groups below 2, found 99 for column 17"), "{error}");
    // Groups of which no 32 columns are in one.
    let odd = (0..64).map(|column| u32::from(column >= 40)).collect();
    let error = nines(0x7777_7777, gptq::Version::V1, true, Some(odd)).unwrap_err().to_string();
    assert!(error.contains("expected groups of whole 32 columns"), "{error}");
}

#[test]
fn nibbles_of_awq_stand_as_their_constant_says() {
    // Outputs 0 to 7 hold the codes 0 to 7 in every column, and zero points likewise.
    let tensors = awq::Tensors {
        qweight: words("qweight", [64, 1], &[0x7531_6420; 64]),
        qzeros: Some(words("qzeros", [2, 1], &[0x8888_8888, 0x7531_6420])),
        scales: halves("scales", [2, 8], &[1.0; 16]),
    };
    let matrix = awq::read("m", "w", &tensors, Some(32)).unwrap();
    let row = |row: usize| [vec![row as f32 - 8.0; 32], vec![0.0; 32]].concat();
    assert_eq!(values(&matrix), (0..8).flat_map(row).collect::<Vec<_>>());
    assert_eq!(matrix.format().name, "int4-g32-zp");
    // One group for a row, and no zero points.
    let scales = halves("scales", [1, 8], &[1.0; 8]);
    let whole = awq::Tensors { qzeros: None, scales, ..tensors };
    let matrix = awq::read("m", "w", &whole, None).unwrap();
    assert_eq!(matrix.format().name, "int4-g64");
    assert_eq!(values(&matrix), (0..8).flat_map(|row| vec![row as f32 - 8.0; 64]).collect::<Vec<_>>());
}

#[test]
fn mlx_adds_a_bias() {
    let tensors = |bits: usize, bias: f32, dtype: &str| {
        // Code c % 4 for column c.
        let code = |place: usize| place as u32 % 4;
        let words_each = 64 * bits / 32;
        let mut row = vec![0u64; words_each + 1];
        for column in 0..64 {
            let (index, shift) = (column * bits / 32, column * bits % 32);
            row[index] |= u64::from(code(column)) << shift;
            row[index + 1] |= row[index] >> 32;
            row[index] &= 0xffff_ffff;
        }
        let row: Vec<u32> = row[..words_each].iter().map(|&word| word as u32).collect();
        let weight = Tensor { dtype: dtype.to_owned(), ..words("weight", [2, words_each], &row.repeat(2)) };
        mlx::Tensors {
            weight,
            scales: halves("scales", [2, 1], &[0.25, 3.0]),
            biases: halves("biases", [2, 1], &[bias, 1.0]),
        }
    };
    for bits in [2, 3, 4, 5, 6, 8] {
        let matrix = mlx::read("m", "w", &tensors(bits, -0.3, "U32"), bits, 64).unwrap();
        let bias = f16::from_f32(-0.3).to_f32();
        let row = |scale: f32, bias: f32| (0..64).map(move |column| (column % 4) as f32 * scale + bias);
        let expected: Vec<f32> = row(0.25, bias).chain(row(3.0, 1.0)).collect();
        assert_eq!(values(&matrix), expected, "{bits} bits");
        assert_eq!(matrix.format().name, if bits <= 4 { "int4-g64-bias" } else { "int8-g64-bias" });
    }
    let error = mlx::read("m", "w", &tensors(4, 0.0, "I32"), 4, 64).unwrap_err().to_string();
    assert!(error.contains("`weight`: expected numbers of U32, found I32"), "{error}");
    let matrix = mlx::read("m", "w", &tensors(4, f32::INFINITY, "U32"), 4, 64).unwrap();
    let error = matrix.make(0, &mut [0; 36]).unwrap_err().to_string();
    assert!(error.contains("expected a bias that a half float holds") && error.contains("row 0, group 0"), "{error}");
}

#[test]
fn scales_that_are_no_half_floats_are_told_of() {
    let scale = |dtype: &str, bytes: Vec<u8>| {
        let tensors = awq::Tensors {
            qweight: words("qweight", [32, 1], &[0x7531_6420; 32]),
            qzeros: None,
            scales: Tensor { name: "scales".into(), dtype: dtype.into(), shape: vec![1, 8], bytes: bytes.into() },
        };
        awq::read("m", "w", &tensors, Some(32)).unwrap()
    };
    let bf16 = |bits: u16| bits.to_le_bytes().repeat(8);
    assert!(scale("BF16", bf16(0x3f81)).is_exact());
    // 2^-20 * 129 / 128 has more bits than a subnormal half float there.
    assert!(!scale("BF16", bf16(0x3581)).is_exact());
    assert!(!scale("F32", 0.1f32.to_le_bytes().repeat(8)).is_exact());
    let error = scale("BF16", bf16(0x4780)).make(0, &mut [0; 18]).unwrap_err().to_string();
    assert!(error.contains("`w`: expected a scale that a half float holds, up to 65504, found 6.5536e4"), "{error}");
}

#[test]
fn tensors_that_do_not_belong_together_are_refused() {
    let base = || compressed_tensors::Tensors {
        weight: words("weight_packed", [4, 8], &[0; 32]),
        shape: Some(words("weight_shape", [2, 1], &[4, 64])),
        scale: halves("weight_scale", [4, 2], &[1.0; 8]),
        zero_point: None,
        g_idx: None,
    };
    let read = |tensors: compressed_tensors::Tensors, bits| {
        compressed_tensors::read("m", "w", &tensors, bits, Some(32)).map(|matrix| matrix.format().name)
    };
    assert_eq!(read(base(), 4).unwrap(), "int4-g32");
    let refused = |tensors, bits| read(tensors, bits).unwrap_err().to_string();
    let wrong = [
        (refused(base(), 9), "codes of 2 to 8 bits"),
        (refused(base(), 3), "with 3 bits a code"),
        (refused(compressed_tensors::Tensors { shape: None, ..base() }, 4), "no `weight_shape`"),
        (
            refused(compressed_tensors::Tensors { shape: Some(words("s", [2, 1], &[5, 64])), ..base() }, 4),
            "found [5, 64]",
        ),
        (
            refused(compressed_tensors::Tensors { scale: halves("s", [2, 4], &[1.0; 8]), ..base() }, 4),
            "dimensions [4, 2], found [2, 4]",
        ),
        (
            refused(compressed_tensors::Tensors { scale: halves("s", [4, 2], &[1.0; 7]), ..base() }, 4),
            "the bytes of [4, 2] in F16, found 14 bytes",
        ),
        (
            refused(compressed_tensors::Tensors { zero_point: Some(words("z", [2, 2], &[0; 4])), ..base() }, 4),
            "dimensions [1, 2], found [2, 2]",
        ),
    ];
    for (error, part) in wrong {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// Files as other programs write them, and what these read from them; see `tests/fixtures/groups_generate.py`.
#[test]
fn the_files_of_others_give_what_they_read() {
    let path = format!("{}/tests/fixtures/groups.json", env!("CARGO_MANIFEST_DIR"));
    let cases: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(cases.len() >= 14, "{} cases", cases.len());
    let mut written = 0;
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
        };
        let tensor = |key: &str| {
            let tensor = case["tensors"].get(key)?;
            let shape = tensor["shape"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap() as usize);
            let bytes = hex(tensor["bytes"].as_str().unwrap());
            let dtype = tensor["dtype"].as_str().unwrap().to_owned();
            Some(Tensor { name: key.to_owned(), dtype, shape: shape.collect(), bytes: bytes.into() })
        };
        let need = |key: &str| tensor(key).unwrap_or_else(|| panic!("{name} has no {key}"));
        let bits = case["bits"].as_u64().unwrap() as usize;
        let group_size = case["group_size"].as_u64().map(|size| size as usize);
        let matrix = match case["kind"].as_str().unwrap() {
            "compressed-tensors" => {
                let weight = tensor("weight_packed").unwrap_or_else(|| need("weight"));
                let (zero_point, g_idx) = (tensor("weight_zero_point"), tensor("weight_g_idx"));
                let (shape, scale) = (tensor("weight_shape"), need("weight_scale"));
                let tensors = compressed_tensors::Tensors { weight, shape, scale, zero_point, g_idx };
                compressed_tensors::read("m", name, &tensors, bits, group_size)
            }
            "awq" => {
                let (qweight, qzeros, scales) = (need("qweight"), tensor("qzeros"), need("scales"));
                awq::read("m", name, &awq::Tensors { qweight, qzeros, scales }, group_size)
            }
            "mlx" => {
                let (weight, scales, biases) = (need("weight"), need("scales"), need("biases"));
                mlx::read("m", name, &mlx::Tensors { weight, scales, biases }, bits, group_size.unwrap())
            }
            version => {
                let version = if version == "gptq" { gptq::Version::V1 } else { gptq::Version::V2 };
                let (qweight, qzeros, scales) = (need("qweight"), need("qzeros"), need("scales"));
                let tensors = gptq::Tensors { qweight, qzeros, scales, g_idx: tensor("g_idx") };
                gptq::read("m", name, &tensors, gptq::Config { bits, group_size, version, symmetric: false })
            }
        };
        let matrix = matrix.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(matrix.format().name, case["format"].as_str().unwrap(), "{name}");
        assert!(matrix.is_exact(), "{name}");
        let expected: Vec<f32> = hex(case["values"].as_str().unwrap())
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        assert_eq!(values(&matrix), expected, "{name}");
        // What can be written, and need not be sorted for it, comes out as it came in.
        if case["kind"] != "compressed-tensors"
            || bits == 3
            || tensor("weight_packed").is_none()
            || matrix.order().is_some()
        {
            continue;
        }
        let strategy = match (name.contains("per channel"), name.contains("per tensor")) {
            (true, _) => write::Strategy::Channel,
            (_, true) => write::Strategy::Tensor,
            _ => write::Strategy::Group,
        };
        let shape = [matrix.rows(), matrix.columns()];
        let mut packer = write::Packer::new("m", name, matrix.format(), strategy, shape).unwrap();
        let shapes = packer.shapes();
        let mut blocks = vec![0; matrix.rows() * matrix.format().row_bytes(matrix.columns()).unwrap()];
        matrix.make(0, &mut blocks).unwrap();
        let mut packed = vec![0; matrix.rows() * matrix.columns() * bits / 8];
        let (first, second) = packed.split_at_mut(3 * matrix.columns() * bits / 8);
        let cut = blocks.len() / matrix.rows() * 3;
        packer.take(&blocks[..cut], first);
        packer.take(&blocks[cut..], second);
        let write::Rest { scale, zero_point, shape } = packer.finish();
        let all = [Some(packed), Some(scale), zero_point, Some(shape)].into_iter().flatten();
        for (shape, bytes) in shapes.iter().zip(all) {
            let (found, suffix) = (need(shape.suffix), shape.suffix);
            assert_eq!((&*found.dtype, &found.shape), (shape.dtype, &shape.dims), "{name} {suffix}");
            assert_eq!(&found.bytes[..], bytes, "{name} {suffix}");
            written += 1;
        }
    }
    assert_eq!(written, 6 * 3 + 2, "tensors that were written");
}

#[test]
fn what_compressed_tensors_has_no_place_for_is_not_written() {
    let new = |name: &str, columns| {
        let format = duan_quant::format_by_name(name).unwrap();
        write::Packer::new("m", "w", format, write::Strategy::Group, [2, columns]).map(|_| ()).unwrap_err().to_string()
    };
    assert!(new("int4-g64-bias", 64).contains("expected a format of compressed-tensors, found int4-g64-bias"));
    assert!(new("Q4_0", 64).contains("found Q4_0; choose one of int4 or int8"));
    assert!(new("int4-g64", 96).contains("whole int4-g64 blocks of 64, found rows of 96 weights"));
    let groups = Groups::of(duan_quant::format_by_name("int4-g64-zp").unwrap()).unwrap();
    let scheme = |strategy, modules| write::Scheme { groups, strategy, modules };
    let schemes = [scheme(write::Strategy::Group, vec![]), scheme(write::Strategy::Channel, vec!["a.b".to_owned()])];
    let config = write::quantization_config(&schemes, &["lm_head".to_owned()]);
    let other = &config["config_groups"]["group_1"];
    assert_eq!((&other["targets"][0], &other["weights"]["group_size"]), (&"a.b".into(), &serde_json::Value::Null));
    assert_eq!(config["config_groups"]["group_0"]["targets"][0], "Linear");
    let weights = &config["config_groups"]["group_0"]["weights"];
    assert_eq!((&weights["num_bits"], &weights["group_size"]), (&4.into(), &64.into()));
    assert_eq!((&weights["symmetric"], &config["ignore"][0]), (&false.into(), &"lm_head".into()));
}
