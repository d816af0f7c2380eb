//! Whether kernels are right on this CPU: asked when a model is loaded, before one of its weights is multiplied.
//!
//! A kernel that was written for one CPU runs on many others, and some of its instruction sets were only ever run in an
//! emulator. So a few made-up rows are multiplied with it for each format that the model has, and compared with the scalar
//! codec and the definition of coded activations, which no instruction set has a part in. It takes well below a
//! millisecond. Where they differ the next instruction set down is taken for this format, and a warning says so.

use duan_quant::activation::{self, GROUP};
use duan_quant::{Activation, Format};

use crate::activations::{CodeRow, Coded};
use crate::error::{Result, error};
use crate::isa::Isa;
use crate::kernels::{self, Job, Place, Run, Scratch, Weights};
use crate::made_up;
use crate::panels::Layout;
use crate::shared::SharedSlice;
use crate::simd::PANEL_ROWS;

/// Three panels, the last of which is not full.
const ROWS: usize = 40;
/// Two blocks of the largest kind.
const COLUMNS: usize = 512;
/// One token, few of them, and what is left over after tiles of every size that an instruction set has.
const TOKENS: [usize; 7] = [1, 3, 4, 5, 7, 23, 27];
const MOST_TOKENS: usize = 27;
/// The largest error, as a part of the sum of the products' magnitudes.
const TOLERANCE: f64 = 1e-5;

/// A kernel with the instruction set that it runs on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picked {
    run: Run,
    isa: Isa,
}

impl Picked {
    /// Computes a range of a job's panels.
    #[inline]
    pub(crate) fn run(
        &self,
        job: &Job<'_>,
        coded: Option<&Coded>,
        panels: std::ops::Range<usize>,
        scratch: &mut Scratch,
    ) {
        (self.run)(self.isa, job, coded, panels, scratch);
    }

    /// The instruction set.
    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// Whether it is this kernel.
    pub(crate) fn is(&self, run: Run) -> bool {
        std::ptr::fn_addr_eq(self.run, run)
    }
}

/// Picks kernels that pass, and remembers which did not.
pub(crate) struct Picker<'a> {
    /// What may be used, the best last, plain code first.
    isas: Vec<Isa>,
    /// Formats whose kernels count as wrong everywhere but in plain code.
    distrust: &'a [String],
    picked: Vec<(&'static Format, Picked)>,
    warnings: Vec<String>,
}

impl<'a> Picker<'a> {
    /// A picker among these instruction sets, the best last. Plain code is the last resort, whether it is among them or not.
    ///
    /// # Errors
    /// When not even plain code computes rightly.
    pub(crate) fn new(isas: &[Isa], distrust: &'a [String]) -> Result<Self> {
        Self::of_rightly_coding(isas, distrust, codes_rightly)
    }

    fn of_rightly_coding(isas: &[Isa], distrust: &'a [String], is_right: impl Fn(Isa) -> bool) -> Result<Self> {
        let mut isas: Vec<Isa> = isas.iter().copied().filter(|isa| !isa.is_scalar()).collect();
        isas.insert(0, Isa::scalar());
        let mut warnings = Vec::new();
        while let Some(best) = isas.last().filter(|isa| !is_right(**isa)).map(Isa::name) {
            isas.pop();
            let Some(next) = isas.last() else {
                return Err(error(format!("plain code computes wrong results on this CPU; {}", report())));
            };
            warnings.push(format!(
                "activations are coded wrongly with {best} on this CPU, so {} is used instead, which may be slower; {}",
                next.name(),
                report()
            ));
        }
        Ok(Self { isas, distrust, picked: Vec::new(), warnings })
    }

    /// The best instruction set.
    pub(crate) fn isa(&self) -> Isa {
        *self.isas.last().expect("plain code is among them")
    }

    /// The kernel for a format, on the best instruction set where it is right.
    ///
    /// # Errors
    /// When neither a kernel nor the generic path is right anywhere.
    pub(crate) fn pick(&mut self, format: &'static Format) -> Result<Picked> {
        self.pick_of(format, kernels::pick(format))
    }

