//! Files and tables as users have them, and predictors judged on rows that they never saw.

mod accuracy;
mod engines;
mod sheets;
mod synthetic;
