//! Reads arbitrary bytes as a file of importance, and asks for every entry as matrices of several shapes.
//!
//! Beyond not crashing, what is said to be usable must be: one finite positive weight for each column.

#![no_main]

use duan_quantize::importance::Importance;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let importance = match Importance::from_bytes(bytes.to_vec(), "fuzz") {
        Ok(importance) => importance,
        Err(error) => return assert_one_line(&error.to_string()),
    };
    assert_eq!(importance.names().len(), importance.len());
    let mut weights = Vec::new();
    for name in importance.names() {
        for (columns, slices) in [(1, 1), (4, 1), (2, 2), (32, 4), (1, 64), (u64::MAX, 2)] {
            match importance.of_matrix(name, columns, slices) {
                Ok(Some(matched)) => {
                    assert_eq!(matched.slices(), slices);
                    let good = (0..slices).filter(|&slice| {
                        let is_good = matched.weights(slice, &mut weights);
                        assert_eq!(weights.len() as u64, if is_good { columns } else { 0 });
                        assert!(weights.iter().all(|weight| weight.is_finite() && *weight > 0.0));
                        is_good
                    });
                    assert_eq!(good.count() as u64, matched.good_slices());
                    matched.first_fault().iter().for_each(|fault| assert_one_line(fault));
                }
                Ok(None) => panic!("{name} is listed and not found"),
                Err(error) => assert_one_line(&error.to_string()),
            }
        }
    }
});

fn assert_one_line(message: &str) {
    assert!(!message.contains('\n'), "a message of several lines: {message:?}");
}
