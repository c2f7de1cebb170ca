package workload

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/dev/verify/history"
)

func (b *mongoBackend) prepare(ctx context.Context) error {
	_, err := b.rows.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "key", Value: 1}, {Key: "n", Value: 1}}})
	if err != nil {
		return err
	}
	_, err = b.found.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "key", Value: 1}}})
	if err != nil {
		return err
	}
	_, err = b.made.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "key", Value: 1}, {Key: "run", Value: 1}}})
	return err
}

// pulse dials a client of its own: the driver has no other way to a new connection.
func (b *mongoBackend) pulse(ctx context.Context) error {
	client, err := connectMongo(b.address, b.through)
	if err != nil {
		return err
	}
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = client.Disconnect(bound) // it speaks to the server, which may be out of reach
	}()
	_, err = client.Database(MongoDatabase).Collection(mongoPulse).InsertOne(ctx, bson.M{})
	return err
}

func (b *mongoBackend) seen(ctx context.Context, _, key string) ([]history.Event, error) {
	found, err := b.found.Find(ctx, bson.M{"key": key}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var docs []struct {
		N, Token, Event int64
		Client          string
	}
	if err := found.All(ctx, &docs); err != nil {
		return nil, err
	}
	var list []history.Event
	for _, d := range docs {
		list = append(list, history.Event{Value: d.N, Token: d.Token, Owner: d.Client, Run: commitName(d.Client, d.Event)})
	}
	return list, nil
}

func (b *mongoBackend) effects(ctx context.Context, _, key string) ([]history.Event, error) {
	found, err := b.made.Find(ctx, bson.M{"key": key}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var docs []struct {
		Run, Client string
		Event       int64
	}
	if err := found.All(ctx, &docs); err != nil {
		return nil, err
	}
	var list []history.Event
	for _, d := range docs {
		list = append(list, history.Event{Kind: history.Effect, Run: d.Run, Owner: d.Client, Value: d.Event})
	}
	return list, nil
}

func (b *mongoBackend) marks(ctx context.Context, _, key string) ([]history.Event, error) {
	runs := b.client.Database(MongoDatabase).Collection(MongoCollection + "_runs")
	found, err := runs.Find(ctx, bson.M{"_id.name": bson.Binary{Data: []byte(key)}})
	if err != nil {
		return nil, err
	}
	var docs []struct {
		ID    struct{ Run bson.Binary } `bson:"_id"`
		Token int64
	}
	if err := found.All(ctx, &docs); err != nil {
		return nil, err
	}
	var list []history.Event
	for _, d := range docs {
		list = append(list, history.Event{Kind: history.Mark, Run: string(d.ID.Run.Data), Token: d.Token})
	}
	return list, nil
}

// tune: a client that is killed in a guarded transaction of its own keeps the key from
// everybody until the server ends that, by default after a minute. Rounds are shorter.
func (b *mongoBackend) tune(ctx context.Context) error {
	return b.client.Database("admin").RunCommand(ctx, bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: 3}}).Err()
}

func (b *mongoBackend) registers(ctx context.Context, _ string, keys []string) error {
	for _, key := range keys {
		_, err := b.register.UpdateOne(ctx, bson.M{"_id": key}, bson.M{"$setOnInsert": bson.M{"value": int64(0), "fence": int64(0)}}, options.UpdateOne().SetUpsert(true))
		if err != nil {
			return err
		}
	}
	return nil
}

// ledger is in the order of the numbers: documents have no other, and a transaction
// that did not see the one before it shows as a number that is there twice.
func (b *mongoBackend) ledger(ctx context.Context, _, key string) ([]history.Event, error) {
	found, err := b.rows.Find(ctx, bson.M{"key": key}, options.Find().SetSort(bson.D{{Key: "n", Value: 1}, {Key: "_id", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var docs []struct {
		N, Token int64
		Client   string
	}
	if err := found.All(ctx, &docs); err != nil {
		return nil, err
	}
	var list []history.Event
	for _, d := range docs {
		list = append(list, history.Event{Value: d.N, Token: d.Token, Owner: d.Client})
	}
	return list, nil
}
