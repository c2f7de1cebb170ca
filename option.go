package rowlock

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/defaults"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/keys"
	"github.com/rowlock/rowlock/internal/unit"
)

// Options configures a Client: first what you may want, then tuning. The zero value is good. A duration above 0 and
// below 1ms (ReapInterval: 1s) is ErrInvalid: a number without a unit is nanoseconds.
type Options struct {
	// ---- What you may want ----

	// TTL is how long the database grants a hold without renewal: after a crash the key is free
	// again within TTL. Default 30s. The client renews at a third of it. At least the store's
	// smallest TTL. Take a shorter one where other programs should go on soon after a crash, and a
	// longer one where holders should live through longer outages of the database. It does not
	// bound the work: see MaxHold.
	TTL time.Duration

	// MaxHold ends every hold of this client that long after its grant, renewed or not. Default 0,
	// no limit: a lease that its holder forgets to release, or never releases because it hangs,
	// keeps the key for as long as the program lives (see LongHold). At least TTL. Take it where
	// work may hang, well above the longest that the work takes.
	MaxHold time.Duration

	// Owner is shown to people who ask who holds a key. At most 255 bytes. Default host:pid. Take a
	// name that your operators know, for example that of the pod.
	Owner string

	// ReleaseAsync makes Release, and so the end of Do, return without waiting for the database's
	// answer. Take it where users wait for the call, as in a web service. The lease has ended before
	// Release returns, and the release goes out with the next batch. An attempt of this client for
	// the same key waits for it, at most 3s. A loss that Release would have returned is logged and
	// counted instead. A program that exits at once, without Close, may leave the key taken until
	// the TTL ends.
	ReleaseAsync bool

	// Logger gets what happens in the background: a lost lease (Error), failed renewals or late
	// releases (Warn), that they work again (Info), each step (Debug). Default: nothing is logged,
	// not even that the database does not answer. So nearly every program wants one.
	//
	// An outage makes three kinds of lines, however many leases it concerns: one when it begins, one
	// a minute that says how long it has lasted, and one when it is over. The handler may block, and
	// may use the client, also in Enabled: one goroutine asks it and hands it the records, one after
	// the other, steps after about a millisecond. At most 2000 records wait; the handler is told how
	// many were dropped.
	Logger *slog.Logger

	// Observers are told what the client does. Take one for metrics or tracing: packages
	// promrowlock and otelrowlock make them. Each has its own place in the order in which they are
	// told. None may be nil or there twice.
	Observers []*Observer

	// Name is shown to observers and, if it is set, by the Logger (attribute client). Take it where
	// a program has several clients. At most 255 bytes. Default: none.
	Name string

	// KeyName makes few names of many keys, for metrics: UpTo("/") makes "import" of "import/42".
	// Take it with an observer. It must always give the same name to the same key, and must not
	// block; many goroutines call it at the same time. If it panics it is switched off. Default:
	// keys have no names.
	KeyName func(key string) string

	// ---- Tuning: the defaults are right for nearly every program ----

	// Margin is how long before the database may hand the key on the client distrusts its lease.
	// Default TTL/10, at least 5ms. Less than TTL. It covers two things: clocks that tick at
	// slightly different speeds, and the time your code takes to notice that its context has ended.
	// Take more where the work needs longer to stop. Network delay needs no margin.
	Margin time.Duration

	// ReleaseWait is how long Release waits for the database's answer. Default 3s. Take less where
	// a caller must go on while the database hangs: the release is repeated in the background.
	ReleaseWait time.Duration

	// Handoff is how long this client may keep a key that another program wants, from the moment at
	// which it got the key. Meanwhile a released hold goes to the next local caller that waits, in
	// memory and with a token of its own, instead of back to the database: microseconds in place of
	// two commits, and other programs wait that much longer. While no other program wants the key
	// there is no limit. Default 50ms; negative: never. Take less, or never, where the key should go
	// from program to program more often.
	Handoff time.Duration

	// LongHold is how long a lease without MaxHold is held before the Logger gets a line (Info) that
	// names the file and line where it was acquired, once for each lease: it may have been
	// forgotten. Default 1h; negative: never. Take more where work takes hours.
	LongHold time.Duration

	// ReapInterval is how often the client removes rows of keys that have been dead for a day, in
	// the background. Default 1h, ± half; at most 500 rows a round; a full round is followed by the
	// next after a sixtieth. Negative: never. Take never where the program has no right to delete,
	// or where a job of yours calls Reap of the store.
	ReapInterval time.Duration
}

