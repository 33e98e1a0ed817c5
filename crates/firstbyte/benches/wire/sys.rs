//! The unsafe code of the benchmark: an allocator that counts heap bytes.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Does not start at 0, because memory allocated before counting began may be freed.
static TAKEN: AtomicUsize = AtomicUsize::new(usize::MAX / 2);
/// Counting from several threads costs them time, so it is off until requested.
static COUNTS: AtomicBool = AtomicBool::new(false);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that glibc's malloc takes for `bytes`: 8 more, in steps of 16, and at least 32.
const fn taken_for(bytes: usize) -> usize {
    let chunk = (bytes + 8).next_multiple_of(16);
    if chunk < 32 { 32 } else { chunk }
}

// SAFETY: every call is passed unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            TAKEN.fetch_add(taken_for(layout.size()), Relaxed);
        }
        // SAFETY: the caller guarantees the system allocator's requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            TAKEN.fetch_add(taken_for(layout.size()), Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if COUNTS.load(Relaxed) {
            TAKEN.fetch_sub(taken_for(layout.size()), Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            TAKEN.fetch_add(taken_for(bytes), Relaxed);
            TAKEN.fetch_sub(taken_for(layout.size()), Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Starts counting.
pub(crate) fn count() {
    COUNTS.store(true, Relaxed);
}

/// Heap bytes in use, including malloc's overhead per allocation. Only differences between two calls are meaningful.
pub(crate) fn taken_bytes() -> usize {
    TAKEN.load(Relaxed)
}
