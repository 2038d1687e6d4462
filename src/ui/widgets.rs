//! Pieces of the screen. They know data and styles, nothing of each other, and change nothing.

pub mod bar;
pub mod crumbs;
pub mod detail;
pub mod flow;
pub mod footer;
pub mod health;
pub mod help;
pub mod latency;
pub mod lines;
pub mod matrix;
pub mod notice;
pub mod palette;
pub mod popup;
pub mod precise;
pub mod preview;
pub mod prompt;
pub mod spark;
pub mod status;
pub mod table;
pub mod tabs;
pub mod themes;
