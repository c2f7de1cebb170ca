package rowlock

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/unit"
)

// Options configures a Client. The zero value is good. A duration above 0 and below 1ms
// (ReapInterval: 1s) is ErrInvalid: a number without a unit is nanoseconds.
type Options struct {
	// TTL is how long the database grants a hold without renewal: after a crash
	// the key is free again within TTL. Default 30s. The client renews at a third
	// of it. At least the store's smallest TTL.
	TTL time.Duration

	// Margin is how long before the database may hand the key on the client
	// distrusts its lease: it pays for clocks that run at different rates and for
	// the time that the loss signal needs. Default TTL/10, at least 5ms. Less than TTL.
	Margin time.Duration

	// MaxHold ends every hold of this client that long after its grant, renewed
	// or not. Default 0: no limit: a lease that is never released, because its holder
	// forgot it or hangs, is renewed for as long as the program lives, and nobody else
	// gets the key (see LongHold). At least TTL.
	MaxHold time.Duration

	// ReleaseWait is how long Release waits for the database's answer. Default 3s.
	ReleaseWait time.Duration

	// ReleaseAsync makes Release, and so the end of Do, return without waiting for the
	// database's answer, for callers whose latency is that of their users. The lease has
	// ended before Release returns, and the release goes with the next batch. An attempt
	// of this client for the same key waits for it, at most 3s. What Release would have
	// told of a loss is logged and counted instead. A program that exits at once, without
	// Close, may leave the key taken until the TTL ends.
	ReleaseAsync bool

	// Handoff is how long this client may keep a key that another program wants, from the
	// moment at which it got the key. A released hold passes meanwhile to the next local
	// caller that waits, in memory and with a token of its own, instead of going back to
	// the database: the callers of one client then need microseconds where two commits
	// were needed, and other programs wait that much longer for their turn. While no other
	// program wants the key there is no limit. Default 50ms; negative: never.
	Handoff time.Duration

	// LongHold is how long a lease without MaxHold is held before the Logger gets a line
	// (Info) that names the file and line where it was acquired, once for each lease: it
	// may have been forgotten. Default 1h; negative: never.
	LongHold time.Duration

	// ReapInterval is how often the client removes rows of keys that have been dead for a
	// day, in the background. Default 1h, ± half; at most 500 rows a round; a full
	// round is followed by the next after a sixtieth. Negative: never.
	ReapInterval time.Duration

	// Owner is shown to people who ask who holds a key. At most 255 bytes.
	// Default host:pid.
	Owner string

	// Observers are told what the client does: for metrics and tracing. Each has its own
	// place in the order in which they are told. None may be nil or there twice.
	Observers []*Observer

	// Name is that of the client among those of the program, for observers and, if it is set, for
	// the Logger (attribute client). At most 255 bytes. Default: none.
	Name string

	// KeyName makes few names of many keys, for metrics: "import/42" is "import" by
	// UpTo("/"). The same key has always the same name. It must not block, and is called by many at the same time. Where it panics
	// it is switched off. Default: keys have no names.
	KeyName func(key string) string

	// Logger gets what happens in the background: a lost lease (Error), failed
	// renewals or late releases (Warn), that they work again (Info), each step (Debug).
	// What fails together shares a line: one when an outage begins, one a minute that says
	// for how long, and one when it is over. The handler may block, and may use the client, also in
	// Enabled: one goroutine asks it and hands it the records, one after the other, steps after about
	// a millisecond. At most 2000 wait, and it is told how many were dropped. Default: nothing is
	// logged, not even that the database does not answer.
	Logger *slog.Logger
}

const (
	defaultTTL          = 30 * time.Second
	minMargin           = 5 * time.Millisecond
	defaultReleaseWait  = 3 * time.Second
	defaultReapInterval = time.Hour
	minReapInterval     = time.Second
	reapGrace           = 24 * time.Hour

	// maxOwner is the longest owner, in bytes.
	maxOwner = 255

	// longest bounds every duration, so that none overflows in a database.
	longest = 366 * 24 * time.Hour
)

