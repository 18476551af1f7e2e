//! One response as it streams: bytes in with limits on silence, events of the model out.

use std::time::Duration;

use milk_core::model::ModelEvent;
use reqwest::Response;

use super::config::Patience;
use super::format::{Decoder, Progress, StreamFault};
use crate::failure::{Failed, Reporter, Waited, html_summary};
use crate::sse;

/// How long the end of a body is waited for when the answer is over. Reading it keeps the connection for the next
/// request; a server that holds it open costs the turn no more than this (bug case 089).
const LAST_BYTES: Duration = Duration::from_millis(50);

/// The longest body that is read whole, in bytes.
const WHOLE_LIMIT: usize = 16 << 20;

/// A response that has begun.
#[derive(Debug)]
pub(super) struct Connection {
    response: Response,
    body: Body,
    decoder: Decoder,
    patience: Patience,
}

/// What kind of body the server sends, as its first visible byte shows; its headers are not always true.
#[derive(Debug)]
enum Body {
    /// Only white space so far.
    Unknown,
    /// A stream of events.
    Events(Box<sse::Decoder>),
    /// Something that must be read whole: JSON, or a page.
    Whole(Vec<u8>),
}

/// Whether a connection has more to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// It may.
    On,
    /// Its last events are ready.
    Over,
}

impl Connection {
    pub(super) fn new(response: Response, decoder: Decoder, patience: Patience) -> Self {
        Self { response, body: Body::Unknown, decoder, patience }
    }

    /// The next event that is ready.
    pub(super) fn next_event(&mut self) -> Option<ModelEvent> {
        self.decoder.next_event()
    }

    /// Reads on: the next bytes, or the end. Take what [`Connection::next_event`] has before reading again.
    pub(super) async fn read(&mut self, reporter: &Reporter) -> Result<Reading, Failed> {
        if self.decoder.progress() == Progress::Over {
            let _ = tokio::time::timeout(LAST_BYTES, self.skip_rest()).await;
            return self.conclude(reporter);
        }
        let (waited, limit) = self.wait();
        match tokio::time::timeout(limit, self.response.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                self.take(&bytes).map_err(|fault| failed(reporter, fault))?;
                Ok(Reading::On)
            }
            Ok(Ok(None)) => {
                self.end_body(reporter)?;
                self.conclude(reporter)
            }
            // An answer that is complete has succeeded, however its connection ends (bug cases 088 and 089).
            Ok(Err(_)) | Err(_) if self.decoder.progress() == Progress::Complete => self.conclude(reporter),
            Ok(Err(error)) => Err(reporter.connection_lost(&error)),
            Err(_) => Err(reporter.silent(waited, limit)),
        }
    }

    /// What is waited for, and how long at most.
    fn wait(&self) -> (Waited, Duration) {
        let Patience { first_byte, between_bytes, after_finish } = self.patience;
        match self.decoder.progress() {
            Progress::Silent => (Waited::ForTheFirstByte, first_byte),
            Progress::Open => (Waited::ForTheNextByte, between_bytes),
            Progress::Complete | Progress::Over => (Waited::ForTheNextByte, after_finish.min(between_bytes)),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), StreamFault> {
        if matches!(self.body, Body::Unknown)
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            self.body = match first {
                b'{' | b'[' | b'<' => Body::Whole(Vec::new()),
                _ => Body::Events(Box::default()),
            };
        }
        match &mut self.body {
            Body::Unknown => Ok(()),
            Body::Whole(body) if body.len() + bytes.len() > WHOLE_LIMIT => {
                Err(StreamFault::Broken(format!("it is longer than {WHOLE_LIMIT} bytes")))
            }
            Body::Whole(body) => {
                body.extend_from_slice(bytes);
                Ok(())
            }
            Body::Events(events) => {
                let result = events.push(bytes);
                decode(&mut self.decoder, events)?;
                result.map_err(|error| StreamFault::Broken(error.to_string()))
            }
        }
    }

    /// The body is over, by its own measure.
    fn end_body(&mut self, reporter: &Reporter) -> Result<(), Failed> {
        let result = match &mut self.body {
            Body::Unknown => Err(StreamFault::Broken("it is empty".to_owned())),
            Body::Whole(page) if page.trim_ascii_start().starts_with(b"<") => {
                return Err(reporter.not_an_api(&html_summary(&String::from_utf8_lossy(page))));
            }
            Body::Whole(body) => self.decoder.whole(body),
            Body::Events(events) => {
                events.finish();
                decode(&mut self.decoder, events)
            }
        };
        result.map_err(|fault| failed(reporter, fault))
    }

    /// Makes the last events ready.
    fn conclude(&mut self, reporter: &Reporter) -> Result<Reading, Failed> {
        self.decoder.end().map_err(|fault| failed(reporter, fault))?;
        Ok(Reading::Over)
    }

    async fn skip_rest(&mut self) {
        /// More than this behind the end is no end; the connection is given up instead.
        const MOST: usize = 64 << 10;
        let mut skipped = 0;
        while let Ok(Some(bytes)) = self.response.chunk().await {
            skipped += bytes.len();
            if skipped > MOST {
                return;
            }
        }
    }
}

fn decode(decoder: &mut Decoder, events: &mut sse::Decoder) -> Result<(), StreamFault> {
    while let Some(event) = events.next_event() {
        decoder.event(&event)?;
    }
    Ok(())
}

fn failed(reporter: &Reporter, fault: StreamFault) -> Failed {
    match fault {
        StreamFault::Reported(error) => reporter.in_stream(&error),
        StreamFault::Broken(what) => reporter.broken(&what),
    }
}
