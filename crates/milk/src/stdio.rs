//! Standard input and output as the protocol's own.

use std::fs::File;
use std::io::{self, Write};

/// Takes the process's stdin and stdout for the protocol. Afterwards the usual stdout is standard error and the usual stdin is
/// empty, so that nothing else in the process (a library that prints, a child that reads) can touch the protocol's streams.
pub(crate) fn claim() -> io::Result<(File, File)> {
    let input = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    let null = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    if rustix::stdio::dup2_stdout(io::stderr()).is_err() {
        let null = File::options().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(&null)?; // standard error may be closed
    }
    Ok((File::from(input), File::from(output)))
}

/// Prints one line for a person or a script. A reader that is gone is no error.
pub(crate) fn print_line(line: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{line}");
    let _ = stdout.flush();
}
