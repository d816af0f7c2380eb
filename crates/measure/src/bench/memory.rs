//! The memory that a run takes, over its time.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use duan_system::Reading;
use serde::{Deserialize, Serialize};

/// How often memory is looked at to begin with.
const EVERY: Duration = Duration::from_millis(50);
/// Points of a curve; where there would be more, every second one is left out and looks are half as frequent.
const MOST_POINTS: usize = 256;

/// Memory of this process, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryFigures {
    /// The most that was ever resident, mapped files included.
    pub peak_bytes: Reading<u64>,
    /// What is resident, where pages that several processes have count in part.
    pub proportional_bytes: Reading<u64>,
    /// Of it, pages without a file behind them.
    pub proportional_anonymous_bytes: Reading<u64>,
    /// Of it, pages of files: they can leave the memory without being written.
    pub proportional_file_bytes: Reading<u64>,
    /// What lies in the swap.
    pub swapped_bytes: Reading<u64>,
    /// What was resident while it ran.
    pub curve: Option<MemoryCurve>,
}

/// What was resident, at equal distances in time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryCurve {
    /// Milliseconds between two points.
    pub every_ms: u64,
    /// Bytes at each point, from the beginning on.
    pub resident_bytes: Vec<u64>,
}

impl MemoryCurve {
    /// One more point. Gives the time to the next.
    fn push(&mut self, bytes: u64) -> Duration {
        self.resident_bytes.push(bytes);
        // An odd number, so that the first and the last both stay.
        if self.resident_bytes.len() > MOST_POINTS {
            let mut index = 0;
            self.resident_bytes.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.every_ms *= 2;
        }
        Duration::from_millis(self.every_ms)
    }
}

/// Looks at memory from a thread of its own, a few times a second.
#[derive(Debug)]
pub struct MemoryWatch {
    stop: Sender<()>,
    watching: JoinHandle<MemoryCurve>,
}

impl MemoryWatch {
    /// Begins. `resident_bytes` is asked at each point; it ends where that says nothing. `None` where there can be no thread.
    pub fn start(resident_bytes: impl Fn() -> Option<u64> + Send + 'static) -> Option<MemoryWatch> {
        let (stop, stopped) = channel::<()>();
        let watch = move || {
            let mut curve =
                MemoryCurve { every_ms: EVERY.as_millis() as u64, resident_bytes: Vec::with_capacity(MOST_POINTS) };
            while let Some(bytes) = resident_bytes() {
                let wait = curve.push(bytes);
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            curve
        };
        let watching = std::thread::Builder::new().name("memory".to_owned()).spawn(watch).ok()?;
        Some(MemoryWatch { stop, watching })
    }

    /// Ends; `None` where nothing was seen.
    pub fn stop(self) -> Option<MemoryCurve> {
        // Without a receiver it is over already.
        let _ = self.stop.send(());
        self.watching.join().ok().filter(|curve| !curve.resident_bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_shape_and_its_length() {
        let mut curve = MemoryCurve { every_ms: 50, resident_bytes: Vec::new() };
        let mut now_ms = 0;
        for _ in 0..3000 {
            now_ms += curve.push(now_ms).as_millis() as u64;
            assert!(curve.resident_bytes.len() <= MOST_POINTS);
            let times = (0..).map(|index| index * curve.every_ms);
            assert!(curve.resident_bytes.iter().copied().eq(times.take(curve.resident_bytes.len())), "{now_ms}");
        }
        assert!(curve.every_ms > 800 && curve.resident_bytes.len() > MOST_POINTS / 2, "{}", curve.every_ms);
    }

    #[test]
    fn a_watch_ends_when_it_is_told_to_or_sees_nothing() {
        let curve = MemoryWatch::start(|| Some(7)).unwrap().stop().unwrap();
        assert!(!curve.resident_bytes.is_empty() && curve.resident_bytes.iter().all(|&bytes| bytes == 7));
        assert_eq!(MemoryWatch::start(|| None).unwrap().stop(), None);
    }
}
