//! The filter as typed: conditions the filter language knows, and plain words that narrow the rows. Pure text in, crumbs and words out.

use crate::analysis::filter::Filter;
use crate::ui::state::place::{Crumb, Place};

/// What a prompt's text says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    /// Conditions.
    pub crumbs: Vec<Crumb>,
    /// Words.
    pub words: Vec<String>,
    /// The first thing that is neither.
    pub error: Option<String>,
}

/// The text that stands for a place's filter.
pub fn text(place: &Place) -> String {
    let conditions = place.crumbs.iter().map(Crumb::text);
    let words = place.words.iter().map(|w| if w.contains(char::is_whitespace) || means_filter(w) { format!("\"{w}\"") } else { w.clone() });
    conditions.chain(words).collect::<Vec<_>>().join(" ")
}

/// Reads a prompt's text. Conditions that stand as they are in `place` keep their labels.
pub fn read(text: &str, place: &Place) -> Typed {
    let mut typed = Typed::default();
    for token in tokens(text) {
        if let Some(crumb) = place.crumbs.iter().find(|c| c.text() == token) {
            typed.crumbs.push(crumb.clone());
            continue;
        }
        if let Some(word) = token.strip_prefix('"') {
            typed.words.push(word.trim_end_matches('"').to_owned());
            continue;
        }
        match Filter::parse(token) {
            Ok(filter) => typed.crumbs.extend(filter.clauses.into_iter().map(Crumb::of)),
            Err(_) if !means_filter(token) => typed.words.push(token.to_owned()),
            Err(error) => typed.error = typed.error.or(Some(error)),
        }
    }
    typed.words.retain(|w| !w.is_empty());
    typed
}

/// Whether a word can only be meant as a condition, so that failing to read it is a mistake.
fn means_filter(token: &str) -> bool {
    token.contains('=') || token.starts_with('!') || Filter::parse(token).is_ok()
}

/// Splits at spaces outside of double quotes.
fn tokens(text: &str) -> Vec<&str> {
    let (mut tokens, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                tokens.extend(text.get(start..i));
                start = i + c.len_utf8();
            }
            _ => {}
        }
    }
    tokens.extend(text.get(start..));
    tokens.retain(|t| !t.is_empty());
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::filter::Term;
    use crate::trace::wait::WaitEvent;
    use crate::ui::pages::Page;

    fn empty() -> Place {
        Place::new(Page::Time, Filter::default())
    }

    #[test]
    fn conditions_and_words_are_told_apart() {
        let typed = read("class=Lock update app=\"nightly job\" \"from a\" 4711", &empty());
        assert_eq!(typed.words, ["update", "from a"]);
        assert_eq!(typed.crumbs.iter().map(|c| c.label.as_str()).collect::<Vec<_>>(), ["Lock", "app nightly job", "pid 4711"]);
        assert_eq!(typed.error, None);
    }

    #[test]
    fn what_must_be_a_condition_and_is_none_is_an_error() {
        assert!(read("clas=Lock", &empty()).error.unwrap().contains("nearest: class"));
        assert!(read("pid=x", &empty()).error.is_some());
        assert!(read("!nonsense", &empty()).error.is_some());
        assert_eq!(read("schema:table", &empty()).words, ["schema:table"], "SQL has colons too");
    }

    #[test]
    fn the_text_of_a_place_reads_back_with_its_labels() {
        let mut place = empty();
        place.crumbs.push(Crumb::named(Term::Event(WaitEvent(0x0300_0005)), "Lock:transactionid".into()));
        place.crumbs.push(Crumb::named(Term::Pid(4711), "pid 4711 (app@shop)".into()));
        place.words = vec!["a b".into(), "lock".into(), "x".into()];
        let text = text(&place);
        assert_eq!(text, "event=Lock:transactionid pid=4711 \"a b\" \"lock\" x");
        let typed = read(&text, &place);
        assert_eq!((typed.crumbs, typed.words), (place.crumbs, place.words));
    }
}
