//! Sees every batch on its way, on the capture thread: keeps the account on the board fresh and hands the blocks to the meter. Waits for nobody.

use super::board::{Account, Board, Windows, Written};
use crate::trace::catalog::News;
use crate::trace::health::WindowHealth;
use crate::trace::recent::Batch;
use crate::trace::record::SessionId;
use crossbeam_channel::{Sender, TrySendError};
use std::sync::Arc;

/// The capture thread's end.
#[derive(Debug)]
pub struct Eye {
    board: Arc<Board>,
    meter: Sender<Batch>,
    account: Account,
    window: Option<WindowHealth>,
    newest: Option<SessionId>,
    /// Names that did not reach the meter yet.
    news: Vec<News>,
}

/// Names kept for a meter that does not keep up.
const MOST_NEWS: usize = 100_000;

impl Eye {
    /// Writes on a board, and sends to a meter.
    pub fn new(board: Arc<Board>, meter: Sender<Batch>) -> Self {
        Self { board, meter, account: Account::default(), window: None, newest: None, news: Vec::new() }
    }

    /// Looks at a batch.
    pub fn see(&mut self, batch: &Batch, written: Option<Written>) {
        for news in &batch.news {
            match news {
                News::Server(server) => self.account.server = Arc::new(server.clone()),
                // What is told of a session again is no new session.
                News::Session(id, _) if self.newest.is_none_or(|newest| *id > newest) => {
                    self.newest = Some(*id);
                    self.account.lifecycle += 1;
                }
                News::Gone(_) => self.account.lifecycle += 1,
                _ => {}
            }
        }
        self.account.samples += batch.block.iter().flat_map(|b| b.records()).map(|r| u64::from(r.samples)).sum::<u64>();
        self.account.windows.follow(self.window.as_ref(), batch.health.window.as_ref());
        self.window.clone_from(&batch.health.window);
        self.meter(batch);
        self.account.health.clone_from(&batch.health);
        self.account.written = written;
        self.board.replace(self.account.clone());
    }

    /// Hands the blocks over, and of the names what time is counted by.
    fn meter(&mut self, batch: &Batch) {
        let counts = |n: &&News| matches!(n, News::Server(_) | News::Events(_) | News::Event(..) | News::Session(..) | News::Gone(_));
        self.news.extend(batch.news.iter().filter(counts).cloned());
        let news = std::mem::take(&mut self.news);
        let copy = Batch {
            block: batch.block.clone(),
            intervals: batch.intervals.clone(),
            news,
            health: batch.health.clone(),
            clock: batch.clock,
            ..Batch::default()
        };
        if let Err(TrySendError::Full(copy) | TrySendError::Disconnected(copy)) = self.meter.try_send(copy) {
            self.news = copy.news;
            let over = self.news.len().saturating_sub(MOST_NEWS);
            self.news.drain(..over);
            for block in copy.block.into_iter().chain(copy.intervals) {
                self.account.unmetered_blocks += 1;
                self.account.unmetered_records += block.len() as u64;
            }
        }
    }
}

impl Windows {
    /// Adds what a window's account has more than before. One that has less, or is of another tier, is another window.
    pub fn follow(&mut self, before: Option<&WindowHealth>, now: Option<&WindowHealth>) {
        let Some(now) = now else { return };
        let goes_on = |b: &&WindowHealth| {
            b.tier == now.tier
                && (b.open || !now.open)
                && b.records <= now.records
                && b.born <= now.born
                && b.lost_records <= now.lost_records
        };
        let before = before.filter(goes_on);
        self.opened += u64::from(before.is_none());
        let more = |of: fn(&WindowHealth) -> u64| of(now).saturating_sub(before.map_or(0, of));
        self.records += more(|w| w.records);
        self.lost += more(|w| w.lost_records);
        self.refused += more(|w| u64::from(w.unarmed));
        self.missed += more(|w| w.missed);
        self.repaired += more(|w| w.repaired);
        self.faults += more(|w| w.faults);
        self.odd += more(|w| w.odd_switches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_add_up_and_none_counts_twice() {
        let account = |open, records, unarmed| Some(WindowHealth { open, unarmed, records, ..WindowHealth::default() });
        let mut sum = Windows::default();
        let mut before = None;
        for now in [
            None,
            account(true, 10, 2),
            account(true, 25, 1),
            account(false, 30, 1),
            account(false, 30, 1),
            // The same tier once more, before and after it has seen more than the one before.
            account(true, 40, 0),
            account(false, 40, 0),
            account(true, 1, 3),
        ] {
            sum.follow(before.as_ref(), now.as_ref());
            before = now;
        }
        assert_eq!(sum, Windows { opened: 3, records: 30 + 40 + 1, refused: 2 + 3, ..Windows::default() });
    }
}
