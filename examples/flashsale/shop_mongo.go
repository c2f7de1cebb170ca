package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mongolock "github.com/rowlock/rowlock/mongo"
)

// mongoShop is the shop in MongoDB: a document with the stock, a document an
// order.
type mongoShop struct {
	client        *mongo.Client
	db            *mongo.Database
	stock, orders *mongo.Collection
	prices        *mongo.Collection
}

func openMongo(server servers.Server, space string) (*mongoShop, error) {
	client, err := server.Mongo(shopConnections)
	if err != nil {
		return nil, err
	}
	db := client.Database(space, options.Database().SetWriteConcern(writeconcern.Majority()))
	return &mongoShop{client: client, db: db, stock: db.Collection("stock"), orders: db.Collection("orders"), prices: db.Collection("prices")}, nil
}

type (
	mongoStock struct {
		Item  int `bson:"_id"`
		Stock int `bson:"stock"`
	}
	mongoOrder struct {
		Buyer int `bson:"buyer"`
		Item  int `bson:"item"`
	}
)

// theItem is the filter for the item on sale.
var theItem = bson.D{{Key: "_id", Value: 1}}

func (s *mongoShop) Fill(ctx context.Context, n int) error {
	_, err := s.orders.DeleteMany(ctx, bson.D{})
	if err == nil {
		_, err = s.stock.ReplaceOne(ctx, theItem, mongoStock{Item: 1, Stock: n}, options.Replace().SetUpsert(true))
	}
	if err == nil {
		err = s.putPrice(ctx, "item:1", newPrice) // makes the collection
	}
	if err != nil {
		return fmt.Errorf("fill the shop: %w", err)
	}
	return nil
}

func (s *mongoShop) Buy(ctx context.Context, buyer int, think time.Duration) (bool, error) {
	var item mongoStock
	if err := s.stock.FindOne(ctx, theItem).Decode(&item); err != nil {
		return false, err
	}
	if item.Stock <= 0 {
		return false, nil
	}
	if err := timed.Sleep(ctx, think); err != nil {
		return false, err
	}
	less := bson.D{{Key: "$set", Value: bson.D{{Key: "stock", Value: item.Stock - 1}}}}
	if _, err := s.stock.UpdateOne(ctx, theItem, less); err != nil {
		return false, err
	}
	_, err := s.orders.InsertOne(ctx, mongoOrder{Buyer: buyer, Item: item.Stock})
	return err == nil, err
}

func (s *mongoShop) Count(ctx context.Context) (b books, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("count the orders: %w", err)
		}
	}()
	found, err := s.orders.Find(ctx, bson.D{})
	if err != nil {
		return b, err
	}
	var orders []mongoOrder
	if err := found.All(ctx, &orders); err != nil {
		return b, err
	}
	items := map[int]bool{}
	for _, o := range orders {
		items[o.Item] = true
	}
	var item mongoStock
	err = s.stock.FindOne(ctx, theItem).Decode(&item)
	return books{Orders: len(orders), Items: len(items), Stock: item.Stock}, err
}

func (s *mongoShop) SetPrice(ctx context.Context, key string, price int) error {
	return s.client.UseSession(ctx, func(ctx context.Context) error {
		_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) {
			return nil, s.putPrice(ctx, key, price)
		})
		return err
	})
}

func (s *mongoShop) SetPriceGuarded(ctx context.Context, locks lockStore, lease *rowlock.Lease, key string, price int) error {
	return locks.(*mongolock.Store).InTx(ctx, lease, func(ctx context.Context) error { return s.putPrice(ctx, key, price) })
}

func (s *mongoShop) putPrice(ctx context.Context, key string, price int) error {
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "price", Value: price}}}}
	_, err := s.prices.UpdateOne(ctx, bson.D{{Key: "_id", Value: key}}, set, options.UpdateOne().SetUpsert(true))
	return err
}

func (s *mongoShop) Price(ctx context.Context, key string) (int, error) {
	var found struct {
		Price int `bson:"price"`
	}
	err := s.prices.FindOne(ctx, bson.D{{Key: "_id", Value: key}}).Decode(&found)
	return found.Price, err
}

func (s *mongoShop) Locks(strategy string) (lockStore, error) {
	if strategy != findAndModify {
		return nil, fmt.Errorf("strategy %q: MongoDB has %s only", strategy, findAndModify)
	}
	return mongolock.New(s.db.Collection("locks"), mongolock.Options{})
}

func (s *mongoShop) Close() error {
	if err := timed.Within(2*time.Second, s.client.Disconnect); err != nil {
		return fmt.Errorf("close the shop: %w", err)
	}
	return nil
}
