"""The system calls that a submission may make, as a filter that the kernel holds it to.

They are those that Python needs to import its library, to work in memory and in a scratch folder,
and to run threads and event loops. All others are refused, including those of newer kernels: so no
new process, no other program, no network, no namespaces, no other processor, no store that the
whole machine shares, and no memory that limits do not count.

Workers follow each other, and one may try to leave a mark for the next. So no call remains that
changes what a file or a device is like (its times, its locks), or that says whether the machine has
a page in memory (`preadv2`, `mincore`, page faults in `getrusage`) or makes it drop one. Files and
users have walls of their own, see `labkit.isolation.walls`.
"""

import ctypes
import errno
import os
import struct

# By machine: how the kernel calls it, and which column of the table is its own.
MACHINES = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}
# A call, its number on x86_64, its number on aarch64; "-" where it lacks the call.
ALLOWED = """
# The pipe, and files.
read 0 63
write 1 64
close 3 57
lseek 8 62
pread64 17 67
pwrite64 18 68
readv 19 65
writev 20 66
preadv 295 69
pwritev 296 70
open 2 -
openat 257 56
creat 85 -
stat 4 -
lstat 6 -
fstat 5 80
newfstatat 262 79
statx 332 291
access 21 -
faccessat 269 48
faccessat2 439 439
readlink 89 -
readlinkat 267 78
getdents 78 -
getdents64 217 61
statfs 137 43
fstatfs 138 44
getcwd 79 17
chdir 80 49
fchdir 81 50
umask 95 166
dup 32 23
dup2 33 -
dup3 292 24
close_range 436 436
fcntl 72 25
ioctl 16 29
# The scratch folder.
truncate 76 45
ftruncate 77 46
mkdir 83 -
mkdirat 258 34
rmdir 84 -
unlink 87 -
unlinkat 263 35
rename 82 -
renameat 264 38
renameat2 316 276
# Event loops.
pipe 22 -
pipe2 293 59
eventfd2 290 19
socketpair 53 199
sendto 44 206
recvfrom 45 207
shutdown 48 210
getsockopt 55 209
getsockname 51 204
getpeername 52 205
poll 7 -
ppoll 271 73
select 23 -
pselect6 270 72
epoll_create 213 -
epoll_create1 291 20
epoll_ctl 233 21
epoll_wait 232 -
epoll_pwait 281 22
epoll_pwait2 441 441
# Memory.
brk 12 214
mmap 9 222
munmap 11 215
mremap 25 216
mprotect 10 226
madvise 28 233
# Threads.
clone 56 220
futex 202 98
set_robust_list 273 99
rseq 334 293
membarrier 324 283
sched_yield 24 124
sched_getaffinity 204 123
gettid 186 178
exit 60 93
exit_group 231 94
# Time.
clock_gettime 228 113
clock_getres 229 114
clock_nanosleep 230 115
nanosleep 35 101
gettimeofday 96 169
time 201 -
times 100 153
setitimer 38 103
getitimer 36 102
alarm 37 -
restart_syscall 219 128
# Signals.
rt_sigaction 13 134
rt_sigprocmask 14 135
rt_sigreturn 15 139
rt_sigpending 127 136
rt_sigsuspend 130 133
rt_sigtimedwait 128 137
rt_sigqueueinfo 129 138
sigaltstack 131 132
pause 34 -
kill 62 129
tgkill 234 131
# What the process is.
getpid 39 172
getppid 110 173
getuid 102 174
geteuid 107 175
getgid 104 176
getegid 108 177
getresuid 118 148
getresgid 120 150
getgroups 115 158
getrlimit 97 163
setrlimit 160 164
prlimit64 302 261
prctl 157 167
uname 63 160
getcpu 309 168
getrandom 318 278
"""
_ALL, _CLONE_THREAD, _MAP_HUGETLB, _SOCK_KINDS, _SOCK_STREAM = 0xFFFFFFFF, 0x10000, 0x40000, 0xF, 1
_SELF = -1
_PRIVATE_FUTEXES, _WAIT, _WAKE, _WAIT_BITSET = range(0x80, 0x8E), 0, 1, 9
# musl wakes its own threads so.
_IS_GLIBC = "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", ())
_WAKES = () if _IS_GLIBC and os.confstr("CS_GNU_LIBC_VERSION") else (_WAKE,)
_CLOCKS = (0, _ALL, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11))
# For some calls an argument decides: its place, the bits that count, and the allowed values;
# `_SELF` is the number of this process.
_ONLY = {
    # A new thread is allowed, a new process is not.
    "clone": (0, _CLONE_THREAD, (_CLONE_THREAD,)),
    # A pair of streams is connected for good; other kinds of pairs could still send elsewhere.
    "socketpair": (1, _SOCK_KINDS, (_SOCK_STREAM,)),
    # Type, error, protocol, domain: not the cookie, which the machine counts.
    "getsockopt": (2, _ALL, (3, 4, 38, 39)),
    # Copies of a descriptor, its flags, and the size of a pipe's buffer: no locks, and no larger
    # buffers, which no limit of a process counts.
    "fcntl": (1, _ALL, (0, 1, 2, 3, 4, 1030, 1032)),
    # Whether it is a terminal and how large, how much can be read, and the flags of a descriptor.
    "ioctl": (1, _ALL, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
    # Large pages are a store of the machine.
    "mmap": (3, _MAP_HUGETLB, (0,)),
    # For the process's own pages only: no advice that fetches or drops pages of a file, or shares
    # equal pages.
    "madvise": (2, _ALL, (0, 4, 8, 10, 11, 14, 15, 16, 17, 102, 103)),
    "membarrier": (0, _ALL, (8, 16)),
    # Futexes of this process only; and waiting, as for a thread to end. All processes that map a
    # page of a file share a futex in it.
    "futex": (1, 0xFF, (*_PRIVATE_FUTEXES, _WAIT, _WAIT_BITSET, *_WAKES)),
    # The names of threads and of memory. PR_SET_PDEATHSIG would let a worker outlive its keeper.
    "prctl": (0, _ALL, (15, 16, 0x53564D41)),
    # A number below zero is the clock of some process.
    "clock_gettime": _CLOCKS,
    "clock_getres": _CLOCKS,
    "clock_nanosleep": _CLOCKS,
    # For other processes, it could learn whether they exist.
    "kill": (0, _ALL, (_SELF,)),
    "tgkill": (0, _ALL, (_SELF,)),
    "rt_sigqueueinfo": (0, _ALL, (_SELF,)),
    "sched_getaffinity": (0, _ALL, (0, _SELF)),
    "prlimit64": (0, _ALL, (0, _SELF)),
}
# From here on, both machines have the same numbers. If a new call is reported as missing, the C
# library makes an older call; so it does without clone3, whose argument a filter cannot inspect.
_NEW, _X32 = 424, 0x40000000
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_KILL, _ALLOW, _ERROR = 0x80000000, 0x7FFF0000, 0x00050000
# Offsets in the data of a call; for arguments, the low half.
_NUMBER, _MACHINE, _FIRST, _SIZE = 0, 4, 16, 8
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2


def refuse_calls() -> None:
    """Hold this process to the filter, for good.

    Raises:
        OSError: the kernel has no such filters, or the numbers are not known for this machine.
    """
    machine = os.uname().machine
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"the numbers of the system calls are not known for {machine}")
    program = _program(*MACHINES[machine], os.getpid())
    code = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, *values in [(_PR_SET_NO_NEW_PRIVS, 1, 0), (_PR_SET_SECCOMP, _FILTER, fprog)]:
        if libc.prctl(option, *values, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"system calls cannot be filtered: {os.strerror(number)}")


