package fault

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

func sessionFaults() []Fault {
	return []Fault{
		Fault{Name: "sessions-killed", Kinds: sqlKinds, Weight: 3,
			What: "an operator ends sessions and statements at random (KILL, KILL QUERY)",
			Expect: "everything; P2 has its exception for SelectForUpdate: the key is free at the KILL, and its holder learns it " +
				"within min(TTL/10, 1 s)"}.by(sessionsKilled),
		Fault{Name: "operations-killed", Kinds: mongoKinds, Weight: 3,
			What:   "an operator ends operations and sessions at random (killOp, killAllSessions)",
			Expect: "everything; a transaction whose session is ended is the caller's to repeat (P8)"}.by(operationsKilled),
	}
}

// sessionIDs are the sessions of clients, this one excepted.
func (s *scene) sessionIDs(ctx context.Context, q querier) (ids []int64, err error) {
	rows, err := q.QueryContext(ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID<>CONNECTION_ID() AND COMMAND NOT IN ('Daemon', 'Binlog Dump')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func sessionsKilled(ctx context.Context, s *scene) (string, error) {
	d, every := s.while(), s.between(20*time.Millisecond, s.TTL/5)
	n := 0
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; timed.Rest(ctx, every) {
		ids, err := s.sessionIDs(ctx, s.DB)
		if err != nil || len(ids) == 0 {
			continue // the server may be away: another fault is at it
		}
		verb := "KILL"
		if s.rand.IntN(3) == 0 {
			verb = "KILL QUERY"
		}
		for _, id := range some(s, ids) {
			if _, err := s.DB.ExecContext(ctx, fmt.Sprintf("%s %d", verb, id)); err == nil {
				n++
			}
		}
	}
	return fmt.Sprintf("%d in %v", n, d), nil
}

func operationsKilled(ctx context.Context, s *scene) (string, error) {
	d := s.while()
	admin := s.Mongo.Database("admin")
	kills, all := 0, 0
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; timed.Rest(ctx, 5*time.Millisecond) {
		if s.rand.IntN(30) == 0 && admin.RunCommand(ctx, bson.D{{Key: "killAllSessions", Value: bson.A{}}}).Err() == nil {
			all++
		}
		cursor, err := admin.Aggregate(ctx, bson.A{
			bson.M{"$currentOp": bson.M{"allUsers": true}},
			bson.M{"$match": bson.M{"client": bson.M{"$exists": true}, "op": bson.M{"$ne": "none"}, "command.hello": nil,
				"command.aggregate": bson.M{"$ne": 1}}}, // not this one
			bson.M{"$project": bson.M{"opid": 1}},
		})
		var ops []struct {
			ID any `bson:"opid"`
		}
		if err != nil || cursor.All(ctx, &ops) != nil || len(ops) == 0 {
			continue
		}
		for _, op := range some(s, ops) {
			if admin.RunCommand(ctx, bson.D{{Key: "killOp", Value: 1}, {Key: "op", Value: op.ID}}).Err() == nil {
				kills++
			}
		}
	}
	return fmt.Sprintf("%d operations, %d times all sessions, in %v", kills, all, d), nil
}
