package session

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// The row lock decides who has a key, and it is the server's alone, for one run of it: after a failover or a restart
// nobody has it, although the holder trusts the hold until its heartbeats have been unanswered for long enough. A
// primary that freezes, or whose host vanishes, tells nobody. So a lease row names the run in which it was written,
// and one of another run that has not expired keeps the key until it has: step (3) refuses, the probe, Inspect and List
// show it as held. Nothing in it tells whether the hold was released, which writes nothing: so keys that were used within
// the last TTL before a failover come back after it. A row that names no run was written by a version before; it counts
// as released, as it did there.
//
// Readers and slots are rows of the share table, which outlive a failover. So it is enough that no phase begins while the
// hold of another run may be trusted: beginPhase asks as (3) does.

// ofThisRun is the part of (3) that refuses while the hold of another run may be trusted.
func ofThisRun(r conn.Run) conn.Statement {
	return func(t *conn.Text) {
		t.Add(" AND (released_at IS NOT NULL OR expires_at<="+row.Now+" OR server IS NULL OR server=").Key(r.Server).
			Add(" AND ").Near("TO_SECONDS(started) -62167219200", r.Started, conn.RunSlack).Add(")")
	}
}

// runColumns read the run that a lease row names.
const runColumns = "IFNULL(server,''),IFNULL(TIMESTAMPDIFF(SECOND,'1970-01-01',started),0)"

// elsewhere reports whether a row that was written in a run, and is live for left, keeps the key in that of the
// connection.
func elsewhere(ctx context.Context, c *conn.Conn, written conn.Run, left time.Duration) (bool, error) {
	if written.Server == "" || left <= 0 {
		return false, nil
	}
	now, err := c.Run(ctx)
	return err == nil && !written.Same(now), err
}

// endRow ends the lease row of a hold whose session is gone, so that no other run takes it for live until it expires. It
// matters nowhere else, so it may fail.
func (f *ForUpdate) endRow(ctx context.Context, q driver.Hold) { _, _ = f.takeBack(ctx, q) }