// checkUnits checks that durations have a unit.
func (o Options) checkUnits() error {
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"Margin", o.Margin, unit.Least},
		{"MaxHold", o.MaxHold, unit.Least},
		{"ReleaseWait", o.ReleaseWait, unit.Least},
		{"Handoff", o.Handoff, unit.Least},
		{"LongHold", o.LongHold, unit.Least},
		{"ReapInterval", o.ReapInterval, minReapInterval},
	} {
		if err := unit.Check(d.name, d.value, d.least); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return nil
}

// fill sets the defaults and checks what the user set.
func (o Options) fill(lim driver.Limits) (Options, error) {
	if err := o.checkUnits(); err != nil {
		return o, err
	}
	if o.TTL == 0 {
		o.TTL = max(defaultTTL, lim.MinTTL)
	}
	if o.ReleaseWait == 0 {
		o.ReleaseWait = defaultReleaseWait
	}
	if o.ReleaseWait < 0 || o.ReleaseWait > longest {
		return o, fmt.Errorf("%w: ReleaseWait %v: use a positive time, or 0 for %v", ErrInvalid, o.ReleaseWait, defaultReleaseWait)
	}
	if o.Handoff == 0 {
		o.Handoff = defaultHandoff
	}
	if o.Handoff > longest {
		return o, fmt.Errorf("%w: Handoff %v: use a time well under the TTL, 0 for %v, or a negative one for never", ErrInvalid, o.Handoff, defaultHandoff)
	}
	if o.LongHold > longest {
		return o, fmt.Errorf("%w: LongHold %v: use a time up to %v, 0 for %v, or a negative one for never", ErrInvalid, o.LongHold, longest, defaultLongHold)
	}
	o.LongHold = cmp.Or(o.LongHold, defaultLongHold)
	if o.ReapInterval > longest {
		return o, fmt.Errorf("%w: ReapInterval %v: use a time up to %v, 0 for %v, or a negative one for never", ErrInvalid, o.ReapInterval, longest, defaultReapInterval)
	}
	if o.ReapInterval == 0 {
		o.ReapInterval = defaultReapInterval
	}
	if o.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		o.Owner = fmt.Sprintf("%.200s:%d", host, os.Getpid())
	}
	if len(o.Name) > maxOwner {
		return o, fmt.Errorf("%w: the Name has %d bytes: use at most %d", ErrInvalid, len(o.Name), maxOwner)
	}
	if err := checkObservers(o.Observers); err != nil {
		return o, err
	}
	if o.Margin < 0 {
		return o, fmt.Errorf("%w: Margin %v: use a positive time, or 0 for a tenth of the TTL", ErrInvalid, o.Margin)
	}
	s := settings{Terms: grant.Terms{TTL: o.TTL, MaxHold: o.MaxHold, Owner: o.Owner}}
	return o, s.check(o.Margin, lim)
}

// Option changes one call of Acquire, TryAcquire or Do.
type Option func(*settings)

// settings is what one call asks for.
type settings struct {
	grant.Terms
	noWait, reentrant bool
	shared, slots     bool // were asked for
	fair              bool
}

// TTL sets the TTL of this lease; see [Options].TTL. It must be above Options.Margin, if
// that is set; 0 is ErrInvalid, not the default.
func TTL(d time.Duration) Option { return func(s *settings) { s.TTL = d } }

// MinHold keeps the key taken until d after the grant, by the database's clock,
// whether the holder releases it before or crashes: at most one hold in d,
// whatever the clocks of the programs say. The next Acquire waits for it, the next
// TryAcquire gets ErrHeld. At least 1ms, at most MaxHold. The grant itself is renewed as usual:
// a holder that works for longer than d keeps the key for as long as it works.
func MinHold(d time.Duration) Option { return func(s *settings) { s.MinHold = d } }

// MaxHold ends the hold d after its grant, with ReasonMaxHold: the last renewals
// are shortened. At least TTL; 0: no limit, whatever Options.MaxHold says. Without a
// limit a lease that is forgotten keeps the key for as long as the program lives.
func MaxHold(d time.Duration) Option { return func(s *settings) { s.MaxHold = d } }

