//! What a share of a ceiling means.

use serde::{Deserialize, Serialize};

/// From here on nothing is worth looking for before something else was measured.
const GOOD: f64 = 0.6;

/// Below this it is not the code but how it was set up.
const ROOM: f64 = 0.2;

/// What to make of a rate beside the ceiling over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// At least 60 %: the machine is used.
    Good,
    /// 20 to 60 %: there is something to be had.
    Room,
    /// Below 20 %: something is set wrongly: too many or too few threads, a fallback, memory that swaps, a debug build.
    Setting,
    /// Above 100 %, or no number at all: nothing is faster than what the machine can do, so one of both was measured wrongly.
    Fault,
}

impl Verdict {
    /// Of a rate over its ceiling.
    pub fn of(share: f64) -> Self {
        match share {
            _ if !(0.0..=1.0).contains(&share) => Self::Fault,
            _ if share >= GOOD => Self::Good,
            _ if share >= ROOM => Self::Room,
            _ => Self::Setting,
        }
    }

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Room => "room",
            Self::Setting => "setting",
            Self::Fault => "fault",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_belong_to_the_better_verdict() {
        use Verdict::{Fault, Good, Room, Setting};
        let shares = [0.0, 0.199, 0.2, 0.599, 0.6, 1.0, 1.001, -0.1, f64::NAN, f64::INFINITY];
        let expected = [Setting, Setting, Room, Room, Good, Good, Fault, Fault, Fault, Fault];
        assert_eq!(shares.map(Verdict::of), expected);
    }

    #[test]
    fn it_is_called_as_in_json() {
        for verdict in [Verdict::Good, Verdict::Room, Verdict::Setting, Verdict::Fault] {
            assert_eq!(serde_json::to_string(&verdict).unwrap(), format!("{:?}", verdict.name()));
        }
    }
}
