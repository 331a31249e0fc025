//! The wall clock that every backend asks for dates, so that retention means the same everywhere; and the
//! monotonic clock of deadlines and durations.

use idmatch_model::SeenAt;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The present instant. A clock set to before 1970 counts as 1970.
#[expect(clippy::disallowed_methods, reason = "the door to the clock")]
pub fn now() -> SeenAt {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    SeenAt::from_millis(millis).unwrap_or(SeenAt::EPOCH)
}

/// The present instant of the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "the door to the clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
