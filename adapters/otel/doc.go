// Package otelrowlock has metrics and traces of rowlock by OpenTelemetry.
//
//	observer, err := otelrowlock.New(otelrowlock.Config{System: "mysql"}) // with the global providers
//	if err != nil { … }
//	locks, err := rowlock.New(store, rowlock.Options{
//		Name:      "jobs",            // the attribute rowlock.client
//		KeyName:   rowlock.UpTo("/"), // the attribute rowlock.lock: "import" of the key "import/42"
//		Observers: []*rowlock.Observer{observer},
//	})
//
// [New] has an example below. The guide is docs/guides/observing.md of the repository.
//
// # Names
//
// One observer is for any number of clients of a program: the attribute rowlock.client is their Options.Name. A key is never
// an attribute of a metric, because keys have no bound: rowlock.lock is what Options.KeyName makes of the key, for at most
// 100 names; all others are _other. Names and keys are any bytes, and an attribute is text: a byte that is no UTF-8, or a control
// character, is \xNN there, and at most 1024 bytes are shown.
//
// There are no semantic conventions for locks. Names, units and attributes follow the general ones: durations in seconds,
// error.type, db.system.name.
//
// Metrics (attributes; rowlock.client is on each that is not empty):
//
//	rowlock.acquire.duration     s            rowlock.lock, rowlock.outcome (granted, held, deadline, canceled, closed, error), rowlock.local, error.type
//	rowlock.hold.duration        s            rowlock.lock, rowlock.end (released, or a reason)
//	rowlock.renewal.duration     s            error.type
//	rowlock.renewal.trust_used   1            share of the trust that was used when a renewal was acknowledged: 0.37 is healthy, 1 is lost
//	rowlock.lease.losses         {loss}       rowlock.lock, rowlock.reason (every reason begins at 0)
//	rowlock.lease.count          {lease}      held now
//	rowlock.waiter.count         {waiter}     callers that wait now
//	rowlock.undo.count           {attempt}    whose outcome is not known yet
//	rowlock.store.call.duration  s            rowlock.op, db.system.name, error.type
//	rowlock.store.statements     {statement}  db.system.name
//	rowlock.event.dropped        {event}      that observers took too slowly
//
// Spans: rowlock.acquire, from the call to its answer; rowlock.hold, with Config.HoldSpans, from the beginning of the
// function of Do, Lead or Every to the end of its lease. Renewals have none. Statements are seen by what instruments the
// driver (otelsql for the pool given to mysqllock.New, otelmongo); those of the library have no parent span, because one
// statement serves many callers.
package otelrowlock
