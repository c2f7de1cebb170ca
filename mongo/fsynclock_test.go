package mongolock

import (
	"context"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
)

// TestP8_LookUnderFsyncLock: while db.fsyncLock is held no transaction may write, which the server says after 5 ms by an error of its
// own. Whether a guarded transaction is open is asked again meanwhile, and that error is not the caller's.
func TestP8_LookUnderFsyncLock(t *testing.T) {
	t.Parallel()
	srv := testserver.Start(t, testserver.Mongo)
	s := open(t, database(t, srv.DSN()), Options{})
	q := request("k")
	q.Guarded = true
	h := granted(t, s, q)
	admin := s.db.Client().Database("admin")
	locked := func(on bool) {
		t.Helper()
		cmd := bson.D{{Key: "fsyncUnlock", Value: 1}}
		if on {
			cmd = bson.D{{Key: "fsync", Value: 1}, {Key: "lock", Value: true}}
		}
		must(t, admin.RunCommand(context.Background(), cmd).Err())
	}
	locked(true)
	is, err := s.fence.Written(t.Context(), "k")
	var raw mongo.ServerError
	if is || err == nil || errors.As(err, &raw) && raw.HasErrorCode(command.CodeLockTimeout) {
		t.Errorf("P8: asked while writes are locked out: %v, %v", is, err)
	}
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), testserver.Patience(t))
		defer cancel()
		for {
			is, err := s.fence.Written(ctx, "k")
			if err == nil && is {
				err = errors.New("a transaction is open")
			} else if err != nil && ctx.Err() == nil {
				continue
			}
			answered <- err
			return
		}
	}()
	locked(false)
	if err := <-answered; err != nil {
		t.Errorf("P8: asked when writes go on: %v", err)
	}
	release(t, s, h)
}
