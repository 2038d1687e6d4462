//! Where the user is: page, filter, and per page the order and the selection. Going into a row remembers the place; going back restores it.

use crate::analysis::filter::{Clause, Filter, Term};
use crate::trace::wait::{WaitClass, WaitEvent};
use crate::ui::pages::{Page, RowKey};

/// One step of the breadcrumb: a clause of the filter with the words that stand for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crumb {
    /// The condition.
    pub clause: Clause,
    /// As shown.
    pub label: String,
}

impl Crumb {
    /// A clause with the label it has by itself.
    pub fn of(clause: Clause) -> Self {
        Self { label: clause.label(), clause }
    }

    /// One condition under a name.
    pub fn named(term: Term, label: String) -> Self {
        Self { clause: Clause { exclude: false, any: vec![term] }, label }
    }

    /// As text in the filter prompt: events by their name rather than by number.
    pub fn text(&self) -> String {
        match self.clause.any.as_slice() {
            [Term::Event(_)] => Clause { exclude: self.clause.exclude, any: vec![Term::EventNamed(self.label.clone())] }.to_string(),
            _ => self.clause.to_string(),
        }
    }
}

/// How a page's rows are ordered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sort {
    /// Title of the column; `None`: as the answer has them, largest load first.
    pub column: Option<&'static str>,
    /// The other way round.
    pub reversed: bool,
}

/// Order, selection and scroll position of one page.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct View {
    /// The order.
    pub sort: Sort,
    /// What is selected.
    pub selected: Option<RowKey>,
    /// Its place among the rows shown.
    pub index: usize,
    /// First row on the screen.
    pub offset: usize,
}

/// Where the user is in the flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stream {
    /// The event in the middle; `None`: not chosen yet.
    pub centre: Option<WaitEvent>,
    /// The column with the selection.
    pub side: Side,
}

/// Columns of the flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Side {
    /// What came before.
    Before,
    /// All events, one of which is in the middle.
    #[default]
    Centre,
    /// What came after.
    After,
}

/// A page with its filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The page.
    pub page: Page,
    /// The filter, step by step.
    pub crumbs: Vec<Crumb>,
    /// Words that rows must contain; they narrow what is listed, not what is added up.
    pub words: Vec<String>,
    /// The flow.
    pub stream: Stream,
    /// One per page.
    views: [View; Page::ALL.len()],
}

impl Place {
    /// At a page with a filter.
    pub fn new(page: Page, filter: Filter) -> Self {
        Self {
            page,
            crumbs: filter.clauses.into_iter().map(Crumb::of).collect(),
            words: Vec::new(),
            stream: Stream::default(),
            views: Default::default(),
        }
    }

    /// The filter.
    pub fn filter(&self) -> Filter {
        Filter { clauses: self.crumbs.iter().map(|c| c.clause.clone()).collect() }
    }

    /// Whether everything is shown.
    pub fn is_whole(&self) -> bool {
        self.crumbs.is_empty() && self.words.is_empty()
    }

    /// The view of the present page.
    pub fn view(&self) -> View {
        self.views.get(self.page.index()).copied().unwrap_or_default()
    }

    /// The view of the present page, to be changed.
    pub fn view_mut(&mut self) -> Option<&mut View> {
        self.views.get_mut(self.page.index())
    }

    /// The class all rows are of, when the filter says one.
    pub fn class(&self) -> Option<WaitClass> {
        let of = |c: &Crumb| match c.clause.any.as_slice() {
            [Term::Class(class)] if !c.clause.exclude => Some(*class),
            [Term::Event(event)] if !c.clause.exclude => Some(event.class()),
            [Term::EventNamed(name)] if !c.clause.exclude => name.split(':').next().and_then(WaitClass::parse),
            _ => None,
        };
        self.crumbs.iter().rev().find_map(of)
    }

    /// Whether a condition on `like`'s dimension is set that one row of such a page cannot narrow further.
    pub fn fixes(&self, like: Dimension) -> bool {
        self.crumbs.iter().any(|c| !c.clause.exclude && matches!(c.clause.any.as_slice(), [term] if Dimension::of(term) == Some(like)))
    }

    /// Selections are forgotten: the rows will be others.
    pub fn reset_selection(&mut self) {
        for view in &mut self.views {
            *view = View { sort: view.sort, ..View::default() };
        }
        self.stream = Stream::default();
    }
}

/// What drilling down fixes, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// One wait event.
    Event,
    /// One session.
    Session,
    /// One query.
    Query,
}

impl Dimension {
    /// The dimension a condition fixes.
    pub fn of(term: &Term) -> Option<Self> {
        match term {
            // CPU* is a class of one event.
            Term::Event(_) | Term::EventNamed(_) | Term::Class(WaitClass::Cpu) => Some(Self::Event),
            Term::Session(_) | Term::Pid(_) => Some(Self::Session),
            Term::Query(_) => Some(Self::Query),
            _ => None,
        }
    }

    /// The page that lists it.
    pub fn page(self) -> Page {
        match self {
            Self::Event => Page::Events,
            Self::Session => Page::Sessions,
            Self::Query => Page::Queries,
        }
    }
}
