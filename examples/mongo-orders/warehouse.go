package main

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock/examples/internal/servers"
)

// warehouse is the business's own data. Nothing in it keeps an order from being
// fulfilled twice.
type warehouse struct {
	client *mongo.Client
	db     *mongo.Database
	inbox  *mongo.Collection // orders that came; one that is done is removed
	stock  *mongo.Collection // a document a product
	ledger *mongo.Collection // a document for each movement of units
}

// delivery is an order as it came: a tenth of the orders comes twice.
type delivery struct {
	ID      int `bson:"_id"`
	Order   int `bson:"order"`
	Product int `bson:"product"`
	Units   int `bson:"units"`
}

type product struct {
	ID   int `bson:"_id"`
	Left int `bson:"left"` // units in stock
}

// movement is a line of the ledger: units that came in are positive, those that
// went out with an order negative.
type movement struct {
	Product int   `bson:"product"`
	Order   int   `bson:"order,omitempty"`
	Units   int   `bson:"units"`
	Worker  int   `bson:"worker"`
	Token   int64 `bson:"token"`
}

func openWarehouse(space string) (*warehouse, error) {
	client, err := servers.MongoDB.Mongo(20)
	if err != nil {
		return nil, err
	}
	db := client.Database(space, options.Database().SetWriteConcern(writeconcern.Majority()))
	return &warehouse{client: client, db: db, inbox: db.Collection("inbox"), stock: db.Collection("stock"), ledger: db.Collection("ledger")}, nil
}

// fill begins with empty shelves and n orders in the inbox. It returns how many
// units are ordered.
func (w *warehouse) fill(ctx context.Context, n, products int) (units int, err error) {
	var inbox, stock []any
	for order := 1; order <= n; order++ {
		d := delivery{ID: len(inbox) + 1, Order: order, Product: 1 + order%products, Units: 1 + order%7}
		units += d.Units
		inbox = append(inbox, d)
		if order%10 == 0 { // it comes twice
			d.ID++
			inbox = append(inbox, d)
		}
	}
	for id := 1; id <= products; id++ {
		stock = append(stock, product{ID: id})
	}
	_, err = w.inbox.InsertMany(ctx, inbox)
	if err == nil {
		_, err = w.stock.InsertMany(ctx, stock)
	}
	if err == nil { // the transactions find it there
		err = w.db.CreateCollection(ctx, w.ledger.Name())
	}
	if err == nil {
		_, err = w.inbox.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "product", Value: 1}, {Key: "_id", Value: 1}}})
	}
	if err != nil {
		return 0, fmt.Errorf("open the warehouse: %w", err)
	}
	return units, nil
}

// next are the oldest deliveries for a product.
func (w *warehouse) next(ctx context.Context, product int, limit int64) (list []delivery, err error) {
	found, err := w.inbox.Find(ctx, bson.D{{Key: "product", Value: product}}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(limit))
	if err != nil {
		return nil, err
	}
	return list, found.All(ctx, &list)
}

// done takes a delivery out of the inbox.
func (w *warehouse) done(ctx context.Context, d delivery) error {
	_, err := w.inbox.DeleteOne(ctx, bson.D{{Key: "_id", Value: d.ID}})
	return err
}

// left is how many units of a product are in stock.
func (w *warehouse) left(ctx context.Context, id int) (int, error) {
	var p product
	err := w.stock.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(&p)
	return p.Left, err
}

// move changes the stock and writes the ledger, in the transaction of ctx.
func (w *warehouse) move(ctx context.Context, m movement) error {
	_, err := w.stock.UpdateOne(ctx, bson.D{{Key: "_id", Value: m.Product}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "left", Value: m.Units}}}})
	if err != nil {
		return err
	}
	_, err = w.ledger.InsertOne(ctx, m)
	return err
}

func (w *warehouse) close(ctx context.Context) error {
	if err := w.client.Disconnect(ctx); err != nil && !errors.Is(err, mongo.ErrClientDisconnected) {
		return fmt.Errorf("close the warehouse: %w", err)
	}
	return nil
}
