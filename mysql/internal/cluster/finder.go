package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/work"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

const (
	// goodFor is how long an answer stands without being asked for again.
	goodFor = 100 * time.Millisecond

	// quick is how long the server that took writes is asked alone, and how long those that are silent are waited for
	// beyond twice the time that the others took.
	quick = 250 * time.Millisecond

	// roundTime bounds a look at all servers.
	roundTime = 5 * time.Second

	// searchEvery is the time between two looks while none takes writes.
	searchEvery = 100 * time.Millisecond

	// searchAfter is how long it is searched for after the last that wanted to know gave up.
	searchAfter = 30 * time.Second

	// returnEvery is the time between two looks whether an earlier node of Galera can serve again.
	returnEvery = 2 * time.Second
)

// Finder knows the servers. It is safe for concurrent use, and does nothing while nobody connects.
type Finder struct {
	nodes []*node
	life  context.Context
	end   context.CancelFunc
	work  work.Group

	mu        sync.Mutex
	at        int           // the server that takes writes; -1: not known
	confirmed time.Time     // when it last said so
	why       error         // the last look found none
	looked    chan struct{} // closed at the end of the next look
	searching bool
	wanted    time.Time // when somebody last asked
	back      *time.Timer
}

// NewFinder makes a Finder of servers, in the order of preference that counts where several take writes. It does no I/O.
func NewFinder(configs []*mysql.Config) (*Finder, error) {
	f := &Finder{at: -1, looked: make(chan struct{})}
	f.life, f.end = context.WithCancel(context.Background())
	for i, c := range configs {
		n, err := newNode(f, i, c)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.nodes = append(f.nodes, n)
	}
	return f, nil
}

// Database is the one that the servers' DSNs name.
func (f *Finder) Database() string { return f.nodes[0].config.DBName }

// Close ends searches and the connections by which servers are asked. Those that were made for others stay.
func (f *Finder) Close() error {
	f.end()
	f.mu.Lock()
	if f.back != nil {
		f.back.Stop()
	}
	f.mu.Unlock()
	f.work.Wait()
	var errs []error
	for _, n := range f.nodes {
		errs = append(errs, n.asked.Close())
	}
	return errors.Join(errs...)
}

// where is the server that takes writes, by a look of just now. If none does, it is searched for until one does, but the
// caller is told at once.
func (f *Finder) where(ctx context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.life.Err() != nil {
			return -1, fmt.Errorf("mysql: %w: the search for the primary was closed", driver.ErrClosed)
		}
		f.wanted = time.Now()
		if f.at >= 0 && time.Since(f.confirmed) < goodFor {
			return f.at, nil
		}
		f.searchLocked()
		looked := f.looked
		f.mu.Unlock()
		select {
		case <-looked:
		case <-ctx.Done():
		}
		ended := ctx.Err() // not under mu: it may be code of the caller's
		f.mu.Lock()
		switch {
		case ended != nil && f.why != nil:
			return -1, fmt.Errorf("%w: %w", ended, f.why)
		case ended != nil:
			return -1, ended
		case f.why != nil:
			return -1, f.why
		}
	}
}

// lasting reports whether an error, such as a wrong password, is the same at the next try.
func lasting(err error) bool {
	var e *driver.Error
	return errors.As(conn.Classify("", err), &e) && e.Lasting
}

// doubt makes the next one who asks look again: a connection to that server could not be made, or an error came over it.
func (f *Finder) doubt(at int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == at {
		f.confirmed = time.Time{}
	}
}

// searchLocked starts a search, unless one is under way. Called under mu.
func (f *Finder) searchLocked() {
	if !f.searching {
		f.searching = true
		f.work.Fork(f.search)
	}
}

// search looks until one takes writes, the answer cannot change, or nobody wants it any more.
func (f *Finder) search() {
	for {
		f.mu.Lock()
		at := f.at
		f.mu.Unlock()
		found := at >= 0 && f.stillTakesWrites(at)
		var err error
		if !found {
			seen := f.round(at)
			var to int
			to, err = Choose(seen)
			found = err == nil
			f.settle(to, err, seen)
		}
		f.mu.Lock()
		done := found || lasting(err) || f.life.Err() != nil || time.Since(f.wanted) > searchAfter
		f.searching = !done
		close(f.looked)
		f.looked = make(chan struct{})
		f.mu.Unlock()
		if done {
			return
		}
		conn.Sleep(f.life, searchEvery)
	}
}

// stillTakesWrites asks the server that took writes alone. Where another of the servers has to be preferred, or most of
// a group be asked, that is not enough, nor where nothing acknowledges its commits any more: another may have been promoted,
// which it does not know.
func (f *Finder) stillTakesWrites(at int) bool {
	ctx, cancel := context.WithTimeout(f.life, quick)
	defer cancel()
	v, err := f.nodes[at].look(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || v.ReadOnly != "" || v.NotReady != "" || v.Kind == Galera && at > 0 || v.Kind == SemiSync && v.Replicas == 0 || f.nodes[at].hung {
		return false
	}
	f.confirmed, f.why = time.Now(), nil
	return true
}

// round asks all servers, side by side. One that is silent when the others have answered counts as one that cannot
// serve.
func (f *Finder) round(at int) []Seen {
	ctx, cancel := context.WithTimeout(f.life, roundTime)
	defer cancel()
	type answer struct {
		i    int
		view View
		err  error
	}
	answers := make(chan answer, len(f.nodes))
	seen := make([]Seen, len(f.nodes))
	start := time.Now()
	for i, n := range f.nodes {
		seen[i] = Seen{Addr: n.config.Addr, Err: errNoAnswer}
		f.work.Fork(func() {
			v, err := n.look(ctx)
			answers <- answer{i, v, err}
		})
	}
	patience := time.NewTimer(roundTime)
	defer patience.Stop()
	for range f.nodes {
		select {
		case a := <-answers:
			seen[a.i].View, seen[a.i].Err = a.view, a.err
			if a.err == nil {
				patience.Reset(quick + 2*time.Since(start))
			}
			continue
		case <-patience.C:
		}
		break
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range seen {
		n := f.nodes[i]
		switch {
		case seen[i].Err != nil:
			n.hung = n.hung || i == at
		case seen[i].View.ReadOnly != "" || seen[i].View.NotReady != "":
			n.hung = false // it knows that it takes writes no more
		}
		seen[i].Hung = n.hung
	}
	return seen
}

var errNoAnswer = errors.New("no answer")

// settle notes the answer. Where it is another server than before, the connections to all others are closed: who holds
// something there holds it no more, and what hangs there would hang for long.
func (f *Finder) settle(to int, err error, seen []Seen) {
	f.mu.Lock()
	f.why = err
	if err != nil {
		f.mu.Unlock()
		return
	}
	old := f.at
	f.at, f.confirmed, f.nodes[to].hung = to, time.Now(), false
	if f.back != nil {
		f.back.Stop()
	}
	if seen[to].View.Kind == Galera && to > 0 && f.life.Err() == nil {
		f.back = time.AfterFunc(returnEvery, f.lookAgain)
	}
	var cut []net.Conn
	if old != to {
		for i, n := range f.nodes {
			if i != to {
				for c := range n.open {
					cut = append(cut, c)
				}
			}
		}
	}
	f.mu.Unlock()
	for _, c := range cut {
		_ = c.Close()
	}
}

// lookAgain asks whether an earlier node can serve again: programs that take different ones make two writers.
func (f *Finder) lookAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() == nil {
		f.wanted = time.Now()
		f.searchLocked()
	}
}
