//! The laws that hold for every conversation, whatever happens in it. Each is a fold over the journal.

mod messages;
mod records;
mod requests;
mod rows;
mod turns;

use milk_core::model::ModelRequest;

use crate::fakes::journal::Seen;

/// Every law that the journal and the requests break, in words. A conversation that still runs breaks none by that.
pub(crate) fn broken(entries: &[Seen], requests: &[ModelRequest]) -> Vec<String> {
    let mut broken = Broken::default();
    turns::check(entries, &mut broken);
    rows::check(entries, &mut broken);
    messages::check(entries, &mut broken);
    records::check(entries, &mut broken);
    requests::check(requests, &mut broken);
    broken.0
}

/// What was found.
#[derive(Default)]
struct Broken(Vec<String>);

impl Broken {
    fn unless(&mut self, holds: bool, law: impl FnOnce() -> String) {
        if !holds {
            self.0.push(law());
        }
    }
}
