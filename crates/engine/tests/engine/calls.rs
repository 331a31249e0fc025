//! Calls that are cancelled in the middle, or whose deadline has passed, and what they leave.
