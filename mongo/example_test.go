package mongolock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	mongolock "github.com/rowlock/rowlock/mongo"
)

// The quickstart: one program at a time does the work.
func Example() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("ROWLOCK_TEST_MONGO_URI")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	store, err := mongolock.New(client.Database("app").Collection("locks"), mongolock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil { // creates the collections that are missing
		log.Fatal(err)
	}
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
		fmt.Println("nobody else makes the report now")
		return ctx.Err() // ctx ends if the lock is lost
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nobody else makes the report now
}

// connect is what every program does: a Store, and a Client with its leases.
func connect(ctx context.Context) (*mongo.Client, *mongolock.Store, *rowlock.Client) {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("ROWLOCK_TEST_MONGO_URI")))
	if err != nil {
		log.Fatal(err)
	}
	store, err := mongolock.New(client.Database("app").Collection("locks"), mongolock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return client, store, locks
}

// A transaction that cannot commit once another has the lock.
func ExampleStore_InTx() {
	ctx := context.Background()
	client, store, locks := connect(ctx)
	defer client.Disconnect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	stock := client.Database("app").Collection("stock")

	err := rowlock.Do(ctx, locks, "stock", func(ctx context.Context, lease *rowlock.Lease) error {
		err := store.InTx(ctx, lease, func(ctx context.Context) error { // may be called again
			_, err := stock.UpdateOne(ctx, bson.M{"_id": "apples"}, bson.M{"$set": bson.M{"n": 3}}, options.UpdateOne().SetUpsert(true))
			return err
		})
		switch { // the error of InTx, not that of Do: a lock that is lost after the commit is an error of Do
		case errors.Is(err, rowlock.ErrLost):
			fmt.Println("somebody else has the lock now; nothing was written")
		case err == nil:
			fmt.Println("written")
		}
		return err
	}, rowlock.Guarded()) // without it InTx refuses the lease
	if err != nil {
		log.Fatal(err)
	}
	// Output: written
}

// A nightly job that takes effect once, however many programs start it, and however
// often they are killed.
func ExampleStore_Once() {
	ctx := context.Background()
	client, store, locks := connect(ctx)
	defer client.Disconnect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	bills := client.Database("app").Collection("bills")
	night := "2026-07-01 " + bson.NewObjectID().Hex() // a new one, so that this example can run twice

	for range 2 {
		err := rowlock.Do(ctx, locks, "billing", func(ctx context.Context, lease *rowlock.Lease) error {
			return store.Once(ctx, lease, night, func(ctx context.Context) error {
				_, err := bills.InsertOne(ctx, bson.M{"night": night, "sum": 42})
				return err
			})
		}, rowlock.Guarded())
		switch {
		case err == nil:
			fmt.Println("done")
		case errors.Is(err, rowlock.ErrAlreadyRan):
			fmt.Println("it was done before")
		default:
			log.Fatal(err)
		}
	}
	// Output:
	// done
	// it was done before
}

// A guard in a transaction of one's own.
func ExampleStore_Guard() {
	ctx := context.Background()
	client, store, locks := connect(ctx)
	defer client.Disconnect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	stock := client.Database("app").Collection("stock")

	lease, err := locks.Acquire(ctx, "stock", rowlock.Guarded())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	session, err := client.StartSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) { // ctx carries the session
		if err := store.Guard(ctx, lease); err != nil {
			return nil, err // WithTransaction begins again after a conflict, and ends if the lock is lost
		}
		return stock.UpdateOne(ctx, bson.M{"_id": "pears"}, bson.M{"$set": bson.M{"n": 5}}, options.UpdateOne().SetUpsert(true))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("written")
	// Output: written
}

// A lock that lives as long as a transaction.
func ExampleStore_LockTx() {
	ctx := context.Background()
	client, store, locks := connect(ctx)
	defer client.Disconnect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	stock := client.Database("app").Collection("stock")

	session, err := client.StartSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.EndSession(ctx)
	if err := store.WaitTx(ctx, "plums"); err != nil { // not needed, but spares tries where the key is busy
		log.Fatal(err)
	}
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		if err := store.LockTx(ctx, "plums"); err != nil { // first of all
			return nil, err
		}
		return stock.UpdateOne(ctx, bson.M{"_id": "plums"}, bson.M{"$set": bson.M{"n": 7}}, options.UpdateOne().SetUpsert(true))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("written")
	// Output: written
}
