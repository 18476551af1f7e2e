//! A front end that remembers what it was shown, keeps the questions until the test answers them, and has no room when the
//! test says so.

use std::collections::VecDeque;
use std::sync::Mutex;

use milk_core::BoxFuture;
use milk_core::ask::{AskOutcome, Question};
use milk_core::event::{AnswerSlot, Event, EventKind};
use milk_core::ports::EventSink;
use tokio::sync::watch;

use super::journal::{Journal, Seen};

/// The front end.
#[derive(Debug)]
pub(crate) struct Screen {
    journal: Journal,
    questions: Mutex<VecDeque<(Question, AnswerSlot)>>,
    has_room: watch::Sender<bool>,
}

impl Screen {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { journal, questions: Mutex::default(), has_room: watch::Sender::new(true) }
    }

    pub(crate) fn has_room(&self, has_room: bool) {
        self.has_room.send_replace(has_room);
    }

    /// Answers the oldest question that is not answered yet.
    pub(crate) fn answer(&self, outcome: AskOutcome) {
        self.take_question().1.answer(outcome);
    }

    /// Takes the oldest question and what answers it.
    pub(crate) fn take_question(&self) -> (Question, AnswerSlot) {
        let taken = self.questions.lock().unwrap().pop_front();
        let (question, slot) = taken.expect("a question is open on the screen");
        self.journal.note(Seen::QuestionTaken(question.id));
        (question, slot)
    }

    /// How many questions wait for the test.
    pub(crate) fn open_questions(&self) -> usize {
        self.questions.lock().unwrap().len()
    }
}

impl EventSink for Screen {
    fn emit(&self, event: Event) {
        let Event { prompt, kind } = event;
        let kind = match kind {
            EventKind::Asked { question, answer } => {
                let shown = EventKind::Asked { question: question.clone(), answer: AnswerSlot::new(drop) };
                self.questions.lock().unwrap().push_back((question, answer));
                shown
            }
            other => other,
        };
        self.journal.note(Seen::Event(Event { prompt, kind }));
    }

    fn room(&self) -> Option<BoxFuture<'_, ()>> {
        if *self.has_room.borrow() {
            return None;
        }
        let mut has_room = self.has_room.subscribe();
        Some(Box::pin(async move {
            let _ = has_room.wait_for(|has_room| *has_room).await;
        }))
    }
}
