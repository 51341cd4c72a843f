//! Measures contenders in turns, so that other work of the machine affects all of them alike.

use std::time::{Duration, Instant};

use crate::Result;

/// The result of one round of one contender.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Seconds for one operation.
    pub each: f64,
    /// Seconds for the slowest operation, if each was timed; otherwise equal to `each`.
    pub worst: f64,
}

/// The result of all rounds of one contender.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    /// The median of the rounds.
    pub median: f64,
    /// The slowest operation of all rounds.
    pub worst: f64,
}

/// Times `count` operations together.
pub fn timed(count: usize, operations: impl FnOnce() -> Result) -> Result<Sample> {
    let start = Instant::now();
    operations()?;
    let each = start.elapsed().as_secs_f64() / count as f64;
    Ok(Sample { each, worst: each })
}

/// Which threads' processor time is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuTimeScope {
    /// The calling thread's.
    Caller,
    /// All threads', including the work that the operations leave for background threads.
    AllThreads,
}

/// Measures the processor time of `count` operations, which doesn't include other work of the machine.
pub fn cpu_timed(scope: CpuTimeScope, count: usize, operations: impl FnOnce() -> Result) -> Result<Sample> {
    // The kernel updates a thread's time when it switches to another thread.
    let pause = Duration::from_millis(if scope == CpuTimeScope::AllThreads { 400 } else { 1 });
    std::thread::sleep(pause);
    let before = cpu_seconds(scope)?;
    operations()?;
    std::thread::sleep(pause);
    let each = (cpu_seconds(scope)? - before) / count as f64;
    Ok(Sample { each, worst: each })
}

/// The processor time so far, in seconds, as the kernel reports it.
fn cpu_seconds(scope: CpuTimeScope) -> Result<f64> {
    let nanos = |file: &std::path::Path| -> Result<f64> {
        let text = std::fs::read_to_string(file)?;
        Ok(text.split_whitespace().next().ok_or("the kernel reports no processor time")?.parse()?)
    };
    let mut sum = 0.0;
    match scope {
        CpuTimeScope::Caller => sum = nanos("/proc/thread-self/schedstat".as_ref())?,
        CpuTimeScope::AllThreads => {
            for task in std::fs::read_dir("/proc/self/task")? {
                sum += nanos(&task?.path().join("schedstat"))?;
            }
        }
    }
    Ok(sum / 1e9)
}

/// The sample of operations that several threads ran at the same time: `waits` is the duration of each operation,
/// `total` that of all together.
pub fn concurrent(waits: &[Duration], total: Duration) -> Sample {
    let worst = waits.iter().max().copied().unwrap_or_default();
    Sample { each: total.as_secs_f64() / waits.len() as f64, worst: worst.as_secs_f64() }
}

/// Runs every contender once per round. The first round is a warm-up and doesn't count. A contender for which `measure`
/// returns `None` is left out.
///
/// Each round starts with another contender, because the first of a round finds the caches as the last one left them.
pub fn in_turns<C>(
    contenders: &[C],
    rounds: usize,
    mut measure: impl FnMut(&C, usize) -> Result<Option<Sample>>,
) -> Result<Vec<Option<Summary>>> {
    let mut samples = vec![Vec::with_capacity(rounds); contenders.len()];
    for round in 0..=rounds {
        for turn in 0..contenders.len() {
            let index = (turn + round) % contenders.len();
            let sample = measure(&contenders[index], round)?;
            if round > 0 {
                samples[index].extend(sample);
            }
        }
    }
    Ok(samples.into_iter().map(summary).collect())
}

fn summary(mut samples: Vec<Sample>) -> Option<Summary> {
    samples.sort_by(|a, b| a.each.total_cmp(&b.each));
    let worst = samples.iter().map(|sample| sample.worst).max_by(f64::total_cmp)?;
    let (low, high) = (samples[(samples.len() - 1) / 2].each, samples[samples.len() / 2].each);
    Some(Summary { median: (low + high) / 2.0, worst })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(each: f64) -> Sample {
        Sample { each, worst: each }
    }

    #[test]
    fn the_median_ignores_an_outlier_and_the_worst_does_not() {
        let summary = summary([3.0, 100.0, 1.0, 2.0].map(sample).to_vec()).unwrap();
        assert_eq!((summary.median, summary.worst), (2.5, 100.0));
    }

    #[test]
    fn contenders_take_turns_and_the_first_round_does_not_count() {
        let mut order = Vec::new();
        let summaries = in_turns(&["a", "b"], 2, |name, round| {
            order.push(format!("{name}{round}"));
            Ok((*name == "a").then(|| sample(if round == 0 { 100.0 } else { round as f64 })))
        });
        let summaries = summaries.unwrap();
        assert_eq!(order, ["a0", "b0", "b1", "a1", "a2", "b2"]);
        assert_eq!(summaries[0].map(|summary| summary.median), Some(1.5));
        assert!(summaries[1].is_none());
    }
}
