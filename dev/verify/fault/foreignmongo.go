package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

func foreignMongoFaults() []Fault {
	return []Fault{
		Fault{Name: "documents-written", Kinds: mongoKinds, Weight: 3,
			What: "another program's transaction has written the documents of hot keys (a field of its own), and stays open",
			Expect: "everything; leases of these keys may be lost, with the signal. No write conflict reaches the caller, those of its own " +
				"transaction excepted (P8)"}.by(documentsWritten),
		Fault{Name: "documents-contended", Kinds: mongoKinds, Weight: 2,
			What:   "another program writes the documents of hot keys all the time",
			Expect: "everything, as with documents-written"}.by(documentsContended),
		Fault{Name: "fsync-locked", Kinds: mongoKinds, Weight: 1, Uses: []string{server},
			What:   "db.fsyncLock on the primary, as a backup does: writes wait, for up to half a TTL",
			Expect: "everything; leases may be lost, with the signal"}.by(fsyncLocked),
	}
}

// documents are some hot keys.
func (s *scene) documents() (coll *mongo.Collection, filter bson.M, ok bool) {
	name, keys, ok := s.space()
	if !ok {
		return nil, nil, false
	}
	ids := make(bson.A, len(keys))
	for i, k := range keys {
		ids[i] = bson.Binary{Data: []byte(k)}
	}
	return s.Mongo.Database("test").Collection(name), bson.M{"_id": bson.M{"$in": ids}}, true
}

var foreignField = bson.M{"$inc": bson.M{"foreign": 1}}

func documentsWritten(ctx context.Context, s *scene) (string, error) {
	coll, filter, ok := s.documents()
	if !ok {
		return "", nil
	}
	d, commit := s.between(20*time.Millisecond, s.TTL*3/2), s.rand.IntN(2) == 0
	ctx, cancel := context.WithTimeout(ctx, d+2*s.TTL)
	defer cancel()
	session, err := s.Mongo.StartSession()
	if err != nil {
		return "", err
	}
	heal, stop := context.WithTimeout(context.WithoutCancel(ctx), d+4*s.TTL)
	defer stop()
	defer session.EndSession(heal) // it aborts what is open
	var n int64
	for range 20 { // the library's own writes are in the way now and then
		if err = session.StartTransaction(); err != nil {
			return "", err
		}
		var r *mongo.UpdateResult
		if r, err = coll.UpdateMany(mongo.NewSessionContext(ctx, session), filter, foreignField); err == nil {
			n = r.ModifiedCount
			break
		}
		_ = session.AbortTransaction(heal)
		timed.Rest(ctx, 5*time.Millisecond)
	}
	if err == nil {
		timed.Rest(ctx, d)
		if commit {
			err = session.CommitTransaction(ctx)
		} else {
			err = session.AbortTransaction(ctx)
		}
	}
	return describe(err, "%d documents of %s for %v, commit: %t", n, coll.Name(), d, commit), nil
}

func documentsContended(ctx context.Context, s *scene) (string, error) {
	coll, filter, ok := s.documents()
	if !ok {
		return "", nil
	}
	d, rest, n := s.while(), s.between(0, 10*time.Millisecond), 0
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; timed.Rest(ctx, rest) {
		try, stop := context.WithTimeout(ctx, s.TTL)
		if _, err := coll.UpdateMany(try, filter, foreignField); err == nil {
			n++
		}
		stop()
	}
	return fmt.Sprintf("%d times in %v", n, d), nil
}

func fsyncLocked(ctx context.Context, s *scene) (what string, err error) {
	member := 0
	if s.Kind == mongo3[0] {
		if member, err = s.primary(ctx); err != nil {
			return "", err
		}
	}
	members, err := addresses(s.Server)
	if err != nil {
		return "", err
	}
	// Its own connection: the lock is this member's, also when another is the primary later.
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + members[member] + "/?directConnection=true"))
	if err != nil {
		return "", err
	}
	admin := client.Database("admin")
	heal, cancel := healing(ctx)
	defer cancel()
	defer func() { _ = client.Disconnect(heal) }()
	d := s.between(20*time.Millisecond, s.TTL/2)
	// Without the caller's context: a call that is given up may lock all the same.
	err = admin.RunCommand(heal, bson.D{{Key: "fsync", Value: 1}, {Key: "lock", Value: true}}).Err()
	if err != nil {
		return "", err
	}
	timed.Rest(ctx, d)
	for {
		var left struct {
			Count int `bson:"lockCount"`
		}
		err := admin.RunCommand(heal, bson.D{{Key: "fsyncUnlock", Value: 1}}).Decode(&left)
		if err == nil && left.Count == 0 {
			return fmt.Sprintf("member %d for %v", member, d), nil
		}
		if heal.Err() != nil {
			return "", notWhole(fmt.Errorf("unlock: %w", errors.Join(heal.Err(), err)))
		}
		timed.Rest(heal, 20*time.Millisecond)
	}
}
