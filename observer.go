package rowlock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// For observers: an Observer is told what a Client does: for metrics, tracing and audit, without a dependency
// here. Packages otelrowlock and promrowlock have made ones. Give it to Options.Observers.
// Any function may be nil; New reads them, a change after that has no effect.
//
// AcquireStart, AcquireEnd and HoldStart run in the goroutine of the caller, who waits for
// them; ClientStart in that of New, ClientEnd in that of Close. All others run in one goroutine
// of the client, one after the other, some milliseconds after what they tell of: at most 2000
// events wait for it, ends of leases before all others; what comes then is dropped and
// counted (Stats.DroppedEvents). No function is called while the client holds a lock, and
// none delays a renewal. A function may look at the client and at leases, but an Acquire from
// one of the first three would tell the observer again. None should block.
//
// An observer that panics is switched off for the client, and the Logger gets one line
// (Error); the call goes on as without it. Functions of several callers run at the same time.
type Observer struct {
	// ClientStart is called by New, with the client that will be observed. ClientEnd is called
	// by Close, after the last event that was told by then.
	ClientStart func(c *Client)
	ClientEnd   func(c *Client)

	// AcquireStart is told of an acquire whose arguments are good, before anything is sent,
	// also by Do, Lead and Every; of AcquireAll once for each key. The context that it returns
	// goes to AcquireEnd, LeaseEnd and the Logger, not to the wait: it bounds nothing. nil
	// stands for ctx. With several observers it is the ctx of the next one. A view (Reentrant)
	// is no acquire.
	AcquireStart func(ctx context.Context, e AcquireStart) context.Context

	// AcquireEnd is told of its end: a lease or an error.
	AcquireEnd func(ctx context.Context, e AcquireEnd)

	// HoldStart is called before the function of Do, Lead or Every, with their ctx. The context
	// that it returns is the parent of the function's: what ends it ends the function's context.
	// It goes to LeaseEnd too. nil stands for ctx.
	HoldStart func(ctx context.Context, l *Lease) context.Context

	// LeaseEnd is told of the end of a lease, once for each lease of an AcquireEnd, after that.
	// A lease that was released has ended when the database has answered. ctx has the
	// values of what HoldStart returned, and those of what AcquireStart returned; it does not end.
	LeaseEnd func(ctx context.Context, e LeaseEnd)

	// Renewed is told of each answer to a renewal, and each one that failed, for each lease.
	Renewed func(e Renewed)

	// Called is told of each call of the store.
	Called func(e Called)

	// Reaped is told of each round of Options.ReapInterval.
	Reaped func(e Reaped)
}

// For observers: AcquireStart is an acquire that begins.
type AcquireStart struct {
	Client string // Options.Name
	Key    string
	Name   string // what Options.KeyName makes of Key
	TTL    time.Duration
	Mode   driver.Mode
	Try    bool // it does not wait: TryAcquire, NoWait
}

// For observers: AcquireEnd is an acquire that has ended.
type AcquireEnd struct {
	Client string
	Key    string
	Name   string
	Lease  *Lease // nil: Err says why
	Err    error  // as the caller gets it
	Waited time.Duration

	// Local: the lease was handed off by another caller of the client, or is a reader's beside
	// another. No statement was sent for it.
	Local bool

	Ahead    int // callers of the client that waited for the key before this one came
	Attempts int // that were sent for this caller
}

// Outcome is granted, held (another has the key, and the caller did not wait), deadline or canceled (of
// the caller's context), closed (the Client), or error, for all others: few words, for metrics.
func (e AcquireEnd) Outcome() string {
	switch {
	case e.Err == nil:
		return "granted"
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "deadline"
	case errors.Is(e.Err, context.Canceled):
		return "canceled"
	case errors.Is(e.Err, ErrHeld):
		return "held"
	case errors.Is(e.Err, ErrClosed):
		return "closed"
	}
	return "error"
}

// For observers: LeaseEnd is a lease that has ended.
type LeaseEnd struct {
	Client   string
	Key      string
	Name     string
	Lease    *Lease // that of AcquireEnd and HoldStart
	Token    int64
	At       time.Time     // when it ended
	Held     time.Duration // until then
	Err      error         // nil: it was released. Else a *LostError
	Renewals int           // that were acknowledged
	Least    time.Duration // trust that was left when one was acknowledged, at the least; 0: there was none
	Late     bool          // the database did not answer the release in time: it is repeated
}

// End is released, or the Reason of the loss.
func (e LeaseEnd) End() string {
	if e.Err == nil { // before errors.As, which allocates
		return "released"
	}
	var lost *LostError
	if errors.As(e.Err, &lost) {
		return string(lost.Reason)
	}
	return "released"
}

// For observers: Renewed is the answer to a renewal of a lease.
type Renewed struct {
	Client string
	Key    string
	Name   string
	Token  int64
	At     time.Time     // when it was answered
	Took   time.Duration // from when it was sent
	Left   time.Duration // of the trust, before the answer
	Trust  time.Duration // all of it: from the renewal before, or the attempt, to the trust deadline
	TTL    time.Duration
	Err    error // nil: it was acknowledged. A *LostError: the lease is lost. Else it is tried again
}

// TrustUsed is the share of the trust that was used when the answer came, 0 to 1. Renewals
// leave after a third of the TTL: 0.37 is what a healthy client has, whatever its TTL (SelectForUpdate, which renews each second, or
// sooner: 0.11 up to a TTL of 10 s, 0.04 at 30 s). Near 1 its
// leases are about to be lost. Above 1 the answer came too late.
func (e Renewed) TrustUsed() float64 {
	if e.Trust <= 0 {
		return 0
	}
	return 1 - float64(e.Left)/float64(e.Trust)
}

// For observers: Called is a call of the store, which may be several statements about many keys.
type Called struct {
	Client string
	Op     string // one of Ops
	Keys   int
	Took   time.Duration
	Err    error // of the call as a whole
}

// For observers: Ops are the values of Called.Op: acquire; wait, an acquire in the server's queue, which takes
// as long as it waits there; renew; release; undo, of attempts whose outcome is unknown;
// inspect, of probes and Inspect; look, at the lines of keys; admin, for List and ForceRelease;
// reap.
func Ops() []string {
	return []string{"acquire", "wait", "renew", "release", "undo", "inspect", "look", "admin", "reap"}
}

// For observers: Reaped is a round of the reaper.
type Reaped struct {
	Client string
	Rows   int
	Err    error
}

// For observers: UpTo makes an Options.KeyName: the part of a key before the first sep, or all of it where it
// has none. UpTo("/") is for keys as "import/42", of which there are many, but few kinds.
func UpTo(sep string) func(key string) string {
	return func(key string) string {
		name, _, _ := strings.Cut(key, sep)
		return name
	}
}