    fn pick_of(&mut self, format: &'static Format, run: Run) -> Result<Picked> {
        if let Some((_, picked)) = self.picked.iter().find(|(of, _)| *of == format) {
            return Ok(*picked);
        }
        let test = SelfTest::new(format);
        let generic = Picked { run: kernels::any_format, isa: Isa::scalar() };
        let mut faults: Vec<(&str, String)> = Vec::new();
        for picked in self.isas.iter().rev().map(|&isa| Picked { run, isa }).chain([generic]) {
            let is_distrusted =
                !picked.isa.is_scalar() && self.distrust.iter().any(|name| name.eq_ignore_ascii_case(format.name));
            let told = is_distrusted.then(|| "told to by the options".to_owned());
            match told.or_else(|| test.fault(picked)) {
                Some(fault) => faults.push((picked.isa.name(), fault)),
                None => {
                    self.warnings.extend(faults.iter().map(|(isa, fault)| {
                        format!(
                            "the kernel for {} computes wrongly with {isa} on this CPU ({fault}), so {} is used instead, which \
                             may be slower; {}",
                            format.name,
                            picked.isa.name(),
                            report()
                        )
                    }));
                    self.picked.push((format, picked));
                    return Ok(picked);
                }
            }
        }
        let faults: Vec<String> = faults.iter().map(|(isa, fault)| format!("{isa}: {fault}")).collect();
        let (name, faults) = (format.name, faults.join("; "));
        Err(error(format!("nothing that multiplies weights in {name} is right on this CPU ({faults}); {}", report())))
    }

    /// What failed, a line each.
    pub(crate) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }
}

/// What to do with a fault.
fn report() -> &'static str {
    "this is a fault of duan or of the CPU, please report it where duan comes from, with what `duan devices --kernels --json` prints"
}

/// Whether activations are coded as their definition says.
fn codes_rightly(isa: Isa) -> bool {
    let floats = made_up::activations(1, COLUMNS);
    let (mut codes, mut scales) = (vec![0; COLUMNS], vec![0.0; COLUMNS / GROUP]);
    activation::quantize(&floats, &mut codes, &mut scales);
    let coded = code(isa, &floats, 1);
    coded.row(0).iter().zip(codes.chunks_exact(GROUP).zip(scales)).all(|(found, (codes, scale))| {
        let sum: i32 = codes.iter().map(|&code| i32::from(code)).sum();
        found.codes.as_flattened() == codes && found.scale == scale && found.minus_eight_sums == -8 * sum
    })
}

/// Activations [tokens, COLUMNS] as kernels read them.
fn code(isa: Isa, floats: &[f32], tokens: usize) -> Coded {
    let groups = COLUMNS / GROUP;
    let mut coded = Coded::new(&[(tokens, COLUMNS)]);
    let writer = coded.fill(tokens, COLUMNS);
    for (row, from) in floats.chunks_exact(COLUMNS).enumerate() {
        // SAFETY: each row is taken once.
        isa.run(CodeRow { from, to: unsafe { writer.part(row * groups..(row + 1) * groups) } });
    }
    coded
}

/// A small multiplication in one format, and its results by definition.
pub(crate) struct SelfTest {
    format: &'static Format,
    layout: Option<&'static Layout>,
    /// In panels where the format has a layout, else as in the file.
    weights: Vec<u8>,
    /// [MOST_TOKENS, COLUMNS]
    floats: Vec<f32>,
    /// The result, and the sum of its products' magnitudes [MOST_TOKENS, ROWS].
    expected: Vec<(f64, f64)>,
}

