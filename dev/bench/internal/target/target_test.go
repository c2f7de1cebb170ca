package target

import (
	"testing"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// judged finds the outcome of one metric.
func judged(t *testing.T, f *result.File, metric string) Outcome {
	t.Helper()
	for _, o := range Judge(f) {
		if o.Measurement.Metric == metric {
			return o
		}
	}
	t.Fatalf("%q is not judged", metric)
	return Outcome{}
}

// TestVoid: what rests on live leases is neither reached nor broken when leases were
// lost; that they were lost is.
func TestVoid(t *testing.T) {
	f := &result.File{}
	at := result.At{Number: "N5", Server: lab.MySQL, Side: side.Version, Case: "2000 leases"}
	f.Add(at, "statements per TTL/3", 0)
	f.Add(at, "lost", 2000)
	if !judged(t, f, "statements per TTL/3").Reached() {
		t.Fatal("0 statements are at most 20")
	}
	f.Void(at, "statements per TTL/3", "2000 of 2000 leases were lost")
	if o := judged(t, f, "statements per TTL/3"); o.Reached() || o.Broken() {
		t.Errorf("void, but reached: %v, broken: %v", o.Reached(), o.Broken())
	}
	if o := judged(t, f, "lost"); o.Reached() || !o.Broken() {
		t.Errorf("2000 lost leases: reached: %v, broken: %v", o.Reached(), o.Broken())
	}
	if Check(f) == nil {
		t.Error("-check passes 2000 lost leases")
	}
}

// TestStarvationIsJudged: a process that got nothing at hold 0 is among the numbers.
func TestStarvationIsJudged(t *testing.T) {
	f := &result.File{}
	f.Add(result.At{Number: "N4", Server: lab.MySQL, Side: side.Version, Case: "4 × 8, hold 0"}, "share max÷min", 38912)
	if judged(t, f, "share max÷min").Reached() {
		t.Error("a share of 38912 is said to be reached")
	}
}
