//! Standard input and output as the protocol's own.

use std::fs::File;
use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

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

/// Calls `gone` once the reader of this output has closed it, on a thread of its own: an agent that has nothing to write would
/// not notice otherwise (contract: the process ends with its client). Only pipes and sockets can be watched; other outputs have no
/// reader that goes.
pub(crate) fn watch_reader(output: &File, gone: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let watched = output.try_clone()?;
    let watch = move || {
        loop {
            let mut fds = [PollFd::new(&watched, PollFlags::empty())]; // errors and hang-ups are always told
            match poll(&mut fds, None) {
                Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => return gone(),
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    };
    std::thread::Builder::new().name("acp-reader-gone".to_owned()).stack_size(64 * 1024).spawn(watch)?;
    Ok(())
}

/// Prints one line for a person or a script. A reader that is gone is no error.
pub(crate) fn print_line(line: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{line}");
    let _ = stdout.flush();
}
