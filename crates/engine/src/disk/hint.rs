//! A hint to the processor's cache.

/// Starts fetching the cache line at `offset`; outside of `bytes` it does nothing.
#[inline(always)]
pub fn prefetch(bytes: &[u8], offset: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(offset) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing; the address is inside a live slice; SSE is part
        // of every x86-64.
        #[allow(unsafe_code, reason = "there is no safe prefetch")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, offset);
}
