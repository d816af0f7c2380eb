//! The reference must pass the suite that it defines; that also proves that the suite can run at all.

use duan_backend::{Precision, Reference, conformance};

#[test]
fn the_reference_conforms() {
    conformance::run(&Reference::new(Precision::Coded));
}

/// Without the coding of activations the results differ by far more than the bound.
#[test]
#[should_panic(expected = "error")]
fn a_device_that_computes_something_else_fails() {
    conformance::run(&Reference::new(Precision::Exact));
}

#[test]
#[should_panic(expected = "error")]
fn a_device_that_computes_something_else_fails_briefly() {
    conformance::run_briefly(&Reference::new(Precision::Exact));
}
