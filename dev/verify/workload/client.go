package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
)

// client is the life of a client process: open the spaces, work until told to stop or
// until the parent is gone, give everything back.
func client(from io.Reader, to io.Writer) error {
	in, out := json.NewDecoder(from), json.NewEncoder(to)
	var t Task
	if err := in.Decode(&t); err != nil {
		return err
	}
	rec, err := history.Create(t.Folder, t.Name)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var spaces []*space
	for i, name := range t.Spaces {
		s, err := newSpace(name, i, t, rec)
		if err != nil {
			return err
		}
		spaces = append(spaces, s)
	}
	if err := out.Encode(answer{}); err != nil {
		return err
	}
	go func() {
		defer stop()
		for {
			var o order
			if in.Decode(&o) != nil || o.Stop {
				return
			}
			stepWallClock(o.Wall)
			_ = out.Encode(answer{})
		}
	}()
	var work sync.WaitGroup
	for _, s := range spaces {
		work.Go(func() { s.work(ctx) })
	}
	// While the clients close, the server may execute late what they sent: the pulses tell how late.
	closing, closed := context.WithCancel(context.Background())
	defer closed()
	var reach sync.WaitGroup
	reach.Go(func() { // all spaces are on one server
		pulses(closing, rec, history.Reach, t.TTL/10, spaces[0].pulse)
	})
	work.Wait()
	for _, s := range spaces {
		err = errors.Join(err, s.close())
	}
	closed()
	reach.Wait()
	for _, s := range spaces {
		_ = s.backend.close() // connections that faults have cut say so
	}
	return errors.Join(err, rec.Close())
}

// space is a lock space as a client uses it.
type space struct {
	backend
	name   string
	number int
	task   Task
	locks  *rowlock.Client
	rec    *history.Recorder
	hot    []string
	light  []string
	tx     []string
	modes  []string
	groups []string
	fair   []string // empty: the store keeps no order, as some bugs hide it
	values values
}

func newSpace(name string, number int, t Task, rec *history.Recorder) (*space, error) {
	b, err := open(name, t)
	if err != nil {
		return nil, err
	}
	store, err := broken(t.Break, b.store())
	if err != nil {
		return nil, err
	}
	locks, err := rowlock.New(store, rowlock.Options{
		TTL: t.TTL, ReleaseWait: time.Second, ReapInterval: -1, Owner: t.Name,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("space", name),
	})
	if err != nil {
		return nil, err
	}
	var fair []string
	if store.Limits().Line {
		fair = FairKeys(t.Round)
	}
	return &space{
		backend: b, name: name, number: number, task: t, locks: locks, rec: rec,
		hot: HotKeys(t.Round), light: LightKeys(t.Round, t.Name), tx: TxKeys(t.Round, name),
		modes: ModeKeys(t.Round), groups: GroupKeys(t.Round), fair: fair, values: values{client: t.Name},
	}, nil
}

// close gives back what the workers left, as a program does that ends in good order.
func (s *space) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.task.TTL)
	defer cancel()
	err := s.locks.Close(ctx) // what could not be released ends by its TTL
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: close: %w", s.name, err)
	}
	return nil
}

// work runs the workers until ctx ends.
func (s *space) work(ctx context.Context) {
	light := s.task.Light
	switch s.name {
	case ForUpdate:
		light = (light + 7) / 8 // each hold takes a connection
	case Mongo:
		light *= 2 // it has the server to itself
	}
	var all sync.WaitGroup
	number := 0
	start := func(n int, life func(*worker, context.Context)) {
		for range n {
			w := newWorker(s, number)
			number++
			all.Go(func() {
				for ctx.Err() == nil {
					life(w, ctx)
				}
			})
		}
	}
	start(s.task.Hot, (*worker).hot)
	start(light, (*worker).light)
	start(1, (*worker).kept)
	if s.task.Modes > 0 {
		if s.hasModes() {
			start(s.task.Modes, (*worker).mixed)
		}
		start((s.task.Modes+1)/2, (*worker).grouped)
		if len(s.fair) > 0 {
			start((s.task.Modes+1)/2, (*worker).fairly)
		}
		start(1, (*worker).lead)
		start(1, (*worker).follow)
	}
	all.Go(func() { s.steady(ctx, number) })
	all.Wait()
}
