package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of clock_gettime(2): as CLOCK_MONOTONIC, and it
// includes the time in which the system is suspended.
const clockBoottime = 7

// Now is the time since the machine was started.
func Now() time.Duration {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return sinceStart() // a kernel or sandbox without it
	}
	return time.Duration(ts.Nano())
}