impl SelfTest {
    pub(crate) fn new(format: &'static Format) -> Self {
        let row_bytes = format.row_bytes(COLUMNS).expect("two blocks of the largest kind");
        let mut rows = made_up::mixed_rows(format, ROWS, COLUMNS);
        let even = PANEL_ROWS * row_bytes..2 * PANEL_ROWS * row_bytes;
        rows[even].copy_from_slice(&made_up::even_rows(format, PANEL_ROWS, COLUMNS));
        let floats = made_up::activations(MOST_TOKENS, COLUMNS);
        let expected = by_definition(format, &rows, &floats);
        let layout = Layout::of(format);
        let weights = match layout {
            None => rows,
            Some(layout) => {
                let panel_bytes = PANEL_ROWS * row_bytes;
                let mut panels = vec![0; rows.len().next_multiple_of(panel_bytes)];
                for (rows, panel) in rows.chunks(panel_bytes).zip(panels.chunks_exact_mut(panel_bytes)) {
                    layout.pack(format, rows, row_bytes, panel);
                }
                panels
            }
        };
        Self { format, layout, weights, floats, expected }
    }

    /// The first wrong result of a kernel, if there is one.
    pub(crate) fn fault(&self, kernel: Picked) -> Option<String> {
        let place = match self.layout {
            Some(layout) => Place::Panels(layout, &self.weights),
            None => Place::Rows(&self.weights),
        };
        let weights = Weights { format: self.format, rows: ROWS, columns: COLUMNS, place };
        let mut scratch = Scratch::new(std::iter::once(weights));
        let coded = code(kernel.isa, &self.floats, MOST_TOKENS);
        for tokens in TOKENS {
            // What is not written is not right either.
            let mut out = vec![f32::NAN; tokens * ROWS];
            let floats = &self.floats[..tokens * COLUMNS];
            let job = Job::whole(weights, None, floats, tokens, SharedSlice::new(&mut out));
            kernel.run(&job, Some(&coded), 0..weights.panels(), &mut scratch);
            for (index, (&found, &(expected, magnitudes))) in out.iter().zip(&self.expected).enumerate() {
                let is_right = (f64::from(found) - expected).abs() <= TOLERANCE * magnitudes;
                if !is_right {
                    let (token, row) = (index / ROWS + 1, index % ROWS);
                    return Some(format!(
                        "{found:e} instead of {expected:e} in row {row} for token {token} of {tokens}"
                    ));
                }
            }
        }
        None
    }
}

/// Every result [MOST_TOKENS, ROWS] and the sum of its products' magnitudes, from the codecs alone.
fn by_definition(format: &Format, rows: &[u8], floats: &[f32]) -> Vec<(f64, f64)> {
    let mut activations = floats.to_vec();
    if format.activation == Activation::Int8 {
        let (mut codes, mut scales) = (vec![0; floats.len()], vec![0.0; floats.len() / GROUP]);
        activation::quantize(floats, &mut codes, &mut scales);
        activation::dequantize(&codes, &scales, &mut activations);
    }
    let mut weights = vec![0.0; ROWS * COLUMNS];
    (format.dequantize)(rows, &mut weights);
    let results =
        activations.chunks_exact(COLUMNS).flat_map(|token| weights.chunks_exact(COLUMNS).map(|row| dot(row, token)));
    results.collect()
}

