//! Kills a process right before one of its system calls. The process asks to be traced by the thread that started it,
//! and stops; from there on its system calls are counted.
#![allow(unsafe_code, reason = "a process is traced by system calls that have no safe wrapper")]

use std::process::Command;

use libc::{c_int, pid_t};

/// Makes the thread that started this process trace the calling thread, and starts counting.
pub(crate) fn begin() {
    // SAFETY: neither call takes a pointer; the parent waits for the stop.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), 0, "{}", std::io::Error::last_os_error());
        libc::raise(libc::SIGSTOP);
    }
}

/// Ends the count: the operation is done, and its caller has its answer.
pub(crate) fn end() -> ! {
    // SAFETY: no pointer is involved.
    unsafe { libc::raise(libc::SIGSTOP) };
    unreachable!("the parent kills the process here")
}

/// Which system calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Those that may change something on the disk, or a lock.
    Changing,
    /// All of them.
    All,
}

impl Calls {
    fn count(self, number: i64) -> bool {
        let read_only = [
            libc::SYS_read,
            libc::SYS_pread64,
            libc::SYS_statx,
            libc::SYS_fstat,
            libc::SYS_newfstatat,
            libc::SYS_lseek,
            libc::SYS_getdents64,
            libc::SYS_readlinkat,
            libc::SYS_mmap,
            libc::SYS_munmap,
            libc::SYS_mremap,
            libc::SYS_mprotect,
            libc::SYS_madvise,
            libc::SYS_brk,
            libc::SYS_futex,
            libc::SYS_getrandom,
            libc::SYS_getpid,
            libc::SYS_gettid,
            libc::SYS_geteuid,
            libc::SYS_clock_gettime,
            libc::SYS_clock_nanosleep,
            libc::SYS_sched_getaffinity,
            libc::SYS_sched_yield,
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_sigaltstack,
            libc::SYS_openat2,
        ];
        self == Calls::All || !read_only.contains(&number)
    }
}

/// Where a process was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Killed {
    /// Before the requested system call, which has this number.
    Before(i64),
    /// At its end, after this many calls.
    AtTheEnd(usize),
}

/// Starts a process, and kills it right before its system call number `index`, counted from 0, or at its end.
pub(crate) fn kill(command: &mut Command, calls: Calls, index: usize) -> Killed {
    #[allow(clippy::zombie_processes, reason = "it is waited for below, along with its threads")]
    let child = command.spawn().unwrap();
    let pid = pid_t::try_from(child.id()).unwrap();
    let (mut count, mut has_begun, mut killed) = (0, false, None);
    loop {
        let (thread, status) = wait();
        let ended = libc::WIFEXITED(status) || libc::WIFSIGNALED(status);
        if ended {
            if thread == pid {
                return killed
                    .unwrap_or_else(|| panic!("the process ended before it was killed: {status:#x}"));
            }
            continue;
        }
        if killed.is_some() {
            continue;
        }
        let mut signal = 0;
        match libc::WSTOPSIG(status) {
            libc::SIGSTOP if !has_begun => {
                has_begun = true;
                let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
                // SAFETY: the options are a number.
                unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, thread, 0, options) };
            }
            libc::SIGSTOP => killed = Some(Killed::AtTheEnd(count)),
            stop_signal if stop_signal == libc::SIGTRAP | 0x80 => {
                if let Some(number) = entered(thread).filter(|&number| calls.count(number)) {
                    if count == index {
                        killed = Some(Killed::Before(number));
                    }
                    count += 1;
                }
            }
            other_signal => signal = other_signal,
        }
        // SAFETY: the process is a child of this one that hasn't been waited for; a signal is a number.
        unsafe {
            match killed {
                Some(_) => assert_eq!(libc::kill(pid, libc::SIGKILL), 0),
                None => assert_eq!(libc::ptrace(libc::PTRACE_SYSCALL, thread, 0, signal), 0),
            }
        }
    }
}

/// Waits for a process that this thread has started, or for one of its threads.
fn wait() -> (pid_t, c_int) {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if thread > 0 {
            return (thread, status);
        }
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "{error}");
    }
}

/// The system call that a thread is about to make; `None` if it returns from one.
fn entered(thread: pid_t) -> Option<i64> {
    // SAFETY: zeros are a value of this plain struct, and the kernel writes at most its size.
    unsafe {
        let mut info: libc::ptrace_syscall_info = std::mem::zeroed();
        let size = size_of_val(&info);
        let written = libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, size, &raw mut info);
        assert!(written > 0, "{}", std::io::Error::last_os_error());
        (info.op == libc::PTRACE_SYSCALL_INFO_ENTRY).then(|| i64::try_from(info.u.entry.nr).unwrap())
    }
}
