package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// limit ends a run that does not come to its end.
const limit = 4 * time.Minute

// run lets the shop sell and the relays send, and prints what came of it. The error
// says what is wrong.
func (d *demo) run(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not everything is sent after %v", limit))
	defer cancel()
	about, err := d.Server.About(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d orders on %s %s, %d relays, strategy %s, TTL %v\n\n", d.Orders, about.Server, about.Version, d.Relays, d.Strategy, d.TTL)
	space := servers.NewSpace("outbox")
	defer d.Server.Drop("outbox", space)
	store, err := d.Server.OpenStore(mysqllock.Options{Strategy: d.Strategy, Prefix: space})
	if err != nil {
		return err
	}
	if err := errors.Join(store.Migrate(ctx), store.Close()); err != nil { // once, as a deployment would
		return fmt.Errorf("make the lock tables: %w", err)
	}
	shop, err := openShop(d.Server, space)
	if err != nil {
		return err
	}
	defer shop.db.Close()
	if err := shop.makeTables(ctx); err != nil {
		return err
	}
	other := &receiver{}
	server := httptest.NewServer(other)
	defer server.Close()

	task := relayTask{Server: d.Server, Strategy: d.Strategy, Space: space, Receiver: server.URL, TTL: d.TTL}
	crew, err := fleet.NewCrew[event](ctx, roleRelay, d.Relays, func(int) any { return task },
		fleet.Faults(d.Kills, d.Freezes, d.freeze(), d.Orders))
	if err != nil {
		return err
	}
	defer crew.End()
	sold := make(chan error, 1)
	go func() { sold <- shop.sell(ctx, d.Orders) }()

	r := newReport(w, int64(d.Orders))
	err = crew.Run(r.Log, func(relay int, e event) {
		r.heard(relay, e)
		if e.Kind == sent {
			crew.Progress(relay, int(e.Last), 2*r.pace+time.Millisecond)
		}
	}, r.over)
	if err != nil {
		return err
	}
	if err := <-sold; err != nil {
		return fmt.Errorf("sell: %w", err)
	}
	b, err := shop.audit(ctx)
	if err != nil {
		return err
	}
	return r.verdict(w, b, other)
}
