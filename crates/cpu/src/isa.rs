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

    /// What every CPU has.
    pub(crate) fn scalar() -> Isa {
        Isa::Scalar(Portable)
    }

    /// The best one within `mask`: the last of [`Isa::allowed`].
    #[cfg(test)]
    pub(crate) fn best(mask: Option<&str>) -> Result<Isa> {
        Ok(Self::allowed(mask)?.pop().expect("never empty"))
    }

    /// Those that this CPU has within `mask`, the value of `DUAN_ISA` (`None` allows all), the best last; at least one.
    ///
    /// # Errors
    /// When the mask names what does not exist, or allows nothing that this CPU has.
    pub(crate) fn allowed(mask: Option<&str>) -> Result<Vec<Isa>> {
        let Some(mask) = mask else {
            return Ok(Self::available());
        };
        let allowed: Vec<&str> = mask.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if let Some(unknown) = allowed.iter().find(|name| !NAMES.contains(name)) {
            return Err(error(format!("DUAN_ISA names {unknown:?}; it may name {}", NAMES.join(", "))));
        }
        let found: Vec<Isa> = Self::available().into_iter().filter(|isa| allowed.contains(&isa.name())).collect();
        if found.is_empty() {
            let here: Vec<&str> = Self::available().iter().map(Isa::name).collect();
            let message = format!("DUAN_ISA={mask} allows nothing that this CPU has; it has {}", here.join(", "));
            return Err(error(message));
        }
        Ok(found)
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

    /// Whether it is plain code.
    pub(crate) fn is_scalar(&self) -> bool {
        matches!(self, Isa::Scalar(_))
    }

    /// The instruction that multiplies weights with activations, as its architecture calls it: of coded ones, or of floats.
    pub(crate) fn multiplier(&self, is_coded: bool) -> &'static str {
        match (self, is_coded) {
            (Isa::Scalar(_), _) => "plain code",
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2(_), true) => "vpmaddubsw",
            #[cfg(target_arch = "x86_64")]
            (Isa::AvxVnni(_) | Isa::Avx512(_), true) => "vpdpbusd",
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2(_) | Isa::AvxVnni(_) | Isa::Avx512(_), false) => "vfmadd",
            #[cfg(target_arch = "aarch64")]
            (Isa::Neon(_), true) => "smlal",
            #[cfg(target_arch = "aarch64")]
            (Isa::Dotprod(_), true) => "sdot",
            #[cfg(target_arch = "aarch64")]
            (Isa::I8mm(_), true) => "smmla",
            #[cfg(target_arch = "aarch64")]
            (Isa::Neon(_) | Isa::Dotprod(_) | Isa::I8mm(_), false) => "fmla",
        }
    }

    /// Whether the project ran it on a real CPU: what `docs/instruction-sets.md` says. What only an emulator executed is
    /// right, but nobody knows how fast it is.
    pub(crate) fn was_run_on_silicon(&self) -> bool {
        match self {
            Isa::Scalar(_) => cfg!(target_arch = "x86_64"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) | Isa::AvxVnni(_) | Isa::Avx512(_) => true,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) | Isa::Dotprod(_) | Isa::I8mm(_) => false,
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
        assert_eq!(Isa::allowed(None).unwrap().len(), all.len());
        assert_eq!(Isa::allowed(Some("scalar")).unwrap().len(), 1);
    }

    #[test]
    fn what_ran_on_silicon_is_what_the_page_says() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/instruction-sets.md"));
        for isa in Isa::available() {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", isa.name())));
            let cells: Vec<&str> = row.expect("a row for each instruction set").split('|').map(str::trim).collect();
            let is_marked = cells[5].starts_with("silicon") && (!isa.is_scalar() || cfg!(target_arch = "x86_64"));
            assert_eq!(isa.was_run_on_silicon(), is_marked, "{}: {}", isa.name(), cells[5]);
        }
    }
}
