"""The system calls that a submission may not make, as a filter that the kernel holds it to.

No new process, so that limits of one process are limits of a submission; no other program, no
network, no mounts, no namespaces, no other processor, nothing of which the machine has one store
for all, and no memory that its limits do not count.

The list names what is refused, and everything else is allowed: files and users have walls of their
own, see `labkit.isolation.walls`.
"""

import ctypes
import errno
import os
import struct

# By machine: how the kernel calls it, and which column of the table is its own.
MACHINES = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}
_CLONE = (0, 56, 220)
_SOCKETPAIR = (0, 53, 199)
_FCNTL = (0, 72, 25)
_PRCTL = (0, 157, 167)
_CLONE3 = 435
# A call, its number on x86_64, its number on aarch64; "-" where it lacks the call.
REFUSED = """
# Other processes, and other programs.
fork 57 -
vfork 58 -
execve 59 221
execveat 322 281
ptrace 101 117
process_vm_readv 310 270
process_vm_writev 311 271
kcmp 312 272
pidfd_open 434 434
pidfd_getfd 438 438
# Other namespaces and file systems.
unshare 272 97
setns 308 268
mount 165 40
umount2 166 39
pivot_root 155 41
chroot 161 51
open_tree 428 428
move_mount 429 429
fsopen 430 430
fsmount 432 432
fspick 433 433
mount_setattr 442 442
statmount 457 457
listmount 458 458
open_by_handle_at 304 265
quotactl 179 60
# The network, and sockets that have a name. A socketpair has none.
socket 41 198
connect 42 203
bind 49 200
listen 50 201
sendmsg 46 211
sendmmsg 307 269
# Other processors, and all disks.
sched_setaffinity 203 122
sync 162 81
syncfs 306 267
# Memory of the kernel, or shared, that no limit of a process counts; stores that all share.
memfd_create 319 279
memfd_secret 447 447
shmget 29 194
shmat 30 196
shmctl 31 195
msgget 68 186
msgsnd 69 189
msgrcv 70 188
msgctl 71 187
semget 64 190
semop 65 193
semtimedop 220 192
semctl 66 191
mq_open 240 180
mq_unlink 241 181
add_key 248 217
request_key 249 218
keyctl 250 219
io_setup 206 0
vmsplice 278 75
setxattr 188 5
lsetxattr 189 6
fsetxattr 190 7
setxattrat 463 463
timer_create 222 107
# Doors into the kernel that no lab needs.
bpf 321 280
perf_event_open 298 241
userfaultfd 323 282
io_uring_setup 425 425
io_uring_enter 426 426
io_uring_register 427 427
inotify_init 253 -
inotify_init1 294 26
fanotify_init 300 262
kexec_load 246 104
init_module 175 105
finit_module 313 273
modify_ldt 154 -
personality 135 92
syslog 103 116
reboot 169 142
"""
_CLONE_THREAD = 0x10000
_SOCK_STREAM, _SOCK_KINDS = 1, 0xF
# Copies of a descriptor, its flags, and the size of a pipe's buffer: no locks, which are without
# number, and no larger buffers, which no limit of a process counts.
_FCNTL_ALLOWED = (0, 1, 2, 3, 4, 1030, 1032)
# It would let a worker go on when its keeper has ended.
_PR_SET_PDEATHSIG = 1

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
# Offsets in the data of a call; of arguments, the low half.
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2


def refuse_calls() -> None:
    """Hold this process to the filter, for good.

    Raises:
        OSError: the kernel has no such filters, or the numbers are not known for this machine.
    """
    machine = os.uname().machine
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"the numbers of the system calls are not known for {machine}")
    program = _program(*MACHINES[machine])
    code = ctypes.create_string_buffer(program, len(program))
    told = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, *values in [(_PR_SET_NO_NEW_PRIVS, 1, 0), (_PR_SET_SECCOMP, _FILTER, told)]:
        if libc.prctl(option, *values, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"system calls cannot be filtered: {os.strerror(number)}")


def _program(machine: int, column: int) -> bytes:
    refuse = 0x00050000 | errno.EPERM
    steps = [
        *[_step(_LOAD, _MACHINE), *_unless(_EQUAL, machine, _KILL), _step(_LOAD, _NUMBER)],
        # The x32 calls of x86_64 have numbers of their own.
        *_if(_AT_LEAST, 0x40000000, refuse),
        # A filter cannot look into its argument; told that it is missing, the C library uses clone.
        *_if(_EQUAL, _CLONE3, 0x00050000 | errno.ENOSYS),
    ]
    for row in REFUSED.split("\n"):
        number = "-" if row.startswith("#") or not row else row.split()[column]
        if number != "-":
            steps += _if(_EQUAL, int(number), refuse)
    steps += [
        # A new thread is allowed, a new process is not.
        _step(_EQUAL, _CLONE[column], 0, 5),
        *[_step(_LOAD, _FIRST), _step(_AND, _CLONE_THREAD)],
        *[*_if(_EQUAL, 0, refuse), _step(_RETURN, _ALLOW)],
        # A pair of streams is connected for good; other kinds of pairs could still send elsewhere.
        _step(_EQUAL, _SOCKETPAIR[column], 0, 5),
        *[_step(_LOAD, _SECOND), _step(_AND, _SOCK_KINDS)],
        *[*_unless(_EQUAL, _SOCK_STREAM, refuse), _step(_RETURN, _ALLOW)],
        _step(_EQUAL, _FCNTL[column], 0, 2 * len(_FCNTL_ALLOWED) + 2),
        _step(_LOAD, _SECOND),
        *(step for command in _FCNTL_ALLOWED for step in _if(_EQUAL, command, _ALLOW)),
        _step(_RETURN, refuse),
        _step(_EQUAL, _PRCTL[column], 0, 3),
        *[_step(_LOAD, _FIRST), *_if(_EQUAL, _PR_SET_PDEATHSIG, refuse)],
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("@HBBI", code, if_true, if_false, value)


def _if(test: int, value: int, answer: int) -> list[bytes]:
    return [_step(test, value, 0, 1), _step(_RETURN, answer)]


def _unless(test: int, value: int, answer: int) -> list[bytes]:
    return [_step(test, value, 1, 0), _step(_RETURN, answer)]
