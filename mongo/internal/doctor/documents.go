package doctor

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/internal/latency"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

const (
	manyDead = 1000
	sample   = 100_000 // documents that are looked at, at most
	longDead = 48 * time.Hour
)

// deadDocuments counts what nobody reaps.
func (e *Examination) deadDocuments(ctx context.Context) error {
	const id = "RL222"
	docs, err := e.Runner.Scan(ctx, bson.D{
		{Key: "aggregate", Value: e.Leases},
		{Key: "pipeline", Value: bson.A{
			document.Op("$limit", sample),
			document.Op("$match", append(document.Op("_id", document.Op("$type", "binData")), document.Dead(longDead)...)),
			document.Op("$count", "n"),
		}},
		{Key: "hint", Value: document.ByID},
		{Key: "cursor", Value: bson.D{}},
	})
	if err != nil {
		return e.refused(err, id)
	}
	var n int64
	if len(docs) > 0 {
		n, _ = docs[0].Lookup("n").AsInt64OK()
	}
	if n > manyDead {
		e.add(id, doctor.Warn, fmt.Sprintf("%d in %s", n, e.Leases))
	} else {
		e.add(id, doctor.OK, fmt.Sprint(n))
	}
	return nil
}

// transactions looks for those that are open for long.
func (e *Examination) transactions(ctx context.Context) error {
	const id = "RL250"
	reply, err := e.admin(ctx, bson.D{
		{Key: "aggregate", Value: 1},
		{Key: "pipeline", Value: bson.A{
			document.Op("$currentOp", bson.D{{Key: "allUsers", Value: true}, {Key: "idleSessions", Value: true}}),
			document.Op("$match", bson.D{
				{Key: "transaction.parameters.autocommit", Value: false},
				{Key: "transaction.timeOpenMicros", Value: document.Op("$gte", e.o.OldTransaction.Microseconds())},
			}),
			document.Op("$sort", document.Op("transaction.timeOpenMicros", -1)),
			document.Op("$limit", 50),
		}},
		{Key: "cursor", Value: bson.D{}},
	})
	if err != nil {
		return e.refused(err, id)
	}
	var found struct {
		Cursor struct {
			First []struct {
				Client      string
				AppName     string `bson:"appName"`
				Transaction struct {
					Open int64 `bson:"timeOpenMicros"`
				}
				Lsid struct{ ID, UID bson.Binary }
			} `bson:"firstBatch"`
		}
	}
	if err := bson.Unmarshal(reply, &found); err != nil {
		return err
	}
	for _, t := range found.Cursor.First {
		b := t.Lsid.ID.Data
		if len(b) != 16 {
			continue
		}
		open := (time.Duration(t.Transaction.Open) * time.Microsecond).Round(time.Second)
		session := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		e.add(id, doctor.Warn, fmt.Sprintf("session %s of %s %s: open for %v", session, t.Client, t.AppName, open),
			"id", session, "uid", base64.StdEncoding.EncodeToString(t.Lsid.UID.Data))
	}
	if len(found.Cursor.First) == 0 {
		e.add(id, doctor.OK, "none is older than "+e.o.OldTransaction.String())
	}
	return nil
}

// latency measures a command that does nothing, and the steps of a lock of a key of our own.
func (e *Examination) latency(ctx context.Context) error {
	l := latency.Of{Works: "RL263", Slow: "RL261", Short: "RL262", Failover: e.failover, Forget: e.forget, Statement: func(ctx context.Context) error {
		_, err := e.Runner.Read(ctx, document.Op("ping", 1))
		return err
	}}
	switch {
	case e.o.ReadOnly:
		l.Skip = "Options.ReadOnly"
	case e.works != nil:
		l.Skip = e.works.Error()
	}
	return l.Measure(ctx, e.Store, e.o, e.report)
}

// forget removes the document of a key that was used to measure. Nobody else has used it.
func (e *Examination) forget(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = e.Runner.Write(ctx, nil, bson.D{
		{Key: "delete", Value: e.Leases},
		{Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: document.ByKey(key)}, {Key: "limit", Value: 1}}}},
	}, e.UndoWait)
}
