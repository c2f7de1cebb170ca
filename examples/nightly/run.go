package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// limit ends a night that does not come to its end.
const limit = 4 * time.Minute

// run runs a night for each strategy and prints the books. The error says which
// are wrong.
func (d *demo) run(ctx context.Context, w io.Writer) error {
	about, err := d.Server.About(ctx)
	if err != nil {
		return err
	}
	how := "each chunk is a run of Once"
	if d.Without {
		how = "WITHOUT the guard: a lock and transactions"
	}
	fmt.Fprintf(w, "%d accounts in %d chunks on %s %s, %d pods, TTL %v\n%s\n",
		d.Accounts, (d.Accounts+d.Chunk-1)/d.Chunk, about.Server, about.Version, d.Pods, d.TTL, how)
	var nights []*night
	for _, s := range d.Strategies {
		n, err := d.night(ctx, w, s)
		if err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
		nights = append(nights, n)
	}
	return d.verdict(w, nights)
}

// night runs one night with its own tables.
func (d *demo) night(ctx context.Context, w io.Writer, strategy mysqllock.Strategy) (n *night, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the night is not over after %v", limit))
	defer cancel()
	space := servers.NewSpace("nightly")
	defer d.Server.Drop("nightly", space)
	store, err := d.Server.OpenStore(mysqllock.Options{Strategy: strategy, Prefix: space})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Migrate(ctx); err != nil { // once, as a deployment would
		return nil, fmt.Errorf("make the lock tables: %w", err)
	}
	link, stop, err := servePage(store, d.Page, "The night of strategy "+strategy.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	bank, err := openBank(d.Server, space, 0)
	if err != nil {
		return nil, err
	}
	defer bank.db.Close()
	expected, err := bank.fill(ctx, d.Accounts)
	if err != nil {
		return nil, err
	}

	task := podTask{Server: d.Server, Strategy: strategy, Space: space, TTL: d.TTL, Without: d.Without,
		Chunks: chunks(time.Now().Format(time.DateOnly), d.Accounts, d.Chunk)}
	n = newNight(w, strategy, len(task.Chunks))
	n.Say("who has the lock: %s", link)
	crew, err := fleet.NewCrew[event](ctx, rolePod, d.Pods, func(pod int) any {
		task.Pod = pod
		return task
	}, fleet.Faults(d.Kills, d.Freezes, d.freeze(), len(task.Chunks)))
	if err != nil {
		return nil, err
	}
	defer crew.End()
	err = crew.Run(n.Log, func(pod int, e event) {
		n.heard(pod, e)
		if e.Kind == posted {
			crew.Progress(pod, e.Chunk, 2*n.pace+time.Millisecond)
		}
	}, n.over)
	if err != nil {
		return nil, err
	}
	n.books, err = bank.audit(ctx, d.Accounts, expected)
	return n, err
}
