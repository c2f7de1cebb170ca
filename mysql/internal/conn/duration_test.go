package conn

import (
	"math"
	"testing"
	"time"
)

// FuzzDurations: what is sent of a duration is never shorter, what is read of one
// never of the other sign, and nothing wraps around.
func FuzzDurations(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 999, 1000, 1001, -999, -1001, math.MaxInt64, math.MaxInt64 - 998, math.MinInt64, math.MinInt64 + 1, math.MaxInt64 / 1000, math.MaxInt64/1000 + 1, 1 << 60} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		m := NewMarks().Micros(time.Duration(n))
		us := m.Values[0].Value.(int64)
		if us > math.MaxInt64/1000+1 || us < math.MinInt64/1000 {
			t.Fatalf("%d ns are %d µs", n, us)
		}
		if d := us - n/1000; d < 0 || d > 1 {
			t.Errorf("%d ns are %d µs", n, us)
		}
		d := Micros(n)
		if (d > 0) != (n > 0) || (d < 0) != (n < 0) {
			t.Errorf("%d µs are %v", n, d)
		}
		if n == n/1000*1000 && n/1000 == int64(Micros(n/1000).Microseconds()) && int64(Micros(n/1000)) != n {
			t.Errorf("%d µs are %v", n/1000, Micros(n/1000))
		}
		if s := WholeSeconds(time.Duration(n)); s < time.Second || s > 365*24*time.Hour || s%time.Second != 0 {
			t.Errorf("a wait_timeout of %v", s)
		}
	})
}
