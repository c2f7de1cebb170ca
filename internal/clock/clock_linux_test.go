package clock

import (
	"sync"
	"testing"
	"time"
)

// TestNow: it is CLOCK_BOOTTIME, and never goes back.
func TestNow(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := time.Duration(0)
			for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); {
				before, _ := bootTime()
				now := Now()
				after, _ := bootTime()
				if now < before-jitter || now > after+jitter {
					t.Errorf("%v, CLOCK_BOOTTIME was %v before and %v after", now, before, after)
					return
				}
				if now < last {
					t.Errorf("%v after %v", now, last)
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
}

// TestNowAfterASuspend: what was added to CLOCK_BOOTTIME, and to the wall clock, is noticed at the next look.
func TestNowAfterASuspend(t *testing.T) {
	Now()
	k := *known.Load()
	const slept = time.Hour // as if these clocks were an hour behind until now
	k.apart, k.ahead = k.apart-slept, k.ahead-slept
	known.Store(&k)
	boot, ok := bootTime()
	if now := Now(); !ok || (now-boot).Abs() > time.Minute {
		t.Errorf("%v, CLOCK_BOOTTIME is %v", now, boot)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
