package mongolock

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	look "github.com/rowlock/rowlock/mongo/internal/doctor"
)

// Doctor looks for what is wrong with the database as a place for locks: the replica set, privileges, collections, the
// client's pool, clock and latency. docs/doctor.md lists all that it can find; nothing of that is an error. Where Check asks
// whether locks work at all, Doctor also finds what makes them slow, or less safe after a fault. Much of it only a user with
// the role clusterMonitor may see; for others it is a finding with severity Skipped.
//
// It changes no document but that of a key of its own, which it takes, renews and releases to measure, and removes; and with
// Options.ReadOnly not that one. It takes some tenths of a second, and may be called at any time, also before Migrate.
//
// Errors: ErrInvalid for options that cannot be used, ErrClosed, and those of the connection, of ctx too; the report is nil
// then.
func (s *Store) Doctor(ctx context.Context, o doctor.Options) (*doctor.Report, error) {
	if err := s.open(ctx, "doctor"); err != nil {
		return nil, err
	}
	table := doctor.Mongo()
	o, err := o.Fill(table)
	if err != nil {
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mongo: %w", err)}
	}
	r := doctor.New(table, o)
	run := look.New(look.Subject{
		Store: s, Runner: s.cmd, DB: s.db, Name: s.String(), Leases: s.leases, Collections: s.collections(), Schema: s.schema(),
		Version: s.version, Hello: s.checkHello, Kill: s.checkKill, Pool: s.checkPool, UndoWait: undoWait,
	}, o, r)
	if err := run.ReadURI(); err != nil {
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: err}
	}
	if err := run.Run(ctx); err != nil {
		return nil, s.cmd.Fail(ctx, "doctor", err)
	}
	return r, nil
}

// collections of the Store, the one of New first.
func (s *Store) collections() []string {
	return []string{s.leases, s.fences, s.runs, s.txs}
}
