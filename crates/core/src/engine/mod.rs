//! The loop: observe, decide, act within budgets, verify, learn.
