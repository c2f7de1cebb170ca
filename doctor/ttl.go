package doctor

import (
	"fmt"
	"time"
)

const (
	// renewalsIn is how many of the slowest renewals a TTL should have room for.
	renewalsIn = 20

	// leastTTL is short enough for everybody, and longer than a pause of a busy machine.
	leastTTL = 2 * time.Second
)

// Sane is the shortest TTL that a failover and renewals of such a latency leave alone. A renewal is due at a third of the
// TTL, and must be acknowledged before nine tenths are over (the margin is a tenth). In that time the failover must be over,
// with a renewal that it cut off and the one that follows: TTL·(0.9 − 1/3) ≥ failover + 2·renewal.
func Sane(renewal, failover time.Duration) time.Duration {
	need := time.Duration(float64(failover+2*renewal) / (0.9 - 1.0/3))
	return max(need, renewalsIn*renewal, leastTTL)
}

// Judge says what was measured of renewals, and adds the two findings about it: slow (renewals are slow for the TTL) and
// short (the TTL is too short for a failover).
func (r *Report) Judge(slow, short string, o Options, failover time.Duration) {
	w := r.Renewal.P99
	value := fmt.Sprintf("%s for a TTL of %v", roughly(w), o.TTL)
	with := []string{"renewal", roughly(w), "ttl", o.TTL.String(), "need", (renewalsIn * w).Round(time.Millisecond).String()}
	switch {
	case 6*w > o.TTL:
		r.Add(slow, Fail, value, with...)
	case renewalsIn*w > o.TTL:
		r.Add(slow, Warn, value, with...)
	default:
		r.Add(slow, OK, value)
	}
	r.SaneTTL = Sane(w, failover).Round(100 * time.Millisecond)
	value = fmt.Sprintf("%v; %v or more rides out a failover of %v", o.TTL, r.SaneTTL, failover)
	if o.TTL < r.SaneTTL {
		r.Add(short, Warn, value, "ttl", o.TTL.String(), "sane", r.SaneTTL.String(), "failover", failover.String())
	} else {
		r.Add(short, OK, value+fmt.Sprintf("; a crash keeps a key taken for up to %v", o.TTL))
	}
}

// roughly has three digits, which is more than a measurement is worth.
func roughly(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
