//! Who connects.

use std::fmt;

/// User and password. The password is not shown.
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
