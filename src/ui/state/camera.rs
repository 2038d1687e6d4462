//! Which stretch of time is looked at. Live: the last so many seconds, moving. Paused: one stretch, and nothing moves it but the user.

use crate::trace::clock::{SECOND, Span, Ts};

/// Lengths that zooming goes through, seconds.
const LENGTHS: [u64; 12] = [10, 30, 60, 120, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400];
/// Shortest stretch a drag can choose: below it samples say nothing.
pub const SHORTEST: u64 = SECOND;
/// Lengths that differ by less than one part in so many are the same.
const NEAR: u64 = 100;
/// Windows remembered for going back.
const REMEMBERED: usize = 10;

/// Whether the picture moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It ends at the newest data.
    Live,
    /// It shows this stretch.
    Paused(Span),
}

/// The window, and those before it.
#[derive(Debug, Clone)]
pub struct Camera {
    /// Length of the window, nanoseconds.
    pub length: u64,
    /// Live or paused.
    pub hold: Hold,
    before: Vec<(u64, Hold)>,
}

impl Camera {
    /// Follows the last `length` nanoseconds.
    pub fn live(length: u64) -> Self {
        Self { length: length.max(SHORTEST), hold: Hold::Live, before: Vec::new() }
    }

    /// Stands still on a stretch, if there is one, else follows.
    pub fn at(length: u64, span: Option<Span>) -> Self {
        let mut this = Self::live(length);
        if let Some(span) = span {
            this.still(span);
        }
        this
    }

    /// The stretch it stands still on.
    pub fn held(&self) -> Option<Span> {
        match self.hold {
            Hold::Live => None,
            Hold::Paused(span) => Some(span),
        }
    }

    /// Stands still on `span`, remembering what was before.
    pub fn hold(&mut self, span: Span) {
        self.remember();
        self.still(span);
    }

    /// Stands still on `span` without remembering: stopping and stepping are not zooms.
    pub fn still(&mut self, span: Span) {
        self.length = span.len().max(SHORTEST);
        self.hold = Hold::Paused(Span::new(span.start, span.start + self.length));
    }

    /// Follows time again with the present length, or the usual one it was before it was divided into buckets.
    pub fn follow(&mut self) {
        self.hold = Hold::Live;
        let near = |l: &u64| l.abs_diff(self.length) < self.length / NEAR;
        self.length = LENGTHS.iter().map(|s| s * SECOND).find(near).unwrap_or(self.length);
    }

    /// Back to the window before the last zoom or move.
    pub fn last(&mut self) -> bool {
        let Some((length, hold)) = self.before.pop() else { return false };
        (self.length, self.hold) = (length, hold);
        true
    }

    /// Whether [`Self::last`] leads anywhere.
    pub fn has_last(&self) -> bool {
        !self.before.is_empty()
    }

    fn remember(&mut self) {
        if self.before.len() >= REMEMBERED {
            self.before.remove(0);
        }
        self.before.push((self.length, self.hold));
    }

    /// The next shorter length.
    pub fn shorter(&self) -> Option<u64> {
        LENGTHS.iter().rev().map(|s| s * SECOND).find(|l| *l < self.length - self.length / NEAR)
    }

    /// The next longer length.
    pub fn longer(&self) -> Option<u64> {
        LENGTHS.iter().map(|s| s * SECOND).find(|l| *l > self.length + self.length / NEAR)
    }

    /// Changes the length. A window that stands still keeps `pivot` where it is on the screen, and stays before `end`.
    pub fn zoom(&mut self, length: u64, pivot: Option<Ts>, end: Ts) {
        self.remember();
        match self.hold {
            Hold::Live => self.length = length,
            Hold::Paused(span) => {
                let pivot = pivot.unwrap_or(span.start + span.len() / 2).max(span.start).min(span.end);
                let before = (pivot.since(span.start) as f64 / span.len().max(1) as f64 * length as f64) as u64;
                self.still(within(Span::new(pivot - before, pivot - before + length), end));
            }
        }
    }

    /// Moves a window that stands still by `by` nanoseconds, earlier or later, between `extent`'s start and end.
    pub fn shift(&mut self, by: i64, extent: Span) {
        let Hold::Paused(span) = self.hold else { return };
        let start =
            if by < 0 { (span.start - by.unsigned_abs()).max(extent.start.min(span.start)) } else { span.start + by.unsigned_abs() };
        self.still(within(Span::new(start, start + span.len()), extent.end.max(span.end)));
    }
}

/// `span` moved back so that it ends at `end` or before.
fn within(span: Span, end: Ts) -> Span {
    let over = span.end.since(end);
    Span::new(span.start - over, span.end - over)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(a: u64, b: u64) -> Span {
        Span::new(Ts(a * SECOND), Ts(b * SECOND))
    }

    #[test]
    fn zooming_keeps_the_cursor_in_place_and_never_passes_the_end() {
        let mut c = Camera::live(300 * SECOND);
        c.hold(span(1_000, 1_300));
        c.zoom(120 * SECOND, Some(Ts(1_250 * SECOND)), Ts(1_300 * SECOND));
        let s = c.held().unwrap();
        assert_eq!(s.len(), 120 * SECOND);
        assert!((s.start.0 as f64 / 1e9 - 1_150.0).abs() < 1.0, "{s:?}");
        c.zoom(900 * SECOND, Some(Ts(1_250 * SECOND)), Ts(1_300 * SECOND));
        assert_eq!(c.held().unwrap().end, Ts(1_300 * SECOND));
        assert!(c.last() && c.held() == Some(s));
    }

    #[test]
    fn moving_stays_inside_what_was_recorded() {
        let mut c = Camera::live(300 * SECOND);
        c.hold(span(1_000, 1_300));
        c.shift(-(150 * SECOND as i64), span(900, 1_300));
        assert_eq!(c.held(), Some(span(900, 1_200)));
        c.shift(1_000 * SECOND as i64, span(900, 1_300));
        assert_eq!(c.held(), Some(span(1_000, 1_300)));
    }

    #[test]
    fn lengths_step_from_wherever_the_window_is() {
        let mut c = Camera::live(47 * SECOND);
        assert_eq!((c.shorter(), c.longer()), (Some(30 * SECOND), Some(60 * SECOND)));
        c.length = 10 * SECOND;
        assert_eq!(c.shorter(), None);
        assert!(!c.last());
    }
}
