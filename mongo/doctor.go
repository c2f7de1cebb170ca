package mongolock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
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
	e := &examination{s: s, o: o, report: doctor.New(table, o), failover: o.Failover}
	if err := e.readURI(); err != nil {
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: err}
	}
	if err := e.run(ctx); err != nil {
		return nil, s.cmd.Fail(ctx, "doctor", err)
	}
	e.report.Sort()
	return e.report, nil
}

// examination is one run of Doctor.
type examination struct {
	s        *Store
	o        doctor.Options
	report   *doctor.Report
	hello    bson.Raw
	failover time.Duration
	works    error // why no lock can be taken; nil: it can
}

func (e *examination) run(ctx context.Context) (err error) {
	if e.hello, err = e.s.cmd.Read(ctx, document.Op("hello", 1)); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		e.server, e.replicaSet, e.storage, e.defaults,
		e.privileges, e.mayKill, e.collections, e.deadDocuments,
		e.pool, e.transactions, e.clock, e.latency,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// add adds a finding.
func (e *examination) add(id string, s doctor.Severity, value string, with ...string) {
	e.report.Add(id, s, value, append(with, "database", e.s.db.Name())...)
}

// refused makes an answer of the server to a question a finding: it was skipped. Any other error comes back.
func (e *examination) refused(err error, ids ...string) error {
	if command.Code(err) == 0 {
		return err
	}
	for _, id := range ids {
		e.add(id, doctor.Skipped, command.Brief(err))
	}
	return nil
}

// admin sends a command that reads to the database admin.
func (e *examination) admin(ctx context.Context, cmd bson.D) (bson.Raw, error) {
	e.s.cmd.Count()
	return command.Database(e.s.db.Client(), "admin").RunCommand(command.NoDeadline(ctx), append(cmd, command.MaxTime(command.Left(ctx)))).Raw()
}

const codeInvalidOperator = 168 // InvalidPipelineOperator

// server looks at what the server is, and whether it takes writes.
func (e *examination) server(ctx context.Context) error {
	const server, writes = "RL201", "RL202"
	me, _ := e.hello.Lookup("me").StringValueOK()
	set, _ := e.hello.Lookup("setName").StringValueOK()
	version := e.s.version(ctx)
	e.report.Server = fmt.Sprintf("MongoDB %s at %s (replica set %s)", version, me, set)
	if msg, _ := e.hello.Lookup("msg").StringValueOK(); msg == "isdbgrid" {
		e.report.Server = fmt.Sprintf("MongoDB %s, sharded (mongos)", version)
	}
	e.report.Strategy = "documents of " + e.s.String()
	err := e.s.checkHello(ctx, e.hello)
	e.works = err
	writable, _ := e.hello.Lookup("isWritablePrimary").BooleanOK()
	if writable {
		e.add(writes, doctor.OK, "yes")
	} else {
		e.add(writes, doctor.Fail, "the member is no writable primary")
	}
	if errors.Is(err, driver.ErrNotSupported) {
		e.add(server, doctor.Fail, err.Error())
		return nil
	}
	_, err = e.s.cmd.Read(ctx, bson.D{
		{Key: "aggregate", Value: 1},
		{Key: "pipeline", Value: bson.A{document.Op("$documents", bson.A{document.Op("t", document.Op("$tsSecond", bson.Timestamp{T: 1, I: 1}))})}},
		{Key: "cursor", Value: bson.D{}},
	})
	switch code := command.Code(err); {
	case code == codeInvalidOperator:
		e.add(server, doctor.Fail, err.Error())
	case err != nil && code == 0:
		return err
	default:
		e.add(server, doctor.OK, version)
	}
	return nil
}

// clock compares the server's with ours. Half of the trip is the error, and its milliseconds.
func (e *examination) clock(ctx context.Context) error {
	const looks = 9
	for i := range looks {
		before := time.Now()
		reply, err := e.s.cmd.Read(ctx, document.Op("hello", 1))
		if err != nil {
			return err
		}
		trip := time.Since(before)
		now, _ := reply.Lookup("localTime").DateTimeOK()
		if off := trip/2 + time.Millisecond/2; i == 0 || off < e.report.SkewError {
			e.report.Skew, e.report.SkewError = time.UnixMilli(now).Add(time.Millisecond/2).Sub(before.Add(trip/2)), off
		}
	}
	e.add("RL260", doctor.Info, e.report.Clock())
	return nil
}
