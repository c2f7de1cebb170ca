package command

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/mongo/internal/document"
)

// registry encodes as the library's documents are: a client's own may write other types.
var registry = bson.NewRegistry()

// Database is a database of the client that encodes and decodes as the driver does by itself, whatever the client was told.
func Database(c *mongo.Client, name string) *mongo.Database {
	return c.Database(name, options.Database().SetRegistry(registry).SetBSONOptions(&options.BSONOptions{}))
}

// Runner runs commands on one database. It is for concurrent use.
type Runner struct {
	db          *mongo.Database
	collections []string // of the Store, for messages; the first one is that of New
	standalone  atomic.Bool
	statements  atomic.Uint64
	places      places
	liveness    *liveness
	occupiers   occupiers

	// one is the limit of a command with one key. What such a command usually takes also
	// says when an answer is overdue.
	One Limit
}

// New is a Runner for a Store that keeps its locks in these collections of db.
func New(db *mongo.Database, collections ...string) *Runner {
	return &Runner{db: db, collections: collections, places: newPlaces(MaxCommands), liveness: newLiveness()}
}

// String is the full name of the Store's first collection, for messages.
func (r *Runner) String() string { return r.db.Name() + "." + r.collections[0] }

// SetStandalone says that the server is no member of a replica set: writes go out without
// numbers, because it has no retryable writes. It is called before the first write.
func (r *Runner) SetStandalone(is bool) { r.standalone.Store(is) }

// Standalone reports whether the server is no member of a replica set.
func (r *Runner) Standalone() bool { return r.standalone.Load() }

// Count counts a statement that somebody else sends: the driver, in a transaction.
func (r *Runner) Count() { r.statements.Add(1) }

// Sent is the number of commands so far.
func (r *Runner) Sent() uint64 { return r.statements.Load() }

// Close ends what the Runner has started by itself, and waits for it.
func (r *Runner) Close() {
	r.occupiers.close()
	r.liveness.close()
}

// NoDeadline is a context that carries the caller's cancellation to the driver, but not its
// deadline, from which the driver would make a second maxTimeMS. A far deadline
// also keeps the client's own Timeout option from making one. (mongo-driver
// 2.9.3, internal/driverutil.CalculateMaxTimeMS: none beyond 24 days.)
func NoDeadline(ctx context.Context) context.Context { return noDeadline{ctx} }

type noDeadline struct{ context.Context }

var farAway = time.Now().Add(100 * 365 * 24 * time.Hour)

func (noDeadline) Deadline() (time.Time, bool) { return farAway, true }

// Err says Canceled also when the deadline has passed: the driver closes the
// connection for both, but takes an unexplained end of a connection for a failure
// of the server and would clear the pool.
func (c noDeadline) Err() error {
	if c.Context.Err() != nil {
		return context.Canceled
	}
	return nil
}

// Send sends one command to the primary, in sess or in none of the caller's, and
// returns when it is answered or ctx ends; then its connection is closed. So it is, with
// ErrSilent, if the command is overdue and its connection dead (silence.go). A reply
// with write errors or a write concern error comes with an error too.
func (r *Runner) Send(ctx context.Context, sess *Session, cmd bson.D, limit time.Duration) (bson.Raw, error) {
	if limit > 0 {
		cmd = append(cmd[:len(cmd):len(cmd)], MaxTime(limit))
	}
	leave, err := r.places.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	watched, stop := r.WatchSilence(ctx, limit)
	defer stop()
	return r.Run(watched, sess, cmd)
}

// Run is Send for a command that needs no place and may take as long as ctx lasts.
func (r *Runner) Run(ctx context.Context, sess *Session, cmd bson.D) (bson.Raw, error) {
	r.statements.Add(1)
	var in *mongo.Session
	if sess != nil {
		in = sess.driver
	}
	raw, err := r.db.RunCommand(mongo.NewSessionContext(NoDeadline(ctx), in), cmd).Raw()
	if cause := context.Cause(ctx); err != nil && (cause == ErrSilent || cause == errAbsent) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return raw, err
}

// Read sends a command that changes nothing, and that a server which is not too busy
// answers at once.
func (r *Runner) Read(ctx context.Context, cmd bson.D) (bson.Raw, error) {
	for tries := 0; ; tries++ {
		raw, err := r.Send(ctx, nil, append(cmd[:len(cmd):len(cmd)], MaxTime(Left(ctx))), 0)
		if err == nil || ctx.Err() != nil || tries == 2 || !(NothingSent(err) || Repeatable(err) || Silent(err)) {
			return raw, err
		}
	}
}

// ReadAdmin is Read, once, of what only the database admin answers.
func (r *Runner) ReadAdmin(ctx context.Context, cmd bson.D) (bson.Raw, error) {
	r.statements.Add(1)
	cmd = append(cmd[:len(cmd):len(cmd)], MaxTime(Left(ctx)))
	return Database(r.db.Client(), "admin").RunCommand(mongo.NewSessionContext(NoDeadline(ctx), nil), cmd).Raw()
}

// Left is the time until ctx ends, at least a millisecond, at most a minute.
func Left(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Minute
	}
	return min(max(time.Until(deadline), time.Millisecond), time.Minute)
}

// MaxTime is the server's limit for a command.
func MaxTime(d time.Duration) bson.E {
	return bson.E{Key: "maxTimeMS", Value: document.Millis(d)}
}

// Scan is Documents by a command that may have to read a whole collection.
func (r *Runner) Scan(ctx context.Context, cmd bson.D) ([]bson.Raw, error) {
	leave, err := r.places.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	reply, err := r.Run(ctx, nil, append(cmd[:len(cmd):len(cmd)], MaxTime(Left(ctx))))
	return DocumentsOf(cmd, reply, err)
}

// Documents reads by a command whose answer has a cursor: the documents of its only
// batch.
func (r *Runner) Documents(ctx context.Context, cmd bson.D) ([]bson.Raw, error) {
	reply, err := r.Read(ctx, cmd)
	return DocumentsOf(cmd, reply, err)
}
