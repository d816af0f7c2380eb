//! The suite of `duan-backend`, for every instruction set that this CPU has.

use duan_backend::conformance;
use duan_cpu::{Cpu, CpuOptions};

#[test]
fn every_other_instruction_set_conforms() {
    conform(0);
}

/// A test of its own, so that two run at a time.
#[test]
fn and_so_do_those_between() {
    conform(1);
}

fn conform(first: usize) {
    for isa in Cpu::isas_available().into_iter().skip(first).step_by(2) {
        println!("{isa}");
        conformance::run(&cpu(isa, 2));
    }
}

/// One thread; and for emulators: elsewhere the tests above do more.
#[test]
fn the_best_instruction_set_conforms_briefly() {
    conformance::run_briefly(&cpu(Cpu::isas_available().last().unwrap(), 1));
}

fn cpu(isa: &str, threads: usize) -> Cpu {
    Cpu::new(CpuOptions { threads_decode: Some(threads), isa: Some(isa.into()), ..CpuOptions::default() }).unwrap()
}
