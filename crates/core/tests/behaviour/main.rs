//! How the policies and the engine behave, on observations made by hand and on a tiny machine that knows
//! its own truth.

#![allow(clippy::unwrap_used)] // Helpers outside #[test] functions unwrap too.

mod adaptive;
mod baselines;
mod engine;
mod giant;
mod mega;
mod observations;
mod one_price;
mod payback;
mod promise;
mod properties;
mod stubborn;
mod tiny_machine;
mod touches;
mod trident;
mod trident_1g_only;
mod unmet;
mod worth;
