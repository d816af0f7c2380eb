//! Numbers too small to be normal count as zero while a model is computed.
//!
//! Many CPUs take a hundred times as long for an operation with such a number, and they come up where a value fades out: in
//! the tail of a softmax, in an activation. They are below 1.2e-38 and no result shows them. Half floats keep theirs: they
//! are converted by instructions that this does not touch.
//!
//! Rust assumes the mode that a thread begins with. What its compiler computes beforehand, or moves across the change of the mode,
//! can differ below 1.2e-38 only.

/// While it lives, this thread takes denormal numbers for zero; then it does again as it did before.
#[derive(Debug)]
pub(crate) struct FlushDenormals(Control);

impl FlushDenormals {
    pub(crate) fn new() -> Self {
        let before = control::read();
        control::write(control::flushing(before));
        Self(before)
    }
}

impl Drop for FlushDenormals {
    fn drop(&mut self) {
        control::write(self.0);
    }
}

use control::Control;

#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    /// The register MXCSR.
    pub(super) type Control = u32;

    /// Flushes results to zero (bit 15) and takes operands for zero (bit 6): Intel's manual, volume 1, 10.2.3.
    pub(super) fn flushing(control: Control) -> Control {
        control | 1 << 15 | 1 << 6
    }

    pub(super) fn read() -> Control {
        let mut control: Control = 0;
        // SAFETY: writes the four bytes of the register where the pointer says, and every x86-64 CPU has it.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags)) };
        control
    }

    pub(super) fn write(control: Control) {
        // SAFETY: reads four bytes. The value was in the register before, but for two bits that every x86-64 CPU has, so no
        // exception is unmasked and rounding stays.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, readonly)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    /// The register FPCR.
    pub(super) type Control = u64;

    /// FZ, which flushes single and double floats to zero; FZ16 (bit 19) is for half floats and stays: Arm's manual, C5.2.8.
    pub(super) fn flushing(control: Control) -> Control {
        control | 1 << 24
    }

    pub(super) fn read() -> Control {
        let control;
        // SAFETY: only reads a register that every such CPU has.
        unsafe { asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags)) };
        control
    }

    pub(super) fn write(control: Control) {
        // SAFETY: the value was in the register before, but for a bit that every such CPU has.
        unsafe { asm!("msr fpcr, {}", in(reg) control, options(nostack, preserves_flags)) };
    }
}

/// Other CPUs do as they do.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub(super) type Control = ();

    pub(super) fn flushing((): Control) {}

    pub(super) fn read() {}

    pub(super) fn write((): Control) {}
}

/// Whether this thread takes them for zero now, by trying.
#[cfg(test)]
pub(crate) fn are_flushed() -> bool {
    std::hint::black_box(f32::MIN_POSITIVE) * std::hint::black_box(0.5) == 0.0
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    #[test]
    fn the_thread_does_afterwards_as_it_did_before() {
        assert!(!are_flushed());
        let outer = FlushDenormals::new();
        assert!(are_flushed());
        drop(FlushDenormals::new());
        assert!(are_flushed(), "the inner one left the outer one's mode");
        drop(outer);
        assert!(!are_flushed());
        let smallest_half = half::f16::from_bits(1);
        let _flush = FlushDenormals::new();
        assert_eq!(smallest_half.to_f32(), 2.0f32.powi(-24), "half floats keep their denormals");
    }
}
