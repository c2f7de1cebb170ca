package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// message is a report and whose it is; err: the process has ended.
type message struct {
	who string
	report
	err error
}

// run tells the story. The error says where it did not go as it should.
func (s *story) run(ctx context.Context, w io.Writer) error {
	space := servers.NewSpace("leader")
	defer s.Backend.Drop("leader", space)
	store, err := s.Backend.OpenStore(mysqllock.Options{Prefix: space})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := s.makeTables(ctx, store, space); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		return err
	}
	defer timed.Within(5*time.Second, locks.Close)

	ctx, cancel := context.WithTimeout(ctx, time.Minute+20*s.TTL)
	candidates := make(map[string]*fleet.Process)
	messages := make(chan message)
	defer func() {
		cancel() // kills what still runs, frozen or not
		for _, p := range candidates {
			fleet.Reap(p)
		}
	}()
	for _, name := range []string{"alice", "bob", "carol"} {
		p, err := fleet.Start(ctx, roleCandidate, candidateTask{Name: name, Space: space, Backend: s.Backend, TTL: s.TTL})
		if err != nil {
			return err
		}
		candidates[name] = p
		go listen(ctx, p, name, messages)
	}
	fmt.Fprintf(w, "%d processes want to lead, locks on %s, TTL %v\n\n", len(candidates), s.Backend.Name(), s.TTL)

	t := &teller{w: w, began: time.Now(), locks: locks, candidates: candidates, messages: messages, book: &book{}}
	if err := t.tell(ctx, s.TTL); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t.book.print(w, t.began)
	return t.book.verdict(w)
}

func (s *story) makeTables(ctx context.Context, store *mysqllock.Store, space string) error {
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	db, err := s.Backend.SQL(1)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE "+space+"_ledger (id BIGINT AUTO_INCREMENT PRIMARY KEY, term BIGINT NOT NULL, who VARCHAR(20) NOT NULL)")
	return errors.Join(err, db.Close())
}

// listen passes on what a process says until it ends.
func listen(ctx context.Context, p *fleet.Process, who string, to chan<- message) {
	for {
		m := message{who: who}
		m.err = p.Receive(&m.report)
		select {
		case to <- m:
		case <-ctx.Done():
			return
		}
		if m.err != nil {
			return
		}
	}
}

// teller lets things happen to the leaders, and says so.
type teller struct {
	w          io.Writer
	began      time.Time
	locks      *rowlock.Client
	candidates map[string]*fleet.Process
	messages   <-chan message
	book       *book
}

func (t *teller) say(format string, args ...any) {
	fmt.Fprintf(t.w, "%6.2fs  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// tell is the story: the first leader is killed, the second is frozen until the third leads.
func (t *teller) tell(ctx context.Context, ttl time.Duration) error {
	first, err := t.leader(ctx, "")
	if err != nil {
		return err
	}
	if err := timed.Sleep(ctx, ttl/2); err != nil {
		return err
	}
	if err := t.candidates[first].Kill(); err != nil {
		return err
	}
	t.say("%s is killed (kill -9)", first)
	t.book.killed(first, time.Now())

	second, err := t.leader(ctx, first)
	if err != nil {
		return err
	}
	if err := timed.Sleep(ctx, ttl/2); err != nil {
		return err
	}
	if err := t.candidates[second].Freeze(); err != nil {
		return err
	}
	t.say("%s is frozen", second)
	third, err := t.leader(ctx, second)
	if err != nil {
		return err
	}
	if err := timed.Sleep(ctx, ttl/2); err != nil {
		return err
	}
	if err := t.candidates[second].Thaw(); err != nil {
		return err
	}
	t.say("%s goes on", second)
	if err := t.until(ctx, "the end of the frozen leader's term", func() bool { return t.book.ended(second) }); err != nil {
		return err
	}
	t.say("%s hears that its term is over, and its write is refused", second)
	if err := timed.Sleep(ctx, ttl/2); err != nil {
		return err
	}
	if now, err := t.leader(ctx, ""); err != nil || now != third {
		return errors.Join(err, fmt.Errorf("%q leads beside %s, which came back: want %q", now, second, third))
	}
	t.say("%s still leads", third)
	return nil
}

// leader waits until somebody else than not leads, and has said so itself.
func (t *teller) leader(ctx context.Context, not string) (name string, err error) {
	for l, err := range t.locks.Observe(ctx, key) {
		switch {
		case err != nil:
			return "", err
		case l.Held && l.Owner != not:
			return l.Owner, t.until(ctx, "the leader's report", func() bool { return t.book.leads(l.Owner) })
		case !l.Held && not != "":
			t.say("nobody leads")
		}
	}
	return "", context.Cause(ctx)
}

// until notes what the processes say until it is enough.
func (t *teller) until(ctx context.Context, what string, enough func() bool) error {
	for !enough() {
		select {
		case m := <-t.messages:
			switch {
			case m.err != nil && t.book.isKilled(m.who):
			case m.err != nil:
				return fmt.Errorf("%s has ended: %w", m.who, m.err)
			default:
				if !m.Ended {
					t.say("%s leads", m.who)
				}
				t.book.note(m)
			}
		case <-ctx.Done():
			return fmt.Errorf("%s did not come: %w", what, context.Cause(ctx))
		}
	}
	return nil
}
