//! Where the data of a command goes: to stdout or, if a terminal is too short for it, to a pager.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use clap::ColorChoice;
use stead_server::print_to_stderr;
use tokio::signal::unix::{SignalKind, signal};

/// The pager if neither STEAD_PAGER nor PAGER names one.
const DEFAULT_PAGER: &str = "less -FRX";

/// Options for the output of every command.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// Print no messages, only data and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// When to use colours; NO_COLOR turns `auto` off
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", visible_alias = "colour")]
    color: ColorChoice,
    /// Don't show long output in a pager (STEAD_PAGER or PAGER; `less -FRX` without them)
    #[arg(long, global = true)]
    no_pager: bool,
}

impl OutputArgs {
    /// Whether text for stdout is coloured.
    pub(crate) fn has_colour(&self) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
                io::stdout().is_terminal() && !is_set("NO_COLOR")
            }
        }
    }

    /// The program and the arguments of the pager; `None` if the output isn't to be paged.
    fn pager(&self) -> Option<Vec<String>> {
        if self.no_pager || !io::stdout().is_terminal() {
            return None;
        }
        let from_environment = ["STEAD_PAGER", "PAGER"].into_iter().find_map(|name| std::env::var(name).ok());
        parse_pager(from_environment.as_deref().unwrap_or(DEFAULT_PAGER))
    }
}

/// Splits the command line of a pager into words; `None` if it means no pager.
fn parse_pager(command: &str) -> Option<Vec<String>> {
    let words = shlex::split(command)?;
    let is_cat = words.len() == 1 && words[0] == "cat";
    if words.is_empty() || is_cat { None } else { Some(words) }
}

/// The data output of one run, and the messages that wait until it is complete.
pub(crate) struct Output {
    sink: Sink,
    /// Messages for stderr that would be written over the pager's screen.
    messages: Vec<String>,
}

enum Sink {
    /// Everything goes to stdout.
    Stdout(BufWriter<StdoutLock<'static>>),
    /// Output that still fits the terminal. It is kept until it has more lines, or is complete.
    Held { bytes: Vec<u8>, free_lines: usize, pager: Vec<String> },
    /// Everything goes to the pager.
    Pager { process: Child, input: BufWriter<ChildStdin> },
}

impl Output {
    pub(crate) fn new() -> Self {
        Output { sink: Sink::stdout(), messages: Vec::new() }
    }

    /// Lets a pager show the output if it is longer than the terminal. Nothing may have been written yet.
    pub(crate) fn use_pager(&mut self, args: &OutputArgs) {
        if let Some(pager) = args.pager() {
            let rows = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_row);
            // A terminal without a size doesn't scroll.
            if rows > 0 {
                // One line is left for the prompt.
                let free_lines = usize::from(rows - 1);
                self.sink = Sink::Held { bytes: Vec::new(), free_lines, pager };
            }
        }
    }

    /// Prints a message to stderr: at once after the output so far or, if there may be a pager, at the end.
    pub(crate) fn print_message(&mut self, message: impl std::fmt::Display) {
        match self.sink {
            Sink::Stdout(_) => {
                // Flushed first, so that output and message keep their order where both go to the same terminal.
                let _ = self.flush();
                print_to_stderr(message);
            }
            Sink::Held { .. } | Sink::Pager { .. } => self.messages.push(message.to_string()),
        }
    }

    /// Completes the output, waits until the user has left the pager, and prints the messages that waited.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let written = self.flush();
        if let Sink::Pager { mut process, input } = std::mem::replace(&mut self.sink, Sink::stdout()) {
            // The pager reads until its input is closed.
            drop(input);
            let _ = process.wait();
        }
        self.messages.drain(..).for_each(print_to_stderr);
        written
    }

    /// Starts the pager, and writes to it what was held. If it can't be started, everything goes to stdout.
    fn start_pager(&mut self) -> io::Result<()> {
        let Sink::Held { bytes, pager, .. } = std::mem::replace(&mut self.sink, Sink::stdout()) else {
            return Ok(());
        };
        if let Some((process, input)) = spawn_pager(&pager) {
            self.sink = Sink::Pager { process, input: BufWriter::new(input) };
        }
        self.write_all(&bytes)
    }
}

impl Sink {
    fn stdout() -> Self {
        Sink::Stdout(BufWriter::with_capacity(64 << 10, io::stdout().lock()))
    }
}

impl Write for Output {
    fn write(&mut self, new: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Stdout(out) => out.write(new),
            Sink::Pager { input, .. } => input.write(new),
            Sink::Held { bytes, free_lines, .. } => {
                bytes.extend_from_slice(new);
                let lines = new.iter().filter(|&&byte| byte == b'\n').count();
                match free_lines.checked_sub(lines) {
                    Some(rest) => *free_lines = rest,
                    None => self.start_pager()?,
                }
                Ok(new.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Stdout(out) => out.flush(),
            Sink::Pager { input, .. } => input.flush(),
            Sink::Held { bytes, .. } => {
                let bytes = std::mem::take(bytes);
                self.sink = Sink::stdout();
                self.write_all(&bytes)?;
                self.flush()
            }
        }
    }
}

/// Starts a pager with a pipe to its input; `None` if it can't be started.
fn spawn_pager(words: &[String]) -> Option<(Child, ChildStdin)> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // A plain `less` shows colours, and ends by itself if all fits the screen.
        command.env("LESS", "FRX");
    }
    let mut process = command.spawn().ok()?;
    ignore_interrupts();
    let input = process.stdin.take()?;
    Some((process, input))
}

/// From now on, Ctrl-C is for the pager: this process must not leave it alone on the terminal.
fn ignore_interrupts() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    let _entered = runtime.enter();
    // The handler stays installed for as long as the process runs, and nobody listens to it.
    let _ = signal(SignalKind::interrupt());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pager_is_a_command_line() {
        assert_eq!(parse_pager("less -FRX").unwrap(), ["less", "-FRX"]);
        assert_eq!(parse_pager("sh -c 'head -3 | tac'").unwrap(), ["sh", "-c", "head -3 | tac"]);
        for none in ["", " ", "cat", "'"] {
            assert_eq!(parse_pager(none), None, "{none}");
        }
    }
}
