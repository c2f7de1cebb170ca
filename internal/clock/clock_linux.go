package clock

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of clock_gettime(2): as CLOCK_MONOTONIC, and it
// includes the time in which the system is suspended.
const clockBoottime = 7

// Go asks for CLOCK_BOOTTIME by a system call, and reads the wall clock and CLOCK_MONOTONIC without one, in a fourth of the time. The kernel
// moves the wall clock against CLOCK_MONOTONIC by the length of each suspend, at the moment at which it adds that to CLOCK_BOOTTIME
// (kernel/time/timekeeping.c, __timekeeping_inject_sleeptime). So while they keep their distance nothing was suspended.
type offset struct {
	apart time.Duration // from Go's clock to the wall clock
	ahead time.Duration // from Go's clock to CLOCK_BOOTTIME
	at    time.Duration // when that was asked for, by Go's clock
}

var known atomic.Pointer[offset]

const (
	jitter = time.Millisecond       // between two clocks that are read one after the other
	apace  = 100 * time.Microsecond // for which two clocks were read together
	oldest = time.Second            // an offset is asked for anew after that, whatever the wall clock says
)

// Now is the time since the machine was started.
func Now() time.Duration {
	t := time.Now()
	mono := t.Sub(start)
	k := known.Load()
	if k == nil || mono-k.at > oldest || (apartAt(t, mono)-k.apart).Abs() > jitter {
		return ask(k)
	}
	return mono + k.ahead
}

func apartAt(t time.Time, mono time.Duration) time.Duration {
	return time.Duration(t.UnixNano()) - mono
}

// ask asks for CLOCK_BOOTTIME.
func ask(k *offset) time.Duration {
	for range 5 {
		before := sinceStart()
		boot, ok := bootTime()
		t := time.Now()
		mono := t.Sub(start)
		switch {
		case !ok:
			return mono // a kernel or sandbox without it
		case mono-before > apace:
			continue // something came between
		}
		next := &offset{apart: apartAt(t, mono), ahead: boot - mono, at: mono}
		if k != nil && (next.ahead-k.ahead).Abs() < jitter { // the same, read at another moment
			next.ahead = k.ahead
		}
		known.Store(next)
		return mono + next.ahead
	}
	boot, ok := bootTime()
	if !ok {
		return sinceStart()
	}
	return boot
}

func bootTime() (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