def _program(machine: int, column: int, process: int) -> bytes:
    rows = [row.split() for row in ALLOWED.splitlines() if row and not row.startswith("#")]
    numbers = {row[0]: int(row[column]) for row in rows if row[column] != "-"}
    steps = [
        *[_step(_LOAD, _MACHINE), _step(_EQUAL, machine, 1, 0), _step(_RETURN, _KILL)],
        _step(_LOAD, _NUMBER),
    ]
    for name in (name for name in numbers if name not in _ONLY):
        steps += _if(_EQUAL, numbers[name], _ALLOW)
    for name, (place, bits, values) in _ONLY.items():
        own = [_step(_LOAD, _FIRST + _SIZE * place), _step(_AND, bits)]
        for value in values:
            own += _if(_EQUAL, process if value == _SELF else value, _ALLOW)
        own.append(_step(_RETURN, _ERROR | errno.EPERM))
        steps += [_step(_EQUAL, numbers[name], 0, len(own)), *own]
    # The x32 calls of x86_64 have numbers of their own.
    steps += _if(_AT_LEAST, _X32, _ERROR | errno.EPERM)
    steps += _if(_AT_LEAST, _NEW, _ERROR | errno.ENOSYS)
    return b"".join([*steps, _step(_RETURN, _ERROR | errno.EPERM)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("@HBBI", code, if_true, if_false, value)


def _if(test: int, value: int, answer: int) -> list[bytes]:
    return [_step(test, value, 0, 1), _step(_RETURN, answer)]
