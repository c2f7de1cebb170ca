package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/table"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// tableOf is the table of the prices.
func tableOf(space string) string { return space + "_prices" }

// run reads and writes the list in each way, and prints what came of it. The error says where
// a list was torn although there was a lock, or where nothing was read or written.
func (p *plan) run(ctx context.Context, w io.Writer) error {
	space := servers.NewSpace("rw")
	defer p.Backend.Drop("rw", space)
	if err := p.prepare(ctx, space); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	fmt.Fprintf(w, "%d programs × %d readers on %s, strategy %s; a new list %v after the last; each way for %v\n\n",
		p.Programs, p.Readers, p.Backend.Name(), p.Strategy, p.Night, p.Span)

	out := table.Table{Left: 1}
	out.Add("lock of the readers", "lists read/s", "torn", "wait p50", "p99", "longest", "lists written", "wait p50", "longest")
	var wrong []error
	for _, how := range []way{without, alone, shared} {
		readers, writer, err := p.round(ctx, task{Plan: *p, Space: space, Way: how})
		if err != nil {
			return fmt.Errorf("%s: %w", how, err)
		}
		row := []any{how, fmt.Sprintf("%.0f", float64(readers.Lists)/p.Span.Seconds()), readers.Torn}
		row = append(row, readers.waits(0.5, 0.99, 1)...)
		row = append(append(row, writer.Lists), writer.waits(0.5, 1)...)
		out.Add(row...)
		if how == without {
			continue
		}
		if readers.Torn > 0 {
			wrong = append(wrong, fmt.Errorf("%s: %d of %d lists had prices of two", how, readers.Torn, readers.Lists))
		}
		if readers.Lists == 0 || writer.Lists == 0 {
			wrong = append(wrong, fmt.Errorf("%s: %d lists were read and %d written: one side got no turn", how, readers.Lists, writer.Lists))
		}
	}
	out.Print(w)
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	fmt.Fprintln(w, "\nUnder a lock nobody read a torn list, and readers and writer got their turns.")
	return nil
}

// waits are quantiles, for the table.
func (r *result) waits(quantiles ...float64) (cells []any) {
	slices.Sort(r.Waits)
	for _, q := range quantiles {
		cell := "-"
		if n := len(r.Waits); n > 0 {
			cell = fmt.Sprintf("%.1f ms", 1000*r.Waits[int(q*float64(n-1))])
		}
		cells = append(cells, cell)
	}
	return cells
}

// prepare makes the lock tables, as a deployment would, and the list.
func (p *plan) prepare(ctx context.Context, space string) error {
	store, err := p.Backend.OpenStore(mysqllock.Options{Prefix: space, Strategy: p.Strategy})
	if err != nil {
		return err
	}
	if err := errors.Join(store.Migrate(ctx), store.Close()); err != nil {
		return err
	}
	db, err := p.Backend.SQL(1)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE "+tableOf(space)+" (article INT PRIMARY KEY, price INT NOT NULL, edition INT NOT NULL) ENGINE=InnoDB"); err != nil {
		return err
	}
	var rows []string
	for article := range p.Pages * p.Page {
		rows = append(rows, fmt.Sprintf("(%d,100,1)", article))
	}
	_, err = db.ExecContext(ctx, "INSERT INTO "+tableOf(space)+" VALUES "+strings.Join(rows, ","))
	return err
}

// round lets the programs begin together, and adds up what they say.
func (p *plan) round(ctx context.Context, t task) (readers, writer result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute+2*p.Span, errors.New("a program did not end"))
	var programs []*fleet.Process
	defer func() {
		cancel() // kills what still runs
		fleet.Reap(programs...)
	}()
	for i := range p.Programs + 1 {
		role := roleReaders
		if i == p.Programs {
			role = roleWriter
		}
		one, err := fleet.Start(ctx, role, t)
		if err != nil {
			return readers, writer, err
		}
		programs = append(programs, one)
	}
	for _, one := range programs {
		var ready string
		if err := one.Receive(&ready); err != nil {
			return readers, writer, err
		}
	}
	for _, one := range programs {
		if err := one.Send("begin"); err != nil {
			return readers, writer, err
		}
	}
	for i, one := range programs {
		var r result
		if err := one.Receive(&r); err != nil {
			return readers, writer, err
		}
		sum := &readers
		if i == p.Programs {
			sum = &writer
		}
		sum.Lists += r.Lists
		sum.Torn += r.Torn
		sum.Waits = append(sum.Waits, r.Waits...)
	}
	for _, one := range programs {
		err = errors.Join(err, one.Close())
	}
	return readers, writer, err
}
