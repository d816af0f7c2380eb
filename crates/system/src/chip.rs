//! What identifies a chip.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::processor::CoreState;
use crate::reading::Reading;
use crate::state::State;
use crate::topology::CoreClass;

/// What identifies a chip, for what is kept of measurements: what it is called, its cores and its architecture. Nothing in it changes
/// with settings, heat or load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chip {
    /// What the processor, the chip or the board calls itself.
    pub model: Reading<String>,
    /// What programs for it are made of.
    pub architecture: Reading<String>,
    /// Its cores by kind, the best first.
    pub cores: Reading<Vec<ChipCores>>,
}

/// Cores of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct ChipCores {
    /// Performance or efficiency.
    pub class: CoreClass,
    /// The work one can do, relative to 1024 for the best core of the machine, where the system says.
    pub capacity: Option<u64>,
    /// The highest frequency one is built for, where the system says.
    pub max_khz: Option<u64>,
    /// How many there are.
    pub count: usize,
}

impl Chip {
    pub(crate) fn of(state: &State) -> Self {
        Self {
            model: state.processor.model.clone(),
            architecture: state.os.architecture.clone(),
            cores: state.processor.cores.as_ref().map(|cores| kinds(cores)),
        }
    }
}

fn kinds(cores: &[CoreState]) -> Vec<ChipCores> {
    let mut kinds: Vec<ChipCores> = Vec::new();
    for core in cores {
        let (capacity, max_khz) = (core.capacity.get().copied(), core.max_khz.get().copied());
        let is_same =
            |kind: &&mut ChipCores| (kind.class, kind.capacity, kind.max_khz) == (core.class, capacity, max_khz);
        match kinds.iter_mut().find(is_same) {
            Some(kind) => kind.count += 1,
            None => kinds.push(ChipCores { class: core.class, capacity, max_khz, count: 1 }),
        }
    }
    let best_first = |kind: &ChipCores| (kind.class, std::cmp::Reverse((kind.capacity, kind.max_khz)));
    kinds.sort_by_key(best_first);
    kinds
}

/// One line: `Some CPU, 8+12 cores, x86_64`.
impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model.get().map_or("unknown processor", String::as_str))?;
        if let Some(cores) = self.cores.get().filter(|cores| !cores.is_empty()) {
            let counts: Vec<String> = cores.iter().map(|kind| kind.count.to_string()).collect();
            let plural = if counts == ["1"] { "" } else { "s" };
            write!(f, ", {} core{plural}", counts.join("+"))?;
        }
        match self.architecture.get() {
            Some(architecture) => write!(f, ", {architecture}"),
            None => Ok(()),
        }
    }
}
