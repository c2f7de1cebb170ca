package main

import (
	"context"
	"time"
)

// scenario does to the programs what the picture shows, from a moment until all of it is over.
func scenario(ctx context.Context, from time.Time, f *fleet, server *proxy) ([]event, error) {
	var (
		events []event
		thaw   func() error
		over   func()
	)
	at := func() float64 { return time.Since(from).Round(100 * time.Millisecond).Seconds() }
	begin := func(text string) { events = append(events, event{From: at(), Text: text}) }
	end := func() { events[len(events)-1].To = at() }
	for _, do := range []struct {
		second float64
		what   func() error
	}{
		{10, func() error {
			begin("24 callers of 3 shops want " + daily + ", each for 0.5 s, and wait for at most 9 s")
			return f.say("shop", many)
		}},
		{35, func() error {
			begin("the leader of jobs is killed; its lease ends within 3 s")
			return f.kill()
		}},
		{42, func() error {
			begin("another of jobs starts")
			return f.start("jobs")
		}},
		{52, func() (err error) {
			begin("the leader of jobs is stopped for longer than its lease")
			thaw, err = f.freeze()
			return err
		}},
		{60, func() error {
			end()
			return thaw()
		}},
		{72, func() error {
			begin("MySQL is not reached: no byte comes or goes")
			over = server.silence()
			return nil
		}},
		{80, func() error {
			end()
			over()
			return nil
		}},
		{100, func() error {
			begin("an operator frees " + weekly + ", which is held all the time")
			return f.say("admin", force)
		}},
		{duration.Seconds(), func() error { return nil }},
	} {
		sleep(ctx, time.Until(from.Add(time.Duration(do.second*float64(time.Second)))))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := do.what(); err != nil {
			return nil, err
		}
	}
	return events, nil
}
