//! Integration tests: pictures and pages as a caller gets them.

mod markup;
mod page;
mod pictures;
