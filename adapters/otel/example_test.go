package otelrowlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rowlock/rowlock"
	otelrowlock "github.com/rowlock/rowlock/adapters/otel"
	"github.com/rowlock/rowlock/memory"
)

func ExampleNew() {
	store := memory.New() // in a program that of mysqllock or mongolock
	observer, err := otelrowlock.New(otelrowlock.Config{System: "mysql", HoldSpans: true})
	if err != nil {
		log.Fatal(err)
	}
	locks, err := rowlock.New(store, rowlock.Options{
		Name:      "jobs",            // rowlock.client
		KeyName:   rowlock.UpTo("/"), // rowlock.lock: "import/42" is "import"
		Observers: []*rowlock.Observer{observer},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(context.Background())

	err = rowlock.Do(context.Background(), locks, "import/42", func(ctx context.Context, lease *rowlock.Lease) error {
		fmt.Println("spans of ctx are under rowlock.hold")
		return nil
	})
	fmt.Println(err)
	// Output:
	// spans of ctx are under rowlock.hold
	// <nil>
}
