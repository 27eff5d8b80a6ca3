//! Files and tables as users have them, and predictors judged on rows that they never saw.

mod accuracy;
mod sheets;
mod synthetic;
