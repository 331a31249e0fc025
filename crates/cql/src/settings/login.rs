//! The credentials of a client.

use std::fmt;

/// User and password. `Debug` hides the password.
#[derive(Clone, PartialEq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?}, ..)", self.user)
    }
}
