//! Waits until a moment, to the microsecond and without a busy loop.

use std::time::{Duration, Instant};

/// Lets this thread wake up within a microsecond of when it asked to, instead of 50.
pub(crate) fn wake_exactly() {
    // SAFETY: changes one number of the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000 as libc::c_ulong) };
}

/// Sleeps until shortly before a moment, then spins. The sleep ends at an absolute time, so a
/// preemption before it starts delays nothing.
pub(crate) fn wait_until(moment: Instant, spin: Duration) {
    let left = moment.saturating_duration_since(Instant::now()).saturating_sub(spin);
    if !left.is_zero() {
        let until = now() + left;
        let until = libc::timespec {
            tv_sec: until.as_secs() as libc::time_t,
            tv_nsec: until.subsec_nanos().into(),
        };
        // SAFETY: `until` lives through the call, and no remaining time is requested.
        // A signal may end the sleep early; the spin loop waits for the rest.
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &until,
                std::ptr::null_mut(),
            )
        };
    }
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}

fn now() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `now` only.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Processor time that this process has used.
pub(crate) fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time` only.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
