package testenv

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// setName is the name of every replica set here.
const setName = "rs0"

// replicaSet makes mongod processes a replica set and waits for it.
type replicaSet struct {
	nodes     []node
	initiated bool
}

// ready waits until each node that is up is a primary or a secondary, and, if they are a majority, until one of them
// takes writes. The first time it makes them a set.
func (r *replicaSet) ready(ctx context.Context, up []node) error {
	clients := make([]*mongo.Client, len(up))
	for i, n := range up {
		if err := dialUntil(ctx, n.addr(), n.gone); err != nil {
			return err
		}
		c, err := direct(n.addr())
		if err != nil {
			return err
		}
		defer hangUp(c)
		// A published port accepts before the server in the container does: so it must answer once.
		for _, err := sayHello(ctx, c); err != nil; _, err = sayHello(ctx, c) {
			if stop := pollPause(ctx, n.gone); stop != nil {
				return fmt.Errorf("%s does not answer: %w (last: %w)", n.addr(), stop, err)
			}
		}
		clients[i] = c
	}
	if !r.initiated {
		if err := r.initiate(ctx, clients[0]); err != nil {
			return err
		}
		r.initiated = true
	}
	for {
		writable, settled := false, true
		for _, c := range clients {
			h, err := sayHello(ctx, c)
			writable = writable || err == nil && h.Writable
			settled = settled && err == nil && (h.Writable || h.Secondary)
		}
		if settled && (writable || 2*len(up) <= len(r.nodes)) {
			return nil
		}
		for _, n := range up {
			if err := pollPause(ctx, n.gone); err != nil {
				return fmt.Errorf("replica set: no primary: %w", err)
			}
		}
	}
}

// initiate forms the set. The first of several nodes is preferred as primary, and failures are noticed within a
// second instead of ten, so that a failover test takes two.
func (r *replicaSet) initiate(ctx context.Context, c *mongo.Client) error {
	members := bson.A{}
	for i, n := range r.nodes {
		priority := 1
		if i == 0 {
			priority = 2
		}
		members = append(members, bson.M{"_id": i, "host": n.addr(), "priority": priority})
	}
	config := bson.M{"_id": setName, "version": 1, "members": members, "settings": bson.M{
		"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200, "heartbeatTimeoutSecs": 1, "catchUpTimeoutMillis": 0,
	}}
	err := c.Database("admin").RunCommand(ctx, bson.D{{Key: "replSetInitiate", Value: config}}).Err()
	if err != nil {
		return fmt.Errorf("replSetInitiate: %w", err)
	}
	return nil
}

// direct connects to one mongod, whatever set it belongs to.
func direct(addr string) (*mongo.Client, error) {
	return mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true").
		SetServerSelectionTimeout(2 * time.Second).SetConnectTimeout(time.Second))
}

// hangUp disconnects without the driver's wait for a server that is gone.
func hangUp(c *mongo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = c.Disconnect(ctx)
}

// hello is what a mongod says of itself.
type hello struct {
	Writable  bool   `bson:"isWritablePrimary"`
	Secondary bool   `bson:"secondary"`
	Primary   string `bson:"primary"`
}

func sayHello(ctx context.Context, c *mongo.Client) (h hello, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = c.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&h)
	return h, err
}

// mongoVersion asks a server or set for its version. The primary of a set that was ready has left a new connection
// without an answer for ten seconds, on a busy machine: so each try has five, and connections of its own.
func mongoVersion(ctx context.Context, uri string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		version, err := askVersion(ctx, uri)
		if err == nil || ctx.Err() != nil || !mongo.IsTimeout(err) {
			return version, err
		}
	}
}

func askVersion(ctx context.Context, uri string) (string, error) {
	c, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return "", err
	}
	defer hangUp(c)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var info struct{ Version string }
	err = c.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info)
	return info.Version, err
}

// standaloneReady waits for a mongod outside any set.
func standaloneReady(ctx context.Context, up []node) error {
	for _, n := range up {
		if err := dialUntil(ctx, n.addr(), n.gone); err != nil {
			return err
		}
		c, err := direct(n.addr())
		if err != nil {
			return err
		}
		defer hangUp(c)
		for {
			if h, err := sayHello(ctx, c); err == nil && h.Writable {
				break
			}
			if err := pollPause(ctx, n.gone); err != nil {
				return err
			}
		}
	}
	return nil
}
