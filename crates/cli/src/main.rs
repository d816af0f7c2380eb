//! The duan program.
fn main() {}