// NoRenew leaves renewal to the caller: the lease ends with its TTL unless
// Lease.Renew is called.
func NoRenew() Option { return func(s *settings) { s.NoRenew = true } }

// NoWait makes Acquire and Do try once, like TryAcquire: if another has the key
// the error is a *HeldError, which says who, and matches ErrHeld.
func NoWait() Option { return func(s *settings) { s.noWait = true } }

// Guarded says that this lease will be used in guarded transactions. MongoDB needs
// to know before; on MySQL it has no effect.
func Guarded() Option { return func(s *settings) { s.Guarded = true } }

// Owner is who holds the key, for people who ask: a request ID, a job's name. It takes the
// place of Options.Owner in Info, in HeldError and in the tables for this call; "" leaves
// that. At most 255 bytes. Nobody trusts it. The database keeps one owner for a hold, so a
// released hold is not handed off in memory to a caller with another one: where each call
// has an owner of its own the key goes back to the database each time.
func Owner(who string) Option {
	return func(s *settings) {
		if who != "" {
			s.Owner = who
		}
	}
}

// Shared asks for a hold that others may have at the same time as long as they ask for
// Shared, or Slots, too: a read lock. An exclusive hold excludes it, and it excludes an
// exclusive one. While an exclusive Acquire waits no new ones come, so that it gets its turn;
// readers that have waited have at least 100ms before the next exclusive one keeps them out.
//
// Each Shared hold is a lease of its own, with its own end. Lease.Token is that of the phase:
// above every earlier exclusive token of the key, below every later one, and the same for all
// readers that hold it together. Callers of one Client that ask with the same options within
// Options.Handoff share one hold in the database, and so one loss. MinHold with Shared is
// ErrInvalid, and so is Slots; a store that has no such holds gives ErrNotSupported.
func Shared() Option { return func(s *settings) { s.shared = true } }

// Slots asks for one of n places of the key: each such hold has a number, Lease.Slot, below its
// n, and no two of them the same. So at most n hold at once. The number n is the call's: where
// callers differ each gets a place below its own. An exclusive hold excludes it, and it
// excludes an exclusive one; Shared holds may be beside it. n is 1 to 1000, other values are
// ErrInvalid; a store that has no such holds gives ErrNotSupported.
//
// Lease.Token is the place's own: it rises from hold to hold of one place. A resource that
// checks tokens keeps the largest for each place of a key, not for each key.
func Slots(n int) Option {
	return func(s *settings) { s.slots, s.Terms.Slots = true, n }
}

// Fair makes the programs that wait for a key get it in the order in which they first asked:
// none that comes later passes one that waits. The callers of one program (of one Client)
// stand in its own line, as ever; a program whose caller got the key asks anew for the next
// one, behind those that wait then. It is for exclusive leases and Slots, whose callers have
// one line for each key.
//
// All callers of the key must use it: who does not passes those who wait. A program that waits
// keeps its place by a ticket in the database, which it renews; it decides whose turn it is, and
// never who has the key. A program that dies keeps those behind it waiting for at most a
// second, however many die together; one that could not renew its ticket for a second may be
// passed until it does, and then has its place again. The order is that of the database's
// clock; two that come within the time of a statement may be served in either order.
//
// A lease is handed off in memory only where no other program waits before. TryAcquire gets ErrHeld
// while others wait, also if the key is free. In AcquireAll it orders the waits
// for each key. Fair with Shared, and a store that keeps no order, give ErrNotSupported.
func Fair() Option { return func(s *settings) { s.fair = true } }

