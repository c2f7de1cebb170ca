package mysqllock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// killSessions ends all connections to the lab's database but one of its own.
func (l *lab) killSessions() (n int) {
	l.t.Helper()
	one, err := l.db.Conn(patient(l.t))
	must(l.t, err)
	defer one.Close()
	rows, err := one.QueryContext(patient(l.t), "SELECT ID FROM information_schema.PROCESSLIST WHERE DB=? AND ID<>CONNECTION_ID()", l.config.DBName)
	must(l.t, err)
	var ids []int64
	for rows.Next() {
		var id int64
		must(l.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	must(l.t, rows.Err())
	must(l.t, rows.Close())
	for _, id := range ids {
		if _, err := one.ExecContext(patient(l.t), fmt.Sprint("KILL CONNECTION ", id)); err == nil { // others end by themselves
			n++
		}
	}
	return n
}

// TestP26_ConnectionsThatOpenSlowly: all connections of a Store end at once, and a write of one
// row on a new connection takes nearly a sixth of the TTL, most of it to connect. What a
// renewal needs beside that, to prepare its connection, does not cost the lease: not all tries
// begin anew, and none waits for a connection that it does not use.
func TestP26_ConnectionsThatOpenSlowly(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const ttl, kept, trip = 3 * time.Second, 8, 140 * time.Millisecond
		s, d := l.distant(trip)
		far := *l
		far.config = l.config.Clone()
		far.config.Net, far.config.Addr = "tcp", d.addr
		busy := premise(t, &far)
		_, lost := keepAlive(t, s, kept, func(i int) string { return fmt.Sprint("kept", i) }, ttl)
		for i := range 3 {
			if n := l.killSessions(); n == 0 && i == 0 {
				t.Error("no connection was ended")
			}
			conn.Sleep(patient(t), ttl)
		}
		noneLost(t, lost(), kept, ttl, busy())
	})
}

// TestP26_NoTimeForAStatement: the Store's connections have ended, and a try has as much time as it takes to open one and some
// of what the renewal itself takes. It is not sent then: cut off it would take its connection with it, and so would each further try.
// How long it takes to open one differs, so the time that tries get is sought.
func TestP26_NoTimeForAStatement(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const trip = 200 * time.Millisecond
		s, _ := l.distant(trip)
		c := client{t: t, Store: s}
		h := c.granted("k", time.Minute)
		renew := func(most time.Duration) (renewed bool, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			results, err := s.Renew(ctx, []driver.Hold{h})
			if err == nil {
				err = results[0].Err
			}
			return err == nil && results[0].Status == driver.Alive, err
		}
		most, tries := 4*trip+trip/4, []string(nil) // one is open after three trips and a half
		for range 40 {
			l.killSessions()
			renewed, err := renew(most)
			tries = append(tries, fmt.Sprintf("%v: %v, %v", most, renewed, err))
			switch {
			case renewed: // there was time
				most -= trip / 4
			case !driver.IsNotApplied(err):
				t.Fatalf("P26: a renewal was sent though no time was left for its answer: %v", err)
			case strings.Contains(err.Error(), "no time is left"):
				if renewed, err := renew(testserver.Patience(t)); !renewed {
					t.Errorf("P26: the connection that was opened was not used by the next try: %v", err)
				}
				return
			default: // it took longer to open one
				most += trip / 4
			}
		}
		t.Errorf("P26: no try opened a connection and had too little time left for a renewal: %s", strings.Join(tries, "; "))
	})
}
