package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/fault"
	"github.com/rowlock/rowlock/dev/verify/history"
	lockdriver "github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/fencing"
	mongolock "github.com/rowlock/rowlock/mongo"
)

// The database of all rounds on a server, and its collections.
const (
	MongoDatabase   = "test"
	MongoCollection = "rowlock"

	mongoLedger   = "verify_ledger"
	mongoSeen     = "verify_seen"
	mongoEffect   = "verify_effect"
	mongoPulse    = "verify_pulse"
	mongoRegister = "verify_register"
)

// mongoBackend is a space on MongoDB.
type mongoBackend struct {
	client         *mongo.Client
	locks          *mongolock.Store
	rows, register *mongo.Collection
	made           *mongo.Collection // effects
	found          *mongo.Collection // what readers found
	address        string
	through        map[string]string
}

func connectMongo(address string, through map[string]string) (*mongo.Client, error) {
	return mongo.Connect(options.Client().ApplyURI(address).
		SetHeartbeatInterval(time.Second). // as docs/guides/cluster-kinds.md says
		SetDialer(fault.Dialer(through)).
		SetServerSelectionTimeout(3 * time.Second).SetWriteConcern(writeconcern.Majority()))
}

func openMongo(address string, through map[string]string) (*mongoBackend, error) {
	client, err := connectMongo(address, through)
	if err != nil {
		return nil, err
	}
	db := client.Database(MongoDatabase)
	locks, err := mongolock.New(db.Collection(MongoCollection), mongolock.Options{})
	if err != nil {
		return nil, err
	}
	linearizable := options.Collection().SetReadConcern(readconcern.Linearizable())
	return &mongoBackend{client, locks, db.Collection(mongoLedger), db.Collection(mongoRegister, linearizable), db.Collection(mongoEffect), db.Collection(mongoSeen), address, through}, nil
}

func (b *mongoBackend) store() lockdriver.Store { return b.locks }

func (b *mongoBackend) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return errors.Join(b.locks.Close(), b.client.Disconnect(ctx))
}

func (b *mongoBackend) commit(ctx context.Context, leases []*rowlock.Lease, rows []row, own bool, sending func([]int64)) error {
	add := func(ctx context.Context) error {
		var numbers []int64
		for i, r := range rows {
			n, err := b.add(ctx, leases[i].Key(), r)
			if err != nil {
				return err
			}
			numbers = append(numbers, n)
		}
		sending(numbers)
		return nil
	}
	if !own {
		return b.locks.InTx(ctx, leases[0], add, leases[1:]...)
	}
	return b.inTx(ctx, func(ctx context.Context) error {
		if err := b.locks.Guard(ctx, leases[0], leases[1:]...); err != nil {
			return err
		}
		return add(ctx)
	})
}

// inTx runs fn in a transaction of the caller's.
func (b *mongoBackend) inTx(ctx context.Context, fn func(ctx context.Context) error) error {
	session, err := b.client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	err = session.StartTransaction(options.Transaction().
		SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		return err
	}
	if err := fn(mongo.NewSessionContext(ctx, session)); err != nil {
		abort, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = session.AbortTransaction(abort)
		return transient(err)
	}
	if err := session.CommitTransaction(ctx); err != nil {
		if marked := transient(err); errors.Is(marked, rowlock.ErrConflict) {
			return marked
		}
		return fmt.Errorf("%w: %w", errCommit, err)
	}
	return nil
}

func (b *mongoBackend) once(ctx context.Context, lease *rowlock.Lease, mark string, r row, own bool) error {
	if !own {
		return b.locks.Once(ctx, lease, mark, func(ctx context.Context) error { return b.effect(ctx, lease.Key(), r) })
	}
	return b.inTx(ctx, func(ctx context.Context) error {
		if err := b.locks.MarkRun(ctx, lease, mark); err != nil {
			return err
		}
		return b.effect(ctx, lease.Key(), r)
	})
}

func (b *mongoBackend) locked(ctx context.Context, key string, r row, sending func(string)) error {
	if err := b.locks.WaitTx(ctx, key); err != nil {
		return err
	}
	return b.inTx(ctx, func(ctx context.Context) error {
		if err := b.locks.LockTx(ctx, key); err != nil {
			return err
		}
		n, err := b.made.CountDocuments(ctx, bson.M{"key": key})
		if err != nil {
			return err
		}
		r.Run = strconv.FormatInt(n, 10)
		if err := b.effect(ctx, key, r); err != nil {
			return err
		}
		sending(r.Run)
		return nil
	})
}

func (b *mongoBackend) effect(ctx context.Context, key string, r row) error {
	_, err := b.made.InsertOne(ctx, bson.M{"key": key, "run": r.Run, "client": r.Client, "event": r.Event})
	return err
}

// add adds the next row to the ledger of key, or what a reader found there, in the transaction
// of ctx.
func (b *mongoBackend) add(ctx context.Context, key string, r row) (int64, error) {
	name := r.ledger(key)
	var last struct{ N int64 }
	err := b.rows.FindOne(ctx, bson.M{"key": name}, options.FindOne().SetSort(bson.D{{Key: "n", Value: -1}})).Decode(&last)
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return 0, err
	}
	n, to := last.N, b.found
	if r.Mode != history.Shared {
		n, to = n+1, b.rows
	}
	_, err = to.InsertOne(ctx, bson.M{"key": name, "n": n, "token": r.Token, "client": r.Client, "event": r.Event})
	return n, err
}

// transient marks an error after which the server has aborted the transaction.
func transient(err error) error {
	var labeled mongo.LabeledError
	if errors.As(err, &labeled) && labeled.HasErrorLabel("TransientTransactionError") && !labeled.HasErrorLabel("UnknownTransactionCommitResult") {
		return fmt.Errorf("%w: %w", rowlock.ErrConflict, err)
	}
	return err
}

func (b *mongoBackend) write(ctx context.Context, key string, token, value int64) error {
	res, err := b.register.UpdateOne(ctx, bson.M{"_id": key, "fence": fencing.Filter(token)},
		bson.M{"$set": bson.M{"value": value, "fence": token}})
	if err != nil {
		return err
	}
	return fencing.Matched(res.MatchedCount, token)
}

func (b *mongoBackend) read(ctx context.Context, key string) (value, token int64, err error) {
	var doc struct{ Value, Fence int64 }
	err = b.register.FindOne(ctx, bson.M{"_id": key}).Decode(&doc)
	return doc.Value, doc.Fence, err
}

// unapplied: the driver sends a write that found no answer once more, so the error
// need not be that of the first attempt, and proves nothing.
func (b *mongoBackend) unapplied(error) bool { return false }
