//! Files and tables as users have them.

mod sheets;
