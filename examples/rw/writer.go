package main

import (
	"context"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/timed"
)

// playWriter is the program that writes a new list every night.
func playWriter(ctx context.Context, parent *fleet.Parent) error {
	return play(ctx, parent, (*shop).writer)
}

func (s *shop) writer(ctx, wait context.Context) (sum result, err error) {
	for timed.Sleep(wait, s.Plan.Night) == nil {
		waited, err := s.locked(ctx, wait, s.write) // exclusive: beside no reader
		switch {
		case err == nil:
			sum.Lists++
			sum.Waits = append(sum.Waits, waited.Seconds())
		case wait.Err() == nil:
			return sum, err
		}
	}
	return sum, nil
}

// write makes the next edition of the list, page by page: each is committed by itself, as is
// done with a list that is too long for one transaction.
func (s *shop) write(ctx context.Context) error {
	for page := range s.Plan.Pages {
		_, err := s.db.ExecContext(ctx, "UPDATE "+tableOf(s.Space)+" SET edition=edition+1, price=price+1 WHERE article BETWEEN ? AND ?",
			page*s.Plan.Page, (page+1)*s.Plan.Page-1)
		if err != nil {
			return err
		}
		if err := timed.Sleep(ctx, s.Plan.Pause); err != nil {
			return err
		}
	}
	return nil
}
