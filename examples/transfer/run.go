package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// accountsOf is the table of the accounts.
func accountsOf(space string) string { return space + "_accounts" }

// run makes the transfers both ways and prints what came of them. The error says what went
// wrong where the locks were taken all at once, or that money was lost.
func (p *plan) run(ctx context.Context, w io.Writer) error {
	space := servers.NewSpace("transfer")
	defer p.Backend.Drop("transfer", space)
	db, err := p.Backend.SQL(2)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := p.prepare(ctx, db, space); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	wanted := p.Programs * p.Tellers * p.Transfers
	fmt.Fprintf(w, "%d programs on %s, strategy %s, %d goroutines in each, %d accounts\n\n",
		p.Programs, p.Backend.Name(), p.Strategy, p.Tellers, p.Accounts)

	fmt.Fprintln(w, "one by one: Acquire the first account, then the second, in the order of the transfer; give up after", p.Patience)
	r, took, err := p.round(ctx, space, true)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  %d transfers in %.1f s, then %d of %d goroutines waited for each other until they gave up\n", r.Done, took.Seconds(), r.GivenUp, p.Programs*p.Tellers)
	if r.GivenUp == 0 {
		fmt.Fprintln(w, "  (no deadlock this time: that was luck)")
	}

	fmt.Fprintln(w, "\nall at once: AcquireAll of both accounts")
	r, took, err = p.round(ctx, space, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  %d of %d transfers in %.1f s, %d given up\n\n", r.Done, wanted, took.Seconds(), r.GivenUp)

	var total int
	if err := db.QueryRowContext(ctx, "SELECT SUM(balance) FROM "+accountsOf(space)).Scan(&total); err != nil {
		return err
	}
	fmt.Fprintf(w, "The accounts have %d in all, as at the beginning: %t.\n", total, total == p.Accounts*p.Start)
	switch {
	case total != p.Accounts*p.Start:
		return fmt.Errorf("the accounts have %d in all, %d at the beginning", total, p.Accounts*p.Start)
	case r.Done != wanted:
		return fmt.Errorf("%d of %d transfers were made with AcquireAll", r.Done, wanted)
	}
	return nil
}

// prepare makes the lock tables, as a deployment would, and the accounts.
func (p *plan) prepare(ctx context.Context, db *sql.DB, space string) error {
	store, err := p.Backend.OpenStore(mysqllock.Options{Prefix: space, Strategy: p.Strategy})
	if err != nil {
		return err
	}
	if err := errors.Join(store.Migrate(ctx), store.Close()); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE "+accountsOf(space)+" (id INT PRIMARY KEY, balance INT NOT NULL) ENGINE=InnoDB"); err != nil {
		return err
	}
	for account := range p.Accounts {
		if _, err := db.ExecContext(ctx, "INSERT INTO "+accountsOf(space)+" VALUES (?,?)", account, p.Start); err != nil {
			return err
		}
	}
	return nil
}

// round starts the programs and adds up what they say.
func (p *plan) round(ctx context.Context, space string, oneByOne bool) (sum result, took time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	began := time.Now()
	var programs []*fleet.Process
	defer func() {
		cancel() // kills what still runs
		fleet.Reap(programs...)
	}()
	for range p.Programs {
		one, err := fleet.Start(ctx, roleTeller, task{Plan: *p, Space: space, OneByOne: oneByOne})
		if err != nil {
			return sum, 0, err
		}
		programs = append(programs, one)
	}
	for _, one := range programs {
		var r result
		if err := one.Receive(&r); err != nil {
			return sum, 0, err
		}
		sum.Done += r.Done
		sum.GivenUp += r.GivenUp
	}
	took = time.Since(began)
	for _, one := range programs {
		err = errors.Join(err, one.Close())
	}
	return sum, took, err
}
