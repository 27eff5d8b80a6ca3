//! Recordings of a program that runs on a CUPTI without a GPU.

mod counted;
mod damaged;
mod faults;
mod gpm;
mod graphs;
mod kill;
mod live;
mod program;
mod recorded;
