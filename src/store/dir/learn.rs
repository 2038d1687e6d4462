//! Names for a window: the catalog as the files that meet it tell it.

use super::{Dir, Entry, touches};
use crate::store::file::{Group, Hole, Index};
use crate::store::sidecars;
use crate::trace::catalog::{BackendKind, Catalog, News, Server, Session};
use crate::trace::clock::Span;
use crate::trace::codec::notes;
use crate::trace::record::SessionId;

impl Dir {
    /// Learns the names of a window, as they were at its end. Call it before a question is asked about another window, or after [`Dir::refresh`].
    pub fn narrow(&mut self, window: Span) {
        let mut wanted = Vec::new();
        for entry in self.files.iter().filter(|e| touches(e.span(), window)) {
            let index = self.index(entry);
            let told = |g: &&Group| entry.global(g.span.start) <= window.end;
            let n = if index.ours() { index.names.iter().take_while(told).count() } else { index.pids.len() + 1 };
            wanted.push((entry.id, n));
        }
        if wanted.is_empty() || wanted == self.learned {
            return;
        }
        let goes_on = self.learned.iter().zip(&wanted).enumerate().all(|(i, (a, b))| {
            let last = i + 1 == self.learned.len();
            a.0 == b.0 && (a.1 == b.1 || (last && a.1 < b.1))
        });
        if !goes_on || self.learned.is_empty() || self.learned.len() > wanted.len() {
            self.catalog = Catalog::default();
            self.learned.clear();
        }
        let mut news = Vec::new();
        for (i, (id, n)) in wanted.iter().enumerate() {
            let done = self.learned.get(i).map_or(0, |l| l.1);
            let Some(entry) = self.files.iter().find(|e| e.id == *id).filter(|_| done < *n) else { continue };
            let index = self.index(entry);
            self.introduce(entry, &index);
            let told = news.len();
            if index.ours() {
                let groups = index.names.get(done..*n).unwrap_or_default();
                for group in groups {
                    self.read_names(entry, &index, *group, &mut news);
                }
            } else {
                self.read_sidecars(entry, &index, &mut news);
            }
            if let Some(numbers) = self.renumbered(entry) {
                let of_this = news.split_off(told);
                news.extend(of_this.into_iter().map(|one| numbers.news(one)));
            }
        }
        for one in news {
            let versions = matches!(one, News::Events(_));
            self.catalog.learn(one);
            if versions {
                let others: Vec<News> = self.other_names().collect();
                for other in others {
                    self.catalog.learn(other);
                }
            }
        }
        self.learned = wanted;
    }

    fn read_names(&self, entry: &Entry, index: &Index, group: Group, news: &mut Vec<News>) {
        let run = entry.run(index);
        match entry.file.note(group, notes::read_names) {
            Ok(told) => {
                let mut inner = self.inner();
                news.extend(told.into_iter().map(|one| match one {
                    News::Session(number, mut s) => {
                        s.seen = entry.global(s.seen);
                        News::Session(inner.roster.introduce(run, number, s.pid, s.started), s)
                    }
                    News::Activity(number, a) => News::Activity(inner.roster.id(run, number), a),
                    News::Gone(number) => News::Gone(inner.roster.id(run, number)),
                    other => other,
                }));
            }
            Err(why) => {
                let hole = Hole { span: group.span, why: format!("the names at byte {}: {why}", group.offset) };
                self.inner().broken.insert((entry.id, group.offset), hole);
            }
        }
    }

    /// Of a file of another program: names from the files beside it, as far as they are there.
    fn read_sidecars(&self, entry: &Entry, index: &Index, news: &mut Vec<News>) {
        let major = entry.file.header.major();
        news.push(News::Server(Server { major, ..Server::default() }));
        news.push(News::Events(self.foreign_events(entry)));
        let mut known = sidecars::backends(&self.path);
        for pid in index.pids.iter().filter(|p| **p != 0) {
            let unknown = || Session { pid: *pid as i32, server_pid: *pid as i32, kind: BackendKind::Client, ..Session::default() };
            let session = known.remove(pid).unwrap_or_else(unknown);
            let id = self.inner().roster.id(0, SessionId(*pid));
            news.push(News::Session(id, Box::new(session)));
        }
        news.extend(sidecars::queries(&self.path).into_iter().map(|(id, q)| News::Query(id, q)));
    }
}
