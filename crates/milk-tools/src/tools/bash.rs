//! `bash`: one shell command in the session's directory.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use milk_core::tool::{Effect, PreparedCall, ToolContext, ToolError, ToolKind, ToolOutcome, ToolStatus};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::args::{Param, Shape};
use crate::builtin::{Call, Prepare, Row};
use crate::env::Shared;
use crate::process::{Ended, Finished, OutputSink, ShellCommand, run_shell};
use crate::text::{Decoder, Ends, visible};

pub(crate) const ROW: Row = Row {
    name: "bash",
    kind: ToolKind::Execute,
    about: include_str!("bash.md"),
    params: &[
        Param::required("command", Shape::Text, "The command line."),
        Param::optional(
            "timeout_seconds",
            Shape::Count,
            "Seconds until it is stopped: 120 unless given, at most 600.",
        )
        .or_named("timeout"),
    ],
    prepare: Prepare::AtOnce(prepare),
};

const DEFAULT_SECONDS: u64 = 120;
const MOST_SECONDS: u64 = 600;
/// Linux takes 128 KiB in one argument.
const LONGEST_COMMAND: usize = 120 * 1024;

fn prepare(call: &Call) -> Result<PreparedCall, ToolError> {
    let command = call.args.filled("command")?;
    if command.contains('\0') {
        return Err(ToolError::new("`command` holds a NUL character, which no shell can take"));
    }
    if command.len() > LONGEST_COMMAND {
        return Err(ToolError::new("`command` is too long: write a script file and run that"));
    }
    let seconds = call.args.count_or("timeout_seconds")?.unwrap_or(DEFAULT_SECONDS).clamp(1, MOST_SECONDS);
    let shell = ShellCommand {
        command: command.clone(),
        cwd: call.workspace.cwd().to_owned(),
        secret_env: Arc::clone(&call.shared.secret_env),
        limit: Duration::from_secs(seconds),
        cancel: CancellationToken::new(),
    };
    let shared = Arc::clone(&call.shared);
    Ok(PreparedCall {
        title: format!("bash: {}", visible(&command)),
        locations: Vec::new(),
        changes: Vec::new(),
        effect: Effect::Executes { command },
        run: Box::new(move |context| Box::pin(run(shared, shell, context))),
    })
}

async fn run(shared: Arc<Shared>, mut shell: ShellCommand, context: ToolContext) -> ToolOutcome {
    // The tool's own time-out, so that what was printed until then is not lost.
    shell.limit = shell.limit.min(context.time_limit.unwrap_or(Duration::MAX));
    shell.cancel = context.cancel;
    let limit = shell.limit;
    let mut sink = Printed::new(shared.env.result_limit, context.output);
    let finished = run_shell(&shared.env.processes, &shared.env.launcher, shell, &mut sink).await;
    outcome(&finished, limit, sink.whole.finish())
}

fn outcome(finished: &Finished, limit: Duration, mut output: String) -> ToolOutcome {
    let printed = !output.is_empty();
    if printed && !output.ends_with('\n') {
        output.push('\n');
    }
    let (status, exit_code, mut mark) = match &finished.ended {
        Ended::Exited(0) => (ToolStatus::Completed, Some(0), "exit code 0".to_owned()),
        Ended::Exited(code) => (ToolStatus::Failed, Some(*code), format!("exit code {code}")),
        // As shells report it.
        Ended::Signalled(signal) => {
            (ToolStatus::Failed, Some(128 + signal), format!("ended by signal {signal}"))
        }
        Ended::TimedOut => {
            let limit = limit.as_secs_f32();
            (
                ToolStatus::Failed,
                None,
                format!("command timed out after {limit} s and was stopped, with all its processes"),
            )
        }
        Ended::Cancelled => {
            (ToolStatus::Cancelled, None, "cancelled: it was stopped, with all its processes".to_owned())
        }
        Ended::Failed(reason) => (ToolStatus::Failed, None, reason.clone()),
    };
    if !printed && matches!(finished.ended, Ended::Exited(_) | Ended::Signalled(_)) {
        mark.push_str(", no output");
    }
    if finished.left_running {
        mark.push_str("; processes that it started still run, in the background");
    }
    let _ = write!(output, "[{mark}]");
    ToolOutcome { status, output, changes: None, exit_code }
}

/// Live output of one command, in bytes: a row in an editor is no terminal.
const LIVE_LIMIT: usize = 256 * 1024;
/// A piece of live output leaves when it is this long,
const LIVE_PIECE: usize = 8 * 1024;
/// or this old.
const LIVE_EVERY: Duration = Duration::from_millis(50);

