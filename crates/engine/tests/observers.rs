//! What observers of matches learn.

use std::cell::RefCell;
use std::rc::Rc;

use base::{ContextId, GateId, RailProfile};
use engine::strategy::Aggregate;
use engine::{Engine, IncomingMessage, MatchObserver, MatchedReceive, Receive};
use memory::Buffer;

#[derive(Debug, Default)]
struct Cancelled(RefCell<Vec<(ContextId, MatchedReceive)>>);

impl MatchObserver for Cancelled {
    fn message_matched(&self, _: ContextId, _: MatchedReceive, _: &IncomingMessage) {
        unreachable!("no message comes");
    }

    fn receive_cancelled(&self, context: ContextId, receive: MatchedReceive) {
        self.0.borrow_mut().push((context, receive));
    }
}

#[test]
fn a_cancelled_receive_is_reported_with_its_number() {
    let mut engine = Engine::new(GateId(0), vec![RailProfile::default()], Box::new(Aggregate));
    let seen = Rc::new(Cancelled::default());
    engine.observe_matches(Rc::clone(&seen) as _);
    let id = ContextId::new(0, 0);
    let context = engine.open_context(id, 0);
    for source in [None, Some(0)] {
        let order = engine.next_posting(context);
        let buffer = Buffer::zeroed(8);
        let request = engine.receive(Receive { context, source, tag: Some(5), buffer });
        engine.cancel(request);
        // It is cancelled already.
        engine.cancel(request);
        let receive = MatchedReceive { order, from_any_source: source.is_none() };
        assert_eq!(seen.0.take(), [(id, receive)]);
    }
}
