//! What of this has to be unsafe: an allocator that counts what is taken from the heap.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Not from 0: what was taken before anything counted may be given back.
static TAKEN: AtomicUsize = AtomicUsize::new(usize::MAX / 2);
/// What several threads count together costs them time: only where it is asked for.
static COUNTS: AtomicBool = AtomicBool::new(false);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What glibc's malloc takes for `bytes`: 8 more, in steps of 16, and 32 at least.
const fn taken_for(bytes: usize) -> usize {
    let chunk = (bytes + 8).next_multiple_of(16);
    if chunk < 32 { 32 } else { chunk }
}

// SAFETY: every call is handed to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            TAKEN.fetch_add(taken_for(layout.size()), Relaxed);
        }
        // SAFETY: the caller's promises are the system's conditions.
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

/// Counts from now on.
pub(crate) fn count() {
    COUNTS.store(true, Relaxed);
}

/// Bytes that are taken from the heap now, what malloc adds to each allocation among them: how many more
/// than at another time.
pub(crate) fn taken_bytes() -> usize {
    TAKEN.load(Relaxed)
}