// settingsFor applies opts to the client's defaults.
func (c *Client) settingsFor(opts []Option) (settings, error) {
	s := settings{Terms: grant.Terms{TTL: c.opts.TTL, MaxHold: c.opts.MaxHold, Owner: c.opts.Owner}}
	if len(opts) > 0 {
		own := s // goes to the heap
		for i, opt := range opts {
			if opt == nil {
				return s, fmt.Errorf("%w: option %d of %d is nil: leave it out", ErrInvalid, i+1, len(opts))
			}
			opt(&own)
		}
		s = own
	}
	if err := s.check(c.opts.Margin, c.store.Limits); err != nil {
		return s, err
	}
	switch {
	case s.shared:
		s.Mode = driver.Shared
	case s.slots:
		s.Mode = driver.Slot
	}
	if s.fair && c.line.store == nil {
		return s, fmt.Errorf("%w: Fair: the store (%T) keeps no order of those who wait", ErrNotSupported, c.store.Driver())
	}
	if s.Mode != driver.Exclusive && !c.store.Limits.Modes.Has(s.Mode) {
		return s, fmt.Errorf("%w: mode %v: the store (%T) has no such holds", ErrNotSupported, s.Mode, c.store.Driver())
	}
	s.Margin = marginOf(s.TTL, c.opts.Margin)
	return s, nil
}

func marginOf(ttl, margin time.Duration) time.Duration {
	if margin == 0 {
		return max(ttl/10, minMargin)
	}
	return margin
}

func (s settings) check(margin time.Duration, lim driver.Limits) error {
	margin = marginOf(s.TTL, margin)
	for _, err := range [...]error{unit.Check("MinHold", s.MinHold, unit.Least), unit.Check("MaxHold", s.MaxHold, unit.Least)} {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	switch {
	case s.TTL < lim.MinTTL || s.TTL <= 0:
		return fmt.Errorf("%w: TTL %v: this store needs at least %v", ErrInvalid, s.TTL, lim.MinTTL)
	case s.TTL > longest:
		return fmt.Errorf("%w: TTL %v: at most %v; a shorter TTL is renewed for as long as the lease is held", ErrInvalid, s.TTL, longest)
	case margin >= s.TTL:
		return fmt.Errorf("%w: Margin %v is not less than the TTL %v: no time would be left to trust the lease", ErrInvalid, margin, s.TTL)
	case s.MaxHold < 0 || s.MaxHold > longest:
		return fmt.Errorf("%w: MaxHold %v: use 0 for no limit, or a time up to %v", ErrInvalid, s.MaxHold, longest)
	case s.MaxHold > 0 && s.MaxHold < s.TTL:
		return fmt.Errorf("%w: MaxHold %v is under the TTL %v: set a TTL of at most MaxHold", ErrInvalid, s.MaxHold, s.TTL)
	case s.MinHold < 0 || s.MinHold > longest:
		return fmt.Errorf("%w: MinHold %v: use 0 for none, or a time up to %v", ErrInvalid, s.MinHold, longest)
	case s.MaxHold > 0 && s.MinHold > s.MaxHold:
		return fmt.Errorf("%w: MinHold %v is over MaxHold %v", ErrInvalid, s.MinHold, s.MaxHold)
	case len(s.Owner) > maxOwner:
		return fmt.Errorf("%w: the Owner has %d bytes: use at most %d", ErrInvalid, len(s.Owner), maxOwner)
	case s.shared && s.slots:
		return fmt.Errorf("%w: Shared and Slots(%d) together: use one of them", ErrInvalid, s.Terms.Slots)
	case s.slots && (s.Terms.Slots < 1 || s.Terms.Slots > driver.MaxSlots):
		return fmt.Errorf("%w: Slots(%d): use 1 to %d", ErrInvalid, s.Terms.Slots, driver.MaxSlots)
	case s.shared && s.fair:
		return fmt.Errorf("%w: Fair with Shared: only exclusive leases and Slots are served in order; leave one of them out", ErrNotSupported)
	case s.shared && s.MinHold > 0:
		return fmt.Errorf("%w: MinHold %v with Shared: only exclusive holds and slots can be kept; leave it out", ErrInvalid, s.MinHold)
	}
	return nil
}

func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: the key is empty: use 1 to %d bytes", ErrInvalid, driver.MaxKey)
	case len(key) > driver.MaxKey:
		return fmt.Errorf("%w: the key %.40q… has %d bytes: use at most %d, for example a hash of it", ErrInvalid, key, len(key), driver.MaxKey)
	}
	return nil
}
