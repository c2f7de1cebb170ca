// Package doctor looks for what is wrong with a database as a place for locks: doctor.go is one run of it, the other files
// have the findings.
package doctor

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/schema"
)

// Subject is what is examined.
type Subject struct {
	Store       driver.Store
	Runner      *command.Runner
	DB          *mongo.Database
	Name        string // of the Store
	Leases      string // the collection of the leases
	Collections []string
	Schema      schema.Schema
	UndoWait    time.Duration

	// The questions of Check.
	Version     func(context.Context) string
	Hello, Pool func(context.Context, bson.Raw) error
	Kill        func(context.Context) error
}

// New is a run that has not begun.
func New(s Subject, o doctor.Options, r *doctor.Report) *Examination {
	return &Examination{Subject: s, o: o, report: r, failover: o.Failover}
}

// Examination is one run of Doctor.
type Examination struct {
	Subject
	o        doctor.Options
	report   *doctor.Report
	hello    bson.Raw
	failover time.Duration
	works    error // why no lock can be taken; nil: it can
	is       serverKind
}

// Run adds what it finds to the report.
func (e *Examination) Run(ctx context.Context) error {
	err := e.run(ctx)
	e.report.Sort()
	return err
}

func (e *Examination) run(ctx context.Context) (err error) {
	if e.hello, err = e.Runner.Read(ctx, document.Op("hello", 1)); err != nil {
		return err
	}
	if err := e.server(ctx); err != nil {
		return err
	}
	if e.is == standalone && e.works != nil { // what else it lacks helps nobody
		return errors.Join(e.storage(ctx), e.clock(ctx))
	}
	for _, step := range []func(context.Context) error{
		e.replicaSet, e.storage, e.defaults,
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
func (e *Examination) add(id string, s doctor.Severity, value string, with ...string) {
	e.report.Add(id, s, value, append(with, "database", e.DB.Name())...)
}

// refused makes an answer of the server to a question a finding: it was skipped. Any other error comes back.
func (e *Examination) refused(err error, ids ...string) error {
	if command.Code(err) == 0 {
		return err
	}
	for _, id := range ids {
		e.add(id, doctor.Skipped, command.Brief(err))
	}
	return nil
}

// admin sends a command that reads to the database admin.
func (e *Examination) admin(ctx context.Context, cmd bson.D) (bson.Raw, error) {
	e.Runner.Count()
	return command.Database(e.DB.Client(), "admin").RunCommand(command.NoDeadline(ctx), append(cmd, command.MaxTime(command.Left(ctx)))).Raw()
}

const codeInvalidOperator = 168 // InvalidPipelineOperator

// server looks at what the server is, and whether it takes writes.
func (e *Examination) server(ctx context.Context) error {
	const server, writes = "RL201", "RL202"
	version := e.Version(ctx)
	var name string
	e.is, name = kindOf(e.hello)
	e.report.Server = "MongoDB " + version + name
	e.report.Strategy = "documents of " + e.Name
	err := e.Hello(ctx, e.hello)
	e.works = err
	writable, _ := e.hello.Lookup("isWritablePrimary").BooleanOK()
	if writable {
		e.add(writes, doctor.OK, "yes")
	} else {
		e.add(writes, doctor.Fail, map[bool]string{true: "the replica set was not begun: rs.initiate()", false: "the member is no writable primary"}[e.is == notBegun])
	}
	if errors.Is(err, driver.ErrNotSupported) && e.is == standalone {
		e.add(server, doctor.Fail, version+", standalone")
		return nil
	}
	if errors.Is(err, driver.ErrNotSupported) {
		e.add(server, doctor.Fail, err.Error())
		return nil
	}
	_, err = e.Runner.Read(ctx, bson.D{
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
func (e *Examination) clock(ctx context.Context) error {
	const looks = 9
	for i := range looks {
		before := time.Now()
		reply, err := e.Runner.Read(ctx, document.Op("hello", 1))
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