/// In eight sums, which need not wait for each other.
fn dot(weights: &[f32], token: &[f32]) -> (f64, f64) {
    let mut sums = [(0.0, 0.0); 8];
    for (weights, token) in weights.as_chunks::<8>().0.iter().zip(token.as_chunks::<8>().0) {
        for ((sum, magnitudes), (weight, x)) in sums.iter_mut().zip(weights.iter().zip(token)) {
            let product = f64::from(*weight) * f64::from(*x);
            *sum += product;
            *magnitudes += product.abs();
        }
    }
    sums.iter().fold((0.0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn q4_0() -> &'static Format {
        duan_quant::format_by_name("Q4_0").unwrap()
    }

    #[test]
    fn every_kernel_passes_on_every_instruction_set_of_this_cpu() {
        for &format in duan_quant::FORMATS {
            let test = SelfTest::new(format);
            assert!(
                test.expected.iter().all(|(sum, magnitudes)| sum.is_finite() && *magnitudes > 0.0),
                "{}",
                format.name
            );
            for isa in Isa::available() {
                let fault = test.fault(Picked { run: kernels::pick(format), isa });
                assert_eq!(fault, None, "{} {}", format.name, isa.name());
            }
            assert_eq!(test.fault(Picked { run: kernels::any_format, isa: Isa::scalar() }), None, "{}", format.name);
        }
        assert!(Isa::available().into_iter().all(codes_rightly));
    }

    /// The kernel for Q4_0 with one wrong result of many tokens on the best instruction set.
    fn wrong_on_the_best(
        isa: Isa,
        job: &Job<'_>,
        coded: Option<&Coded>,
        panels: std::ops::Range<usize>,
        scratch: &mut Scratch,
    ) {
        kernels::pick(q4_0())(isa, job, coded, panels, scratch);
        if isa.name() == Isa::best(None).unwrap().name() && job.tokens > 4 {
            // SAFETY: nobody else has parts of the results.
            let out = unsafe { job.out.part(100..101) };
            out[0] += 0.01;
        }
    }

    fn wrong_everywhere(_: Isa, _: &Job<'_>, _: Option<&Coded>, _: std::ops::Range<usize>, _: &mut Scratch) {}

    #[test]
    fn a_wrong_kernel_is_replaced_by_the_next_instruction_set_down() {
        let isas = Isa::available();
        let mut picker = Picker::new(&isas, &[]).unwrap();
        let picked = picker.pick_of(q4_0(), wrong_on_the_best).unwrap();
        let [.., next, best] = &isas[..] else {
            // Only plain code is here: the generic path takes its place.
            assert!(picker.warnings[0].contains("scalar"), "{:?}", &picker.warnings[..]);
            return;
        };
        assert_eq!(picked.isa.name(), next.name());
        let [warning] = &picker.warnings[..] else { panic!("{:?}", &picker.warnings[..]) };
        for part in ["Q4_0", best.name(), next.name(), "row 20 for token 3 of 5", "please report it"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        // Asked again, it is not told again; other formats stay where they are.
        picker.pick_of(q4_0(), wrong_on_the_best).unwrap();
        let q8_0 = duan_quant::format_by_name("Q8_0").unwrap();
        assert_eq!(picker.pick(q8_0).unwrap().isa.name(), best.name());
        assert_eq!(picker.into_warnings().len(), 1);
    }

    #[test]
    fn where_no_kernel_is_right_the_generic_path_is_taken() {
        let isas = Isa::available();
        let mut picker = Picker::new(&isas, &[]).unwrap();
        let picked = picker.pick_of(q4_0(), wrong_everywhere).unwrap();
        assert!(picked.isa.is_scalar());
        assert_eq!(SelfTest::new(q4_0()).fault(picked), None);
        assert_eq!(picker.warnings.len(), isas.len());
        assert!(picker.warnings[0].contains("NaN instead of"), "{:?}", &picker.warnings[..]);
    }

    #[test]
    fn distrusted_formats_run_in_plain_code() {
        let distrust = ["q4_0".to_owned()];
        let isas = [Isa::best(None).unwrap()];
        let mut picker = Picker::new(&isas, &distrust).unwrap();
        assert!(picker.pick(q4_0()).unwrap().isa.is_scalar());
        let expected = usize::from(!isas[0].is_scalar());
        assert_eq!(picker.warnings.iter().filter(|warning| warning.contains("told to")).count(), expected);
    }

    #[test]
    fn an_instruction_set_that_codes_wrongly_is_not_used_at_all() {
        let isas = Isa::available();
        let picker = Picker::of_rightly_coding(&isas, &[], |isa| isa.is_scalar()).unwrap();
        assert!(picker.isa().is_scalar());
        assert_eq!(picker.warnings.len(), isas.len() - 1);
        let Err(error) = Picker::of_rightly_coding(&isas, &[], |_| false) else { panic!("nothing is right") };
        assert!(error.to_string().contains("plain code"), "{error}");
    }
}
