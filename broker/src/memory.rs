//! The process's memory.
#![allow(
    unsafe_code,
    reason = "prctl has no safe door, and it has to be called before the allocator starts"
)]

/// The C library runs it before every other code of the program: the allocator takes its arena before `main`.
#[used]
// SAFETY: the function is of the type that the section holds, and uses nothing that is not there yet.
#[unsafe(link_section = ".preinit_array")]
static FIRST: extern "C" fn() = without_huge_pages;

/// Keeps the kernel from backing the allocator's arena with huge pages: each touched corner of it would take two megabytes.
///
/// An idle broker has 1.6 MB of anonymous memory so, and 4.9 MB when this is called in `main`; without huge pages in the
/// allocator at all records per CPU-second were the same within the noise (four runs). A kernel that refuses is no harm, nor
/// is a C library that does not know the section.
extern "C" fn without_huge_pages() {
    let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: this option takes numbers and touches no memory of ours.
    let _ = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, unused, unused, unused) };
}
