package mysqllock

import (
	"context"
	"fmt"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP24_ObserveTheTermOfALateAttempt: UniqueInsert. The row of a term has a token a millisecond below the one before, as an
// attempt leaves it that began earlier and waited for the row.
func TestP24_ObserveTheTermOfALateAttempt(t *testing.T) {
	onServers(t, func(t *testing.T, l *lab) {
		p := l.program(t, rowlock.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
		defer cancel()
		first, err := p.Client.Acquire(ctx, "k", rowlock.Owner("A"))
		must(t, err)
		info, err := p.Client.Inspect(ctx, "k")
		must(t, err)
		var last rowlock.Leader
		wrote := false
		for leader, err := range p.Observe(ctx, "k") {
			if err != nil {
				t.Logf("observe: %v", err)
				continue
			}
			if leader.Token < last.Token || leader.Held && leader.Owner != last.Owner && leader.Token == last.Token {
				t.Errorf("P24: term %d of %s after %d of %s", leader.Token, leader.Owner, last.Token, last.Owner)
			}
			switch last = leader; {
			case leader.Owner == "B":
				return
			case leader.Held:
				go first.Release(context.Background())
			case !wrote && last.Token > 0:
				wrote = true
				exec(t, l.db, fmt.Sprintf("INSERT INTO "+l.table()+" (name,hold,owner,token,acquired_at,expires_at) VALUES ('k',RANDOM_BYTES(16),'B',%d,UTC_TIMESTAMP(6),UTC_TIMESTAMP(6)+INTERVAL 1 HOUR)",
					info.Token-1000*driver.TokenRange))
			}
		}
		t.Errorf("P24: the term of B was never observed, the last was %+v", last)
	}, UniqueInsert)
}
