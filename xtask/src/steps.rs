//! Runs the steps of a task, even after one has failed, and prints the result of each.

use std::io::Write;
use std::time::Instant;

use crate::Result;

/// The results of the steps so far.
#[derive(Debug, Default)]
pub(crate) struct StepRunner {
    failed: Vec<String>,
}

impl StepRunner {
    /// Runs a step. A failure of the step is printed and remembered, but not returned.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result) -> Result {
        print!("{name:34} ");
        std::io::stdout().flush()?;
        let start = Instant::now();
        let result = step();
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        println!("{verdict:6} {:6.1} s", start.elapsed().as_secs_f64());
        if let Err(error) = result {
            println!("{error}\n");
            self.failed.push(name.to_owned());
        }
        Ok(())
    }

    /// Fails if a step has failed.
    pub(crate) fn finish(self) -> Result {
        if self.failed.is_empty() {
            Ok(())
        } else {
            Err(format!("failed: {}", self.failed.join(", ")).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_steps_run_after_a_failure_and_the_failure_is_reported() {
        let mut steps = StepRunner::default();
        let mut runs = 0;
        steps.run("first", || Err("broken".into())).unwrap();
        steps
            .run("second", || {
                runs += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(runs, 1);
        assert_eq!(steps.finish().unwrap_err().to_string(), "failed: first");
        assert!(StepRunner::default().finish().is_ok());
    }
}
