package session

import (
	"context"
	"database/sql"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// rowState is what the lease row says.
type rowState struct {
	token      int64
	left, kept time.Duration // of the hold; of MinHold
	owner      string
	wanted     driver.Hint
	run        conn.Run // in which it was written; see serverrun.go
	taken      bool     // another session has the row's lock
	granted    bool     // to one that was granted the key: the lease row tells of it
	phase      bool     // readers or slots may have the key
}

// remains is for how long the key cannot be had: of a hold whose session has the row locked, or
// of MinHold; 0 while an acquire is between its steps. The lease row of a hold stays as it is when that is released. Who has the row
// locked in a phase is about to take the key, or not.
func (p rowState) remains() time.Duration {
	switch {
	case p.phase:
		return 0
	case !p.taken, !p.granted:
		return max(p.kept, 0)
	}
	return max(p.left, p.kept, 0)
}

// holder is the owner of the hold that keeps the key. Empty: the lease row tells of one that has ended, and nothing tells whose
// session has the row locked.
func (p rowState) holder() string {
	if p.phase || p.kept > 0 || p.taken && p.granted {
		return p.owner
	}
	return ""
}

// readRow reads the lease row.
func (f *ForUpdate) readRow(ctx context.Context, c *conn.Conn, key string) (p rowState, ok bool, err error) {
	found, err := conn.Query(ctx, c, 0, f.whose(key), func(rows *sql.Rows) (p rowState, err error) {
		var token, left, kept, wanted, now conn.Int
		err = rows.Scan(&token, &left, &kept, &p.owner, &wanted, &now, &p.run.Server, &p.run.Started, &p.taken, &p.granted)
		p.token, p.left, p.kept, p.wanted = token.N, conn.Micros(left.N), conn.Micros(kept.N), row.HintOf(wanted.N, now.N)
		p.phase = left.N >= row.PhaseMicros
		return p, err
	})
	if err != nil || len(found) == 0 {
		return p, false, err
	}
	return found[0], true, nil
}
