//! The suite of `duan-backend`, for every instruction set that this CPU has.

use duan_backend::conformance;
use duan_cpu::{Cpu, CpuOptions};

#[test]
fn every_instruction_set_conforms() {
    for isa in Cpu::isas_available() {
        println!("{isa}");
        conformance::run(&cpu(isa, 2));
    }
}

#[test]
fn one_thread_conforms() {
    conformance::run(&cpu(Cpu::isas_available().last().unwrap(), 1));
}

/// For emulators: elsewhere the tests above do more.
#[test]
fn the_best_instruction_set_conforms_briefly() {
    conformance::run_briefly(&cpu(Cpu::isas_available().last().unwrap(), 1));
}

fn cpu(isa: &str, threads: usize) -> Cpu {
    Cpu::new(CpuOptions { threads_decode: Some(threads), isa: Some(isa.into()), ..CpuOptions::default() }).unwrap()
}
