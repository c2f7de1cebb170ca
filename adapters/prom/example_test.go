package promrowlock_test

import (
	"context"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowlock/rowlock"
	promrowlock "github.com/rowlock/rowlock/adapters/prom"
	"github.com/rowlock/rowlock/memory"
)

func ExampleNew() {
	store := memory.New() // in a program that of mysqllock or mongolock
	observer, metrics := promrowlock.New(promrowlock.Options{})
	prometheus.MustRegister(metrics)
	locks, err := rowlock.New(store, rowlock.Options{
		Name:      "jobs",            // label client
		KeyName:   rowlock.UpTo("/"), // label lock: "import/42" is "import"
		Observers: []*rowlock.Observer{observer},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(context.Background())
	http.Handle("/metrics", promhttp.Handler())
	// Output:
}

func ExampleNewDBCollector() {
	store := memory.New()
	keys, err := promrowlock.NewDBCollector(store, promrowlock.DBOptions{Prefixes: []string{"import/", "report"}})
	if err != nil {
		log.Fatal(err)
	}
	prometheus.MustRegister(keys)
	// Output:
}
