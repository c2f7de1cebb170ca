package side

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

func isMongo(s Spec) bool { return strings.HasPrefix(s.Address, "mongodb") }

// connectMongo connects with room for every caller.
func connectMongo(s Spec) (*mongo.Client, error) {
	o := options.Client().ApplyURI(s.Address).SetMaxPoolSize(uint64(max(s.Callers+50, 100))).
		SetServerSelectionTimeout(10 * time.Second)
	if s.Meter != nil {
		o.SetPoolMonitor(s.Meter.pool())
	}
	if s.Via != nil {
		o.SetDialer(detour(s.Via))
	}
	return mongo.Connect(o)
}

// detour dials other addresses than it is told: the members of a replica set name
// each other to the client, so a proxy cannot be put into the URI.
type detour map[string]string

// DialContext implements options.ContextDialer.
func (d detour) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if other, ok := d[address]; ok {
		address = other
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// MongoHosts are the addresses by which the members of the replica set know each
// other.
func MongoHosts(ctx context.Context, s Spec) ([]string, error) {
	c, err := connectMongo(s)
	if err != nil {
		return nil, err
	}
	defer disconnect(c)
	var hello struct{ Hosts []string }
	err = c.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	return hello.Hosts, err
}

// PrepareMongo makes the floors' documents.
func PrepareMongo(ctx context.Context, s Spec) error {
	c, err := connectMongo(s)
	if err != nil {
		return err
	}
	defer disconnect(c)
	var docs []any
	for i := range Keys {
		docs = append(docs, bson.D{{Key: "_id", Value: Key(i)}, {Key: "held", Value: false}})
	}
	_, err = floorCollection(c, s).InsertMany(ctx, docs)
	return err
}

// DropMongo removes the database of the run.
func DropMongo(ctx context.Context, s Spec) error {
	c, err := connectMongo(s)
	if err != nil {
		return err
	}
	defer disconnect(c)
	return c.Database(s.Space).Drop(ctx)
}

func floorCollection(c *mongo.Client, s Spec) *mongo.Collection {
	return c.Database(s.Space).Collection(FloorTable, options.Collection().SetWriteConcern(writeconcern.Majority()))
}

// set writes one field of a document, durably on a majority; filter is added to
// the key.
func set(coll *mongo.Collection, held bool, filter ...bson.E) func(context.Context, string) (bool, error) {
	change := bson.D{{Key: "$set", Value: bson.D{{Key: "held", Value: held}}}}
	return func(ctx context.Context, key string) (bool, error) {
		r, err := coll.UpdateOne(ctx, append(bson.D{{Key: "_id", Value: key}}, filter...), change)
		if err != nil {
			return false, err
		}
		return r.ModifiedCount == 1, nil
	}
}

func must(try func(context.Context, string) (bool, error)) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		done, err := try(ctx, key)
		if err == nil && !done {
			err = fmt.Errorf("no document of %s changed", key)
		}
		return err
	}
}

// openFloorMongo is two bare $set updates at majority.
func openFloorMongo(_ context.Context, s Spec) (Locker, error) {
	c, err := connectMongo(s)
	if err != nil {
		return nil, err
	}
	coll := floorCollection(c, s)
	return &funcs{
		lock: must(set(coll, true)), unlock: must(set(coll, false)),
		close: func() error { return disconnect(c) },
	}, nil
}

func openPollerMongo(_ context.Context, s Spec) (Locker, error) {
	c, err := connectMongo(s)
	if err != nil {
		return nil, err
	}
	coll := floorCollection(c, s)
	return &poller{
		try: set(coll, true, bson.E{Key: "held", Value: false}), free: must(set(coll, false)),
		close: func() error { return disconnect(c) },
	}, nil
}

func openPingMongo(_ context.Context, s Spec) (Locker, error) {
	c, err := connectMongo(s)
	if err != nil {
		return nil, err
	}
	return &funcs{
		lock: func(ctx context.Context, _ string) error {
			return c.Database("admin").RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Err()
		},
		unlock: nothing, close: func() error { return disconnect(c) },
	}, nil
}