/// Keeps both ends of the output for the model, and shows it as it comes.
struct Printed {
    whole: Ends,
    live: Arc<dyn Fn(&str) + Send + Sync>,
    decoder: Decoder,
    pending: String,
    since: Option<Instant>,
    room: usize,
}

impl Printed {
    fn new(limit: usize, live: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        let (decoder, pending) = (Decoder::default(), String::new());
        Self { whole: Ends::new(limit), live, decoder, pending, since: None, room: LIVE_LIMIT }
    }

    fn emit(&mut self) {
        self.since = None;
        if self.pending.is_empty() {
            return;
        }
        self.room = self.room.saturating_sub(self.pending.len());
        if self.room == 0 {
            self.pending.push_str("\n[… more output follows; the result will show its end]\n");
        }
        (self.live)(&self.pending);
        self.pending.clear();
    }
}

impl OutputSink for Printed {
    fn take(&mut self, bytes: &[u8]) {
        self.whole.push(bytes);
        if self.room == 0 {
            return;
        }
        self.pending.push_str(&self.decoder.push(bytes));
        self.since.get_or_insert_with(Instant::now);
        if self.pending.len() >= LIVE_PIECE {
            self.emit();
        }
    }

    fn flush_at(&self) -> Option<Instant> {
        self.since.map(|since| since + LIVE_EVERY)
    }

    fn flush(&mut self) {
        self.emit();
    }

    fn finish(&mut self) {
        if self.room > 0 {
            self.pending.push_str(&self.decoder.finish());
            self.emit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn finished(ended: Ended) -> Finished {
        Finished { ended, left_running: false }
    }

    #[test]
    fn the_model_reads_how_it_ended() {
        let second = Duration::from_secs(1);
        for (finished, printed, expected, code) in [
            (finished(Ended::Exited(0)), "hi\n", "hi\n[exit code 0]", Some(0)),
            (finished(Ended::Exited(0)), "", "[exit code 0, no output]", Some(0)),
            (finished(Ended::Exited(1)), "no newline", "no newline\n[exit code 1]", Some(1)),
            (finished(Ended::Signalled(9)), "", "[ended by signal 9, no output]", Some(137)),
            (
                finished(Ended::TimedOut),
                "part\n",
                "part\n[command timed out after 1 s and was stopped, with all its processes]",
                None,
            ),
            (finished(Ended::Failed("it broke".into())), "", "[it broke]", None),
            (
                Finished { ended: Ended::Exited(0), left_running: true },
                "up\n",
                "up\n[exit code 0; processes that it started still run, in the background]",
                Some(0),
            ),
        ] {
            let outcome = outcome(&finished, second, printed.into());
            assert_eq!((outcome.output.as_str(), outcome.exit_code), (expected, code));
            let good = finished.ended == Ended::Exited(0);
            assert_eq!(outcome.status == ToolStatus::Completed, good, "{finished:?}");
        }
    }

    #[test]
    fn live_output_comes_in_pieces_and_ends_068() {
        let shown = Arc::new(Mutex::new(Vec::<String>::new()));
        let to = Arc::clone(&shown);
        let mut sink = Printed::new(100, Arc::new(move |piece| to.lock().unwrap().push(piece.to_owned())));
        for _ in 0..100_000 {
            sink.take("0123456789é\n".as_bytes());
        }
        sink.finish();
        let shown = shown.lock().unwrap();
        assert!(shown.len() <= LIVE_LIMIT / LIVE_PIECE, "{}", shown.len());
        assert!(shown.iter().all(|piece| piece.len() < 2 * LIVE_PIECE));
        let all = shown.concat();
        assert!(all.len() < LIVE_LIMIT + 2 * LIVE_PIECE && !all.contains('\u{FFFD}'));
        assert!(all.ends_with("[… more output follows; the result will show its end]\n"));
        assert!(sink.whole.finish().len() < 200);
    }

    #[test]
    fn a_split_character_waits_for_its_end() {
        let shown = Arc::new(Mutex::new(String::new()));
        let to = Arc::clone(&shown);
        let mut sink = Printed::new(100, Arc::new(move |piece| to.lock().unwrap().push_str(piece)));
        sink.take(b"a\xe6\xbc");
        assert!(sink.flush_at().is_some());
        sink.flush();
        assert_eq!((shown.lock().unwrap().as_str(), sink.flush_at()), ("a", None));
        sink.take(b"\xa2\xf0");
        sink.finish();
        assert_eq!(*shown.lock().unwrap(), "a漢\u{FFFD}");
    }
}
