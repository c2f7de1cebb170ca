package mysqllock

import (
	"context"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/mysql/internal/cluster"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	look "github.com/rowlock/rowlock/mysql/internal/doctor"
	"github.com/rowlock/rowlock/mysql/internal/schema"
)

// Doctor looks for what is wrong with the database as a place for locks: settings, privileges, tables, proxies, clock and
// latency. docs/doctor.md lists all that it can find; nothing of that is an error. Where Check asks whether locks work at
// all, Doctor also finds what makes them slow, or less safe after a fault.
//
// It changes no row but those of a key of its own, which it takes, renews and releases to measure, and removes; and with
// Options.ReadOnly not these. It opens up to three connections beside the Store's and closes them. It takes some tenths of a
// second, two seconds more where KILL does not work, and may be called at any time, also before Migrate.
//
// Errors: rowlock.ErrInvalid for options that cannot be used, rowlock.ErrClosed, and those of the connection, of ctx too;
// the report is nil then. A question that the user has no right to ask is a finding with severity Skipped.
func (s *Store) Doctor(ctx context.Context, o doctor.Options) (*doctor.Report, error) {
	if s.closed.Load() {
		return nil, conn.ErrClosed()
	}
	table := doctor.MySQL()
	o, err := o.Fill(table)
	if err != nil {
		return nil, conn.NotSent("doctor", err)
	}
	defined, err := s.defined(s.strategy.Layout())
	if err != nil {
		return nil, conn.NotSent("doctor", err)
	}
	r := doctor.New(table, o)
	if err := s.examination(defined, o, r).Run(ctx); err != nil {
		return nil, conn.NotSent("doctor", err)
	}
	return r, nil
}

func (s *Store) examination(defined []schema.Definition, o doctor.Options, r *doctor.Report) *look.Examination {
	return look.New(look.Subject{
		Store: s, DB: s.db, Strategy: s.options.Strategy.String(), Layout: s.strategy.Layout(), Defined: defined,
		Prefix: s.options.Prefix, Connections: s.options.Connections + max(s.options.WakeupConns, 0),
		Sessions: s.sessionsTable(),
		Describe: func(v cluster.View, replicas int) (kind, promised string, risks []look.Risk) {
			c, risks := s.describe(v, replicas)
			return c.Kind, c.Promised, risks
		},
	}, o, r)
}

// sessionsTable is the table of the sessions of SelectForUpdate; empty: the strategy has none.
func (s *Store) sessionsTable() string {
	if s.options.Strategy != SelectForUpdate {
		return ""
	}
	return s.names.session
}
