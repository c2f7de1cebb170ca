package doctor

import (
	"context"

	"github.com/rowlock/rowlock/internal/latency"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// latency measures a statement that does nothing, and the steps of a lock of a key of our own.
func (e *Examination) latency(ctx context.Context) error {
	l := latency.Of{Works: "RL163", Slow: "RL161", Short: "RL162", Failover: e.failover, Forget: e.forget, Statement: func(ctx context.Context) error {
		return e.sessions[0].exec(ctx, "DO 0")
	}}
	switch {
	case e.o.ReadOnly:
		l.Skip = "Options.ReadOnly"
	case !e.writable:
		l.Skip = "the server takes no writes"
	case !e.fit:
		l.Skip = "the tables cannot be used"
	}
	return l.Measure(ctx, e.Store, e.o, e.report)
}

// forget removes the rows of a key that was used to measure. Nobody else has used it, so its token may go with it.
func (e *Examination) forget(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), conn.OpenWait)
	defer cancel()
	for _, t := range e.Layout {
		_, _ = e.DB.RemoveRow(ctx, conn.NewText(100).Add("DELETE FROM ", t.Table, " WHERE name=").Key(key).String())
	}
}