const (
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
		o.TTL = max(defaults.TTL, lim.MinTTL)
	}
	if o.ReleaseWait == 0 {
		o.ReleaseWait = defaultReleaseWait
	}
	if o.ReleaseWait < 0 || o.ReleaseWait > longest {
		return o, fmt.Errorf("%w: ReleaseWait %v: use a positive time, or 0 for %v", ErrInvalid, o.ReleaseWait, defaultReleaseWait)
	}
	if o.Handoff == 0 {
		o.Handoff = keys.DefaultHandoff
	}
	if o.Handoff > longest {
		return o, fmt.Errorf("%w: Handoff %v: use a time well under the TTL, 0 for %v, or a negative one for never", ErrInvalid, o.Handoff, keys.DefaultHandoff)
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

// Option changes one call of Acquire, TryAcquire, AcquireAll, TryAcquireAll, Do, Every or Lead.
type Option func(*settings)

// settings is what one call asks for.
type settings struct {
	grant.Terms
	noWait, reentrant bool
	shared, slots     bool // were asked for
	fair              bool
	standing          *standing // Lead or Every, which acquires; nil: another caller
}

// TTL sets the TTL of this lease; see [Options].TTL. Take it where one kind of work needs another TTL than the rest: a
// short one for a leader or a web request, a long one for a batch that outages of minutes should not stop. It must be above
// Options.Margin, if that is set; 0 is ErrInvalid, not the default.
func TTL(d time.Duration) Option { return func(s *settings) { s.TTL = d } }

// MinHold keeps the key taken until d after the grant, even if the holder releases it before or crashes. Take it for a job
// that should run at most once in a period on many programs, with d a bit less than the period: a program with a slow clock
// finds the key taken and does not run the job again. If d equals the period, every other run may be skipped. [Every]
// does this by itself.
//
// The database's clock counts, whatever the clocks of the programs say. The next Acquire waits for the end of d, the next
// TryAcquire gets ErrHeld. At least 1ms, at most MaxHold. The grant itself is renewed as usual: a holder that works for
// longer than d keeps the key for as long as it works.
func MinHold(d time.Duration) Option { return func(s *settings) { s.MinHold = d } }

// MaxHold ends the hold d after its grant, with ReasonMaxHold. Take it for work that may hang, well above the longest that
// the work takes: without a limit a lease that is forgotten keeps the key for as long as the program lives. The last
// renewals are shortened. At least TTL; 0: no limit, whatever Options.MaxHold says.
func MaxHold(d time.Duration) Option { return func(s *settings) { s.MaxHold = d } }

// NoRenew leaves renewal to the caller: the lease ends with its TTL unless [Lease.Renew] is called. Take it where work
// should keep the key only while it makes progress, with a call of Renew at each step.
func NoRenew() Option { return func(s *settings) { s.NoRenew = true } }

// NoWait makes Acquire and Do try once, as TryAcquire does. Take it where the work is needless, or the caller should be
// told, if another is at it: a job that one of many programs runs, a web request that answers 409. If another has the
// key, the error is a *HeldError, which says who has it, and matches ErrHeld.
func NoWait() Option { return func(s *settings) { s.noWait = true } }

// Guarded says that this lease will be used in guarded transactions (InTx, Once, Guard, MarkRun). MongoDB needs it: a
// guarded lease costs one write more there. On MySQL and MariaDB it has no effect.
func Guarded() Option { return func(s *settings) { s.Guarded = true } }

// Owner names the holder of this lease for people who ask: a request ID, a job's name. It takes the place of
// Options.Owner in Info, in HeldError and in the tables; "" leaves that. At most 255 bytes. The library does not rely on
// it.
//
// Take it where callers of one program should be told apart. It has a price: the database keeps one owner for a hold, so
// a released hold is not handed off in memory to a caller with another owner. Where each call has its own, the key goes
// back to the database each time.
func Owner(who string) Option {
	return func(s *settings) {
		if who != "" {
			s.Owner = who
		}
	}
}

// Shared asks for a read lock: a hold that others may have at the same time, as long as they ask for Shared, or Slots, too.
// Take it for work that many may do at once, but not while one changes what they read. A Shared hold excludes an exclusive
// one, and is excluded by it. While an exclusive Acquire waits no new Shared holds come, and readers that ask meanwhile get
// the key after it: neither starves.
//
// Each Shared hold is a lease of its own, with its own end. The readers that hold the key together have the same
// Lease.Token, above every earlier exclusive token of the key and below every later one. Callers of one Client that ask with
// the same options within Options.Handoff share one hold in the database, and so one loss. MinHold with Shared is
// ErrInvalid, and so is Slots; a store that has no such holds gives ErrNotSupported.
func Shared() Option { return func(s *settings) { s.shared = true } }

// Slots asks for one of n places of the key. Take it to let at most n callers at something: a partner that accepts five
// connections, a licence for three workers. Each hold has a number, Lease.Slot, below its n, and no two have the same. The
// number n is the call's: where callers differ, each gets a place below its own n. An exclusive hold excludes it, and is
// excluded by it; Shared holds may be beside it. n is 1 to 1000, other values are ErrInvalid; a store that has no such holds
// gives ErrNotSupported.
//
// Lease.Token is the place's own: it rises from hold to hold of one place. A resource that checks tokens keeps the largest
// for each place of a key, not for each key.
func Slots(n int) Option {
	return func(s *settings) { s.slots, s.Terms.Slots = true, n }
}

// Fair makes a program that gets the key serve one of its callers, and then pass the key on to the next program that waits.
// Take it where a program with many callers should not have the key more often than one with a single caller. It costs
// throughput: without Fair a program serves those of its callers that waited, in memory, before it passes the key on.
//
// The order is the same with and without it: first come, first served, among programs and among the callers of one
// program. Fair is for exclusive leases and Slots. With Shared it is ErrNotSupported, and so it is with SelectForUpdate, where
// the server keeps the order of those who wait.
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
	if s.fair && !c.store.Limits.Line {
		return s, fmt.Errorf("%w: Fair: this store (%T) leaves the order of those who wait to the server, as SelectForUpdate does; the strategies VersionColumn and UniqueInsert, and MongoDB, can serve one caller a turn: use one of them, or leave Fair out", ErrNotSupported, c.store.Driver())
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
