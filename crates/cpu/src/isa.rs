//! Which instruction set the kernels run on: the best that the CPU has and `DUAN_ISA` allows.

use crate::error::{Result, error};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512Vnni, AvxVnni};
#[cfg(target_arch = "aarch64")]
use crate::simd::{Neon, NeonDotprod, NeonI8mm};
use crate::simd::{Portable, Task};

/// An instruction set, with the proof that this CPU has it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Isa {
    Scalar(Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512Vnni),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    #[cfg(target_arch = "aarch64")]
    Dotprod(NeonDotprod),
    #[cfg(target_arch = "aarch64")]
    I8mm(NeonI8mm),
}

/// The names that `DUAN_ISA` knows; those of other machines are accepted and never found.
const NAMES: [&str; 7] = ["scalar", "avx2", "avxvnni", "avx512", "neon", "dotprod", "i8mm"];

impl Isa {
    /// Every instruction set that this CPU has, the best last.
    pub(crate) fn available() -> Vec<Isa> {
        #[allow(unused_mut, reason = "other architectures add nothing")]
        let mut found = vec![Isa::Scalar(Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            found.extend(Avx2::detect().map(Isa::Avx2));
            found.extend(AvxVnni::detect().map(Isa::AvxVnni));
            found.extend(Avx512Vnni::detect().map(Isa::Avx512));
        }
        #[cfg(target_arch = "aarch64")]
        {
            found.extend(Neon::detect().map(Isa::Neon));
            found.extend(NeonDotprod::detect().map(Isa::Dotprod));
            found.extend(NeonI8mm::detect().map(Isa::I8mm));
        }
        found
    }

    /// The best one within `mask`, the value of `DUAN_ISA` (`None` allows all).
    ///
    /// # Errors
    /// When the mask names what does not exist, or allows nothing that this CPU has.
    pub(crate) fn best(mask: Option<&str>) -> Result<Isa> {
        let Some(mask) = mask else {
            return Ok(Self::available().pop().unwrap_or(Isa::Scalar(Portable)));
        };
        let allowed: Vec<&str> = mask.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if let Some(unknown) = allowed.iter().find(|name| !NAMES.contains(name)) {
            return Err(error(format!("DUAN_ISA names {unknown:?}; it may name {}", NAMES.join(", "))));
        }
        Self::available().into_iter().rfind(|isa| allowed.contains(&isa.name())).ok_or_else(|| {
            let here: Vec<&str> = Self::available().iter().map(Isa::name).collect();
            error(format!("DUAN_ISA={mask} allows nothing that this CPU has; it has {}", here.join(", ")))
        })
    }

    /// The name, as `DUAN_ISA` and reports have it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Isa::Scalar(_) => "scalar",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni(_) => "avxvnni",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) => "neon",
            #[cfg(target_arch = "aarch64")]
            Isa::Dotprod(_) => "dotprod",
            #[cfg(target_arch = "aarch64")]
            Isa::I8mm(_) => "i8mm",
        }
    }

    /// Runs `task` compiled for this instruction set.
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        use crate::simd::Simd;
        match self {
            Isa::Scalar(simd) => simd.vectorize(task),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(simd) => simd.vectorize(task),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni(simd) => simd.vectorize(task),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(simd) => simd.vectorize(task),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(simd) => simd.vectorize(task),
            #[cfg(target_arch = "aarch64")]
            Isa::Dotprod(simd) => simd.vectorize(task),
            #[cfg(target_arch = "aarch64")]
            Isa::I8mm(simd) => simd.vectorize(task),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_obeyed_and_checked() {
        let nothing_here = if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" };
        assert_eq!(Isa::best(Some("scalar")).unwrap().name(), "scalar");
        assert_eq!(Isa::best(Some(&format!(" scalar , {nothing_here}"))).unwrap().name(), "scalar");
        assert!(Isa::best(Some("sse9")).unwrap_err().to_string().contains("sse9"));
        assert!(Isa::best(Some(nothing_here)).unwrap_err().to_string().contains("scalar"));
        let all = Isa::available();
        assert_eq!(Isa::best(None).unwrap().name(), all.last().unwrap().name());
    }
}
