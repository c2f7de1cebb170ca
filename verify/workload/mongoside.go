package workload

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/verify/history"
)

func (b *mongoBackend) prepare(ctx context.Context) error {
	_, err := b.rows.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "key", Value: 1}, {Key: "n", Value: 1}}})
	return err
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
