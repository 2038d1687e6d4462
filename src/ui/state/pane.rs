//! A place on the screen with its question and its answer. A reply to anything but the newest question is dropped; an answer never outlives
//! the topic it belongs to.

use crate::analysis::answer::Answer;
use crate::analysis::filter::Filter;
use crate::analysis::question::{Ask, Question};
use crate::session::{Reply, Request, Slot};
use crate::trace::clock::Span;
use std::sync::Arc;
use std::time::Duration;

/// What a question is about, apart from the moment it is asked: the answers to one topic may stand in for each other while time goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// The kind.
    pub ask: Ask,
    /// The rows.
    pub filter: Filter,
    /// The time.
    pub when: When,
}

/// The time a topic is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The last so many nanoseconds, whenever it is asked.
    Last(u64),
    /// One stretch.
    At(Span),
}

/// A question, an answer.
#[derive(Debug, Clone, Default)]
pub struct Pane {
    topic: Option<Topic>,
    seq: u64,
    pending: bool,
    asked: Duration,
    /// The newest answer to the topic.
    pub answer: Option<Arc<Answer>>,
    /// Why there is none.
    pub error: Option<String>,
}

impl Pane {
    /// Whether the newest question has no answer yet.
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// When the newest question was asked.
    pub fn asked(&self) -> Duration {
        self.asked
    }

    /// Whether the answer at hand is to this kind of question about these rows, of whatever time.
    pub fn is_about(&self, ask: Ask, filter: &Filter) -> bool {
        self.topic.as_ref().is_some_and(|t| t.ask == ask && t.filter == *filter)
    }

    /// Whether a question on `topic` is due: it is another topic, or the same and `period` has passed since the last was answered.
    pub fn is_due(&self, topic: &Topic, now: Duration, period: Duration) -> bool {
        if self.topic.as_ref() != Some(topic) {
            return true;
        }
        !self.pending && matches!(topic.when, When::Last(_)) && now.saturating_sub(self.asked) >= period
    }

    /// Notes the question as asked and makes the request for it.
    pub fn ask(&mut self, slot: Slot, seq: u64, topic: Topic, question: Question, now: Duration) -> Request {
        if self.topic.as_ref() != Some(&topic) {
            self.answer = None;
            self.error = None;
        }
        self.topic = Some(topic);
        self.seq = seq;
        self.pending = true;
        self.asked = now;
        Request { slot, seq, question }
    }

    /// The picture stops: the answer at hand becomes the answer for `span`, and one under way is not waited for.
    pub fn freeze(&mut self, span: Span) {
        if self.answer.is_none() {
            return;
        }
        if let Some(topic) = &mut self.topic {
            topic.when = When::At(span);
        }
        self.pending = false;
        self.seq = u64::MAX;
    }

    /// Takes in a reply. False when it is not to the newest question.
    pub fn hear(&mut self, reply: Reply) -> bool {
        if reply.seq != self.seq || !self.pending {
            return false;
        }
        self.pending = false;
        match reply.answer {
            Ok(answer) => {
                self.answer = Some(Arc::from(answer));
                self.error = None;
            }
            Err(why) => {
                self.answer = None;
                self.error = Some(why);
            }
        }
        true
    }

    /// Nothing is shown there any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::clock::{Ts, Window};

    fn topic(length: u64) -> Topic {
        Topic { ask: Ask::Events, filter: Filter::default(), when: When::Last(length) }
    }

    fn ask(pane: &mut Pane, seq: u64, length: u64) {
        pane.ask(1, seq, topic(length), Question::new(Ask::Events, Window::Follow(length)), Duration::from_secs(seq));
    }

    fn reply(seq: u64) -> Reply {
        Reply { slot: 1, seq, answer: Err(format!("reply {seq}")) }
    }

    #[test]
    fn replies_to_older_questions_are_dropped() {
        let mut pane = Pane::default();
        ask(&mut pane, 1, 5);
        ask(&mut pane, 2, 9);
        assert!(!pane.hear(reply(1)));
        assert!(pane.is_pending());
        assert!(pane.hear(reply(2)));
        assert!(!pane.hear(reply(2)), "once only");
        assert_eq!(pane.error.as_deref(), Some("reply 2"));
    }

    #[test]
    fn a_slow_answer_is_waited_for_and_another_topic_is_asked_at_once() {
        let mut pane = Pane::default();
        ask(&mut pane, 1, 5);
        let second = Duration::from_secs(1);
        assert!(!pane.is_due(&topic(5), Duration::from_secs(100), second), "still waiting");
        assert!(pane.is_due(&topic(6), Duration::from_secs(1), second));
        pane.hear(reply(1));
        assert!(pane.is_due(&topic(5), Duration::from_secs(100), second));
        let held = Topic { when: When::At(Span::new(Ts(0), Ts(5))), ..topic(5) };
        pane.freeze(Span::new(Ts(0), Ts(5)));
        assert!(pane.is_due(&held, Duration::ZERO, second), "nothing to freeze without an answer");
    }
}
