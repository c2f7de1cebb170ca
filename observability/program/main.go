// Command program is what the tests of this folder let Prometheus scrape: callers that wait
// for, hold and lose locks in memory, with all metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowlock/rowlock"
	promrowlock "github.com/rowlock/rowlock/adapters/prom"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of /metrics")
	flag.Parse()
	if err := run(context.Background(), *listen); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen string) error {
	store := memory.New()
	observer, metrics := promrowlock.New(promrowlock.Options{})
	locks, err := rowlock.New(flaky{store}, rowlock.Options{
		Name: "jobs", KeyName: rowlock.UpTo("/"), TTL: 2 * time.Second, Observers: []*rowlock.Observer{observer},
	})
	if err != nil {
		return err
	}
	keys, err := promrowlock.NewDBCollector(locks, promrowlock.DBOptions{MaxAge: -1})
	if err != nil {
		return err
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics, keys)
	for i := range 3 {
		go work(ctx, locks, fmt.Sprint("import/", i%2))
	}
	go hold(ctx, locks)
	go lose(ctx, store, locks)
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, nil)
}

// flaky is a store that answers about one key never.
type flaky struct{ *memory.Store }

const broken = "broken"

// Inspect implements driver.Store.
func (f flaky) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	if slices.Contains(keys, broken) {
		return nil, errors.New("connection refused")
	}
	return f.Store.Inspect(ctx, keys)
}

// work takes turns with others.
func work(ctx context.Context, locks *rowlock.Client, key string) {
	for {
		_ = rowlock.Do(ctx, locks, key, func(context.Context, *rowlock.Lease) error {
			time.Sleep(50 * time.Millisecond)
			return nil
		})
		if l, err := locks.TryAcquire(ctx, "report"); err == nil { // the leader has not begun
			_ = l.Release(ctx)
		}
	}
}

// hold keeps a lock for good.
func hold(ctx context.Context, locks *rowlock.Client) {
	err := rowlock.Lead(ctx, locks, "report", func(ctx context.Context, _ *rowlock.Lease) error {
		<-ctx.Done()
		return nil
	})
	if ctx.Err() == nil {
		log.Print(err)
	}
}

// lose loses a lease now and then.
func lose(ctx context.Context, store *memory.Store, locks *rowlock.Client) {
	for n := 0; ; n++ {
		key := fmt.Sprint("lost/", n)
		l, err := locks.Acquire(ctx, key)
		if err != nil {
			log.Print(err)
			return
		}
		time.Sleep(3 * time.Second)
		_, _ = locks.Inspect(ctx, broken)
		store.Expire(key)
		<-l.Done()
		_ = l.Release(ctx)
	}
}
